# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a roll-out has to be allowed to do, asked before it takes the Lease.

Pure. Events are not among it: a run whose Events are refused is none the worse for it.
"""

from __future__ import annotations

import typing as t

from ..cluster.rights import Right
from ..model import names
from ..model.kinds import KINDS, MACHINE_INSTANCE
from ..model.objects import Ref
from ..model.plan import Method

_KUBEVIRT = "kubevirt.io"
_SUBRESOURCES = "subresources.kubevirt.io"
_LEASES = "coordination.k8s.io"

Disruption = tuple[Method, Ref]
"""A way to move, and the instance that moves."""


def needed_rights(
    disruptions: t.Iterable[Disruption], cleared: t.Iterable[Ref], *, lease_exists: bool
) -> set[Right]:
    """Of a run that makes these moves, and takes the journal off the workloads in `cleared`."""
    found = set(_of_lease(lease_exists))
    for method, instance in disruptions:
        found |= set(_of_move(method, instance))
    for ref in cleared:
        kind = KINDS[ref.kind]
        group = kind.group_version.partition("/")[0]
        found.add(Right("patch", group, kind.plural, "", ref.namespace))
    return found


def _of_lease(exists: bool) -> t.Iterator[Right]:
    where, name = names.LEASE_NAMESPACE, names.LEASE
    if not exists:
        yield Right("create", _LEASES, "leases", "", where)
    for verb in ("get", "patch"):
        yield Right(verb, _LEASES, "leases", "", where, name)


def _of_move(method: Method, instance: Ref) -> t.Iterator[Right]:
    """`get` is for the last look at the instance, `patch` to keep a run that was overtaken from
    taking it away, `delete` of a migration to cancel it."""
    where = instance.namespace
    machine = instance.kind == MACHINE_INSTANCE
    group, plural = (_KUBEVIRT, "virtualmachineinstances") if machine else ("", "pods")
    yield Right("get", group, plural, "", where)
    if method is Method.MIGRATE:
        for verb in ("create", "delete", "get"):
            yield Right(verb, _KUBEVIRT, "virtualmachineinstancemigrations", "", where)
    elif method is Method.RESTART:
        yield Right("update", _SUBRESOURCES, "virtualmachines", "restart", where)
    else:
        yield Right("patch", group, plural, "", where)
        if machine:
            yield Right("delete", group, plural, "", where)
        else:
            yield Right("create", group, plural, "eviction", where)
