# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which selected workloads have their own rollout set aside, what is left to do for them, and how does a hold end?

The instances that are not of the present template move like any other one (`planning/plan`, `held`): replicas of a
StatefulSet of another revision, VMs of a pool that do not run as the pool declares. A hold that a run leaves is on the
object: the next run finds it.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from ..cluster.access import Right
from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kinds.virtual_machine import KUBEVIRT_V1, VMIS
from ..kubevirt.ordinals import is_of_other_revision
from ..kubevirt.pools import BEFORE_STRATEGY, members_of, why_not_brought
from ..model.kinds import HOLD
from ..model.obstacle import Obstacle
from ..model.rendering import one_line
from ..model.snapshot import Snapshot
from ..rules.hold import Hold, hold_of, release_of
from .pool_revisions import KeptByRevision, revision_writes, write_revisions


def _by_hand(hold: Hold) -> str:
    """What to do where no run can end the hold."""
    text = f"Set its update strategy by hand, and remove the annotation {HOLD}"
    return f"{text}. {BEFORE_STRATEGY}" if hold.workload.kind.makes_vms else text


def holds_of(snapshot: Snapshot, selection: InstanceSelection) -> tuple[Hold, ...]:
    """The holds of the selected workloads that stay: of what is being deleted no replica comes back."""
    by_name = selection.workloads
    return tuple(
        _with_members(hold, snapshot)
        for workload in snapshot.workloads
        if (hold := hold_of(workload)) is not None
        and not workload.is_deleted
        and (hold.ref in by_name or (not by_name and hold.ref.namespace in selection.namespaces))
    )


def _with_members(hold: Hold, snapshot: Snapshot) -> Hold:
    if not hold.workload.kind.makes_vms:
        return hold
    return replace(hold, members=members_of(hold.workload, snapshot))


def held_replicas(
    holds: t.Iterable[Hold], candidates: t.Iterable[DeclaredInstance]
) -> frozenset[str]:
    """The uids of the instances that are not of the present template, and wait to be moved."""
    held = {hold.ref for hold in holds if not hold.is_over}
    return frozenset(
        movable.uid
        for movable in candidates
        if movable.workload is not None
        and movable.workload.ref in held
        and (
            movable.drift is not None
            if movable.workload.kind.makes_vms
            else is_of_other_revision(movable.workload, movable.pod)
        )
    )


def can_end(hold: Hold, candidates: t.Iterable[DeclaredInstance]) -> bool:
    """Whether the strategy can be given back, and nothing restarts by that."""
    return hold.ends and not held_replicas((hold,), candidates)


def why_waiting(
    holds: t.Iterable[Hold], candidates: t.Collection[DeclaredInstance]
) -> Obstacle | None:
    """What the controller of a held workload has still to do, beside the moves."""
    for hold in holds:
        if hold.is_over or hold.strategy is None or _why_stuck(hold) is not None:
            continue
        behind = hold.behind and not held_replicas((hold,), candidates)
        if not hold.seen or behind:
            text = f"{hold.ref}: {_left(hold, candidates)}"
            return Obstacle("in_progress", text, temporary=True)
    return None


def _why_stuck(hold: Hold) -> Obstacle | None:
    """Why the controller does not go on by itself."""
    is_pool = hold.workload.kind.makes_vms
    return why_not_brought(hold.workload) if is_pool and not hold.seen else None


def rights_of(holds: t.Iterable[Hold]) -> set[Right]:
    """The rights to end the holds."""
    rights = set()
    for hold in holds:
        kind, where = hold.workload.kind, hold.ref.namespace
        rights.add(Right("patch", kind.group, kind.plural, "", where))
        if kind.makes_vms:
            rights.add(Right("patch", KUBEVIRT_V1.partition("/")[0], VMIS, "", where))
            rights.add(Right("get", "apps", "controllerrevisions", "", where))
    return rights


def lines(holds: t.Iterable[Hold], candidates: t.Collection[DeclaredInstance]) -> list[str]:
    """A line about each hold that a run finds."""
    return [f"{hold.ref}: its own rollout {_state(hold, candidates)}" for hold in holds]


def _state(hold: Hold, candidates: t.Collection[DeclaredInstance]) -> str:
    if hold.is_over:
        return "is not held any more, since its update strategy was changed meanwhile"
    if hold.strategy is None:
        return f"is held by rules, and its annotation {HOLD} is damaged"
    strategy = _replacing(hold)
    if can_end(hold, candidates):
        return f"is held by rules until its update strategy {strategy} is given back at the end"
    return (
        f"is held by rules, and {_left(hold, candidates)}; its update strategy {strategy} is"
        " given back after the last one"
    )


def _replacing(hold: Hold) -> str:
    """The name of the strategy that it gets back."""
    update = hold.workload.kind.update_strategy
    return update.replacing if update is not None else ""


def why_kept(hold: Hold, candidates: t.Collection[DeclaredInstance]) -> Obstacle | None:
    """Why a hold stays, and what to do."""
    if can_end(hold, candidates):
        return None
    if hold.strategy is None:
        return _kept(hold, "damaged", f"its annotation {HOLD} is damaged. {_by_hand(hold)}")
    if (stuck := _why_stuck(hold)) is not None:
        return _kept(hold, stuck.code, f"{stuck}, and run the rollout again")
    if not hold.seen:
        return _kept(hold, "in_progress", f"{_left(hold, candidates)}. Run the rollout again")
    is_vm = hold.workload.runs_vms
    ends = "has moved them" if is_vm else "with recreate in allow has replaced them"
    until = f"Its update strategy is {hold.workload.strategy_name} until a rollout {ends}"
    return _kept(hold, "previous_template", f"{_left(hold, candidates)}. {until}")


def _kept(hold: Hold, code: str, text: str) -> Obstacle:
    return Obstacle(code, f"{hold.ref} stays held: {text}")


def why_kept_after(
    hold: Hold, candidates: t.Collection[DeclaredInstance], moved: t.Collection[str]
) -> Obstacle | None:
    """As `why_kept`, once the instances with these uids have moved."""
    left = held_replicas((hold,), candidates)
    replaced = left and left <= set(moved) and hold.strategy is not None
    return None if replaced else why_kept(hold, candidates)


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
    return f"{hold.ref}: its update strategy is {_replacing(hold)} again"


def _left(hold: Hold, candidates: t.Collection[DeclaredInstance]) -> str:
    if not hold.seen:
        return "its controller has not seen the latest change yet"
    count = max(hold.behind, len(held_replicas((hold,), candidates)))
    noun = "VMs" if hold.workload.runs_vms else "replicas"
    of = f"{count} of {hold.workload.replicas or 0} {noun}"
    return f"{of} {'is' if count == 1 else 'are'} not of its present template"
