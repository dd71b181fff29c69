# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans: which instances move, and which are skipped with which reason."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import (
    MIGRATION,
    RESTART,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from ansible_collections.virt.placement.plugins.module_utils.planning import repair
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
    Scope,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    PREFERRED,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    deployment,
    expression,
    node_affinity,
    replica_set,
    selector,
    spread,
)
from tests.support.cluster import cluster as large_cluster
from tests.unit.compliance.judged import judge, of, rule

from .movable import Kept

SHOP = InstanceSelection(namespaces=frozenset({"shop"}))
KEPT = Obstacle("do_not_move", "its VM has the label")
IN_ZONE_A = (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a"))
IN_ZONE_D = (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "d"))


def code_of(skipped: SkippedInstance) -> str:
    return skipped.reason.code if isinstance(skipped.reason, Obstacle) else ""


def planned(snapshot: Snapshot, request: PlanRequest) -> Plan:
    return plan_moves(snapshot, request, movable_instances(snapshot, request.selection))


def plan_of(cluster: Cluster, *methods: Method, scope: Scope = "violated") -> Plan:
    allowed = frozenset(methods or (Method.MIGRATE,))
    return planned(cluster.snapshot(), PlanRequest(SHOP, scope, allow=allowed))


def bypassed(node: str) -> Cluster:
    """`db` has the rule `on-a` and, beside its expression, a foreign node term for zone b."""
    cluster = Cluster("aabb")
    ref = cluster.vm("db", tier="db")
    cluster.write(ref, "on-a", IN_ZONE_A)
    terms = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"]
    for required in terms.values():
        required["nodeSelectorTerms"].append({"matchExpressions": [expression(ZONE, "In", "b")]})
    cluster.start(ref, node)
    return cluster


def test_vm_in_zone_of_foreign_node_term_is_violated_and_skipped_with_reason() -> None:
    cluster = bypassed("n3")

    verdicts = judge(cluster.snapshot())
    plan = plan_of(cluster)

    assert rule(verdicts, "db", "shop/default/on-a").verdict is Verdict.VIOLATED
    assert of(verdicts, "db").misplaced
    assert not plan.moves
    (skipped,) = plan.skipped
    assert skipped.instance.name == "db"
    assert "shop/default/on-a" in str(skipped.reason)
    assert "nodeSelectorTerms[1]" in str(skipped.reason)
    assert "write the rules again" in str(skipped.reason)


def test_vm_in_zone_of_rule_stays_though_foreign_node_term_bypasses_rule() -> None:
    cluster = bypassed("n1")

    verdicts = judge(cluster.snapshot())

    assert rule(verdicts, "db", "shop/default/on-a").verdict is Verdict.VIOLATED
    assert not of(verdicts, "db").misplaced
    assert plan_of(cluster) == Plan()


def test_better_nodes_of_bypassed_rule_satisfy_the_rule() -> None:
    verdict = rule(judge(bypassed("n3").snapshot()), "db", "shop/default/on-a")
    assert verdict.better_nodes == ("n1", "n2")


def test_no_moves_repair_bypassed_rule_whose_zone_is_closed() -> None:
    cluster = bypassed("n3")
    for node in ("n1", "n2"):
        cluster.nodes[node]["spec"]["unschedulable"] = True

    assert judge(cluster.snapshot()).moves_needed == {"shop/default/on-a": None}


def vm_with_two_own_terms(node: str) -> Cluster:
    """`db` has two own node terms, for zones a and b and for any node, and the rule `on-a` in both."""
    cluster = Cluster("aabb")
    own = ({"matchExpressions": [expression(ZONE, "In", "a", "b")]}, _ANY_NODE)
    ref = cluster.run("db", node, node_affinity(*own), tier="db")
    cluster.write(ref, "on-a", IN_ZONE_A)
    return cluster


_ANY_NODE = {"matchExpressions": [expression(HOST, "Exists")]}


