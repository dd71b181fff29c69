# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes, rules and running instances depend on a node label that is to change?

A required node rule depends on it if the node is allowed before and not after, or the other way round.
Terms over a topology key always do, since the node moves to another domain. Preferences do not count.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections import defaultdict

from ..model.findings import InputError
from ..model.objects import Node, NodeTerm, Placement
from ..model.placement_manifests import placement_from_spec
from ..model.snapshot import Snapshot
from ..scheduler.labels import matches_node, matches_terms
from .plan import LabelChange

_SHOWN = 3


def dependent_faults(
    snapshot: Snapshot, changes: t.Sequence[LabelChange]
) -> tuple[InputError, ...]:
    """A fault for each change that something depends on, and for what could not be read.

    `snapshot` has the nodes as they are, workloads and pods of all namespaces, and volumes.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    by_node: dict[str, list[LabelChange]] = defaultdict(list)
    for change in changes:
        by_node[change.node].append(change)
    faults = [
        InputError(
            "dependants", f"it is unknown which objects depend on these labels: {gap}; or set force"
        )
        for gap in snapshot.unreadable
        if gap.verb == "list" and gap.resource != "kubevirts"
    ]
    rules = _rules(snapshot)
    for name, mine in by_node.items():
        if name in nodes:
            step = _NodeChange(nodes[name], mine)
            faults += filter(None, (_fault(step, change, rules, snapshot) for change in mine))
    return tuple(faults)


class _NodeChange:
    """A node before and after all its changes."""

    def __init__(self, node: Node, changes: t.Iterable[LabelChange]) -> None:
        labels = dict(node.labels)
        for change in changes:
            if change.after is None:
                labels.pop(change.key, None)
            else:
                labels[change.key] = change.after
        self.before = node
        self.after = dataclasses.replace(node, labels=labels)

    def counts(self, placement: Placement, key: str) -> bool:
        """Whether a placement depends on the change of `key`."""
        if key in _topology_keys(placement):
            return True
        keys = {selected for selected, _value in placement.node_selector}
        keys |= _keys_of(placement.node_terms or ())
        if key not in keys:
            return False
        return matches_node(placement, self.before) != matches_node(placement, self.after)


def _rules(snapshot: Snapshot) -> list[tuple[str, Placement]]:
    """Each workload with placement terms, and its placement."""
    placements = [
        (str(workload.ref), placement_from_spec(workload.template.get("spec") or {}))
        for workload in snapshot.workloads
    ]
    return [(name, placement) for name, placement in placements if placement != Placement()]


def _fault(
    step: _NodeChange,
    change: LabelChange,
    rules: t.Sequence[tuple[str, Placement]],
    snapshot: Snapshot,
) -> InputError | None:
    key = change.key
    # Volumes first: data on them cannot be reached again by moving anything.
    dependents = [
        f"the volume of PersistentVolumeClaim {namespace}/{claim}"
        for (namespace, claim), terms in sorted(snapshot.claim_terms.items())
        if key in _keys_of(terms)
        and matches_terms(terms, step.before) != matches_terms(terms, step.after)
    ]
    dependents += [
        f"the rules of {name}" for name, placement in rules if step.counts(placement, key)
    ]
    dependents += [
        f"{pod.ref} on the node"
        for pod in snapshot.pods
        if pod.node_name == change.node and not pod.finished and step.counts(pod.placement, key)
    ]
    if not dependents:
        return None
    more = f" and {len(dependents) - _SHOWN} more" if len(dependents) > _SHOWN else ""
    return InputError(
        f"{change.node} {key}",
        f"{change}: {', '.join(dependents[:_SHOWN])}{more} depend on the label."
        " Remove the rules or move the pods first, or set force",
    )


def _topology_keys(placement: Placement) -> set[str]:
    pods = (*placement.affinity, *placement.anti_affinity)
    return {term.topology_key for term in pods} | {
        constraint.topology_key
        for constraint in placement.spread
        if constraint.when_unsatisfiable == "DoNotSchedule"
    }


def _keys_of(terms: t.Iterable[NodeTerm]) -> set[str]:
    return {requirement.key for term in terms for requirement in term.expressions}
