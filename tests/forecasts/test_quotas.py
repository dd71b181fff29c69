# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live migration needs a second pod in the ResourceQuota: forecast, and then made on the real virt-controller."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.quantity import parse_quantity
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import MIGRATION, Stage

JSON = t.Any
RESOURCES = {"pods": (10**9, ""), "requests.cpu": (10**6, "m"), "requests.memory": (10**9, "")}
"""Resources of a quota, and the smallest amount of each: in billionths, and its suffix."""


@pytest.fixture
def stage(small: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(small, run_module, namespace(small, "quota"))
    yield begun
    begun.end()


def limit(stage: Stage, hard: t.Mapping[str, str]) -> dict[str, str]:
    """Set the quota; what the namespace uses of it, once that is counted."""
    path = stage.path("ResourceQuota", "compute")
    if stage.api.find(path) is None:
        metadata = {"name": "compute", "namespace": stage.namespace}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
        stage.api.create(stage.path("ResourceQuota"), {**quota, "spec": {"hard": hard}})
    else:
        stage.api.patch(path, {"spec": {"hard": hard}})
    counted = stage.api.wait(lambda q: (q.get("status") or {}).get("hard") == hard, path)
    return t.cast("dict[str, str]", counted["status"]["used"])


def is_rejected(migration: JSON) -> bool:
    """virt-controller has met the quota with the target pod."""
    conditions = (migration.get("status") or {}).get("conditions") or ()
    return any(x["type"] == "migrationRejectedByResourceQuota" for x in conditions)


def is_migrated(migration: JSON) -> bool:
    return bool((migration.get("status") or {}).get("phase") == "Succeeded")


def test_drain_has_room_for_a_second_pod_as_virt_controller_finds(stage: Stage) -> None:
    """Twice what the VM uses is enough. Of one resource the smallest amount less is not."""
    stage.machine("db", "w1", {})
    used = limit(stage, dict.fromkeys(RESOURCES, "1T"))
    units = {
        name: parse_quantity(used[name]) // unit for name, (unit, _suffix) in RESOURCES.items()
    }
    enough = {name: f"{2 * count}{RESOURCES[name][1]}" for name, count in units.items()}

    for name in RESOURCES:
        hard = {**enough, name: f"{2 * units[name] - 1}{RESOURCES[name][1]}"}
        limit(stage, hard)
        found = stage.forecast(unavailable={"nodes": ["w1"]})
        assert (found["forecast"], found["moves"]) == ("impossible", []), found
        assert f"ResourceQuota {stage.namespace}/compute allows" in found["reasons"][0]
        stage.create(objects.migration("db", name="db"))
        stage.api.wait(is_rejected, stage.path(MIGRATION, "db"))
        stage.api.delete(stage.path(MIGRATION, "db"))
        stage.api.wait_gone(stage.path(MIGRATION, "db"))
    limit(stage, enough)
    assert stage.forecast(unavailable={"nodes": ["w1"]})["forecast"] == "guaranteed"
    stage.create(objects.migration("db", name="db"))
    stage.api.wait(is_migrated, stage.path(MIGRATION, "db"), timeout=60)


def test_halted_vms_start_as_far_as_the_quota_lets_them(stage: Stage) -> None:
    names = ["a", "b", "c"]
    for name in names:
        stage.create(objects.virtual_machine(name, run_strategy="Halted"))
    limit(stage, {"pods": "2"})
    rule = {"name": "anywhere", "workloads": names, "avoid": {"node": "w1"}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
    assert f"ResourceQuota {stage.namespace}/compute allows 2 pods, and 3" in found["reasons"][0]
    assert stage.write(rule)["changed"]
    for name in names:
        stage.api.patch(stage.path("VirtualMachine", name), {"spec": {"runStrategy": "Always"}})
    vmis = stage.api.wait_list(
        stage.path("VirtualMachineInstance"),
        lambda found: sum(map(_has_node, found)) == 2 and any(map(_is_refused, found)),
        timeout=60,
    )
    assert len(vmis) == 3
    assert len(stage.api.list(stage.path("Pod"))) == 2


def _has_node(vmi: JSON) -> bool:
    return bool((vmi.get("status") or {}).get("nodeName"))


def _is_refused(vmi: JSON) -> bool:
    conditions = (vmi.get("status") or {}).get("conditions") or ()
    return any("exceeded quota" in x.get("message", "") for x in conditions)
