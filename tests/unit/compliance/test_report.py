# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts as data and as a table, and questions that make no sense."""

from __future__ import annotations

import json
import typing as t
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows import placement_info as report
from ansible_collections.virt.placement.plugins.module_utils.flows import rules_info
from ansible_collections.virt.placement.plugins.module_utils.kinds.vmi import VMIS
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    encode,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MAINTENANCE, RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from ansible_collections.virt.placement.plugins.module_utils.view.selection import (
    look_up,
    question_of,
)
from tests.support.cluster import HOST, PREFERRED, ZONE, Cluster, anti_affinity, apart, expression
from tests.unit.compliance.judged import RULE, judge, three


def test_summary_counts_each_verdict_and_the_moves_needed() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])

    assert report.summary(judge(cluster.snapshot())) == {
        "instances": 3,
        "satisfied": 1,
        "preference_not_met": 0,
        "not_enforced": 0,
        "pending": 0,
        "unknown": 0,
        "violated": 2,
        "preference_missed": 0,
        "misplaced": 2,
        "constraint_removed": 0,
        "down": 0,
        "risks": 0,
        "violated_rules": [{"rule": RULE, "affected": 2, "moves_needed": 1, "moves_counted": True}],
    }


def test_lists_that_could_not_be_read_are_never_nothing() -> None:
    gap = Unreadable("pods", "", "list", "forbidden")

    summary = report.summary(judge(Cluster().snapshot(unreadable=(gap,))))

    assert (summary["instances"], summary["satisfied"], summary["unknown"]) == (0, 0, 1)


@pytest.mark.parametrize(
    ("lists", "enforced"), [({}, True), ({"pods": ()}, False), ({"vmis": ()}, False)]
)
def test_rule_is_not_enforced_where_its_instances_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, lists: dict[str, t.Any], enforced: bool
) -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])
    resources = {"pods": "pods", "vmis": VMIS}
    gaps = tuple(Unreadable(resources[name], "shop", "list", "forbidden") for name in lists)
    snapshot = cluster.snapshot(unreadable=gaps, **lists)
    monkeypatch.setattr(rules_info, "read_snapshot", lambda *_args: snapshot)
    monkeypatch.setattr(rules_info, "with_policies", lambda _api, snapshot, *_args: snapshot)
    options = {"namespaces": ["shop"], "workloads": None, "exclude_namespaces": []}
    others = {"declarations": False, "topology_keys": {}, "cluster_uid": None}
    module = mock.Mock(params={**options, **others})

    (found,) = rules_info.run(module, mock.Mock())["rules"]

    assert found["enforced"] is enforced


def run_placement_info(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, details: str
) -> dict[str, t.Any]:
    monkeypatch.setattr(report, "read_snapshot", lambda *_args: cluster.snapshot())
    monkeypatch.setattr(report, "with_policies", lambda _api, snapshot, *_args: snapshot)
    options: dict[str, t.Any] = {
        "namespaces": None,
        "workloads": None,
        "exclude_namespaces": [],
        "columns": ["zone"],
        "only": None,
    }
    params: dict[str, t.Any] = {
        **options,
        "topology_keys": {},
        "cluster_uid": None,
        "details": details,
    }
    return report.run(mock.Mock(params=params), mock.Mock())


