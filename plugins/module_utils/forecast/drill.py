# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances would find no node if a topology domain were lost, for each domain of a key in turn?

One index serves all drills of a cluster: a drill takes out what is lost, asks, and puts it back, so that
it costs about as much as the instances that it evicts.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, replace

from ..kubevirt.instances import bound_launcher, ends_if_fenced, replaced_once_gone, settled
from ..model.gc import collector_paused
from ..model.objects import Pod, Ref, Toleration
from ..model.rendering import listed
from ..model.snapshot import Instance, Snapshot, Unreadable
from ..model.topology import Topology
from ..scheduler.framework import pod_key
from ..scheduler.node_state import UNSCHEDULABLE_TAINT, untolerated
from ..scheduler.nodes import NodeSet, takes_pods
from ..view.view import ClusterView, view_of
from .admission import PodAdmission
from .bounds import competing_pods
from .conclusion import WORSE, Conclusion, Doubt, ForecastResult, conclude, worst_of
from .decide import (
    NONE_FOUND,
    NOT_ALL_TRIED,
    Decision,
    SearchOptions,
    affinity_doubts,
    evaluate,
)
from .doubts import (
    doubts_of_pods,
    of_evicted,
    of_failed_nodes,
    of_schedulers,
    relevant_gaps,
)
from .eviction import (
    UNREACHABLE,
    DrainOutcome,
    Evictions,
    NodeEvent,
    blocked_evidence,
)
from .explain import (
    EVICTION,
    BlockedPod,
    Blocking,
    ProofWords,
    filter_summary,
)
from .forecast import UNTIL_MOVED
from .loss import Loss
from .quota import Quotas, Refusal, quota_evidence
from .simulation import PendingPod, PlacementSimulation, Reason

LIMIT = 400
"""States that the search of one drill visits."""

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Drill:
    """The loss of one topology domain. Where not all instances can have a node, `pending` have none after
    the best sequence that was found, and `not_migratable` cannot be live-migrated off; else `at_risk`
    have none after the worst one. `blocked` says what blocks each of these."""

    key: str
    domain: str
    nodes: tuple[str, ...]
    answer: ForecastResult
    instances_to_schedule: int = 0
    min_unschedulable: int = 0
    pending: tuple[Ref, ...] = ()
    at_risk: tuple[Ref, ...] = ()
    not_migratable: tuple[Ref, ...] = ()
    not_recreated: tuple[Ref, ...] = ()
    down_until_fenced: tuple[Ref, ...] = ()
    reasons: tuple[str, ...] = ()
    blocked: tuple[BlockedPod, ...] = ()
    codes: tuple[str, ...] = ()
    room: tuple[int, int] = (0, 0)
    """Millicores and bytes of memory that are free on the other nodes once all instances have a node."""
    missing: tuple[int, int] = (0, 0)
    """Millicores and bytes of memory that the instances without a node request."""
    used: bool = True
    """Whether one of the nodes takes pods, or has instances that would leave it."""

    @property
    def min_down(self) -> int:
        """At least so many instances are unschedulable, or are not created again."""
        return self.min_unschedulable + len(self.not_recreated)

    @property
    def harm(self) -> tuple[int, int, int, int, str, str]:
        """Sorts the worst first."""
        return (
            -WORSE.index(self.answer),
            -self.min_down - len(self.not_migratable),
            -len(self.at_risk),
            -self.instances_to_schedule,
            self.key,
            self.domain,
        )

    @property
    def is_certain(self) -> bool:
        """Whether it certainly leaves an instance without a node, or one that nothing creates again or migrates;
        elsewhere only the guarantee lacks."""
        impossible = self.answer is ForecastResult.IMPOSSIBLE
        return impossible or bool(self.min_down or self.not_migratable)

    @property
    def has_impact(self) -> bool:
        """Whether not all is guaranteed: an impact that is certain, or one that is not excluded."""
        return self.answer is not ForecastResult.GUARANTEED or bool(self.not_recreated)


