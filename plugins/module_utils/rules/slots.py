# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of a pod template where a term can stand, and the terms that stand there.

Field names and their meaning: Kubernetes core/v1 Affinity, Toleration, TopologySpreadConstraint.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass

from ..model.pointer import JSON, Pointer

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

FIELDS = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")
"""The placement fields of a template's spec: all that rules ever change there."""


class Slot(str, enum.Enum):
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

    def __str__(self) -> str:
        return self.value


SPEC = Pointer(("spec",))
NODE_REQUIRED = SPEC / "affinity" / "nodeAffinity" / REQUIRED
NODE_TERMS = NODE_REQUIRED / "nodeSelectorTerms"
POD_AFFINITY = SPEC / "affinity" / "podAffinity"
POD_ANTI_AFFINITY = SPEC / "affinity" / "podAntiAffinity"

LISTS: t.Mapping[Slot, Pointer] = {
    Slot.PREFERRED_NODE: SPEC / "affinity" / "nodeAffinity" / PREFERRED,
    Slot.AFFINITY: POD_AFFINITY / REQUIRED,
    Slot.PREFERRED_AFFINITY: POD_AFFINITY / PREFERRED,
    Slot.ANTI_AFFINITY: POD_ANTI_AFFINITY / REQUIRED,
    Slot.PREFERRED_ANTI_AFFINITY: POD_ANTI_AFFINITY / PREFERRED,
    Slot.SPREAD: SPEC / "topologySpreadConstraints",
    Slot.TOLERATION: SPEC / "tolerations",
}
"""Slots that are an entry of a list, with the list's place in the template."""

MAPS: t.Mapping[Slot, Pointer] = {
    Slot.NODE_SELECTOR: SPEC / "nodeSelector",
    Slot.LABEL: Pointer(("metadata", "labels")),
}
"""Slots that are a key of a map, with the map's place in the template."""

IN_NODE_TERM: t.Mapping[Slot, str] = {
    Slot.NODE_EXPRESSION: "matchExpressions",
    Slot.NODE_FIELD: "matchFields",
}
"""Slots inside every required node term, with the list of the term."""


@dataclass(frozen=True)
class CompiledTerm:
    """One term as it is to stand in a template.

    The value of a map's slot is `{"key": ..., "value": ...}`; every other value is the entry
    itself.
    """

    slot: Slot
    value: JSON


def pair(slot: Slot, key: str, value: str) -> CompiledTerm:
    """A term that is a key of a map."""
    return CompiledTerm(slot, {"key": key, "value": value})


def terms_of(template: t.Mapping[str, JSON]) -> t.Iterator[tuple[Slot, JSON]]:
    """Every term that stands in a template, with its slot; labels are not among them.

    A node expression is named once for each required node term that holds it.
    """
    for slot, pointer in LISTS.items():
        for entry in pointer.read(template, None) or ():
            yield slot, entry
    for key, value in (MAPS[Slot.NODE_SELECTOR].read(template, None) or {}).items():
        yield Slot.NODE_SELECTOR, {"key": key, "value": value}
    for term in NODE_TERMS.read(template, None) or ():
        for slot, key in IN_NODE_TERM.items():
            for entry in term.get(key) or ():
                yield slot, entry
