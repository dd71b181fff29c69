# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens after a change: which instances find a node, which do not, and which VMs have to move?

`decide` answers for the pods that need a node, `running_vms` for the running VMs that violate their
changed rules. The forecast is the worst of both answers and of the instances that cannot leave a
drained node.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import replace

from ..compliance.pending import DEFAULT_SCHEDULER, PendingReasons
from ..kubevirt.instances import instances
from ..kubevirt.next_pod import why_estimated, why_first_estimated
from ..model.findings import Finding
from ..model.kinds import STATEFUL_SET, VIRTUAL_MACHINE, RolloutRoom
from ..model.objects import Pod
from ..model.plan import Method, Move
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Unreadable, unreadable_texts
from ..model.topology import Topology
from ..rules.change import rolls_itself
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..view.view import ClusterView
from .bounds import competing_pods
from .change import ChangedCluster
from .decide import (
    NOT_ALL_TRIED,
    Decision,
    ForecastResult,
    SearchOptions,
    evaluate,
    near_ended,
    with_affinity_to_ended,
    worst_of,
)
from .declared_terms import DeclaredTerms, RulesAfterwards
from .eviction import ESTIMATED, Evictions, NodeEvent
from .explain import ProofWords
from .quota import within_quotas
from .result import (
    NAMED,
    Deadlock,
    Forecast,
    NotMigratableInstance,
    UnschedulableInstance,
    remediation,
)
from .running_vms import ChangedVms
from .scaling import Scale, expanded_template
from .simulation import ROLLOUT, PendingPod, PlacementSequence, PlacementSimulation
from .unplaced import Unplaced

NOT_RECREATED = "not_recreated"

OLD_PODS_MAY_END = (
    "not guaranteed: the workload rollout may end old pods before new ones have a node"
)
NOT_RENEWED = (
    "not guaranteed: the scheduler may place other pods where the new rules do not allow them, since VMs that do"
    " not move still run with the previous constraints"
)
BREAKABLE = (
    "not guaranteed: pods that new rules select end or are created, and the scheduler does not check the rules"
    " of VMs that are already placed, so such a VM may violate one"
)
UNTIL_MOVED = " until another controller moves it"
NOT_PROVEN = "not proven: VMs may move to other nodes than planned and free capacity"


def forecast(
    change: ChangedCluster,
    *,
    topology: Topology | None = None,
    assumed: t.Sequence[str] = (),
    estimated: t.Sequence[str] = (),
) -> Forecast:
    """The forecast of a change that `forecast/change.what_if` returns.

    VMs of changed workloads and members of rules that violate their declared rules have to move.
    `assumed` are texts about favorable assumptions: with
    any, the answer is never GUARANTEED. `estimated` are texts about facts that may be better or worse: with
    any, the answer is not IMPOSSIBLE either.
    """
    gaps = relevant_gaps(change.after)
    if gaps:
        reasons = tuple(f"unknown: {text}" for text in unreadable_texts(gaps))
        return Forecast(ForecastResult.UNKNOWN, reasons, unreadable=gaps)
    forecaster = _Forecaster(change, topology or Topology.of())
    result = within_quotas(forecaster.forecast(), change)
    return _qualified(result, assumed, (*estimated, *forecaster.moves_estimated()))


_LESS_SURE: t.Final = {
    ForecastResult.GUARANTEED: (ForecastResult.POSSIBLE, "not guaranteed: "),
    ForecastResult.IMPOSSIBLE: (ForecastResult.UNKNOWN, "not proven, since "),
}


