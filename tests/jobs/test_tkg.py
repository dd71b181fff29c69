# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas over ESXi hosts, with a second sandbox as Cluster API's management cluster, as
`make demo SYSTEM=tkg` runs it."""

from __future__ import annotations

import typing as t

import pytest

from demos.stage import Stage, Step, named, opened
from demos.tkg import management, steps
from sandbox import Sandbox


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with opened(steps, quiet=True) as stage:
        yield stage


def test_management_cluster_without_the_kinds_of_cluster_api_is_named_and_nothing_is_written(
    stage: Stage,
) -> None:
    """Before the steps, of which the first one defines the kinds."""
    mark = stage.sandbox.audit.mark()

    result = steps.play_hosts(stage)

    assert result.rc != 0
    assert "does not serve machines.cluster.x-k8s.io, so Cluster API is not installed" in (
        result.stdout
    )
    assert stage.sandbox.audit.writes(since=mark) == []


@pytest.mark.parametrize("step", steps.STEPS, ids=named)
def test_tkg(stage: Stage, step: Step) -> None:
    """Each step asserts by itself: replicas a host, labels, evictions, writes in the audit log, the second run."""
    step(stage)


NODE, OTHER = "shop-cp-1", "shop-cp-2"


def _delete_vm(clusters: Sandbox) -> None:
    clusters.api.delete(f"{management.VM.collection()}/{NODE}")


@pytest.mark.parametrize(
    ("spoil", "finding", "text"),
    [
        (
            lambda clusters: management.refer(clusters, NODE, None),
            "machine_without_node",
            f"Machine default/{NODE}",
        ),
        (
            lambda clusters: management.refer(clusters, OTHER, NODE),
            "node_of_two_machines",
            f"Machine default/{NODE}, Machine default/{OTHER}",
        ),
        (
            lambda clusters: management.move(clusters, NODE, "_esx one"),
            "host_not_label_value",
            "'_esx one'",
        ),
        (_delete_vm, "host_unknown", f"no VSphereVM belongs to it (VSphereMachine {NODE})"),
    ],
    ids=["machine without node", "two machines of one node", "no label value", "no VSphereVM"],
)
def test_bad_machine_is_named_and_its_node_gets_no_label(
    stage: Stage, spoil: t.Callable[[Sandbox], None], finding: str, text: str
) -> None:
    """After the steps: all nodes have their labels, but for the one that is spoiled."""
    clusters = steps.management_of(stage)
    path = stage.sandbox.api.path("Node", name=NODE)
    labelled = steps.labels(stage)
    vm = clusters.api.get(f"{management.VM.collection()}/{NODE}")
    stage.sandbox.api.patch(path, {"metadata": {"labels": {steps.HOST: None}}})
    spoil(clusters)
    mark = stage.sandbox.audit.mark()

    result = steps.play_hosts(stage)

    assert finding in result.stdout
    assert text in result.stdout
    assert (result.changed, stage.sandbox.audit.writes(since=mark)) == (0, [])
    assert steps.labels(stage) == {**labelled, NODE: ""}
    _restore(clusters, vm)
    stage.sandbox.api.patch(path, {"metadata": {"labels": {steps.HOST: labelled[NODE]}}})


def _restore(clusters: Sandbox, vm: dict[str, t.Any]) -> None:
    """The Machines of both nodes, and the VM of the first one."""
    for name in (NODE, OTHER):
        management.refer(clusters, name, name)
    there = [each["metadata"]["name"] for each in clusters.api.list(management.VM.collection())]
    if NODE not in there:
        metadata = {key: vm["metadata"][key] for key in ("name", "labels")}
        clusters.api.create(management.VM.collection(), {**vm, "metadata": metadata})
    management.move(clusters, NODE, vm["status"]["host"])
