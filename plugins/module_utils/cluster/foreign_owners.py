# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owner references to objects of another namespace, which a tenant may write and Kubernetes ignores. Pure."""

from __future__ import annotations

import operator
import typing as t
from dataclasses import replace

from ..model.objects import Pod
from ..model.snapshot import Snapshot, Vmi

_Owned = t.TypeVar("_Owned", Pod, Vmi)


def without_foreign_owners(snapshot: Snapshot) -> Snapshot:
    """The snapshot without owners of pods and VMIs that are in another namespace. An owner reference of a
    tenant may have any uid, but valid owners are in the same namespace (Kubernetes, Owners and
    Dependents)."""
    namespaces = {uid: ref.namespace for uid, ref in snapshot.controllers.items()}
    namespaces.update((vmi.uid, vmi.ref.namespace) for vmi in snapshot.vmis)
    namespaces.update((workload.uid, workload.ref.namespace) for workload in snapshot.workloads)
    pods = _with_own_owners(snapshot.pods, operator.attrgetter("namespace"), namespaces)
    vmis = _with_own_owners(snapshot.vmis, operator.attrgetter("ref.namespace"), namespaces)
    if pods is snapshot.pods and vmis is snapshot.vmis:
        return snapshot
    return replace(snapshot, pods=pods, vmis=vmis)


def _with_own_owners(
    items: tuple[_Owned, ...],
    namespace_of: t.Callable[[_Owned], str],
    namespaces: t.Mapping[str, str],
) -> tuple[_Owned, ...]:
    """The items without owners that are in another namespace; `namespaces` are those of owners, by uid.
    The same tuple if there are no such owners."""
    foreign = {
        number
        for number, item in enumerate(items)
        if item.owner is not None
        and namespaces.get(item.owner.uid, own := namespace_of(item)) != own
    }
    if not foreign:
        return items
    return tuple(
        replace(item, owner=None) if number in foreign else item
        for number, item in enumerate(items)
    )