def test_vm_with_rule_in_each_of_its_own_node_terms_is_violated_and_moved() -> None:
    cluster = vm_with_two_own_terms("n3")
    cluster.propagate(Ref("VirtualMachine", "shop", "db"))

    verdicts = judge(cluster.snapshot())
    plan = plan_of(cluster)

    verdict = rule(verdicts, "db", "shop/default/on-a")
    assert (verdict.verdict, verdict.better_nodes) == (Verdict.VIOLATED, ("n1", "n2"))
    assert verdicts.moves_needed == {"shop/default/on-a": 1}
    assert plan.skipped == ()
    (move,) = plan.moves
    assert (move.instance.name, move.targets) == ("db", ("n1", "n2"))


def test_vm_on_node_that_each_term_refuses_is_moved_though_another_term_lacks_the_rule() -> None:
    """The foreign term admits zone b only. The VM is in zone c, which violates each of its terms."""
    cluster = bypassed("n3")
    cluster.node("n5", {ZONE: "c"})
    for pod in cluster.pods.values():
        pod["spec"]["nodeName"] = "n5"
    cluster.machines["db"]["status"]["nodeName"] = "n5"

    plan = plan_of(cluster)

    assert plan.skipped == ()
    (move,) = plan.moves
    assert move.targets == ("n1", "n2")


def test_vm_that_another_term_lets_past_all_terms_of_a_rule_is_skipped_with_that_reason() -> None:
    """The rule has OR-ed terms of its own, so no term of it can be put into the foreign one."""
    cluster = Cluster("aabb")
    ref = cluster.vm("db", tier="db")
    cluster.write(ref, "on-a", (TermLocation.NODE_TERM, _IN_A_WITH_HOST))
    (required,) = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"].values()
    required["nodeSelectorTerms"].append({"matchExpressions": [expression(ZONE, "In", "b")]})
    cluster.start(ref, "n3")

    plan = plan_of(cluster)

    assert not plan.moves
    (skipped,) = plan.skipped
    assert "was removed" not in str(skipped.reason)
    assert "a node selector term without the rule's expressions admits the node" in str(
        skipped.reason
    )


_IN_A_WITH_HOST = {"matchExpressions": [expression(ZONE, "In", "a"), expression(HOST, "Exists")]}


def vms(cluster: Cluster, homes: str, over: str = ZONE) -> None:
    """VMs db0, db1 ... on these nodes (by number), to be kept apart."""
    for number, node in enumerate(homes):
        cluster.run(f"db{number}", f"n{node}", anti_affinity(apart(over, tier="db")), tier="db")


def test_blocked_move_names_the_group_and_its_domains() -> None:
    cluster = Cluster("ab")
    vms(cluster, "112")

    plan = plan_of(cluster)

    assert not plan.moves
    assert {skipped.instance.name for skipped in plan.skipped} == {"db0", "db1"}
    for skipped in plan.skipped:
        assert str(skipped.reason).endswith(
            "cannot be satisfied: 3 instances (db0, db1, db2) with anti-affinity need 3 values of zone,"
            " only 2 available: a, b"
        )
        assert code_of(skipped) == "too_few_domains"


def test_vms_that_may_share_a_zone_are_not_counted_as_needing_one_each() -> None:
    """`web` keeps apart from db0 and db1, which both have to stay. The two could be together."""
    cluster = Cluster("ab")
    cluster.run("web", "n1", anti_affinity(apart(ZONE, tier="db")), tier="web")
    for name, node in (("db0", "n1"), ("db1", "n2")):
        cluster.run(name, node, tier="db")
    snapshot = cluster.snapshot()
    kept = {vmi.uid: KEPT for vmi in snapshot.vmis if vmi.ref.name != "web"}

    plan = planned(snapshot, PlanRequest(SHOP, aspects=[Kept(kept)]))

    assert not plan.moves
    (reason,) = {str(x.reason) for x in plan.skipped if x.instance.name == "web"}
    assert "cannot be satisfied" not in reason
    assert "0/2 nodes are available" in reason


