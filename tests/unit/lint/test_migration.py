# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virtual machines cannot do because of their terms."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import (
    lint,
    lint_of_writes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    spread,
)
from tests.unit.lint.online_offline import offline, online
from tests.unit.rules.builders import request, running, snapshot, vm


def test_a_plain_term_over_zone_blocks_migration_inside_the_zone() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart(tier="db", plain=True)), tier="db")

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"blocks_live_migration"}
        assert (
            "mismatchLabelKeys: [kubevirt.io/created-by]" in found["blocks_live_migration"].advice
        )


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(apart(tier="db"), id="the safe form"),
        pytest.param(apart(HOST, plain=True, tier="db"), id="over hosts nothing is lost"),
        pytest.param(
            {**apart(plain=True, tier="db"), "mismatchLabelKeys": ["vm.kubevirt.io/name"]},
            id="its own hostname is left out",
        ),
    ],
)
def test_terms_that_leave_migration_possible(term: dict[str, object]) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(term), tier="db")

    assert online(cluster) == {}
    assert offline(cluster) == {}


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        (HOST, "over node selects 2 instances, and only 2 nodes can run them. While"),
        (
            ZONE,
            "over zone selects 2 instances, and only 2 zones can run them. Node affinity, taints or"
            " cordons leave only one node in each of a, b. While an instance runs in each of the 2 zones, ",
        ),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_as_many_vms_apart_as_nodes_block_migration(over: str, expected: str, plain: bool) -> None:
    cluster = Cluster("ab")
    for name, node in (("a", "n1"), ("b", "n2")):
        cluster.run(name, node, anti_affinity(apart(over, plain=plain, g="x")), g="x")

    for found in (online(cluster), offline(cluster, nodes=True)):
        finding = found["blocks_live_migration"]
        assert expected in finding.why
        assert [ref.name for ref in finding.objects] == ["a", "b"]

    cluster.node("n3", {ZONE: "c"})
    assert online(cluster) == {}
    assert offline(cluster, nodes=True) == {}


@pytest.mark.parametrize(
    ("over", "zones", "cordoned"), [(ZONE, "abb", "n3 (zone b)"), (HOST, "abc", "n3")]
)
def test_cordoned_node_that_blocks_migration_is_named(over: str, zones: str, cordoned: str) -> None:
    cluster = Cluster(zones)
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cluster.nodes["n3"]["spec"] = {"unschedulable": True, "taints": [taint]}
    for name, node in (("a", "n1"), ("b", "n2")):
        cluster.run(name, node, anti_affinity(apart(over, g="x")), g="x")

    finding = online(cluster)["blocks_live_migration"]

    assert finding.why.endswith(f" Cordoned: {cordoned}.")
    assert over == HOST or "cordons leave only one node in each of a, b" in finding.why
    assert finding.advice.startswith("Put the cordoned nodes back in service (playbook maintenance")


def test_a_vm_with_one_node_is_blocked_by_its_node_terms() -> None:
    cluster = Cluster("abc")
    in_zone_a = node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]})
    one = {**anti_affinity(apart(ZONE, g="x"))["affinity"], **in_zone_a["affinity"]}
    cluster.run("a", "n1", {"affinity": one}, g="x")
    for name, node in (("b", "n2"), ("c", "n3")):
        cluster.run(name, node, anti_affinity(apart(ZONE, g="x")), g="x")

    whys = {
        ref.name: finding.why
        for finding in lint(cluster.snapshot())
        if finding.name == "blocks_live_migration"
        for ref in finding.objects
    }
    assert whys["a"].startswith("Only one node takes its pods, so a migration has no target")
    assert "selects 3 instances, and only 3 zones can run them" in whys["b"]


@pytest.mark.parametrize(("performance", "blocks"), [("high", True), ("medium", False)])
def test_node_rule_that_leaves_one_node_in_each_zone_of_vms_apart_has_the_finding(
    performance: str, blocks: bool
) -> None:
    """Each zone has one fast node. The anti-affinity is older than the rule that is written."""
    apart_by_zone = anti_affinity(apart(ZONE, g="x"))
    vms = [vm(f"m{n}", labels={"g": "x"}, placement=apart_by_zone) for n in range(3)]
    names = [workload.ref.name for workload in vms]
    rule = {"name": "r0", "workloads": names, "run_on": {"performance": performance}}
    before = snapshot(*vms, run=[running(workload) for workload in vms])

    plan = plan_rules(before, request(rule), extra_findings=lint_of_writes(Topology.of()))

    found = {(f.name, f.rule) for f in plan.findings}
    assert (("blocks_live_migration", "r0") in found) is blocks


@pytest.mark.parametrize(("zones", "stays"), [("aabb", True), ("abb", False), ("abbc", True)])
def test_vm_with_a_second_node_in_its_zone_can_migrate(zones: str, stays: bool) -> None:
    cluster = Cluster(zones)
    for name, node in (("a", "n1"), ("b", "n3")):
        cluster.run(name, node, anti_affinity(apart(ZONE, g="x")), g="x")

    assert (online(cluster) == {}) is stays
    assert (offline(cluster, nodes=True) == {}) is stays


