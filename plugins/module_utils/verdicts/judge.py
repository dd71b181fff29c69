# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts: for each instance and rule, does what is declared hold where it runs?

An instance is asked of the scheduler's filters: take this one out, may it come back to its node?
What is asked is what its workload declares, in a world where everybody stands as declared; whether
the running pod was scheduled with that is said beside it. So a rule that was just written is
broken or holds before anything has moved, and who moves can be known.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.collector import collector_paused
from ..model.objects import Node, Ref
from ..model.snapshot import Instance, Snapshot
from ..model.topology import Topology
from ..model.verdict import Hazard, InstanceVerdict, Pending, RuleVerdict, Verdict, Verdicts
from ..rules.migratable import why_not_migratable
from ..scheduling.failure import Failure
from ..scheduling.index import Index
from ..scheduling.options import Options
from .attribution import Attribution, hazards_of_node
from .blind import Blind
from .bookkeeping import Bookkeeping
from .cases import Case, Cases, by_pod, cases_of, declared_world
from .findings import findings_of
from .ledger import worst
from .needed import Needed
from .successor import migrated, restarted
from .waiting import Waiting, pending_of

NAMED = 20
"""Nodes named at most in each list of a verdict, unless details are asked for."""


@collector_paused()
def judge(
    snapshot: Snapshot,
    *,
    topology: Topology | None = None,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
    options: Options | None = None,
    details: bool = False,
) -> Verdicts:
    """Judge the instances of `workloads` (None: of all) in `namespaces` (None: in all).

    Others are not judged, but they count: anybody's anti-affinity keeps anybody out. With `details`
    every instance is told where else it could run, and no list of nodes is cut at NAMED.
    """
    scope = _Scope(workloads, namespaces)
    cases = cases_of(snapshot)
    index = Index.build(
        snapshot.nodes,
        snapshot.pods,
        snapshot.namespaces,
        claim_terms=snapshot.claim_terms,
        options=options,
    )
    court = _Court(snapshot, cases, index, topology or Topology.of(), details)
    with declared_world(index, cases):
        for case in cases.placed:
            if scope.covers(case.instance.workload, case.instance.ref):
                court.hear(case)
        moves = court.needed.moves()
    court.look_for_places()
    waiting = pending_of(cases, Waiting(index, court.topology), court.blind, scope.covers)
    return Verdicts(
        instances=(*court.verdicts, *court.waiting(cases.waiting, waiting, scope)),
        pending=waiting,
        hazards=tuple(court.hazards),
        findings=findings_of(case.declared for case in court.heard if case.declared),
        unreadable=snapshot.unreadable,
        moves_needed=moves,
    )


class _Scope:
    def __init__(
        self, workloads: t.Collection[Ref] | None, namespaces: t.Collection[str] | None
    ) -> None:
        self._workloads = None if workloads is None else frozenset(workloads)
        self._namespaces = None if namespaces is None else frozenset(namespaces)

    def covers(self, workload: Ref | None, instance: Ref) -> bool:
        if self._namespaces is not None and instance.namespace not in self._namespaces:
            return False
        return self._workloads is None or workload in self._workloads


class _Court:
    """Hears one case after the other. `verdicts` come in the order of the cases."""

    def __init__(
        self, snapshot: Snapshot, cases: Cases, index: Index, topology: Topology, details: bool
    ) -> None:
        self.topology = topology
        self.needed = Needed(index, cases.placed, topology)
        self.verdicts: list[InstanceVerdict] = []
        self.heard: list[Case] = []
        self.hazards: list[Hazard] = []
        self._index = index
        self._reader = cases.reader
        self._details = details
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._domains: dict[str, dict[str, str]] = {}
        self.blind = Blind(snapshot.unreadable)
        self._attribution = Attribution(topology, self._nodes, by_pod(cases.placed))
        self._bookkeeping = Bookkeeping(index, topology, self.blind, snapshot.platform)

    def hear(self, case: Case) -> None:
        """Judge one instance. The index must be that of the declared world."""
        node = self._nodes[case.node]
        failures = self._index.verify(case.key)
        self.hazards += hazards_of_node(case, node)
        if failures:
            self.hazards += self._attribution.hazards(case, failures)
        rules = self._rules(case, node, failures)
        self.heard.append(case)
        self.verdicts.append(
            InstanceVerdict(
                instance=case.instance.ref,
                uid=case.instance.uid,
                workload=case.instance.workload,
                node=case.node,
                domains=self._domains_of(node),
                verdict=worst(rules),
                rules=rules,
            )
        )

    def look_for_places(self) -> None:
        """Where the broken (with details: all) could run now. The index must be the real one: the
        scheduler sees what runs, not what is declared."""
        for number, (verdict, case) in enumerate(zip(self.verdicts, self.heard, strict=True)):
            if self._details or verdict.verdict is Verdict.VIOLATED:
                self.verdicts[number] = replace(
                    verdict,
                    feasible_if_restarted=self._named(self._if_restarted(case)),
                    feasible_if_migrated=self._named(self._if_migrated(case)),
                )

    def waiting(
        self, instances: t.Iterable[Instance], pending: t.Iterable[Pending], scope: _Scope
    ) -> t.Iterator[InstanceVerdict]:
        """Verdicts of what has no node: pending, or unknown where its pod could not be read."""
        reasons = {each.instance: each.reason for each in pending}
        for instance in instances:
            if not scope.covers(instance.workload, instance.ref):
                continue
            gap = self.blind.of_waiting(instance)
            verdict = Verdict.PENDING if gap is None else Verdict.UNKNOWN
            reason = reasons[instance.ref] if gap is None else str(gap)
            yield InstanceVerdict(
                instance=instance.ref,
                uid=instance.uid,
                workload=instance.workload,
                node="",
                domains={},
                verdict=verdict,
                rules=(RuleVerdict("", verdict, reason),),
            )

    def _rules(
        self, case: Case, node: Node, failures: tuple[Failure, ...]
    ) -> tuple[RuleVerdict, ...]:
        breaks = self._attribution.breaks(case, failures)
        for broken in breaks:
            self.needed.add(case, broken)
        ledger = self._bookkeeping.ledger(case, breaks)
        if isinstance(ledger, tuple):
            return ledger
        if breaks:
            better = self._named(self._index.feasible(case.as_declared, without=case.key))
            for line in ledger.lines():
                if line.broken:
                    line.better = better
        for line in ledger.lines():
            line.better = self._named(line.better)
        return ledger.verdicts()

    def _if_restarted(self, case: Case) -> tuple[str, ...]:
        pod = case.pod
        if case.declared is not None:
            pod = restarted(pod, case.declared.placement, case.declared.labels)
        return self._index.feasible(pod, without=case.key)

    def _if_migrated(self, case: Case) -> tuple[str, ...]:
        vmi = case.instance.vmi
        if vmi is None or why_not_migratable(vmi):
            return ()
        placement, _terms = self._reader.placement(vmi.spec)
        target = migrated(case.pod, vmi, placement)
        return self._index.feasible(target, exclude={case.node})

    def _named(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        return nodes if self._details else nodes[:NAMED]

    def _domains_of(self, node: Node) -> dict[str, str]:
        found = self._domains.get(node.name)
        if found is None:
            found = self._domains[node.name] = {
                name: node.labels[key]
                for name, key in self.topology.keys.items()
                if key in node.labels
            }
        return found
