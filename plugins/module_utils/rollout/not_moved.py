# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a rollout report of the instances that it did not move, and which of them are a failure? Pure."""

from __future__ import annotations

import datetime
import typing as t

from ..compliance.instances import DeclaredInstance
from ..compliance.tied import tied
from ..kubevirt.moving import MIGRATION, RESTART, end_of_hold, next_event, pinned
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import OUTSIDE_OF_WINDOW, Obstacle
from ..model.plan import NOT_IN_PLAN, Plan, SkippedInstance
from ..model.rendering import Entry, listed, outcome, plural
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..moves import report
from ..moves.report import NAMED, instance_named
from ..moves.run_plan import RunPlan
from ..moves.state import StepResult
from ..planning.missed_preferences import MissedPreference, missed_preferences
from ..planning.simulation import ClusterSimulation
from .options import RolloutOptions


def judge_skipped(result: StepResult, plan: Plan, *, fail: bool) -> None:
    """With `fail` skipped instances are a failure, which names them all; if not, those that still violate
    a rule are a warning."""
    if plan.skipped and fail and not result.failure:
        were = (
            f"{plural(len(plan.skipped), 'instance')} {'was' if len(plan.skipped) == 1 else 'were'}"
        )
        result.failure = f"{were} skipped (fail_on_skipped): {_names(plan.skipped)}"
        return
    violators = [skipped for skipped in plan.skipped if skipped.uid in plan.violated]
    if violators:
        result.warnings.append(still_violated(violators))


def judge_places(result: StepResult, skipped: t.Sequence[SkippedInstance], *, fail: bool) -> None:
    """VMs that are not in their places are a failure, or else a warning. Either one names them all."""
    if not skipped:
        return
    text = not_in_place(skipped)
    if fail and not result.failure:
        result.failure = text
    else:
        result.warnings.append(text)


def judge_approved(
    result: StepResult, approved: RunPlan, skipped: t.Iterable[SkippedInstance]
) -> None:
    """A run fails at its end if it could not make all moves of its approved plan."""
    by_uid = approved.by_uid
    left = [x for x in skipped if x.uid in by_uid and x.node == by_uid[x.uid].source]
    if not left or result.failure:
        return
    texts = "; ".join(skipped_texts(left))
    were = "was" if len(left) == 1 else "were"
    result.failure = f"{plural(len(left), 'move')} of the plan {were} not made: {texts}"


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


def report_held(result: StepResult, kept: t.Mapping[Ref, Obstacle]) -> None:
    """Report the workloads whose own rollouts stay held, each with the reason."""
    result.held = [
        {**ref._asdict(), "reason": why.text, "reason_code": why.code} for ref, why in kept.items()
    ]
    result.warnings += map(str, kept.values())


def why_tied(simulation: ClusterSimulation, movable: DeclaredInstance) -> Obstacle | None:
    """Other pods on its node that leave a VM no live migration."""
    if movable.instance.vmi is None or movable.pinned:
        return None
    return tied(simulation.declared, movable.declared_pod)


def skipped_texts(skipped: t.Iterable[SkippedInstance]) -> list[str]:
    return [f"{report.short(x.workload or x.instance, x.instance)}: {x.reason}" for x in skipped]


def still_violated(violators: t.Sequence[SkippedInstance]) -> str:
    """The warning about instances that still violate a rule. Their reasons are lines of the progress."""
    verb = "violates" if len(violators) == 1 else "violate"
    return f"{plural(len(violators), 'instance')} still {verb} a rule: {_names(violators)}"


def not_in_place(skipped: t.Sequence[SkippedInstance]) -> str:
    """Which VMs cannot go to their nodes in the option `places`."""
    nodes = "its node" if len(skipped) == 1 else "their nodes"
    return f"{plural(len(skipped), 'VM')} cannot go to {nodes} in places: {_names(skipped)}"


def _names(skipped: t.Sequence[SkippedInstance]) -> str:
    """Their reasons are lines of the progress."""
    names = listed([report.short(x.workload or x.instance, x.instance) for x in skipped], 8)
    return f"{names}; the lines above and skipped_instances have the reasons"


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


