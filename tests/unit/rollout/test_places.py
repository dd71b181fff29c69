# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that brings VMs to the nodes of a map: what it refuses, sends and reports."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.moves import step as steps
from ansible_collections.virt.placement.plugins.module_utils.moves.move import Phase
from ansible_collections.virt.placement.plugins.module_utils.moves.state import StepResult
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_moved import not_in_place
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import wanted
from dev.trace_server import KUBEVIRT, TraceServer
from tests.support import cluster as clusters
from tests.unit.approval.test_rollout import (
    PODS,
    VMIS,
    left_by_a_killed_run,
    make,
    options,
    patch,
    planned,
    refusal,
    restarting,
)
from tests.unit.moves.test_gates import parameters
from tests.unit.moves.test_step import MIGRATIONS, run_with

JSON = t.Any
GIVEN_BY_PLACES: JSON = {"namespaces": None}


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


@pytest.fixture(autouse=True)
def step_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "YOUNG", 0.0)


def run(cluster: TraceServer, places: JSON, *, check: bool = False, **given: JSON) -> StepResult:
    return run_with(cluster, options(places=places, **GIVEN_BY_PLACES, **given), check=check)


def changes(cluster: TraceServer) -> list[JSON]:
    """All writes but the questions about rights."""
    return [x for x in cluster.writes if not x[1].endswith("selfsubjectaccessreviews")]


def states(result: StepResult) -> dict[str, tuple[JSON, ...]]:
    return {
        f"{x['namespace']}/{x['name']}": (x["node"], x["to_node"], x["state"])
        for x in result.places
    }


def test_vm_is_held_to_the_node_of_the_map_and_is_done_afterwards(cluster: TraceServer) -> None:
    result = run(cluster, {"shop/db0": "w2"})

    (move,) = result.moves
    assert (result.failure, move["name"], move["to_node"]) == ("", "db0", "w2")
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"] == {
        "vmiName": "db0",
        "addedNodeSelector": {"kubernetes.io/hostname": "w2"},
    }
    assert states(result) == {"shop/db0": ("w2", "w2", "in_place")}

    written = len(cluster.writes)
    again = run(cluster, {"shop/db0": "w2"})
    assert (again.failure, again.moves, again.changed) == ("", [], False)
    assert cluster.writes[written:] == []


def test_check_mode_returns_the_plan_and_each_vm_that_cannot_go(cluster: TraceServer) -> None:
    asked = {"shop/db0": "w2", "shop/nobody": "w2", "shop/web0": "w22", "shpo/db0": "w2"}
    result = run(cluster, asked, check=True)

    assert [move["name"] for move in result.moves] == ["db0"]
    assert changes(cluster) == []
    assert states(result) == {
        "shop/db0": ("w1", "w2", "planned"),
        "shop/nobody": (None, "w2", "not_moved"),
        "shop/web0": ("w1", "w22", "not_moved"),
        "shpo/db0": (None, "w2", "not_moved"),
    }
    assert result.warnings == []
    assert result.failure.startswith(
        "3 VMs cannot go to their nodes in places: VirtualMachine shop/nobody, VirtualMachine shop/web0, "
    )
    assert result.plan is not None
    assert result.plan["options"]["places"] == asked


@pytest.mark.parametrize("check", [True, False])
def test_run_moves_what_it_can_and_fails_in_the_end_as_check_mode_does(
    cluster: TraceServer, check: bool
) -> None:
    result = run(cluster, {"shop/db0": "w2", "shop/nobody": "w2"}, check=check)
    assert [move["name"] for move in result.moves] == ["db0"]
    assert result.failure == (
        "1 VM cannot go to its node in places: VirtualMachine shop/nobody; the lines above and skipped_instances have"
        " the reasons"
    )
    assert [x["reason"] for x in result.skipped] == ["there is no VM 'nobody' in namespace shop"]


def test_plan_is_made_as_it_was_approved(cluster: TraceServer) -> None:
    """It was approved with a VM that cannot go: that is a warning by then."""
    plan = planned(cluster, places={"shop/db0": "w2", "shop/nobody": "w2"}, **GIVEN_BY_PLACES)
    result = make(cluster, plan)
    assert (result.failure, [move["to_node"] for move in result.moves]) == ("", ["w2"])
    assert len(result.warnings) == 1
    assert make(cluster, plan).moves == []


def test_plan_is_refused_where_its_node_was_cordoned(cluster: TraceServer) -> None:
    plan = planned(cluster, places={"shop/db0": "w2"}, **GIVEN_BY_PLACES)
    patch(cluster, "/api/v1/nodes/w2", "spec", "unschedulable", value=True)
    (vm,) = refusal(cluster, plan)
    assert vm.endswith("cannot be moved as planned: not possible on w2: w2 is cordoned")


