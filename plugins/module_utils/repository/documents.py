# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which documents of a repository are no manifests that lint checks, and why?

A file that is named by itself is meant to be a manifest. In a folder there are templates, patches and
configuration, too: these are passed over, and counted by reason.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.rendering import listed, one_line, plural
from .template_places import group_of, has_vms, template_of


@dataclass(frozen=True, slots=True)
class Document:
    """A value and where it is. `text` is what it was made of. `in_folder`: it was found in a folder, not
    named by itself. `reason`: it is passed over, whatever its value is, since `why`. `what` goes before `why`
    where the document is named by itself."""

    where: str
    value: JSON = None
    path: str = ""
    text: str = ""
    in_folder: bool = False
    reason: str = ""
    why: str = ""
    what: str = ""

    @property
    def fault(self) -> InputError:
        return InputError(self.where, f"{self.what}{self.why}")


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A document, or an object in it, that is not checked. `kind` and `fields`: for an object of another
    kind, with the placement fields that it has somewhere."""

    where: str
    reason: str
    why: str = ""
    kind: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    noun: str
    plural: str
    advice: str = ""


REASONS: t.Mapping[str, Reason] = {
    "helm_template": Reason("Helm template", "Helm templates", "lint the output of helm template"),
    "go_template": Reason("Go template", "Go templates", "lint the rendered files"),
    "jinja_template": Reason("Jinja template", "Jinja templates", "lint the rendered files"),
    "ytt_template": Reason("ytt template", "ytt templates", "lint the output of ytt"),
    "variables": Reason(
        "template with variables such as ${NAME}",
        "templates with variables such as ${NAME}",
        "lint the output of envsubst, or of what fills them in",
    ),
    "template": Reason("template with {{ }}", "templates with {{ }}", "lint the rendered files"),
    "patch": Reason(
        "patch or incomplete object",
        "patches or incomplete objects",
        "lint the output of kubectl kustomize",
    ),
    "no_kind": Reason(
        "document without apiVersion or kind", "documents without apiVersion or kind"
    ),
    "list": Reason("list that is no object", "lists that are no objects"),
    "text": Reason("text that is no object", "texts that are no objects"),
    "not_yaml": Reason("file that is not valid YAML", "files that are not valid YAML"),
    "unreadable": Reason("file that cannot be read", "files that cannot be read"),
    "link": Reason(
        "link to outside of the folder", "links to outside of the folder", "name the file itself"
    ),
    "no_file": Reason(
        "pipe, device or socket", "pipes, devices or sockets", "save its content in a file"
    ),
    "other_ending": Reason(
        "file with another ending", "files with other endings", "name the file itself, or render it"
    ),
    "vendored": Reason(
        "folder of vendored code", "folders of vendored code", "name the folder itself"
    ),
    "too_large": Reason("file that is too large", "files that are too large", "split it"),
    "other_kind": Reason("object of another kind", "objects of other kinds"),
    "no_placement": Reason("object without placement fields", "objects without placement fields"),
}
"""Why something is passed over, in the order of reports."""

_HELM = re.compile(
    r"\{\{[^}]*(?:\.Values|\.Release|\.Chart|\.Capabilities|\binclude\s|\btoYaml\b|nindent)"
)
_GO = re.compile(
    r"\{\{-?\s*(?:\.|\$|/\*|(?:if|else|end|range|with|define|template|block)\b)|\{\{-|-\}\}"
)
_YTT = re.compile(r"^\s*#@|\s#@ ", re.MULTILINE)
_VARIABLE = re.compile(
    r"\$\{\{?[A-Za-z_]|\$\([A-Z_]+\)|\$[A-Z_]{2}|@@?[A-Z_]{3,}@@?|<[A-Za-z][A-Za-z_-]*>"
)


def template_reason(text: str) -> str:
    """The reason, a key of REASONS, to pass over a text that looks like a template, "" for another text."""
    if "{%" in text:
        return "jinja_template"
    if "{{" in text:
        if _HELM.search(text):
            return "helm_template"
        return "go_template" if _GO.search(text) else "template"
    if _YTT.search(text):
        return "ytt_template"
    return "variables" if _VARIABLE.search(text) else ""


def reason_of(document: Document) -> tuple[str, str]:
    """Why a document is no object: the reason and what was seen; both empty for one that is."""
    value = document.value
    if document.reason:
        return document.reason, document.why
    if isinstance(value, list):
        changes = [item for item in value if isinstance(item, dict) and {"op", "path"} <= set(item)]
        return ("patch", "") if value and len(changes) == len(value) else ("list", "")
    if not isinstance(value, dict):
        return "text", ""
    kind, version = value.get("kind"), value.get("apiVersion")
    complete = isinstance(kind, str) and (isinstance(version, str) or not document.in_folder)
    return ("", "") if complete and kind else ("no_kind", "")


_FIELDS = (
    "affinity",
    "nodeAffinity",
    "nodePlacement",
    "nodeSelector",
    "nodeSelectorTerms",
    "podAffinity",
    "podAntiAffinity",
    "tolerations",
    "topologySpreadConstraints",
)
_SCHEMAS = ("CustomResourceDefinition", "APIResourceSchema")
"""Kinds that name the fields of others."""


def placement_fields(item: JSON) -> tuple[str, ...]:
    """The placement fields with a value that an object has somewhere."""
    found: set[str] = set()
    waiting = [item] if item.get("kind") not in _SCHEMAS else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            found.update(
                key for key in _FIELDS if isinstance(value.get(key), (dict, list)) and value[key]
            )
            waiting += value.values()
    return tuple(sorted(found))


def kind_of(item: t.Mapping[str, JSON]) -> str:
    """`Kafka.kafka.strimzi.io`, or `Service` of the core group."""
    group = group_of(item)
    return f"{item['kind']}.{group}" if group else str(item["kind"])


def is_incomplete(item: t.Mapping[str, JSON]) -> bool:
    """Whether the template lacks what the API server requires of each: it is a patch, or no whole object
    (core/v1 PodSpec, containers; kubevirt.io/v1 VirtualMachineInstanceSpec, domain)."""
    template = template_of(item)
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return spec is None
    return spec.get("domain" if has_vms(item) else "containers") is None


def summary(passed_over: t.Sequence[PassedOver]) -> str | None:
    """How many documents were not checked, by the reason, in one sentence. None if each that is no manifest of a
    workload has no placement fields."""
    by_reason: dict[str, list[PassedOver]] = {}
    for each in passed_over:
        by_reason.setdefault(each.reason, []).append(each)
    parts = []
    for reason, words in REASONS.items():
        members = by_reason.get(reason, [])
        if members and reason not in ("no_placement", "other_kind"):
            noun = words.noun if len(members) == 1 else words.plural
            why = members[0].why if reason in ("not_yaml", "unreadable") else ""
            first = f"{members[0].where}: {why}" if why else members[0].where
            examples = listed([first], 1, count=len(members))
            parts.append(
                f"{len(members)} {noun} ({'; '.join(filter(None, (examples, words.advice)))})"
            )
    if others := by_reason.get("other_kind", []):
        kinds = Counter(each.kind for each in others)
        counts = listed([f"{number} {kind}" for kind, number in kinds.most_common()], 8)
        parts.append(
            f"{plural(len(others), 'object')} with placement fields of kinds that lint does not know ({counts})"
        )
    return f"not checked: {', '.join(parts)}" if parts else None


def reasons_as_json(passed_over: t.Sequence[PassedOver]) -> list[dict[str, JSON]]:
    """One entry for each reason, and for each kind with placement fields. Objects without placement fields are
    counted, and not listed."""
    groups: dict[tuple[str, str], list[PassedOver]] = {}
    for each in passed_over:
        kind = each.kind if each.reason == "other_kind" else ""
        groups.setdefault((each.reason, kind), []).append(each)
    order = list(REASONS)
    return [
        {
            "reason": reason,
            "count": len(members),
            "kind": kind,
            "fields": sorted({name for each in members for name in each.fields}),
            "documents": []
            if reason == "no_placement"
            else [{"where": each.where, "why": one_line(each.why)} for each in members],
        }
        for (reason, kind), members in sorted(
            groups.items(), key=lambda group: (order.index(group[0][0]), group[0][1])
        )
    ]
