# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout plans from: a snapshot of the cluster, and which of its instances have to move."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, replace

from ..compliance.instances import DeclaredInstance, InstanceSelection, movable_instances
from ..kubevirt.aspects import Aspect, aspects_of_instances
from ..kubevirt.disruption import Budgets
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move, Plan
from ..model.snapshot import Instance, Snapshot
from ..model.topology import HOSTNAME
from ..moves.journal import RunJournal, digest
from ..moves.move import MoveRecord, Phase
from ..moves.move_source import HeldRollouts, WhyNoRestart
from ..moves.report import NodeDescriptions
from ..planning.plan import plan_moves
from ..planning.plan_request import PlanRequest
from ..planning.simulation import VerifiedIndex
from ..scheduler.index import Index
from .options import RolloutOptions
from .own_rollouts import OwnRollout, StuckRollouts, own_rollouts_of
from .registry import APPROVALS, HOLDS, PLANNERS


@dataclass(frozen=True)
class JudgedSnapshot:
    """A snapshot, and what follows from it. `verified` is the scheduler index with the instances
    that violate nothing: built once for all plans that are made of the snapshot. `neighbors`: the instances whose rules
    count, which are more than the candidates where VMs are moved to nodes of a map. `own_rollouts`: none where the
    moves are given, by a map or an approved plan, or a maintenance moves back what it moved away."""

    snapshot: Snapshot
    options: RolloutOptions
    selection: InstanceSelection
    candidates: tuple[DeclaredInstance, ...]
    verified: VerifiedIndex
    why_no_restart: WhyNoRestart
    neighbors: tuple[DeclaredInstance, ...] = ()
    own_rollouts: tuple[OwnRollout, ...] = ()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        wanted: InstanceSelection,
        options: RolloutOptions,
        why_no_restart: WhyNoRestart = lambda _movable, _platform: None,
    ) -> JudgedSnapshot:
        candidates = neighbors = movable_instances(snapshot, wanted)
        if options.places is not None:
            all_of_them = InstanceSelection(namespaces=wanted.all_namespaces)
            neighbors = movable_instances(snapshot, all_of_them)
        verified = VerifiedIndex.of(snapshot, neighbors)
        given = any(x is not None for x in (options.places, options.approved, options.only))
        own_rollouts = () if given else own_rollouts_of(snapshot, wanted)
        return cls(
            snapshot, options, wanted, candidates, verified, why_no_restart, neighbors, own_rollouts
        )

    @property
    def index(self) -> Index:
        return self.verified.index

    @functools.cached_property
    def held(self) -> HeldRollouts:
        """The selected workloads whose own rollouts are set aside; none where nothing here can give them back."""
        find = HOLDS.get("hold")
        return (
            find(self.snapshot, self.selection, self.candidates)
            if find is not None
            else HeldRollouts()
        )

    @functools.cached_property
    def by_uid(self) -> t.Mapping[str, DeclaredInstance]:
        return {movable.uid: movable for movable in self.candidates}

    @functools.cached_property
    def budgets(self) -> Budgets:
        return Budgets(self.snapshot)

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """What keeps instances from their moves, as the first of them says."""
        stuck = StuckRollouts(
            self.own_rollouts, self.snapshot, apply_pending_changes=self.applies_pending_changes
        )
        return *aspects_of_instances(self.snapshot), stuck, self.budgets

    @property
    def applies_pending_changes(self) -> bool:
        """They matter to a restart alone, which is not among the ways to a node of a map."""
        return self.options.apply_pending_changes or self.options.places is not None

    def is_about(self, record: MoveRecord) -> bool:
        return Instance(record.instance, record.uid, record.workload, None) in self.selection

    @functools.cached_property
    def by_workload(self) -> t.Mapping[Ref | None, DeclaredInstance]:
        return {movable.instance.workload: movable for movable in self.candidates}

    def plan(self, journal: RunJournal | None = None) -> Plan:
        """The plan beside what the journal has in flight, without what was moved already."""
        busy: frozenset[str] = frozenset()
        spent: dict[str, Obstacle] = {}
        if journal is not None:
            busy = frozenset(r.uid for r in journal.records if r.phase is not Phase.INTENDED)
            intended = {r.uid for r in journal.records if r.phase is Phase.INTENDED}
            for uid in (x.uid for x in self.candidates if x.uid not in intended):
                if digest(uid) in journal.done:
                    spent[uid] = Obstacle("moved_already", "this rollout moved it already")
                elif digest(uid) in journal.lost:
                    spent[uid] = Obstacle("move_failed", "its move failed in this rollout")
        options = self.options
        request = PlanRequest(
            self.selection,
            options.scope,
            options.allow,
            busy,
            spent,
            aspects=self.aspects,
            held=self.held.replicas,
            topology=options.topology,
            apply_pending_changes=self.applies_pending_changes,
        )
        approved = options.approved
        if approved is not None:
            nodes = {move.uid: move.targets[0] for move in approved.moves if move.targets}
            request = replace(request, preferred_nodes=nodes)
        while True:
            plan = self._plan(request)
            refused = {} if options.apply_pending_changes else self._restarts_refused(plan)
            no_restart = {**request.no_restart, **refused}
            narrower = replace(request, no_restart=no_restart) if refused else request
            if approved is not None:
                approval = APPROVALS["plan"](approved)
                plan = approval.order(plan)
                narrower = approval.narrow(narrower, plan, self.candidates)
            if narrower is request:
                return plan
            request = narrower

    def _plan(self, request: PlanRequest) -> Plan:
        places = self.options.places
        if places is None:
            return plan_moves(self.snapshot, request, self.candidates, verified=self.verified)
        plan = PLANNERS["places"]
        return plan(self.snapshot, request, self.neighbors, places, verified=self.verified)

    def node_selector(self, move: Move) -> tuple[tuple[str, str], ...]:
        options, approved = self.options, self.options.approved
        nodes = approved.by_uid[move.uid].targets if approved is not None else move.targets
        if options.places is not None:
            node = self.snapshot.nodes_by_name.get(nodes[0])
            return ((HOSTNAME, node.labels.get(HOSTNAME, "") if node is not None else ""),)
        if not options.pin_target_zone or not nodes or move.method is not Method.MIGRATE:
            return ()
        zone = self._zone_of_target(move, nodes[0])
        return ((options.zone_key, zone),) if zone else ()

    def _zone_of_target(self, move: Move, node: str) -> str:
        """As an approved plan has it: the node may have been deleted since."""
        if node in self._nodes.labels or self.options.approved is None:
            return self._nodes.domain(node)
        return self.options.approved.zone_of(move)

    @functools.cached_property
    def _nodes(self) -> NodeDescriptions:
        return NodeDescriptions.of(self.snapshot, self.options.zone_key)

    def _restarts_refused(self, plan: Plan) -> dict[str, Obstacle]:
        """The instances of which the plan has a restart that would apply more than their placement, with the reason."""
        platform = self.snapshot.platform
        restarts = [move.uid for move in plan.moves if move.method is Method.RESTART]
        return {
            uid: why
            for uid in restarts
            if (why := self.why_no_restart(self.by_uid[uid], platform)) is not None
        }