def test_vm_that_went_elsewhere_since_is_not_taken_for_done(cluster: TraceServer) -> None:
    plan = planned(cluster, places={"shop/db0": "w2"}, **GIVEN_BY_PLACES)
    patch(cluster, f"{VMIS}/db0", "status", "nodeName", value="w3")
    patch(cluster, f"{PODS}/virt-launcher-db0", "spec", "nodeName", value="w3")
    (vm,) = refusal(cluster, plan)
    assert vm.endswith("the plan moves it from w1, and it runs on w3 now")


@pytest.mark.parametrize("selector", [(), (("kubernetes.io/hostname", "w3"),)])
def test_move_that_a_killed_run_has_not_sent_goes_to_the_node_of_this_map(
    cluster: TraceServer, selector: tuple[tuple[str, str], ...]
) -> None:
    """It was a rollout without a map, or with another one."""
    record = replace(
        restarting("db0", Phase.INTENDED), method=Method.MIGRATE, node_selector=selector
    )
    left_by_a_killed_run(cluster, record)
    result = run(cluster, {"shop/db0": "w2"})
    assert [move["to_node"] for move in result.moves] == ["w2"]
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"]["addedNodeSelector"] == {"kubernetes.io/hostname": "w2"}


def test_rollout_without_a_map_holds_no_migration_to_the_node_of_one(cluster: TraceServer) -> None:
    hostname = (("kubernetes.io/hostname", "w3"),)
    record = replace(
        restarting("web0", Phase.INTENDED), method=Method.MIGRATE, node_selector=hostname
    )
    left_by_a_killed_run(cluster, record)
    run_with(cluster, options())
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert "addedNodeSelector" not in created["spec"]


def test_vm_that_has_ended_on_the_node_of_the_map_is_not_there(cluster: TraceServer) -> None:
    patch(cluster, f"{VMIS}/db0", "status", "phase", value="Succeeded")
    patch(cluster, f"{PODS}/virt-launcher-db0", "status", "phase", value="Succeeded")
    result = run(cluster, {"shop/db0": "w1"}, check=True)
    assert states(result) == {"shop/db0": (None, "w1", "not_moved")}
    assert result.places[0]["reason"] == "it is not running, so there is nothing to migrate"


def test_reason_of_a_vm_that_cannot_migrate_advises_no_restart() -> None:
    """A restart would apply its new CPU model, too, and is not among the ways to a node."""
    made = clusters.cluster("ab")
    ref = clusters.machine(made, "sap-1", "n1")
    made.template(ref)["spec"]["domain"]["cpu"] = {"model": "EPYC"}
    made.machines["sap-1"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "PVC is not shared"}
    ]
    asked = parameters(**GIVEN_BY_PLACES, places={"shop/sap-1": "n2"})
    snapshot = made.snapshot()
    view = JudgedSnapshot.of(snapshot, wanted(asked, snapshot), asked)
    (skipped,) = view.plan().skipped
    assert str(skipped.reason) == "the instance is not live-migratable: PVC is not shared"


def test_message_about_thousands_of_vms_names_some() -> None:
    refs = [Ref("VirtualMachineInstance", "shop", f"db{number}") for number in range(3000)]
    gone = Obstacle("gone", "it is gone")
    text = not_in_place([SkippedInstance(ref, "", None, "", gone) for ref in refs])
    assert text.startswith("3000 VMs cannot go to their nodes in places: ")
    assert "shop/db7 and 2992 more; the lines above" in text
    assert "it is gone" not in text


def test_release_without_targets_is_refused_before_the_first_write(cluster: TraceServer) -> None:
    (path,) = (
        x for x in cluster.objects if x.startswith(f"{KUBEVIRT}/namespaces/") and "/kubevirts/" in x
    )
    patch(cluster, path, "status", "observedKubeVirtVersion", value="v1.5.2")
    for check in (True, False):
        with pytest.raises(InvalidInput) as refused:
            run(cluster, {"shop/db0": "w2"}, check=check)
        assert "places: needs KubeVirt 1.6, and this cluster has v1.5.2" in str(refused.value)
    assert changes(cluster) == []


def test_all_faults_of_a_map_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        parameters(
            places={"db0": "w2", "shop/db1": None, "shop/db2": " ", "a/b/c": "w1"},
            scope="all",
            allow=["restart"],
            pin_target_zone=True,
        )
    by_places = (
        "places names the VMs that move, each by live migration to its node: leave this option out"
    )
    name = "must be the namespace and the name of a VM, such as shop/db1"
    assert [str(error) for error in refused.value.errors] == [
        f"namespaces: {by_places}",
        f"scope: {by_places}",
        f"allow: {by_places}",
        f"pin_target_zone: {by_places}",
        f"places, db0: {name}",
        "places, shop/db1: must be text, not null: give a value, or leave the key out",
        "places, shop/db2: must not be empty",
        f"places, a/b/c: {name}",
    ]


def test_empty_map_moves_nothing(cluster: TraceServer) -> None:
    result = run(cluster, {})
    assert (result.failure, result.moves, result.places) == ("", [], [])
    assert changes(cluster) == []