def places(
    asked: t.Mapping[Ref, str],
    snapshot: Snapshot,
    moves: t.Iterable[t.Mapping[str, JSON]],
    deferred: t.Iterable[t.Mapping[str, JSON]],
    skipped: t.Iterable[t.Mapping[str, JSON]],
) -> list[dict[str, JSON]]:
    """One entry for each VM of the option `places`. The lists are those of a result."""
    planned = {(x["namespace"], x["instance"]) for x in moves if x["state"] == "planned"}
    later = {(x["namespace"], x["instance"]) for x in deferred}
    reasons = {(x["namespace"], x["instance"]): x["reason"] for x in skipped}
    entries = []
    for ref, place in asked.items():
        key, vmi = (ref.namespace, ref.name), snapshot.vmis_by_ref.get(ref)
        node = "" if vmi is None or vmi.terminating or vmi.finished else vmi.node_name
        state = "not_moved"
        if node == place:
            state = "in_place"
        elif key in planned:
            state = "planned"
        elif key in later:
            state = "deferred"
        entries.append(
            {
                "namespace": ref.namespace,
                "name": ref.name,
                "from_node": node or None,
                "to_node": place,
                "node": node or None,
                "state": state,
                "reason": "" if state in ("in_place", "planned") else reasons.get(key, ""),
            }
        )
    return entries


def entries(result: StepResult, options: RolloutOptions, now: datetime.datetime) -> dict[str, JSON]:
    """What the run says for people. What it has done and what comes next is known at its end alone."""
    done = _done(result) if result.finished else ()
    following = _following(result, options, now) if result.finished and not result.failure else ()
    held = (Entry(x["reason_code"], x["reason"]) for x in result.held)
    return outcome(done, (*result.entries_skipped(), *held), following)


def _done(result: StepResult) -> t.Iterator[Entry]:
    elsewhere = any(x["state"] != "in_place" for x in result.places)
    left = result.skipped or result.deferred or result.held or elsewhere
    moved = result.moves or result.state.total > 0  # those of earlier steps are counted
    if not (moved or left or result.changed or result.failure):
        yield Entry("nothing_to_move", "nothing to move")
    placed = [[x["takes_effect"]] for x in result.not_enforced if x["when"] == "now"]
    if placed:
        count, event = plural(len(placed), "instance"), next_event(placed)
        yield Entry("not_enforced", f"{count} placed correctly, enforced from {event}")


def _following(
    result: StepResult, options: RolloutOptions, now: datetime.datetime
) -> t.Iterator[Entry]:
    planned = any(move["state"] == "planned" for move in result.moves)
    if result.deferred and not planned:
        closed = result.stop is not None and result.stop.code == OUTSIDE_OF_WINDOW
        opens = options.window.opens_next(now) if closed and options.window else ""
        yield Entry("deferred", f"launch the same job again for what was deferred{opens}")
    elif not planned and any(x["reason_code"] == NOT_IN_PLAN.code for x in result.skipped):
        text = "for what is not in the plan, make a new one: launch the job in check mode"
        yield Entry(NOT_IN_PLAN.code, text)
    held = [Ref(x["kind"], x["namespace"], x["name"]) for x in result.held]
    if held and options.approved is not None:
        text = f"for {listed(held, 4)}, which the plan leaves held: launch the job without its plan"
        yield Entry("held", text)
    elif held:
        yield end_of_hold(held, sorted(options.allow), tried=True)
    left = [
        x
        for x in result.skipped
        if x["reason_code"] != NOT_IN_PLAN.code
        and Ref(x["kind"], x["namespace"], x["name"]) not in held
    ]
    if left:
        one, several = "was not moved", "were not moved"
        if options.places is not None:
            one, several = "is not on its given node", "are not on their given nodes"
        elif options.scope == "violated":
            one, several = "still violates a rule", "still violate a rule"
        yield Entry(
            "skipped",
            f"{plural(len(left), 'instance')} {one if len(left) == 1 else several}: mend what the lines under skipped"
            " name (free or add a node, raise the quota, change the rule, or extend the option allow, for a job"
            " placement_rollout_allow or placement_apply_allow), then launch the same job again",
        )
