# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says of small clusters."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import NodeTerm, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Requirement as Expression,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import (
    InstanceVerdict,
    RuleVerdict,
    Verdict,
    Verdicts,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.slots import Slot
from ansible_collections.virt.placement.plugins.module_utils.verdicts.judge import judge
from tests.unit.verdicts.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    spread,
)

APART = (Slot.ANTI_AFFINITY, apart(tier="db"))
RULE = "shop/default/apart"


def of(verdicts: Verdicts, name: str) -> InstanceVerdict:
    found = [v for v in verdicts.instances if v.instance.name == name]
    assert len(found) == 1, verdicts.instances
    return found[0]


def rule(verdicts: Verdicts, name: str, rule_name: str = RULE) -> RuleVerdict:
    found = [v for v in of(verdicts, name).rules if v.rule == rule_name]
    assert len(found) == 1, of(verdicts, name)
    return found[0]


def three(cluster: Cluster, nodes: t.Sequence[str], *, rule_first: bool = True) -> list[Ref]:
    """db1 to db3, kept apart over zone by a rule that was there before they started, or not."""
    refs = [cluster.vm(f"db{number}", tier="db") for number in (1, 2, 3)]
    for ref, node in zip(refs, nodes, strict=True):
        if rule_first:
            cluster.write(ref, "apart", APART)
        cluster.start(ref, node)
        if not rule_first:
            cluster.write(ref, "apart", APART)
    return refs


def test_a_rule_that_holds_and_is_in_effect_is_satisfied() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(cluster.snapshot())

    assert [v.verdict for v in found.instances] == [Verdict.SATISFIED] * 3
    assert of(found, "db1").rules == (RuleVerdict(RULE, Verdict.SATISFIED),)
    assert of(found, "db1").node == "n1"
    assert of(found, "db1").domains == {"zone": "a", "host": "n1"}
    assert of(found, "db1").workload == Ref("VirtualMachine", "shop", "db1")
    assert (found.pending, found.hazards, found.findings) == ((), (), ())
    assert found.moves_needed == {}


def test_two_in_one_zone_are_both_broken_and_one_move_is_enough() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])

    found = judge(cluster.snapshot())

    assert of(found, "db1").verdict is Verdict.VIOLATED
    assert of(found, "db1").misplaced
    assert rule(found, "db1").better_nodes == ("n3", "n4")
    assert "VirtualMachineInstance shop/db2" in rule(found, "db1").reason
    assert "zone 'a'" in rule(found, "db1").reason
    assert of(found, "db3").verdict is Verdict.SATISFIED
    assert found.moves_needed == {RULE: 1}


def test_a_broken_instance_is_told_where_it_could_restart_and_migrate() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])

    found = of(judge(cluster.snapshot()), "db1")

    assert found.feasible_if_restarted == ("n3", "n4")
    assert found.feasible_if_migrated == ("n3", "n4")


def test_details_tell_everybody_where_it_could_go() -> None:
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


def test_declared_after_the_start_and_broken_is_violated_though_not_in_effect() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"], rule_first=False)

    found = judge(cluster.snapshot())

    assert rule(found, "db1").verdict is Verdict.VIOLATED
    assert not rule(found, "db1").in_effect
    assert "neither on the VirtualMachineInstance" in rule(found, "db1").reason
    assert found.moves_needed == {RULE: 1}


def test_declared_after_the_start_and_well_placed_is_the_right_place_by_luck() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"], rule_first=False)

    found = judge(cluster.snapshot())

    assert of(found, "db3").verdict is Verdict.NOT_IN_EFFECT
    assert not of(found, "db3").misplaced
    assert rule(found, "db3").as_declared is Verdict.SATISFIED
    assert not rule(found, "db3").in_effect


def test_a_live_update_is_told_from_one_that_waits_for_a_restart() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"], rule_first=False)
    cluster.propagate(refs[0])

    found = judge(cluster.snapshot())

    assert "on the VirtualMachineInstance, but its running" in rule(found, "db1").reason
    assert "on the workload, but neither" in rule(found, "db2").reason
    assert rule(found, "db1").reason.startswith("it is in the right place, by luck: ")
    assert rule(found, "db1").reason.endswith("; it takes effect at its next migration")


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


