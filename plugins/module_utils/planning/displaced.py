# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of an instance whose node is drained or fails, and the pod that then wants a place.

Pure. Sources: KubeVirt, webhooks pod-eviction-admitter (what an eviction does by strategy) and
watch/vm (which run strategies start a machine again); kubectl drain leaves DaemonSet and mirror
pods where they are.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, replace

from ..model.kinds import MACHINE_INSTANCE, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.objects import Pod, Ref, Taint
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..rules.migratable import has_unmigratable_name, why_not_migratable
from ..scheduling.tolerations import tolerates
from ..verdicts.declared import Reader
from ..verdicts.platform_terms import CREATED_BY, unbound_labels
from ..verdicts.successor import NEXT, migrated, restarted
from .effects import propagating, run_strategy
from .in_effect import QuickLook

Cause = t.Literal["drain", "failure"]
CAUSES: tuple[Cause, ...] = ("drain", "failure")

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
UNREACHABLE = (
    Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
)

ROOTED = ("DaemonSet", "Node")
"""Owners whose pods belong to their node and are never placed elsewhere."""

NOT_STARTED_AGAIN = ("Manual", "Halted", "Once")
"""Run strategies under which a machine that is gone stays gone."""


class Fate(str, enum.Enum):
    """migrates: a target is placed while the source still runs. remade: it ends, and its controller
    makes another. blocked: it cannot leave and holds the drain up. gone: nothing makes it again.
    rooted: it belongs to its node."""

    MIGRATES = "migrates"
    REMADE = "remade"
    BLOCKED = "blocked"
    GONE = "gone"
    ROOTED = "rooted"


@dataclass(frozen=True, slots=True)
class Displaced:
    """`next_pod` wants a place where the fate is to migrate or to be remade. `sure` is false where
    nobody knows whether the machine can be migrated."""

    instance: Instance
    fate: Fate
    next_pod: Pod | None = None
    reason: str = ""
    sure: bool = True


class Displacement:
    """Answers for the instances of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._platform = snapshot.platform
        self._workloads = {found.ref: found for found in snapshot.workloads}
        self._reader = Reader()
        self._look = QuickLook()
        self._just_moved = {x.owner.uid for x in snapshot.ending if x.owner is not None}
        """Machines of which a pod is still there where they were."""

    def of(self, instance: Instance, cause: Cause) -> Displaced:
        """What becomes of an instance that has a pod on a node that is lost."""
        pod, vmi = instance.pod, instance.vmi
        if pod is None:
            raise AssertionError(f"{instance.ref} has no pod on any node")
        workload = self.workload(instance.workload)
        if vmi is not None:
            return self._machine(instance, vmi, pod, workload, cause)
        if pod.owner is not None and pod.owner.kind in ROOTED:
            return Displaced(instance, Fate.ROOTED)
        if pod.owner is None:
            return Displaced(instance, Fate.GONE, None, "no controller makes this pod again")
        return Displaced(instance, Fate.REMADE, self.remade(pod, workload))

    def workload(self, ref: Ref | None) -> Workload | None:
        """The workload of an instance; None where it is not known."""
        return self._workloads.get(ref) if ref is not None else None

    def remade(self, pod: Pod, workload: Workload | None, name: str = "") -> Pod:
        """The pod that a controller makes after `pod`, by what the workload declares now."""
        if workload is None:
            labels = unbound_labels(pod.labels)
            made = replace(pod, uid="", labels=labels, **_FRESH)
        elif self._look.says_the_same(workload.template, pod):
            made = replace(pod, uid="", **_FRESH)
        else:
            declared = self._reader.declared(workload)
            made = restarted(pod, declared.placement, declared.labels)
            made = replace(made, **_FRESH)
            if made.placement == pod.placement:
                made = replace(made, placement=pod.placement)
        return replace(made, name=name or f"{pod.name}{NEXT}")

    def renewed(self, pod: Pod, vmi: MachineInstance, workload: Workload | None) -> Pod:
        """The launcher pod of the machine instance that comes after `vmi`: another one, which its
        own terms tell from the old."""
        uid = next_uid(vmi.uid)
        labels = {**pod.labels, CREATED_BY: uid} if CREATED_BY in pod.labels else pod.labels
        made = self.remade(replace(pod, labels=labels), workload)
        owner = replace(made.owner, uid=uid) if made.owner is not None else None
        return replace(made, owner=owner)

    def migrated(self, pod: Pod, vmi: MachineInstance, workload: Workload | None) -> Pod:
        """The target pod of a live migration off a lost node, by what the machine instance says
        then. Where that is what runs already, the target is kept off its source by the node's taint
        alone."""
        if (
            workload is not None
            and self._look.says_the_same(
                {"metadata": {"labels": vmi.labels}, "spec": vmi.spec}, pod
            )
            and self._look.says_the_same(workload.template, pod)
            and not any(tolerates(each, CORDON) for each in pod.placement.tolerations)
            and vmi.uid not in self._just_moved
        ):
            return replace(pod, uid="", name=f"{pod.name}{NEXT}", **_FRESH)
        placement, _terms = self._reader.placement(vmi.spec)
        if workload is not None and propagating(workload, vmi, self._platform):
            placement = self._reader.declared(workload).placement
        return replace(migrated(pod, vmi, placement), **_FRESH)

    def _machine(
        self,
        instance: Instance,
        vmi: MachineInstance,
        pod: Pod,
        workload: Workload | None,
        cause: Cause,
    ) -> Displaced:
        strategy = vmi.eviction_strategy or self._platform.eviction_strategy
        moves = cause == "drain" and strategy not in ("None", "")
        obstacle = why_not_migratable(vmi) if moves else ""
        if moves and not obstacle:
            target = self.migrated(pod, vmi, workload)
            sure = vmi.live_migratable is True
            return Displaced(instance, Fate.MIGRATES, target, sure=sure)
        if moves and (strategy != "LiveMigrateIfPossible" or has_unmigratable_name(vmi)):
            reason = f"its eviction strategy is {strategy}, and {obstacle}"
            return Displaced(instance, Fate.BLOCKED, None, reason)
        ends = why_not_again(vmi, workload)
        if ends:
            return Displaced(instance, Fate.GONE, None, ends)
        return Displaced(instance, Fate.REMADE, self.renewed(pod, vmi, workload))


def why_not_again(vmi: MachineInstance, workload: Workload | None) -> str:
    """Why nothing makes this machine instance again once it has ended, or nothing."""
    if vmi.owner is None:
        return "no controller makes this instance again"
    if workload is not None and workload.ref.kind == VIRTUAL_MACHINE.name:
        strategy = run_strategy(workload)
        if strategy in NOT_STARTED_AGAIN:
            return f"a VM with run strategy {strategy} is not started again"
    return ""


def comes_late(pod: Pod) -> bool:
    """Whether what comes after a pod is made only once nothing is left of it: another launcher pod
    of a machine, or a pod of the same name. Other controllers make it as soon as it terminates."""
    return pod.owner is not None and pod.owner.kind in (MACHINE_INSTANCE, STATEFUL_SET.name)


def next_uid(uid: str) -> str:
    """The uid that stands for the object that comes after."""
    return f"{uid}{NEXT}"


_FRESH: t.Final[dict[str, t.Any]] = {
    "node_name": "",
    "phase": "Pending",
    "ready": False,
    "terminating": False,
    "nominated_node_name": "",
}
