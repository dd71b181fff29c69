# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other systems that hold a node: it stays cordoned, whatever our mark says."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.holders import (
    held_by,
    lasting_taints,
    startup_taints,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    begun,
    encode,
    mark_of,
    node_as_json,
    unmark_write,
    unmarked,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Taint
from ansible_collections.virt.placement.plugins.module_utils.model.write import patched
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import takes_pods

MARK = "placement.virt/maintenance"
DRAIN = "machineconfiguration.openshift.io/desiredDrain"
Manifest = dict[str, t.Any]


def manifest(
    taints: list[Manifest] | None = None,
    conditions: list[Manifest] | None = None,
    annotations: dict[str, str] | None = None,
) -> Manifest:
    return {
        "metadata": {
            "name": "w1",
            "uid": "u1",
            "annotations": {"other": "x", **(annotations or {})},
        },
        "spec": {"unschedulable": True, **({"taints": taints} if taints else {})},
        "status": {"conditions": conditions or []},
    }


HELD = {
    "Machine Config Operator": manifest(annotations={DRAIN: "drain-1f"}),
    "Node Maintenance Operator": manifest([{"key": "medik8s.io/drain", "effect": "NoSchedule"}]),
    "shut down": manifest(
        [
            {
                "key": "node.kubernetes.io/out-of-service",
                "value": "nodeshutdown",
                "effect": "NoExecute",
            }
        ]
    ),
    "requested of Harvester": manifest(annotations={"harvesterhci.io/drain-requested": "true"}),
    "running by Harvester": manifest(annotations={"harvesterhci.io/maintain-status": "running"}),
    "completed by Harvester": manifest(
        annotations={"harvesterhci.io/maintain-status": "completed"}
    ),
    "condition of Harvester": manifest(
        conditions=[{"type": "MaintenanceMode", "status": "True", "reason": "Draining"}]
    ),
}
FREE = {
    "uncordoned by the Machine Config Operator": manifest(annotations={DRAIN: "uncordon-1f"}),
    "not Ready": manifest([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
    "agent of Cilium": manifest(
        [{"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}]
    ),
    "driver of volumes": manifest(
        [{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}]
    ),
    "starting": manifest(
        [{"key": "startup-taint.cluster-autoscaler.kubernetes.io/gpu", "effect": "NoSchedule"}]
    ),
    "preference": manifest([{"key": "example.com/old", "effect": "PreferNoSchedule"}]),
    "maintenance of Harvester that has ended": manifest(
        conditions=[{"type": "MaintenanceMode", "status": "False"}]
    ),
}


def marked(held: Manifest, before: Node) -> tuple[Node, Manifest]:
    """The node with a mark of ours that was written when the node was as `before`."""
    draining = MaintenancePhase.DRAINED
    mark = begun(before, None, run="r1", phase=draining, reason="", now="2026-11-25T10:00:00Z")
    held["metadata"]["annotations"][MARK] = encode(mark)
    return node_from_manifest(held), held


def after(held: Manifest, before: Node | None = None) -> Manifest:
    node, current = marked(held, before or Node("w1", uid="u1"))
    mark = mark_of(node)
    assert mark is not None
    write = unmark_write(node, mark)
    assert write is not None
    written = patched(current, (*write.tests, *write.operations))
    assert MARK not in written["metadata"]["annotations"]
    return t.cast(Manifest, written)


@pytest.mark.parametrize("name", HELD)
def test_node_that_another_system_holds_stays_cordoned(name: str) -> None:
    node = node_from_manifest(HELD[name])
    assert held_by(node)
    assert node_as_json(node, "zone")["held_by"] == held_by(node)
    assert after(HELD[name])["spec"]["unschedulable"] is True
    assert unmarked(marked(HELD[name], Node("w1", uid="u1"))[0]).unschedulable


@pytest.mark.parametrize("name", FREE)
def test_other_node_is_uncordoned(name: str) -> None:
    assert held_by(node_from_manifest(FREE[name]), ()) is None
    assert "unschedulable" not in after(FREE[name])["spec"]
    assert not unmarked(marked(FREE[name], Node("w1", uid="u1"))[0]).unschedulable


def test_taint_that_came_during_the_maintenance_keeps_the_cordon() -> None:
    taint = {"key": "example.com/broken", "value": "disk", "effect": "NoExecute"}
    before = node_from_manifest(manifest([taint]))
    uncordoned = Node("w1", uid="u1", taints=before.taints)
    assert "unschedulable" not in after(manifest([taint]), uncordoned)["spec"]
    assert after(manifest([taint]))["spec"]["unschedulable"] is True
    mark = begun(
        Node("w1"), None, run="r", phase=MaintenancePhase.DRAINED, reason="", now="2026-11-25"
    )
    assert "taint example.com/broken=disk:NoExecute" in str(held_by(before, mark.taints))


def test_mark_of_an_earlier_release_says_nothing_about_taints() -> None:
    """The node may have had its taints before: they do not keep the cordon. A known holder does."""
    dedicated = {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
    current = manifest([dedicated])
    mark = begun(
        Node("w1", uid="u1"), None, run="r", phase=MaintenancePhase.DRAINED, reason="", now=""
    )
    old = json.loads(encode(mark))
    del old["taints"]
    current["metadata"]["annotations"][MARK] = json.dumps(old)
    node = node_from_manifest(current)
    assert (found := mark_of(node)) is not None and found.taints is None
    assert not unmarked(node).unschedulable
    current["spec"]["taints"].append({"key": "medik8s.io/drain", "effect": "NoSchedule"})
    assert unmarked(node_from_manifest(current)).unschedulable


def test_node_that_gets_a_taint_meanwhile_is_a_conflict() -> None:
    own = {"key": "example.com/own", "effect": "NoSchedule", "timeAdded": "2026-11-25T10:00:00Z"}
    before = node_from_manifest(manifest([own]))
    node, current = marked(manifest([own]), Node("w1", uid="u1", taints=before.taints))
    mark = mark_of(node)
    assert mark is not None
    write = unmark_write(node, mark)
    assert write is not None
    operations = (*write.tests, *write.operations)
    assert "unschedulable" not in patched(copy.deepcopy(current), operations)["spec"]
    current["spec"]["taints"].append({"key": "medik8s.io/drain", "effect": "NoSchedule"})
    with pytest.raises(ValueError, match="taints"):
        patched(current, operations)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DRAIN, "drain-1f"),
        ("harvesterhci.io/drain-requested", "true"),
        ("harvesterhci.io/maintain-status", "running"),
    ],
)
def test_node_that_another_system_takes_meanwhile_is_a_conflict(key: str, value: str) -> None:
    """The write tests the annotation, so a node that is taken between reading and writing is read again."""
    node, current = marked(manifest(), Node("w1", uid="u1"))
    mark = mark_of(node)
    assert mark is not None
    write = unmark_write(node, mark)
    assert write is not None
    current["metadata"]["annotations"][key] = value
    with pytest.raises(ValueError, match=key.rpartition("/")[2]):
        patched(current, (*write.tests, *write.operations))


@pytest.mark.parametrize("name", ["overutilized", "appropriate"])
def test_soft_taint_of_the_descheduler_neither_holds_a_node_nor_is_waited_for(name: str) -> None:
    """They come and go with the load of nodes, also during a maintenance."""
    taint = Taint(f"nodeutilization.descheduler.openshift.io/{name}", "", "PreferNoSchedule")
    node = Node("w1", taints=(taint,))
    assert held_by(node, ()) is None and lasting_taints(node) == startup_taints(node) == ()
    assert takes_pods(node)


@pytest.mark.parametrize(
    ("taint", "starting"),
    [
        ("node.cilium.io/agent-not-ready=true:NoSchedule", True),
        ("node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule", True),
        ("node.kubernetes.io/not-ready:NoSchedule", True),
        ("startup-taint.cluster-autoscaler.kubernetes.io/gpu:NoSchedule", True),
        ("node.cilium.io/agent-not-ready=true:PreferNoSchedule", False),
        ("node.kubernetes.io/unschedulable:NoSchedule", False),
        ("node.kubernetes.io/out-of-service:NoExecute", False),
        ("node.kubernetes.io/memory-pressure:NoSchedule", False),
        ("example.com/dedicated=db:NoSchedule", False),
    ],
)
def test_startup_taints_are_those_that_go_once_the_node_is_ready(
    taint: str, starting: bool
) -> None:
    name, _colon, effect = taint.rpartition(":")
    key, _equals, value = name.partition("=")
    node = Node("w1", taints=(Taint(key, value, effect),))
    assert startup_taints(node) == ((taint,) if starting else ())
