# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PodDisruptionBudgets, and which answers of the server, stand against the evictions of a drain?

A budget stands in one of three classes: it never allows a disruption, it allows none now, or an operator
keeps it at zero and moves its pods itself. Pure.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..forecast.explain import listed
from ..model.findings import Finding, Severity
from ..model.objects import Pod, Ref, Selector
from ..scheduler.labels import matches
from .pods import PodAction, PodDecision

PDB_IMPOSSIBLE = "pdb_impossible"
PDB_BLOCKS = "pdb_blocks"
PDB_DELEGATED = "pdb_delegated"
EVICTION_FAILS = "eviction_fails"

OF_BUDGETS = (PDB_IMPOSSIBLE, PDB_BLOCKS, PDB_DELEGATED, EVICTION_FAILS)
"""Findings of this file."""

DELEGATED_OWNERS = ("kubevirt.io", "postgresql.cnpg.io", "ceph.rook.io")
"""API groups of operators that keep budgets at zero on purpose and move the pod themselves once its node is
cordoned: KubeVirt, CloudNativePG (switchover), Rook (docs/PodDisruptionBudgets)."""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget with its status. `owner_group` is the API group of its controller, if any."""

    ref: Ref
    selector: Selector | None
    allowed: int
    healthy: int
    desired: int
    expected: int
    owner_group: str = ""

    @property
    def never_allows(self) -> bool:
        """Even when all pods are healthy."""
        return self.desired >= self.expected > 0

    def selects(self, pod: Pod) -> bool:
        return pod.namespace == self.ref.namespace and matches(self.selector, pod.labels)


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """What the server answered to a dry-run eviction. `blocked`: a budget refuses it now."""

    message: str
    blocked: bool


def budget_findings(
    decisions: t.Iterable[PodDecision],
    budgets: t.Sequence[DisruptionBudget],
    refusals: t.Mapping[str, EvictionAnswer] | None,
) -> t.Iterator[Finding]:
    """About the pods that a drain would evict. `refusals` has those (by uid) for which the server refused a
    dry run, None if it was not asked."""
    concerned: dict[DisruptionBudget, list[Pod]] = defaultdict(list)
    for decision in decisions:
        pod = decision.pod
        if decision.action is not PodAction.EVICT or pod.finished:
            continue
        refusal = refusals.get(pod.uid) if refusals is not None else None
        if refusals is not None and refusal is None:
            continue
        selecting = [budget for budget in budgets if budget.selects(pod)]
        if len(selecting) > 1:
            names = listed([budget.ref.name for budget in selecting])
            yield drain_finding(
                PDB_IMPOSSIBLE,
                "error",
                f"{pod.ref} on node {pod.node_name} is selected by {len(selecting)}"
                f" PodDisruptionBudgets ({names}), and the API server evicts no such pod.",
                "Delete all of these PodDisruptionBudgets but one.",
                pod.ref,
                *(budget.ref for budget in selecting),
            )
        elif selecting and (refusal is None or refusal.blocked):
            if not selecting[0].allowed:
                concerned[selecting[0]].append(pod)
        elif refusal is not None:
            yield _refused(pod, refusal)
    for budget, pods in concerned.items():
        yield _of_budget(budget, pods)


def _refused(pod: Pod, refusal: EvictionAnswer) -> Finding:
    why = f"The API server refuses the eviction of {pod.ref} on node {pod.node_name}: {refusal.message}."
    if refusal.blocked:
        advice = "The drain waits until it is allowed."
        return drain_finding(PDB_BLOCKS, "warning", why, advice, pod.ref)
    return drain_finding(EVICTION_FAILS, "error", why, "Remove what refuses it.", pod.ref)


def _of_budget(budget: DisruptionBudget, pods: t.Sequence[Pod]) -> Finding:
    """About a budget that allows no disruption now."""
    on = f"{budget.ref} for {listed([pod.name for pod in pods])}"
    refs = (budget.ref, *(pod.ref for pod in pods))
    seen = f"{budget.healthy} of {budget.expected} pods are healthy, {budget.desired} must be"
    if budget.owner_group in DELEGATED_OWNERS:
        why = (
            f"{on} allows no disruption now, and its operator ({budget.owner_group}) moves the pods of"
            " a cordoned node."
        )
        return drain_finding(PDB_DELEGATED, "info", why, "Check that the operator runs.", *refs)
    if budget.never_allows:
        advice = "Scale the workload up, or change minAvailable or maxUnavailable of the budget."
        why = f"{on} never allows a disruption: {seen}."
        return drain_finding(PDB_IMPOSSIBLE, "error", why, advice, *refs)
    advice = "The drain waits until it allows one; check the pods that are not healthy."
    why = f"{on} allows no disruption now: {seen}."
    return drain_finding(PDB_BLOCKS, "warning", why, advice, *refs)


def drain_finding(name: str, severity: Severity, why: str, advice: str, *objects: Ref) -> Finding:
    return Finding(name, severity, why, advice, tuple(dict.fromkeys(objects)))
