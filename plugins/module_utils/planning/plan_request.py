# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a plan made for: which instances, by which methods may each be moved, and why may one not be?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kubevirt.aspects import Aspect, LateAspect, first_obstacle
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

    `aspects`: what may keep an instance from its moves, or from some methods; the first obstacle is its reason. `late`:
    those that are asked when a move has a node. `settled`: those that keep what the run has moved already; it is not
    skipped where no rule is violated.
    `held`: pods of a StatefulSet and VMs of a pool whose own rollout is set aside, and which are not of its present
    template: they are moved whatever the scope is.
    `topology`: the names of label keys in reasons. `preferred_node`: the one that the plan counts on for an
    instance, by uid, where it is available. `apply_pending_changes`: a move may apply more than the placement of an
    instance.
    """

    selection: InstanceSelection
    scope: Scope = "violated"
    allow: frozenset[Method] = frozenset({Method.MIGRATE})
    aspects: t.Sequence[Aspect] = ()
    late: t.Sequence[LateAspect] = ()
    settled: t.Sequence[Aspect] = ()
    held: frozenset[Uid] = frozenset()
    topology: Topology = field(default_factory=Topology.of)
    preferred_node: t.Callable[[Uid], str] = lambda _uid: ""
    apply_pending_changes: bool = False

    def methods(self, movable: DeclaredInstance) -> tuple[Method, ...]:
        """The methods by which an instance may be moved, the gentlest first."""
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
        aspects = (*self.settled, *self.late, *self.aspects)
        found = first_obstacle(aspects, movable.instance, method)
        if found is None or not found.advice:
            return found
        return replace(found, text=f"{found}: {found.advice}")

    def permits(self, movable: DeclaredInstance, method: Method) -> bool:
        """Whether a move that has a node may be planned. Where it may not, the instance has lost the method."""
        return all(x.permits(movable.instance, method) for x in self.late)

    def is_settled(self, movable: DeclaredInstance) -> bool:
        return first_obstacle(self.settled, movable.instance, Method.MIGRATE) is not None

    def is_waited_for(self, movable: DeclaredInstance) -> bool:
        """Whether an instance that has no method now gets one by itself."""
        options = self.options_of(movable)
        methods = {Method.MIGRATE, options.awaited or Method.MIGRATE}
        if not options.temporary or not self.allow.issuperset(methods - {Method.MIGRATE}):
            return False
        aspects = (*self.late, *self.aspects)
        return all(first_obstacle(aspects, movable.instance, x) is None for x in methods)

    def why_not_moved(self, movable: DeclaredInstance) -> Obstacle:
        """Why no method is left for an instance, with what to do."""
        if (kept := self.obstacle(movable, Method.MIGRATE)) is not None:
            return kept
        options = self.options_of(movable)
        methods = options.methods or tuple(filter(None, (options.awaited,)))
        if options.obstacle is not None and not options.methods and self.allow.issuperset(methods):
            return options.obstacle
        refused = (self.obstacle(movable, method) for method in methods if method in self.allow)
        if (first := next(filter(None, refused), None)) is not None:
            if first.code == "budget" and Method.MIGRATE in options.methods:
                text = f"{first}: add migrate to allow, since a live migration needs no budget"
                first = replace(first, text=text)
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
    """The cluster in which the candidates may move, but for those that others move; and the uids of the latter."""
    on_the_way = in_flight(snapshot, request.selection.all_namespaces)
    away = on_the_way.instances
    movable = [x for x in candidates if x.uid not in away]
    simulation = ClusterSimulation(
        snapshot, movable, on_the_way=on_the_way, verified=verified, topology=request.topology
    )
    return simulation, away
