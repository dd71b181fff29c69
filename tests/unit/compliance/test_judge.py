# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says of rules that hold and rules that do not."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import summary
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.objects import NodeTerm, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Requirement as Expression,
)
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import (
    RuleVerdict,
    Verdict,
)
from ansible_collections.virt.placement.plugins.module_utils.planning import moves_needed
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    SCHEDULABLE,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    selector,
    spread,
)
from tests.unit.compliance.judged import RULE, judge, of, rule, three


def test_a_rule_that_holds_and_is_in_effect_is_satisfied() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(cluster.snapshot())

    assert [v.verdict for v in found.instances] == [Verdict.SATISFIED] * 3
    assert of(found, "db1").rules == (RuleVerdict(RULE, Verdict.SATISFIED),)
    assert of(found, "db1").node == "n1"
    assert of(found, "db1").domains == {"zone": "a", "node": "n1"}
    assert of(found, "db1").workload == Ref("VirtualMachine", "shop", "db1")
    assert (found.pending, found.risks) == ((), ())
    assert lint(cluster.snapshot()) == ()
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
    assert rule(found, "db1").reason.count("in the same zone") == 1, "each keeps the other away"
    assert of(found, "db3").verdict is Verdict.SATISFIED
    assert found.moves_needed == {RULE: 1}


def test_a_refusal_by_symmetry_belongs_to_the_term_of_the_other() -> None:
    cluster = Cluster()
    db = cluster.vm("db", tier="db")
    cluster.write(db, "alone", (TermLocation.ANTI_AFFINITY, apart(tier="web")))
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
    cluster.write(
        ref, "fast", (TermLocation.NODE_EXPRESSION, expression("performance", "In", "high"))
    )

    found = judge(cluster.snapshot())

    broken = rule(found, "db", "shop/default/fast")
    assert broken.verdict is Verdict.VIOLATED
    assert broken.better_nodes == ("n4",)
    assert "node n1 does not satisfy performance In (high)" in broken.reason
    assert found.moves_needed == {"shop/default/fast": 1}


def test_node_requirement_beside_a_rule_in_one_term_is_reported_without_the_rule() -> None:
    cluster = Cluster()
    ref = cluster.vm("db", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}))
    cluster.write(
        ref, "fast", (TermLocation.NODE_EXPRESSION, expression("performance", "In", "high"))
    )
    cluster.start(ref, "n3")

    found = judge(cluster.snapshot())

    violated = {
        each.rule: each.reason for each in of(found, "db").rules if each.verdict is Verdict.VIOLATED
    }
    assert violated == {
        "shop/default/fast": "node n3 does not satisfy performance In (high)",
        "": f"node n3 does not satisfy {ZONE} In (a)",
    }


def test_node_label_that_kubevirt_asks_for_is_no_requirement_of_a_vm_that_was_not_read() -> None:
    cluster = Cluster()
    del cluster.workloads[cluster.run("db", "n1")]
    cluster.nodes["n1"]["metadata"]["labels"][SCHEDULABLE] = "false"

    assert of(judge(cluster.snapshot()), "db").verdict is Verdict.SATISFIED


def test_rule_that_a_foreign_node_term_bypasses_is_violated() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a")))
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
    (finding,) = (f for f in lint(cluster.snapshot()) if f.name == "bypassed_by_node_term")
    assert (finding.severity, finding.rule) == ("error", "in-a")
    assert [ref.name for ref in finding.objects] == ["db", "other"]


def test_an_unmet_preference_names_the_nodes_that_meet_it() -> None:
    cluster = Cluster()
    ref = cluster.vm("cache")
    term = {"weight": 10, "preference": {"matchExpressions": [expression(ZONE, "NotIn", "a")]}}
    cluster.write(ref, "not-in-a", (TermLocation.PREFERRED_NODE, term))
    cluster.start(ref, "n1")

    found = judge(cluster.snapshot())

    assert rule(found, "cache", "shop/default/not-in-a").verdict is Verdict.PREFERENCE_NOT_MET
    assert rule(found, "cache", "shop/default/not-in-a").better_nodes == ("n3", "n4", "n5", "n6")
    assert of(found, "cache").verdict is Verdict.PREFERENCE_NOT_MET


def test_spread_of_three_one_one_affects_three_and_needs_one_move() -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n1", "n2", "n3", "n5"], 1):
        cluster.run(f"web{number}", node, spread(tier="web"), tier="web")

    found = judge(cluster.snapshot())

    assert sum(v.verdict is Verdict.VIOLATED for v in found.instances) == 3
    assert list(found.moves_needed.values()) == [1]


def test_group_that_cannot_be_satisfied_is_reported() -> None:
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


def test_a_volume_that_the_node_cannot_reach_is_a_broken_node_rule() -> None:
    cluster = Cluster()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    cluster.bare_pod("db", "n1", {"volumes": [volume]})
    terms = (NodeTerm((Expression(ZONE, "In", ("b",)),)),)

    found = judge(cluster.snapshot(claim_terms={("shop", "disk"): terms}))

    assert of(found, "db").verdict is Verdict.VIOLATED
    assert rule(found, "db", "").better_nodes == ("n3", "n4")


def test_unmet_affinity_names_the_topology_domain() -> None:
    cluster = Cluster("ab")
    cluster.run("app", "n1", affinity({"labelSelector": selector(tier="db"), "topologyKey": ZONE}))
    cluster.run("db", "n2", tier="db")

    reason = rule(judge(cluster.snapshot()), "app", "").reason

    term = "pod affinity over zone to tier In (db)"
    assert reason == f"{term}; no pod that matches its pod affinity is in zone 'a' ({term})"


def test_unmet_affinity_on_node_without_the_key_names_the_key() -> None:
    cluster = Cluster("ab")
    del cluster.nodes["n1"]["metadata"]["labels"][ZONE]
    cluster.run("app", "n1", affinity({"labelSelector": selector(tier="db"), "topologyKey": ZONE}))
    cluster.run("db", "n2", tier="db")

    reason = rule(judge(cluster.snapshot()), "app", "").reason

    term = "pod affinity over zone to tier In (db)"
    assert reason == f"{term}; node n1 has no label {ZONE} ({term})"


def test_a_pod_with_many_terms_against_all_pods_of_another_tenant_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves_needed, "WORK_BASE", 100)
    cluster = Cluster()
    for number in range(20):
        cluster.bare_pod(f"p{number}", "n1", tier=f"t{number}")
    others = [
        {"key": "tier", "operator": "NotIn", "values": ["x", f"t{number}"]} for number in range(20)
    ]
    terms = [{"labelSelector": {"matchExpressions": [e]}, "topologyKey": ZONE} for e in others]
    cluster.bare_pod("attacker", "n1", anti_affinity(*terms), tier="x")

    verdicts = judge(cluster.snapshot())

    counts = Counter(verdicts.moves_needed.values())
    assert counts == {1: 10, "uncounted": 10}, "205 of 400 instances are taken away and put back"
    shown = summary(verdicts)["violated_rules"]
    assert Counter((x["moves_needed"], x["moves_counted"]) for x in shown) == {
        (1, True): 10,
        (None, False): 10,
    }
    assert {v.verdict for v in verdicts.instances} == {Verdict.VIOLATED}
