# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VirtualMachinePools take no rule, and why does none of their VMs?"""

from __future__ import annotations

import typing as t

from ..kubevirt.pools import UNMANAGED, is_of_pool, unavailable_of_pool
from ..model.findings import InputError
from ..model.kinds import POOL
from ..model.rule import Rule
from ..model.snapshot import Workload
from ..view.view import ClusterView


def pool_faults(
    rule: Rule, workloads: t.Iterable[Workload], view: ClusterView
) -> t.Iterator[InputError]:
    """Why a rule cannot be written to those of the workloads that are pools."""
    for workload in workloads:
        if workload.ref.kind == POOL.name and workload.uid:  # a cluster has it
            for why in _of_pool(workload, view):
                yield InputError(f"{rule.where}, workloads", f"{workload.ref} {why}")


def _of_pool(pool: Workload, view: ClusterView) -> t.Iterator[str]:
    """What is wrong with a pool that a rule is about. KubeVirt adopts each VirtualMachine of the namespace that the
    selector matches and that has no controller (1.8, watch/pool/pool.go, execute)."""
    selector = (pool.manifest.get("spec") or {}).get("selector") or {}
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield (
            "has an empty selector, so KubeVirt takes any VirtualMachine of the namespace for one of it: create the"
            " pool again with a selector of its own, since that of a pool cannot be changed"
        )
    for vm in view.workloads.values():
        if not is_of_pool(vm) or vm.owner is None or vm.owner.uid != pool.uid:
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
    if not is_of_pool(vm) or vm.owner is None:
        return "", ""
    return (
        f"{vm.ref} is one of {POOL.name} {vm.owner.name}: KubeVirt writes the template of the pool over the change when"
        " the pool changes next, and new VMs of the pool lack it.",
        f"Make the rule on the pool instead (kind: {POOL.name}, name: {vm.owner.name}).",
    )


def extent_of_rollout(workload: Workload) -> str:
    """How much the workload rollout of a pool ends at a time; empty for another kind."""
    if workload.ref.kind != POOL.name:
        return ""
    most = unavailable_of_pool(workload)
    return f", in which KubeVirt restarts all its running VMs, {most} at a time (maxUnavailable)"
