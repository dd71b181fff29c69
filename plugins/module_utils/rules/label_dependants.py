# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who counts on a node label staying as it is: volumes, the rules of workloads, running instances.

A required node rule counts on it if the node is allowed before and not after, or the other way
round; terms over a topology key always do, since the node moves to another domain. Preferences
do not count.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections import defaultdict

from ..model.finding import Fault
from ..model.manifest import placement_from_spec
from ..model.objects import Node, NodeTerm, Placement
from ..model.snapshot import Snapshot
from ..scheduling.node_terms import matches_node, matches_terms
from .node_labels import Change

_SHOWN = 3


def dependant_faults(snapshot: Snapshot, changes: t.Sequence[Change]) -> tuple[Fault, ...]:
    """A fault for each change that something depends on, and for what could not be read.

    `snapshot` has the nodes as they are, workloads and pods of all namespaces, and volumes.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    by_node: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_node[change.node].append(change)
    faults = [
        Fault("dependants", f"who counts on these labels is not known: {gap}; or set force")
        for gap in snapshot.unreadable
        if gap.verb == "list" and gap.resource != "kubevirts"
    ]
    rules = _rules(snapshot)
    for name, mine in by_node.items():
        if name in nodes:
            step = _Step(nodes[name], mine)
            faults += filter(None, (_fault(step, change, rules, snapshot) for change in mine))
    return tuple(faults)


class _Step:
    """A node before and after all its changes."""

    def __init__(self, node: Node, changes: t.Iterable[Change]) -> None:
        labels = dict(node.labels)
        for change in changes:
            if change.after is None:
                labels.pop(change.key, None)
            else:
                labels[change.key] = change.after
        self.before = node
        self.after = dataclasses.replace(node, labels=labels)

    def crosses(self, terms: tuple[NodeTerm, ...]) -> bool:
        return matches_terms(terms, self.before) != matches_terms(terms, self.after)

    def counts(self, placement: Placement, key: str) -> bool:
        """Whether a placement depends on the change of `key`."""
        if key in _topology_keys(placement):
            return True
        return key in _node_keys(placement) and matches_node(
            placement, self.before
        ) != matches_node(placement, self.after)


def _rules(snapshot: Snapshot) -> list[tuple[str, Placement]]:
    """Each workload that has placement terms, with them."""
    found = [
        (str(workload.ref), placement_from_spec(workload.template.get("spec") or {}))
        for workload in snapshot.workloads
    ]
    return [(name, placement) for name, placement in found if placement != Placement()]


def _fault(
    step: _Step,
    change: Change,
    rules: t.Sequence[tuple[str, Placement]],
    snapshot: Snapshot,
) -> Fault | None:
    key = change.key
    found = [f"the rules of {name}" for name, placement in rules if step.counts(placement, key)]
    found += [
        f"the volume of PersistentVolumeClaim {namespace}/{claim}"
        for (namespace, claim), terms in sorted(snapshot.claim_terms.items())
        if key in _keys_of(terms) and step.crosses(terms)
    ]
    found += [
        f"{pod.ref} on the node"
        for pod in snapshot.pods
        if pod.node_name == change.node and not pod.finished and step.counts(pod.placement, key)
    ]
    if not found:
        return None
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Fault(
        f"{change.node} {key}",
        f"{change}: {', '.join(found[:_SHOWN])}{more} depend on it; move them first, or set force",
    )


def _topology_keys(placement: Placement) -> set[str]:
    pods = (*placement.affinity, *placement.anti_affinity)
    return {term.topology_key for term in pods} | {
        constraint.topology_key
        for constraint in placement.spread
        if constraint.when_unsatisfiable == "DoNotSchedule"
    }


def _node_keys(placement: Placement) -> set[str]:
    return {key for key, _value in placement.node_selector} | _keys_of(placement.node_terms or ())


def _keys_of(terms: t.Iterable[NodeTerm]) -> set[str]:
    return {each.key for term in terms for each in term.expressions}
