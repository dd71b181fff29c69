# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FilterStatus names each failed check: the term, the other pod and the domain."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    PodTerm,
    Ref,
    Requirement,
    Taint,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import (
    Code,
    FilterStatus,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

from .builders import REQUIRED, ZONE, apart, index, node, pod, term

WEB, DB = {"app": "web"}, {"app": "db"}


def only(failures: tuple[FilterStatus, ...]) -> FilterStatus:
    (failure,) = failures
    return failure


def test_anti_affinity_reason_names_the_matched_pod() -> None:
    cluster = index(
        [node("n1", "a"), node("n2", "b")], [pod("w1", "n1", labels=WEB), pod("w2", "n2")]
    )
    failure = only(cluster.failures(pod("new", affinity=apart(WEB)), "n1"))
    (reason,) = failure.reasons
    assert (failure.plugin, failure.code, reason.kind) == (
        "InterPodAffinity",
        Code.UNSCHEDULABLE,
        "anti",
    )
    assert reason.counterpart == Ref("Pod", "shop", "w1")
    assert reason.topology_key == ZONE
    assert isinstance(reason.term, PodTerm)
    assert not cluster.failures(pod("new", affinity=apart(WEB)), "n2")


def test_existing_anti_affinity_reason_has_the_owner_and_its_term() -> None:
    owner = pod("w1", "n1", labels=DB, affinity=apart(WEB))
    cluster = index([node("n1", "a"), node("n2", "a")], [owner])
    failure = only(cluster.failures(pod("new", labels=WEB), "n2"))
    (reason,) = failure.reasons
    assert reason.kind == "existing-anti"
    assert reason.counterpart == owner.ref
    assert reason.term == owner.placement.anti_affinity[0]


def test_each_failing_term_is_a_reason_and_the_first_is_reported() -> None:
    own = {
        "podAffinity": {REQUIRED: [term({"app": "cache"})]},
        "podAntiAffinity": {REQUIRED: [term(WEB), term(DB, "kubernetes.io/hostname")]},
    }
    placed = [
        pod("w1", "n1", labels=WEB),
        pod("d1", "n1", labels=DB),
        pod("x1", "n1", labels={"app": "x"}, affinity=apart({"app": "new"})),
    ]
    cluster = index([node("n1", "a")], placed)
    failure = only(cluster.failures(pod("new", labels={"app": "new"}, affinity=own), "n1"))
    assert [reason.kind for reason in failure.reasons] == [
        "affinity",
        "anti",
        "anti",
        "existing-anti",
    ]
    assert [reason.kind for reason in failure.reported] == ["affinity"]
    assert failure.code is Code.UNRESOLVABLE


def test_order_of_reasons_does_not_depend_on_earlier_checks() -> None:
    terms = [term(DB), term({"app": "db", "tier": "1"})]
    owner = pod("w1", "n1", affinity={"podAntiAffinity": {REQUIRED: terms}})
    replaced = pod("w2", "n2", affinity={"podAntiAffinity": {REQUIRED: terms[::-1]}})
    nodes = [node("n1", "a"), node("n2", "b")]
    fresh, grown = index(nodes, [owner]), index(nodes, [replaced])
    grown.remove("shop/w2")
    grown.place(owner, "n1")
    new = pod("new", labels={**DB, "tier": "1"})

    assert len(only(fresh.failures(new, "n1")).reasons) == 2
    assert grown.failures(new, "n1") == fresh.failures(new, "n1")


def test_anti_affinity_reason_counts_further_matched_pods() -> None:
    placed = [pod(name, "n1", labels=WEB) for name in ("w3", "w1", "w2")]
    cluster = index([node("n1", "a")], placed)
    (reason,) = only(cluster.failures(pod("new", affinity=apart(WEB)), "n1")).reasons
    assert reason.counterpart == Ref("Pod", "shop", "w1")
    assert reason.text.endswith("(and 2 more)")


def test_node_affinity_reason_has_the_required_and_the_actual_value() -> None:
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b", "c"]}]}
        ]
    }
    new = pod("new", nodeSelector={"disk": "ssd"}, affinity={"nodeAffinity": {REQUIRED: required}})
    failure = only(index([node("n1", "a")]).failures(new, "n1"))
    by_pair, by_term = failure.reasons
    assert by_pair.term == Requirement("disk", "In", ("ssd",))
    assert isinstance(by_term.term, NodeTerm)
    assert f"{ZONE} In (b, c); node n1 has 'a'" in by_term.text


def test_taint_and_cordon_are_reported_by_two_filters() -> None:
    taint = {"key": "gpu", "value": "y", "effect": "NoSchedule"}
    cluster = index([node("n1", "a", unschedulable=True, taints=[taint])])
    cordoned, tainted = cluster.failures(pod("new"), "n1")
    assert [reason.kind for reason in cordoned.reasons] == ["cordoned"]
    assert tainted.reasons[0].term == Taint("gpu", "y", "NoSchedule")


def test_taken_host_port_is_reported_with_its_address() -> None:
    web = [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    cluster = index([node("n1", "a")], [pod("p1", "n1", containers=web)])
    (reason,) = only(cluster.failures(pod("new", containers=web), "n1")).reasons
    assert reason.kind == "ports"
    assert reason.text == "host port TCP 80 of 0.0.0.0 is taken"


def test_each_short_resource_is_reported() -> None:
    cluster = index([node("n1", cpu="1", pods="1")], [pod("p1", "n1", cpu="900m")])
    failure = only(cluster.failures(pod("new", cpu="200m"), "n1"))
    assert [(reason.kind, reason.term) for reason in failure.reported] == [
        ("too-many-pods", None),
        ("resources", "cpu"),
    ]
    assert failure.code is Code.UNSCHEDULABLE
    assert only(cluster.failures(pod("new", cpu="2"), "n1")).code is Code.UNRESOLVABLE


@pytest.mark.parametrize(
    ("field", "plugin", "code"),
    [
        ("affinity", "InterPodAffinity", Code.UNRESOLVABLE),
        ("topologySpreadConstraints", "PodTopologySpread", Code.ERROR),
    ],
)
def test_unreadable_term_rejects_every_node(field: str, plugin: str, code: Code) -> None:
    bad = {"matchLabels": {"app": "{{ name }}"}}
    constraint = {
        "labelSelector": bad,
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    rules: dict[str, t.Any] = {
        "affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": bad, "topologyKey": ZONE}]}},
        "topologySpreadConstraints": [constraint],
    }
    cluster = index([node("n1", "a")])
    new = pod("new", **{field: rules[field]})
    failure = only(cluster.failures(new, "n1"))
    assert (failure.plugin, failure.code) == (plugin, code)
    assert [reason.kind for reason in failure.reasons] == ["invalid"]
    assert cluster.feasible_nodes(new) == ()


def test_only_the_selected_filters_are_evaluated() -> None:
    cluster: Index = index([node("n1", cpu="1", unschedulable=True)])
    new = pod("new", cpu="2")
    assert [status.plugin for status in cluster.failures(new, "n1")] == [
        "NodeUnschedulable",
        "NodeResourcesFit",
    ]
    assert [
        status.plugin for status in cluster.failures(new, "n1", plugins={"NodeResourcesFit"})
    ] == ["NodeResourcesFit"]
    assert cluster.table.names_of(cluster.nodes_passing(cluster.pod_info(new), frozenset())) == (
        "n1",
    )
