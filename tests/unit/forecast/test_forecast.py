# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forecasts say of situations whose outcome is known from a real scheduler."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    NO_CERTAINTY,
    Doubt,
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.model.write import Operation
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    cluster,
    deployment,
    expression,
    keep_apart,
    machine,
    node_affinity,
    replica_set,
    selector,
    spread,
)
from tests.unit.planning import scenes
from tests.unit.planning.scenes import JSON, lost, names

WEB = ("web-a", "web-b", "web-c", "web-d")


def zone_group(made: Cluster, nodes: t.Iterable[str], *, plain: bool = False) -> None:
    for name, node in zip(WEB, nodes, strict=False):
        machine(made, name, node, {"affinity": keep_apart(plain=plain, g="web")}, g="web")


# A drain: two machines on two nodes, then with a third node (S10).


def test_drain_with_two_vms_apart_on_two_nodes_is_impossible() -> None:
    made = cluster("ab")
    for name, node in (("db-a", "n1"), ("db-b", "n2")):
        machine(made, name, node, {"affinity": keep_apart(over=HOST, g="db")}, g="db")

    before = lost(made, "n1")
    made.node("n3", {ZONE: "a"})
    after = lost(made, "n1")

    assert before.answer is ForecastResult.IMPOSSIBLE
    assert [(stuck.instance.name, stuck.if_restarted) for stuck in before.not_migratable] == [
        ("db-a", ())
    ]
    assert before.reasons[0].startswith("VM db-a: 0/2 nodes are available: ")
    assert after.answer is ForecastResult.GUARANTEED
    (move,) = after.moves
    assert (move.method, move.source, move.targets) == (Method.MIGRATE, "n1", ("n3",))


def test_a_pair_that_needs_each_other_cannot_leave_its_node() -> None:
    made = cluster("ab")
    for mine, other in (("a", "b"), ("b", "a")):
        term = {"labelSelector": selector(app=other), "topologyKey": HOST}
        machine(made, mine, "n1", affinity(term), app=mine)

    found = lost(made, "n1")

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert sorted(names(found.not_migratable)) == ["a", "b"]
    assert found.pending == ()


# Three zones of two nodes, one machine a zone (S11).


@pytest.mark.parametrize(("kubevirt", "has_field"), [("v1.4.0", False), ("v1.6.0", True)])
def test_remediation_names_no_field_that_this_kubevirt_lacks(
    kubevirt: str, has_field: bool
) -> None:
    made = cluster("aabbcc")
    made.more["platform"] = dataclasses.replace(made.more["platform"], kubevirt=kubevirt)
    zone_group(made, ["n1", "n3", "n5"], plain=True)
    deadlock = lost(made, "n1").deadlock
    assert deadlock is not None
    assert any("addedNodeSelector" in way for way in deadlock.remediation) is has_field


def test_the_plain_zone_rule_holds_a_migration_up_and_the_safe_form_does_not() -> None:
    plain, safe = cluster("aabbcc"), cluster("aabbcc")
    zone_group(plain, ["n1", "n3", "n5"], plain=True)
    zone_group(safe, ["n1", "n3", "n5"])

    refused, allowed = lost(plain, "n1"), lost(safe, "n1")

    assert refused.answer is ForecastResult.IMPOSSIBLE
    (stuck,) = refused.not_migratable
    assert (stuck.instance.name, stuck.if_restarted) == ("web-a", ("n2",))
    assert "node(s) didn't match pod anti-affinity rules (g In (web) over zone)" in str(
        stuck.reason
    )
    assert refused.deadlock is not None
    assert any("downtime" in way for way in refused.deadlock.remediation)
    assert allowed.answer is ForecastResult.GUARANTEED
    assert [(move.method, move.targets) for move in allowed.moves] == [(Method.MIGRATE, ("n2",))]


