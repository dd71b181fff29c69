# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared against effective: what is a difference and what is none."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
    JudgedInstances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
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

TOLERATION = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}


def case_of(cluster: Cluster) -> DeclaredInstance:
    snapshot = cluster.snapshot()
    (case,) = JudgedInstances.of(view_of(snapshot)).placed
    return case


def kinds(case: DeclaredInstance) -> tuple[list[str], list[str]]:
    assert case.drift is not None
    return sorted(str(x.kind) for x in case.drift.missing), sorted(
        str(x.kind) for x in case.drift.stale
    )


def deployment(cluster: Cluster, spec: dict[str, t.Any]) -> Ref:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    ref = cluster.workload("Deployment", "web", {"replicas": 1, "template": template})
    cluster.start(ref, "n1", "web-1")
    return ref


ALL: dict[str, t.Any] = {
    "nodeSelector": {ZONE: "a"},
    "tolerations": [TOLERATION],
    **anti_affinity(apart(tier="db"), apart(HOST, tier="web")),
    **spread(tier="db"),
}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param(ALL, id="everything"),
        pytest.param(
            node_affinity({"matchExpressions": [expression(ZONE, "Exists")]}), id="node terms"
        ),
    ],
)
def test_terms_with_which_a_vm_started_are_enforced(spec: dict[str, t.Any]) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", spec, tier="db")

    assert case_of(cluster).drift is None


def test_another_value_in_a_node_term_is_a_difference() -> None:
    cluster = Cluster()
    ref = deployment(cluster, node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}))
    other = node_affinity({"matchExpressions": [expression(ZONE, "In", "b")]})
    cluster.template(ref)["spec"].update(other)

    assert kinds(case_of(cluster)) == (["node affinity"], [])


def test_another_order_is_no_difference() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", ALL, tier="db")
    terms = cluster.template(ref)["spec"]["affinity"]["podAntiAffinity"]
    (required,) = terms.values()
    required.reverse()

    assert case_of(cluster).drift is None


def test_match_labels_equal_the_same_match_expressions() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")
    (required,) = cluster.template(ref)["spec"]["affinity"]["podAntiAffinity"].values()
    required[0]["labelSelector"] = {"matchExpressions": [expression("tier", "In", "db")]}

    assert case_of(cluster).drift is None


def test_match_label_keys_of_a_deployment_are_resolved_on_its_pods() -> None:
    cluster = Cluster()
    term = {**apart(app="web", plain=True), "matchLabelKeys": ["pod-template-hash"]}
    deployment(cluster, anti_affinity(term))

    assert case_of(cluster).drift is None


def test_a_field_that_only_the_template_has_is_missing() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", tier="db")
    cluster.template(ref)["spec"].update(copy.deepcopy(ALL))

    case = case_of(cluster)

    missing = ["nodeSelector", "pod anti-affinity", "pod anti-affinity", "spread", "toleration"]
    assert kinds(case) == (missing, [])
    assert case.drift is not None and not case.drift.reached
    assert case.declared_pod.node_name == "n1"
    assert case.declared_pod.uid == case.pod.uid
    assert ("kubevirt.io/schedulable", "true") in case.declared_pod.placement.node_selector
    assert case.declared_pod.placement.anti_affinity[0].differs_in == "kubevirt.io/created-by"


def test_term_that_live_update_put_on_the_vmi_is_reached() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", tier="db")
    cluster.template(ref)["spec"].update(anti_affinity(apart(tier="db")))
    cluster.propagate(ref)

    case = case_of(cluster)

    assert case.drift is not None and case.drift.reached


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        pytest.param("nodeSelector", {ZONE: "a"}, ["nodeSelector"], id="nodeSelector"),
        pytest.param("tolerations", [TOLERATION], ["toleration"], id="toleration"),
        pytest.param(
            "topologySpreadConstraints",
            spread(tier="db")["topologySpreadConstraints"],
            ["spread"],
            id="spread",
        ),
    ],
)
def test_term_removed_from_the_template_is_stale_on_the_pod(
    field: str, value: t.Any, found: list[str]
) -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", {field: value}, tier="db")
    del cluster.template(ref)["spec"][field]

    assert kinds(case_of(cluster)) == ([], found)


IN_A_ZONE = expression(ZONE, "Exists")
NOT_ON_N9 = expression(HOST, "NotIn", "n9")