def test_one_move_repairs_a_vm_that_keeps_apart_from_vms_with_a_preference_among_themselves() -> (
    None
):
    cluster = Cluster("abbb")
    term = {"labelSelector": selector(tier="db"), "topologyKey": HOST}
    soft = {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}
    cluster.run("db0", "n4", soft, tier="db")
    cluster.run("web", "n3", anti_affinity(apart(ZONE, tier="db")), tier="web")
    cluster.run("db1", "n3", soft, tier="db")

    (move,) = plan_of(cluster).moves

    assert (move.instance.name, move.targets) == ("web", ("n1",))


def test_no_move_takes_an_instance_away_from_one_that_cannot_follow() -> None:
    """`db` has to leave for zone a, and `cache` has to be on its node. Without what keeps it both would move."""
    cluster = Cluster("ab")
    cluster.run(
        "db", "n2", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}), tier="db"
    )
    near_db = affinity({"labelSelector": selector(tier="db"), "topologyKey": HOST})
    cluster.run("cache", "n2", near_db, tier="cache")
    snapshot = cluster.snapshot()
    (cache,) = (vmi.uid for vmi in snapshot.vmis if vmi.ref.name == "cache")

    both = planned(snapshot, PlanRequest(SHOP))
    plan = planned(snapshot, PlanRequest(SHOP, aspects=[Kept({cache: KEPT})]))

    assert [move.instance.name for move in both.moves] == ["db", "cache"]
    assert not plan.moves
    (skipped,) = plan.skipped
    assert skipped.instance.name == "db"
    assert "1 node(s) would violate a rule" in str(skipped.reason)


def test_reason_names_a_label_key_as_the_task_does() -> None:
    cluster = Cluster("ab")
    vms(cluster, "112")
    request = PlanRequest(SHOP, topology=Topology.of({"zone": HOST, "site": ZONE}))

    plan = planned(cluster.snapshot(), request)

    assert {"need 3 values of site" in str(skipped.reason) for skipped in plan.skipped} == {True}


def test_large_group_that_only_matching_repairs_is_repaired() -> None:
    """Only zone h is free and only db6 may use it, so db6 to db0 move in turn. None of db1 to db6
    violates anything, and the group is too large for the search."""
    zones = "abcdefgh"
    cluster = Cluster(zones)
    for number in range(7):
        allowed = [expression(ZONE, "In", zones[number], zones[number + 1])]
        spec = node_affinity({"matchExpressions": allowed})["affinity"]
        spec |= anti_affinity(apart(ZONE, tier="db"))["affinity"]
        cluster.run(f"db{number}", f"n{number + 1}", {"affinity": spec}, tier="db")
    cluster.run("first", "n1", anti_affinity(apart(ZONE, tier="db")), tier="db")
    cluster.workloads[Ref("VirtualMachine", "shop", "first")]["spec"]["template"]["spec"][
        "nodeSelector"
    ] = {ZONE: "a"}
    cluster.machines["first"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "reason": "HostDevice"}
    ]

    plan = plan_of(cluster)

    assert [(move.instance.name, move.targets) for move in plan.moves] == [
        (f"db{number}", (f"n{number + 2}",)) for number in reversed(range(7))
    ]
    assert plan.skipped == ()


def test_small_group_that_only_a_bystander_repairs_is_repaired() -> None:
    """db0 and db1 share zone a and may use b beside it, where db2 runs: db2 has to move first."""
    cluster = Cluster("abc")
    for number, node in enumerate(("n1", "n1", "n2")):
        allowed = ("a", "b") if number < 2 else ("b", "c")
        terms = node_affinity({"matchExpressions": [expression(ZONE, "In", *allowed)]})["affinity"]
        spec = {"affinity": terms | anti_affinity(apart(ZONE, tier="db"))["affinity"]}
        cluster.run(f"db{number}", node, spec, tier="db")

    plan = plan_of(cluster)

    moves = [(move.instance.name, move.targets) for move in plan.moves]
    assert moves[0] == ("db2", ("n3",))
    assert len(moves) == 2 and moves[1][1] == ("n2",)
    assert plan.moves[1].after == (plan.moves[0].uid,)
    assert plan.skipped == ()


