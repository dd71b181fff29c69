# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Required terms of several machines that cannot all hold at once."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import (
    lint,
    lint_of_writes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from tests.support.cluster import HOST, ZONE, Cluster, affinity, anti_affinity, apart
from tests.support.facts import node
from tests.unit.lint.online_offline import offline, online
from tests.unit.rules.builders import (
    NODES,
    deployment,
    request,
    running,
    snapshot,
    vm,
    vmirs,
)

JSON = t.Any


def never(workloads: t.Sequence[Workload], *rules: JSON, **fields: t.Any) -> list[Finding]:
    """What stands against rules about machines that all run."""
    runs = [running(each) for each in workloads if each.ref.kind == "VirtualMachine"]
    halted = fields.pop("halted", False)
    seen = snapshot(*workloads, run=() if halted else runs, **fields)
    asked = request(*({"name": f"r{n}", **rule} for n, rule in enumerate(rules)))
    check = lint_of_writes(Topology.of())
    found = plan_rules(seen, asked, extra_findings=check).refused
    assert {finding.name for finding in found} <= {"unsatisfiable", "starts_workload_rollout"}
    return [finding for finding in found if finding.name == "unsatisfiable"]


def sentences(found: t.Iterable[Finding]) -> list[Finding]:
    """Each once, of whatever rules."""
    return list({finding.why: finding for finding in found}.values())


def machines(count: int, **options: t.Any) -> list[Workload]:
    return [vm(f"m{number}", **options) for number in range(count)]


def all_apart(members: t.Sequence[Workload], over: str = "zone", **more: JSON) -> JSON:
    names = [each.ref.name for each in members]
    return {"workloads": [{"names": names}], "keep_apart": {"topology_key": over}, **more}


def test_more_vms_apart_than_zones_are_unsatisfiable() -> None:
    five = machines(5)

    (found,) = never(five, all_apart(five))

    assert found.severity == "error"
    assert (
        "5 VMs have anti-affinity over zone, but only 3 zones can run them (a, b, c)." in found.why
    )
    assert len(found.objects) == 5


@pytest.mark.parametrize(("count", "crowded"), [(2, False), (3, False), (4, True)])
def test_vms_with_an_equal_plain_term_of_their_own_are_counted_once(
    count: int, crowded: bool
) -> None:
    cluster = Cluster("abc")
    for number in range(count):
        both = anti_affinity(apart(ZONE, plain=True, g="x"), apart(ZONE, g="x"))
        cluster.run(f"m{number}", "n1", both, g="x")

    reported = [f for f in lint(cluster.snapshot()) if f.name == "unsatisfiable"]

    assert bool(reported) is crowded
    assert all("4 VMs have anti-affinity" in finding.why for finding in reported)


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        pytest.param(machines(3), {}, id="as many as zones"),
        pytest.param(machines(5), {"preferred": True}, id="preferred"),
        pytest.param(machines(5), {"keep_apart": {"topology_key": "node"}}, id="nodes enough"),
        pytest.param(machines(5, run_strategy="Halted"), {}, id="halted"),
    ],
)
def test_as_many_vms_apart_as_zones_have_no_finding(members: list[Workload], rule: JSON) -> None:
    halted = members[0].manifest["spec"]["runStrategy"] == "Halted"

    assert never(members, {**all_apart(members), **rule}, halted=halted) == []


def test_only_domains_that_they_may_use_count() -> None:
    three = machines(3)
    on_two = {"workloads": [{"names": ["m0", "m1", "m2"]}], "run_on": {"zone": ["a", "b"]}}

    assert "but only 2 zones can run them (a, b)" in never(three, on_two, all_apart(three))[0].why
    one_of_them = {**on_two, "workloads": [{"name": "m0"}]}
    assert never(three, one_of_them, all_apart(three)) == []


def test_a_node_that_is_cordoned_counts() -> None:
    cluster = Cluster("ab")
    cluster.node(
        "n3", {ZONE: "c"}, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    )
    for name, where in (("a", "n1"), ("b", "n2"), ("c", "n3")):
        cluster.run(name, where, anti_affinity(apart(ZONE, g="x")), g="x")

    assert "unsatisfiable" not in online(cluster)
    del cluster.nodes["n3"]
    assert "3 VMs have anti-affinity" in online(cluster)["unsatisfiable"].why