@pytest.mark.parametrize(
    ("running", "declared", "stale"),
    [
        pytest.param([[IN_A_ZONE]], [[IN_A_ZONE, NOT_ON_N9]], [], id="one-more"),
        pytest.param([[IN_A_ZONE], [NOT_ON_N9]], [[IN_A_ZONE]], [], id="one-alternative-less"),
        pytest.param([[IN_A_ZONE, NOT_ON_N9]], [[IN_A_ZONE]], ["node affinity"], id="one-removed"),
        pytest.param([[IN_A_ZONE]], [[NOT_ON_N9]], ["node affinity"], id="another-one"),
        pytest.param(
            [[IN_A_ZONE]], [[IN_A_ZONE], [NOT_ON_N9]], ["node affinity"], id="one-alternative-more"
        ),
    ],
)
def test_node_affinity_is_stale_where_it_requires_more_than_is_declared(
    running: list[t.Any], declared: list[t.Any], stale: list[str]
) -> None:
    cluster = Cluster()
    terms = [{"matchExpressions": expressions} for expressions in running]
    ref = cluster.run("db", "n1", node_affinity(*terms))
    terms = [{"matchExpressions": expressions} for expressions in declared]
    cluster.template(ref)["spec"].update(node_affinity(*terms))

    assert kinds(case_of(cluster)) == (["node affinity"], stale)


def test_a_node_selector_of_an_instancetype_is_not_stale() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", {"nodeSelector": {"example.com/type": "big"}})
    del cluster.template(ref)["spec"]["nodeSelector"]
    cluster.workloads[ref]["spec"]["instancetype"] = {"name": "big"}

    assert case_of(cluster).drift is None


def test_a_node_selector_that_aimed_a_migration_is_not_stale() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    next(iter(cluster.pods.values()))["spec"]["nodeSelector"]["example.com/rack"] = "7"

    case = case_of(cluster)

    assert case.drift is None
    assert case.judged_pod is case.pod
    assert ("example.com/rack", "7") not in case.declared_pod.placement.node_selector


@pytest.mark.parametrize("names", [("aimed", "removed"), ("removed", "aimed")])
def test_a_removed_node_selector_is_stale_beside_one_that_aimed_a_migration(
    names: tuple[str, ...],
) -> None:
    """The two pods have the same terms, and only the one VMI still has the node selector."""
    cluster = Cluster()
    for name in names:
        ref = cluster.run(name, "n1", {"nodeSelector": {"rack": "7"}} if name == "removed" else {})
        cluster.template(ref)["spec"].pop("nodeSelector", None)
    for pod in cluster.pods.values():
        pod["spec"]["nodeSelector"] = {"kubevirt.io/schedulable": "true", "rack": "7"}

    placed = JudgedInstances.of(view_of(cluster.snapshot())).placed

    assert {x.instance.ref.name: x.drift is not None for x in placed} == {
        "aimed": False,
        "removed": True,
    }


def test_term_that_admission_adds_to_a_pod_is_not_stale() -> None:
    cluster = Cluster()
    deployment(cluster, {})
    cluster.pods["shop", "web-1"]["spec"]["tolerations"] = [TOLERATION]
    cluster.pods["shop", "web-1"]["spec"].update(anti_affinity(apart(team="x")))

    case = case_of(cluster)

    assert case.drift is None
    assert case.judged_pod is case.pod
    assert not case.declared_pod.placement.anti_affinity


def test_pod_is_judged_with_its_labels_where_no_term_selects_those_that_it_lacks() -> None:
    """The next pod has them, which admission and disruption budgets select."""
    cluster = Cluster()
    ref = cluster.run("db", "n1", tier="db")
    cluster.template(ref)["metadata"]["labels"]["team"] = "x"

    case = case_of(cluster)

    assert case.drift is None
    assert "team" not in case.judged_pod.labels
    assert case.declared_pod.labels["team"] == "x"


def test_pod_that_lacks_a_term_is_judged_as_declared() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", tier="db")
    cluster.template(ref)["spec"].update(anti_affinity(apart(tier="db")))

    case = case_of(cluster)

    assert case.drift is not None
    assert case.judged_pod is case.declared_pod


def test_a_replica_keeps_what_it_was_made_with() -> None:
    cluster = Cluster()
    template = {"metadata": {"labels": {"tier": "db"}}, "spec": {"nodeSelector": {ZONE: "a"}}}
    kind = "VirtualMachineInstanceReplicaSet"
    ref = cluster.workload(kind, "db", {"replicas": 1, "template": template})
    cluster.start(ref, "n1", "db-1")
    cluster.template(ref)["spec"] = anti_affinity(apart(tier="db"))

    case = case_of(cluster)

    assert kinds(case) == (["pod anti-affinity"], ["nodeSelector"])
    assert case.drift is not None and not case.drift.reached


def test_labels_that_binding_copied_are_not_those_of_the_next_pod() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", tier="db")
    next(iter(cluster.pods.values()))["metadata"]["labels"][ZONE] = "a"
    cluster.template(ref)["spec"].update(anti_affinity(apart(tier="db")))

    assert ZONE not in case_of(cluster).declared_pod.labels
    assert case_of(cluster).declared_pod.labels["tier"] == "db"
