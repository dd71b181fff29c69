# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook drill: which single failure hurts, as a table, with nothing written."""

from __future__ import annotations

import typing as t

import pytest

from demos.stage import Stage
from sandbox import Sandbox, objects
from tests.controller import PROJECT

NAMESPACE = "drilled"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    """Three pods that keep apart over three zones, so that each zone hurts."""
    with Sandbox.start("plain") as sandbox:
        sandbox.api.create(sandbox.api.path("Namespace"), {"metadata": {"name": NAMESPACE}})
        term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        placement = {"affinity": {"podAntiAffinity": required}}
        sandbox.api.apply(objects.deployment("web", NAMESPACE, replicas=3, placement=placement))
        sandbox.api.wait_list(
            sandbox.api.path("Pod", NAMESPACE),
            lambda pods: len([pod for pod in pods if pod["spec"].get("nodeName")]) == 3,
        )
        yield Stage(sandbox, NAMESPACE, quiet=True)


@pytest.mark.tour
def test_drill_reports_unschedulable_pods_for_each_zone_and_writes_nothing(stage: Stage) -> None:
    mark = stage.sandbox.audit.mark()

    result = stage.play(
        str(PROJECT / "drill.yml"), {"placement_drill_domains_of": "[zone]"}, identity="reader"
    )

    assert result.rc == 0, result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
    assert "FAILURE" in result.stdout
    assert "zone zone1" in result.stdout
    assert "3 failures: instances are down" in result.stdout
    assert f"unschedulable if zone zone1 fails: Pod {NAMESPACE}/web-" in result.stdout


def test_a_job_can_fail_on_an_answer(stage: Stage) -> None:
    wanted = {"placement_drill_fail_on": ["impossible"]}

    result = stage.play("drill", wanted, identity="reader")

    assert result.rc != 0
    assert "Forecasts that fail the job: impossible." in result.stdout


def test_capacity_is_red_and_apply_keeps_room_for_a_failure(stage: Stage) -> None:
    mark = stage.sandbox.audit.mark()
    room = {"placement_capacity_room_for": "{cores: 2, memory: 4Gi}"}
    tolerate = {"placement_capacity_tolerate": "[zone]"}

    result = stage.play(str(PROJECT / "capacity.yml"), {**room, **tolerate}, identity="reader")

    assert result.rc != 0, result.stdout
    assert "RED: 3 of 3 failures leave instances without a node" in result.stdout
    assert "The capacity is red." in result.stdout
    stats = [event for event in result.events if event["event"] == "playbook_on_stats"][-1]
    published = stats["event_data"]["artifact_data"]
    assert published["placement_capacity"]["localhost"]["capacity"] == "red"
    rule = {
        "name": "small",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "run_on": {"zone": ["zone1", "zone2", "zone3"]},
    }
    wanted = {"namespace": NAMESPACE, "rules": [rule], "forecast": False}
    variables = {f"placement_apply_{name}": value for name, value in wanted.items()}

    keep = {"placement_apply_keep_room_for": ["zone"]}
    refused = stage.play("apply", {**variables, **keep}, identity="mover")

    assert refused.rc != 0, refused.stdout
    assert "With these rules the capacity is red, not green (placement_apply_keep_room_for)." in (
        refused.stdout
    )
    assert stage.sandbox.audit.writes(since=mark) == []


@pytest.mark.parametrize("playbook", ["drill", "verify"])
def test_job_fails_without_room_for_a_failure_and_names_what_has_no_node(
    stage: Stage, playbook: str
) -> None:
    """Though it fails on nothing else."""
    wanted = {"fail_on": [], "keep_room_for": "[zone]"}
    variables = {f"placement_{playbook}_{name}": value for name, value in wanted.items()}

    result = stage.play(playbook, variables, identity="reader")

    assert result.rc != 0, result.stdout
    red = f"Now the capacity is red, not green (placement_{playbook}_keep_room_for)."
    assert any(line.startswith(red) for line in result.failure()), result.stdout
    assert f"Pod {NAMESPACE}/web-" in result.stdout.partition("RED: ")[2]
    assert "capacity if any one of these fails (zone): red" in result.stdout
