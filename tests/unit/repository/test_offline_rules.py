# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules put into the manifests of the workloads that they are about, without a cluster."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given, settings

from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
    lint_rules,
    without_findings_of_rules,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from sandbox import objects
from tests.parsed import parsed
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    anti_affinity,
    apart,
    expression,
    node_affinity,
)
from tests.unit.lint.online_offline import manifests
from tests.unit.rules import strategies

JSON = t.Any
NAMESPACE = "shop"
AVOID = {"workloads": [{"name": "a"}], "avoid": {"zone": "a"}}
RULES = "placement.virt/rules"


def vm(name: str, placement: JSON = None, **options: t.Any) -> JSON:
    return objects.virtual_machine(name, NAMESPACE, placement=placement, **options)


def lint(listed: t.Sequence[JSON], *rules: JSON) -> tuple[Finding, ...]:
    named = [{"name": f"r{number}", **rule} for number, rule in enumerate(rules)]
    found = lint_rules(parsed(named), manifests=listed)
    assert all(finding.why.endswith(".") and finding.advice.endswith(".") for finding in found)
    return without_findings_of_rules((*lint_manifests(listed), *found))


def names(listed: t.Sequence[JSON], *rules: JSON) -> list[tuple[str, str]]:
    return [(f.name, f.rule) for f in lint(listed, *rules) if f.severity != "info"]


def beside(name: str) -> JSON:
    return {
        "workloads": [{"name": "a"}],
        "keep_together": {"topology_key": "zone", "with": {"name": name}},
    }


def test_a_rule_and_what_its_workload_has_already_exclude_each_other() -> None:
    listed = [vm("a", {"nodeSelector": {ZONE: "a"}})]

    assert names(listed, AVOID) == [("unsatisfiable", "r0")]
    assert names([], AVOID) == []


@pytest.mark.parametrize("there", ["ab", "ac", "bc", ""])
def test_a_workload_or_target_without_a_manifest_leaves_its_rule_alone(there: str) -> None:
    listed = [vm(name) for name in there]

    assert names(listed, beside("b"), beside("c")) == []
    assert names([*listed, vm("z")], {**AVOID, "workloads": [{"labels": {"no": "body"}}]}) == []


def test_the_rule_that_stays_alone_is_seen_with_the_others() -> None:
    one = {"workloads": [{"name": "a"}], "run_on": {"performance": "high"}}
    other = {"workloads": [{"names": ["a", "z"]}], "avoid": {"performance": "high"}}

    assert {name for name, _rule in names([vm("a")], one, other)} == {"unsatisfiable"}
    assert names([vm("a")], one, other) == names([], one, other)


def test_rule_without_manifests_has_the_same_findings() -> None:
    rule = {"workloads": [{"names": ["a", "b"]}], "spread": {"topology_key": "zone"}}

    both = [vm("a"), vm("b")]
    assert names(both, rule) == names([], rule) == [("restart_required", "r0")]


def test_single_workload_is_reported_without_its_manifest() -> None:
    rule = {"workloads": [{"name": "a"}], "keep_apart": {"topology_key": "zone"}}

    assert names([], rule) == names([vm("a")], rule) == [("single_workload", "r0")]
    assert names([], {**rule, "label": {"tier": "web"}}) == []
    assert names([], {**rule, "workloads": [{"labels": {"tier": "web"}}]}) == []


def test_offline_rules_have_no_findings_about_namespaces_nodes_and_instances() -> None:
    pods = {"labels": {"app": "cache"}, "namespaces": ["elsewhere"]}
    near = {"workloads": [{"name": "a"}], "keep_together": {"topology_key": "node", "pods": pods}}
    disk = {"workloads": [{"name": "a"}], "run_on": {"example.com/disk": "ssd"}}
    around = {"kind": "Namespace", "metadata": {"name": "other"}}

    assert names([vm("a"), around], near, disk) == []


