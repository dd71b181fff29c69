# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances are placed correctly though their rules are not enforced yet, and from when are they? Pure."""

from __future__ import annotations

import typing as t

from ..compliance.instances import DeclaredInstance
from ..compliance.tied import tied
from ..kubevirt.moving import MIGRATION, RESTART, pinned
from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.plan import Plan
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..moves.report import NAMED, instance_named
from ..moves.state import StepResult
from ..planning.missed_preferences import MissedPreference, missed_preferences
from ..planning.simulation import ClusterSimulation


def report_not_enforced(
    result: StepResult,
    snapshot: Snapshot,
    candidates: t.Sequence[DeclaredInstance],
    plan: Plan,
    topology: Topology,
) -> None:
    """Report the instances that are placed correctly, though their rules are not enforced yet."""
    placed = not_enforced(candidates, plan)
    missed: tuple[MissedPreference, ...] = ()
    obstacles: dict[str, Obstacle | None] = {}
    if placed:
        simulation = ClusterSimulation(snapshot, candidates)
        missed = missed_preferences(simulation, placed, topology)
        obstacles = {x.uid: why_tied(simulation, x) for x in placed}
    unmet = {each.uid: str(each) for each in missed}
    result.not_enforced = [
        well_placed(x, plan, unmet.get(x.uid, ""), obstacles.get(x.uid)) for x in placed
    ]
    result.progress += well_placed_lines(result.not_enforced)
    result.warnings += removed_constraints(candidates)


def not_enforced(
    candidates: t.Iterable[DeclaredInstance], plan: Plan
) -> tuple[DeclaredInstance, ...]:
    """Instances that still run with the previous constraints and need no move for that."""
    concerned = {move.uid for move in plan.moves} | {left.uid for left in plan.skipped}
    return tuple(x for x in candidates if x.drift and x.node and x.uid not in concerned)


_NEXT = {"migration": "migration", "restart": "restart", "recreate": "recreation"}


def well_placed(
    movable: DeclaredInstance, plan: Plan, unmet: str = "", obstacle: Obstacle | None = None
) -> dict[str, JSON]:
    """An instance that still runs with the previous constraints, on a node that the new ones allow: now, or after the
    moves of the plan. `unmet`: the preferences that the node does not meet, in words. `obstacle`: other pods on its
    node leave it no live migration."""
    takes_effect = movable.takes_effect
    if obstacle is not None and takes_effect == MIGRATION:
        takes_effect = RESTART
    drift, event = movable.drift, f"the next {_NEXT[takes_effect]}"
    enforced = f"enforced from {event}"
    if obstacle is not None:
        enforced += f" ({obstacle})"
    if movable.pinned:
        enforced += f" ({pinned(movable.node)})"
    if drift is not None and drift.stale and not (drift.missing or drift.labels):
        enforced = f"a removed constraint stays in effect until {event}"
    after_moves = movable.uid in plan.violated
    workload = movable.workload.ref if movable.workload is not None else movable.instance.ref
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "instance": movable.instance.ref.name,
        "uid": movable.uid,
        "node": movable.node,
        "when": "after_moves" if after_moves else "now",
        "takes_effect": takes_effect,
        "reason": f"violated now, satisfied after the planned moves; {enforced}"
        if after_moves
        else f"no required rule is violated; {unmet}; {enforced}"
        if unmet
        else f"placed correctly; {enforced}",
    }


def well_placed_lines(placed: t.Iterable[t.Mapping[str, JSON]]) -> list[str]:
    """Progress lines about those of `well_placed`: one for all that have the same reason."""
    by_reason: dict[str, list[str]] = {}
    for instance in placed:
        by_reason.setdefault(instance["reason"], []).append(instance_named(instance))
    return [f"{listed(names, NAMED)}: {reason}" for reason, names in sorted(by_reason.items())]


def removed_constraints(candidates: t.Iterable[DeclaredInstance]) -> list[str]:
    """The warning about workloads that lack constraints of their rules, since another client removed them."""
    named = {
        f"{movable.workload.ref} (rule {rule.rule})"
        for movable in candidates
        if movable.workload is not None and movable.declared is not None
        for rule in movable.declared.rules
        if rule.removed
    }
    if not named:
        return []
    return [
        "constraints of rules were removed from workloads, and no move enforces these rules:"
        f" {listed(sorted(named), NAMED)}. Write the rules again: playbook apply or module rules"
    ]


def why_tied(simulation: ClusterSimulation, movable: DeclaredInstance) -> Obstacle | None:
    """Other pods on its node that leave a VM no live migration."""
    if movable.instance.vmi is None or movable.pinned:
        return None
    return tied(simulation.declared, movable.declared_pod)