def test_fourth_vm_apart_in_three_zones_is_unschedulable() -> None:
    made = cluster("aabbcc")
    refs = [machine(made, name, "", g="web") for name in WEB]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert found.reasons == (
        "4 VMs (web-a, web-b, web-c, web-d) need 4 different zones (anti-affinity), and only 3"
        " (a, b, c) are feasible",
    )
    assert (found.instances_to_schedule, found.min_unschedulable, len(found.pending)) == (4, 1, 1)


# Spread over hosts, and hard anti-affinity beside it (S14).


@pytest.mark.parametrize("replicas", [3, 4, 6])
def test_a_spread_takes_any_number(replicas: int) -> None:
    made = cluster("abc")
    ref = deployment(made, "web", ["n1"], spread(HOST, app="web"))
    snapshot = made.snapshot()

    found = forecast(what_if(snapshot, scale=[Scale(ref, replicas)]))

    assert (found.answer, found.instances_to_schedule) == (ForecastResult.GUARANTEED, replicas - 1)


def test_one_per_host_takes_three_of_four() -> None:
    made = cluster("abc")
    spec = {"affinity": keep_apart(over=HOST, plain=True, app="web")}
    ref = deployment(made, "web", ["n1"], spec)
    snapshot = made.snapshot()

    found = forecast(what_if(snapshot, scale=[Scale(ref, 4)]))

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert (
        "need 3 different nodes (anti-affinity), and only 2 (n2, n3) are feasible"
        in found.reasons[0]
    )


def test_s14_one_per_host_takes_three_of_four_though_two_hosts_have_a_node_to_spare() -> None:
    """The hosts of five nodes, two of which have two."""
    made = cluster("aabbc")
    spec = {"affinity": keep_apart(plain=True, app="web")}
    ref = deployment(made, "web", ["n1", "n3", "n5"], spec)
    snapshot = made.snapshot()

    found = forecast(what_if(snapshot, scale=[Scale(ref, 4)]))

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert len(found.pending) == 1


# A spread when one domain is drained, by its taints policy (S15).


