# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs would make the scheduler end other VMs, where no node has room for them?

kube-scheduler preempts pods of lower priority (pkg/scheduler/framework/preemption). It deletes the launcher pod, and
KubeVirt does not migrate the VM then, whatever its eviction strategy.
"""

from __future__ import annotations

import typing as t

from ..model.findings import Finding
from ..model.objects import Ref
from ..model.rendering import listed, plural
from ..model.snapshot import Instance

PREEMPTS_VMS = "preempts_vms"


def preempting_vms(instances: t.Iterable[Instance]) -> t.Iterator[Finding]:
    """One finding about all VMs that may preempt another VM."""
    vms = [(x.pod, x.workload or x.ref) for x in instances if x.vmi is not None and x.pod]
    lowest = min((pod.priority for pod, _ref in vms), default=0)
    preempting = sorted({ref for pod, ref in vms if pod.priority > lowest and pod.may_preempt})
    if not preempting:
        return
    highest = max(pod.priority for pod, ref in vms if ref in preempting)
    lower: list[Ref] = sorted({ref for pod, ref in vms if pod.priority < highest})
    has = "has" if len(preempting) == 1 else "have"
    yield Finding(
        PREEMPTS_VMS,
        "warning",
        f"{listed(preempting, 3)} {has} a higher priority than {plural(len(lower), 'other VM')}, such as"
        f" {listed(lower, 1)}. Where no node has room, kube-scheduler ends VMs of lower priority, and does not migrate"
        " them.",
        "Set preemptionPolicy: Never in the PriorityClass, or give these VMs the same priority.",
        tuple(preempting),
    )
