# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that check mode returns and a later task makes: its format, and is one that is given whole?

Its checksum shows that a plan was edited or cut. It is no signature: an identity that may write the plan may also
compute the checksum again. Nothing of a plan becomes part of a request: the moves are those of a new plan of the
cluster, as far as they are among the approved ones. What differs between modules is a PlanKind.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.json_text import content_fault
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move, move_as_json

FORMAT = 4

PLANNED_OPTIONS = (
    "namespaces",
    "workloads",
    "only",
    "scope",
    "allow",
    "max_parallel",
    "max_unavailable",
    "canary",
    "soak",
    "max_moves",
    "window",
    "failures_allowed",
    "pin_target_zone",
    "apply_pending_changes",
    "topology_keys",
    "places",
)
"""Options of the task that a plan fixes: what moves, by which methods, and within which limits."""

AGAIN = "make a new plan in check mode"


@dataclass(frozen=True, slots=True)
class PlanKind:
    """The plans of one module. `options` of its task are fixed by a plan; a list among them has an order that matters
    only if it is in `ordered`. `nothing` was done where a plan is refused."""

    module: str
    options: tuple[str, ...]
    ordered: tuple[str, ...] = ()
    nothing: str = "nothing was moved"


ROLLOUT_PLAN = PlanKind("rollout", PLANNED_OPTIONS)


@dataclass(frozen=True)
class ApprovedPlan:
    """`options`: the values of those of its kind. `moves` in their order; the target of each is its likeliest node.
    `facts`: what else it has, by key. `of_moves`: what else it has of each move, by uid."""

    cluster_uid: str
    options: t.Mapping[str, JSON]
    moves: tuple[Move, ...]
    kind: PlanKind = ROLLOUT_PLAN
    facts: t.Mapping[str, JSON] = field(default_factory=dict)
    of_moves: t.Mapping[str, t.Mapping[str, JSON]] = field(default_factory=dict)

    @cached_property
    def by_uid(self) -> t.Mapping[str, Move]:
        return {move.uid: move for move in self.moves}

    @cached_property
    def target_nodes(self) -> t.Mapping[str, str]:
        """Uid of an instance to the node that the plan counts on."""
        return {move.uid: move.targets[0] for move in self.moves if move.targets}

    def zone_of(self, move: Move) -> str:
        """Of its likeliest node when the plan was made. Empty for a node in no zone."""
        return str(self.of_moves.get(move.uid, {}).get("to_zone") or "")

    def as_json(self) -> dict[str, JSON]:
        content = {
            "format": FORMAT,
            "module": self.kind.module,
            "cluster_uid": self.cluster_uid,
            "options": dict(self.options),
            **self.facts,
            "moves": [
                {**_move_json(move), **self.of_moves.get(move.uid, {})} for move in self.moves
            ],
        }
        return {**content, "checksum": checksum(content)}

    def require_cluster(self, uid: str, host: str) -> None:
        """Raises InvalidInput where the cluster at `host` is another one."""
        if uid != self.cluster_uid:
            text = f"is of cluster {self.cluster_uid}, and {host} is cluster {uid}: check the connection"
            raise _refused(text, self.kind)

    def refusal(self, changes: t.Iterable[str]) -> InvalidInput:
        """The error that names all that has changed."""
        head = f"the cluster has changed since it was made, and {self.kind.nothing}: {AGAIN}"
        return InvalidInput([InputError("plan", line) for line in (head, *changes)])


def checksum(content: t.Mapping[str, JSON]) -> str:
    """Of the content of a plan, without its own `checksum`."""
    text = json.dumps({**content, "checksum": None}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_CONTENT = ("format", "module", "cluster_uid", "options", "moves", "checksum")


def read_plan(given: t.Mapping[str, JSON], kind: PlanKind = ROLLOUT_PLAN) -> ApprovedPlan:
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


def _of_content(given: t.Mapping[str, JSON], kind: PlanKind) -> ApprovedPlan:
    moves = tuple(map(_move, given["moves"]))
    of_moves = {}
    for move, item in zip(moves, given["moves"], strict=True):
        known = _move_json(move)
        of_moves[move.uid] = {key: value for key, value in item.items() if key not in known}
    return ApprovedPlan(
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
    given: t.Mapping[str, JSON], defaults: t.Mapping[str, JSON], plan: ApprovedPlan
) -> dict[str, JSON]:
    """The options of a task that makes a plan: those of the plan take the place of defaults. Raises InvalidInput for
    each option that differs from the plan and is not the default."""
    faults = [
        InputError(
            name,
            f"is {_text(given[name])}, and the plan was made with {_text(planned)}: leave the option out, or {AGAIN}",
        )
        for name, planned in plan.options.items()
        if given[name] != defaults.get(name) and not _same(name, given[name], planned, plan.kind)
    ]
    if faults:
        raise InvalidInput(faults)
    return {**given, **plan.options}


def _same(name: str, given: JSON, planned: JSON, kind: PlanKind) -> bool:
    same = given == planned if name in kind.ordered else _sorted(given) == _sorted(planned)
    return bool(same)


def other_method(planned: str, now: str) -> Obstacle | None:
    """Why an approved move is not made by the method, or the policy, that the instance has now."""
    text = f"the plan moves it by {planned}, and now it would move by {now}"
    return Obstacle("unlike_plan", text) if planned != now else None


def _sorted(value: JSON) -> JSON:
    """The value, with lists in one order."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(json.dumps(_sorted(x), sort_keys=True, default=str) for x in value)
    return value


def _text(value: JSON) -> str:
    return json.dumps(value, default=str)


def _move_json(move: Move) -> dict[str, JSON]:
    """The targets beside the likeliest are left out, since other ones may be available by then. No obstacle is the
    reason of a planned move."""
    record = {**move_as_json(move), "instance_kind": move.instance.kind}
    del record["targets"], record["reason_code"]
    return record


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