def test_over_domains_of_one_node_nothing_is_lost() -> None:
    cluster = Cluster("abc")
    cluster.run("db", "n1", anti_affinity(apart(tier="db", plain=True)), tier="db")

    assert online(cluster) == {}
    assert offline(cluster, nodes=True) == {}


def test_a_term_about_others_blocks_nothing() -> None:
    cluster = Cluster()
    cluster.run("web", "n3", tier="web")
    cluster.run("db", "n1", anti_affinity(apart(tier="web", plain=True)), tier="db")

    assert online(cluster) == {}
    assert offline(cluster) == {}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {HOST: "n1"}}, id="nodeSelector"),
        pytest.param(
            node_affinity(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ),
            id="matchFields",
        ),
    ],
)
def test_vm_pinned_to_one_node_cannot_migrate(spec: dict[str, object]) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", spec)

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"blocks_live_migration"}
        assert "name a single node" in found["blocks_live_migration"].why


@pytest.mark.parametrize("claim", ["resourceClaimName", "resourceClaimTemplateName"])
def test_vm_with_a_resource_claim_of_its_own_cannot_migrate(claim: str) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"resourceClaims": [{"name": "gpu", claim: "gpu-1"}]})

    for found in (online(cluster), offline(cluster), offline(cluster, nodes=True)):
        whys = [found[name].why for name in found if name == "blocks_live_migration"]
        own = ["it uses the ResourceClaim gpu-1, whose devices" in why for why in whys]
        assert own == ([True] if claim == "resourceClaimName" else [])


@pytest.mark.parametrize("value", [3, "gpu", {"a": 1}, ["gpu", None], [{"resourceClaimName": {}}]])
def test_resource_claims_of_a_file_that_no_api_server_takes_are_none(value: object) -> None:
    cluster = Cluster()
    cluster.vm("db", {"resourceClaims": value})

    assert "blocks_live_migration" not in offline(cluster)


@pytest.mark.parametrize(("length", "blocked"), [(63, False), (64, True)])
def test_vm_with_a_long_name_cannot_migrate(length: int, blocked: bool) -> None:
    cluster = Cluster()
    cluster.run("x" * length, "n1")

    for found in (online(cluster), offline(cluster)):
        assert ("blocks_live_migration" in found) is blocked
        if blocked:
            assert "its name has 64 characters" in found["blocks_live_migration"].why


@pytest.mark.parametrize(("kubevirt", "has_field"), [("v1.4.0", False), ("v1.6.0", True)])
def test_advice_for_a_pinned_vm_names_no_field_that_its_kubevirt_lacks(
    kubevirt: str, has_field: bool
) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {HOST: "n1"}})
    platform = dataclasses.replace(cluster.more["platform"], kubevirt=kubevirt)

    for found in (online(cluster, platform=platform), offline(cluster, platform=platform)):
        assert ("addedNodeSelector" in found["blocks_live_migration"].advice) is has_field


@pytest.mark.parametrize("status", ["Running", "Paused"])
def test_spread_added_to_a_running_vm_needs_a_restart(status: str) -> None:
    cluster = Cluster()
    ref = cluster.run("web", "n1", tier="web")
    cluster.template(ref)["spec"].update(spread(tier="web"))
    cluster.workloads[ref]["status"] = {"printableStatus": status}

    for found in (online(cluster), offline(cluster)):
        assert found["restart_required"].severity == "warning"


@pytest.mark.parametrize(
    ("kubevirt", "strategy", "advice"),
    [
        ("v1.4.0", None, "Restart the VM."),
        ("v1.6.0", "Stage", "Restart the VM."),
        (
            "v1.6.0",
            None,
            "Restart the VM, or use keep_apart, which takes effect by live migration.",
        ),
    ],
)
def test_keep_apart_is_advised_only_where_it_takes_effect_by_migration(
    kubevirt: str, strategy: str | None, advice: str
) -> None:
    cluster = Cluster()
    ref = cluster.run("web", "n1", tier="web")
    cluster.template(ref)["spec"].update(spread(tier="web"))
    cluster.workloads[ref]["status"] = {"printableStatus": "Running"}
    platform = dataclasses.replace(
        cluster.more["platform"], kubevirt=kubevirt, rollout_strategy=strategy
    )

    for found in (online(cluster, platform=platform), offline(cluster, platform=platform)):
        assert found["restart_required"].advice == advice


def test_spread_removed_from_a_running_vm_needs_a_restart() -> None:
    cluster = Cluster()
    ref = cluster.run("web", "n1", spread(tier="web"), tier="web")
    del cluster.template(ref)["spec"]["topologySpreadConstraints"]

    assert set(online(cluster)) == {"restart_required"}


def test_spread_with_which_a_vm_started_is_enforced() -> None:
    cluster = Cluster()
    ref = cluster.run("web", "n1", spread(over=ZONE, tier="web"), tier="web")
    cluster.workloads[ref]["status"] = {"printableStatus": "Stopped"}

    assert "restart_required" not in online(cluster)
    assert "restart_required" not in offline(cluster)