def test_values_of_a_key_without_a_short_name_are_counted_as_values() -> None:
    topology = Topology.of()
    assert topology.counted("example.com/rack", 2) == "2 values of example.com/rack"
    assert topology.counted(ZONE, 1) == "1 zone"


def test_finding_names_only_workloads_that_were_asked_for() -> None:
    cluster = Cluster("ab")
    refs = [
        cluster.run(name, "n1", anti_affinity(apart(ZONE, g="x")), g="x")
        for name in ("a", "b", "c")
    ]

    (finding,) = [
        finding
        for finding in lint(cluster.snapshot(), workloads=refs[:1])
        if finding.name == "unsatisfiable"
    ]

    assert finding.objects == (refs[0],)


def test_without_nodes_domains_are_not_counted() -> None:
    cluster = Cluster("ab")
    for name in "abc":
        ref = cluster.vm(name, anti_affinity(apart(ZONE, g="x")), g="x")
        cluster.workloads[ref]["spec"]["runStrategy"] = "Always"

    assert "unsatisfiable" not in offline(cluster)
    assert "unsatisfiable" in offline(cluster, nodes=True)


def test_replica_set_with_more_vms_than_zones_is_unsatisfiable() -> None:
    members = {"kind": "VirtualMachineInstanceReplicaSet", "name": "db"}
    rule = {"workloads": [members], "keep_apart": {"topology_key": "zone"}}

    assert never([vmirs("db", replicas=4)], rule)
    assert never([vmirs("db", replicas=3)], rule) == []


def test_a_deployment_of_more_pods_than_zones() -> None:
    """Pods of one revision keep apart, and all of one revision are to run."""
    workload = {"kind": "Deployment", "name": "w"}
    rule = {"workloads": [workload], "keep_apart": {"topology_key": "zone"}}
    allowed = {"allow_findings": ["rollout_deadlock"]}

    (found,) = never([deployment("w", replicas=4)], {**rule, **allowed})

    assert "4 instances have anti-affinity over zone, but only 3 zones can run them" in found.why
    assert never([deployment("w", replicas=3)], {**rule, **allowed}) == []
    assert never([deployment("w", replicas=4)], {**rule, **allowed, "preferred": True}) == []
    one_zone = {"placement": {"nodeSelector": {ZONE: "a"}}}
    assert never([deployment("w", replicas=1, **one_zone)], {**rule, **allowed}) == []


def test_two_deployments_of_one_rule_are_not_kept_from_each_other() -> None:
    both = [deployment(name, replicas=2) for name in "vw"]
    rule = {"workloads": [{"kind": "Deployment", "names": ["v", "w"]}]}

    assert never(both, {**rule, "keep_apart": {"topology_key": "zone"}}) == []


@pytest.mark.parametrize("others", [0, 1])
def test_two_vms_apart_with_node_selectors_of_one_zone_are_unsatisfiable(others: int) -> None:
    pinned = machines(2, placement={"nodeSelector": {ZONE: "a"}})
    group = [*pinned, *(vm(f"free{number}") for number in range(others))]

    (found,) = never(group, all_apart(group))

    assert [ref.name for ref in found.objects] == ["m0", "m1"]
    assert "2 VMs have anti-affinity over zone, but only 1 zone can run them (a). " in found.why
    assert "Their nodeSelector or node affinity excludes b, c." in found.why
    assert "Let their nodeSelector and node affinity allow more" in found.advice


def test_nodes_without_the_key_take_any_number() -> None:
    five = machines(5)

    assert never(five, all_apart(five), nodes=(*NODES, node("plain"))) == []


@pytest.mark.parametrize("over", ["node", "zone"])
def test_two_followers_of_one_leader_that_keep_apart(over: str) -> None:
    trio = machines(3)
    two = {"workloads": [{"names": ["m0", "m1"]}]}
    follow = {**two, "keep_together": {"topology_key": "node", "with": {"name": "m2"}}}

    found = never(trio, follow, {**two, "keep_apart": {"topology_key": over}})

    assert [finding.rule for finding in found] == ["r0", "r0", "r1", "r1"]
    away = f"and anti-affinity to VirtualMachine shop/m1 over {over} (rules default/r0 and default/r1)."
    assert len(sentences(found)) == 2
    assert away in found[0].why
    assert (
        never(trio, follow, {**two, "keep_apart": {"topology_key": over}, "preferred": True}) == []
    )