def test_placement_has_every_node_and_every_instance_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("abcd")
    three(cluster, ["n1", "n1", "n2"])
    cluster.run("down", "n4")
    cluster.nodes["n3"]["spec"]["unschedulable"] = True
    cluster.nodes["n4"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    mark = Mark("r1", "firmware", MaintenancePhase.DRAINED, "b", True, "2026-01-02T03:04:05Z")
    cluster.nodes["n2"]["metadata"]["annotations"] = {MAINTENANCE: encode(mark)}

    result = run_placement_info(monkeypatch, cluster, "placement")

    assert [entry["instance"]["name"] for entry in result["instances"]] == ["db1", "db2", "down"]
    (satisfied,) = result["satisfied_instances"]
    assert {key: satisfied[key] for key in ("kind", "namespace", "name", "instance", "node")} == {
        "kind": "VirtualMachine",
        "namespace": "shop",
        "name": "db3",
        "instance": "db3",
        "node": "n2",
    }
    assert satisfied["rules"] == [RULE]
    listed = len(result["instances"]) + len(result["satisfied_instances"])
    assert listed == result["summary"]["instances"] == 4
    nodes = {node["name"]: node for node in result["nodes"]}
    assert {name: node["domains"]["zone"] for name, node in nodes.items()} == {
        "n1": "a",
        "n2": "b",
        "n3": "c",
        "n4": "d",
    }
    assert {name: node["states"] for name, node in nodes.items()} == {
        "n1": [],
        "n2": ["in_maintenance"],
        "n3": ["cordoned"],
        "n4": ["not_ready"],
    }
    assert nodes["n1"]["maintenance"] == ""
    assert nodes["n2"]["maintenance"] == "node n2 is drained since 2026-01-02T03:04:05Z: firmware"


@pytest.mark.parametrize(
    ("details", "instances", "nodes"), [("problems", 2, 0), ("summary", 0, 0), ("all", 3, 4)]
)
def test_satisfied_instances_and_nodes_are_listed_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, details: str, instances: int, nodes: int
) -> None:
    cluster = Cluster("abcd")
    three(cluster, ["n1", "n1", "n2"])

    result = run_placement_info(monkeypatch, cluster, details)

    assert (len(result["instances"]), len(result["nodes"])) == (instances, nodes)
    assert result["satisfied_instances"] == []


def test_rules_that_rest_are_listed_and_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("ab")
    refs = three(cluster, ["n1", "n1", "n1"])
    for ref in refs:
        annotations = cluster.workloads[ref]["metadata"]["annotations"]
        rules = json.loads(annotations[RULES])
        later = {"terms": [], "declared": {"run_on": {"k": "v"}}, "enabled": False}
        rules["rules"]["shop/default/later"] = later
        annotations[RULES] = json.dumps(rules)

    result = run_placement_info(monkeypatch, cluster, "problems")

    assert result["resting_rules"] == [
        {"rule": "shop/default/later", "type": "run_on", "workloads": 3}
    ]
    line = "not verified: rule shop/default/later (run_on, 3 workloads) is not enabled"
    assert line in result["table"].splitlines()
    judged = {rule["rule"] for each in result["instances"] for rule in each["rules"]}
    assert judged == {RULE}


def test_table_names_nodes_in_maintenance_with_their_reason() -> None:
    cluster = Cluster("ab")
    mark = Mark("r1", "firmware", MaintenancePhase.DRAINED, "b", True, "2026-01-02T03:04:05Z")
    for name, text in (("n1", encode(mark)), ("n2", "{")):
        cluster.nodes[name]["spec"]["unschedulable"] = True
        cluster.nodes[name]["metadata"]["annotations"] = {MAINTENANCE: text}
    snapshot = cluster.snapshot()

    lines = report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE}).splitlines()

    assert [line.split(maxsplit=1)[1].strip() for line in lines[1:3]] == [
        "n1 (in maintenance)",
        "n2 (in maintenance)",
    ]
    assert lines[3] == "maintenance: node n1 is drained since 2026-01-02T03:04:05Z: firmware"
    assert lines[4].startswith(
        "maintenance: node n2: annotation placement.virt/maintenance is damaged"
    )


def test_table_has_one_printable_line_for_a_mark_whatever_its_texts_hold() -> None:
    cluster = Cluster("a")
    mark = Mark("r1", "a\nTASK [x]", MaintenancePhase.DRAINED, "b", True, "now\x1b[2J")
    cluster.nodes["n1"]["metadata"]["annotations"] = {MAINTENANCE: encode(mark)}
    snapshot = cluster.snapshot()

    lines = report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE}).splitlines()

    assert "maintenance: node n1 is drained since now?[2J: a TASK [x]" in lines


