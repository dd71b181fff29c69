# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a drain do with each pod of a node, and why?

The filters are those of kubectl drain (k8s.io/kubectl, pkg/drain/filters.go), with these differences. A
pod can have several reasons against its eviction, and all are reported. A pod that has finished stays.
What is done with a pod of KubeVirt depends on its VMI (KubeVirt, webhooks pod-eviction-admitter).

A PodDisruptionBudget that stands against it never allows a disruption, allows none now, or is delegated: its
operator lifts it once the node is cordoned. Pure.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..forecast.eviction import CORDON
from ..kubevirt.disruption import Allowance, Budgets, Disruption
from ..kubevirt.instances import attaches_volume
from ..model.findings import Finding, Severity
from ..model.kinds import VMI
from ..model.manifests import MIRROR
from ..model.objects import Pod, Ref
from ..model.rendering import TextEnum, listed
from ..model.snapshot import Vmi
from ..scheduler.node_state import tolerates

BARE_POD = "bare_pod"
DAEMONSET_MISSING = "daemonset_missing"
LOCAL_DATA_LOST = "local_data_lost"
STANDALONE_VMI = "standalone_vmi"
OF_PODS = (BARE_POD, DAEMONSET_MISSING, LOCAL_DATA_LOST, STANDALONE_VMI)
"""Findings that refuse the eviction of a pod, unless they are allowed."""

PENDING_CHANGES = "pending_changes"
"""Finding: a restart of the VM would also apply changes that are not about placement."""

ALLOW_PENDING_CHANGES = f"allow the finding {PENDING_CHANGES}"
"""What a user of a drain does to apply them."""

DO_NOT_MOVE_FINDING = "do_not_move"
"""Finding: a label keeps the VM or the pod where it is."""

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
    """`vmis` by uid. `daemonsets` are the uids of those that exist, `allowed` names of findings."""

    vmis: t.Mapping[str, Vmi]
    daemonsets: t.Collection[str]
    allowed: t.Collection[str] = ()

    def decide(self, pod: Pod) -> PodDecision:
        """What a drain of the pod's node does with it."""
        owner = pod.owner
        if MIRROR in pod.annotations:
            return PodDecision(pod, PodAction.LEAVE, "it is a static pod of the node")
        if pod.finished:
            return PodDecision(pod, PodAction.LEAVE, "it has finished, and only its log is left")
        if owner is not None and owner.kind == "DaemonSet" and owner.uid in self.daemonsets:
            return PodDecision(pod, PodAction.LEAVE, "its DaemonSet keeps a pod on each node")
        if pod.terminating:
            return PodDecision(pod, PodAction.WAIT, "it is terminating")
        if owner is not None and owner.kind == VMI:
            return self._launcher(pod, owner.uid)
        if attaches_volume(pod):
            return PodDecision(
                pod, PodAction.WAIT, "it attaches a volume to a VM and leaves with that VM"
            )
        reasons = []
        if owner is None:
            reasons.append((BARE_POD, "no controller makes it again"))
        elif owner.kind == "DaemonSet":
            reasons.append((DAEMONSET_MISSING, f"its DaemonSet {owner.name} does not exist"))
        if pod.empty_dirs:
            volumes = ", ".join(pod.empty_dirs)
            lost = f"the data of its emptyDir volumes is lost ({volumes})"
            reasons.append((LOCAL_DATA_LOST, lost))
        return self._refuse(pod, reasons, None)

    def _launcher(self, pod: Pod, uid: str) -> PodDecision:
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
        return self._refuse(pod, [], vmi)

    def _refuse(
        self, pod: Pod, reasons: t.Sequence[tuple[str, str]], vmi: Vmi | None
    ) -> PodDecision:
        """Refused for these reasons, or what happens to it where all of them are allowed."""
        returns = tolerates_cordon(pod)
        refused = [(name, why) for name, why in reasons if name not in self.allowed]
        if refused:
            names = tuple(name for name, _why in refused)
            reason = ", and ".join(why for _name, why in refused)
            return PodDecision(pod, PodAction.REFUSE, reason, vmi, names, returns)
        if vmi is not None:
            return PodDecision(pod, PodAction.MOVE_VM, f"it runs {vmi.ref}", vmi, (), returns)
        owner = pod.owner
        reason = f"its controller is {owner.kind} {owner.name}" if owner else "allowed"
        return PodDecision(pod, PodAction.EVICT, reason, None, (), returns)


def tolerates_cordon(pod: Pod) -> bool:
    """Whether the scheduler may place the pod on a cordoned node."""
    return any(tolerates(x, CORDON) for x in pod.placement.tolerations)


PDB_IMPOSSIBLE = "pdb_impossible"
PDB_BLOCKS = "pdb_blocks"
PDB_DELEGATED = "pdb_delegated"
EVICTION_FAILS = "eviction_fails"

OF_BUDGETS = (PDB_IMPOSSIBLE, PDB_BLOCKS, PDB_DELEGATED, EVICTION_FAILS)
"""Findings about budgets, and about evictions that the server refuses."""


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """What the server answered to a dry-run eviction. `blocked`: a budget refuses it now."""

    message: str
    blocked: bool


