# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a manifest that a template is to fill in, such as `${CLUSTER_NAME}`."""

from __future__ import annotations

import re
import typing as t

from ..model.json_pointer import JSON
from ..rules.term_slots import FIELDS
from .template_places import template_of, template_pointer

_UNFILLED = re.compile(r"\{\{|\{%|\$\{|\$\([A-Z_]+\)|^\$[A-Z_]+$|<[A-Za-z][\w .-]*>")
_NO_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


def lint_parts(item: t.Mapping[str, JSON]) -> list[JSON]:
    """What lint reads of an object, except its name."""
    template, spec = template_of(item), item.get("spec")
    parts: list[JSON] = []
    if isinstance(template, dict):
        if isinstance(template.get("metadata"), dict):
            parts.append(template["metadata"].get("labels"))
        if isinstance(template.get("spec"), dict):
            parts += [template["spec"].get(name) for name in FIELDS]
    if isinstance(spec, dict):
        parts += [spec.get(name) for name in ("replicas", "selector", "strategy")]
        names = ("accessModes", "nodeAffinity", "nodeSelector", "taints", "volumeName")
        parts += [spec.get(name) for name in names]
    if item.get("kind") in ("Node", "Namespace"):
        parts += [item.get("metadata"), item.get("status")]
    return parts


def unfilled_value(value: JSON) -> str:
    """The first text in a value that is still to be filled in; empty if there is none."""
    if isinstance(value, str):
        return value if _UNFILLED.search(value) else ""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next(filter(None, map(unfilled_value, value)), "")
    return ""


def unfilled_name(item: t.Mapping[str, JSON]) -> str:
    """The first name or label of an object that is still to be filled in; empty if there is none. Lint checks such an
    object, as if the template gave each object a text of its own."""
    metadata = item.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    names = [named.get(x) for x in ("name", "generateName", "namespace", "labels")]
    return unfilled_value([names, *lint_parts(item)])


def with_plain_labels(item: dict[str, JSON]) -> dict[str, JSON]:
    """The object, with the values of labels that are to be filled in, and of selectors of pods, made valid: they
    are equal before as after, also to labels at a wrong level. `${CLUSTER_NAME}-db` becomes `CLUSTER_NAME-db`."""
    pointer = template_pointer(item)
    if pointer is None or not unfilled_value(lint_parts(item)):
        return item
    changed: dict[str, JSON] = _changed(item, ("spec", "selector"), _plain)
    for depth in range(len(pointer.parts) + 1):
        for place in (("labels",), ("metadata", "labels")):
            changed = _changed(changed, (*pointer.parts[:depth], *place), _plain)
    for name in ("affinity", "topologySpreadConstraints"):
        changed = _changed(changed, (*pointer.parts, "spec", name), _plain_selectors)
    return changed


def _changed(value: JSON, path: tuple[str, ...], change: t.Callable[[JSON], JSON]) -> JSON:
    if not path:
        return change(value)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    return {**value, path[0]: _changed(value[path[0]], path[1:], change)}


def _plain(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, str) or not _UNFILLED.search(value):
        return value
    return _NO_LABEL.sub("", value).strip("-_.")[:63]


def _plain_selectors(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_plain_selectors(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _plain(item) if key == "labelSelector" else _plain_selectors(item)
        for key, item in value.items()
    }
