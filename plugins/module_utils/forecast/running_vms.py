# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which running VMs have to move under changed rules, and can all rules be satisfied?

The planner finds the moves (ChangedVms). `declared_terms` has what may become of the rules meanwhile.

`static_proofs` rules out every arrangement.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass, replace

from ..compliance.instances import (
    DeclaredInstance,
    InstanceSelection,
    movable_instances,
)
from ..compliance.obstacles import Obstacles
from ..compliance.pending import PendingReasons
from ..compliance.violations import violations
from ..kubevirt.aspects import aspects_of_instances, first_obstacle
from ..model.objects import Pod, Ref
from ..model.obstacle import NO_NODE, Obstacle
from ..model.plan import Method, Move, Plan
from ..model.rendering import listed
from ..model.topology import Topology
from ..planning.dependencies import Dependencies
from ..planning.missed_preferences import MissedPreference, missed_preferences
from ..planning.plan import plan_moves
from ..planning.plan_request import PlanRequest, Scope
from ..planning.search import shortest_repair
from ..planning.simulation import ClusterSimulation
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..scheduler.preferences import preferences
from ..view.view import ClusterView
from .bounds import reachable_nodes
from .conclusion import NO_CERTAINTY, NO_PROOF, Doubt, Evidence, ForecastResult, conclude
from .result import NAMED, Deadlock, NotMigratableInstance, remediation
from .search import LIMIT
from .simulation import PendingPod, PlacementSimulation, selected_by_terms
from .static_proofs import StaticProofs, at_last, rules_of, static_proofs, without_node

EVERY_METHOD = frozenset(Method)

SEARCHED = 7
"""Members up to which every sequence of moves is tried."""

NONE_HEALS = "every sequence of single moves was tried, and none satisfies all rules"
GIVEN_UP = (
    "no sequence of moves was found that satisfies all rules, and not every one was tried (the search"
    " has a limit)"
)
MAY_BE_HELPED = (
    "no sequence of moves satisfies all rules now, but other pods end or need a node meanwhile, and a node"
    " may become feasible"
)
OBSTACLE_ENDS = "not proven: some of these obstacles end by themselves"
HEALED_BESIDES = (
    "moves were found that satisfy all rules, but not whether they still do when the other instances"
    " have nodes"
)


@dataclass(frozen=True, slots=True)
class ChangedVmsResult:
    """What shows whether all rules can be satisfied, and `why` not. `proven` is what rules out any placement."""

    evidence: Evidence
    why: tuple[str, ...] = ()
    deadlock: Deadlock | None = None
    proven: StaticProofs | None = None

    @property
    def answer(self) -> ForecastResult:
        return conclude(self.evidence).answer


