# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a plan made for: which instances, by which methods may each be moved, and why may one not be?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kubevirt.instances import in_flight
from ..kubevirt.moving import MoveOptions
from ..model.obstacle import Obstacle
from ..model.plan import Method, Uid
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from .simulation import ClusterSimulation, VerifiedIndex

Scope = t.Literal["violated", "preference_not_met", "not_enforced", "all"]

_ONLY_MIGRATE = frozenset({Method.MIGRATE})


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is made for.

    `in_flight`: instances with a move under way, which are neither moved nor skipped. The same
    holds for instances that another controller migrates to a known node. `not_movable`: instances
    that may not be moved (again), with the reason. `no_restart`: those that may not be restarted.
    `kept`: those that no method may move; they are skipped with this reason if they should move.
    `not_disrupted`: those that only a live migration may move, since disruption budgets never allow another method.
    `held`: pods of a StatefulSet and VMs of a pool whose own rollout is set aside, and which are not of its present
    template: they are moved whatever the scope is.
    `topology`: the names of label keys in reasons. `preferred_nodes`: the node that the plan counts on for an
    instance, where it is among the nodes that are available. `apply_pending_changes`: a move may apply more than
    the placement of an instance.
    """

    selection: InstanceSelection
    scope: Scope = "violated"
    allow: frozenset[Method] = frozenset({Method.MIGRATE})
    in_flight: frozenset[Uid] = frozenset()
    not_movable: t.Mapping[Uid, Obstacle] = field(default_factory=dict)
    no_restart: t.Mapping[Uid, Obstacle] = field(default_factory=dict)
    kept: t.Mapping[Uid, Obstacle] = field(default_factory=dict)
    not_disrupted: t.Mapping[Uid, Obstacle] = field(default_factory=dict)
    held: frozenset[Uid] = frozenset()
    topology: Topology = field(default_factory=Topology.of)
    preferred_nodes: t.Mapping[Uid, str] = field(default_factory=dict)
    apply_pending_changes: bool = False

    def methods(self, movable: DeclaredInstance) -> tuple[Method, ...]:
        """The methods by which an instance may be moved, the gentlest first."""
        uid = movable.uid
        if uid in self.not_movable or uid in self.kept:
            return ()
        if self.allow == _ONLY_MIGRATE:
            return (Method.MIGRATE,) if movable.can_migrate else ()
        allow = self._allowed(uid)
        return tuple(method for method in self.options_of(movable).methods if method in allow)

    def options_of(self, movable: DeclaredInstance) -> MoveOptions:
        """The methods by which an instance can be moved, whether or not this plan may use them."""
        return movable.move_options(apply_pending_changes=self.apply_pending_changes)

    def is_waited_for(self, movable: DeclaredInstance) -> bool:
        """Whether an instance that has no method now gets one by itself."""
        options, uid = self.options_of(movable), movable.uid
        if uid in self.kept or not options.temporary:
            return False
        return options.awaited is None or options.awaited in self._allowed(uid)

    def _allowed(self, uid: Uid) -> frozenset[Method]:
        allow = self.allow - {Method.RESTART} if uid in self.no_restart else self.allow
        return allow & _ONLY_MIGRATE if uid in self.not_disrupted else allow

    def why_not_moved(self, movable: DeclaredInstance) -> Obstacle:
        """Why no method is left for an instance, with what to do."""
        uid, options = movable.uid, self.options_of(movable)
        if uid in self.not_movable or uid in self.kept:
            return self.not_movable.get(uid) or self.kept[uid]
        methods = options.methods or tuple(filter(None, (options.awaited,)))
        if options.obstacle is not None and not options.methods and self.allow.issuperset(methods):
            return options.obstacle
        if uid in self.not_disrupted and self.allow.intersection(methods):
            return self._why_not_disrupted(movable)
        if uid in self.no_restart and Method.RESTART in self.allow:
            refused, first = self.no_restart[uid], options.obstacle
            return refused if first is None else refused.after(str(first))
        needs = " or ".join(map(str, methods))
        allowed = ", ".join(sorted(map(str, self.allow))) or "empty"
        because = f" ({options.obstacle})" if options.obstacle is not None else ""
        text = f"a move needs {needs}{because}, but allow is {allowed}: add {needs} to allow"
        if options.refusal is not None and {Method.RESTART, Method.RECREATE} & self.allow:
            text += f"; {options.refusal}"
        return Obstacle("method_not_allowed", text)

    def _why_not_disrupted(self, movable: DeclaredInstance) -> Obstacle:
        options, refused = self.options_of(movable), self.not_disrupted[movable.uid]
        cannot = options.obstacle is not None
        text = f"it cannot migrate ({options.obstacle}), and {refused}" if cannot else str(refused)
        if Method.MIGRATE in options.methods and Method.MIGRATE not in self.allow:
            text += ": add migrate to allow, since a live migration needs no budget"
        return replace(refused, text=text)


def simulate(
    snapshot: Snapshot,
    request: PlanRequest,
    candidates: t.Iterable[DeclaredInstance],
    verified: VerifiedIndex | None,
) -> tuple[ClusterSimulation, frozenset[Uid]]:
    """The cluster in which the candidates may move, but for those with a move under way; and the uids of the latter."""
    on_the_way = in_flight(snapshot, request.selection.all_namespaces)
    away = request.in_flight | on_the_way.instances
    movable = [x for x in candidates if x.uid not in away]
    simulation = ClusterSimulation(
        snapshot, movable, on_the_way=on_the_way, verified=verified, topology=request.topology
    )
    return simulation, away