def budget_findings(
    ended: t.Iterable[PodDecision],
    budgets: Budgets,
    refusals: t.Mapping[str, EvictionAnswer] | None,
) -> t.Iterator[Finding]:
    """About the pods that a drain would end: those that it evicts, and those of VMs that it restarts or stops.
    `refusals` has the evictions (by uid) for which the server refused a dry run, None if it was not asked."""
    concerned: dict[tuple[tuple[Ref, ...], str], list[tuple[PodDecision, Disruption]]]
    concerned = defaultdict(list)
    for decision in ended:
        pod, evicted = decision.pod, decision.action is PodAction.EVICT
        refusal = refusals.get(pod.uid) if refusals is not None and evicted else None
        if refusals is not None and evicted and refusal is None:
            continue
        answer = budgets.disruption(pod)
        of_budget = refusal is None or refusal.blocked or len(answer.budgets) > 1
        if answer.budgets and of_budget:
            each = pod.uid if len(answer.budgets) > 1 else ""
            concerned[answer.refs, each].append((decision, answer))
        elif refusal is not None:
            yield _refused(pod, refusal)
    for pairs in concerned.values():
        yield _of_budget([decision for decision, _answer in pairs], pairs[0][1], budgets)


def _refused(pod: Pod, refusal: EvictionAnswer) -> Finding:
    why = f"The API server refuses the eviction of {pod.ref} on node {pod.node_name}: {refusal.message}."
    if refusal.blocked:
        advice = "The drain waits until it is allowed."
        return drain_finding(PDB_BLOCKS, "warning", why, advice, pod.ref)
    return drain_finding(EVICTION_FAILS, "error", why, "Remove what refuses it.", pod.ref)


def _of_budget(decisions: t.Sequence[PodDecision], answer: Disruption, budgets: Budgets) -> Finding:
    """About budgets that stand against the end of the same pods."""
    names = [x.vmi.ref if x.vmi is not None else x.pod.ref for x in decisions]
    refs = (*answer.refs, *names)
    nodes = listed(sorted({x.pod.node_name for x in decisions}))
    why = f"{listed(names)} on node {nodes}: {answer.why}."
    if answer.operator:
        why = f"{why[:-1]}. It is delegated ({answer.operator}): its operator lifts it once the node is cordoned."
        advice = (
            "The drain cordons, evicts and waits for that. Check that the operator runs, and do not delete the"
            " budget."
        )
        return drain_finding(PDB_DELEGATED, "info", why, advice, *refs)
    if answer.allowance is Allowance.NEVER:
        advice = _ways_out(decisions[0], answer)
        return drain_finding(PDB_IMPOSSIBLE, "error", why, advice, *refs)
    not_ready = budgets.not_ready(answer.budgets[0])
    if not_ready:
        why = f"{why[:-1]}. Not Ready: {listed([_on_node(pod) for pod in not_ready])}."
    leaving = [x.pod.name for x in decisions if not x.pod.ready]
    advice = f"The drain waits until it allows one.{_for_unready(not_ready, leaving)}"
    return drain_finding(PDB_BLOCKS, "warning", why, advice, *refs)


def _on_node(pod: Pod) -> str:
    return f"{pod.ref} on {pod.node_name}" if pod.node_name else str(pod.ref)


def _for_unready(not_ready: t.Sequence[Pod], leaving: t.Sequence[str]) -> str:
    """What to do about the pods that a budget does not count as healthy; `leaving` are those that the drain evicts. A
    Ready pod needs the budget under every policy (kubernetes, pkg/registry/core/pod/storage/eviction.go)."""
    if not not_ready:
        return " Look at the pods that it selects."
    if not leaving:
        return " Find out why these pods are not Ready, or delete them, so that their controller makes new ones."
    return (
        " Find out why these pods are not Ready. With unhealthyPodEvictionPolicy: AlwaysAllow in the spec of the"
        f" budget, {listed(leaving)} can be evicted as it is. Or delete what is not Ready."
    )


_OF_KUBERNETES = ("", "apps", "batch", "kubevirt.io")
"""API groups of controllers that lift no budget."""


def _ways_out(decision: PodDecision, answer: Disruption) -> str:
    """What to do about budgets that never allow the end of the pod. Never to take the protection of the last one."""
    if len(answer.budgets) > 1:
        return "Delete all of these PodDisruptionBudgets but one."
    owner = decision.pod.owner
    if owner is not None and owner.group not in _OF_KUBERNETES:
        return (
            f"Its controller is {owner.kind} {owner.name} of {owner.group}: if that operator lifts the budget by"
            f" itself once the node is cordoned, add {owner.group} to delegated_budgets. Otherwise move"
            " what the pod serves first."
        )
    budget = answer.budgets[0]
    if budget.sync_error:
        change = "set minAvailable of the budget to a number, which needs no count of replicas"
    elif budget.expected > 1:
        change = "scale the workload up, or change minAvailable or maxUnavailable of the budget"
    else:
        change = "scale the workload up, so that another pod serves meanwhile"
    if decision.vmi is not None:
        return (
            f"Migrate it (vm_policy migrate), since a live migration needs no budget, or {change}."
        )
    return f"{change[0].upper()}{change[1:]}."


def drain_finding(name: str, severity: Severity, why: str, advice: str, *objects: Ref) -> Finding:
    return Finding(name, severity, why, advice, tuple(dict.fromkeys(objects)))