@pytest.mark.parametrize("event", ["drain", "failure"])
def test_a_drained_domain_still_counts_unless_taints_are_honoured(event: t.Any) -> None:
    ignoring, honouring = cluster("abc"), cluster("abc")
    spec = spread(ZONE, app="web")
    deployment(ignoring, "web", ["n1", "n2", "n3"], spec)
    honoured = {**spec["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}
    nodes = ["n1", "n2", "n3"]
    deployment(honouring, "web", nodes, {"topologySpreadConstraints": [honoured]})

    stranded = lost(ignoring, "n3", event=event)
    placed = lost(honouring, "n3", event=event)

    assert (stranded.answer, len(stranded.pending)) == (ForecastResult.IMPOSSIBLE, 1)
    assert "didn't match pod topology spread constraints (zone)" in stranded.reasons[0]
    assert (placed.answer, placed.pending) == (ForecastResult.GUARANTEED, ())


# The article: fast nodes in three zones, one of them drained (S18, S22).


def article(spec: t.Mapping[str, t.Any]) -> Cluster:
    made = cluster("aabbcc", migrates=False)
    for name in ("n2", "n4", "n6"):
        made.nodes[name]["metadata"]["labels"]["performance"] = "high"
    replica_set(
        made, "mssql", ["n2", "n4", "n6"], {"nodeSelector": {"performance": "high"}, **spec}
    )
    return made


def test_pods_without_a_rule_may_share_a_zone() -> None:
    made = article({})

    found = lost(made, "n2")

    assert (found.answer, found.pending) == (ForecastResult.GUARANTEED, ())
    (move,) = found.moves
    assert (move.method, sorted(move.targets)) == (Method.RECREATE, ["n4", "n6"])


def test_with_the_rule_one_waits_until_its_zone_is_back() -> None:
    made = article({"affinity": keep_apart(app="mssql")})

    found = lost(made, "n2")

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert names(found.pending) == ["mssql-0"]
    assert "node(s) didn't match pod anti-affinity rules" in str(found.pending[0].reason)


def test_node_that_is_nominated_for_a_pod_is_open_once_that_is_placed_elsewhere() -> None:
    made = cluster("abc")
    for name in ("n1", "n2"):
        made.nodes[name]["status"]["allocatable"]["cpu"] = "1"
    made.nodes["n2"]["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    deployment(made, "web", ["n3"], {})
    pod = made.bare_pod("waits", "", {"tolerations": [{"operator": "Exists"}]})
    pod["status"]["nominatedNodeName"] = "n1"

    assert lost(made, "n3").answer is ForecastResult.POSSIBLE


# A roll-out that starts by itself (S25).


def test_workload_rollout_with_as_many_pods_as_nodes_needs_max_unavailable() -> None:
    made = cluster("abc")
    spec = {"affinity": keep_apart(over=HOST, plain=True, app="web")}
    ref = deployment(made, "web", ["n1", "n2", "n3"], spec)
    change = scenes.template_write(ref, "nodeSelector", {"kubevirt.io/schedulable": "true"})
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    held = Operation("add", Pointer(("spec", "strategy")), strategy)

    naive = scenes.written(made, change)
    careful = scenes.written(
        made, dataclasses.replace(change, operations=(*change.operations, held))
    )

    assert (naive.answer, naive.min_unschedulable, len(naive.pending)) == (
        ForecastResult.IMPOSSIBLE,
        1,
        1,
    )
    assert naive.deadlock is not None
    assert "maxSurge 0" in naive.deadlock.remediation[0]
    assert (careful.answer, careful.pending) == (ForecastResult.POSSIBLE, ())
    assert careful.reasons == (
        "not guaranteed: the workload rollout may end old pods before new ones have a node",
    )


# What somebody else is migrating meanwhile.


def migrating(made: Cluster, name: str, node: str) -> None:
    """The target of a migration has found a node; empty: it still waits."""
    made.launcher(name, node)
    ref = Ref("VirtualMachineInstanceMigration", "shop", "by-hand")
    made.more["migrations"] = (Migration(ref, "u-by-hand", name, "Scheduling"),)


def test_migration_target_takes_no_second_domain() -> None:
    """Two zones for two, one of which is on its way; a third has none, whatever is done."""
    made = cluster("aab")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]
    migrating(made, "web-b", "n3")
    term = keep_apart(plain=True, g="web")
    writes = [scenes.template_write(ref, "affinity", term) for ref in refs]

    two = scenes.written(made, *writes)
    third = machine(made, "web-c", "n1", g="web")
    three = scenes.written(made, *writes, scenes.template_write(third, "affinity", term))

    assert (two.answer, two.moves, two.skipped) == (ForecastResult.GUARANTEED, (), ())
    assert three.answer is ForecastResult.IMPOSSIBLE
    assert "3 VMs (web-a, web-b, web-c) need 3 different zones" in three.reasons[0]


def test_vm_that_migrates_off_the_drained_node_needs_no_other_node() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"affinity": keep_apart(over=HOST, plain=True, g="db")}, g="db")
    migrating(made, "db", "n2")

    leaves, comes = lost(made, "n1"), lost(made, "n2")

    assert (leaves.answer, leaves.instances_to_schedule) == (ForecastResult.GUARANTEED, 0)
    assert (comes.answer, comes.instances_to_schedule) == (ForecastResult.GUARANTEED, 1)


def test_a_target_that_waits_is_the_one_that_is_sought_for() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"affinity": keep_apart(over=HOST, g="db")}, g="db")
    migrating(made, "db", "")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"

    found = lost(made, "n1")

    assert (found.answer, found.instances_to_schedule) == (ForecastResult.GUARANTEED, 1)


# What ends, what is held, what is not known.


def test_drain_with_a_vm_that_may_not_restart_is_impossible() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    ]

    found = lost(made, "n1")

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert names(found.not_migratable) == ["db"]
    assert "DisksNotLiveMigratable" in found.reasons[0]


