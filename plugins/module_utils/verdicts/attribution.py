# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose term is broken: from what the scheduler's filters refuse to the rule that it belongs to.

A refusal by another pod's anti-affinity belongs to the term of that other pod (rule 38 and 40 of
the scheduler's semantics: symmetry). What is true of a node but breaks no rule is a hazard.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import Node, NodeTerm, PodTerm, Ref, Requirement, SpreadConstraint
from ..model.topology import Topology
from ..model.verdict import Hazard
from ..scheduling.failure import Failure, Reason
from ..scheduling.options import NODE_AFFINITY
from . import wording
from .cases import Case
from .node_rules import Foreign
from .platform_terms import adds_node_key
from .terms import Kind, Term, pod_term, spread_term, terms_of

HAZARDS: t.Mapping[str, str] = {
    "cordoned": "cordoned",
    "taint": "taint",
    "ports": "ports",
    "resources": "resources",
    "too-many-pods": "too_many_pods",
    "node-name": "node_name",
}
"""Kinds of reasons that break no rule, to kinds of hazards."""


@dataclass(frozen=True, slots=True)
class Break:
    """A broken term of an instance. `rules` is empty where no rule of ours owns it. `owner` is the
    case whose term it is: for a refusal by symmetry not the instance itself."""

    rules: tuple[str, ...]
    reason: str
    term: Term | None = None
    owner: Case | None = None


class Attribution:
    """Explains refusals. `by_pod`: the cases that a counterpart may be, by their pods."""

    def __init__(
        self, topology: Topology, nodes: t.Mapping[str, Node], by_pod: t.Mapping[Ref, Case]
    ) -> None:
        self._topology = topology
        self._nodes = nodes
        self._by_pod = by_pod

    def breaks(self, case: Case, failures: t.Sequence[Failure]) -> list[Break]:
        """The broken terms of an instance: those that the filters refuse, and those of rules that
        a foreign term lets it past."""
        found = self._node_breaks(case)
        for failure in failures:
            if failure.plugin == NODE_AFFINITY:
                found += self._foreign_node_breaks(case, failure, explained=bool(found))
            else:
                found += [self._break(case, r) for r in failure.reasons if r.kind not in HAZARDS]
        return found

    def hazards(self, case: Case, failures: t.Iterable[Failure]) -> list[Hazard]:
        """What the filters refuse although no rule is broken."""
        ref, node = case.instance.ref, case.node
        found = [
            Hazard(ref, node, HAZARDS[reason.kind], reason.text)
            for failure in failures
            for reason in failure.reasons
            if reason.kind in HAZARDS
        ]
        if any(failure.plugin == NODE_AFFINITY for failure in failures):
            parts = self._platform_parts(case)
            if parts:
                detail = self._node_reason(parts, self._nodes[node])
                found.append(Hazard(ref, node, "not_schedulable_for_kubevirt", detail))
        return found

    def _node_breaks(self, case: Case) -> list[Break]:
        if case.declared is None:
            return []
        node = self._nodes[case.node]
        found = []
        for rule in case.declared.rules:
            broken = rule.nodes.broken(node) if rule.nodes is not None else ()
            if broken:
                found.append(Break((rule.rule,), self._node_reason(broken, node)))
        return found

    def _foreign_node_breaks(self, case: Case, failure: Failure, *, explained: bool) -> list[Break]:
        broken = [part for part in self._foreign_parts(case) if not adds_node_key(part.key)]
        if broken:
            return [Break((), self._node_reason(broken, self._nodes[case.node]))]
        others = [reason for reason in failure.reasons if reason.kind != "node-affinity"]
        if not others and (explained or self._platform_parts(case)):
            return []
        return [Break((), reason.text) for reason in others or failure.reasons]

    def _foreign_parts(self, case: Case) -> tuple[Requirement, ...]:
        if case.declared is not None:
            return case.declared.foreign.broken(self._nodes[case.node])
        said = case.as_declared.placement
        return Foreign(said.node_selector, said.node_terms).broken(self._nodes[case.node])

    def _platform_parts(self, case: Case) -> list[Requirement]:
        """What KubeVirt itself asks of nodes and this one does not have (any more)."""
        said = case.as_declared.placement
        parts = Foreign(said.node_selector, said.node_terms).broken(self._nodes[case.node])
        return [part for part in parts if adds_node_key(part.key)]

    def _node_reason(self, broken: t.Iterable[Requirement], node: Node) -> str:
        return f"node {node.name} does not satisfy {' and '.join(map(wording.requirement, broken))}"

    def _break(self, case: Case, reason: Reason) -> Break:
        owner: Case | None = case
        if reason.kind == "existing-anti":
            owner = self._by_pod.get(reason.counterpart) if reason.counterpart else None
        term = _term_of(reason, owner)
        rules: tuple[str, ...] = ()
        if term is not None and owner is not None and owner.declared is not None:
            rules = owner.declared.owners.get(term, ())
        return Break(rules, self._reason(case, reason, term), term, owner)

    def _reason(self, case: Case, reason: Reason, term: Term | None) -> str:
        """What is broken in words: the term, the domain, the other one."""
        if term is None:
            return reason.text
        said = wording.describe(term, self._topology)
        domain = self._nodes[case.node].labels.get(reason.topology_key)
        over = self._topology.name_of(reason.topology_key)
        if reason.kind in ("anti", "existing-anti"):
            other = self._by_pod.get(reason.counterpart) if reason.counterpart else None
            name = str(other.instance.ref if other is not None else reason.counterpart)
            foreign = reason.kind == "existing-anti" and said not in self._said_of(case)
            whose = f" of {name}" if foreign else ""
            return f"{name} is in the same {over} {domain!r} ({said}{whose})"
        if domain is None:
            return f"node {case.node} has no label {reason.topology_key} ({said})"
        if reason.kind == "affinity":
            return f"nothing that it must be near is in {over} {domain!r} ({said})"
        return f"{reason.text} ({said})"

    def _said_of(self, case: Case) -> set[str]:
        """The terms of an instance in words: the same ones of another instance are broken by both."""
        said = case.as_declared.placement, case.as_declared.labels
        return {wording.describe(term, self._topology) for term in terms_of(*said)}


def hazards_of_node(case: Case, node: Node) -> list[Hazard]:
    """What endangers an instance on its node and no filter looks at."""
    ref = case.instance.ref
    found = []
    if not node.ready:
        found.append(Hazard(ref, node.name, "not_ready", f"node {node.name} is not Ready"))
    for key in _apart_keys(case):
        if key not in node.labels:
            detail = f"node {node.name} has no label {key}, so nothing keeps anything apart there"
            found.append(Hazard(ref, node.name, "unknown_domain", detail))
    return found


def _apart_keys(case: Case) -> t.Iterable[str]:
    return dict.fromkeys(term.topology_key for term in case.as_declared.placement.anti_affinity)


def _term_of(reason: Reason, owner: Case | None) -> Term | None:
    said = reason.term
    labels = owner.as_declared.labels if owner is not None else {}
    if isinstance(said, SpreadConstraint):
        return spread_term(said, labels)
    if isinstance(said, PodTerm):
        kind = Kind.AFFINITY if reason.kind == "affinity" else Kind.ANTI_AFFINITY
        return Term(kind, pod_term(said, labels), said)
    if isinstance(said, NodeTerm):
        return Term(Kind.NODE_AFFINITY, said, (said,))
    return None