def test_the_table_shows_zones_nodes_workloads_and_each_problem() -> None:
    cluster = Cluster("ab")
    three(cluster, ["n1", "n1", ""])
    cluster.nodes["n2"]["spec"]["unschedulable"] = True
    cluster.nodes["n2"]["status"]["conditions"] = []
    snapshot = cluster.snapshot()

    lines = report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE}).splitlines()

    assert lines[:4] == [
        "ZONE  NODE                      INSTANCES",
        "a     n1                        shop/db1, shop/db2",
        "b     n2 (cordoned, not ready)",
        "-     (no node)                 shop/db3",
    ]
    assert lines[4].startswith(f"violated: VirtualMachineInstance shop/db1 on n1: rule {RULE}: ")
    assert lines[6].startswith(
        "pending: VirtualMachineInstance shop/db3: 0/2 nodes are available: "
    )
    assert lines[7] == f"violated rule {RULE}: cannot be satisfied"


def test_line_about_a_rule_that_is_not_enforced_says_so_once() -> None:
    cluster = Cluster()
    ref = cluster.run("cache", "n1")
    term = {"weight": 10, "preference": {"matchExpressions": [expression(ZONE, "NotIn", "a")]}}
    cluster.write(ref, "not-in-a", (TermLocation.PREFERRED_NODE, term))
    snapshot = cluster.snapshot()

    table = report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE})

    assert table.count("not enforced") == 0
    assert (
        "not_enforced: VirtualMachine shop/cache: rule shop/default/not-in-a: preferred node affinity"
    ) in table


def test_the_table_names_a_migration_whose_target_has_no_node() -> None:
    cluster = Cluster("a")
    cluster.run("db", "n1")
    cluster.nodes["n1"]["spec"]["unschedulable"] = True
    cluster.launcher("db", "")
    snapshot = cluster.snapshot()
    verdicts = judge(snapshot)

    lines = report.table(verdicts, snapshot.nodes, {"ZONE": ZONE}).splitlines()

    (pending,) = verdicts.pending
    assert f"pending: VirtualMachineInstance shop/db: {pending.reason}" in lines
    assert pending.reason.startswith("migration target: 0/1 nodes are available: ")


def test_an_instance_whose_node_is_not_ready_is_down() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n2")
    cluster.nodes["n2"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    snapshot = cluster.snapshot()
    verdicts = judge(snapshot)

    assert (report.summary(verdicts)["down"], report.summary(verdicts)["satisfied"]) == (1, 1)
    assert [instance.down for instance in verdicts.instances] == [True]
    lines = report.table(verdicts, snapshot.nodes, {"ZONE": ZONE}).splitlines()
    assert "down: VirtualMachineInstance shop/db on n2: node n2 is not Ready" in lines


def test_a_large_cluster_shows_only_nodes_that_hold_something() -> None:
    cluster = Cluster("a" * 101)
    cluster.run("db", "n7")
    snapshot = cluster.snapshot()

    lines = report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE}).splitlines()

    assert lines == ["ZONE  NODE  INSTANCES", "a     n7    shop/db"]


def look(cluster: Cluster, **question: t.Any) -> frozenset[Ref] | None:
    asked = question_of(question.get("namespaces"), question.get("workloads"))
    return look_up(asked, cluster.snapshot()).workloads


def test_workloads_are_found_by_name_names_and_labels() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])

    assert look(cluster) is None
    assert look(cluster, workloads=[]) == frozenset()
    assert look(cluster, namespaces=["shop"], workloads=[{"name": "db1"}]) == frozenset({refs[0]})
    by_labels = [{"namespace": "shop", "labels": {"tier": "db"}}]
    assert look(cluster, workloads=by_labels) == frozenset(refs)


