# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects in lists, OpenShift templates, and objects of operators that hold manifests."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import shown
from ..model.json_pointer import JSON, Pointer
from .documents import Document
from .template_places import group_of

_TEMPLATE_GROUPS = ("template.openshift.io", "")
"""The second one is that of OpenShift before 3.6 (apiVersion v1)."""


_HOLDERS = {
    ("ManifestWork", "work.open-cluster-management.io"): Pointer(("spec", "workload", "manifests")),
    ("ClusterServiceVersion", "operators.coreos.com"): Pointer(
        ("spec", "install", "spec", "deployments")
    ),
}
"""Where objects of others hold manifests (open-cluster-management-io/api, work/v1/types.go;
operator-framework/api, pkg/operators/v1alpha1/clusterserviceversion_types.go)."""


def listed_objects(document: Document) -> t.Iterator[Document]:
    """The document, or each object of one that is a plain list of objects, as scripts write it with JSON."""
    value = document.value
    is_list = isinstance(value, list) and bool(value) and not document.reason
    names = ("apiVersion", "kind")
    if not is_list or not all(
        isinstance(x, dict) and all(isinstance(x.get(name), str) for name in names) for x in value
    ):
        yield document
        return
    for number, item in enumerate(value):
        yield replace(document, where=f"{document.where}[{number}]", value=item)


def opened(
    where: str, item: dict[str, JSON], faults: list[InputError]
) -> t.Iterator[tuple[str, dict[str, JSON]]]:
    """The object, or those in it, with the place of each. Nulls are left out, and what is no object is noted."""
    kind, contents, place = str(item.get("kind") or ""), None, ""
    if kind.endswith("List") and isinstance(item.get("items"), list):
        # an item of a DeploymentList and the like has the kind of the list, if it names none
        contents, place = item["items"], "items"
        if own := kind[: -len("List")]:
            contents = [
                {
                    "apiVersion": item.get("apiVersion"),
                    **content,
                    "kind": content.get("kind") or own,
                }
                if isinstance(content, dict)
                else content
                for content in contents
            ]
    elif (
        kind == "Template"
        and group_of(item) in _TEMPLATE_GROUPS
        and isinstance(item.get("objects"), list)
    ):
        contents, place = _processed(item), "objects"
    elif (holder := _HOLDERS.get((kind, group_of(item)))) and isinstance(
        held := holder.read(item, None), list
    ):
        contents, place = held, ".".join(holder.parts)
        if kind == "ClusterServiceVersion":
            contents = [_of_service_version(item, deployment) for deployment in held]
    if contents is None:
        yield where, item
        return
    for number, content in enumerate(contents):
        here = f"{where}, {place}[{number}]"
        if isinstance(content, dict):
            yield from opened(here, content, faults)
        elif content is not None:
            faults.append(InputError(here, f"must be a Kubernetes object, not {shown(content)}"))


def _of_service_version(holder: dict[str, JSON], held: JSON) -> JSON:
    """The Deployment that the Operator Lifecycle Manager makes (StrategyDeploymentSpec)."""
    if not isinstance(held, dict):
        return held
    metadata = holder["metadata"] if isinstance(holder.get("metadata"), dict) else {}
    made = {"name": held.get("name"), "labels": held.get("label")}
    if metadata.get("namespace"):
        made["namespace"] = metadata["namespace"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made,
        "spec": held.get("spec"),
    }


_TEXT = re.compile(r"\$\{(\w+)\}")
_WHOLE = re.compile(r"\$\{\{(\w+)\}\}")


def _processed(template: dict[str, JSON]) -> list[JSON]:
    """The objects with the parameters that have a value. `${NAME}` stands for text, and a whole `${{NAME}}` for
    a value of JSON (openshift/library-go, pkg/template/templateprocessing/templateprocessing.go)."""
    listed = template.get("parameters")
    values = {
        str(parameter.get("name")): str(parameter["value"])
        for parameter in (listed if isinstance(listed, list) else ())
        if isinstance(parameter, dict) and parameter.get("value") not in (None, "")
    }
    return [_filled(item, values) for item in template["objects"]]


def _filled(value: JSON, values: t.Mapping[str, str]) -> JSON:
    if isinstance(value, dict):
        return {_text(str(key), values): _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = _WHOLE.fullmatch(value)
    if whole and whole[1] in values:
        try:
            return json.loads(values[whole[1]])
        except ValueError:
            return values[whole[1]]
    return _text(value, values)


def _text(text: str, values: t.Mapping[str, str]) -> str:
    return _TEXT.sub(lambda found: values.get(found[1], found[0]), text)
