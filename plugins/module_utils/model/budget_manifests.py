# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodDisruptionBudgets as they stand in files, or as the API server returns them, turned into model values."""

from __future__ import annotations

import typing as t

from .budget import BUDGET, BudgetSpec, DisruptionBudget
from .json_pointer import JSON
from .manifests import controller_of, labels_of, reference
from .placement_manifests import selector_from_json
from .rendering import one_line


def budget_spec(manifest: t.Mapping[str, JSON]) -> BudgetSpec:
    """What a budget asks for."""
    spec = manifest.get("spec") or {}
    return BudgetSpec(
        reference(BUDGET, manifest["metadata"]),
        selector_from_json(spec.get("selector")),
        spec.get("minAvailable"),
        spec.get("maxUnavailable"),
    )


def budget_from_manifest(manifest: t.Mapping[str, JSON]) -> DisruptionBudget:
    metadata = manifest["metadata"]
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    failed = [
        one_line(condition.get("message") or "no reason given")
        for condition in status.get("conditions") or ()
        if (condition.get("type"), condition.get("reason")) == ("DisruptionAllowed", "SyncFailed")
        and condition.get("status") == "False"
    ]
    return DisruptionBudget(
        reference(BUDGET, metadata),
        selector_from_json(spec.get("selector")),
        allowed=status.get("disruptionsAllowed") or 0,
        healthy=status.get("currentHealthy") or 0,
        desired=status.get("desiredHealthy") or 0,
        expected=status.get("expectedPods") or 0,
        owner=controller_of(metadata),
        labels=labels_of(metadata),
        observed=(status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0),
        sync_error=failed[0] if failed else "",
        always_allows_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        keeps_all=budget_spec(manifest).keeps_all,
        counts_finished=isinstance(spec.get("minAvailable"), int),
    )
