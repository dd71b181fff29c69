# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a plan made for: which instances, by which methods may each be moved, and why may one not be?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kubevirt.aspects import Aspect, first_obstacle
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
    `aspects`: what else may keep an instance from its moves, or from some methods; the first obstacle is its reason.
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
    aspects: t.Sequence[Aspect] = ()
    held: frozenset[Uid] = frozenset()
    topology: Topology = field(default_factory=Topology.of)
    preferred_nodes: t.Mapping[Uid, str] = field(default_factory=dict)
    apply_pending_changes: bool = False

    def methods(self, movable: DeclaredInstance) -> tuple[Method, ...]:
        """The methods by which an instance may be moved, the gentlest first."""
        if movable.uid in self.not_movable:
            return ()
        methods: tuple[Method, ...] = (Method.MIGRATE,) if movable.can_migrate else ()
        if self.allow != _ONLY_MIGRATE:
            methods = self.options_of(movable).methods
        allowed = (method for method in methods if method in self.allow)
        return tuple(method for method in allowed if self.obstacle(movable, method) is None)

    def options_of(self, movable: DeclaredInstance) -> MoveOptions:
        """The methods by which an instance can be moved, whether or not this plan may use them."""
        return movable.move_options(apply_pending_changes=self.apply_pending_changes)

    def obstacle(self, movable: DeclaredInstance, method: Method) -> Obstacle | None:
        """What keeps an instance from a method that is possible and allowed, with what to do."""
        found = first_obstacle(self.aspects, movable.instance, method)
        if found is None:
            return self.no_restart.get(movable.uid) if method is Method.RESTART else None
        return replace(found, text=f"{found}: {found.advice}") if found.advice else found

    def why_kept(self, movable: DeclaredInstance) -> Obstacle | None:
        """Why no method moves an instance, not even the gentlest one."""
        return self.not_movable.get(movable.uid) or self.obstacle(movable, Method.MIGRATE)

    def is_waited_for(self, movable: DeclaredInstance) -> bool:
        """Whether an instance that has no method now gets one by itself."""
        options = self.options_of(movable)
        if not options.temporary or self.obstacle(movable, Method.MIGRATE) is not None:
            return False
        awaited = options.awaited
        return awaited is None or (
            awaited in self.allow and self.obstacle(movable, awaited) is None
        )

    def why_not_moved(self, movable: DeclaredInstance) -> Obstacle:
        """Why no method is left for an instance, with what to do."""
        if (kept := self.why_kept(movable)) is not None:
            return kept
        options = self.options_of(movable)
        methods = options.methods or tuple(filter(None, (options.awaited,)))
        if options.obstacle is not None and not options.methods and self.allow.issuperset(methods):
            return options.obstacle
        refused = (self.obstacle(movable, method) for method in methods if method in self.allow)
        if (first := next(filter(None, refused), None)) is not None:
            if first.code == "budget" and Method.MIGRATE in options.methods:
                advice = "add migrate to allow, since a live migration needs no budget"
                first = replace(first, text=f"{first}: {advice}")
            return first if options.obstacle is None else first.after(str(options.obstacle))
        needs = " or ".join(map(str, methods))
        allowed = ", ".join(sorted(map(str, self.allow))) or "empty"
        because = f" ({options.obstacle})" if options.obstacle is not None else ""
        text = f"a move needs {needs}{because}, but allow is {allowed}: add {needs} to allow"
        if options.refusal is not None and {Method.RESTART, Method.RECREATE} & self.allow:
            text += f"; {options.refusal}"
        return Obstacle("method_not_allowed", text)


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
