# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a cluster obey their rules where they run?

For each instance, the scheduler's filters answer whether its node would admit it again. They are
asked about the cluster as declared, where each pod has what its workload declares. Whether
the running pod was scheduled with that is reported beside the verdict. So a rule that was just
written is violated or satisfied before anything has moved.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..kubevirt.changed_pods import changed_by_migration
from ..kubevirt.instances import is_of
from ..kubevirt.next_pod import migration_target_pod, pod_after_restart
from ..model.gc import collector_paused
from ..model.objects import Node, Ref
from ..model.snapshot import Instance, Snapshot
from ..model.topology import Topology
from ..model.verdict import (
    InstanceVerdict,
    MoveCount,
    Pending,
    Risk,
    RuleVerdict,
    Verdict,
    Verdicts,
)
from ..scheduler.framework import FilterStatus
from ..scheduler.index import Index
from ..view.view import ClusterView, view_of
from .declared import DeclaredReader
from .evaluate import RuleEvaluator
from .instances import DeclaredInstance, JudgedInstances, declared_cluster
from .obstacles import Obstacles
from .pending import PendingReasons, lacking_instances, pending_of
from .violations import (
    MissingData,
    RuleAttribution,
    TermOwners,
    Violation,
    good_nodes,
    risks_of_node,
)

SEVERITY = list(Verdict)
"""From best to worst: the verdict of an instance is the worst of its rules."""

NODES_LISTED = 20
"""The most nodes in each list of a verdict, unless `details` is set."""


MovesCounter = t.Callable[
    [
        Index,
        t.Iterable[DeclaredInstance],
        t.Iterable[tuple[DeclaredInstance, Violation]],
        Topology,
    ],
    dict[str, MoveCount],
]
"""The type of `moves_needed` in `planning/moves_needed`, which this layer may not import."""


@collector_paused()
def judge(
    snapshot: Snapshot,
    *,
    topology: Topology | None = None,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
    details: bool = False,
    count_moves: MovesCounter | None = None,
) -> Verdicts:
    """The verdicts of the instances of `workloads` (None: all) in `namespaces` (None: all).

    Other instances get no verdict, but their affinity and anti-affinity count. With `details` every
    verdict lists the other nodes where the instance could run, and lists of nodes are not cut at
    NODES_LISTED. Without `count_moves` the verdicts have no `moves_needed`.
    """
    chosen = None if workloads is None else frozenset(workloads)

    def covers(workload: Ref | None, instance: Ref) -> bool:
        if namespaces is not None and instance.namespace not in namespaces:
            return False
        return chosen is None or is_of(chosen, workload, instance)

    view = view_of(snapshot)
    instances = JudgedInstances.of(view)
    index = view.new_index()
    judge = Judge(view, index, instances, topology or Topology.of(), details)
    moves: t.Mapping[str, MoveCount] = {}
    with declared_cluster(index, instances):
        for instance in instances.placed:
            if covers(instance.instance.workload, instance.instance.ref):
                judge.evaluate(instance)
        if count_moves is not None:
            moves = count_moves(index, instances.placed, judge.attributed, judge.topology)
    judge.add_feasible_nodes()
    reasons = PendingReasons(index, judge.topology, Obstacles(view))
    pending = pending_of(instances, reasons, judge.missing, covers)
    waiting = [x for x in instances.waiting if covers(x.workload, x.ref)]
    for refused, lacks in lacking_instances(snapshot.workloads):
        if covers(refused.workload, refused.ref):
            waiting.append(refused)
            pending += (lacks,)
    return Verdicts(
        instances=(*judge.verdicts, *judge.without_node(waiting, pending)),
        pending=pending,
        risks=tuple(judge.risks),
        unreadable=snapshot.unreadable,
        moves_needed=moves,
    )