def test_instance_without_controller_is_reported_as_not_recreated() -> None:
    made = cluster("ab")
    made.bare_pod("lonely", "n1")

    found = lost(made, "n1", event="failure")

    assert [finding.name for finding in found.findings] == ["not_recreated"]
    assert "Pod shop/lonely" in found.findings[0].why


def test_vm_of_a_failed_node_is_down_until_fenced_and_then_schedulable_in_its_zone() -> None:
    """Before the node is fenced KubeVirt creates no new pod, and then the old one is gone."""
    made = cluster("aabb")
    zone_group(made, ["n1", "n3"], plain=True)

    failed = lost(made, "n1", event="failure")

    assert failed.answer is ForecastResult.GUARANTEED
    assert [ref.name for ref in failed.down_until_fenced] == ["web-a"]
    assert lost(made, "n1").down_until_fenced == ()


def test_pod_of_a_failed_node_keeps_its_replacement_out_of_its_zone() -> None:
    """A Deployment's pod is replaced while it terminates, and terminating pods count."""
    made = cluster("aabb")
    deployment(made, "web", ["n1", "n3"], {"affinity": keep_apart(plain=True, app="web")})

    failed = lost(made, "n1", event="failure")

    assert (failed.answer, failed.down_until_fenced) == (ForecastResult.IMPOSSIBLE, ())
    assert failed.min_unschedulable == 1


@pytest.mark.parametrize(("grace", "answer"), [(3630, "guaranteed"), (315360000, "impossible")])
@pytest.mark.parametrize("event", ["drain", "failure"])
def test_pod_that_terminates_for_hours_keeps_its_room(
    grace: int, answer: str, event: NodeEvent
) -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    pod = made.bare_pod("slow", "n2", namespace="other")
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "16"
    pod["metadata"].update(
        deletionTimestamp="2036-01-01T00:00:00Z", deletionGracePeriodSeconds=grace
    )

    (drilled,) = [x for x in drill(made.snapshot(), [HOST], event=event).drills if x.domain == "n1"]

    assert (lost(made, "n1", event=event).answer.value, drilled.answer.value) == (answer, answer)


@pytest.mark.parametrize(
    ("gates", "answer"), [([], "possible"), ([{"name": "a.b/c"}], "guaranteed")]
)
def test_waiting_pod_with_scheduling_gates_takes_no_room(gates: list[JSON], answer: str) -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    pod = made.bare_pod("waits", "", {"schedulingGates": gates}, namespace="other")
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "16"

    drills = drill(made.snapshot(), [HOST], event="drain").drills
    (drilled,) = [x for x in drills if x.domain == "n1"]

    assert (lost(made, "n1").answer.value, drilled.answer.value) == (answer, answer)


def test_pod_with_scheduling_gates_counts_where_its_workload_is_in_question() -> None:
    made = cluster("ab")
    ref = deployment(made, "web", ["n1", ""], {"schedulingGates": [{"name": "a.b/c"}]})

    found = forecast(what_if(made.snapshot(), scale=[Scale(ref, 2)]))

    assert found.instances_to_schedule == 1


def without_n1(snapshot: Snapshot, **more: t.Any) -> Forecast:
    return forecast(what_if(snapshot, lost_nodes=["n1"]), **more)


@pytest.mark.parametrize("resource", ["pods", "nodes", "virtualmachineinstances"])
def test_forecast_with_a_gap_is_unknown(resource: str) -> None:
    made = cluster("ab")
    gap = Unreadable(resource, "", "list", "forbidden")
    snapshot = made.snapshot(unreadable=(gap,))

    found = without_n1(snapshot)

    assert (found.answer, found.unreadable) == (ForecastResult.UNKNOWN, (gap,))
    assert "forbidden" in found.reasons[0]


def test_volumes_matter_only_where_there_are_claims() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    gap = Unreadable("persistentvolumes", "", "list", "forbidden")
    snapshot = made.snapshot(unreadable=(gap,))

    assert without_n1(snapshot).answer is ForecastResult.GUARANTEED


