# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a rollout report of the instances that it did not move, and which of them are a failure? Pure."""

from __future__ import annotations

import datetime
import typing as t

from ..kubevirt.moving import end_of_hold, next_event
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import OUTSIDE_OF_WINDOW, Obstacle
from ..model.plan import NOT_IN_PLAN, Plan, SkippedInstance
from ..model.rendering import Entry, listed, outcome, plural
from ..model.snapshot import Snapshot
from ..moves import report
from ..moves.run_plan import RunPlan
from ..moves.state import StepResult
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
        verb = "violates" if len(violators) == 1 else "violate"
        named = f"{plural(len(violators), 'instance')} still {verb} a rule: {_names(violators)}"
        result.warnings.append(named)


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
    named = ((report.short(x.workload or x.instance, x.instance), x.reason) for x in left)
    texts = "; ".join(f"{name}: {reason}" for name, reason in named)
    were = "was" if len(left) == 1 else "were"
    result.failure = f"{plural(len(left), 'move')} of the plan {were} not made: {texts}"


def report_held(result: StepResult, kept: t.Mapping[Ref, Obstacle]) -> None:
    """Report the workloads whose own rollouts stay held, each with the reason."""
    result.held = [
        {**ref._asdict(), "reason": why.text, "reason_code": why.code} for ref, why in kept.items()
    ]
    result.warnings += map(str, kept.values())


def not_in_place(skipped: t.Sequence[SkippedInstance]) -> str:
    """Which VMs cannot go to their nodes in the option `places`."""
    nodes = "its node" if len(skipped) == 1 else "their nodes"
    return f"{plural(len(skipped), 'VM')} cannot go to {nodes} in places: {_names(skipped)}"


def _names(skipped: t.Sequence[SkippedInstance]) -> str:
    """Their reasons are lines of the progress."""
    names = listed([report.short(x.workload or x.instance, x.instance) for x in skipped], 8)
    return f"{names}; the lines above and skipped_instances have the reasons"


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
