# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is an approved plan whole, which options does its task have, and does it fit the cluster? For a rollout and a drain.

Nothing of a plan becomes part of a request: the moves are those of a new plan of the cluster, as far as they are among
the approved ones.
"""

from __future__ import annotations

import json
import typing as t

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.json_text import content_fault
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move
from ..moves.run_plan import FORMAT, PlanKind, RunPlan, checksum, planned_move

AGAIN = "make a new plan in check mode"

_CONTENT = ("format", "module", "cluster_uid", "options", "moves", "checksum")


def read_plan(given: t.Mapping[str, JSON], kind: PlanKind) -> RunPlan:
    """Raises InvalidInput for a plan of another format or module, and for one that was edited."""
    if "format" not in given or "checksum" not in given:
        raise _refused(f"is not a plan that {kind.module} returned in check mode", kind)
    if given["format"] != FORMAT:
        text = f"has format {given['format']}, and this release reads {FORMAT}: {AGAIN}"
        raise _refused(text, kind)
    if given.get("module") != kind.module:
        raise _refused(f"is a plan of {given.get('module')}, and not of {kind.module}", kind)
    try:
        computed = checksum(given)
    except (TypeError, ValueError) as error:
        raise _refused(f"has values that are not JSON ({error}): {AGAIN}", kind) from error
    if given["checksum"] != computed:
        raise _refused(
            f"was edited after it was made (checksum {given['checksum']!s:.12}, its content has {computed:.12}):"
            f" use it unchanged, or {AGAIN} with other options",
            kind,
        )
    try:
        return _of_content(given, kind)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(error, kind) from error


def _of_content(given: t.Mapping[str, JSON], kind: PlanKind) -> RunPlan:
    moves = tuple(map(_move, given["moves"]))
    of_moves = {
        move.uid: {key: item[key] for key in sorted(item.keys() - planned_move(move))}
        for move, item in zip(moves, given["moves"], strict=True)
    }
    return RunPlan(
        str(given["cluster_uid"]),
        {name: given["options"][name] for name in kind.options},
        moves,
        kind,
        {key: value for key, value in given.items() if key not in _CONTENT},
        of_moves,
    )


def damaged(error: Exception, kind: PlanKind) -> InvalidInput:
    """The error for a plan whose content is not that of its format."""
    return _refused(f"is damaged ({content_fault(error)}): {AGAIN}", kind)


def _refused(message: str, kind: PlanKind) -> InvalidInput:
    nothing = kind.nothing[0].upper() + kind.nothing[1:]
    return InvalidInput([InputError("plan", f"{message}. {nothing}")])


def options_of_plan(
    given: t.Mapping[str, JSON], defaults: t.Mapping[str, JSON], plan: RunPlan
) -> dict[str, JSON]:
    """The options of a task that makes a plan: those of the plan take the place of defaults. Raises InvalidInput for
    each option that differs from the plan and is not the default."""
    faults = [
        InputError(
            name,
            f"is {json.dumps(given[name], default=str)}, and the plan was made with"
            f" {json.dumps(planned, default=str)}: leave the option out, or {AGAIN}",
        )
        for name, planned in plan.options.items()
        if given[name] not in (planned, defaults.get(name))
        and (name in plan.kind.ordered or _sorted(given[name]) != _sorted(planned))
    ]
    if faults:
        raise InvalidInput(faults)
    return {**given, **plan.options}


def _sorted(value: JSON) -> JSON:
    """The value, with lists in one order."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(json.dumps(_sorted(x), sort_keys=True, default=str) for x in value)
    return value


def _move(item: t.Mapping[str, JSON]) -> Move:
    namespace = item["namespace"]
    return Move(
        Ref(item["instance_kind"], namespace, item["instance"]),
        item["uid"],
        Ref(item["kind"], namespace, item["name"]),
        Method(item["method"]),
        item["from_node"] or "",
        (item["to_node"],) if item["to_node"] else (),
        item["reason"],
        tuple(item["after"]),
    )


def require(plan: RunPlan, host: str, cluster_uid: str, changes: t.Iterable[str]) -> None:
    """The check of each run before its first write. Raises InvalidInput where the cluster at `host` is another one, and
    else for all that has changed since the plan was made."""
    if cluster_uid != plan.cluster_uid:
        text = f"is of cluster {plan.cluster_uid}, and {host} is cluster {cluster_uid}: check the connection"
        raise _refused(text, plan.kind)
    if lines := list(changes):
        head = f"the cluster has changed since it was made, and {plan.kind.nothing}: {AGAIN}"
        raise InvalidInput([InputError("plan", line) for line in (head, *lines)])


def other_method(planned: str, now: str) -> Obstacle | None:
    """Why an approved move is not made by the method, or the policy, that the instance has now."""
    text = f"the plan moves it by {planned}, and now it would move by {now}"
    return Obstacle("unlike_plan", text) if planned != now else None
