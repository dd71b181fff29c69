# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a drain do with each pod of a node, and why?

The filters are those of kubectl drain (k8s.io/kubectl, pkg/drain/filters.go), with these differences. A
pod can have several reasons against its eviction, and all are reported. A pod that has finished stays.
What is done with a pod of KubeVirt depends on its VMI (KubeVirt, webhooks pod-eviction-admitter). Pure.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass

from ..forecast.eviction import CORDON
from ..kubevirt.labels import LAUNCHER_LABEL
from ..model.kinds import PREFIX, VMI
from ..model.manifests import MIRROR
from ..model.objects import Pod
from ..model.snapshot import Vmi, Workload
from ..scheduler.taint_toleration import tolerates

BARE_POD = "bare_pod"
DAEMONSET_MISSING = "daemonset_missing"
LOCAL_DATA_LOST = "local_data_lost"
STANDALONE_VMI = "standalone_vmi"
VMI_UNREADABLE = "vmi_unreadable"
OF_PODS = (BARE_POD, DAEMONSET_MISSING, LOCAL_DATA_LOST, STANDALONE_VMI, VMI_UNREADABLE)
"""Findings that refuse the eviction of a pod, unless they are allowed."""

PENDING_CHANGES = "pending_changes"
"""Finding: a restart of the VM would also apply changes that are not about placement."""

VM_POLICY = f"{PREFIX}vm-policy"
"""Label of a VM, or of its VMI: its own policy for maintenance."""

VM_POLICIES = ("migrate", "restart", "stop", "refuse")
"""How a VM leaves a node: live migration, a new VMI, shut down, or not at all."""


def vm_policy(vmi: Vmi, workload: Workload | None, default: str) -> str:
    """The policy of the VM's own label, the object of `workload` first, or `default`. Anyone may write the
    label: it can be a text that is not one of VM_POLICIES."""
    own = workload.labels.get(VM_POLICY) if workload is not None else None
    return own or vmi.labels.get(VM_POLICY) or default


HOTPLUG = (LAUNCHER_LABEL[0], "hotplug-disk")
"""Label of a pod that attaches a volume to a running VM (KubeVirt, services/template.go)."""

NOT_STARTED = ("", "Pending", "Scheduling", "Scheduled")
"""Phases of a VMI whose guest does not run yet."""


class PodAction(str, enum.Enum):
    """EVICT: ask the eviction API. MOVE_VM: the guest of `PodDecision.vmi` runs in it, and the VM's policy
    decides how it leaves. WAIT: it leaves without a request of the drain, or cannot be asked yet. LEAVE: it
    belongs to the node, or nothing of it runs. REFUSE: its eviction would lose something; `refused_by` are
    the findings."""

    EVICT = "evict"
    MOVE_VM = "move_vm"
    WAIT = "wait"
    LEAVE = "leave"
    REFUSE = "refuse"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PodDecision:
    """`reason` is a clause about the pod. `vmi` is that of a launcher pod. `refused_by` are finding names,
    in the order of `reason`. `returns`: the pod tolerates the cordon, so the scheduler may place the next
    one on the same node."""

    pod: Pod
    action: PodAction
    reason: str
    vmi: Vmi | None = None
    refused_by: tuple[str, ...] = ()
    returns: bool = False


@dataclass(frozen=True, slots=True)
class PodFilter:
    """`vmis` by uid, None if they cannot be listed. `daemonsets` are the uids of those that exist, None
    if they cannot be listed. `allowed` are names of findings."""

    vmis: t.Mapping[str, Vmi] | None
    daemonsets: t.Collection[str] | None
    allowed: t.Collection[str] = ()

    def decide(self, pod: Pod) -> PodDecision:
        """What a drain of the pod's node does with it."""
        if pod.terminating:
            return PodDecision(pod, PodAction.WAIT, "it is terminating")
        if MIRROR in pod.annotations:
            return PodDecision(pod, PodAction.LEAVE, "it is a static pod of the node")
        if pod.finished:
            return PodDecision(pod, PodAction.LEAVE, "it has finished, and only its log is left")
        owner = pod.owner
        if owner is not None and owner.kind == VMI:
            return self._launcher(pod, owner.uid)
        if pod.labels.get(HOTPLUG[0]) == HOTPLUG[1]:
            return PodDecision(
                pod, PodAction.WAIT, "it attaches a volume to a VM and leaves with that VM"
            )
        if owner is not None and owner.kind == "DaemonSet":
            return self._of_daemonset(pod)
        return self._plain(pod)

    def _launcher(self, pod: Pod, uid: str) -> PodDecision:
        if self.vmis is None:
            return self._refuse(pod, [(VMI_UNREADABLE, "its VMI cannot be read")], None)
        vmi = self.vmis.get(uid)
        if vmi is None:
            return PodDecision(pod, PodAction.WAIT, "its VMI is gone, so it will be deleted")
        if vmi.terminating or vmi.finished:
            return PodDecision(pod, PodAction.WAIT, "its VMI is ending", vmi)
        if vmi.node_name and vmi.node_name != pod.node_name:
            reason = (
                f"its VM runs on {vmi.node_name}: it is the target of a migration, or left by one"
            )
            return PodDecision(pod, PodAction.WAIT, reason, vmi)
        if vmi.phase in NOT_STARTED:
            return PodDecision(pod, PodAction.WAIT, "its VM is starting", vmi)
        if vmi.owner is None:
            why = "no controller starts its VMI again if it ends"
            return self._refuse(pod, [(STANDALONE_VMI, why)], vmi)
        return PodDecision(pod, PodAction.MOVE_VM, f"it runs {vmi.ref}", vmi)

    def _of_daemonset(self, pod: Pod) -> PodDecision:
        owner = pod.owner
        if owner is None or self.daemonsets is None or owner.uid in self.daemonsets:
            return PodDecision(pod, PodAction.LEAVE, "its DaemonSet keeps a pod on each node")
        why = f"its DaemonSet {owner.name} does not exist"
        return self._refuse(pod, [(DAEMONSET_MISSING, why), *_local_data(pod)], None)

    def _plain(self, pod: Pod) -> PodDecision:
        reasons = list(_local_data(pod))
        if pod.owner is None:
            reasons.insert(0, (BARE_POD, "no controller makes it again"))
        return self._refuse(pod, reasons, None)

    def _refuse(
        self, pod: Pod, reasons: t.Sequence[tuple[str, str]], vmi: Vmi | None
    ) -> PodDecision:
        """Refused for these reasons, or what happens to it where all of them are allowed."""
        returns = vmi is None and any(tolerates(x, CORDON) for x in pod.placement.tolerations)
        refused = [(name, why) for name, why in reasons if name not in self.allowed]
        if refused:
            names = tuple(name for name, _why in refused)
            reason = ", and ".join(why for _name, why in refused)
            return PodDecision(pod, PodAction.REFUSE, reason, vmi, names, returns)
        if vmi is not None:
            return PodDecision(pod, PodAction.MOVE_VM, f"it runs {vmi.ref}", vmi)
        owner = pod.owner
        reason = f"its controller is {owner.kind} {owner.name}" if owner else "allowed"
        return PodDecision(pod, PodAction.EVICT, reason, None, (), returns)


def _local_data(pod: Pod) -> t.Iterator[tuple[str, str]]:
    if pod.empty_dirs:
        volumes = ", ".join(pod.empty_dirs)
        yield LOCAL_DATA_LOST, f"the data of its emptyDir volumes is lost ({volumes})"
