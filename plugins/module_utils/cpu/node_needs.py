# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does KubeVirt itself make a pod ask of nodes, and which of it does a node lack?

That is the CPU with its model, features and vendor, the machine type and the architecture. What rules and users ask is
left out, and so is the label of nodes on which virt-handler runs.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import (
    CPU_FEATURE,
    CPU_MODEL,
    MIGRATION_CPU,
    SCHEDULABLE,
    adds_node_key,
)
from ..kubevirt.launcher import OBSOLETE_HOST_MODEL
from ..model.objects import Labels, Placement, Requirement
from ..scheduler.labels import holds


@dataclass(frozen=True)
class NodeNeeds:
    """Labels that a node must have, with their values, and expressions that hold for it."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[Requirement, ...] = ()

    def unmet_by(self, labels: Labels) -> tuple[str, ...]:
        """What a node with these labels lacks, each as in a label selector of kubectl: `key=value`, `!key`."""
        missing = [f"{key}={value}" for key, value in self.labels if labels.get(key) != value]
        return (*missing, *(_text(x) for x in self.expressions if not holds(x, labels)))

    def as_text(self) -> tuple[str, ...]:
        """All of it, as `unmet_by` has it."""
        labels = (f"{key}={value}" for key, value in self.labels)
        return (*labels, *map(_text, self.expressions))

    def without_model(self, required: t.Container[str]) -> NodeNeeds:
        """What is left of it with a CPU model that each node can run, after a restart. `required` are the CPU features
        that the VM names itself."""
        labels = tuple(
            (key, value)
            for key, value in self.labels
            if not key.startswith((CPU_MODEL, MIGRATION_CPU))
            and (not key.startswith(CPU_FEATURE) or key.removeprefix(CPU_FEATURE) in required)
        )
        kept = tuple(x for x in self.expressions if x.key != OBSOLETE_HOST_MODEL)
        return NodeNeeds(labels, kept)


def needs_of(placement: Placement) -> NodeNeeds:
    """Of the pod with this placement. Node terms are OR-ed, so an expression counts if each of them has it."""
    labels = {key: value for key, value in placement.node_selector if _counts(key)}
    terms = placement.node_terms or ()
    expressions = (
        x
        for x in (terms[0].expressions if terms else ())
        if _counts(x.key) and all(x in term.expressions for term in terms)
    )
    return NodeNeeds(tuple(sorted(labels.items())), tuple(dict.fromkeys(expressions)))


def _counts(key: str) -> bool:
    return key != SCHEDULABLE and adds_node_key(key)


def _text(requirement: Requirement) -> str:
    if requirement.operator in ("DoesNotExist", "Exists"):
        return f"{'!' if requirement.operator == 'DoesNotExist' else ''}{requirement.key}"
    values = ",".join(requirement.values)
    return f"{requirement.key} {requirement.operator} ({values})"