@pytest.mark.parametrize(
    ("question", "faults"),
    [
        pytest.param(
            {"namespaces": ["shpo"]},
            ["namespaces: there is no namespace 'shpo'; did you mean 'shop'?"],
            id="unknown namespace",
        ),
        pytest.param(
            {"workloads": [{"namespace": "shop", "names": ["db1", "web"]}]},
            ["workloads[0]: there is no VirtualMachine 'web' in namespace 'shop'"],
            id="unknown workload",
        ),
        pytest.param(
            {"namespaces": ["shop", "other"], "workloads": [{"name": "db1"}]},
            [
                "workloads[0], namespace: is missing: set it here, or set a single namespace in namespaces"
            ],
            id="which namespace",
        ),
        pytest.param(
            {"workloads": [{"namespace": "shop", "labels": {}}]},
            [
                "workloads[0], labels: is empty: name at least one label, since an empty"
                " selector matches every pod"
            ],
            id="empty selector",
        ),
    ],
)
def test_questions_that_cannot_be_answered(question: dict[str, t.Any], faults: list[str]) -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    with pytest.raises(InvalidInput) as refused:
        look(cluster, **question)

    assert [str(fault) for fault in refused.value.errors] == faults


def test_a_kind_that_may_not_be_listed_is_no_empty_kind() -> None:
    gap = Unreadable("virtualmachines", "", "list", "forbidden")
    question = question_of(None, [{"namespace": "shop", "name": "db1"}])

    with pytest.raises(InvalidInput) as refused:
        look_up(question, Cluster().snapshot(unreadable=(gap,)))

    assert "cannot list virtualmachines" in str(refused.value)


def test_table_has_the_columns_that_are_asked_for() -> None:
    cluster = Cluster("ab")
    cluster.nodes["n1"]["metadata"]["labels"]["example.com/esx"] = "esx-9"
    topology = Topology.of({"esx": "example.com/esx"})
    snapshot = cluster.snapshot()

    keys = report.column_keys(["esx", "zone"], topology)
    lines = report.table(judge(snapshot), snapshot.nodes, keys).splitlines()

    assert [line.split() for line in lines[:3]] == [
        ["ESX", "ZONE", "NODE", "INSTANCES"],
        ["-", "b", "n2"],
        ["esx-9", "a", "n1"],
    ]
    with pytest.raises(InvalidInput, match=r"columns\[0\]: .*rak"):
        report.column_keys(["rak"], topology)


POOL = {"harvesterhci.io/machineSetName": "default-guest-pool1"}
"""The label of the VMs of a pool (Harvester's node driver)."""


def three_hosts() -> Cluster:
    """One in each zone, and that of zone b is cordoned."""
    cluster = Cluster("abc")
    cluster.nodes["n2"]["spec"]["unschedulable"] = True
    return cluster


def table_of(cluster: Cluster) -> list[str]:
    snapshot = cluster.snapshot()
    return report.table(judge(snapshot), snapshot.nodes, {"ZONE": ZONE}).splitlines()


def test_ac_h2_two_vms_on_one_host_miss_their_preference_beside_a_cordoned_host() -> None:
    term = {"weight": 1, "podAffinityTerm": apart(HOST, plain=True, **POOL)}
    cluster = three_hosts()
    for name, node in (("vm1", "n1"), ("vm2", "n1"), ("vm3", "n3")):
        cluster.run(name, node, {"affinity": {"podAntiAffinity": {PREFERRED: [term]}}}, **POOL)

    counted = report.summary(judge(cluster.snapshot()))
    _heading, *lines = table_of(cluster)

    assert (counted["preference_not_met"], counted["preference_missed"]) == (2, 2)
    assert (counted["satisfied"], counted["pending"], counted["violated"]) == (1, 0, 0)
    assert "b     n2 (cordoned)" in lines
    missed = [line for line in lines if line.startswith("preference_not_met: ")]
    assert [line.split()[2:5] for line in missed] == [
        ["shop/vm1", "on", "n1:"],
        ["shop/vm2", "on", "n1:"],
    ]


def test_ac_h3_pending_vm_has_its_reason_and_the_table_shows_the_zone_that_is_missing() -> None:
    cluster = three_hosts()
    for name, node in (("vm1", "n1"), ("vm2", ""), ("vm3", "n3")):
        cluster.run(name, node, anti_affinity(apart(plain=False, **POOL)), **POOL)

    table = table_of(cluster)

    assert report.summary(judge(cluster.snapshot()))["pending"] == 1
    assert "b     n2 (cordoned)" in table
    (pending,) = [line for line in table if line.startswith("pending: ")]
    assert "shop/vm2" in pending
    assert "1 node(s) were unschedulable" in pending
