# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which spread constraints are misread, block a drain, or count a domain that never takes their pods?

kube-scheduler compares each domain with the emptiest one that it counts. It counts the domains of all nodes that
have the topology keys, whatever their taints are, unless nodeTaintsPolicy is Honor; and those that match the node
affinity, unless nodeAffinityPolicy is Ignore (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go,
calPreFilterState).
"""

from __future__ import annotations

import operator
import typing as t
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, reduce

from ..compliance.terms import Term, TermKind
from ..kubevirt.labels import SCHEDULABLE
from ..model.findings import Finding
from ..model.objects import SpreadConstraint
from ..model.rendering import listed, value_text
from ..scheduler.node_affinity import nodes_of_placement
from ..scheduler.node_state import untolerated
from ..scheduler.nodes import NodeSet
from .capacity import to_run
from .lint_input import LintedWorkload, LintInput


def spread_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        for term in subject.terms:
            if term.kind is not TermKind.SPREAD:
                continue
            unusable = _unusable(lint_input, subject, term) if lint_input.nodes else None
            if unusable is not None:
                yield _counts_unusable(lint_input, subject, term, unusable)
            else:
                yield from _no_maximum(lint_input, subject, term)
            if unusable is None or not unusable.tainted:
                yield from _spread_blocks_drain(lint_input, subject, term)


@dataclass(frozen=True)
class _Domains:
    """The nodes that a constraint of a workload counts, and those of them that take the workload's pods."""

    lasting: LintInput
    key: str
    counted: NodeSet
    taking: NodeSet

    @cached_property
    def usable(self) -> dict[str, NodeSet]:
        domains = self.lasting.table.domains(self.key)
        return {name: nodes for name, nodes in domains.items() if nodes & self.taking}

    @cached_property
    def unusable(self) -> dict[str, NodeSet]:
        """The domains that count and take no pod, each with its nodes that count."""
        domains = self.lasting.table.domains(self.key)
        return {
            name: nodes & self.counted
            for name, nodes in domains.items()
            if nodes & self.counted and not nodes & self.taking
        }


def _domains_of(lasting: LintInput, subject: LintedWorkload, term: Term) -> _Domains:
    placement, table = lasting.scheduled(subject), lasting.table
    constraint: SpreadConstraint = term.source
    matching = nodes_of_placement(placement, table)
    if subject.is_vm and (kubevirt := table.domains(SCHEDULABLE).get("true", 0)):
        matching &= kubevirt
    counted = table.all
    for other in placement.spread:
        if other.when_unsatisfiable == constraint.when_unsatisfiable:
            counted &= table.with_key(other.topology_key)
    taking = counted & lasting.eligible(subject) & matching
    if constraint.node_affinity_policy == "Honor":
        counted &= matching
    if constraint.node_taints_policy == "Honor":
        counted &= lasting.tolerated(subject)
    return _Domains(lasting, constraint.topology_key, counted, taking)


class _Unusable(t.NamedTuple):
    """Domains that count and take no pod of a workload. At most `in_each` run in each of the other ones, `room` of
    `instances` in all. `tainted` and `left_out` are sentences about their nodes, one of them may be empty."""

    domains: list[str]
    usable: int
    in_each: int
    room: int
    instances: int
    tainted: str
    left_out: str


def _unusable(lint_input: LintInput, subject: LintedWorkload, term: Term) -> _Unusable | None:
    """None where every domain takes pods, where all instances find room, or where other pods may fill up the
    domains that take none."""
    selected = lint_input.selected(subject, term)
    if selected is None or not lint_input.selects_itself(subject, term):
        return None
    lasting = lint_input.lasting
    domains = _domains_of(lasting, subject, term)
    if not domains.unusable or not domains.usable:
        return None
    nodes = reduce(operator.or_, domains.unusable.values(), 0)
    usable, instances = set(domains.usable), 0
    for workload in selected:
        if workload.ref == subject.ref:
            workload = subject
        if lasting.eligible(workload) & nodes:
            return None
        if term in workload.declared.terms:
            usable.update(_domains_of(lasting, workload, term).usable)
            instances += to_run(workload)
    running = Counter(
        value
        for pod in lint_input.running(subject, term) or ()
        if pod.node_name in lasting.table.numbers and not pod.terminating
        for value in [lasting.table.labels[lasting.table.numbers[pod.node_name]].get(domains.key)]
        if value in domains.unusable
    )
    in_each = term.source.max_skew + min(running[name] for name in domains.unusable)
    room = in_each * len(usable) + running.total()
    if instances <= room:
        return None
    left_out = lasting.table.names_of(nodes & lasting.tolerated(subject))
    return _Unusable(
        sorted(domains.unusable),
        len(usable),
        in_each,
        room,
        instances,
        _tainted(lasting, subject, nodes & ~lasting.tolerated(subject)),
        f"nodeSelector and node affinity leave out {listed(left_out)}" if left_out else "",
    )


