# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where can a term be in a pod template, and which terms does a template have?

A template without `affinity` and one with `affinity: {}` mean the same, but they are not the same
bytes: a container that was absent becomes absent again, one that was empty stays empty.

Field names and their meaning: Kubernetes core/v1 Affinity, Toleration, TopologySpreadConstraint.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON, MISSING, Pointer
from ..model.placement_manifests import PREFERRED, REQUIRED
from ..model.rendering import TextEnum


def ensure(root: JSON, pointer: Pointer, empty: JSON, created: set[str]) -> JSON:
    """The container at `pointer`; where it is missing it becomes `empty`, its parents maps.

    What had to be made is added to `created`. A null counts as missing.
    """
    holder = root
    for depth, part in enumerate(pointer.parts, 1):
        if holder.get(part) is None:
            holder[part] = empty if depth == len(pointer.parts) else {}
            created.add(str(Pointer(pointer.parts[:depth])))
        holder = holder[part]
    return holder


def tidy(root: JSON, created: t.Iterable[str]) -> set[str]:
    """Take away the containers of `created` that are empty, the innermost first.

    Returns those that stay, because something stands in them. What is no longer there is
    forgotten. A part that begins with # stands for an entry of the list before it.
    """
    kept = set()
    paths = [text for text in created if "/#" not in text]
    for text in sorted(paths, key=lambda text: -text.count("/")):
        pointer = _parse(text)
        container = pointer.read(root, MISSING)
        if container in ({}, []):
            remove(root, pointer)
        elif container is not MISSING:
            kept.add(text)
    inside = {text: _parse(text.split("/#")[0]) for text in created if "/#" in text}
    return kept | {text for text, holder in inside.items() if holder.read(root, None)}


def remove(root: JSON, pointer: Pointer) -> None:
    """Take the key at `pointer` away; the map that holds it must be there."""
    del Pointer(pointer.parts[:-1]).read(root)[pointer.parts[-1]]


def _parse(text: str) -> Pointer:
    parts = text.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))


FIELDS = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")
"""The placement fields of a template's spec: all that rules ever change there."""


class TermLocation(TextEnum):
    """A kind of place. The values stand in annotations: they never change their meaning."""

    NODE_EXPRESSION = "node-expression"
    NODE_FIELD = "node-field"
    NODE_TERM = "node-term"
    PREFERRED_NODE = "preferred-node"
    AFFINITY = "affinity"
    PREFERRED_AFFINITY = "preferred-affinity"
    ANTI_AFFINITY = "anti-affinity"
    PREFERRED_ANTI_AFFINITY = "preferred-anti-affinity"
    SPREAD = "spread"
    TOLERATION = "toleration"
    NODE_SELECTOR = "node-selector"
    LABEL = "label"


POD_TERMS = (TermLocation.AFFINITY, TermLocation.ANTI_AFFINITY)
"""Where a required term about pods can be."""

WEIGHTED_POD_TERMS = (TermLocation.PREFERRED_AFFINITY, TermLocation.PREFERRED_ANTI_AFFINITY)
"""Where a preferred one can be: the term is in its podAffinityTerm."""


SPEC = Pointer(("spec",))
NODE_REQUIRED = SPEC / "affinity" / "nodeAffinity" / REQUIRED
NODE_TERMS = NODE_REQUIRED / "nodeSelectorTerms"
POD_AFFINITY = SPEC / "affinity" / "podAffinity"
POD_ANTI_AFFINITY = SPEC / "affinity" / "podAntiAffinity"

LISTS: t.Mapping[TermLocation, Pointer] = {
    TermLocation.PREFERRED_NODE: SPEC / "affinity" / "nodeAffinity" / PREFERRED,
    TermLocation.AFFINITY: POD_AFFINITY / REQUIRED,
    TermLocation.PREFERRED_AFFINITY: POD_AFFINITY / PREFERRED,
    TermLocation.ANTI_AFFINITY: POD_ANTI_AFFINITY / REQUIRED,
    TermLocation.PREFERRED_ANTI_AFFINITY: POD_ANTI_AFFINITY / PREFERRED,
    TermLocation.SPREAD: SPEC / "topologySpreadConstraints",
    TermLocation.TOLERATION: SPEC / "tolerations",
}
"""Locations that are an entry of a list, with the list's place in the template."""

MAPS: t.Mapping[TermLocation, Pointer] = {
    TermLocation.NODE_SELECTOR: SPEC / "nodeSelector",
    TermLocation.LABEL: Pointer(("metadata", "labels")),
}
"""Locations that are a key of a map, with the map's place in the template."""

REVISION_KEYS = ("matchLabelKeys", "mismatchLabelKeys")
"""Fields of a pod term that leave pods out by the values of their own labels."""

IN_NODE_TERM: t.Mapping[TermLocation, str] = {
    TermLocation.NODE_EXPRESSION: "matchExpressions",
    TermLocation.NODE_FIELD: "matchFields",
}
"""Locations inside every required node term, with the list of the term."""


@dataclass(frozen=True)
class CompiledTerm:
    """One term as it is to stand in a template.

    The value of a map's location is `{"key": ..., "value": ...}`; every other value is the entry
    itself.
    """

    location: TermLocation
    value: JSON


def pair(location: TermLocation, key: str, value: str) -> CompiledTerm:
    """A term that is a key of a map."""
    return CompiledTerm(location, {"key": key, "value": value})


def terms_of(template: t.Mapping[str, JSON]) -> t.Iterator[tuple[TermLocation, JSON]]:
    """Every term that stands in a template, with its location; labels are not among them.

    A node expression is named once for each required node term that holds it.
    """
    for location, pointer in LISTS.items():
        for entry in pointer.read(template, None) or ():
            yield location, entry
    for key, value in (MAPS[TermLocation.NODE_SELECTOR].read(template, None) or {}).items():
        yield TermLocation.NODE_SELECTOR, {"key": key, "value": value}
    for term in NODE_TERMS.read(template, None) or ():
        for location, key in IN_NODE_TERM.items():
            for entry in term.get(key) or ():
                yield location, entry