def test_instance_that_is_skipped_for_violation_keeps_that_reason_in_scope_all() -> None:
    plan = plan_of(bypassed("n3"), scope="all")

    assert not plan.moves
    (skipped,) = plan.skipped
    assert "nodeSelectorTerms[1]" in str(skipped.reason)


def test_optional_move_goes_where_it_makes_no_other_instance_violate_a_rule() -> None:
    """n2 is the emptiest node for `db0`, but `web` in that zone may not have two more db there than in another."""
    cluster = Cluster("abc")
    cluster.run("web", "n2", spread(ZONE, tier="db"), tier="web")
    for name, node in (("db0", "n1"), ("db1", "n2"), ("db2", "n3")):
        cluster.run(name, node, tier="db")
    for name in ("x", "y"):
        cluster.run(name, "n3")
    snapshot = cluster.snapshot()
    kept = {vmi.uid: KEPT for vmi in snapshot.vmis if vmi.ref.name != "db0"}

    (move,) = planned(snapshot, PlanRequest(SHOP, "all", aspects=[Kept(kept)])).moves

    assert move.targets == ("n3", "n2")


def test_instance_that_moves_once_another_one_has_made_room_is_not_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`db` needs zone a, where `cache` takes the only room. In a large group only scope all moves `cache`."""
    monkeypatch.setattr(repair, "SMALL", 1)
    cluster = Cluster("abb")
    cluster.nodes["n1"]["status"]["allocatable"]["cpu"] = "1"
    cluster.run(
        "db", "n2", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}), tier="db"
    )
    term = {"labelSelector": selector(tier="db"), "topologyKey": HOST}
    soft = {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}
    cluster.run("cache", "n1", soft, tier="cache")

    plan = plan_of(cluster, scope="all")

    assert [move.instance.name for move in plan.moves] == ["cache", "db"]
    assert plan.skipped == ()


def preferring_b(node: str) -> Cluster:
    """`cache` prefers zone b."""
    cluster = Cluster("aabb")
    preference = {"matchExpressions": [expression(ZONE, "In", "b")]}
    terms = [{"weight": 10, "preference": preference}]
    cluster.run("cache", node, {"affinity": {"nodeAffinity": {PREFERRED: terms}}})
    return cluster


def test_unmet_preference_moves_only_in_scope_unmet() -> None:
    assert plan_of(preferring_b("n1")) == Plan()
    (move,) = plan_of(preferring_b("n1"), scope="preference_not_met").moves
    assert move.targets == ("n3", "n4")


def test_met_preference_moves_nothing_in_scope_unmet() -> None:
    assert plan_of(preferring_b("n3"), scope="preference_not_met") == Plan()


def test_vm_moves_for_a_soft_spread_in_scope_unmet() -> None:
    cluster = Cluster("ab")
    soft = spread(HOST, tier="db")
    soft["topologySpreadConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway"
    for name in ("db1", "db2"):
        cluster.run(name, "n1", soft, tier="db")

    plan = plan_of(cluster, scope="preference_not_met")

    assert [(move.instance.name, move.targets) for move in plan.moves] == [("db1", ("n2",))]


def test_only_vm_with_previous_terms_migrates_in_scope_outdated() -> None:
    cluster = Cluster("ab")
    vms(cluster, "1")
    ref = cluster.run("web", "n2", tier="web")
    cluster.template(ref)["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    cluster.propagate(ref)

    plan = plan_of(cluster, scope="not_enforced")

    assert [(move.instance.name, move.targets) for move in plan.moves] == [("web", ("n1",))]
    assert plan_of(cluster) == Plan()


def in_zones(*zones: str) -> dict[str, t.Any]:
    """Affinity to the nodes of these zones, and anti-affinity with each other over nodes."""
    near = node_affinity({"matchExpressions": [expression(ZONE, "In", *zones)]})
    apart_from_db = anti_affinity(apart(HOST, tier="db"))
    return {"affinity": {**near["affinity"], **apart_from_db["affinity"]}}


def test_vm_whose_node_another_move_frees_is_planned_behind_it() -> None:
    """It was skipped for want of a node, and moved two lines later."""
    cluster = Cluster("abc")
    cluster.run("a", "n1", in_zones("a", "b"), tier="db")
    cluster.run("b", "n2", in_zones("b", "c"), tier="db")

    plan = plan_of(cluster, scope="all")

    assert plan.skipped == ()
    assert [(move.instance.name, move.targets[0]) for move in plan.moves] == [
        ("b", "n3"),
        ("a", "n2"),
    ]
    assert plan.moves[1].after == (plan.moves[0].uid,)


def test_vms_whose_node_was_open_before_any_move_do_not_wait_for_each_other() -> None:
    cluster = Cluster("ab")
    for name in ("a", "b"):
        in_zone_b = node_affinity({"matchExpressions": [expression(ZONE, "In", "b")]})
        cluster.run(name, "n1", in_zone_b)

    plan = plan_of(cluster)

    assert [(move.targets, move.after) for move in plan.moves] == [(("n2",), ())] * 2


def test_vm_without_a_node_is_skipped_in_the_words_of_kube_scheduler() -> None:
    cluster = Cluster("abc")
    cluster.run("a", "n1", in_zones("a", "b"), tier="db")
    cluster.run("b", "n2", in_zones("b"), tier="db")

    (skipped, _other) = plan_of(cluster, scope="all").skipped

    assert skipped.no_node
    assert str(skipped.reason).startswith("scope is all; 0/3 nodes are available: ")
    assert "1 node(s) didn't match Pod's node affinity/selector" in str(skipped.reason)
    assert "1 node(s) didn't match pod anti-affinity rules" in str(skipped.reason)


def test_node_without_a_hostname_label_is_called_the_source_of_the_migration_from_it() -> None:
    """No anti-affinity over host names keeps the target off it."""
    cluster = Cluster("ab")
    cluster.run("a", "n1", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}))
    del cluster.nodes["n1"]["metadata"]["labels"][HOST]

    (skipped,) = plan_of(cluster, scope="all").skipped

    assert "1 node(s) were the source of the migration" in str(skipped.reason)


def test_node_where_another_vm_would_violate_its_new_rule_is_not_called_the_source() -> None:
    cluster = Cluster("ab")
    cluster.run("a", "n1", in_zones("b"), tier="web")
    ref = cluster.run("b", "n2", {"nodeSelector": {ZONE: "b"}})
    cluster.template(ref)["spec"].update(anti_affinity(apart(tier="web")))

    (skipped,) = plan_of(cluster).skipped

    assert skipped.instance.name == "a"
    assert "0/2 nodes are available: 1 node(s) would violate a rule, " in str(skipped.reason)


def test_two_vms_that_block_each_other_are_named_with_the_remediation() -> None:
    cluster = Cluster("ab")
    cluster.run("a", "n1", in_zones("b"), tier="db")
    cluster.run("b", "n2", in_zones("a"), tier="db")

    plan = plan_of(cluster)

    assert not plan.moves
    for skipped, other, node in zip(plan.skipped, "ba", ("n2", "n1"), strict=True):
        blocker = f"VirtualMachineInstance shop/{other} on {node}"
        assert f"it and {blocker} block each other" in str(skipped.reason)
        assert code_of(skipped) == "blocked_by_each_other"
        assert f"Add a node that one of them may use, or stop {skipped.instance.name}" in str(
            skipped.reason
        )

    cluster.node("n3", {ZONE: "b"})
    assert len(plan_of(cluster).moves) == 2


def test_plan_names_the_instances_that_violate_a_rule_before_its_moves() -> None:
    cluster = Cluster("ab")
    vms(cluster, "11")

    plan = plan_of(cluster)

    assert len(plan.moves) == 1
    assert len(plan.violated) == 2, "one of them is satisfied once the other has moved"


def test_group_that_moves_as_few_as_it_must_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search tries thousands of states where a lower bound shows that the first plan is best."""
    cluster = Cluster("abcd")
    for number, node in enumerate(["n1", "n1", "n2"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db")), tier="db")
    cluster.write(Ref("VirtualMachine", "shop", "db3"), "on-d", IN_ZONE_D)

    def search(*_arguments: t.Any, **_options: t.Any) -> t.NoReturn:
        raise AssertionError("searched")

    monkeypatch.setattr(repair, "shortest_repair", search)
    assert len(plan_of(cluster).moves) == 2


def test_only_the_target_of_a_migration_keeps_off_the_node_of_its_source() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n1", tier="db")
    (instance,) = movable_instances(cluster.snapshot(), SHOP)

    assert instance.next_pod(Method.MIGRATE).placement.anti_affinity
    assert not instance.next_pod(Method.RECREATE).placement.anti_affinity
    assert not instance.next_pod(Method.RESTART).placement.anti_affinity


@pytest.mark.parametrize("scope", ["violated", "not_enforced", "all"])
def test_kept_instance_is_skipped_with_the_reason_and_others_move(scope: Scope) -> None:
    cluster = Cluster("ab")
    vms(cluster, "11")
    kept = {
        vm.uid: Obstacle("node_not_ready", "its node is NotReady")
        for vm in cluster.snapshot().vmis[:1]
    }
    request = PlanRequest(SHOP, scope, aspects=[Kept(kept)])

    plan = planned(cluster.snapshot(), request)

    assert {move.uid for move in plan.moves}.isdisjoint(kept)
    assert len(plan.moves) == 1, "the other one repairs the rule"
    if scope == "all":
        (skipped,) = plan.skipped
        assert str(skipped.reason).endswith("its node is NotReady")
        assert code_of(skipped) == "node_not_ready"


def test_vm_that_may_not_be_restarted_is_skipped_with_the_reason() -> None:
    cluster = Cluster("ab")
    vms(cluster, "11")
    for workload in cluster.workloads.values():
        workload["spec"]["runStrategy"] = "Always"
    why = Obstacle("pending_changes", "a restart would also apply other pending changes")
    refused = {vm.uid: why for vm in cluster.snapshot().vmis}
    restart = frozenset({Method.RESTART})

    plan = planned(
        cluster.snapshot(),
        PlanRequest(SHOP, allow=restart, aspects=[Kept(refused, Method.RESTART)]),
    )

    assert plan.moves == ()
    assert {code_of(x) for x in plan.skipped} == {why.code}
    assert [str(x.reason).rpartition("; ")[2] for x in plan.skipped] == [str(why)] * 2


def test_no_migration_where_kubevirt_makes_no_target_pod() -> None:
    cluster = Cluster("ab")
    vms(cluster, "11")
    for made in cluster.machines.values():
        made["spec"]["domain"] = {"cpu": {"model": "host-model"}}
    snapshot = cluster.snapshot()
    old = dataclasses.replace(
        snapshot, platform=dataclasses.replace(snapshot.platform, kubevirt="v1.5.0")
    )

    plan = planned(old, PlanRequest(SHOP, allow=frozenset({Method.MIGRATE})))

    assert plan.moves == ()
    assert {"node n1 has no label host-model-cpu" in str(x.reason) for x in plan.skipped} == {True}


@pytest.mark.parametrize(
    ("allow", "waits"), [((Method.MIGRATE,), False), ((Method.MIGRATE, Method.RESTART), True)]
)
def test_obstacle_of_a_method_that_is_not_allowed_is_not_waited_for(
    allow: tuple[Method, ...], waits: bool
) -> None:
    """KubeVirt refuses a restart while volumes are being changed, which may last."""
    cluster = Cluster("ab")
    ref = cluster.run("db", "n2", tier="db")
    cluster.workloads[ref]["spec"]["runStrategy"] = "Always"
    cluster.workloads[ref]["status"] = {
        "conditions": [{"type": "VolumesChange", "status": "True"}],
    }
    cluster.machines["db"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "disks"}
    ]
    cluster.write(ref, "on-a", IN_ZONE_A)

    (skipped,) = plan_of(cluster, *allow).skipped

    assert skipped.temporary is waits
    assert ("add restart to allow" in str(skipped.reason)) is not waits
    assert code_of(skipped) == ("in_progress" if waits else "method_not_allowed")
    assert "while volumes are being changed" in str(skipped.reason)


def test_reason_names_the_staged_change_that_holds_a_restart_back() -> None:
    cluster = Cluster("ab")
    ref = cluster.run("db", "n2", tier="db")
    cluster.workloads[ref]["spec"]["runStrategy"] = "Always"
    cluster.write(ref, "on-a", IN_ZONE_A)
    cluster.template(ref)["spec"]["domain"] = {"memory": {"guest": "1Gi"}}

    (skipped,) = plan_of(cluster, Method.RESTART).skipped

    assert "add migrate to allow" in str(skipped.reason)
    assert "domain.memory.guest" in str(skipped.reason)


@pytest.mark.parametrize(("reached", "effect"), [(True, MIGRATION), (False, RESTART)])
def test_vmi_without_a_label_that_its_rule_selects_by_needs_a_restart(
    reached: bool, effect: str
) -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    apart_from_db = (TermLocation.ANTI_AFFINITY, apart(tier="db"))
    cluster.write(ref, "apart", apart_from_db, (TermLocation.LABEL, {"key": "tier", "value": "db"}))
    cluster.propagate(ref)
    cluster.machines["db"]["metadata"]["labels"] = {"tier": "db"} if reached else {}

    (vm,) = movable_instances(cluster.snapshot(), SHOP)

    assert vm.takes_effect == effect


@pytest.mark.parametrize(
    ("allow", "moves"),
    [((Method.MIGRATE,), []), ((Method.MIGRATE, Method.RESTART), [Method.RESTART])],
)
def test_no_migration_for_a_label_that_only_a_restart_brings(
    allow: tuple[Method, ...], moves: list[Method]
) -> None:
    cluster = Cluster()
    ref = cluster.vm("db", anti_affinity(apart(tier="db")), tier="web")
    cluster.workloads[ref]["spec"]["runStrategy"] = "Always"
    cluster.start(ref, "n1")
    cluster.template(ref)["metadata"]["labels"] = {"tier": "db"}

    plan = plan_of(cluster, *allow, scope="not_enforced")

    assert [move.method for move in plan.moves] == moves
    reasons = [str(skipped.reason) for skipped in plan.skipped]
    assert reasons == [] if moves else "it needs restart: label tier" in reasons[0]


def test_migration_enforces_the_terms_of_a_rule_whose_label_waits_for_a_restart() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    label = (TermLocation.LABEL, {"key": "tier", "value": "db"})
    cluster.write(ref, "apart", (TermLocation.ANTI_AFFINITY, apart(tier="db")), label)
    cluster.propagate(ref)

    (move,) = plan_of(cluster, scope="not_enforced").moves
    assert move.method is Method.MIGRATE


def test_preferred_node_of_a_pending_instance_is_its_first_target() -> None:
    """Also where more nodes are available than a move names."""
    cluster = large_cluster("ab" + 25 * "c")
    ref = replica_set(cluster, "cache", [""], {"nodeSelector": {ZONE: "nowhere"}})
    cluster.template(ref)["spec"]["nodeSelector"] = {ZONE: "c"}
    (vmi,) = cluster.snapshot().vmis

    def targets(preferred: str) -> tuple[str, ...]:
        recreate, nodes = frozenset({Method.RECREATE}), {vmi.uid: preferred}
        request = PlanRequest(SHOP, allow=recreate, preferred_node=lambda uid: nodes.get(uid, ""))
        (move,) = planned(cluster.snapshot(), request).moves
        assert len(move.targets) == repair.TARGETS
        return move.targets

    assert targets("n9")[0] == "n9"
    assert "n1" not in targets("n1")


def test_instances_that_are_skipped_have_the_order_of_their_names() -> None:
    """Check mode, the run and two results of one plan are compared: the order of a set is another one each time."""
    cluster = large_cluster("ab")
    deployment(cluster, "web", ["n1", "n2"] * 8, {})

    skipped = [x.instance.name for x in plan_of(cluster, scope="all").skipped]

    assert len(skipped) == 16
    assert skipped == sorted(skipped)
