# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that check mode returns and a later rollout makes: its format, and is one that is given whole?

Its checksum shows that a plan was edited or cut. It is no signature: an identity that may write the plan may also
compute the checksum again. Nothing of a plan becomes part of a request: the moves are those of a new plan of the
cluster, as far as they are among the approved ones.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass
from functools import cached_property

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.plan import Method, Move, move_as_json
from .plan_basis import PlanBasis

FORMAT = 2

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


@dataclass(frozen=True)
class ApprovedPlan:
    """`options`: the values of PLANNED_OPTIONS. `moves` in their order; the target of each is its likeliest node.
    `basis`: what the plan relies on."""

    cluster_uid: str
    options: t.Mapping[str, JSON]
    moves: tuple[Move, ...]
    basis: PlanBasis

    @cached_property
    def by_uid(self) -> t.Mapping[str, Move]:
        return {move.uid: move for move in self.moves}

    @cached_property
    def target_nodes(self) -> t.Mapping[str, str]:
        """Uid of an instance to the node that the plan counts on."""
        return {move.uid: move.targets[0] for move in self.moves if move.targets}

    def as_json(self) -> dict[str, JSON]:
        content = {
            "format": FORMAT,
            "cluster_uid": self.cluster_uid,
            "options": dict(self.options),
            "moves": [_move_json(move) for move in self.moves],
            "relies_on": self.basis.as_json(),
        }
        return {**content, "checksum": checksum(content)}


def checksum(content: t.Mapping[str, JSON]) -> str:
    """Of the content of a plan, without its own `checksum`."""
    text = json.dumps({**content, "checksum": None}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_plan(given: t.Mapping[str, JSON]) -> ApprovedPlan:
    """Raises InvalidInput for a plan of another format, and for one that was edited."""
    if "format" not in given or "checksum" not in given:
        raise _refused("is not a plan that rollout returned in check mode")
    if given["format"] != FORMAT:
        raise _refused(f"has format {given['format']}, and this release reads {FORMAT}: {AGAIN}")
    try:
        computed = checksum(given)
    except (TypeError, ValueError) as error:
        raise _refused(f"has values that are not JSON ({error}): {AGAIN}") from error
    if given["checksum"] != computed:
        raise _refused(
            f"was edited after it was made (checksum {given['checksum']!s:.12}, its content has {computed:.12}):"
            f" use it unchanged, or {AGAIN} with other options"
        )
    try:
        return ApprovedPlan(
            str(given["cluster_uid"]),
            {name: given["options"][name] for name in PLANNED_OPTIONS},
            tuple(map(_move, given["moves"])),
            PlanBasis.read(given["relies_on"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(f"is damaged ({type(error).__name__}: {error}): {AGAIN}") from error


def _refused(message: str) -> InvalidInput:
    return InvalidInput([InputError("plan", f"{message}. Nothing was moved")])


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
        if given[name] != defaults.get(name) and _sorted(given[name]) != _sorted(planned)
    ]
    if faults:
        raise InvalidInput(faults)
    return {**given, **plan.options}


def _sorted(value: JSON) -> JSON:
    """No list among the options has an order that matters."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(json.dumps(_sorted(x), sort_keys=True, default=str) for x in value)
    return value


def _text(value: JSON) -> str:
    return json.dumps(value, default=str)


def _move_json(move: Move) -> dict[str, JSON]:
    """The targets beside the likeliest are left out, since other ones may be available by then."""
    record = {**move_as_json(move), "instance_kind": move.instance.kind}
    del record["targets"]
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
