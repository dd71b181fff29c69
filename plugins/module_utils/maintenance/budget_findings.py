# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PodDisruptionBudgets stand against the pods that a drain ends, and what can be done about each?

A budget never allows a disruption, allows none now, or is delegated: its operator lifts it once the node is cordoned.
Pure.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..kinds.registry import SCALABLE_KINDS, kind_of
from ..kubevirt.disruption import Allowance, Budgets, Disruption
from ..model.budget import DisruptionBudget
from ..model.findings import Finding
from ..model.objects import Pod, Ref
from ..model.obstacle import Obstacle
from ..model.rendering import listed
from ..model.snapshot import Vmi
from .pods import PodAction, PodDecision, drain_finding, sentence
from .preflight_findings import EVICTION_FAILS, PDB_BLOCKS, PDB_DELEGATED, PDB_IMPOSSIBLE


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """What the server answered to a dry-run eviction. `blocked`: a budget refuses it now."""

    message: str
    blocked: bool


WOULD_EVICT: t.Final = EvictionAnswer("", False)


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """What the advice depends on: the workload of a pod; why a VM cannot be migrated; and what has
    the policies of a VM, its label or the option."""

    workload_of: t.Callable[[PodDecision], Ref | None]
    why_not_migrated: t.Callable[[Vmi], Obstacle | None]
    policy_of: t.Callable[[Vmi], str]


def budget_findings(
    ended: t.Iterable[PodDecision],
    budgets: Budgets,
    answers: t.Mapping[str, EvictionAnswer],
    facts: BudgetFacts,
) -> t.Iterator[Finding]:
    """About the pods that a drain would end: those that it evicts, and those of VMs that it restarts or stops.
    `answers` has what the server answered to the evictions, by uid. About a pod without one only the budgets are asked:
    a webhook that takes no dry run, or does not answer, refuses it before the server counts them
    (kubernetes, pkg/registry/core/pod/storage/eviction.go)."""
    concerned: dict[tuple[tuple[Ref, ...], str, str], list[tuple[PodDecision, Disruption]]]
    concerned = defaultdict(list)
    failing: dict[str, list[tuple[Pod, EvictionAnswer]]] = defaultdict(list)
    for decision in ended:
        pod, evicted = decision.pod, decision.action is PodAction.EVICT
        refusal = answers.get(pod.uid) if evicted else None
        if refusal == WOULD_EVICT:
            continue
        answer = budgets.disruption(pod)
        of_budget = refusal is None or refusal.blocked or len(answer.budgets) > 1
        if answer.budgets and of_budget:
            each = pod.uid if len(answer.budgets) > 1 else ""
            never = answer.allowance is Allowance.NEVER and not answer.operator
            advice = _ways_out(decision, answer, facts) if never else ""
            concerned[answer.refs, each, advice].append((decision, answer))
        elif refusal is not None and refusal.blocked:
            text = f"The API server refuses the eviction of {pod.ref} on node {pod.node_name}"
            yield drain_finding(
                PDB_BLOCKS,
                "warning",
                f"{text}: {sentence(refusal.message)}",
                "The drain waits until it is allowed.",
                pod.ref,
            )
        elif refusal is not None:
            failing[refusal.message.replace(pod.name, "")].append((pod, refusal))
    for same in failing.values():
        yield _refused([pod for pod, _refusal in same], same[0][1])
    for (_refs, _uid, advice), pairs in concerned.items():
        yield _of_budget([decision for decision, _answer in pairs], pairs[0][1], budgets, advice)


def _refused(pods: t.Sequence[Pod], refusal: EvictionAnswer) -> Finding:
    """About pods whose evictions a webhook or the server refuses for the same reason, but for the name of the pod."""
    refs = [pod.ref for pod in pods]
    nodes = listed(sorted({pod.node_name for pod in pods}))
    which = f"{refs[0]}" if len(refs) == 1 else f"{len(refs)} pods ({listed(refs, 4)})"
    why = f"The API server refuses the eviction of {which} on node {nodes}: {sentence(refusal.message)}"
    return drain_finding(EVICTION_FAILS, "error", why, "Remove what refuses it.", *refs)


def _of_budget(
    decisions: t.Sequence[PodDecision], answer: Disruption, budgets: Budgets, ways_out: str
) -> Finding:
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
        return drain_finding(PDB_IMPOSSIBLE, "error", why, ways_out, *refs)
    not_ready = budgets.not_ready(answer.budgets[0])
    if not_ready:
        pods = [f"{x.ref} on {x.node_name}" if x.node_name else str(x.ref) for x in not_ready]
        why = f"{why[:-1]}. Not Ready: {listed(pods)}."
    leaving = [x.pod.name for x in decisions if not x.pod.ready]
    advice = f"The drain waits until it allows one.{_for_unready(not_ready, leaving)}"
    return drain_finding(PDB_BLOCKS, "warning", why, advice, *refs)


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


def _ways_out(decision: PodDecision, answer: Disruption, facts: BudgetFacts) -> str:
    """What to do about budgets that never allow the end of the pod. Never to take the protection of the last one."""
    vmi, owner = decision.vmi, decision.pod.owner
    if len(answer.budgets) > 1:
        change = "Delete all of these PodDisruptionBudgets but one."
    elif vmi is None and owner is not None and owner.group not in _OF_KUBERNETES:
        return (
            f"Its controller is {owner.kind} {owner.name} of {owner.group}: if that operator lifts the budget by"
            f" itself once the node is cordoned, add {owner.group} to delegated_budgets. Otherwise move"
            " what the pod serves first."
        )
    else:
        change = _change(answer.budgets[0], facts.workload_of(decision))
    if vmi is None:
        return change
    if (why := facts.why_not_migrated(vmi)) is not None:
        return f"It cannot be migrated instead, which would need no budget: {why}. {change}"
    return (
        f"Put migrate first in {facts.policy_of(vmi)}, since a live migration needs no budget."
        f" Or: {change[0].lower()}{change[1:]}"
    )


def _change(budget: DisruptionBudget, workload: Ref | None) -> str:
    """Of one budget, or of the number of pods that it counts."""
    if budget.sync_error:
        return "Set minAvailable of the budget to a number, which needs no count of replicas."
    several = "Change minAvailable or maxUnavailable of the budget"
    kind = workload.kind if workload is not None else ""
    if budget.keeps_all:
        return f"{several}: as it is, it keeps all of its pods, however many there are."
    if kind in _SCALED:
        more = f"Scale {workload} up"
        if budget.expected > 1:
            return f"{more}, or change minAvailable or maxUnavailable of the budget."
        return f"{more}, so that another pod serves meanwhile."
    if kind == "Job":
        return f"Wait until {workload} has ended."
    if budget.expected > 1:
        return f"{several}, so that one of its {budget.expected} pods may be down."
    one = "VM" if kind_of(kind).run_strategy else "pod"
    return (
        f"No other {one} serves meanwhile: agree on its downtime with the owner of the budget, who sets minAvailable"
        " to 0 for that time."
    )


_SCALED = (*SCALABLE_KINDS, "ReplicaSet", "ReplicationController")
"""Kinds of which more replicas are more pods of a budget. A VirtualMachine has one."""