def _tainted(lasting: LintInput, subject: LintedWorkload, nodes: NodeSet) -> str:
    by_taint: dict[str, list[str]] = {}
    for name in lasting.table.names_of(nodes):
        node = lasting.table.nodes[lasting.table.numbers[name]]
        taint = next(untolerated(node.taints, subject.declared.placement.tolerations))
        value = f"={taint.value}" if taint.value else ""
        by_taint.setdefault(f"{taint.key}{value}:{taint.effect}", []).append(name)
    return " and ".join(
        f"the taint {taint} of {listed(names)} is not tolerated"
        for taint, names in by_taint.items()
    )


def _counts_unusable(
    lint_input: LintInput, subject: LintedWorkload, term: Term, unusable: _Unusable
) -> Finding:
    over = lint_input.over(term)
    names = listed([f"{over} {value_text(name)}" for name in unusable.domains])
    reason = " and ".join(filter(None, (unusable.tainted, unusable.left_out)))
    several = len(unusable.domains) > 1
    others = lint_input.topology.counted(term.source.topology_key, unusable.usable)
    policies = [
        policy
        for policy, used in (
            ("nodeTaintsPolicy: Honor", unusable.tainted),
            ("nodeAffinityPolicy: Honor", unusable.left_out),
        )
        if used
    ]
    return subject.finding(
        term,
        "spread_counts_unusable_domain",
        "error",
        f"{names} {'count' if several else 'counts'} for the {term.kind} constraint with maxSkew"
        f" {term.source.max_skew} and {'take' if several else 'takes'} none of these pods ({reason}): at most"
        f" {unusable.in_each} can run in each of the other {others}, so {unusable.room} of"
        f" {unusable.instances} pods, and the rest stays Pending.",
        f"Set {' and '.join(policies)} in the constraint, so that {'they do' if several else 'it does'} not count,"
        f" or let the pods run there.",
    )


def _no_maximum(lint_input: LintInput, subject: LintedWorkload, term: Term) -> t.Iterator[Finding]:
    key = term.source.topology_key
    kept_apart = any(
        other.kind is TermKind.ANTI_AFFINITY and other.source.topology_key == key
        for other in subject.declared.terms
    )
    if term.source.max_skew != 1 or kept_apart:
        return
    domains = len(lint_input.eligible_domains(subject, key))
    members = sum(
        target.replicas or 1 for target in lint_input.selected(subject, term) or (subject,)
    )
    if lint_input.nodes is not None and members <= domains:
        return
    field, instead = "maxSkew", "required pod anti-affinity"
    if subject.owner(term):
        field, instead = "max_skew", "keep_apart"
    yield subject.finding(
        term,
        "max_skew_misread",
        "info",
        f"{field} 1 over {lint_input.over(term)} does not mean one in each: it bounds the difference between the"
        " fullest and the emptiest domain, so with more instances than domains two share one.",
        f"Use {instead} where no two may share a domain.",
    )


def _spread_blocks_drain(
    lint_input: LintInput, subject: LintedWorkload, term: Term
) -> t.Iterator[Finding]:
    if term.source.node_taints_policy == "Honor":
        return
    yield subject.finding(
        term,
        "spread_blocks_drain",
        "warning",
        f"A domain of {lint_input.over(term)} whose nodes are all drained or down still counts as an empty one, so"
        " pods that ran there have no feasible node in the others.",
        "Set nodeTaintsPolicy: Honor in the constraint, as spread does.",
    )