def qualified(**more: t.Any) -> Forecast:
    made = cluster("ab")
    machine(made, "db", "n1")
    snapshot = made.snapshot()
    return without_n1(snapshot, **more)


def test_assumptions_take_guarantees_away() -> None:
    assert qualified().answer is ForecastResult.GUARANTEED
    worse = Doubt("not_reported_migratable", "x is not known")
    assert qualified(doubts=[worse]).answer is ForecastResult.POSSIBLE
    guess = Doubt("next_pod_estimated", "x is a guess", NO_CERTAINTY)
    assert qualified(doubts=[guess]).reasons == ("not guaranteed: x is a guess",)


def test_a_volume_that_only_a_lost_node_reaches_is_a_proof() -> None:
    made = cluster("ab", migrates=False)
    machine(made, "db", "n1")
    (pod,) = made.pods.values()
    pod["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    term = NodeTerm((Requirement(HOST, "In", ("n1",)),))
    snapshot = made.snapshot(claim_terms={("shop", "data"): (term,)})

    found = without_n1(snapshot)

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert "node(s) didn't match PersistentVolume's node affinity" in found.reasons[0]


@pytest.mark.parametrize("cordoned", [False, True])
def test_drain_of_a_cordoned_node_with_a_vm_that_cannot_migrate_is_impossible(
    cordoned: bool,
) -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    (vmi,) = made.machines.values()
    vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False", "reason": "Disks"}]
    made.nodes["n1"]["spec"]["unschedulable"] = cordoned

    found = lost(made, "n1")

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert [each.workload for each in found.not_migratable] == [ref]
    assert scenes.written(made).not_migratable == (), "it may stay on a node that is not drained"


def test_workload_rollout_of_type_recreate_has_no_moves() -> None:
    made = cluster("ab")
    ref = deployment(made, "web", ["n1", "n2"], {})
    made.workloads[ref]["spec"]["strategy"] = {"type": "Recreate"}

    found = scenes.written(made, scenes.pinned(ref, "a"))

    assert (found.answer, found.instances_to_schedule, found.moves) == (
        ForecastResult.GUARANTEED,
        2,
        (),
    )
    both = scenes.written(made, scenes.pinned(ref, "b"), lost_nodes=["n1"])
    assert {move.source for move in both.moves} <= {"n1"}


def test_drain_is_blocked_by_a_vm_with_a_resource_claim_and_not_by_one_with_a_template() -> None:
    for claim, answer in (
        ("resourceClaimName", "impossible"),
        ("resourceClaimTemplateName", "possible"),
    ):
        made = cluster("ab")
        machine(made, "gpu", "n1", {"resourceClaims": [{"name": "gpu", claim: "gpu-1"}]})
        found = lost(made, "n1")
        assert found.answer == answer
        reasons = [str(stuck.reason) for stuck in found.not_migratable]
        assert any("it uses the ResourceClaim gpu-1" in x for x in reasons) is (
            answer == "impossible"
        )


def test_name_too_long_for_a_migration_blocks_a_drain_and_no_failure() -> None:
    made = cluster("ab")
    machine(made, "x" * 64, "n1")
    found = lost(made, "n1")
    (stuck,) = found.not_migratable
    assert found.answer == "impossible" and "its name has 64 characters" in str(stuck.reason)
    assert stuck.reason.code == "not_live_migratable"
    assert lost(made, "n1", event="failure").answer == "guaranteed"


@pytest.mark.parametrize(
    ("strategy", "answer"), [("LiveMigrateIfPossible", "guaranteed"), ("LiveMigrate", "impossible")]
)
def test_a_long_name_holds_nothing_up_that_is_not_migrated(strategy: str, answer: str) -> None:
    made = cluster("ab")
    machine(made, "x" * 64, "n1", {"evictionStrategy": strategy})
    vmi = made.machines["x" * 64]
    vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False", "reason": "Disks"}]

    assert lost(made, "n1").answer == answer


def test_vm_on_a_node_without_virt_handler_may_not_migrate() -> None:
    made = cluster("abc")
    machine(made, "db", "n1")
    made.nodes["n1"]["metadata"]["labels"]["kubevirt.io/schedulable"] = "false"
    made.nodes["n2"]["metadata"]["labels"]["kubevirt.io/schedulable"] = "false"
    change = what_if(made.snapshot(), lost_nodes=["n1"])

    found = forecast(change, doubts=doubts_of_change(change))

    assert (found.answer, found.codes) == ("possible", ("not_reported_migratable",))
    assert found.reasons == (
        "not guaranteed: VirtualMachineInstance shop/db may not migrate: node n1 has the label"
        " kubevirt.io/schedulable=false, so its virt-handler may not run",
    )
    assert [move.targets for move in found.moves] == [("n3",)]


@pytest.mark.parametrize(
    ("version", "model", "labels", "answer"),
    [
        ("v1.4.0", "host-model", (), "possible"),
        ("v1.5.2", "host-model", (), "possible"),
        ("v1.6.0", "host-model", (), "guaranteed"),
        ("v1.4.0", "Haswell", (), "guaranteed"),
        ("v1.4.0", "host-model", ("host-model-cpu", "cpu-model-migration"), "guaranteed"),
    ],
)
def test_vm_with_host_model_may_not_migrate_off_a_node_without_the_label_of_its_model(
    version: str, model: str, labels: tuple[str, ...], answer: str
) -> None:
    made = cluster("abc")
    machine(made, "db", "n1", {"domain": {"cpu": {"model": model}}})
    for node in made.nodes.values():
        node["metadata"]["labels"] |= {f"{x}.node.kubevirt.io/Haswell": "true" for x in labels}
    snapshot = made.snapshot()
    platform = dataclasses.replace(snapshot.platform, kubevirt=version)
    change = what_if(dataclasses.replace(snapshot, platform=platform), lost_nodes=["n1"])

    found = forecast(change, doubts=doubts_of_change(change))

    assert found.answer == answer, found.reasons
    if answer == "possible":
        assert found.reasons == (
            "not guaranteed: VirtualMachineInstance shop/db may not migrate: node n1 has no label"
            " host-model-cpu.node.kubevirt.io/MODEL, without which KubeVirt before 1.6 makes no target pod for a VM"
            " with the CPU model host-model. virt-handler sets it",
        )


def test_deployment_scaled_from_zero_has_the_requests_and_rules_of_its_template() -> None:
    made = cluster("abc")
    container = {
        "name": "web",
        "resources": {"limits": {"cpu": "9"}, "requests": {"memory": "1Gi"}},
    }
    spec = {"containers": [container], "affinity": keep_apart(over=HOST, plain=True, app="web")}
    ref = deployment(made, "web", [], spec)
    machine(made, "large", "n1")
    made.pods["shop", "virt-launcher-large-0"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "8"}
    }

    change = what_if(made.snapshot(), scale=[Scale(ref, 3)])
    found = forecast(change)

    assert [pending.pod.requests["cpu"] for pending in change.pending] == [9000] * 3
    assert all(pending.workload == ref for pending in change.pending)
    assert (found.answer, found.instances_to_schedule, found.min_unschedulable) == (
        ForecastResult.IMPOSSIBLE,
        3,
        1,
    )
    assert "3 pods (web-next-0, web-next-1, web-next-2) need 3 different nodes" in found.reasons[0]
    assert forecast(what_if(made.snapshot(), scale=[Scale(ref, 2)])).answer == "guaranteed"