def _qualified(result: Forecast, assumed: t.Sequence[str], estimated: t.Sequence[str]) -> Forecast:
    """The forecast with an answer that its assumptions allow: POSSIBLE for GUARANTEED, UNKNOWN for
    IMPOSSIBLE."""
    guaranteed = result.answer is ForecastResult.GUARANTEED
    nothing_placed = result.instances_to_schedule == 0 and not result.moves
    assumptions = [*estimated, *(assumed if guaranteed else ())]
    if not assumptions or result.answer not in _LESS_SURE or (nothing_placed and guaranteed):
        return result
    answer, prefix = _LESS_SURE[result.answer]
    return replace(
        result,
        answer=answer,
        reasons=(*result.reasons, *(f"{prefix}{text}" for text in assumptions)),
        pending=tuple(replace(instance, certain=False) for instance in result.pending),
        min_unschedulable=0 if estimated else result.min_unschedulable,
    )


def estimates(change: ChangedCluster, scale: t.Sequence[Scale] = ()) -> t.Iterator[str]:
    """Texts about estimated facts: the cluster may behave otherwise, for better or worse."""
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in change.before.vmis}
    scaled = {entry.workload for entry in scale}
    for workload in change.after.workloads:
        ref = workload.ref
        halted = ref.kind == VIRTUAL_MACHINE.name and (ref.namespace, ref.name) not in running
        starts = halted and ref in change.affected
        why = ""
        if starts or (ref in scaled and workload.kind.virtual_machines):
            expanded = expanded_template(change.before, workload)
            devices = change.before.network_devices.get(ref)
            why = why_estimated(workload, expanded, change.before.platform, devices)
        elif ref in scaled and all(x.workload != ref for x in instances(change.before)):
            why = why_first_estimated(workload)
        if why:
            yield f"the next pod of {ref} is an estimate: {why}"
    for evicted in change.estimated:
        yield f"{evicted.instance.ref} {evicted.reason}"
    if names := [x.name for x in change.pending if x.required and x.has_other_scheduler]:
        yield f"another scheduler places {listed(names)}"
    ending = [
        x
        for x in change.after.workloads
        if (x.ref in scaled and x.ref.kind != STATEFUL_SET.name)
        or (x.ref in change.touched and rolls_itself(x))
    ]
    placed = (x.workload for x in instances(change.before) if x.node_name) if ending else ()
    counts = Counter(placed)
    for workload in ending:
        if 0 < (workload.replicas or 0) < counts[workload.ref]:
            yield f"the controller chooses which instances of {workload.ref} end"


def relevant_gaps(snapshot: Snapshot) -> tuple[Unreadable, ...]:
    """The lists that could not be read, without volumes if no pod has claims."""
    claims = any(pod.claims for pod in snapshot.pods)
    return tuple(
        gap
        for gap in snapshot.unreadable
        if claims or not gap.resource.startswith("persistentvolume")
    )