@dataclass(frozen=True, slots=True)
class DrillReport:
    """All drills, those with the worst impact first."""

    event: NodeEvent
    drills: tuple[Drill, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    not_ready: frozenset[str] = frozenset()
    """Nodes that are down already. A drill of another node does not count their VMs."""

    @property
    def worst(self) -> ForecastResult:
        """The worst answer of all drills."""
        return (
            ForecastResult.UNKNOWN
            if self.unreadable
            else worst_of(drill.answer for drill in self.drills)
        )


def drill(
    snapshot: Snapshot, keys: t.Sequence[str], *, event: NodeEvent, topology: Topology | None = None
) -> DrillReport:
    """Lose each domain of each key (full label keys) in turn. Where something that matters could not be
    read, there are no drills."""
    gaps = relevant_gaps(snapshot)
    if gaps:
        return DrillReport(event, unreadable=gaps)
    drills = DrillEngine(view_of(settled(snapshot)), event, topology or Topology.of())
    with collector_paused():
        losses = [
            drills.lose(key, domain, nodes)
            for key in keys
            for domain, nodes in drills.index.table.domains(key).items()
        ]
    ordered = tuple(sorted(losses, key=lambda lost: lost.harm))
    return DrillReport(event, ordered, not_ready=snapshot.not_ready_nodes)


class DrillEngine:
    """The drills of one view of a cluster."""

    def __init__(self, view: ClusterView, event: NodeEvent, topology: Topology) -> None:
        self.snapshot = view.snapshot
        self.ending = view.snapshot.terminating_pods
        self.event = event
        self.topology = topology
        self.index = view.new_index()
        self.evictions = Evictions(view.snapshot)
        self.on_node: dict[str, list[Instance]] = {}
        for instance in view.instances:
            if instance.pod is not None and pod_key(instance.pod) in self.index:
                self.on_node.setdefault(instance.node_name, []).append(instance)
        self.lingering = [
            pod for pod in ends_if_fenced(view.snapshot) if pod_key(pod) in self.index
        ]
        self.waiting = _waiting(view)
        self.blocking = Blocking(view, topology)
        self.quotas = Quotas(view.snapshot)
        self.admission = PodAdmission(view.snapshot)
        pods = view.snapshot.pods if self.quotas else ()
        self.used_of_quotas = self.quotas.used(pods, pods)
        self._tolerated: dict[tuple[Toleration, ...], bool] = {}
        self._free = {
            n: (max(0, free.get("cpu", 0)), max(0, free.get("memory", 0)))
            for n, node in enumerate(self.index.table.nodes)
            if takes_pods(node)
            for free in [self.index.resources.free(n)]
        }
        self._total = tuple(sum(free[i] for free in self._free.values()) for i in range(2))

    def lose(self, key: str, domain: str, nodes: NodeSet) -> Drill:
        with self._lost(nodes) as (names, loss, simulation):
            decision = self._decision(simulation)
            made = self._drill(key, domain, names, loss, simulation, decision)
        return replace(made, room=self._room(names, loss), used=self.uses(names))

    def conclusion_with(
        self, nodes: NodeSet, more: t.Sequence[PendingPod], doubts: t.Sequence[Doubt] = ()
    ) -> Conclusion:
        """What the loss of these nodes comes to where `more` pods need a node, too. `doubts` are about these."""
        with self._lost(nodes, more) as (_names, loss, simulation):
            pending = [*loss.pending, *more]
            return self._concluded(loss, pending, self._decision(simulation), doubts).conclusion

    def free_without(self, lost: t.Collection[str]) -> list[t.Mapping[str, int]]:
        """What is free on each node that takes pods, without the lost ones."""
        table = self.index.table
        return [self.index.resources.free(n) for n in self._free if table.names[n] not in lost]

    def used_without_key(self, key: str, lost: NodeSet) -> tuple[str, ...]:
        """The names of the nodes beside the lost ones that lack a label, and are used."""
        table = self.index.table
        unlabeled = table.all & ~table.with_key(key) & ~lost
        return tuple(name for name in table.names_of(unlabeled) if self.is_used(name))

    def uses(self, names: t.Iterable[str]) -> bool:
        """Whether one of these nodes is used, or would be if it were not cordoned."""
        table = self.index.table
        return any(
            table.nodes[table.numbers[name]].unschedulable or self.is_used(name) for name in names
        )

    def is_used(self, name: str) -> bool:
        """Whether a node takes pods, or has instances that would leave it: a control plane node has neither, as a
        rule."""
        table = self.index.table
        return takes_pods(table.nodes[table.numbers[name]]) or any(
            self.evictions.of(instance, self.event).outcome is not DrainOutcome.NODE_BOUND
            for instance in self.on_node.get(name, ())
        )

    def _decision(self, simulation: PlacementSimulation) -> Decision:
        options = SearchOptions(affinity_doubts(simulation), limit=LIMIT, needs_sequence=False)
        return evaluate(simulation, options)

    @contextlib.contextmanager
    def _lost(
        self, nodes: NodeSet, more: t.Sequence[PendingPod] = ()
    ) -> t.Iterator[tuple[tuple[str, ...], Loss, PlacementSimulation]]:
        names = self.index.table.names_of(nodes)
        loss = Loss(self.event)
        for name in names:
            for instance in self.on_node.get(name, ()):
                loss.add(self.evictions.of(instance, self.event))
        if self.event == "failure":
            loss.fenced = [pod for pod in self.lingering if pod.node_name in names]
            # Pods that terminate already on nodes that fail are never gone then.
            ending = (x for x in self.ending if x.terminating and x.node_name in names)
            loss.left_over = [pod for pod in ending if not replaced_once_gone(pod)]
        ended = [*loss.ended, *(pod for pod in self.ending if pod not in loss.left_over)]
        with loss.taken_out(self.index), self.index.tainted(nodes, self._tolerates):
            yield names, loss, self._simulation(loss, more, nodes, ended)

    def _room(self, lost: t.Sequence[str], loss: Loss) -> tuple[int, int]:
        """Millicores and memory that the schedulable nodes beside the lost ones have free, less what can move there
        alone."""
        numbers = [self.index.table.numbers[name] for name in lost]
        free = [self._free[n] for n in numbers if n in self._free]
        taken = self.taken_by(loss.pending)
        cpu, memory = (self._total[i] - sum(each[i] for each in free) - taken[i] for i in range(2))
        return cpu, memory

    def taken_by(self, pods: t.Iterable[PendingPod]) -> tuple[int, int]:
        """Millicores and memory that pods request which can be on schedulable nodes alone."""
        cpu = memory = 0
        others: dict[tuple[Toleration, ...], bool] = {}
        for pending in pods:
            tolerations = pending.pod.placement.tolerations
            if tolerations not in others:
                others[tolerations] = self._may_use_others(tolerations)
            if not others[tolerations]:
                cpu += pending.pod.requests.get("cpu", 0)
                memory += pending.pod.requests.get("memory", 0)
        return cpu, memory

    def _may_use_others(self, tolerations: tuple[Toleration, ...]) -> bool:
        """Whether these tolerations allow a node of which `_free` does not have what is free: a pod may go there."""
        return any(
            next(untolerated(node.taints, tolerations), None) is None
            for n, node in enumerate(self.index.table.nodes)
            if n not in self._free
            and not (
                node.unschedulable and next(untolerated((UNSCHEDULABLE_TAINT,), tolerations), None)
            )
        )

    def _simulation(
        self, loss: Loss, more: t.Sequence[PendingPod], nodes: NodeSet, ended: t.Sequence[Pod]
    ) -> PlacementSimulation:
        """The evicted instances, `more`, and the waiting pods that could ever take their nodes."""

        def closed(pod: Pod) -> NodeSet:
            return 0 if self._tolerates(pod.placement.tolerations) else nodes

        def simulation_of(pending: t.Sequence[PendingPod]) -> PlacementSimulation:
            return PlacementSimulation(self.index, pending, closed, ended)

        evicted = {evicted_instance.instance.uid for evicted_instance in loss.evicted}
        waiting = [pending for pending in self.waiting if pending.uid not in evicted]
        required = [*loss.pending, *more]
        if not required or not waiting:
            return simulation_of(required)
        return simulation_of(competing_pods(simulation_of([*required, *waiting])))

    def _tolerates(self, tolerations: tuple[Toleration, ...]) -> bool:
        tolerated = self._tolerated.get(tolerations)
        if tolerated is None:
            taints = (UNSCHEDULABLE_TAINT,) if self.event == "drain" else UNREACHABLE
            left = untolerated(taints, tolerations)
            tolerated = self._tolerated[tolerations] = next(left, None) is None
        return tolerated

    def _concluded(
        self,
        loss: Loss,
        pending: t.Sequence[PendingPod],
        decision: Decision,
        doubts: t.Sequence[Doubt] = (),
    ) -> _Concluded:
        """What the decision about these pods comes to with all that is not known of them."""
        namespaces = {x.pod.namespace for x in pending}
        used = self.quotas.used_without(self.used_of_quotas, loss.ended, namespaces)
        refused = tuple(self.quotas.refusals(pending, used))
        proofs, external = blocked_evidence(loss.blocked)
        of_pods = (
            *doubts_of_pods(pending, self.snapshot, self.admission),
            *of_schedulers(pending),
            *(of_failed_nodes(pending) if self.event == "failure" else ()),
        )
        of_evictions = (doubt for evicted in loss.doubtful for doubt in of_evicted(evicted))
        doubted = decision.doubted(*external, *of_pods, *of_evictions, *doubts)
        conclusion = conclude(
            doubted.evidence,
            *proofs,
            *quota_evidence(pending, refused),
        )
        return _Concluded(conclusion, doubted, refused, of_pods)

    def _drill(
        self,
        key: str,
        domain: str,
        names: tuple[str, ...],
        loss: Loss,
        simulation: PlacementSimulation,
        decision: Decision,
    ) -> Drill:
        concluded = self._concluded(loss, loss.pending, decision)
        doubted = concluded.decision
        impossible = doubted.answer is ForecastResult.IMPOSSIBLE
        decision = replace(decision, least=doubted.least, never=doubted.never)
        placed = {number for number, _node in decision.incomplete or ()}
        missing = range(len(loss.pending)) if decision.incomplete is not None else ()
        without = [n for n in missing if n not in placed]
        migrating = {n for n, x in enumerate(loss.pending) if x.reason == "migrate"}
        refs = [eviction.instance.ref for eviction in loss.evicted]
        refused = concluded.refused
        held = dict.fromkeys(refs[number] for number, refusal in refused if refusal.certain)
        kept = [refs[n] for n in without if refs[n] not in held]
        staying = {refs[n] for n in migrating}
        unschedulable = (*(kept if impossible else ()), *held)
        pending = tuple(x for x in unschedulable if x not in staying)
        unplaced = [loss.pending[n].pod.requests for n in without]
        return Drill(
            key=key,
            domain=domain,
            nodes=names,
            answer=concluded.conclusion.answer,
            codes=concluded.conclusion.codes,
            instances_to_schedule=len(loss.evicted) + len(loss.blocked),
            min_unschedulable=min(
                max(decision.least_without(migrating), len(held.keys() - staying)), len(pending)
            ),
            pending=pending,
            at_risk=() if impossible else tuple(kept),
            not_migratable=(
                *(eviction.instance.ref for eviction in loss.blocked),
                *(x for x in unschedulable if x in staying),
            ),
            not_recreated=tuple(eviction.instance.ref for eviction in loss.not_recreated),
            down_until_fenced=loss.down_until_fenced,
            reasons=tuple(self._reasons(simulation, loss, decision, concluded)),
            blocked=tuple(self._blocked(simulation, loss, decision)),
            missing=(
                sum(requests.get("cpu", 0) for requests in unplaced),
                sum(requests.get("memory", 0) for requests in unplaced),
            ),
        )

    def _reasons(
        self,
        simulation: PlacementSimulation,
        loss: Loss,
        decision: Decision,
        concluded: _Concluded,
    ) -> t.Iterator[str]:
        """What is certain before what is not. First doubts about a placement that was found, and may not be made."""
        deciding = [x for x in concluded.of_pods if x in concluded.conclusion.doubts]
        hiding = [x for x in deciding if ForecastResult.POSSIBLE in x.forbids]
        refused = concluded.refused[:SHOWN]
        refs = [eviction.instance.ref for eviction in loss.evicted]
        yield from (f"not certain: {x.text}" for x in hiding)
        yield from self._proofs(simulation, loss, decision)
        yield from (f"{refs[number]}: {why}" for number, (why, certain) in refused if certain)
        yield from self._uncertain(simulation, loss, decision)
        yield from (f"not certain: {x.text}" for x in deciding if x not in hiding)
        yield from (f"{refs[number]}: {why}" for number, (why, certain) in refused if not certain)

    def _blocked(
        self, simulation: PlacementSimulation, loss: Loss, decision: Decision
    ) -> t.Iterator[BlockedPod]:
        for eviction in loss.blocked:
            yield BlockedPod(eviction.instance.ref, EVICTION, str(eviction.obstacle))
        if decision.incomplete is None:
            return
        evicted = {number: eviction.instance for number, eviction in enumerate(loss.evicted)}
        with simulation.played(decision.incomplete):
            yield from self.blocking.of(simulation, evicted)

    def _proofs(
        self, simulation: PlacementSimulation, loss: Loss, decision: Decision
    ) -> t.Iterator[str]:
        """What makes the answer impossible: it stands before all that is not certain."""
        words = ProofWords(
            self.topology, simulation.pending, lambda n: filter_summary(simulation, n)
        )
        for proof in decision.proofs[:SHOWN]:
            yield words.text(proof)
        if len(decision.proofs) > SHOWN:
            yield f"and {len(decision.proofs) - SHOWN} more"
        if decision.answer is ForecastResult.IMPOSSIBLE and not decision.proofs:
            yield "every choice of nodes was tried"
        for eviction in [x for x in loss.blocked if x.certain][:SHOWN]:
            yield f"{eviction.instance.ref.name} blocks the drain: {eviction.obstacle}"

    def _uncertain(
        self, simulation: PlacementSimulation, loss: Loss, decision: Decision
    ) -> t.Iterator[str]:
        if decision.answer is ForecastResult.UNKNOWN:
            yield NONE_FOUND
        if decision.is_search_incomplete:
            yield f"not guaranteed: {NOT_ALL_TRIED}"
        elif decision.answer is ForecastResult.POSSIBLE and decision.worst is None:
            for doubt in affinity_doubts(simulation):
                yield f"not guaranteed: {doubt.text}"
        uncertain = [eviction for eviction in loss.evicted if not eviction.certain]
        unknown = [x.instance.ref.name for x in uncertain if not x.doubt]
        if unknown and decision.answer in (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE):
            yield f"not guaranteed: KubeVirt has not reported whether these can be live-migrated: {listed(unknown)}"
        for eviction in [x for x in uncertain if x.doubt][:SHOWN]:
            yield f"{eviction.instance.ref.name} {eviction.doubt}"
        for eviction in [x for x in loss.evicted if x.held_by][:SHOWN]:
            yield f"{eviction.instance.ref.name} may stay on its node: {eviction.held_by}"
        for eviction in [x for x in loss.blocked if not x.certain][:SHOWN]:
            yield f"{eviction.instance.ref.name} blocks the drain{UNTIL_MOVED}: {eviction.obstacle}"
        for eviction in loss.not_recreated[:SHOWN]:
            yield f"{eviction.instance.ref.name} is not recreated: {eviction.obstacle}"


class _Concluded(t.NamedTuple):
    """The answer about some pods: `decision` with its doubts, `refused` by number, with the reason and whether that is
    certain."""

    conclusion: Conclusion
    decision: Decision
    refused: tuple[tuple[int, Refusal], ...]
    of_pods: tuple[Doubt, ...]


def _waiting(view: ClusterView) -> list[PendingPod]:
    """The pods that need a node already, and may get one; a launcher pod beside a running one is a migration target."""
    launchers = view.launcher_pods
    waiting = []
    for pod in view.snapshot.pods:
        if not (pod.node_name or pod.finished or pod.terminating or pod.gated):
            owner = pod.owner
            source = bound_launcher(launchers.get(owner.uid, ())) if owner is not None else None
            reason: Reason = "start" if source is None else "migrate"
            waiting.append(PendingPod(pod, source, reason, required=False))
    return waiting
