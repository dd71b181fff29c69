# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VirtualMachinePools take no rule, and why does none of their VMs?"""

from __future__ import annotations

import typing as t

from ..kinds.pool import POOL
from ..kubevirt.pools import (
    UNMANAGED,
    autohealing_delay,
    unavailable_of_pool,
)
from ..model.findings import InputError
from ..model.rule import Rule
from ..model.snapshot import Workload
from ..view.view import ClusterView


def pool_faults(
    rule: Rule, workloads: t.Iterable[Workload], view: ClusterView
) -> t.Iterator[InputError]:
    """Why a rule cannot be written to those of the workloads that are pools."""
    for workload in workloads:
        if workload.kind.makes_vms and workload.uid:  # a cluster has it
            for why in _of_pool(workload, view):
                yield InputError(f"{rule.where}, workloads", f"{workload.ref} {why}")


def _of_pool(pool: Workload, view: ClusterView) -> t.Iterator[str]:
    """What is wrong with a pool that a rule is about. KubeVirt counts the VMs that a pool owns and that its selector
    matches, and adopts none (1.4 to 1.9, controller_ref_manager.go, ReleaseDetachedVirtualMachines). With the pool it
    takes the finalizer from all VMs that the selector matches (1.8, watch/pool/pool.go, handlePoolDeletion)."""
    selector = pool.spec.get("selector") or {}
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield (
            "has an empty selector, which matches the VMs of other pools, too, and cannot be changed. Make another pool"
            " with a selector of its own for the rule. Do not delete this one for that: its VMs would be deleted"
        )
    for vm in view.snapshot.workloads_by_ref.values():
        if vm.pool is None or vm.pool.uid != pool.uid:
            continue
        owners = vm.manifest["metadata"].get("ownerReferences") or ()
        others = [f"{x['kind']} {x['name']}" for x in owners if x.get("uid") != pool.uid]
        if others:
            yield (
                f"does not own {vm.ref} alone: it is owned by {' and '.join(others)}, too, so it is not known which"
                " template it gets. Remove the owner reference that is wrong"
            )
    if pool.strategy_name == UNMANAGED:
        yield (
            f"has the update strategy {UNMANAGED}, with which KubeVirt brings no change of its template to its VMs: set"
            " opportunistic, and rollout moves them"
        )


def why_not_on_vm(vm: Workload) -> tuple[str, str]:
    """Why a rule is not written to a VM of a pool, and what to do instead; empty where it is of none."""
    if vm.pool is None:
        return "", ""
    return (
        f"{vm.ref} is one of {POOL.name} {vm.pool.name}: KubeVirt writes the template of the pool over the change when"
        " the pool changes next, and new VMs of the pool lack it.",
        f"Make the rule on the pool instead (kind: {POOL.name}, name: {vm.pool.name}).",
    )


def deleted_by_autohealing(workload: Workload) -> str | None:
    """Which VMs of a pool a rule may cost, with their disks; None where it costs none."""
    after = autohealing_delay(workload)
    if after is None:
        return None
    return (
        f"KubeVirt deletes each VM of {workload.ref}, with its disks, that finds no node for {after} after a restart"
        " (autohealing)."
    )


def extent_of_rollout(workload: Workload) -> str:
    """When the workload rollout of a changed template begins, and how much that of a pool ends at a time."""
    if not workload.kind.makes_vms:
        return " at once"
    when = " once it is resumed (spec.paused)" if workload.paused else " at once"
    text = (
        f"{when}, in which KubeVirt restarts all its running VMs, {unavailable_of_pool(workload)}"
    )
    if after := autohealing_delay(workload):
        text += (
            f", and deletes each VM, with its disks, that finds no node for {after} (autohealing)"
        )
    return text