def without_owner(made: Cluster) -> None:
    machine(made, "alone", "n1")
    del made.machines["alone"]["metadata"]["ownerReferences"]
    made.workloads.clear()


def test_drain_migrates_a_vmi_without_owner() -> None:
    made = cluster("ab")
    without_owner(made)

    found = lost(made, "n1")

    (move,) = found.moves
    assert (found.answer, found.findings) == (ForecastResult.GUARANTEED, ())
    assert (move.method, move.instance, move.workload) == (
        Method.MIGRATE,
        move.workload,
        Ref("VirtualMachineInstance", "shop", "alone"),
    )


def test_drain_ends_a_vmi_without_owner_that_may_not_migrate() -> None:
    made = cluster("ab", migrates=False)
    without_owner(made)

    found = lost(made, "n1")

    assert (found.instances_to_schedule, found.moves) == (0, ())
    (finding,) = found.findings
    assert (finding.name, finding.severity) == ("not_recreated", "warning")
    assert "ends with its node: no controller recreates this instance" in finding.why


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(
    ("run_strategy", "answer", "placed"),
    [
        ("Always", ForecastResult.GUARANTEED, 1),
        ("Manual", ForecastResult.GUARANTEED, 0),
        ("RerunOnFailure", ForecastResult.POSSIBLE, 1),
    ],
)
def test_vm_of_a_pool_starts_again_by_its_own_run_strategy(
    run_strategy: str, answer: ForecastResult, placed: int, is_read: bool
) -> None:
    made = cluster("ab", migrates=False)
    vm = machine(made, "pool-0", "n1", {"domain": {}})
    template = made.workloads[vm]["spec"]["template"]
    pool = made.workload(
        "VirtualMachinePool", "pool", {"virtualMachineTemplate": {"spec": {"template": template}}}
    )
    uid = made.workloads[pool]["metadata"]["uid"]
    owner = {"kind": pool.kind, "name": pool.name, "uid": uid, "controller": True}
    made.workloads[vm]["metadata"]["ownerReferences"] = [owner]
    made.workloads[vm]["spec"]["runStrategy"] = run_strategy
    if not is_read:
        del made.workloads[pool]
    change = what_if(made.snapshot(), lost_nodes=["n1"])

    found = forecast(change, doubts=doubts_of_change(change))

    assert (found.answer, found.instances_to_schedule) == (answer, placed)
    assert [each.name for each in found.findings] == ["not_recreated"] * (1 - placed)


