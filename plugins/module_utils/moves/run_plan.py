# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that check mode returns: its format. What differs between modules is a PlanKind.

Its checksum shows that a plan was edited or cut. It is no signature: an identity that may write the plan may also
compute the checksum again.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.plan import Move, move_as_json

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
class RunPlan:
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
                {**planned_move(move), **self.of_moves.get(move.uid, {})} for move in self.moves
            ],
        }
        return {**content, "checksum": checksum(content)}


def checksum(content: t.Mapping[str, JSON]) -> str:
    """Of the content of a plan, without its own `checksum`."""
    text = json.dumps({**content, "checksum": None}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def planned_move(move: Move) -> dict[str, JSON]:
    """A move as a plan has it. The targets beside the likeliest are left out, since other ones may be available by
    then. No obstacle is the reason of a planned move."""
    record = {**move_as_json(move), "instance_kind": move.instance.kind}
    del record["targets"], record["reason_code"]
    return record


PlanReader = t.Callable[
    [t.Mapping[str, JSON], t.Mapping[str, JSON]], tuple[dict[str, JSON], RunPlan]
]
"""From the options of a task with a plan, and their defaults: the options with those of the plan, and the plan."""


def options_with_plan(
    given: t.Mapping[str, JSON],
    defaults: t.Mapping[str, JSON],
    readers: t.Mapping[str, t.Callable[[], PlanReader]],
) -> tuple[dict[str, JSON], RunPlan | None]:
    """The options of a task, and its approved plan. Raises InvalidInput with what is wrong with the option `plan`."""
    if given["plan"] is None:
        return dict(given), None
    if "plan" not in readers:
        raise InvalidInput([InputError("plan", "cannot be carried out by this installation")])
    return readers["plan"]()(given, defaults)
