# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a pod end now? The cases of the eviction API; tests/modules/test_budgets.py asks the API itself."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt import disruption
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.disruption import (
    Allowance,
    Budgets,
    Delegation,
)
from ansible_collections.virt.placement.plugins.module_utils.model.budget import DisruptionBudget
from ansible_collections.virt.placement.plugins.module_utils.model.budget_manifests import (
    budget_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Pod,
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import matches
from tests.support import facts

VMI = "VirtualMachineInstance"
WEB = Selector((Requirement("app", "In", ("web",)),))
CLUSTER = Owner("Cluster", "db", "c", "postgresql.cnpg.io")


def pod(name: str, **fields: t.Any) -> Pod:
    owner = Owner(VMI, name, f"vmi-{name}", "kubevirt.io")
    return facts.pod(name, **{"owner": owner, "labels": {"app": "web"}, "ready": True, **fields})


def budget(name: str = "web", **changes: t.Any) -> DisruptionBudget:
    """Of two healthy pods, one of which must be."""
    made = DisruptionBudget(Ref("PodDisruptionBudget", "shop", name), WEB, 1, 2, 1, 2)
    return replace(made, **changes)


A, B = pod("a"), pod("b")
FULL = budget(allowed=0, healthy=2, desired=2)
SHORT = budget(allowed=0, healthy=1)


def answer(
    *budgets: DisruptionBudget, of: Pod = A, taken: t.Collection[str] | None = None, **given: t.Any
) -> tuple[Allowance, str]:
    snapshot = Snapshot(pods=(of, B), budgets=budgets)
    found = Budgets(snapshot, **given).disruption(of, taken)
    return found.allowance, found.why


@pytest.mark.parametrize(
    ("budgets", "of", "allowance"),
    [
        pytest.param([], A, "allowed", id="no-budget"),
        pytest.param([budget()], A, "allowed", id="allows-one"),
        pytest.param([SHORT], A, "blocked", id="too-few-healthy"),
        pytest.param([FULL], A, "never", id="all-needed"),
        pytest.param([budget(), budget("two")], A, "never", id="two-budgets-that-allow"),
        pytest.param([replace(FULL, selector=None)], A, "allowed", id="no-selector"),
        pytest.param([replace(FULL, selector=Selector(()))], A, "never", id="empty-selector"),
        pytest.param(
            [replace(FULL, selector=Selector(()))], pod("a", labels={}), "allowed", id="no-labels"
        ),
        pytest.param([FULL], pod("a", namespace="other"), "allowed", id="other-namespace"),
        pytest.param([FULL], pod("a", phase="Pending", ready=False), "allowed", id="pending"),
        pytest.param([FULL], pod("a", phase="Failed", ready=False), "allowed", id="finished"),
        pytest.param([FULL], pod("a", terminating=True), "allowed", id="terminating"),
        pytest.param([SHORT], pod("a", ready=False), "allowed", id="not-ready-enough-others"),
        pytest.param([FULL], pod("a", ready=False), "allowed", id="not-ready-budget-healthy"),
        pytest.param(
            [budget(allowed=0, healthy=0)], pod("a", ready=False), "blocked", id="not-ready"
        ),
        pytest.param(
            [budget(allowed=0, healthy=0, desired=0, expected=0)],
            pod("a", ready=False),
            "blocked",
            id="not-ready-none-desired",
        ),
        pytest.param(
            [budget(allowed=0, healthy=0, always_allows_unhealthy=True)],
            pod("a", ready=False),
            "allowed",
            id="not-ready-always-allow",
        ),
        pytest.param(
            [replace(FULL, always_allows_unhealthy=True)], A, "never", id="ready-always-allow"
        ),
        pytest.param([budget(observed=False)], A, "blocked", id="status-of-an-earlier-spec"),
        pytest.param([replace(FULL, observed=False)], A, "blocked", id="earlier-spec-full"),
        pytest.param(
            [budget(allowed=0, healthy=0, desired=0, expected=0, sync_error="no scale")],
            A,
            "never",
            id="cannot-be-counted",
        ),
    ],
)
def test_answer_of_the_eviction_api(
    budgets: list[DisruptionBudget], of: Pod, allowance: str
) -> None:
    assert answer(*budgets, of=of)[0] == allowance


def test_reason_names_the_budget_and_its_numbers() -> None:
    ref = "PodDisruptionBudget shop/web"
    assert answer(FULL)[1] == (
        f"{ref} never allows a disruption: 2 of 2 pods are healthy, 2 must be"
    )
    assert answer(SHORT)[1] == (
        f"{ref} allows no disruption now: 1 of 2 pods are healthy, 1 must be"
    )
    assert "(one, two)" in answer(budget("one"), budget("two"))[1]
    assert "no scale" in answer(budget(allowed=0, sync_error="no scale"))[1]


def test_instances_that_are_about_to_end_count_before_the_status_shows_them() -> None:
    assert answer(budget(), taken=())[0] == "allowed"
    assert answer(budget(), taken={"vmi-b"})[0] == "blocked"
    assert answer(budget(), taken={"u-b"})[0] == "blocked"
    assert answer(budget(desired=0, allowed=2), taken={"vmi-b"})[0] == "allowed"


def test_budget_that_kubevirt_keeps_for_the_vmi_is_no_objection() -> None:
    own = replace(FULL, owner=A.owner)
    assert answer(own)[0] == "allowed"
    assert answer(own, budget("two"))[0] == "allowed"
    assert answer(own, replace(FULL, ref=Ref("PodDisruptionBudget", "shop", "x")))[0] == "never"
    assert answer(own, of=pod("b2"))[0] == "never"


def test_delegated_budget_blocks_until_its_operator_lifts_it() -> None:
    own = replace(FULL, owner=CLUSTER)
    assert answer(own)[0] == "never"
    assert answer(own, delegation=Delegation.known())[0] == "blocked"
    assert answer(own, budget("two"), delegation=Delegation.known())[0] == "blocked"
    two = replace(FULL, ref=Ref("PodDisruptionBudget", "shop", "two"))
    assert answer(own, two, delegation=Delegation.known())[0] == "never"


def test_pods_of_vms_make_no_budget_delegated() -> None:
    """KubeVirt is known for its own budgets only."""
    assert answer(FULL, delegation=Delegation.known())[0] == "never"


def test_budgets_that_could_not_be_read_are_unknown() -> None:
    gap = Unreadable("poddisruptionbudgets", "shop", "list", "grant this identity the verb 'list'")
    found = Budgets(Snapshot(pods=(A,), unreadable=(gap,))).disruption(A)

    assert (found.allowance, bool(found)) == (Allowance.UNKNOWN, False)
    assert "cannot list poddisruptionbudgets in namespace shop" in found.why


def test_budget_is_read_with_its_status() -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": "virtualmachineinstances.kubevirt.io does not implement the scale subresource",
    }
    owner = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db", "uid": "c"}
    made = budget_from_manifest(
        {
            "metadata": {
                "namespace": "shop",
                "name": "db",
                "generation": 2,
                "labels": {"x": "y"},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "expectedPods": 2,
                "conditions": [condition],
            },
        }
    )

    assert made == budget(
        "db",
        owner=CLUSTER,
        labels={"x": "y"},
        observed=False,
        sync_error=condition["message"],
        always_allows_unhealthy=True,
    )


