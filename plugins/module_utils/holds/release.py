# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which selected workloads have their own rollout set aside, what is left to do for them, and how does a hold end?

The instances that are not of the present template move like any other one (`planning/plan`, `held`): replicas of a
StatefulSet of another revision, VMs of a pool that do not run as the pool declares. A hold that a run leaves is on the
object: the next run finds it.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from ..cluster.access import Right
from ..cluster.lease import LeaseKeeper
from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kinds.vmi import KUBEVIRT_V1, VMIS
from ..kubevirt.ordinals import is_of_other_revision
from ..kubevirt.pools import BEFORE_STRATEGY, members_of, why_not_brought
from ..model.json_pointer import ANNOTATIONS, MISSING, UPDATE_STRATEGY, Pointer
from ..model.kinds import HOLD
from ..model.obstacle import Obstacle
from ..model.plan import Uid
from ..model.rendering import one_line
from ..model.snapshot import Snapshot
from ..model.write import Operation, Write
from ..moves.context import StepContext
from ..moves.move_source import HeldRollouts, Kept
from .hold import Hold, hold_of
from .pool_revisions import LABELS_SEEN, KeptByRevision, revision_writes, write_revisions


def held_rollouts(
    snapshot: Snapshot, selection: InstanceSelection, candidates: t.Collection[DeclaredInstance]
) -> HeldRollouts:
    """What a rollout asks about the selected workloads that are held."""
    found = holds_of(snapshot, selection, candidates)
    return HeldRollouts(
        frozenset(uid for hold in found for uid in hold.left),
        why_waiting(found),
        frozenset(right for hold in found for right in _rights(hold)),
        tuple(f"{hold.ref}: its own rollout {_state(hold)}" for hold in found),
        any(hold.ends for hold in found),
        functools.partial(_end, found),
        lambda api, moved: _check(found, api, moved),
    )


def holds_of(
    snapshot: Snapshot, selection: InstanceSelection, candidates: t.Collection[DeclaredInstance]
) -> tuple[Hold, ...]:
    """The holds of the selected workloads that stay: of what is being deleted no replica comes back."""
    by_name = selection.workloads
    return tuple(
        replace(
            hold,
            members=members_of(workload, snapshot) if workload.kind.makes_vms else (),
            left=_left_of(hold, candidates),
        )
        for workload in snapshot.workloads
        if (hold := hold_of(workload)) is not None
        and not workload.is_deleted
        and (hold.ref in by_name or (not by_name and hold.ref.namespace in selection.namespaces))
    )


def _left_of(hold: Hold, candidates: t.Iterable[DeclaredInstance]) -> frozenset[Uid]:
    """The instances that are not of the present template, and wait to be moved."""
    workload = hold.workload
    return frozenset(
        x.uid
        for x in candidates
        if x.workload is not None
        and x.workload.ref == hold.ref
        and not hold.is_over
        and (
            x.drift is not None
            if workload.kind.makes_vms
            else is_of_other_revision(workload, x.pod)
        )
    )


def why_waiting(holds: t.Iterable[Hold]) -> Obstacle | None:
    """What the controller of a held workload has still to do, beside the moves."""
    return next(
        (
            Obstacle("in_progress", f"{hold.ref}: {_to_do(hold)}", temporary=True)
            for hold in holds
            if not hold.is_over
            and hold.strategy is not None
            and _why_stuck(hold) is None
            and (not hold.seen or (hold.behind and not hold.left))
        ),
        None,
    )


def _why_stuck(hold: Hold) -> Obstacle | None:
    """Why the controller does not go on by itself."""
    is_pool = hold.workload.kind.makes_vms
    return why_not_brought(hold.workload) if is_pool and not hold.seen else None


def _rights(hold: Hold) -> t.Iterator[Right]:
    """The rights to end a hold."""
    kind, where = hold.workload.kind, hold.ref.namespace
    yield Right("patch", kind.group, kind.plural, "", where)
    if kind.makes_vms:
        yield Right("patch", KUBEVIRT_V1.partition("/")[0], VMIS, "", where)
        yield Right("get", "apps", "controllerrevisions", "", where)


def _state(hold: Hold) -> str:
    if hold.is_over:
        return "is not held any more, since its update strategy was changed meanwhile"
    if hold.strategy is None:
        return f"is held by rules, and its annotation {HOLD} is damaged"
    if hold.ends:
        return (
            f"is held by rules until its update strategy {hold.replacing} is given back at the end"
        )
    return (
        f"is held by rules, and {_to_do(hold)}; its update strategy {hold.replacing} is"
        " given back after the last one"
    )


def _to_do(hold: Hold) -> str:
    if not hold.seen:
        return "its controller has not seen the latest change yet"
    count = max(hold.behind, len(hold.left))
    noun = "VMs" if hold.workload.runs_vms else "replicas"
    of = f"{count} of {hold.workload.replicas or 0} {noun}"
    return f"{of} {'is' if count == 1 else 'are'} not of its present template"


