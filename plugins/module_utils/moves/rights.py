# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights does a run need to make its moves?"""

from __future__ import annotations

import typing as t

from ..cluster.access import Right
from ..compliance.instances import DeclaredInstance
from ..kinds.vmi import VMIS
from ..model import kinds as names
from ..model.kinds import MIGRATIONS
from ..model.objects import Ref
from ..model.plan import Method, Plan
from .move import MoveRecord

_KUBEVIRT = "kubevirt.io"
_SUBRESOURCES = "subresources.kubevirt.io"
_LEASES = "coordination.k8s.io"

Disruption = tuple[Method, Ref]
"""A way to move, and the instance that moves."""


def needed_rights(disruptions: t.Iterable[Disruption]) -> set[Right]:
    """The rights of a run that makes these moves."""
    where, name = names.LEASE_NAMESPACE, names.LEASE
    rights = {Right(verb, _LEASES, "leases", "", where, name) for verb in ("get", "patch")}
    for method, instance in disruptions:
        rights |= set(_of_move(method, instance))
    return rights


def rights_of_run(plan: Plan, records: t.Iterable[MoveRecord]) -> set[Right]:
    """The rights of a run that makes the moves of the plan, and continues those of `records`."""
    disruptions = [(move.method, move.instance) for move in plan.moves]
    return needed_rights([*disruptions, *((record.method, record.instance) for record in records)])


def rights_of_any_move(
    candidates: t.Iterable[DeclaredInstance],
    allow: t.Container[Method],
    *,
    apply_pending_changes: bool,
) -> set[Right]:
    """The rights for every move of these instances that is allowed."""
    return needed_rights(
        (method, movable.instance.ref)
        for movable in candidates
        for method in movable.move_options(apply_pending_changes=apply_pending_changes).methods
        if method in allow
    )


def _of_move(method: Method, instance: Ref) -> t.Iterator[Right]:
    """`get` is for the read right before the move (and of what a restart would apply), `patch` for the
    takeover (`takeover.outdate_pending_deletes`), `delete` of a migration to cancel it."""
    where = instance.namespace
    is_vmi = instance.is_vmi
    group, plural = (_KUBEVIRT, VMIS) if is_vmi else ("", "pods")
    yield Right("get", group, plural, "", where)
    if method is Method.MIGRATE:
        for verb in ("create", "delete", "get"):
            yield Right(verb, _KUBEVIRT, MIGRATIONS, "", where)
    elif method is Method.STOP:
        yield Right("update", _SUBRESOURCES, "virtualmachines", "stop", where)
    elif method is Method.EVICT:
        yield Right("create", "", "pods", "eviction", where)
    elif method is Method.RESTART:
        yield Right("update", _SUBRESOURCES, "virtualmachines", "restart", where)
        yield Right("get", "apps", "controllerrevisions", "", where)
    else:
        yield Right("patch", group, plural, "", where)
        if is_vmi:
            yield Right("delete", group, plural, "", where)
        else:
            yield Right("create", group, plural, "eviction", where)