def test_other_workload_that_the_selector_matches_is_reported() -> None:
    listed = [
        vm("a", labels={"tier": "web"}),
        vm("b", labels={"tier": "web"}),
        objects.deployment("proxy", NAMESPACE, labels={"tier": "web"}),
    ]
    rule = {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}}

    (found,) = (f for f in lint(listed, rule) if f.severity != "info")

    assert found.name == "selector_matches_others"
    assert [str(ref) for ref in found.objects] == ["Deployment shop/proxy"]
    assert names(listed[:2], rule) == []


def test_launcher_pods_do_not_count_as_other_workloads() -> None:
    pod: JSON = {
        "kind": "Pod",
        "metadata": {
            "name": "virt-launcher-a",
            "namespace": NAMESPACE,
            "labels": {"tier": "web"},
            "ownerReferences": [{"kind": "VirtualMachineInstance", "name": "a", "uid": "1"}],
        },
        "spec": {"containers": []},
    }
    listed = [vm(name, labels={"tier": "web"}) for name in "ab"]
    rule = {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}}

    assert names([*listed, pod], rule) == []
    del pod["metadata"]["ownerReferences"]
    assert names([*listed, pod], rule) == [("selector_matches_others", "r0")]


def test_template_with_the_terms_of_the_rule_has_no_finding() -> None:
    """As where the terms were committed, and the rule adopts them."""
    rule = {"workloads": [{"name": "a"}], "terms": anti_affinity(apart(app="db"))}
    spread = {
        "workloads": [{"name": "a"}],
        "label": {"tier": "web"},
        "spread": {"topology_key": "zone"},
    }
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [expression("tier", "In", "web")]},
        "nodeTaintsPolicy": "Honor",
    }
    there = {**anti_affinity(apart(app="db")), "topologySpreadConstraints": [constraint]}
    listed = [vm("a", there, labels={"tier": "web"})]

    assert names(listed, rule, spread) == [("restart_required", "r1")]
    constraint["maxSkew"] = 2
    assert ("duplicate_spread", "r1") in names(listed, rule, spread)


def test_term_in_rule_and_manifest_is_reported_once() -> None:
    pinned = node_affinity({"matchExpressions": [expression(HOST, "In", "n1")]})

    found = names(
        [vm("a", pinned), vm("b", pinned)], {"workloads": [{"name": "a"}], "terms": pinned}
    )

    assert found == [("blocks_live_migration", ""), ("blocks_live_migration", "r0")]


def test_externally_managed_workload_keeps_its_other_findings() -> None:
    listed = [vm(name) for name in "abc"]
    listed[0]["metadata"]["labels"] = {"argocd.argoproj.io/instance": "shop"}

    found = set(names(listed, beside("b"), beside("c")))

    assert {name for name, _rule in found} == {"externally_managed", "multiple_required_affinity"}
    assert {rule for _name, rule in found} == {"r0", "r1"}