def test_of_many_followers_that_keep_apart_a_few_are_named() -> None:
    ten = machines(10)
    nine = {"workloads": [{"names": [f"m{number}" for number in range(9)]}]}
    follow = {**nine, "keep_together": {"topology_key": "node", "with": {"name": "m9"}}}

    found = never(ten, follow, {**nine, "keep_apart": {"topology_key": "zone"}})

    led = [each.why for each in sentences(found) if "has affinity to" in each.why]
    named = ", ".join(f"VirtualMachine shop/m{number}" for number in range(1, 6))
    assert len(led) == 9
    assert led[0] == (
        "It can never run: VirtualMachine shop/m0 has affinity to VirtualMachine shop/m9 over node,"
        f" like {named} and 3 more, and anti-affinity to {named} and 3 more over zone"
        " (rules default/r0 and default/r1)."
    )


def test_vms_with_affinity_and_anti_affinity_of_two_rules_are_unsatisfiable() -> None:
    trio = machines(3, labels={"tier": "web"})
    near = {"workloads": [{"names": ["m0", "m1"]}], "keep_together": {"topology_key": "zone"}}
    apart_by_label = {
        "workloads": [{"labels": {"tier": "web"}}],
        "keep_apart": {"topology_key": "zone"},
    }

    found = never(trio, near, apart_by_label)

    assert {finding.rule for finding in found} == {"r0", "r1"}
    assert [finding.why for finding in found if finding.rule == "r0"] == [
        f"It can never run: VirtualMachine shop/{one} has affinity to VirtualMachine shop/{other} over"
        " zone, and anti-affinity to the same over zone (rules default/r0 and default/r1)."
        for one, other in (("m0", "m1"), ("m1", "m0"))
    ]
    assert never(trio, near, {**apart_by_label, "keep_apart": {"topology_key": "node"}}) == []
    assert never(trio, {**near, "preferred": True}, apart_by_label) == []
    halted = machines(3, labels={"tier": "web"}, run_strategy="Halted")
    assert never(halted, near, apart_by_label, halted=True) == []


def test_rule_with_affinity_to_vms_of_a_foreign_anti_affinity_is_unsatisfiable() -> None:
    avoiding = {"placement": anti_affinity(apart(ZONE, tier="web")), "labels": {"tier": "web"}}
    near = {"workloads": [{"names": ["m0", "m1"]}], "keep_together": {"topology_key": "zone"}}

    found = never(machines(3, **avoiding), near)

    assert [finding.rule for finding in found] == ["r0", "r0"]
    assert found[0].why == (
        "It can never run: VirtualMachine shop/m0 has affinity to VirtualMachine shop/m1 over zone, and"
        " anti-affinity to the same over zone."
    )


def test_followers_in_one_zone_may_be_on_different_nodes() -> None:
    trio = machines(3)
    two = {"workloads": [{"names": ["m0", "m1"]}]}
    follow = {**two, "keep_together": {"topology_key": "zone", "with": {"name": "m2"}}}

    assert never(trio, follow, {**two, "keep_apart": {"topology_key": "node"}}) == []


def test_a_follower_that_keeps_away_from_its_leader() -> None:
    pair = machines(2)
    follower = {"workloads": [{"name": "m0"}]}
    near = {**follower, "keep_together": {"topology_key": "node", "with": {"name": "m1"}}}

    (found,) = sentences(never(pair, near, all_apart(pair, "node")))

    assert "has affinity to VirtualMachine shop/m1 over node, and anti-affinity" in found.why


def test_affinity_to_pods_without_owner_is_satisfiable() -> None:
    cluster = Cluster()
    cluster.run("leader", "n1", app="lead")
    near = affinity(apart(HOST, plain=True, app="lead"))["affinity"]
    away = anti_affinity(apart(HOST, g="x"))["affinity"]
    for name in "ab":
        cluster.run(name, "n1", {"affinity": {**near, **away}}, g="x")

    assert "unsatisfiable" in _names(cluster)
    cluster.bare_pod("other", "n2", app="lead")
    assert "unsatisfiable" not in _names(cluster)


def _names(cluster: Cluster) -> set[str]:
    return {finding.name for finding in lint(cluster.snapshot())}


def test_two_vms_apart_on_one_node() -> None:
    two = machines(2)
    nodes = (node("w1", "a"),)

    assert never(two, all_apart(two, "node"), nodes=nodes)