class ChangedVms:
    """The running VMs of the workloads in `concerned`, but for `evicted` (uids), and the plan of their
    moves."""

    def __init__(
        self,
        view: ClusterView,
        concerned: t.Collection[Ref],
        evicted: t.Container[str],
        topology: Topology,
        scope: Scope = "violated",
    ) -> None:
        self.view = view
        self.after = view.snapshot
        self.topology = topology
        self.candidates = self._candidates(concerned, evicted)
        self.aspects = aspects_of_instances(self.after)
        self.plan = self._plan("violated")
        self.required = frozenset(move.uid for move in self.plan.moves)
        if scope != "violated":
            # instances that only the moves which no required rule needs would have moved stay, and violate nothing
            must_move = {skipped.uid for skipped in self.plan.skipped}
            plan = self._plan(scope)
            skipped = tuple(x for x in plan.skipped if x.uid in must_move)
            self.plan = replace(plan, skipped=skipped)

    @property
    def staying(self) -> list[DeclaredInstance]:
        """Those that no move is planned for."""
        moved = {move.uid for move in self.plan.moves}
        return [vm for vm in self.candidates if vm.uid not in moved]

    def pods(self, *, declared: bool = False) -> list[Pod]:
        """All pods with the planned moves made. A moved VM runs as declared; one that stays, too, if
        `declared`."""
        vms = {vm.uid: vm for vm in self.candidates}
        replacements = {vm.pod.uid: vm.declared_pod for vm in self.candidates} if declared else {}
        for move in self.plan.moves:
            if move.targets and move.uid in vms:
                pod = vms[move.uid].declared_pod
                replacements[pod.uid] = replace(pod, node_name=move.targets[0])
        return [replacements.get(pod.uid, pod) for pod in self.after.pods]

    def evaluate(self, pending: t.Sequence[PendingPod]) -> ChangedVmsResult:
        """Whether all rules can be satisfied. `pending` are to be placed meanwhile."""
        if not self.plan.moves and not self.plan.skipped:
            return ChangedVmsResult(Evidence(always="nothing_to_place"))
        proven = static_proofs(self.view, self.candidates, pending, self.topology)
        if proven.texts:
            return ChangedVmsResult(Evidence(never=proven.codes), proven.texts, proven=proven)
        if not self.plan.skipped:
            doubt = self._doubt_of_moves(pending)
            if doubt is None:
                return ChangedVmsResult(Evidence(always="moves_satisfy_rules"))
            evidence = Evidence(witness=True, doubts=(doubt,))
            return ChangedVmsResult(evidence, (f"not guaranteed: {doubt.text}",))
        refs = tuple(left.instance for left in self.plan.skipped)
        vms = {vm.uid: vm for vm in self.candidates}
        reasons = [
            f"{left.instance}: {left.reason}{rules_of(vms[left.uid])}" for left in self.plan.skipped
        ]
        evidence = self._by_any_sequence(pending)
        result = ChangedVmsResult(evidence)
        if evidence.witness:
            (doubt,) = evidence.doubts
            return replace(result, why=(f"not guaranteed: {doubt.text}",))
        if result.answer is ForecastResult.UNKNOWN:
            return replace(result, why=(*reasons, evidence.doubts[-1].text))
        dependencies = ClusterSimulation(self.after, self.candidates).dependencies
        pairs = itertools.combinations([left.uid for left in self.plan.skipped], 2)
        mutual = any(dependencies.require_each_other(one, other) for one, other in pairs)
        advice = remediation(refs, self.after.platform, rollout=False, mutual=mutual)
        deadlock = Deadlock(refs, NONE_HEALS, advice)
        return replace(result, why=(NONE_HEALS, *reasons), deadlock=deadlock)

    def satisfied_with(
        self, leaving: t.Iterable[str], coming: t.Iterable[tuple[Pod, str]], also: t.Iterable[str]
    ) -> bool:
        """Whether all rules are satisfied once the planned moves are made, the pods of these keys have
        left, and others are on their nodes: the rules of the changed VMs, and of the keys in `also`."""
        cluster = ClusterSimulation(self.after, self.candidates)
        for move in self.plan.moves:
            if move.targets:
                cluster.move(move.uid, move.targets[0])
        for key in leaving:
            if key in cluster.declared:
                cluster.declared.remove(key)
        for pod, node in coming:
            cluster.declared.place(pod, node)
        return not cluster.violating() and not any(_violates(cluster.declared, x) for x in also)

    def not_migratable(self, pending: t.Sequence[PendingPod]) -> t.Iterator[NotMigratableInstance]:
        """Changed VMs that could not be live-migrated from where they are once all run as declared, and
        the planned moves have ended on their first target."""
        index = self.view.new_index(self.pods(declared=True))
        waiting = PendingReasons(index, self.topology, Obstacles(self.view))
        moved = {move.uid: move for move in self.plan.moves}
        for vm in self.candidates:
            if not vm.can_migrate or vm.pod.uid not in index:
                continue
            target = vm.next_pod(Method.MIGRATE)
            here = index.node_of(vm.pod.uid)
            if index.feasible_nodes(target, exclude={here}):
                continue
            restart = vm.next_pod(Method.RECREATE)
            open_to = index.feasible_nodes(restart, without=vm.pod.uid)
            workload = vm.workload.ref if vm.workload is not None else None
            reason = Obstacle(NO_NODE, waiting.reason(target, workload))
            certain = vm.uid not in moved or len(moved[vm.uid].targets) == 1
            certain = certain and not self._could_reach(target, vm, here, pending)
            yield NotMigratableInstance(
                vm.instance.ref, workload, here, reason, open_to[:NAMED], certain
            )

    def _could_reach(
        self, target: Pod, vm: DeclaredInstance, here: str, pending: t.Sequence[PendingPod]
    ) -> bool:
        """Whether some other choice of nodes, for the moves and the pending pods, may open a node to
        the migration target of a VM."""
        if not self.plan.moves and not pending:
            return False
        moved = {move.uid for move in self.plan.moves}
        moving = [other for other in self.candidates if other.uid in moved and other.uid != vm.uid]
        others = [*map(without_node, moving), *map(at_last, pending)]
        every = [PendingPod(target, vm.pod, "migrate", vmi=vm.instance.vmi), *others]
        ends = [other.pod for other in moving]
        ended_uids = {pod.uid for pod in ends}
        pods = [pod for pod in self.pods(declared=True) if pod.uid not in ended_uids]
        ended = [*self.after.terminating_pods, *ends]
        simulation = PlacementSimulation(self.view.new_index(pods), every, ended=ended)
        nodes = reachable_nodes(simulation)[0]
        return bool(nodes & ~(1 << simulation.table.numbers[here]))

    def _candidates(
        self, concerned: t.Collection[Ref], evicted: t.Container[str]
    ) -> tuple[DeclaredInstance, ...]:
        workloads = self.view.snapshot.workloads_by_ref
        refs = frozenset(ref for ref in concerned if workloads[ref].runs_vms)
        if not refs:
            return ()
        wanted = InstanceSelection(workloads=refs)
        movable = movable_instances(self.after, wanted)
        return tuple(vm for vm in movable if vm.node and vm.uid not in evicted)

    def _plan(self, scope: Scope) -> Plan:
        if not self.candidates:
            return Plan()
        request = PlanRequest(
            InstanceSelection(),
            scope=scope,
            allow=EVERY_METHOD,
            aspects=self.aspects,
            topology=self.topology,
            apply_pending_changes=True,
        )
        return plan_moves(self.after, request, self.candidates)

    def missed_preferences(self) -> tuple[MissedPreference, ...]:
        """The changed VMs whose node, after the planned moves, does not meet one of their preferred rules."""
        if not any(preferences(vm.declared_pod) for vm in self.candidates):
            return ()
        cluster = ClusterSimulation(self.after, self.candidates)
        for move in self.plan.moves:
            if move.targets and move.uid in cluster.candidates:
                cluster.move(move.uid, move.targets[0])
        return missed_preferences(cluster, self.candidates, self.topology)

    def _doubt_of_moves(self, pending: t.Sequence[PendingPod]) -> Doubt | None:
        """Why the planned moves need not satisfy the rules. None if one move is needed, and no rule is
        violated after it whichever node is chosen."""
        if left := self._left_violated():
            namespaces = ", ".join(sorted({ref.namespace for ref in left}))
            return Doubt(
                "moves_violate_rules",
                f"after the planned moves {listed(left)} {'violates' if len(left) == 1 else 'violate'} a rule, and no"
                f" planned move repairs that: run a rollout of {namespaces} afterwards",
            )
        if len(self.plan.moves) != 1:
            return Doubt(
                "several_moves",
                "the scheduler may choose other nodes than the plan; the rollout then makes a new plan, which may"
                " have more moves",
            )
        if pending:
            return Doubt(
                "moves_beside_others",
                "other instances need a node at the same time, and may take the one for the move",
            )
        return self._doubt_of_move(self.plan.moves[0])

    def _doubt_of_move(self, move: Move) -> Doubt | None:
        cluster = ClusterSimulation(self.after, self.candidates)
        vmi = cluster.candidates[move.uid].instance.vmi
        if move.method is Method.MIGRATE and (vmi is None or not vmi.live_migratable):
            return Doubt(
                "not_reported_migratable",
                f"KubeVirt has not reported whether {move.workload} can be live-migrated",
            )
        nodes = cluster.open_set(move.uid, move.method)
        concerned = {move.uid, *cluster.violating(), *cluster.dependencies.related(move.uid)}
        neighbors = self._around(cluster, {move.uid})
        if not nodes or nodes.bit_count() * (len(concerned) + len(neighbors)) > LIMIT:
            return Doubt(
                "moves_search_limit",
                f"{move.workload} may get a node where a rule is violated: not every node was tried (the"
                " search has a limit)",
            )
        declared_pods = [vm.declared_pod for vm in self.candidates]
        if selected_by_terms(cluster.declared, declared_pods, self.after.terminating_pods):
            return Doubt(
                "terminating_pods_count",
                "pods that are terminating now still count for the rules, and may leave no node for the move",
            )
        for node in cluster.table.names_of(nodes):
            cluster.move(move.uid, node)
            instances = [cluster.candidates[x].instance for x in concerned if cluster.violations(x)]
            violators = [
                *(instance.workload or instance.ref for instance in instances),
                *self._others_violating(cluster, neighbors),
            ]
            cluster.revert()
            if violators:
                return Doubt(
                    "moves_violate_rules",
                    f"{min(violators, key=str)} violates a rule if {move.workload} gets node {node}",
                )
        return None

    def _left_violated(self) -> list[Ref]:
        """What violates no rule now, and does once the planned moves are made: none of the changed VMs."""
        cluster = ClusterSimulation(self.after, self.candidates)
        neighbors = self._around(cluster, {move.uid for move in self.plan.moves})
        for move in self.plan.moves:
            if move.targets:
                cluster.move(move.uid, move.targets[0])
        return self._others_violating(cluster, neighbors)

    def _around(self, cluster: ClusterSimulation, moved: t.Collection[str]) -> list[str]:
        """The keys of other pods that violate nothing and that the moves of these VMs concern."""
        index = cluster.running
        vms = {candidate.pod.uid for candidate in self.candidates}
        keys = {key: key for pod in index.pods if (key := pod_key(pod)) not in vms}
        placed = ((key, index.pod(key)) for key in keys)
        links = Dependencies.of(index, keys, placed)
        moving = [cluster.candidates[uid] for uid in moved]
        infos = [index.placed_info(vm.pod.uid) for vm in moving]
        infos += [index.pod_info(vm.declared_pod) for vm in moving]
        near = {key for info in infos for key in links.related_to_pod(info)}
        return [key for key in near if not _violates(index, key)]

    def _others_violating(self, cluster: ClusterSimulation, keys: t.Iterable[str]) -> list[Ref]:
        """The workloads of those of these pods that violate a rule where they run, in order."""
        pods = [cluster.running.pod(key).ref for key in keys if _violates(cluster.running, key)]
        instances = self.view.instances_by_pod
        refs = {(instances[pod].workload or pod) if pod in instances else pod for pod in pods}
        return sorted(refs, key=str)

    def _by_any_sequence(self, pending: t.Sequence[PendingPod]) -> Evidence:
        """Whether some sequence of single moves repairs all."""
        members = [vm.uid for vm in self.candidates]
        given_up = Evidence(doubts=(Doubt("moves_search_limit", GIVEN_UP, NO_CERTAINTY),))
        if len(members) > SEARCHED:
            return given_up
        cluster = ClusterSimulation(self.after, self.candidates)
        movable = (
            vm
            for vm in self.candidates
            if first_obstacle(self.aspects, vm.instance, Method.MIGRATE) is None
        )
        ways = ((vm.uid, vm.move_options(apply_pending_changes=True).methods) for vm in movable)
        methods = {uid: x for uid, x in ways if x}
        repair = shortest_repair(cluster, members, methods, once=False, in_place=True, limit=LIMIT)
        if repair.moves is not None:
            if pending:
                beside = Doubt("moves_beside_others", HEALED_BESIDES, NO_CERTAINTY)
                return Evidence(doubts=(beside,))
            unplanned = listed([str(left.instance) for left in self.plan.skipped])
            text = f"some sequence of moves satisfies all rules, but the plan has no move for {unplanned}"
            return Evidence(witness=True, doubts=(Doubt("no_planned_move", text),))
        if not repair.exhausted:
            return given_up
        doubts = []
        if any(left.temporary for left in self.plan.skipped):
            doubts.append(Doubt("obstacles_end", OBSTACLE_ENDS, NO_PROOF))
        # nodes may open once the others have theirs, or have left
        pods = [*(pod.pod for pod in pending), *self.after.terminating_pods]
        declared = [vm.declared_pod for vm in self.candidates]
        leaves = any(pod.source is not None for pod in pending)
        if leaves or selected_by_terms(cluster.declared, declared, pods):
            doubts.append(Doubt("others_may_help", MAY_BE_HELPED, NO_PROOF))
        return Evidence(never=("no_moves_repair",), doubts=tuple(doubts))


def _violates(index: Index, key: str) -> bool:
    """Whether a placed pod violates a rule by its own terms."""
    node = index.table.nodes[index.placed_info(key).node]
    return bool(violations(index.pod(key), None, node, index.failures_in_place(key)))