def test_finished_pods_that_migrations_left_behind_are_none_that_a_budget_waits_for() -> None:
    """The disruption controller counts them as expected where minAvailable is a number: two VMs of which one was
    migrated twice have four pods, and no more than two will ever be healthy."""
    manifest: dict[str, t.Any] = {
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "disruptionsAllowed": 0,
            "currentHealthy": 2,
            "desiredHealthy": 2,
            "expectedPods": 4,
            "observedGeneration": 1,
        },
    }
    of_number = budget_from_manifest(manifest)
    assert answer(of_number) == (
        Allowance.NEVER,
        "PodDisruptionBudget shop/web never allows a disruption: 2 of 2 pods are healthy, 2 must be",
    )
    with_share = budget_from_manifest(
        {**manifest, "spec": {**manifest["spec"], "minAvailable": "50%"}}
    )
    assert answer(with_share)[0] is Allowance.BLOCKED, "expects the pods of its controllers"


def test_budgets_of_a_pod_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan asks for each method of each VM. KubeVirt before 1.6 keeps a budget for each VMI, so that it would compare
    each VM with all others again and again."""
    compared: list[Selector | None] = []

    def counted(selector: Selector | None, labels: t.Mapping[str, str]) -> bool:
        compared.append(selector)
        return matches(selector, labels)

    monkeypatch.setattr(disruption, "matches", counted)
    budgets = Budgets(Snapshot(pods=(A, B), budgets=(FULL, budget("two", selector=None))))

    answers = [budgets.of(A) for _time in range(3)]

    assert answers == [(FULL,)] * 3
    assert len(compared) == 2, "one for each budget"