def test_externally_managed_workload_with_rules_is_reported_once() -> None:
    cluster = Cluster()
    ref = cluster.vm("a")
    cluster.write(ref, "other", (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a", "b")))
    cluster.workloads[ref]["metadata"]["labels"] = {"argocd.argoproj.io/instance": "shop"}

    found = [name for name, _rule in names(manifests(cluster), AVOID)]

    assert found == ["externally_managed"]


@pytest.mark.parametrize("annotation", [RULES, "placement.virt/undo"])
@pytest.mark.parametrize("text", ["{", '{"version": 9}', "[]"])
def test_annotation_that_cannot_be_read(annotation: str, text: str) -> None:
    damaged = vm("a")
    damaged["metadata"]["annotations"] = {annotation: text}
    listed = [damaged, vm("b"), vm("c")]

    (own,) = lint(listed, AVOID)
    (others,) = lint(listed, {**AVOID, "workloads": [{"names": ["b", "c"]}]})

    assert (own.name, own.severity, own.rule) == ("invalid_rules_annotation", "error", "r0")
    assert (others.name, others.severity, others.rule) == (
        "invalid_rules_annotation",
        "warning",
        "",
    )
    assert "VirtualMachine shop/a" in own.why
    assert lint_rules((), manifests=listed) == ()


def test_an_overlay_without_a_template_is_no_place_for_a_rule() -> None:
    part = {"kind": "VirtualMachine", "metadata": {"name": "a", "namespace": NAMESPACE}}

    assert names([part], AVOID) == []


def test_null_fields_count_as_missing() -> None:
    affinity = {"podAntiAffinity": None, "nodeAffinity": None}
    listed = [vm("a", {"affinity": affinity, "nodeSelector": None}), vm("b", {"affinity": None})]
    for manifest in listed:
        manifest["metadata"]["annotations"] = None
        manifest["spec"]["template"]["metadata"] = None
    rule = {"workloads": [{"names": ["a", "b"]}], "keep_apart": {"topology_key": "zone"}}

    assert names(listed, rule, AVOID, {"workloads": [{"name": "a"}], "label": {"t": "x"}}) == []


def test_of_two_manifests_of_a_workload_the_last_counts() -> None:
    pinned = vm("a", {"nodeSelector": {ZONE: "a"}})

    assert names([vm("a"), pinned], AVOID) == [("unsatisfiable", "r0")]
    assert names([pinned, vm("a")], AVOID) == []


def test_the_manifests_stay_as_they_are() -> None:
    listed = [vm(name) for name in "abc"]
    before = copy.deepcopy(listed)

    lint(listed, beside("b"), beside("c"))

    assert listed == before


@settings(max_examples=60)
@given(strategies.templates)
def test_whatever_a_template_holds_rules_can_be_put_there(template: JSON) -> None:
    listed = [vm("a"), vm("b")]
    listed[0]["spec"]["template"] = template
    rules = [
        AVOID,
        {"workloads": [{"names": ["a", "b"]}], "keep_apart": {"topology_key": "zone"}},
        {"workloads": [{"name": "a"}], "label": {"host": "c"}, "spread": {"topology_key": "zone"}},
    ]

    found = lint(listed, *rules)

    assert {finding.rule for finding in found} <= {"", "r0", "r1", "r2"}
    assert len({(f.name, f.rule, f.why) for f in found}) == len(found)


def test_on_a_cluster_its_nodes_and_pods_count_too() -> None:
    cluster = Cluster("ab")
    cluster.run("db", "n1", tier="db")
    web = [vm(name, labels={"tier": "web"}) for name in "abc"]
    rule = {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}}
    nobody = {"workloads": [{"name": "a"}], "terms": anti_affinity(apart(app="nobody"))}
    named = [{"name": f"r{number}", **each} for number, each in enumerate((rule, nobody))]

    found = lint_rules(parsed(named), manifests=web, cluster=cluster.snapshot())

    assert ("unsatisfiable", "error", "r0") in {(f.name, f.severity, f.rule) for f in found}
    assert "selector_matches_nothing" in {f.name for f in found if f.rule == "r1"}
    assert "selector_matches_nothing" not in dict(names(web, rule, nobody))


def test_finding_names_workloads_with_and_without_manifest() -> None:
    nodes = manifests(Cluster("abc"), nodes=True)
    rules = [
        {"workloads": [{"name": name}], "run_on": {"zone": "nowhere"}} for name in ("there", "away")
    ]

    found = [f for f in lint([*nodes, vm("there")], *rules) if f.name == "unsatisfiable"]

    assert {ref.name for f in found for ref in f.objects} == {"there", "away"}


def test_members_that_only_the_cluster_has_are_no_others() -> None:
    cluster = Cluster("abc")
    for name, node in (("b", "n1"), ("c", "n2")):
        cluster.run(name, node, tier="web")
    rule = {
        "name": "r",
        "workloads": [{"labels": {"tier": "web"}}],
        "keep_apart": {"topology_key": "zone"},
    }
    web = [vm("a", labels={"tier": "web"})]

    found = lint_rules(parsed([rule]), manifests=web, cluster=cluster.snapshot())

    assert "selector_matches_others" not in {f.name for f in found}
