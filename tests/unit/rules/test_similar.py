# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms written by hand that mean what a rule means, and terms of rules that a console wrote again."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.record import read_undo_record

from .builders import NAMESPACE, applied, deployment, plan, running, snapshot, vm, workload

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ESX = "node.cluster.x-k8s.io/esxi-host"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POOL = {"harvesterhci.io/machineSetName": "default-c1-pool1"}
OF_POOL = [{"labels": POOL}]
CHECKOUT = {"app.kubernetes.io/name": "checkout", "app.kubernetes.io/component": "service"}
REDIS = {"app.kubernetes.io/name": "checkout", "app.kubernetes.io/component": "redis"}


def component(name: str, key: str = HOST) -> JSON:
    """A term of the EKS workshop."""
    requirement = {"key": "app.kubernetes.io/component", "operator": "In", "values": [name]}
    return {"labelSelector": {"matchExpressions": [requirement]}, "topologyKey": key}


def anti(*terms: JSON) -> JSON:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def near(*terms: JSON) -> JSON:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def soft(*terms: JSON, weight: int = 1) -> JSON:
    weighted = [{"weight": weight, "podAffinityTerm": term} for term in terms]
    return {"affinity": {"podAntiAffinity": {PREFERRED: weighted}}}


def pods_of(owner: Workload, count: int) -> tuple[Pod, ...]:
    """Pods of a Deployment, without the ReplicaSet between."""
    name, labels = owner.ref.name, owner.template_labels
    of_owner = Owner("Deployment", name, owner.uid)
    return tuple(
        Pod(NAMESPACE, f"{name}-{i}", f"{name}-{i}", labels=labels, phase="Running", owner=of_owner)
        for i in range(count)
    )


def written(carrier: Workload, *rules: JSON, others: t.Any = (), **options: t.Any) -> Workload:
    """The workload after the writes of a request, which a second run leaves as it is."""
    found = plan(snapshot(carrier, *others), *rules, **options)
    assert not found.refused, found.refused
    manifest = copy.deepcopy(dict(carrier.manifest))
    for write in found.writes:
        if write.target == carrier.ref:
            manifest = applied(manifest, write)
    there = workload(manifest)
    again = plan(snapshot(there, *others), *rules, **options).writes
    assert carrier.ref not in {write.target for write in again}
    return there


def entries(carrier: Workload, where: str, kind: str = REQUIRED) -> JSON:
    return ((carrier.template["spec"].get("affinity") or {}).get(where) or {}).get(kind, [])


def names(found: t.Any) -> list[str]:
    return [finding.name for finding in found.findings if finding.severity != "info"]


APART_ZONES = {"name": "apart", "workloads": OF_POOL, "keep_apart": "zone"}


@pytest.mark.parametrize("selector", [{}, {"labelSelector": None}])
def test_dead_term_of_the_harvester_recording_is_replaced(selector: JSON) -> None:
    dead = {"topologyKey": ZONE, **selector}
    node = vm("pool-1", labels=POOL, placement=anti(dead))

    there = written(node, APART_ZONES, adopt=True, adopt_similar=True)

    (term,) = entries(there, "podAntiAffinity")
    assert term["mismatchLabelKeys"] == ["kubevirt.io/created-by"]
    record = read_undo_record(there)
    assert record is not None
    assert record.placement["affinity"] == anti(dead)["affinity"]


def test_without_the_option_a_similar_term_is_a_warning_that_names_it() -> None:
    node = vm("pool-1", labels=POOL, placement=anti({"topologyKey": ZONE}))

    found = plan(snapshot(node), APART_ZONES, adopt=True)

    (finding,) = [x for x in found.findings if x.name == "similar_term"]
    assert (finding.severity, finding.rule) == ("warning", "apart")
    assert "no pods, since it has no labelSelector" in finding.why
    assert json.dumps({"topologyKey": ZONE}) in finding.why
    assert finding.advice.startswith("Set adopt to similar")
    (write,) = found.writes
    assert len(entries(workload(applied(dict(node.manifest), write)), "podAntiAffinity")) == 2