class Judge:
    """Evaluates one instance after the other. `verdicts` has the order of `evaluated`."""

    def __init__(
        self,
        view: ClusterView,
        index: Index,
        instances: JudgedInstances,
        topology: Topology,
        details: bool,
    ) -> None:
        self.topology = topology
        self.verdicts: list[InstanceVerdict] = []
        self.evaluated: list[DeclaredInstance] = []
        self.attributed: list[tuple[DeclaredInstance, Violation]] = []
        self.risks: list[Risk] = []
        self.missing = MissingData(view.snapshot.unreadable)
        self._index = index
        self._reader = view.snapshot.derived(DeclaredReader)
        self._details = details
        self._nodes = view.snapshot.nodes_by_name
        self._domains: dict[str, dict[str, str]] = {}
        self._attribution = RuleAttribution(topology, self._nodes, TermOwners(view).instance_of)
        self._platform = view.snapshot.platform
        self._evaluator = RuleEvaluator(self._index, topology, self.missing)

    def evaluate(self, instance: DeclaredInstance) -> None:
        """Add the verdict of one instance. The index must hold the cluster as declared."""
        node = self._nodes[instance.node]
        failures = self._index.failures_in_place(instance.key)
        self.risks += risks_of_node(instance, node)
        if failures:
            self.risks += self._attribution.risks(instance, failures)
        rules = self._rules(instance, failures)
        self.evaluated.append(instance)
        self.verdicts.append(
            InstanceVerdict(
                instance=instance.instance.ref,
                uid=instance.instance.uid,
                workload=instance.instance.workload,
                node=instance.node,
                domains=self._domains_of(node),
                verdict=max(
                    (x.verdict for x in rules), key=SEVERITY.index, default=Verdict.SATISFIED
                ),
                rules=rules,
                down=not node.ready,
            )
        )

    def add_feasible_nodes(self) -> None:
        """Add to the verdicts of violating instances (with `details`: of all) the nodes where they could
        run now. The index must hold the cluster as it runs, which is what the scheduler sees."""
        for number, (verdict, instance) in enumerate(
            zip(self.verdicts, self.evaluated, strict=True)
        ):
            if self._details or verdict.verdict is Verdict.VIOLATED:
                self.verdicts[number] = replace(
                    verdict,
                    feasible_if_restarted=self._cut(self._if_restarted(instance)),
                    feasible_if_migrated=self._cut(self._if_migrated(instance)),
                )

    def without_node(
        self, instances: t.Iterable[Instance], pending: t.Iterable[Pending]
    ) -> t.Iterator[InstanceVerdict]:
        """Verdicts of instances without a node: pending, or unknown if their pod was not read."""
        reasons = {entry.instance: entry.reason for entry in pending}
        for instance in instances:
            unreadable = self.missing.of_waiting(instance)
            verdict = Verdict.PENDING if unreadable is None else Verdict.UNKNOWN
            reason = reasons[instance.ref] if unreadable is None else str(unreadable)
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
        self, instance: DeclaredInstance, failures: tuple[FilterStatus, ...]
    ) -> tuple[RuleVerdict, ...]:
        violated = self._attribution.attribute(instance, instance.node, failures)
        self.attributed += [(instance, violation) for violation in violated]
        results = self._evaluator.results(instance, violated)
        if isinstance(results, tuple):
            return results
        if violated:
            good = good_nodes(
                self._index, instance.judged_pod, instance.declared, instance.workload
            )
            better = self._index.table.names_of(good)
            for result in results.values():
                if result.violated:
                    result.better = better
        for result in results.values():
            result.better = self._cut(result.better)
        return results.verdicts()

    def _if_restarted(self, instance: DeclaredInstance) -> tuple[str, ...]:
        pod, declared = instance.pod, instance.declared
        if declared is not None:
            pod = pod_after_restart(pod, instance.instance.vmi, declared.placement, declared.labels)
        return self._index.feasible_nodes(pod, without=instance.key)

    def _if_migrated(self, instance: DeclaredInstance) -> tuple[str, ...]:
        vmi, node = instance.instance.vmi, self._nodes[instance.node]
        if vmi is None or instance.ways.migrate is not None or not node.ready:
            return ()
        target = migration_target_pod(instance.pod, vmi, self._reader.of_vmi(vmi), node)
        target, _estimated = changed_by_migration(target, vmi, self._platform)
        return self._index.feasible_nodes(target, exclude={instance.node})

    def _cut(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        return nodes if self._details else nodes[:NODES_LISTED]

    def _domains_of(self, node: Node) -> dict[str, str]:
        domains = self._domains.get(node.name)
        if domains is None:
            domains = self._domains[node.name] = {
                name: node.labels[key]
                for name, key in self.topology.keys.items()
                if key in node.labels
            }
        return domains