def why_kept(hold: Hold, moved: t.Collection[Uid] = ()) -> Obstacle | None:
    """Why a hold stays once these instances have moved, and what to do."""
    if hold.ends or (hold.left and hold.left <= set(moved) and hold.strategy is not None):
        return None
    if hold.strategy is None:
        return _kept(hold, "damaged", f"its annotation {HOLD} is damaged. {_by_hand(hold)}")
    if (stuck := _why_stuck(hold)) is not None:
        return _kept(hold, stuck.code, f"{stuck}, and run the rollout again")
    if not hold.seen:
        return _kept(hold, "in_progress", f"{_to_do(hold)}. Run the rollout again")
    ends = (
        "has moved them" if hold.workload.runs_vms else "with recreate in allow has replaced them"
    )
    until = f"Its update strategy is {hold.workload.strategy_name} until a rollout {ends}"
    return _kept(hold, "previous_template", f"{_to_do(hold)}. {until}")


def _kept(hold: Hold, code: str, text: str) -> Obstacle:
    return Obstacle(code, f"{hold.ref} stays held: {text}")


def _by_hand(hold: Hold) -> str:
    """What to do where no run can end the hold."""
    text = f"Set its update strategy by hand, and remove the annotation {HOLD}"
    return f"{text}. {BEFORE_STRATEGY}" if hold.workload.kind.makes_vms else text


def _end(holds: t.Iterable[Hold], keeper: LeaseKeeper, context: StepContext) -> Kept:
    """Give the workloads that are held their own rollouts back. Returns why some stay held."""
    written, kept, ending = _prepared(holds, keeper.api_while_ours)
    if written:
        context.report.changed = True
        context.api.deadline.pause(LABELS_SEEN)
    for hold in ending:
        if (obstacle := end(keeper.api_while_ours(), hold)) is not None:
            kept[hold.ref] = obstacle
        else:
            context.report.lines.append(ended(hold))
            context.report.changed = True
    return kept


def _check(holds: t.Iterable[Hold], api: ApiClient, moved: t.Collection[Uid]) -> tuple[bool, Kept]:
    """Whether a run that moves these instances gives a workload its own rollout back, and why others stay held."""
    written, kept, ending = _prepared(holds, lambda: api, moved, check=True)
    return bool(written or ending), kept


def _prepared(
    holds: t.Iterable[Hold],
    api: t.Callable[[], ApiClient],
    moved: t.Collection[Uid] = (),
    *,
    check: bool = False,
) -> tuple[int, Kept, list[Hold]]:
    """How many VMIs get another revision, why some workloads stay held, and which others can get their own rollouts
    back by that."""
    written = 0
    kept: Kept = {}
    ending = []
    for hold in holds:
        obstacle = why_kept(hold, moved)
        if hold.ends:
            count, obstacle = prepare(api(), hold, check=check)
            written += count
        if obstacle is not None:
            kept[hold.ref] = obstacle
        elif hold.ends:
            ending.append(hold)
    return written, kept, ending


def prepare(api: ApiClient, hold: Hold, *, check: bool = False) -> tuple[int, Obstacle | None]:
    """Make it so that nothing restarts when the strategy is given back: the VMIs of a pool get the revisions of their
    VMs, in check mode none. Returns how many do, and why the hold stays. Raises ApiError where the server does not
    answer."""
    if not hold.members or hold.is_over:
        return 0, None
    try:
        writes = revision_writes(api, hold.workload, hold.members)
        if not check:
            write_revisions(api, writes)
    except KeptByRevision as error:
        return error.written, _kept(hold, error.code, str(error))
    except (Invalid, Forbidden, NotFound) as error:
        return 0, _refused(hold, error)
    return len(writes), None


def _refused(hold: Hold, error: ApiError) -> Obstacle:
    return _kept(hold, "refused", f"{one_line(str(error))}. {_by_hand(hold)}")


def end(api: ApiClient, hold: Hold) -> Obstacle | None:
    """Give the strategy back. Returns why it stays held. Raises ApiError where the server does not answer: what it
    refuses about one workload is no reason to leave the others."""
    write = release_of(hold)
    try:
        api.patch(write.path, write.patch())
    except Conflict:
        return _kept(hold, "changed", "it was changed meanwhile. Run the rollout again")
    except (Invalid, Forbidden, NotFound) as error:
        return _refused(hold, error)
    return None


def ended(hold: Hold) -> str:
    """The line about a hold that a run has ended."""
    if hold.is_over:
        return f"{hold.ref}: its annotation {HOLD} is removed, its update strategy stays as it is"
    return f"{hold.ref}: its update strategy is {hold.replacing} again"


def release_of(hold: Hold) -> Write:
    """The write that gives the strategy back, unless something else has set one meanwhile. It needs the generation
    that was read: rules that are written at the same time rely on the strategy that replaces nothing."""
    workload, annotation = hold.workload, ANNOTATIONS / HOLD
    generation = Pointer(("metadata", "generation"))
    strategy = UPDATE_STRATEGY.read(workload.manifest)
    operations = [Operation("remove", annotation)]
    if not hold.is_over:
        given_back = Operation("replace", UPDATE_STRATEGY, hold.strategy)
        operations.insert(0, given_back if hold.strategy else Operation("remove", UPDATE_STRATEGY))
    return Write(
        target=workload.ref,
        path=workload.path,
        uid=workload.uid,
        tests=(
            Operation("test", generation, generation.read(workload.manifest, None)),
            Operation("test", annotation, workload.annotations[HOLD]),
            Operation("test", UPDATE_STRATEGY, None if strategy is MISSING else strategy),
        ),
        operations=tuple(operations),
        before={"updateStrategy": strategy},
        after={"updateStrategy": hold.strategy},
    )
