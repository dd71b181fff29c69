# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disruption budgets never allow an eviction, however healthy their pods are?

A number of available VMs is left out: KubeVirt answers the eviction of a VM that can migrate before any budget is asked
(KubeVirt 1.8, virt-api webhooks/validating-webhook/admitters/pod-eviction-admitter.go). For maxUnavailable and for
percentages the disruption controller asks the controller of each pod for its scale, which a VirtualMachineInstance does
not have, and then allows no eviction (Kubernetes 1.36, pkg/controller/disruption, getExpectedScale, failSafe).
"""

from __future__ import annotations

import typing as t

from ..model.budget import BudgetSpec
from ..model.findings import Finding
from ..model.rendering import listed, plural
from .lint_input import LintedWorkload, LintInput


def budget_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for budget in lint_input.budgets:
        chosen = lint_input.selected_by(budget.selector, budget.ref.namespace)
        if vms := [subject for subject in chosen if subject.is_vm]:
            if budget.counts_scale:
                yield _uncounted(budget, vms)
            continue
        if not chosen:
            continue
        replicas = [_stated_replicas(subject) for subject in chosen]
        if budget.keeps_all:
            yield _finding(budget, chosen, "", "Set maxUnavailable: 1.")
        elif all(replicas) and budget.kept(total := sum(filter(None, replicas))) >= total:
            yield _finding(
                budget,
                chosen,
                f", and there {'is' if total == 1 else 'are'} {plural(total, 'replica')}",
                "Set maxUnavailable: 1 instead, or run more replicas than it keeps.",
            )


def _uncounted(budget: BudgetSpec, vms: t.Sequence[LintedWorkload]) -> Finding:
    names = listed([str(subject.ref) for subject in vms], 3)
    return Finding(
        "budget_never_allows",
        "warning",
        f"{budget.ref} allows no eviction: it selects pods of {names}, and {budget.words}. Kubernetes cannot count pods"
        " of VMs for that.",
        "Set minAvailable to a whole number. Live migration of VMs needs no budget.",
        (budget.ref,),
    )


def _stated_replicas(subject: LintedWorkload) -> int | None:
    """The replicas that its manifest names: where it names none, an autoscaler may set them."""
    manifest = subject.workload.manifest if subject.workload is not None else None
    if manifest is None and subject.source is not None:
        manifest = subject.source[0]
    stated = ((manifest or {}).get("spec") or {}).get("replicas")
    return stated if isinstance(stated, int) else None


def _finding(
    budget: BudgetSpec, chosen: t.Sequence[LintedWorkload], counted: str, advice: str
) -> Finding:
    names = listed([str(subject.ref) for subject in chosen], 3)
    return Finding(
        "budget_never_allows",
        "warning",
        f"{budget.ref} allows no eviction of pods of {names}: {budget.words}{counted}.",
        f"A drain of their nodes does not end by itself. {advice}",
        (budget.ref,),
    )
