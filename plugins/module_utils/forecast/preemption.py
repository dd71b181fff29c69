# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs would make the scheduler end other VMs, where no node has room for them?

kube-scheduler preempts pods of lower priority (pkg/scheduler/framework/preemption). It deletes the launcher pod, and
KubeVirt does not migrate the VM then, whatever its eviction strategy. Value and policy of a PriorityClass are immutable
(pkg/apis/scheduling/validation, ValidatePriorityClassUpdate).
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
    above = [(pod, ref) for pod, ref in vms if pod.priority > lowest and pod.may_preempt]
    if not above:
        return
    preempting = sorted({ref for _pod, ref in above})
    highest = max(pod.priority for pod, _ref in above)
    lower: list[Ref] = sorted({ref for pod, ref in vms if pod.priority < highest})
    has = "has" if len(preempting) == 1 else "have"
    yield Finding(
        PREEMPTS_VMS,
        "warning",
        f"{listed(preempting, 3)} {has} a higher priority than {plural(len(lower), 'other VM')}, such as"
        f" {listed(lower, 1)}. Where no node has room, kube-scheduler ends VMs of lower priority, and does not migrate"
        " them.",
        "Give these VMs a PriorityClass with preemptionPolicy Never, or the priority of the others. A PriorityClass"
        " cannot be changed (create another one), and a running VM keeps its priority until it is restarted.",
        tuple(preempting),
    )