def test_term_of_the_node_driver_is_replaced_though_no_pod_has_its_label_yet() -> None:
    driver = {"labelSelector": {"matchLabels": POOL}, "topologyKey": HOST}
    nodes = [vm(f"pool-{i}", placement=soft(driver)) for i in (1, 2, 3)]
    rule = {
        "name": "pool",
        "workloads": [{"names": ["pool-1", "pool-2", "pool-3"]}],
        "label": POOL,
        "keep_apart": "node",
        "preferred": True,
    }

    found = plan(snapshot(*nodes, run=map(running, nodes)), rule, adopt=True, adopt_similar=True)

    assert not found.refused
    for change in found.workloads:
        (term,) = change.merged.after["affinity"]["podAntiAffinity"][PREFERRED]
        assert term["weight"] == 100
        assert term["podAffinityTerm"]["mismatchLabelKeys"] == ["kubevirt.io/created-by"]


def test_terms_of_the_workshop_are_replaced_on_both_deployments() -> None:
    checkout = deployment("checkout", labels=CHECKOUT, placement=anti(component("service")))
    redis = deployment(
        "redis",
        labels=REDIS,
        placement={
            "affinity": {
                **near(component("service"))["affinity"],
                **anti(component("redis"))["affinity"],
            }
        },
    )
    pods = (*pods_of(checkout, 2), *pods_of(redis, 2))
    with_checkout = {"topology_key": "node", "with": {"kind": "Deployment", "name": "checkout"}}
    rules: list[JSON] = [
        {
            "name": "one",
            "workloads": [{"kind": "Deployment", "name": "checkout"}],
            "keep_apart": "node",
        },
        {
            "name": "two",
            "workloads": [{"kind": "Deployment", "name": "redis"}],
            "keep_apart": "node",
        },
        {
            "name": "pair",
            "workloads": [{"kind": "Deployment", "name": "redis"}],
            "keep_together": with_checkout,
        },
    ]
    seen = snapshot(checkout, redis, pods=pods)

    beside = plan(seen, *rules, workload_rollout="allow")
    taken = plan(seen, *rules, workload_rollout="allow", adopt=True, adopt_similar=True)

    assert sorted(names(beside)).count("similar_term") == 3
    assert "multiple_required_affinity" not in names(beside), "both terms select the same pods"
    assert not beside.refused
    assert not taken.refused
    for change in taken.workloads:
        affinity = change.merged.after["affinity"]
        assert [len(x[REQUIRED]) for x in affinity.values()] == [1] * len(affinity)
        assert affinity["podAntiAffinity"][REQUIRED][0]["matchLabelKeys"] == ["pod-template-hash"]


def test_replacing_a_term_of_a_deployment_starts_its_rollout_and_needs_the_option_for_that() -> (
    None
):
    kind = {"kind": "Deployment", "name": "checkout"}
    rule = {"name": "one", "workloads": [kind], "keep_apart": "node"}
    there = written(deployment("checkout", labels=CHECKOUT), rule, workload_rollout="allow")
    manifest = copy.deepcopy(dict(there.manifest))
    affinity = manifest["spec"]["template"]["spec"]["affinity"]
    affinity["podAntiAffinity"][REQUIRED].append({"topologyKey": HOST})

    (change,) = plan(
        snapshot(workload(manifest)), rule, adopt=True, adopt_similar=True, workload_rollout="allow"
    ).workloads
    refused = plan(snapshot(workload(manifest)), rule, adopt=True, adopt_similar=True).refused

    assert [x.name for x in change.merged.updated] == ["one"]
    assert [finding.name for finding in refused] == ["starts_workload_rollout"]


