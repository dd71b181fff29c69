# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says while a machine migrates, and of where it could migrate."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    JudgedInstances,
    declared_cluster,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.obstacles import Obstacles
from ansible_collections.virt.placement.plugins.module_utils.compliance.pending import (
    PendingReasons,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.next_pod import (
    migration_target_pod,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import Cluster, anti_affinity, apart
from tests.unit.compliance.judged import judge, of, three


def test_violating_instance_lists_feasible_nodes_for_restart_and_migration() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])

    found = of(judge(cluster.snapshot()), "db1")

    assert found.feasible_if_restarted == ("n3", "n4")
    assert found.feasible_if_migrated == ("n3", "n4")


def test_details_list_feasible_nodes_of_every_instance() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = of(judge(cluster.snapshot(), details=True), "db1")

    assert found.feasible_if_restarted == ("n1", "n2")
    assert found.feasible_if_migrated == ("n2",)


def test_a_plain_zone_term_leaves_a_migration_no_target_in_its_own_zone() -> None:
    """The source pod is still there while the target is placed (a surge of one)."""
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db", plain=True)), tier="db")

    found = of(judge(cluster.snapshot(), details=True), "db1")

    assert found.verdict is Verdict.SATISFIED
    assert found.feasible_if_restarted == ("n1", "n2")
    assert found.feasible_if_migrated == ()


def test_node_that_a_migration_leaves_is_named_without_a_uid() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n1")
    cluster.nodes["n2"]["spec"]["unschedulable"] = True
    snapshot = cluster.snapshot()
    (pod,), (vmi,) = snapshot.pods, snapshot.vmis
    target = migration_target_pod(pod, vmi, pod.placement, None)

    seen = view_of(snapshot)

    reason = PendingReasons(seen.new_index(), Topology.of(), Obstacles(seen)).reason(target)

    left = "node(s) didn't match pod anti-affinity rules (its own node, which a migration has to leave)"
    assert reason == f"0/2 nodes are available: 1 node(s) were unschedulable, 1 {left}"


def placed(index: Index) -> dict[str, tuple[Pod, str]]:
    return {pod.uid: (pod, index.node_of(pod.uid)) for pod in index.pods}


def test_index_is_as_before_after_the_cluster_was_judged_as_declared() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"], rule_first=False)
    cluster.propagate(refs[0])
    cluster.launcher("db1", "n2")
    view = view_of(cluster.snapshot())
    index = view.new_index()
    before = placed(index)

    with declared_cluster(index, JudgedInstances.of(view)):
        assert placed(index) != before

    assert placed(index) == before


def test_after_a_migration_the_rule_is_in_effect() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"], rule_first=False)
    cluster.propagate(refs[0])
    source = next(iter(cluster.pods.values()))
    source["status"]["phase"] = "Succeeded"
    cluster.launcher("db1", "n2")
    cluster.machines["db1"]["status"]["nodeName"] = "n2"

    found = judge(cluster.snapshot())

    assert of(found, "db1").node == "n2"
    assert of(found, "db1").verdict is Verdict.SATISFIED


def test_migration_target_does_not_violate_the_rule_of_its_own_vmi() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db", plain=True)), tier="db")
    cluster.launcher("db1", "n2")

    found = judge(cluster.snapshot())

    assert [v.verdict for v in found.instances] == [Verdict.SATISFIED] * 3


@pytest.mark.parametrize(
    "left", ["running", "terminating", "ended, and the machine's list is older"]
)
def test_source_pod_of_a_migration_violates_no_rule(left: str) -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])
    source = next(iter(cluster.pods.values()))
    cluster.launcher("db1", "n3")
    cluster.machines["db1"]["status"]["nodeName"] = "n3"
    if left == "terminating":
        source["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    elif left != "running":
        source["status"]["phase"] = "Succeeded"
        cluster.machines["db1"]["status"]["nodeName"] = "n1"

    found = judge(cluster.snapshot())

    assert [v.verdict for v in found.instances] == [Verdict.SATISFIED] * 3
    assert of(found, "db1").node == "n3"
    assert (found.pending, found.moves_needed) == ((), {})


def test_unscheduled_migration_target_is_pending_and_its_vmi_has_a_verdict() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db", plain=True)), tier="db")
    cluster.launcher("db1", "")

    found = judge(cluster.snapshot())

    assert of(found, "db1").verdict is Verdict.SATISFIED
    assert [p.instance.name for p in found.pending] == ["db1"]
    assert found.pending[0].reason.startswith("migration target: 0/6 nodes are available: 6 ")


def test_no_node_is_feasible_for_a_migration_from_a_node_that_is_not_ready() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n1")
    assert of(judge(cluster.snapshot(), details=True), "db").feasible_if_migrated == ("n2",)

    cluster.nodes["n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = of(judge(cluster.snapshot(), details=True), "db")

    assert (found.down, found.feasible_if_migrated) == (True, ())


def test_migration_target_of_a_vmi_with_more_cpus_needs_room_for_them() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n1", {"domain": {"cpu": {"sockets": 4}}})
    cluster.nodes["n2"]["status"]["allocatable"]["cpu"] = "2"
    cluster.machines["db"]["status"]["conditions"] += [{"type": "HotVCPUChange", "status": "True"}]

    assert of(judge(cluster.snapshot(), details=True), "db").feasible_if_migrated == ()
