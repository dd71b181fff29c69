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

from ..compliance.obstacles import Obstacles
from ..compliance.pending import DEFAULT_SCHEDULER, PendingReasons
from ..kinds.kind import RolloutRoom
from ..kinds.registry import kind_of
from ..model.findings import Finding
from ..model.objects import Pod, Ref
from ..model.plan import Method, Move
from ..model.rendering import listed
from ..model.snapshot import unreadable_texts
from ..model.topology import Topology
from ..planning.plan_request import Scope
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..view.view import view_of
from .admission import PodAdmission
from .bounds import competing_pods
from .change import ChangedCluster
from .conclusion import (
    NO_CERTAINTY,
    NO_GUARANTEE,
    NO_PLACEMENT,
    NO_PROOF,
    Doubt,
    ForecastResult,
    conclude,
)
from .decide import (
    NOT_ALL_TRIED,
    Decision,
    SearchOptions,
    affinity_doubts,
    evaluate,
    replaced_doubts,
)
from .declared_terms import DeclaredTerms, RulesAfterwards
from .doubts import doubts_of_pods, of_schedulers, relevant_gaps
from .eviction import ESTIMATED, EvictedInstance, Evictions, NodeEvent, blocked_evidence
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
from .running_vms import ChangedVms, ChangedVmsResult
from .simulation import ROLLOUT, PendingPod, PlacementSequence, PlacementSimulation, Reason
from .unplaced import Unplaced, in_flight

NOT_RECREATED = "not_recreated"

OLD_PODS_MAY_END = "the workload rollout may end old pods before new ones have a node"
NOT_RENEWED = (
    "the scheduler may place other pods where the new rules do not allow them, since VMs that do"
    " not move still run with the previous constraints"
)
BREAKABLE = (
    "pods that new rules select end or are created, and the scheduler does not check the rules"
    " of VMs that are already placed, so such a VM may violate one"
)
UNTIL_MOVED = " until another controller moves it"
MAY_FREE = "VMs may move to other nodes than planned and free capacity"
NOT_PROVEN = f"not proven: {MAY_FREE}"


def forecast(
    change: ChangedCluster,
    *,
    topology: Topology | None = None,
    doubts: t.Sequence[Doubt] = (),
    scope: Scope = "violated",
) -> Forecast:
    """The forecast of a change that `forecast/change.what_if` returns. `doubts` are those about the change
    (`doubts_of_change`); those about its pods are added. `scope` is that of the rollout that follows: its
    moves are among those of the forecast.

    VMs of changed workloads and members of rules that violate their declared rules have to move.
    """
    gaps = relevant_gaps(change.after)
    if gaps:
        reasons = tuple(f"unknown: {text}" for text in unreadable_texts(gaps))
        return Forecast(ForecastResult.UNKNOWN, reasons, unreadable=gaps, codes=("unreadable",))
    forecaster = _Forecaster(change, topology or Topology.of(), scope)
    result = within_quotas(forecaster.forecast(), change)
    return _concluded(result, tuple(dict.fromkeys((*doubts, *forecaster.doubts()))))


def _concluded(result: Forecast, doubts: t.Sequence[Doubt]) -> Forecast:
    """The forecast with its answer. The doubts are about pods, and not about instances that stay on a lost
    node, nor do most matter where nothing is placed."""
    if not result.instances_to_schedule and not result.moves:
        doubts = [x if x.more_pods else replace(x, forbids=x.forbids & NO_PROOF) for x in doubts]
    evidence = tuple(
        x if "stays_on_node" in x.never else replace(x, doubts=(*x.doubts, *doubts))
        for x in result.evidence
    )
    without, conclusion = conclude(*result.evidence), conclude(*evidence)
    result = replace(result, answer=conclusion.answer, codes=conclusion.codes, evidence=evidence)
    if any(ForecastResult.IMPOSSIBLE in doubt.forbids for doubt in doubts):
        pending = tuple(replace(instance, certain=False) for instance in result.pending)
        result = replace(result, pending=pending, min_unschedulable=0)
    if conclusion.answer is without.answer:
        return result
    prefix = _PREFIXES[conclusion.answer]
    reasons = (f"{prefix}{x.text}" for x in doubts if without.answer in x.forbids)
    return replace(result, reasons=(*result.reasons, *reasons))


_PREFIXES: t.Final = {
    ForecastResult.POSSIBLE: "not guaranteed: ",
    ForecastResult.UNKNOWN: "not proven, since ",
}


