# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain is not guaranteed while a disruption budget does not allow that a pod ends."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import (
    doubts_of_change,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.model.budget import DisruptionBudget
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from tests.support.cluster import HOST, cluster, deployment, machine

WEB = Selector((Requirement("app", "In", ("web",)),))
GAP = Unreadable("poddisruptionbudgets", "", "list", "grant this identity the verb 'list'")


def pods_on_two_nodes(**changes: t.Any) -> Snapshot:
    made = cluster("ab")
    deployment(made, "web", ("n1", "n2"), {})
    snapshot = made.snapshot(**changes)
    pods = tuple(replace(pod, ready=True, phase="Running") for pod in snapshot.pods)
    return replace(snapshot, pods=pods)


def budget(allowed: int) -> DisruptionBudget:
    ref = Ref("PodDisruptionBudget", "shop", "web")
    return DisruptionBudget(ref, WEB, allowed, 2, 2 - allowed, 2)


def answer(snapshot: Snapshot, event: NodeEvent = "drain") -> tuple[str, str]:
    change = what_if(snapshot, lost_nodes=["n1"], event=event)
    result = forecast(change, doubts=doubts_of_change(change))
    return str(result.answer), "; ".join(result.reasons)


def test_drain_that_a_budget_does_not_allow_is_not_guaranteed() -> None:
    found, reasons = answer(pods_on_two_nodes(budgets=(budget(0),)))

    assert found == "possible"
    assert "may stay on its node: PodDisruptionBudget shop/web never allows a disruption" in reasons


@pytest.mark.parametrize(
    ("snapshot", "event"),
    [
        (pods_on_two_nodes(), "drain"),
        (pods_on_two_nodes(budgets=(budget(1),)), "drain"),
        (pods_on_two_nodes(budgets=(budget(0),)), "failure"),
    ],
)
def test_budget_that_allows_it_and_a_failure_change_nothing(
    snapshot: Snapshot, event: NodeEvent
) -> None:
    assert answer(snapshot, event)[0] == "guaranteed"


def test_live_migration_needs_no_budget() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"evictionStrategy": "LiveMigrate"}, app="web")
    before = answer(made.snapshot())

    assert answer(made.snapshot(budgets=(budget(0),))) == before


def test_budgets_that_cannot_be_read_are_a_doubt_about_drains_alone() -> None:
    snapshot = pods_on_two_nodes(unreadable=(GAP,))
    found, reasons = answer(snapshot)

    assert found == "possible"
    assert "whether PodDisruptionBudgets allow it is unknown: cannot list" in reasons
    assert answer(snapshot, "failure")[0] == "guaranteed"


def test_drill_names_the_budget() -> None:
    snapshot = pods_on_two_nodes(budgets=(budget(0),))
    losses = {loss.domain: loss for loss in drill(snapshot, [HOST], event="drain").drills}

    assert str(losses["n1"].answer) == "possible"
    assert "disruption_budget" in losses["n1"].codes
    assert "PodDisruptionBudget shop/web never allows" in str(losses["n1"])
    failed = {loss.domain: loss for loss in drill(snapshot, [HOST], event="failure").drills}
    assert str(failed["n1"].answer) == "guaranteed"
