# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout plans from: a snapshot of the cluster, and which of its instances have to move."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..compliance.instances import (
    DeclaredInstance,
    InstanceReader,
    InstanceSelection,
    movable_instances,
)
from ..kubevirt.aspects import Aspect, aspects_of_instances
from ..kubevirt.disruption import Budgets
from ..model.kinds import HOLD
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move, Plan
from ..model.snapshot import Instance, Snapshot
from ..model.topology import HOSTNAME
from ..moves.journal import RunJournal
from ..moves.move import MoveRecord, Phase
from ..moves.move_source import HeldRollouts, WhyNoRestart
from ..moves.report import NodeDescriptions
from ..planning.plan import plan_moves
from ..planning.plan_request import PlanRequest
from ..planning.simulation import VerifiedIndex
from .options import RolloutOptions
from .own_rollouts import OwnRollout, StuckRollouts, own_rollouts_of
from .registry import HOLDS, PLANNERS, approval_of

if t.TYPE_CHECKING:
    from ..scheduler.index import Index


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
        are_held = any(HOLD in workload.annotations for workload in self.snapshot.workloads)
        if not are_held or "hold" not in HOLDS:
            return HeldRollouts()
        return HOLDS["hold"]()(self.snapshot, self.selection, self.candidates)

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
        """The plan beside what the journal has in flight, without what was moved already. It is made once, and a second
        time where an approved plan lacks one of its moves. An unchanged cluster has the approved plan, which a search
        among the approved moves alone may miss."""
        options, pending = self.options, PendingChanges(self.snapshot, self.why_no_restart)
        request = PlanRequest(
            self.selection,
            options.scope,
            options.allow,
            self.aspects,
            late=() if options.apply_pending_changes else (pending,),
            settled=() if journal is None else (journal,),
            held=self.held.replicas,
            topology=options.topology,
            apply_pending_changes=self.applies_pending_changes,
        )
        records = () if journal is None else journal.records
        busy = {record.uid for record in records if record.phase is not Phase.INTENDED}
        approval = approval_of(options.approved)
        if approval is None:
            return self._plan(request, busy)
        request = approval.prefer(request)
        plan = self._plan(request, busy)
        if not approval.covers(plan):
            plan = self._plan(approval.narrow(request), busy)
        return approval.order(plan)

    def _plan(self, request: PlanRequest, busy: t.Collection[str]) -> Plan:
        """The plan for those that are not busy."""
        free, places = [x for x in self.neighbors if x.uid not in busy], self.options.places
        if places is None:
            return plan_moves(self.snapshot, request, free, verified=self.verified)
        moving = {x.instance.ref for x in self.neighbors if x.uid in busy}
        places = {ref: node for ref, node in places.items() if ref not in moving}
        plan = PLANNERS["places"]()
        return plan(self.snapshot, request, free, places, verified=self.verified)

    def node_selector(self, move: Move) -> tuple[tuple[str, str], ...]:
        options, approved = self.options, self.options.approved
        nodes = approved.by_uid[move.uid].targets if approved is not None else move.targets
        if options.places is not None:
            node = self.snapshot.nodes_by_name.get(nodes[0])
            return ((HOSTNAME, node.labels.get(HOSTNAME, "") if node is not None else ""),)
        if not options.pin_target_zone or not nodes or move.method is not Method.MIGRATE:
            return ()
        zone = self._nodes.domain(nodes[0])
        if approved is not None and nodes[0] not in self._nodes.labels:  # it was deleted since
            zone = approved.zone_of(move)
        return ((options.zone_key, zone),) if zone else ()

    @functools.cached_property
    def _nodes(self) -> NodeDescriptions:
        return NodeDescriptions.of(self.snapshot, self.options.zone_key)


class PendingChanges:
    """What restarts would apply beside placement, as an aspect. It is read for a VM whose restart has a node."""

    def __init__(self, snapshot: Snapshot, why_no_restart: WhyNoRestart) -> None:
        self._platform, self._why_no_restart = snapshot.platform, why_no_restart
        self._instances = snapshot.derived(InstanceReader)
        self._refused: dict[str, Obstacle] = {}

    def obstacle(self, instance: Instance, method: Method) -> Obstacle | None:
        return self._refused.get(instance.uid) if method is Method.RESTART else None

    def permits(self, instance: Instance, method: Method) -> bool:
        """Whether a restart applies nothing else, which is remembered."""
        if method is Method.RESTART and instance.pod is not None:
            found = self._instances.read(instance, instance.pod)
            why = self._why_no_restart(found, self._platform)
            if why is not None:
                self._refused[instance.uid] = why
        return self.obstacle(instance, method) is None
