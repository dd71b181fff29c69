# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Budgets in files that never allow an eviction."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.manifests import manifest, workload

JSON = t.Any


SHOP = {"namespace": "shop"}


def deployment(name: str = "web", replicas: int | None = 3) -> JSON:
    labels = {"app": "web", "name": name}
    spec = {} if replicas is None else {"replicas": replicas}
    return workload("Deployment", name, labels, {"containers": []}, metadata=SHOP, **spec)


def budget(selector: JSON = None, **numbers: int | str) -> JSON:
    chosen = {"matchLabels": {"app": "web"}} if selector is None else selector
    spec = {"selector": chosen, **numbers}
    return manifest("PodDisruptionBudget", "keep", metadata=SHOP, spec=spec)


def found(*manifests: JSON) -> list[str]:
    findings = lint_manifests(manifests)
    return [x.why for x in findings if x.name == "budget_never_allows"]


@pytest.mark.parametrize(
    ("replicas", "numbers", "words"),
    [
        (3, {"maxUnavailable": 0}, "its maxUnavailable is 0."),
        (3, {"maxUnavailable": "0%"}, "its maxUnavailable is 0%."),
        (None, {"minAvailable": "100%"}, "its minAvailable is 100%."),
        (1, {"minAvailable": 1}, "its minAvailable is 1, and there is 1 replica."),
        (1, {"minAvailable": "50%"}, "its minAvailable is 50%, and there is 1 replica."),
        (3, {"minAvailable": 4}, "its minAvailable is 4, and there are 3 replicas."),
    ],
)
def test_budget_that_keeps_all_pods_is_found(
    replicas: int | None, numbers: t.Mapping[str, int | str], words: str
) -> None:
    start = "PodDisruptionBudget shop/keep allows no eviction of pods of Deployment shop/web: "
    assert found(budget(**numbers), deployment(replicas=replicas)) == [start + words]


@pytest.mark.parametrize(
    "manifests",
    [
        (budget(minAvailable=2), deployment()),
        (budget(maxUnavailable="1%"), deployment()),
        (budget(minAvailable=1), deployment(replicas=None)),
        (budget(minAvailable=3), deployment("a", 2), deployment("b", 2)),
        (budget(minAvailable=1), deployment(replicas=0)),
        (budget({"matchLabels": {"app": "db"}}, maxUnavailable=0), deployment()),
        (budget(), deployment()),
    ],
    ids=["less", "rounded-up", "autoscaled", "several", "none-runs", "selects-others", "no-number"],
)
def test_other_budgets_are_none(manifests: tuple[JSON, ...]) -> None:
    assert found(*manifests) == []


@pytest.mark.parametrize(
    ("numbers", "seen"),
    [
        ({"minAvailable": 1}, ""),
        ({"maxUnavailable": 1}, "maxUnavailable is 1"),
        ({"minAvailable": "50%"}, "minAvailable is 50%"),
    ],
)
@pytest.mark.parametrize("others", [(), (deployment(),)], ids=["alone", "with-pods"])
def test_only_a_number_of_available_vms_can_be_counted(
    numbers: t.Mapping[str, int | str], seen: str, others: tuple[JSON, ...]
) -> None:
    """A VirtualMachineInstance has no scale, so the disruption controller allows no eviction at all."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"domain": {}}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"runStrategy": "Always", "template": template},
    }
    why = (
        "PodDisruptionBudget shop/keep allows no eviction: it selects pods of VirtualMachine shop/db, and its"
        f" {seen}. Kubernetes cannot count pods of VMs for that."
    )
    assert found(budget(**numbers), vm, *others) == [why] * bool(seen)


def test_number_that_is_none_is_refused() -> None:
    wrong = budget({"matchLabels": "web"}, minAvailable="half", maxUnavailable="3")
    read = read_manifests([Document("keep.yml", wrong)])
    places = [str(fault).partition(":")[0] for fault in read.faults]
    where = "keep.yml (PodDisruptionBudget keep)"
    assert places == [
        f"{where}, spec.{x}" for x in ("selector.matchLabels", "minAvailable", "maxUnavailable")
    ]
    assert "must be a number or a percentage, not 'half'" in str(read.faults[1])