def test_proof_of_a_blocked_drain_names_the_group_and_its_scarce_resource() -> None:
    made = cluster("ab", migrates=False)
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "2"
    for name in ("a", "b", "c"):
        machine(made, name, "n1")

    found = lost(made, "n1")

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert found.reasons == (
        "3 VMs (a, b, c) need more cpu than is free: 1 feasible node (n2) has capacity"
        " for 2 of them",
    )


@pytest.mark.parametrize("stopped", ["drain", "failure"])
def test_vm_that_is_not_started_again_ends_with_its_node(stopped: t.Any) -> None:
    made = cluster("ab", migrates=False)
    ref = machine(made, "once", "n1")
    made.workloads[ref]["spec"]["runStrategy"] = "Once"

    found = lost(made, "n1", event=stopped)

    assert found.instances_to_schedule == 0
    assert "a VM with run strategy Once is not started again" in found.findings[0].why


@pytest.mark.parametrize(
    ("event", "nodes", "answer"),
    [
        ("drain", "ab", ForecastResult.POSSIBLE),
        ("drain", "a", ForecastResult.UNKNOWN),
        ("failure", "ab", ForecastResult.GUARANTEED),
        ("failure", "a", ForecastResult.IMPOSSIBLE),
    ],
)
def test_drained_vm_that_reruns_on_failure_may_stay_off(
    event: t.Any, nodes: str, answer: ForecastResult
) -> None:
    """A guest that is asked to shut down by a drain has not failed."""
    made = cluster(nodes, migrates=False)
    ref = machine(made, "batch", "n1")
    made.workloads[ref]["spec"]["runStrategy"] = "RerunOnFailure"
    change = what_if(made.snapshot(), lost_nodes=["n1"], event=event)

    found = forecast(change, doubts=doubts_of_change(change))
    drilled = drill(made.snapshot(), [HOST], event=event)

    assert found.answer is answer
    (node,) = [x for x in drilled.drills if x.domain == "n1"]
    assert node.answer is answer
    for reasons in (found.reasons, node.reasons):
        stays_off = any("started again only if its guest does not shut down" in x for x in reasons)
        assert stays_off == (event == "drain"), reasons