def test_a_machine_does_not_compete_with_the_target_of_its_own_migration() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db", plain=True)), tier="db")
    cluster.launcher("db1", "n2")

    found = judge(cluster.snapshot())

    assert [v.verdict for v in found.instances] == [Verdict.SATISFIED] * 3


@pytest.mark.parametrize(
    "left", ["running", "terminating", "ended, and the machine's list is older"]
)
def test_what_a_migration_leaves_behind_breaks_nobodys_rule(left: str) -> None:
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


def test_an_unbound_migration_target_is_pending_while_its_machine_is_judged() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"db{number}", node, anti_affinity(apart(tier="db", plain=True)), tier="db")
    cluster.launcher("db1", "")

    found = judge(cluster.snapshot())

    assert of(found, "db1").verdict is Verdict.SATISFIED
    assert [p.instance.name for p in found.pending] == ["db1"]
    assert found.pending[0].reason.startswith("migration target: none of 6 nodes is open to it")


def test_a_refusal_by_symmetry_belongs_to_the_term_of_the_other() -> None:
    cluster = Cluster()
    db = cluster.vm("db", tier="db")
    cluster.write(db, "alone", (Slot.ANTI_AFFINITY, apart(tier="web")))
    cluster.start(db, "n1")
    cluster.run("web", "n2", tier="web")

    found = judge(cluster.snapshot())

    broken = rule(found, "web", "shop/default/alone")
    assert broken.verdict is Verdict.VIOLATED
    assert broken.better_nodes == ("n3", "n4", "n5", "n6")
    assert "of VirtualMachineInstance shop/db" in broken.reason
    assert found.moves_needed == {"shop/default/alone": 1}


def test_terms_that_no_rule_owns_are_judged_and_described() -> None:
    cluster = Cluster()
    cluster.run("db1", "n1", anti_affinity(apart(tier="db")), tier="db")
    cluster.run("db2", "n2", tier="db")

    found = judge(cluster.snapshot())

    text = "pod anti-affinity over zone to tier In (db)"
    broken = rule(found, "db1", "")
    assert broken.verdict is Verdict.VIOLATED
    assert broken.reason.startswith(text)
    assert found.moves_needed == {text: 1}


def test_node_rules_name_what_the_node_lacks() -> None:
    cluster = Cluster()
    cluster.nodes["n4"]["metadata"]["labels"]["performance"] = "high"
    ref = cluster.vm("db")
    cluster.start(ref, "n1")
    cluster.write(ref, "fast", (Slot.NODE_EXPRESSION, expression("performance", "In", "high")))

    found = judge(cluster.snapshot())

    broken = rule(found, "db", "shop/default/fast")
    assert broken.verdict is Verdict.VIOLATED
    assert broken.better_nodes == ("n4",)
    assert "node n1 does not satisfy performance In (high)" in broken.reason
    assert found.moves_needed == {"shop/default/fast": 1}


def test_a_foreign_or_term_that_lets_nodes_past_the_rule_is_violated_and_found() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", (Slot.NODE_EXPRESSION, expression(ZONE, "In", "a")))
    terms = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"]
    (required,) = terms.values()
    required["nodeSelectorTerms"].append({"matchExpressions": [expression(HOST, "Exists")]})
    cluster.start(ref, "n1")
    other = cluster.vm("other")
    cluster.workloads[other]["spec"] = cluster.workloads[ref]["spec"]
    cluster.workloads[other]["metadata"]["annotations"] = {
        key: text.replace("virtualmachine-db", "virtualmachine-other")
        for key, text in cluster.workloads[ref]["metadata"]["annotations"].items()
    }
    cluster.start(other, "n3")

    found = judge(cluster.snapshot())

    lucky, broken = (
        rule(found, "db", "shop/default/in-a"),
        rule(found, "other", "shop/default/in-a"),
    )
    assert lucky.verdict is broken.verdict is Verdict.VIOLATED
    assert (lucky.placed, broken.placed) == (Verdict.SATISFIED, Verdict.VIOLATED)
    assert "nodeSelectorTerms[1]" in lucky.reason
    assert not of(found, "db").misplaced
    assert of(found, "other").misplaced
    assert [(f.name, f.severity, f.rule) for f in found.findings] == [
        ("bypassed", "error", "in-a"),
        ("bypassed", "error", "in-a"),
    ]


