# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a drain do with each pod of a node, and why does one not leave?

The filters are those of kubectl drain (k8s.io/kubectl, pkg/drain/filters.go), with these differences. A
pod can have several reasons against its eviction, and all are reported. A pod that has finished stays.
What is done with a pod of KubeVirt depends on its VMI (KubeVirt, webhooks pod-eviction-admitter).
Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kinds.registry import kind_of
from ..kubevirt.instances import attaches_volume
from ..model.findings import Finding, Severity
from ..model.manifests import MIRROR
from ..model.objects import Pod, Ref
from ..model.obstacle import (
    BARE_POD,
    DAEMONSET_MISSING,
    LOCAL_DATA_LOST,
    STANDALONE_VMI,
    Obstacle,
)
from ..model.rendering import TextEnum
from ..model.snapshot import Vmi
from ..scheduler.node_state import UNSCHEDULABLE_TAINT, tolerates

NOT_STARTED = ("", "Pending", "Scheduling", "Scheduled")
"""Phases of a VMI whose guest does not run yet."""


class PodAction(TextEnum):
    """EVICT: ask the eviction API. MOVE_VM: the guest of `PodDecision.vmi` runs in it, and the VM's policy
    decides how it leaves. WAIT: it leaves without a request of the drain, or cannot be asked yet. LEAVE: it
    belongs to the node, or nothing of it runs. REFUSE: its eviction would lose something; `refused_by` are
    the findings."""

    EVICT = "evict"
    MOVE_VM = "move_vm"
    WAIT = "wait"
    LEAVE = "leave"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class PodDecision:
    """`obstacle`: why a pod waits or is refused. `vmi` is that of a launcher pod. `refused_by` are finding names,
    in the order of the text. `returns`: the pod tolerates the cordon, so the scheduler may place the next
    one on the same node."""

    pod: Pod
    action: PodAction
    obstacle: Obstacle | None = None
    vmi: Vmi | None = None
    refused_by: tuple[str, ...] = ()
    returns: bool = False


@dataclass(frozen=True, slots=True)
class PodFilter:
    """`vmis` by uid. `daemonsets` are the uids of those that exist, `allowed` names of findings."""

    vmis: t.Mapping[str, Vmi]
    daemonsets: t.Collection[str]
    allowed: t.Collection[str] = ()

    def decide(self, pod: Pod) -> PodDecision:
        """What a drain of the pod's node does with it."""
        owner = pod.owner
        if MIRROR in pod.annotations or pod.finished:
            return PodDecision(pod, PodAction.LEAVE)
        if owner is not None and owner.uid in self.daemonsets:
            return PodDecision(pod, PodAction.LEAVE)
        if pod.terminating:
            return _waits(pod, "terminating", "it is terminating")
        if pod.vmi_uid:
            return self._launcher(pod, pod.vmi_uid)
        if attaches_volume(pod):
            return _waits(
                pod, "in_progress", "it attaches a volume to a VM and leaves with that VM"
            )
        reasons = []
        if owner is None:
            reasons.append((BARE_POD, "no controller makes it again"))
        elif kind_of(owner.kind).per_node:
            reasons.append((DAEMONSET_MISSING, f"its DaemonSet {owner.name} does not exist"))
        if pod.empty_dirs:
            volumes = ", ".join(pod.empty_dirs)
            lost = f"the data of its emptyDir volumes is lost ({volumes})"
            reasons.append((LOCAL_DATA_LOST, lost))
        return self._refuse(pod, reasons, None)

    def _launcher(self, pod: Pod, uid: str) -> PodDecision:
        vmi = self.vmis.get(uid)
        if vmi is None:
            return _waits(pod, "terminating", "its VMI is gone, so it will be deleted")
        if vmi.terminating or vmi.finished:
            return _waits(pod, "terminating", "its VMI is ending", vmi)
        if vmi.node_name and vmi.node_name != pod.node_name:
            text = (
                f"its VM runs on {vmi.node_name}: it is the target of a migration, or left by one"
            )
            return _waits(pod, "in_progress", text, vmi)
        if vmi.phase in NOT_STARTED:
            return _waits(pod, "not_running", "its VM is starting", vmi)
        if vmi.owner is None:
            why = "no controller starts its VMI again if it ends"
            return self._refuse(pod, [(STANDALONE_VMI, why)], vmi)
        return self._refuse(pod, [], vmi)

    def _refuse(
        self, pod: Pod, reasons: t.Sequence[tuple[str, str]], vmi: Vmi | None
    ) -> PodDecision:
        """Refused for these reasons, or what happens to it where all of them are allowed."""
        returns = tolerates_cordon(pod)
        refused = [(name, why) for name, why in reasons if name not in self.allowed]
        if refused:
            names = tuple(name for name, _why in refused)
            obstacle = Obstacle(names[0], ", and ".join(why for _name, why in refused))
            return PodDecision(pod, PodAction.REFUSE, obstacle, vmi, names, returns)
        action = PodAction.EVICT if vmi is None else PodAction.MOVE_VM
        return PodDecision(pod, action, None, vmi, (), returns)


def _waits(pod: Pod, code: str, text: str, vmi: Vmi | None = None) -> PodDecision:
    return PodDecision(pod, PodAction.WAIT, Obstacle(code, text, True), vmi)


def tolerates_cordon(pod: Pod) -> bool:
    """Whether the scheduler may place the pod on a cordoned node."""
    return any(tolerates(x, UNSCHEDULABLE_TAINT) for x in pod.placement.tolerations)


def sentence(text: str) -> str:
    """A text of the server, with its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def drain_finding(name: str, severity: Severity, why: str, advice: str, *objects: Ref) -> Finding:
    return Finding(name, severity, why, advice, tuple(dict.fromkeys(objects)))
