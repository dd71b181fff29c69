# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared and what is in effect: one against the other, and whose terms they are."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    anti_affinity,
    apart,
    expression,
    node_affinity,
)
from tests.unit.compliance.judged import APART, RULE, judge, of, rule, three


def test_declared_after_the_start_and_broken_is_violated_though_not_enforced() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"], rule_first=False)

    found = judge(cluster.snapshot())

    assert rule(found, "db1").verdict is Verdict.VIOLATED
    assert not rule(found, "db1").enforced
    assert "set on the VM, not yet on the running VMI" in rule(found, "db1").reason
    assert found.moves_needed == {RULE: 1}


def test_rule_declared_after_the_start_is_not_enforced_though_placed_correctly() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"], rule_first=False)

    found = judge(cluster.snapshot())

    assert of(found, "db3").verdict is Verdict.NOT_ENFORCED
    assert not of(found, "db3").misplaced
    assert rule(found, "db3").if_enforced is Verdict.SATISFIED
    assert not rule(found, "db3").enforced


def test_a_replica_set_is_named_by_its_kind() -> None:
    cluster = Cluster()
    kind = "VirtualMachineInstanceReplicaSet"
    template = {"metadata": {"labels": {"tier": "db"}}, "spec": {"domain": {}}}
    ref = cluster.workload(kind, "db", {"replicas": 1, "template": template})
    cluster.start(ref, "n1", "db-a")
    cluster.write(ref, "apart", APART)

    reason = rule(judge(cluster.snapshot()), "db-a").reason

    assert f"set on the {kind}, not yet on the running VMI" in reason


def test_live_update_and_pending_restart_have_different_reasons() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"], rule_first=False)
    cluster.propagate(refs[0])

    found = judge(cluster.snapshot())

    assert "the pod is older than the rule" in rule(found, "db1").reason
    assert "set on the VM, not yet on the running VMI" in rule(found, "db2").reason
    assert rule(found, "db1").reason.startswith("placed correctly, rule not enforced yet: ")
    assert rule(found, "db1").reason.endswith("; enforced from the next migration")


def test_rule_with_node_terms_is_satisfied_beside_one_that_is_not_enforced() -> None:
    cluster = Cluster()
    ref = cluster.vm("db", tier="db")
    in_zone_a = {"matchExpressions": [expression(ZONE, "In", "a"), expression(HOST, "Exists")]}
    cluster.write(ref, "on-a", (TermLocation.NODE_TERM, in_zone_a))
    cluster.start(ref, "n1")
    cluster.write(ref, "apart", APART)

    found = judge(cluster.snapshot())

    assert rule(found, "db").verdict is Verdict.NOT_ENFORCED
    assert rule(found, "db", "shop/default/on-a").verdict is Verdict.SATISFIED


@pytest.mark.parametrize("node", ["n1", "n3", "n5"])
def test_foreign_term_beside_the_terms_of_a_rule_is_no_requirement(node: str) -> None:
    """Terms are OR-ed: a node that matches those of the rule need not match the foreign one."""
    cluster = Cluster()
    ref = cluster.vm("db", tier="db")
    in_zone_a = {"matchExpressions": [expression(ZONE, "In", "a"), expression(HOST, "Exists")]}
    cluster.write(ref, "on-a", (TermLocation.NODE_TERM, in_zone_a))
    (required,) = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"].values()
    required["nodeSelectorTerms"].append({"matchExpressions": [expression(ZONE, "In", "b")]})
    cluster.start(ref, node)

    found = of(judge(cluster.snapshot()), "db").rules

    assert [(each.rule, each.verdict is Verdict.SATISFIED) for each in found] == [
        ("shop/default/on-a", node == "n1")
    ]


def test_unmet_preference_that_is_not_enforced_reports_both() -> None:
    cluster = Cluster()
    ref = cluster.run("cache", "n1")
    term = {"weight": 10, "preference": {"matchExpressions": [expression(ZONE, "NotIn", "a")]}}
    cluster.write(ref, "not-in-a", (TermLocation.PREFERRED_NODE, term))

    found = rule(judge(cluster.snapshot()), "cache", "shop/default/not-in-a")

    assert found.verdict is Verdict.NOT_ENFORCED
    assert found.if_enforced is Verdict.PREFERENCE_NOT_MET
    assert found.reason.startswith("rule not enforced yet: ")


def test_a_group_label_that_is_missing_on_the_pod_is_judged_as_if_it_were_there() -> None:
    cluster = Cluster()
    refs = [cluster.run(f"db{number}", node) for number, node in ((1, "n1"), (2, "n2"), (3, "n5"))]
    for ref in refs:
        cluster.write(ref, "apart", APART, (TermLocation.LABEL, {"key": "tier", "value": "db"}))

    found = judge(cluster.snapshot())

    assert [rule(found, f"db{n}").verdict for n in (1, 2, 3)] == [
        Verdict.VIOLATED,
        Verdict.VIOLATED,
        Verdict.NOT_ENFORCED,
    ]
    assert "label tier of the template is not on the running pod" in rule(found, "db3").reason