def test_an_unmet_preference_names_the_nodes_that_meet_it() -> None:
    cluster = Cluster()
    ref = cluster.vm("cache")
    term = {"weight": 10, "preference": {"matchExpressions": [expression(ZONE, "NotIn", "a")]}}
    cluster.write(ref, "not-in-a", (Slot.PREFERRED_NODE, term))
    cluster.start(ref, "n1")

    found = judge(cluster.snapshot())

    assert rule(found, "cache", "shop/default/not-in-a").verdict is Verdict.PREFERENCE_UNMET
    assert rule(found, "cache", "shop/default/not-in-a").better_nodes == ("n3", "n4", "n5", "n6")
    assert of(found, "cache").verdict is Verdict.PREFERENCE_UNMET


def test_an_unmet_preference_that_is_not_in_effect_says_both() -> None:
    cluster = Cluster()
    ref = cluster.run("cache", "n1")
    term = {"weight": 10, "preference": {"matchExpressions": [expression(ZONE, "NotIn", "a")]}}
    cluster.write(ref, "not-in-a", (Slot.PREFERRED_NODE, term))

    found = rule(judge(cluster.snapshot()), "cache", "shop/default/not-in-a")

    assert found.verdict is Verdict.NOT_IN_EFFECT
    assert found.as_declared is Verdict.PREFERENCE_UNMET


def test_spread_of_three_one_one_affects_three_and_needs_one_move() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n1", "n2", "n3", "n5"], 1):
        cluster.run(f"web{number}", node, spread(tier="web"), tier="web")

    found = judge(cluster.snapshot())

    assert sum(v.verdict is Verdict.VIOLATED for v in found.instances) == 3
    assert list(found.moves_needed.values()) == [1]


def test_a_group_that_no_arrangement_heals_says_so() -> None:
    cluster = Cluster("ab")
    three(cluster, ["n1", "n1", "n2"])

    assert judge(cluster.snapshot()).moves_needed == {RULE: None}


def test_a_follower_away_from_its_leader_is_violated() -> None:
    cluster = Cluster()
    cluster.run("leader", "n1", tier="db")
    near = {"labelSelector": {"matchLabels": {"tier": "db"}}, "topologyKey": HOST}
    cluster.run("app", "n2", affinity(near))

    found = judge(cluster.snapshot())

    assert of(found, "leader").verdict is Verdict.SATISFIED
    assert rule(found, "app", "").better_nodes == ("n1",)
    assert list(found.moves_needed.values()) == [1]


def test_a_group_label_that_is_missing_on_the_pod_is_judged_as_if_it_were_there() -> None:
    cluster = Cluster()
    refs = [cluster.run(f"db{number}", node) for number, node in ((1, "n1"), (2, "n2"), (3, "n5"))]
    for ref in refs:
        cluster.write(ref, "apart", APART, (Slot.LABEL, {"key": "tier", "value": "db"}))

    found = judge(cluster.snapshot())

    assert [rule(found, f"db{n}").verdict for n in (1, 2, 3)] == [
        Verdict.VIOLATED,
        Verdict.VIOLATED,
        Verdict.NOT_IN_EFFECT,
    ]
    assert "label tier of the template is not on the running pod" in rule(found, "db3").reason


def test_a_label_that_nothing_selects_by_may_differ() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    cluster.template(ref)["metadata"]["labels"]["team"] = "blue"

    assert of(judge(cluster.snapshot()), "db").verdict is Verdict.SATISFIED


def test_a_term_that_is_no_longer_declared_is_not_in_effect() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")
    del cluster.template(ref)["spec"]["affinity"]
    del cluster.machines["db"]["spec"]["affinity"]

    found = rule(judge(cluster.snapshot()), "db", "")

    assert found.verdict is Verdict.NOT_IN_EFFECT
    assert "no longer declared" in found.reason


