# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves of a plan, the instances that it skips, and both as modules return them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Ref
from .obstacle import Obstacle
from .rendering import TextEnum, one_line

Uid = str
"""Of an instance."""


class Method(TextEnum):
    """How an instance moves.

    migrate: same VMI. restart: new VMI of a VirtualMachine. recreate: the VMI is deleted or the
    pod evicted, its controller makes a new one. Only a drain uses the others. evict: the pod is evicted,
    and its successor is not waited for. stop: the VirtualMachine is stopped.
    """

    MIGRATE = "migrate"
    RESTART = "restart"
    RECREATE = "recreate"
    EVICT = "evict"
    STOP = "stop"


PAST: t.Mapping[str, str] = {
    Method.MIGRATE: "migrated",
    Method.RESTART: "restarted",
    Method.RECREATE: "recreated",
    Method.EVICT: "evicted",
    Method.STOP: "stopped",
}
"""What became of an instance that was moved by each method."""

NOT_IN_PLAN = Obstacle("not_in_plan", "it is not among the moves of the plan")
"""Why a rollout that makes an approved plan does not move an instance."""

WITHOUT_SUCCESSOR = (Method.EVICT, Method.STOP)
"""Methods whose moves end when the instance is gone."""


@dataclass(frozen=True, slots=True)
class Move:
    """`targets`: the feasible nodes when the move starts, the likeliest first. `after`: uids of the
    instances whose moves must end before this one starts."""

    instance: Ref
    uid: str
    workload: Ref
    method: Method
    source: str
    targets: tuple[str, ...]
    reason: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedInstance:
    """An instance that should move and does not, with the reason. `temporary`: the reason ends by
    itself, so waiting helps. `no_node`: it has no node now, and a move may free one."""

    instance: Ref
    uid: str
    workload: Ref | None
    node: str
    reason: Obstacle
    temporary: bool = False
    no_node: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """`violated`: uids of the instances that violate a required rule now, before the moves."""

    moves: tuple[Move, ...] = ()
    skipped: tuple[SkippedInstance, ...] = ()
    violated: frozenset[str] = frozenset()


def move_record(
    workload: Ref | None,
    instance: Ref,
    uid: str,
    reason: Obstacle | str | None,
    *,
    method: Method | None = None,
    from_node: str = "",
    to_node: str = "",
) -> dict[str, JSON]:
    """One entry of the lists `moves`, `skipped` and `deferred` of results: one shape for all of them.

    `kind`, `namespace` and `name` are those of the workload, or of the instance where it has none.
    What is not known is None: a skipped instance has no `to_node`, and no `method` if none is allowed. `reason_code`
    is that of an Obstacle; empty for why an instance moves.
    """
    owner = workload or instance
    return {
        "kind": owner.kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "instance": instance.name,
        "uid": uid,
        "method": str(method) if method else None,
        "from_node": from_node or None,
        "to_node": to_node or None,
        "reason": one_line(str(reason or "")),
        "reason_code": reason.code if isinstance(reason, Obstacle) else "",
    }


def move_as_json(move: Move) -> dict[str, JSON]:
    """A planned move. `to_node` is the node that the plan counts on, the first of `targets`."""
    record = move_record(
        move.workload,
        move.instance,
        move.uid,
        move.reason,
        method=move.method,
        from_node=move.source,
        to_node=move.targets[0] if move.targets else "",
    )
    return {**record, "targets": list(move.targets), "after": list(move.after)}


def skipped_as_json(skipped: SkippedInstance) -> dict[str, JSON]:
    return move_record(
        skipped.workload, skipped.instance, skipped.uid, skipped.reason, from_node=skipped.node
    )