class _Forecaster:
    def __init__(self, change: ChangedCluster, topology: Topology) -> None:
        self.change = change
        self.view = ClusterView(change.after)
        self.topology = topology
        evicted = {pending.uid for pending in change.pending}
        self.changed = ChangedVms(self.view, change.affected, evicted, topology)
        self.plan = self.changed.plan
        self._evictions = Evictions(change.after)
        self.index = self.view.index_with(self.changed.pods())
        self.pending = change.pending
        self.pending = competing_pods(self._simulation())

    def forecast(self) -> Forecast:
        simulation = self._simulation()
        affine = with_affinity_to_ended(simulation)
        options = self._options(bool(affine))
        search_decision = evaluate(simulation, options)
        decision = self._qualify(search_decision, simulation, options)
        of_running_vms = self.changed.evaluate(self.pending)
        reasons = self._reasons(simulation, search_decision, decision)
        if of_running_vms.proven is not None:
            least, never = of_running_vms.proven.least, of_running_vms.proven.never
            decision, reasons = replace(decision, least=least, never=never), []
        blocked = self._blocked()
        answers = [decision.answer, of_running_vms.answer]
        external = any(not instance.certain for instance in blocked)
        if external:
            if decision.answer is ForecastResult.IMPOSSIBLE:
                reasons = [f"unless other VMs move: {text}" for text in reasons]
            answers = [x for x in answers if x is not ForecastResult.IMPOSSIBLE]
            answers.append(ForecastResult.UNKNOWN)
            decision = replace(decision, least=0, never=frozenset())
        if any(instance.certain for instance in blocked):
            answers.append(ForecastResult.IMPOSSIBLE)
        answer = worst_of(answers)
        if (
            of_running_vms.answer is not ForecastResult.POSSIBLE
            or answer is ForecastResult.POSSIBLE
        ):
            reasons += of_running_vms.why
        if affine and answer is ForecastResult.POSSIBLE:
            reasons.append(near_ended(affine))
        elif decision.is_search_incomplete and not decision.doubt and of_running_vms.proven is None:
            reasons.append(NOT_ALL_TRIED)
        elif answer is decision.answer is ForecastResult.POSSIBLE and not decision.doubt:
            reasons.append(self._why_only_possible(decision))
        reasons += [
            f"{x.instance} stays on {x.node}{'' if x.certain else UNTIL_MOVED}: {x.reason}"
            for x in blocked
        ]
        unplaced, unplaced_on_node = self._unplaced(simulation, decision)
        not_migratable = list(self.changed.not_migratable(self.pending))
        if external:
            not_migratable = [replace(instance, certain=False) for instance in not_migratable]
        migrating = {n for n, x in enumerate(self.pending) if x.reason == "migrate" and x.required}
        return Forecast(
            answer=answer,
            reasons=tuple(reasons),
            pending=tuple(unplaced),
            not_migratable=(*blocked, *unplaced_on_node, *not_migratable),
            moves=(*self.plan.moves, *self._moves(simulation, decision.best)),
            skipped=self.plan.skipped,
            deadlock=self._deadlock(simulation, decision) or of_running_vms.deadlock,
            findings=tuple(self._not_recreated()),
            instances_to_schedule=simulation.required,
            down_until_fenced=self.change.fenced,
            min_unschedulable=min(decision.least_without(migrating), len(unplaced)),
        )

    def moves_estimated(self) -> t.Iterator[str]:
        """Texts about VMs that the plan moves or skips, and whose next pod may have other requests or
        constraints than its present one."""
        skipped = {instance.instance for instance in self.plan.skipped}
        methods = {move.uid: move.method for move in self.plan.moves}
        for vm in self.changed.candidates:
            vmi, ref = vm.instance.vmi, vm.instance.ref
            if vmi is None or (vm.uid not in methods and ref not in skipped):
                continue
            if methods.get(vm.uid) is Method.MIGRATE or (vm.uid not in methods and vm.can_migrate):
                why = self._evictions.migrated(vm.pod, vmi)[1]
            else:
                changed = self._evictions.changed_by_restart(vmi, vm.workload)
                why = changed.reason or ("its template was changed" if changed.pod else "")
            if not why and vm.pod.scheduler_name != DEFAULT_SCHEDULER:
                why = "another scheduler places it"
            if why:
                yield f"{ref} {ESTIMATED}: {why}"

    def _simulation(self, index: Index | None = None) -> PlacementSimulation:
        ended = self.change.after.terminating_pods
        return PlacementSimulation(index or self.index, self.pending, ended=ended)

    def _options(self, affine: bool) -> SearchOptions:
        """What a search of all sequences may prove. Old pods that may end before the search ends them open
        nodes that it does not see, and so do waiting ones that a rollout ends once they have run."""
        rolling = [pending for pending in self.pending if pending.in_rollout]
        rooms = [x.room for x in rolling if x.reason in ROLLOUT and x.room is not None]
        waiting = {pod_key(pending.pod) for pending in self.pending if not pending.required}
        in_order = not any(x.replaces and pod_key(x.replaces) in waiting for x in rolling)
        return SearchOptions(
            complete=not affine and in_order and all(x.unavailable == 0 for x in rooms),
            one_at_a_time=in_order
            and all(x.unavailable == 0 or x == RolloutRoom(0, 1) for x in rooms),
        )

    def _qualify(
        self, decision: Decision, simulation: PlacementSimulation, options: SearchOptions
    ) -> Decision:
        """The decision as far as the running VMs allow it.

        IMPOSSIBLE becomes UNKNOWN if VMs move or have to move, since the scheduler may choose other nodes
        for them. If a pending pod may violate a declared rule of a running VM, the answer is POSSIBLE only
        if a known sequence satisfies all rules at its end."""
        plan, declared = self.plan, DeclaredTerms(self.changed.staying, self.index)
        afterwards = RulesAfterwards(self.change, self.changed, self.pending)
        violates = declared.may_be_violated_by(pending.pod for pending in simulation.pending)
        breakable = violates or afterwards.may_break(self.index)
        if decision.answer is ForecastResult.IMPOSSIBLE and (
            plan.moves or plan.skipped or breakable
        ):
            return replace(
                decision,
                answer=ForecastResult.UNKNOWN,
                least=0,
                never=frozenset(),
                doubt=NOT_PROVEN,
            )
        placeable = decision.answer in (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE)
        if not placeable or not (breakable or (plan.moves and self.pending)):
            return decision
        doubt = NOT_RENEWED if violates else BREAKABLE
        best = decision.best
        satisfied = afterwards.all_satisfied(best)
        if violates and not satisfied:
            strict = self.view.index_with(declared.keeping_both(self.changed.pods()))
            best = evaluate(self._simulation(strict), options).best
            satisfied = afterwards.all_satisfied(best)
        if not satisfied:
            return replace(decision, answer=ForecastResult.UNKNOWN, doubt=doubt)
        if not breakable:
            return decision
        return replace(decision, answer=ForecastResult.POSSIBLE, best=best, doubt=doubt)

    def _reasons(
        self, simulation: PlacementSimulation, search_decision: Decision, decision: Decision
    ) -> list[str]:
        """What the search proved, and why `decision` claims less."""
        proof = self._proof_of_search(simulation, search_decision)
        if search_decision.answer is ForecastResult.IMPOSSIBLE and decision.doubt:
            proof = [f"unless other VMs move: {text}" for text in proof]
        elif decision.answer is ForecastResult.UNKNOWN and decision.doubt:
            proof = [
                f"nodes were found for all {simulation.required}, but no order after which every new"
                " rule is satisfied"
            ]
        return [*proof, decision.doubt] if decision.doubt else proof

    def _why_only_possible(self, decision: Decision) -> str:
        if decision.worst is None:
            return OLD_PODS_MAY_END
        placed = {number for number, _node in decision.worst}
        required = [n for n, pending in enumerate(self.pending) if pending.required]
        without = [self.pending[number].name for number in required if number not in placed]
        are = "is" if len(without) == 1 else "are"
        return (
            f"not guaranteed: {len(without)} of {len(required)} {are} unschedulable if the scheduler chooses"
            f" unfavorable nodes ({listed(without)})"
        )

    def _proof_of_search(self, simulation: PlacementSimulation, decision: Decision) -> list[str]:
        if decision.proofs:
            reasons = PendingReasons(self.index, self.topology)
            words = ProofWords(
                self.topology, self.pending, lambda n: reasons.reason(self.pending[n].pod)
            )
            return [words.text(proof) for proof in decision.proofs]
        count = simulation.required
        if decision.answer is ForecastResult.IMPOSSIBLE:
            return [
                f"every choice of nodes was tried: at most {count - decision.least} of"
                f" {count} are schedulable"
            ]
        if decision.answer is ForecastResult.UNKNOWN:
            return [
                f"no choice of nodes was found for all {count}, and not every choice was tried"
                " (the search has a limit)"
            ]
        return []

    def _unplaced(
        self, simulation: PlacementSimulation, decision: Decision
    ) -> tuple[list[UnschedulableInstance], list[NotMigratableInstance]]:
        sequence = decision.incomplete
        if sequence is None:
            return [], []
        with simulation.played(sequence):
            unplaced = Unplaced(self.change, self.view, simulation, self.topology)
            return unplaced.of(decision.never)

    def _blocked(self) -> list[NotMigratableInstance]:
        """Instances that stay on a drained node: they cannot be migrated, and must not be restarted."""
        return [
            NotMigratableInstance(
                evicted.instance.ref,
                evicted.instance.workload,
                evicted.instance.node_name,
                evicted.reason,
                certain=evicted.certain,
            )
            for evicted in self.change.blocked
        ]

    def _not_recreated(self) -> t.Iterator[Finding]:
        for evicted in self.change.not_recreated:
            ref = evicted.instance.ref
            yield Finding(
                NOT_RECREATED,
                "warning",
                f"{ref} ends with its node: {evicted.reason}.",
                "Move it before, or manage it with a controller that recreates it.",
                (ref,),
            )

    def _moves(self, simulation: PlacementSimulation, sequence: PlacementSequence) -> list[Move]:
        """The moves of pods on lost nodes, in the order of the sequence. Pods of a workload rollout are
        left out: their controller replaces them."""
        moves = []
        with simulation.ready_for(sequence):
            for number, node in sequence:
                pending = self.pending[number] if node else None
                source = pending.replaces if pending else None
                if pending and source and source.node_name in self.change.lost_nodes:
                    names = simulation.table.names_of(simulation.open_nodes(number))
                    alternatives = tuple(name for name in names if name != node)
                    moves.append(
                        _move(pending, source, (node, *alternatives)[:NAMED], self.change.event)
                    )
                simulation.step(number, node)
        return moves

    def _deadlock(self, simulation: PlacementSimulation, decision: Decision) -> Deadlock | None:
        """The pods that cannot be placed only because the pods that they replace still run; None if there
        are none."""
        placed = {number for number, _node in decision.best}
        bound = [
            pending
            for number, pending in enumerate(self.pending)
            if pending.source is not None and number not in placed
        ]
        if decision.answer is not ForecastResult.IMPOSSIBLE or not bound:
            return None
        with self.index.without(*(pending.source for pending in bound)):
            freed = [_without_source(pending, self._evictions) for pending in self.pending]
            simulation = PlacementSimulation(self.index, freed)
            answer = evaluate(simulation).answer
        if answer not in (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE):
            return None
        refs = tuple(dict.fromkeys(pending.instance for pending in bound))
        rollout = any(pending.reason in ROLLOUT for pending in bound)
        blocker = "old pods run" if rollout else "source pod runs"
        names = listed([pending.name for pending in bound])
        reason = f"there is capacity for {names}, but not while the {blocker}"
        return Deadlock(refs, reason, remediation(refs, rollout=rollout))


def _without_source(pending: PendingPod, evictions: Evictions) -> PendingPod:
    """The same pending pod, as if the pod that it replaces had ended."""
    if pending.reason == "migrate" and pending.vmi is not None and pending.replaces is not None:
        workload = evictions.workload(pending.workload)
        pod, _why = evictions.restarted(pending.replaces, pending.vmi, workload)
        return PendingPod(pod)
    return replace(pending, reason="start") if pending.source is not None else pending


def _move(pending: PendingPod, source: Pod, targets: tuple[str, ...], event: NodeEvent) -> Move:
    method = Method.MIGRATE
    if pending.reason == "recreate":
        is_vm = pending.workload is not None and pending.workload.kind == "VirtualMachine"
        method = Method.RESTART if is_vm else Method.RECREATE
    ref, uid = pending.instance._replace(name=pending.name), source.uid
    if pending.vmi is not None and source.owner is not None:
        uid = source.owner.uid
    workload = pending.workload or ref
    reason = "its node fails" if event == "failure" else "its node is drained"
    return Move(ref, uid, workload, method, source.node_name, targets, reason)