def test_constraint_of_the_article_is_replaced() -> None:
    literal = {"maxSkew": 1, "topologyKey": ESX, "whenUnsatisfiable": "DoNotSchedule"}
    placement = {"topologySpreadConstraints": [literal]}
    web = deployment("web", placement=placement)
    kind = {"kind": "Deployment", "name": "web"}
    rule = {
        "name": "r", "workloads": [kind], "spread": ESX, "allow_findings": ["no_node_has_key"],
    }  # fmt: skip

    (refused,) = plan(snapshot(web), rule, adopt=True, workload_rollout="allow").refused
    there = written(web, rule, adopt=True, adopt_similar=True, workload_rollout="allow")

    assert refused.name == "duplicate_spread"
    assert refused.advice == "Set adopt to similar, and the rule takes it over."
    (constraint,) = there.template["spec"]["topologySpreadConstraints"]
    assert constraint["nodeTaintsPolicy"] == "Honor"
    assert constraint["labelSelector"]


def _web(term: JSON, **options: t.Any) -> list[str]:
    """The findings of a rule for two VMs of the label app=web beside a term of others on one of them."""
    first = vm("a", labels={"app": "web"}, placement=term)
    second = vm("b", labels={"app": "web"})
    third = vm("c", labels={"app": "db"})
    rule = {"name": "r", "workloads": [{"names": ["a", "b"]}], "keep_apart": "zone"}
    seen = snapshot(first, second, third, run=map(running, (first, second, third)), **options)
    return [
        x for x in names(plan(seen, rule)) if x in ("similar_term", "multiple_required_affinity")
    ]


def _selecting(key: str = ZONE, **more: t.Any) -> JSON:
    return {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key, **more}


def test_selectors_are_compared_by_the_pods_that_they_select() -> None:
    everything: JSON = {"labelSelector": {}, "topologyKey": ZONE}
    absent = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": ZONE}
    assert _web(anti(_selecting())) == ["similar_term"]
    assert _web(anti(_selecting(namespaces=[NAMESPACE]))) == ["similar_term"]
    assert _web(anti(_selecting(mismatchLabelKeys=["example.com/revision"]))) == ["similar_term"]
    for other in (everything, absent, _selecting(HOST), _selecting(namespaces=["other"])):
        assert _web(anti(other)) == [], other
    assert _web(anti(_selecting(namespaceSelector={}))) == []
    assert _web(soft(_selecting())) == [], "a preferred term is not a required one"
    assert _web(near(_selecting())) == [], "affinity is not anti-affinity"


def test_pods_that_cannot_be_read_leave_a_term_unlike() -> None:
    gap = Unreadable("pods", "", "list", "no right")
    assert _web(anti(_selecting()), unreadable=(gap,)) == []
    assert _web(anti({"topologyKey": ZONE}), unreadable=(gap,)) == ["similar_term"]


def _linted(*workloads: Workload, **fields: t.Any) -> list[tuple[str, str]]:
    return [
        (finding.rule, finding.why)
        for finding in lint(snapshot(*workloads, **fields))
        if finding.name == "similar_term"
    ]


def test_lint_finds_a_similar_term_beside_the_term_that_a_rule_has_written() -> None:
    """verify, placement_info and lint_info show it without the rules, in the words of the module rules."""
    carrier = vm("a", labels={"app": "web"}, placement=anti(_selecting()))
    other = vm("b", labels={"app": "web"})
    rule = {"name": "r", "workloads": [{"names": ["a", "b"]}], "keep_apart": "zone"}
    gap = Unreadable("pods", "", "list", "no right")
    there = written(carrier, rule, others=[other])
    planned = [x for x in plan(snapshot(carrier, other), rule).findings if x.name == "similar_term"]

    assert _linted(there, other) == [("r", x.why) for x in planned] != []
    assert _linted(carrier, other) == [], "no rule has a term there"
    assert _linted(written(other, rule, others=[carrier]), carrier) == [], "each has one term"
    assert _linted(there, other, unreadable=(gap,)) == [], "other selectors: which pods is unknown"


def test_lint_finds_a_term_without_a_selector_beside_the_term_of_a_rule() -> None:
    dead = {"topologyKey": ZONE}
    node = vm("pool-1", labels=POOL, placement=anti(dead, _selecting(HOST)))

    ((rule, why),) = _linted(written(node, APART_ZONES))

    assert rule == "apart"
    assert json.dumps(dead) in why