class _PodSearch(t.NamedTuple):
    """The search for nodes of the pods that need one. `search_decision` is its own decision, `decision` the one that is
    left of it with the rules of running VMs and with old pods; `of_rules` says why these rules leave less. `doubts` are
    about pods that the search cannot place as the scheduler may."""

    simulation: PlacementSimulation
    search_decision: Decision
    decision: Decision
    of_rules: str
    doubts: tuple[Doubt, ...]


class _Forecaster:
    def __init__(self, change: ChangedCluster, topology: Topology, scope: Scope) -> None:
        self.change = change
        self.view = view_of(change.after)
        self.topology = topology
        evicted = {pending.uid for pending in change.pending}
        self.changed = ChangedVms(self.view, change.affected, evicted, topology, scope)
        self.plan = self.changed.plan
        self._evictions = Evictions(change.after)
        self.index = self.view.new_index(self.changed.pods())
        self.pending = change.pending
        self.pending = competing_pods(self._simulation())

    def forecast(self) -> Forecast:
        """The forecast, with the evidence for its answer."""
        search = self._search()
        of_running_vms = self.changed.evaluate(self.pending)
        decision, reasons = search.decision, self._reasons(search)
        if of_running_vms.proven is not None:
            least, never = of_running_vms.proven.least, of_running_vms.proven.never
            decision, reasons = replace(decision, least=least, never=never), []
        proofs, external = blocked_evidence(self.change.blocked)
        if external:
            if decision.answer is ForecastResult.IMPOSSIBLE:
                reasons = [f"unless other VMs move: {text}" for text in reasons]
            decision = replace(decision, least=0, never=frozenset())
        running = of_running_vms.evidence
        evidence = [
            decision.doubted(*external).evidence,
            replace(running, doubts=(*running.doubts, *external)),
            *proofs,
        ]
        if any(x.always != "nothing_to_place" for x in evidence):
            evidence = [x for x in evidence if x.always != "nothing_to_place" or x.doubts]
        answer = conclude(*evidence).answer
        reasons += self._why_no_better(answer, search, decision, of_running_vms)
        reasons += self._why_staying()
        result = self._instances(answer, search, decision, certain=not external)
        return replace(
            result,
            evidence=tuple(evidence),
            reasons=tuple(reasons),
            deadlock=result.deadlock or of_running_vms.deadlock,
        )

    def _search(self) -> _PodSearch:
        simulation = self._simulation()
        affine = affinity_doubts(simulation)
        options = SearchOptions((*affine, *self._rollout_doubts()))
        search_decision = evaluate(simulation, options)
        decision, of_rules = self._with_rules(search_decision, simulation, options)
        replaced = replaced_doubts(simulation, self.change.touched)
        if decision.evidence.never == ("every_choice",):  # a search places none beside old pods
            replaced = tuple(replace(doubt, forbids=NO_CERTAINTY) for doubt in replaced)
        decision = decision.doubted(*replaced) if replaced else decision
        return _PodSearch(simulation, search_decision, decision, of_rules, (*affine, *replaced))

    def _instances(
        self, answer: ForecastResult, search: _PodSearch, decision: Decision, *, certain: bool
    ) -> Forecast:
        """The answer, and what becomes of the instances. `certain`: no other controller has to move a VM
        (eviction strategy External), which would open other nodes to VMs that cannot be live-migrated."""
        simulation = search.simulation
        unplaced, unplaced_on_node = self._unplaced(simulation, decision)
        not_migratable = list(self.changed.not_migratable(self.pending))
        if not certain:
            not_migratable = [replace(instance, certain=False) for instance in not_migratable]
        migrating = {n for n, x in enumerate(self.pending) if x.reason == "migrate" and x.required}
        explained, proven = self._named(search.search_decision)
        return Forecast(
            answer,
            pending=tuple(unplaced),
            not_migratable=(*self._blocked(), *unplaced_on_node, *not_migratable),
            moves=(*self.plan.moves, *self._moves(simulation, decision.best)),
            optional_moves=sum(x.uid not in self.changed.required for x in self.plan.moves),
            preferences_not_met=self.changed.missed_preferences(),
            skipped=self.plan.skipped,
            deadlock=self._deadlock(simulation, decision),
            findings=tuple(map(_not_recreated, self.change.not_recreated)),
            instances_to_schedule=simulation.required,
            down_until_fenced=self.change.fenced,
            min_unschedulable=min(self._least(decision, migrating), len(unplaced)),
            explained=explained,
            proven=explained | proven,
        )

    def _least(self, decision: Decision, migrating: t.Collection[int]) -> int:
        """The least number of pods that stay without a node. A rollout that waits creates no more than its room, and at
        least one."""
        room = in_flight(self.change)
        of_rollouts = [
            (number, x.workload)
            for number, x in enumerate(self.pending)
            if x.in_rollout and x.required and x.workload in room
        ]
        never = [x for x in of_rollouts if x[0] in decision.never]
        not_created, never_created = (
            sum(max(0, n - room[ref]) for ref, n in Counter(x[1] for x in pods).items() if ref)
            for pods in (of_rollouts, never)
        )
        certain = len(decision.never.difference(migrating)) - never_created
        least = decision.least_without(migrating)
        return max(certain, least - not_created, min(1, least))

    def _named(self, decision: Decision) -> tuple[frozenset[Ref], frozenset[Ref]]:
        """The instances that a reason explains, and those that the proof of the search is about."""
        proofs, required = decision.proofs, [x.instance for x in self.pending if x.required]
        explained = [evicted.instance.ref for evicted in self.change.blocked]
        explained += [self.pending[x.pods[0]].instance for x in proofs if x.kind == "no_node"]
        of_proofs = [self.pending[number].instance for proof in proofs for number in proof.pods]
        if not proofs and decision.answer is ForecastResult.IMPOSSIBLE:
            of_proofs, stuck = required, self._stuck()
            explained += [] if stuck is None else [self.pending[stuck].instance]
        return frozenset(explained), frozenset(of_proofs)

    def _stuck(self) -> int | None:
        """The number of the first required pod that has no node even now."""
        numbered = ((n, x) for n, x in enumerate(self.pending) if x.required)
        return next((n for n, x in numbered if not self.index.feasible_nodes(x.pod)), None)

    def _why_no_better(
        self,
        answer: ForecastResult,
        search: _PodSearch,
        decision: Decision,
        of_running_vms: ChangedVmsResult,
    ) -> t.Iterator[str]:
        """Why the answer is no better, where neither the proofs of the search nor the rules have said it."""
        of_rules = search.of_rules
        possible = answer is ForecastResult.POSSIBLE
        if possible or of_running_vms.answer is not ForecastResult.POSSIBLE:
            yield from of_running_vms.why
        if search.doubts and possible:
            yield from (f"not guaranteed: {doubt.text}" for doubt in search.doubts)
        elif decision.is_search_incomplete and not of_rules and of_running_vms.proven is None:
            yield f"not guaranteed: {NOT_ALL_TRIED}"
        elif possible and decision.answer is answer and not of_rules:
            yield self._possible_text(decision)

    def _why_staying(self) -> t.Iterator[str]:
        """Why instances stay on a node that is drained or lost."""
        for evicted in self.change.blocked:
            until = "" if evicted.certain else UNTIL_MOVED
            ref, node = evicted.instance.ref, evicted.instance.node_name
            yield f"{ref} stays on {node}{until}: {evicted.obstacle}"

    def doubts(self) -> tuple[Doubt, ...]:
        """The doubts about the pods that need a node, and about those of planned moves."""
        pods, after = [*self.pending, *self._pods_of_moves()], self.change.after
        return (
            *doubts_of_pods(pods, after, PodAdmission(after)),
            *of_schedulers(self.pending),
            *self._doubts_of_moves(),
        )

    def _pods_of_moves(self) -> t.Iterator[PendingPod]:
        methods = {move.uid: move.method for move in self.plan.moves}
        for vm in self.changed.candidates:
            if method := methods.get(vm.uid):
                reason: Reason = "migrate" if method is Method.MIGRATE else "recreate"
                yield PendingPod(
                    vm.next_pod(method),
                    vm.pod,
                    reason,
                    workload=vm.instance.workload,
                    vmi=vm.instance.vmi,
                )

    def _doubts_of_moves(self) -> t.Iterator[Doubt]:
        """The doubts about VMs that the plan moves or skips, and whose next pod may have other requests or
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
            code = "next_pod_estimated" if why else "other_scheduler"
            if not why and vm.pod.scheduler_name != DEFAULT_SCHEDULER:
                why = "another scheduler places it"
            if why:
                yield Doubt(code, f"{ref} {ESTIMATED}: {why}", NO_CERTAINTY)

    def _simulation(self, index: Index | None = None) -> PlacementSimulation:
        ended = self.change.after.terminating_pods
        return PlacementSimulation(index or self.index, self.pending, ended=ended)

    def _rollout_doubts(self) -> t.Iterator[Doubt]:
        """What a search of all sequences does not prove. Old pods that may end before the search ends them
        open nodes that it does not see, and so do waiting ones that a rollout ends once they have run. One old pod
        that ends before its successor has a node leaves room to the pods of another workload, or to one that waits."""
        rolling = [pending for pending in self.pending if pending.in_rollout]
        rooms = [x.room for x in rolling if x.reason in ROLLOUT and x.room is not None]
        waiting = {pod_key(pending.pod) for pending in self.pending if not pending.required}
        in_order = not any(x.replaces and pod_key(x.replaces) in waiting for x in rolling)
        one = len({x.workload for x in self.pending if x.required}) == 1
        alone = one and not waiting
        in_turn = all(x.unavailable == 0 or (alone and x == RolloutRoom(0, 1)) for x in rooms)
        if not in_order or not in_turn:
            yield Doubt("old_pods_end", OLD_PODS_MAY_END, NO_CERTAINTY)
        elif any(x.unavailable for x in rooms):
            yield Doubt("old_pods_end", OLD_PODS_MAY_END, NO_GUARANTEE)

    def _with_rules(
        self, decision: Decision, simulation: PlacementSimulation, options: SearchOptions
    ) -> tuple[Decision, str]:
        """The decision as far as the running VMs allow it, and why it claims less.

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
            return decision.doubted(Doubt("moves_free_nodes", MAY_FREE, NO_PROOF)), NOT_PROVEN
        placeable = decision.answer in (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE)
        if not placeable or not (breakable or (plan.moves and self.pending)):
            return decision, ""
        code, text = "rules_of_placed_vms", BREAKABLE
        if violates:
            code, text = "previous_constraints", NOT_RENEWED
        best = decision.best
        satisfied = afterwards.all_satisfied(best)
        if violates and not satisfied:
            strict = self.view.new_index(declared.keeping_both(self.changed.pods()))
            best = evaluate(self._simulation(strict), options).best
            satisfied = afterwards.all_satisfied(best)
        if not satisfied:
            return decision.doubted(Doubt(code, text, NO_PLACEMENT)), f"not guaranteed: {text}"
        if not breakable:
            return decision, ""
        return replace(decision.doubted(Doubt(code, text)), best=best), f"not guaranteed: {text}"

    def _reasons(self, search: _PodSearch) -> list[str]:
        """What the search proved, and why its decision claims less."""
        of_rules = search.of_rules
        proof = self._proof_of_search(search.simulation, search.search_decision)
        if search.search_decision.answer is ForecastResult.IMPOSSIBLE and of_rules:
            proof = [f"unless other VMs move: {text}" for text in proof]
        elif search.decision.answer is ForecastResult.UNKNOWN and of_rules:
            proof = [
                f"nodes were found for all {search.simulation.required}, but no order after which every new"
                " rule is satisfied"
            ]
        return [*proof, of_rules] if of_rules else proof

    def _possible_text(self, decision: Decision) -> str:
        if decision.worst is None:
            return f"not guaranteed: {OLD_PODS_MAY_END}"
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
            words = ProofWords(self.topology, self.pending, self._why_no_node())
            return [words.text(proof) for proof in decision.proofs]
        count = simulation.required
        if decision.answer is ForecastResult.IMPOSSIBLE:
            required = [pending for pending in self.pending if pending.required]
            stuck, why = self._stuck(), ""
            if stuck is not None:
                why = f"; {self.pending[stuck].name}: {self._why_no_node()(stuck)}"
            return [
                f"every choice of nodes was tried: at most {count - decision.least} of"
                f" {count} are schedulable ({listed([x.name for x in required])}){why}"
            ]
        if decision.answer is ForecastResult.UNKNOWN:
            return [
                f"no choice of nodes was found for all {count}, and not every choice was tried"
                " (the search has a limit)"
            ]
        return []

    def _why_no_node(self) -> t.Callable[[int], str]:
        reasons = PendingReasons(self.index, self.topology, Obstacles(self.view))
        return lambda n: reasons.reason(self.pending[n].pod, self.pending[n].workload)

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
                evicted.obstacle,
                certain=evicted.certain,
            )
            for evicted in self.change.blocked
            if evicted.obstacle is not None
        ]

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
        return Deadlock(
            refs, reason, remediation(refs, self.change.after.platform, rollout=rollout)
        )


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
        is_vm = pending.workload is not None and kind_of(pending.workload.kind).run_strategy
        method = Method.RESTART if is_vm else Method.RECREATE
    ref, uid = pending.instance._replace(name=pending.name), source.uid
    if pending.vmi is not None and source.owner is not None:
        uid = source.owner.uid
    workload = pending.workload or ref
    reason = "its node fails" if event == "failure" else "its node is drained"
    return Move(ref, uid, workload, method, source.node_name, targets, reason)


def _not_recreated(evicted: EvictedInstance) -> Finding:
    return Finding(
        NOT_RECREATED,
        "warning",
        f"{evicted.instance.ref} ends with its node: {evicted.obstacle}.",
        "Move it before, or manage it with a controller that recreates it.",
        (evicted.instance.ref,),
    )