def test_a_label_that_nothing_selects_by_may_differ() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    cluster.template(ref)["metadata"]["labels"]["team"] = "blue"

    assert of(judge(cluster.snapshot()), "db").verdict is Verdict.SATISFIED


def test_a_term_that_is_no_longer_declared_is_not_enforced() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")
    del cluster.template(ref)["spec"]["affinity"]
    del cluster.machines["db"]["spec"]["affinity"]

    found = rule(judge(cluster.snapshot()), "db", "")

    assert found.verdict is Verdict.NOT_ENFORCED
    assert found.reason == (
        "removed, and still in effect: pod anti-affinity over zone to tier In (db);"
        " it ends with the next migration"
    )


def _labelled_by_kubevirt(cluster: Cluster) -> None:
    """The only pod asks of nodes what KubeVirt adds to each, too."""
    pod = next(iter(cluster.pods.values()))["spec"]
    for term in next(iter(pod["affinity"]["nodeAffinity"].values()))["nodeSelectorTerms"]:
        key = "node-labeller.kubevirt.io/obsolete-host-model"
        term["matchExpressions"].append(expression(key, "DoesNotExist"))


def test_term_that_is_no_longer_declared_is_reported_without_kubevirts_keys() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "Exists")]}))
    _labelled_by_kubevirt(cluster)
    del cluster.template(ref)["spec"]["affinity"]
    del cluster.machines["db"]["spec"]["affinity"]

    found = rule(judge(cluster.snapshot()), "db", "")

    assert f"still in effect: node affinity {ZONE} Exists;" in found.reason
    assert "node-labeller" not in found.reason


def test_term_of_a_vmi_without_workload_is_reported_without_kubevirts_keys() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "Exists")]}))
    _labelled_by_kubevirt(cluster)
    del cluster.workloads[ref]
    del cluster.machines["db"]["metadata"]["ownerReferences"]

    found = rule(judge(cluster.snapshot()), "db", "")

    assert found.reason == f"node affinity {ZONE} Exists"


def test_keys_that_kubevirt_adds_are_no_drift() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "Exists")]}))
    _labelled_by_kubevirt(cluster)
    pod = next(iter(cluster.pods.values()))["spec"]
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


def test_a_copy_with_anothers_annotation_owns_nothing() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    cluster.workloads[refs[0]]["metadata"]["uid"] = "a-clone"

    found = judge(cluster.snapshot())

    assert [f.name for f in lint(cluster.snapshot()) if f.severity != "info"] == [
        "copied_annotation"
    ]
    assert [v.rule for v in of(found, "db1").rules] == [""]


def test_a_damaged_annotation_is_unknown() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    cluster.workloads[refs[0]]["metadata"]["annotations"]["placement.virt/rules"] = "{"

    assert of(judge(cluster.snapshot()), "db1").verdict is Verdict.UNKNOWN


def test_term_of_a_rule_that_was_removed_by_hand_is_not_enforced() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n3", "n5"])
    del cluster.template(refs[0])["spec"]["affinity"]

    verdicts = judge(cluster.snapshot())

    found = rule(verdicts, "db1")
    assert found.verdict is Verdict.NOT_ENFORCED
    assert "run virt.placement.rules again" in found.reason
    assert [instance.constraint_removed for instance in verdicts.instances] == [True, False, False]


def test_rule_whose_first_node_term_is_empty_is_violated_elsewhere() -> None:
    """An empty term matches no node."""
    cluster = Cluster()
    ref = cluster.vm("db")
    in_zone_a = {"matchExpressions": [expression(ZONE, "In", "a")]}
    cluster.write(ref, "r", (TermLocation.NODE_TERM, {}), (TermLocation.NODE_TERM, in_zone_a))
    cluster.start(ref, "n3")

    found = rule(judge(cluster.snapshot()), "db", "shop/default/r")

    assert found.verdict is Verdict.VIOLATED
    assert "topology.kubernetes.io/zone In (a)" in found.reason


def test_term_with_match_label_keys_has_one_verdict() -> None:
    """The running pod has the value of its own label in the selector, the workload has not."""
    cluster = Cluster()
    term = {**apart(HOST, plain=True, app="web"), "matchLabelKeys": ["pod-template-hash"]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": anti_affinity(term)}
    web = cluster.workload("Deployment", "web", {"replicas": 2, "template": template})
    cluster.start(web, "n1", "web-a")
    cluster.start(web, "n1", "web-b")

    found = of(judge(cluster.snapshot()), "web-a").rules

    assert [each.verdict for each in found] == [Verdict.VIOLATED]
    assert found[0].reason.startswith("pod anti-affinity over node to app In (web); ")
