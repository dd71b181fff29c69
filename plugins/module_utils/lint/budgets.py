# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disruption budgets never allow an eviction, however healthy their pods are?

VMs are left out: KubeVirt answers the eviction of a VM that can migrate before any budget is asked (KubeVirt 1.8,
virt-api webhooks/validating-webhook/admitters/pod-eviction-admitter.go).
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
        if not chosen or any(subject.is_vm for subject in chosen):
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