def test_what_kubevirt_adds_to_a_pod_is_no_difference() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "Exists")]}))
    pod = next(iter(cluster.pods.values()))["spec"]
    for term in next(iter(pod["affinity"]["nodeAffinity"].values()))["nodeSelectorTerms"]:
        key = "node-labeller.kubevirt.io/obsolete-host-model"
        term["matchExpressions"].append(expression(key, "DoesNotExist"))
    pod["affinity"].update(
        anti_affinity(apart(HOST, plain=True, **{"kubevirt.io/created-by": "vmi-db-0"}))["affinity"]
    )
    pod["tolerations"] = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    ]
    assert ref.name == "db"

    assert of(judge(cluster.snapshot()), "db").verdict is Verdict.SATISFIED


def test_empty_lists_of_a_console_are_no_difference() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    cluster.template(ref)["spec"]["affinity"] = {"podAffinity": {}, "nodeAffinity": None}
    cluster.template(ref)["spec"]["tolerations"] = []

    assert of(judge(cluster.snapshot()), "db").verdict is Verdict.SATISFIED


def test_pending_is_explained_by_the_engine() -> None:
    cluster = Cluster("ab")
    refs = three(cluster, ["n1", "n2", ""])

    found = judge(cluster.snapshot())

    assert [(p.instance.name, p.workload) for p in found.pending] == [("db3", refs[2])]
    assert found.pending[0].reason == (
        "none of 2 nodes is open to it: 2 in a zone with a pod that it keeps away from"
        " (tier In (db)) and in a zone with a pod that keeps it away"
        " (VirtualMachineInstance shop/db1)"
    ) or found.pending[0].reason.startswith("none of 2 nodes is open to it: ")
    assert of(found, "db3").verdict is Verdict.PENDING
    assert of(found, "db3").node == ""


def test_pending_with_a_place_waits_for_the_scheduler() -> None:
    cluster = Cluster("a")
    cluster.start(cluster.vm("db"), "")

    (pending,) = judge(cluster.snapshot()).pending

    assert pending.reason == "the scheduler has not placed it yet; it fits n1"


def test_a_volume_that_the_node_cannot_reach_is_a_broken_node_rule() -> None:
    cluster = Cluster()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    cluster.bare_pod("db", "n1", {"volumes": [volume]})
    terms = (NodeTerm((Expression(ZONE, "In", ("b",)),)),)

    found = judge(cluster.snapshot(claim_terms={("shop", "disk"): terms}))

    assert of(found, "db").verdict is Verdict.VIOLATED
    assert rule(found, "db", "").better_nodes == ("n3", "n4")


def test_hazards_stand_apart_from_violations() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    cluster.nodes["n1"]["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "broken", "effect": "NoSchedule"}],
    }
    cluster.nodes["n1"]["status"]["conditions"] = []
    cluster.nodes["n1"]["metadata"]["labels"]["kubevirt.io/schedulable"] = "false"
    cluster.nodes["n1"]["status"]["allocatable"]["memory"] = "1Mi"

    found = judge(cluster.snapshot())

    assert of(found, "db").verdict is Verdict.SATISFIED
    assert {hazard.kind for hazard in found.hazards} == {
        "not_ready",
        "cordoned",
        "taint",
        "resources",
        "not_schedulable_for_kubevirt",
    }


def test_anti_affinity_on_a_node_without_the_key_is_a_hazard() -> None:
    cluster = Cluster()
    cluster.node("bare")
    cluster.run("db", "bare", anti_affinity(apart(tier="db")), tier="db")

    found = judge(cluster.snapshot())

    assert of(found, "db").verdict is Verdict.SATISFIED
    assert [hazard.kind for hazard in found.hazards] == ["unknown_domain"]


def test_replicas_of_a_set_and_pods_of_a_deployment_know_their_workload() -> None:
    cluster = Cluster()
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {}}
    deployment = cluster.workload("Deployment", "web", {"template": template})
    replicas = cluster.workload("VirtualMachineInstanceReplicaSet", "set", {"template": template})
    cluster.start(deployment, "n1", "web-1")
    cluster.start(replicas, "n2", "set-1")
    cluster.bare_pod("alone", "n3")

    found = judge(cluster.snapshot())

    assert {v.instance: v.workload for v in found.instances} == {
        Ref("Pod", "shop", "web-1"): deployment,
        Ref("VirtualMachineInstance", "shop", "set-1"): replicas,
        Ref("Pod", "shop", "alone"): Ref("Pod", "shop", "alone"),
    }


