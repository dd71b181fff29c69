# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a manifest that a template is to fill in, such as `${CLUSTER_NAME}`."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import replace
from functools import partial

from ..model.findings import Finding
from ..model.json_pointer import JSON, Pointer
from ..model.objects import Ref
from ..rules.term_slots import FIELDS
from .template_places import template_of, template_pointer

_UNFILLED = re.compile(r"\{\{|\{%|\$\{|\$\([A-Z_]+\)|^\$[A-Z_]+$|<[A-Za-z][\w .-]*>")
_STAND_IN = "unrendered.placement.virt-"
"""Before the number of a text in the valid label value that stands for it."""
_STAND_INS = re.compile(re.escape(_STAND_IN) + r"(\d+)")


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


def unfilled_value(value: JSON) -> str | None:
    """The first text in a value that is still to be filled in; None if there is none."""
    if isinstance(value, str):
        return value if _UNFILLED.search(value) else None
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next(filter(None, map(unfilled_value, value)), None)
    return None


def unfilled_name(item: t.Mapping[str, JSON]) -> str | None:
    """The first name or label of an object that is still to be filled in; None if there is none. Lint checks such an
    object, as if the template gave each object a text of its own."""
    metadata = item.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    names = [named.get(x) for x in ("name", "generateName", "namespace", "labels")]
    return unfilled_value([names, *lint_parts(item)])


def with_stand_ins(item: dict[str, JSON], texts: list[str]) -> dict[str, JSON]:
    """The object, with a stand-in for each value of a label, or of a selector of pods, that is to be filled in, also
    for labels at a wrong level: equal texts have one stand-in. `texts` are those of all stand-ins, to which new ones
    are added."""
    pointer = template_pointer(item)
    if pointer is None or not unfilled_value(lint_parts(item)):
        return item

    def stand_in(text: str) -> str:
        if not _UNFILLED.search(text):
            return text
        if text not in texts:
            texts.append(text)
        return f"{_STAND_IN}{texts.index(text)}"

    replaced = partial(_with_texts, change=stand_in)
    changed: dict[str, JSON] = _changed(
        _with_selectors(item, replaced), ("spec", "selector"), replaced
    )
    for depth in range(len(pointer.parts) + 1):
        for place in (("labels",), ("metadata", "labels")):
            changed = _changed(changed, (*pointer.parts[:depth], *place), replaced)
    return changed


def restored(value: JSON, texts: t.Sequence[str]) -> JSON:
    """A result with the texts in place of their stand-ins. A text that only looks like one stays."""

    def text_of(stand_in: re.Match[str]) -> str:
        number = int(stand_in[1])
        return texts[number] if number < len(texts) else stand_in[0]

    return _with_texts(value, lambda text: _STAND_INS.sub(text_of, text))


def _with_texts(value: JSON, change: t.Callable[[str], str]) -> JSON:
    if isinstance(value, dict):
        return {key: _with_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_texts(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def with_unknown_labels(items: t.Sequence[t.Mapping[str, JSON]]) -> list[dict[str, JSON]]:
    """The objects with selectors that select all that they may select: where one asks for a value that is to be filled
    in, or for a label of which a template has such a value, any value will do."""
    keys = {
        key
        for item in items
        for key, value in (
            ((template_of(item) or {}).get("metadata") or {}).get("labels") or {}
        ).items()
        if str(value).startswith(_STAND_IN)
    }

    def is_unknown(key: str, values: JSON) -> bool:
        given = values if isinstance(values, list) else ()
        return key in keys or any(str(x).startswith(_STAND_IN) for x in given)

    def widened(selector: JSON) -> JSON:
        labels, parts = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
        is_valid = isinstance(labels, dict) and isinstance(parts, list)
        keys_of_parts = (x.get("key") if isinstance(x, dict) else None for x in parts)
        if not is_valid or not all(isinstance(key, str) for key in keys_of_parts):
            return selector  # of a kind whose own selector is not checked
        wide = [key for key, value in labels.items() if is_unknown(key, [value])]
        wide += [
            x["key"]
            for x in parts
            if x.get("operator") == "In" and is_unknown(x["key"], x.get("values"))
        ]
        kept = [x for x in parts if x.get("operator") != "In" or x["key"] not in wide]
        return {
            **selector,
            "matchLabels": {key: value for key, value in labels.items() if key not in wide},
            "matchExpressions": [*kept, *({"key": key, "operator": "Exists"} for key in wide)],
        }

    return [_with_selectors(item, widened) for item in items]


def certain(
    findings: t.Sequence[Finding], widened: t.Sequence[Finding], texts: t.Sequence[str]
) -> list[Finding]:
    """The findings that are true whatever is filled in, with `texts` in place of their stand-ins. `widened`: those with
    selectors that select all that they may select."""

    def about(finding: Finding, ref: Ref | None) -> tuple[t.Hashable, ...]:
        return finding.name, finding.severity, finding.rule, ref

    same = {(about(x, ref), x.why) for x in widened for ref in x.objects or (None,)}
    there = Counter(about(x, ref) for x in widened for ref in x.objects or (None,))
    numbers = Counter(about(x, ref) for x in findings for ref in x.objects or (None,))
    kept = []
    for finding in findings:
        refs = [
            ref
            for ref in finding.objects or (None,)
            for key in [about(finding, ref)]
            if (key, finding.why) in same or there[key] >= numbers[key]
        ]
        if refs:
            why, advice = (str(restored(x, texts)) for x in (finding.why, finding.advice))
            objects = tuple(filter(None, refs))
            kept.append(replace(finding, why=why, advice=advice, objects=objects))
    return kept


def _with_selectors(
    item: t.Mapping[str, JSON], change: t.Callable[[JSON], JSON]
) -> dict[str, JSON]:
    """The object with other selectors of pods: its own one, and those of its terms."""
    pointer = template_pointer(item)
    if pointer is None:
        return dict(item)

    def inner(value: JSON) -> JSON:
        if isinstance(value, list):
            return [inner(x) for x in value]
        if not isinstance(value, dict):
            return value
        return {
            key: change(x) if key == "labelSelector" and isinstance(x, dict) else inner(x)
            for key, x in value.items()
        }

    selector = Pointer(("spec", "selector")).read(item, None)
    is_selector = isinstance(selector, dict) and selector.keys() & {
        "matchLabels",
        "matchExpressions",
    }
    changed = _changed(item, ("spec", "selector"), change) if is_selector else item
    for name in ("affinity", "topologySpreadConstraints"):
        changed = _changed(changed, (*pointer.parts, "spec", name), inner)
    return dict(changed)


def _changed(value: JSON, path: tuple[str, ...], change: t.Callable[[JSON], JSON]) -> JSON:
    if not path:
        return change(value)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    return {**value, path[0]: _changed(value[path[0]], path[1:], change)}