def test_pod_of_a_daemon_set_stays_on_a_drained_node() -> None:
    made = cluster("ab")
    pod = made.bare_pod("agent", "n1")
    pod["metadata"]["ownerReferences"] = [
        {"kind": "DaemonSet", "name": "agent", "uid": "u-agent", "controller": True}
    ]

    found = lost(made, "n1")

    assert (found.answer, found.instances_to_schedule, found.findings) == (
        ForecastResult.GUARANTEED,
        0,
        (),
    )


# Eviction strategy External: KubeVirt only marks the VMI, and another controller has to move it.


@pytest.mark.parametrize("conditions", [[{"type": "LiveMigratable", "status": "True"}], []])
def test_drain_of_a_vm_with_eviction_strategy_external_is_unknown(conditions: t.Any) -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"evictionStrategy": "External"})
    made.machines["db"]["status"]["conditions"] = conditions

    found = lost(made, "n1")

    assert (found.answer, found.moves) == (ForecastResult.UNKNOWN, ())
    assert [(x.instance.name, x.certain) for x in found.not_migratable] == [("db", False)]
    assert found.reasons == (
        "VirtualMachineInstance shop/db stays on n1 until another controller moves it: its eviction"
        " strategy is External",
    )


def test_other_pods_are_not_called_unschedulable_where_an_external_vm_may_leave() -> None:
    """web-a has no other node while db runs on n1 of the same zone; another controller may move db first."""
    made = cluster("aab")
    machine(made, "db", "n1", {"evictionStrategy": "External"}, g="db")
    within = node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]})["affinity"]
    machine(made, "web", "n3", {"affinity": {**within, **keep_apart(g="db")}}, g="web")

    found = lost(made, "n1", "n3")

    assert found.answer is ForecastResult.UNKNOWN
    assert found.reasons[0].startswith("unless other VMs move: VM web: 0/3 nodes are available: ")
    assert found.min_unschedulable == 0
    assert not any(pending.certain for pending in found.pending)
    assert not any(instance.certain for instance in found.not_migratable)


def test_drill_of_a_vm_with_eviction_strategy_external_is_unknown() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"evictionStrategy": "External"})

    drilled = next(x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.has_impact)

    assert (drilled.answer, [ref.name for ref in drilled.not_migratable]) == (
        ForecastResult.UNKNOWN,
        ["db"],
    )


def test_failure_of_a_node_restarts_a_vm_with_eviction_strategy_external() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"evictionStrategy": "External"})

    assert lost(made, "n1", event="failure").answer is ForecastResult.GUARANTEED


@pytest.mark.parametrize("kept_by", ["label", "dead node"])
def test_a_vm_that_no_rollout_moves_is_no_move(kept_by: str) -> None:
    """Two VMs in one zone are to be apart, and one that stays is as good as pinned."""
    made = cluster("aab")
    refs = [
        machine(made, name, "n1", {"affinity": keep_apart(g="db")}, g="db") for name in ("a", "b")
    ]
    for ref in refs:
        if kept_by == "label":
            made.workloads[ref]["metadata"]["labels"] = {"placement.virt/do-not-move": "true"}
    if kept_by == "dead node":
        unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
        made.nodes["n1"]["spec"]["taints"] = [unreachable]

    result = forecast(what_if(made.snapshot(), members=refs))
    drained = lost(made, "n1")

    assert result.moves == ()
    assert result.answer is ForecastResult.IMPOSSIBLE
    reason = "do-not-move" if kept_by == "label" else "its node n1 is NotReady"
    assert all(reason in str(skipped.reason) for skipped in result.skipped)
    if kept_by == "dead node":
        assert [reason in str(x.reason) for x in drained.not_migratable] == [True, True]
        assert drained.moves == ()
    else:
        assert drained.answer is not ForecastResult.IMPOSSIBLE, "the label is about rollouts"