def test_a_machine_of_a_pool_belongs_to_the_pool() -> None:
    cluster = Cluster()
    template: dict[str, t.Any] = {"metadata": {"labels": {}}, "spec": {}}
    pool = cluster.workload(
        "VirtualMachinePool", "pool", {"virtualMachineTemplate": {"spec": {"template": template}}}
    )
    vm = cluster.run("pool-0", "n1")
    cluster.workloads[vm]["metadata"]["ownerReferences"] = [
        {"kind": "VirtualMachinePool", "name": "pool", "uid": "pool", "controller": True}
    ]

    assert of(judge(cluster.snapshot()), "pool-0").workload == pool


def test_only_what_was_asked_for_is_judged_and_all_others_count() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n2", "n5"])

    found = judge(cluster.snapshot(), workloads=[refs[0]], namespaces=["shop"])

    assert [v.instance.name for v in found.instances] == ["db1"]
    assert of(found, "db1").verdict is Verdict.VIOLATED
    assert judge(cluster.snapshot(), workloads=[]).instances == ()
    assert judge(cluster.snapshot(), namespaces=["other"]).instances == ()


def test_what_is_ending_is_nothing_to_be_placed() -> None:
    cluster = Cluster()
    cluster.bare_pod("gone", "n1")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.bare_pod("done", "n1")["status"]["phase"] = "Succeeded"

    assert judge(cluster.snapshot()).instances == ()


def blind(cluster: Cluster, resource: str, namespace: str = "", **lost: t.Any) -> Snapshot:
    gap = Unreadable(resource, namespace, "list", "forbidden")
    return cluster.snapshot(unreadable=(gap,), **lost)


def test_with_pods_unread_nothing_that_rests_on_them_is_satisfied() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "pods", "other"))

    assert of(found, "db1").verdict is Verdict.UNKNOWN
    assert rule(found, "db1").verdict is Verdict.SATISFIED
    assert rule(found, "db1", "").reason == "cannot list pods in namespace other: forbidden"
    assert found.unreadable[0].resource == "pods"


def test_with_the_groups_own_pods_unread_the_rule_is_unknown() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    assert rule(judge(blind(cluster, "pods")), "db1").verdict is Verdict.UNKNOWN


def test_a_machine_whose_pod_could_not_be_read_is_unknown_and_not_pending() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "pods", pods=()))

    assert [v.verdict for v in found.instances] == [Verdict.UNKNOWN] * 3
    assert found.pending == ()


def test_what_is_broken_for_certain_stays_violated_when_half_blind() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])
    near = {"labelSelector": {"matchLabels": {"tier": "none"}}, "topologyKey": HOST}
    cluster.run("app", "n2", affinity(near))

    found = judge(blind(cluster, "pods"))

    assert rule(found, "db1").verdict is Verdict.VIOLATED
    assert of(found, "app").verdict is Verdict.UNKNOWN


def test_without_the_workloads_nobody_knows_what_is_declared() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")

    found = judge(blind(cluster, "virtualmachines", workloads=()))

    assert of(found, "db").verdict is Verdict.UNKNOWN
    assert "cannot list virtualmachines" in rule(found, "db", "").reason


def test_without_nodes_everything_is_unknown() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "nodes", nodes=()))

    assert [v.verdict for v in found.instances] == [Verdict.UNKNOWN] * 3


def test_a_copy_with_anothers_annotation_owns_nothing() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    cluster.workloads[refs[0]]["metadata"]["uid"] = "a-clone"

    found = judge(cluster.snapshot())

    assert [f.name for f in found.findings] == ["cloned"]
    assert [v.rule for v in of(found, "db1").rules] == [""]


def test_a_damaged_annotation_is_unknown() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    cluster.workloads[refs[0]]["metadata"]["annotations"]["placement.virt/rules"] = "{"

    assert of(judge(cluster.snapshot()), "db1").verdict is Verdict.UNKNOWN


def test_a_term_of_a_rule_that_somebody_removed_is_not_in_effect() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    del cluster.template(refs[0])["spec"]["affinity"]

    found = rule(judge(cluster.snapshot()), "db1")

    assert found.verdict is Verdict.NOT_IN_EFFECT
    assert "write the rules again" in found.reason