def test_lint_finds_no_similar_term_once_it_is_taken_over() -> None:
    node = vm("pool-1", labels=POOL, placement=anti({"topologyKey": ZONE}))

    there = written(node, APART_ZONES, adopt=True, adopt_similar=True)

    assert _linted(there) == []
    assert [x.name for x in lint_manifests([{"kind": "VirtualMachine", **there.manifest}])] == []


def test_lint_of_exported_manifests_finds_a_similar_term() -> None:
    node = vm("pool-1", labels=POOL, placement=anti({"topologyKey": ZONE}))
    there = written(node, APART_ZONES)

    found = lint_manifests([{"kind": "VirtualMachine", **there.manifest}])

    assert [x.rule for x in found if x.name == "similar_term"] == ["apart"]


def test_spread_with_another_skew_is_not_similar() -> None:
    there = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    web = vm("a", labels={"app": "web"}, placement={"topologySpreadConstraints": [there]})
    rule = {"name": "r", "workloads": [{"labels": {"app": "web"}}], "spread": "zone"}

    (refused,) = plan(snapshot(web), rule, adopt=True, adopt_similar=True).refused

    assert (refused.name, refused.advice.split(",")[0]) == (
        "duplicate_spread",
        "Remove it from the template",
    )


def test_affinity_terms_that_select_different_pods_are_still_refused() -> None:
    other = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOST}
    follower = vm("a", placement=near(other))
    targets = [vm("db"), vm("cache", labels={"app": "cache"})]
    rule = {
        "name": "r",
        "workloads": [{"name": "a"}],
        "keep_together": {"topology_key": "node", "with": {"name": "db"}},
    }

    refused = plan(snapshot(follower, *targets), rule).refused

    assert [finding.name for finding in refused] == ["multiple_required_affinity"]


def _stripped(carrier: Workload) -> Workload:
    """The workload after a round trip through OpenShift's dialog: each pod term keeps its matchExpressions, its
    topologyKey and its weight."""
    manifest = copy.deepcopy(dict(carrier.manifest))
    for kinds in manifest["spec"]["template"]["spec"]["affinity"].values():
        for listed in kinds.values():
            for entry in listed:
                term = entry.get("podAffinityTerm", entry)
                for key in (
                    "namespaces",
                    "namespaceSelector",
                    "matchLabelKeys",
                    "mismatchLabelKeys",
                ):
                    term.pop(key, None)
                selector = term.get("labelSelector") or {}
                term["labelSelector"] = {"matchExpressions": selector.get("matchExpressions") or []}
    return workload(manifest)


PAIR = [{"names": ["a", "b"]}]


@pytest.mark.parametrize("preferred", [False, True])
def test_term_that_a_console_stripped_is_replaced_without_an_option(preferred: bool) -> None:
    rule = {"name": "r", "workloads": PAIR, "keep_apart": "zone", "preferred": preferred}
    first = written(vm("a"), rule, others=[vm("b")])

    again = written(_stripped(first), rule, others=[vm("b")])

    assert again.template == first.template


def test_term_that_a_console_stripped_is_removed_with_its_rule() -> None:
    rule = {"name": "r", "workloads": PAIR, "keep_apart": "zone"}
    first = written(vm("a"), rule, others=[vm("b")])

    gone = written(_stripped(first), {"name": "r"}, others=[vm("b")], state="absent")

    assert entries(gone, "podAntiAffinity") == []


def test_stripped_copy_beside_the_term_of_the_rule_is_similar_and_not_ours() -> None:
    """As after a release that wrote the term anew beside the stripped one."""
    rule = {"name": "r", "workloads": PAIR, "keep_apart": "zone"}
    first = written(vm("a"), rule, others=[vm("b")])
    manifest = copy.deepcopy(dict(first.manifest))
    listed = manifest["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    listed.insert(0, {k: v for k, v in listed[0].items() if k != "mismatchLabelKeys"})
    both = workload(manifest)

    found = plan(snapshot(both, vm("b")), rule)
    there = written(both, rule, others=[vm("b")], adopt=True, adopt_similar=True)

    assert "similar_term" in names(found)
    assert [w.target.name for w in found.writes] == ["b"]
    assert there.template == first.template
