# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last value that a filter accepts, and the first that it rejects."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
    Taint,
    Toleration,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import Code
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import (
    holds,
    is_label_key,
    is_label_value,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_affinity import (
    nodes_of_term,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_state import (
    tolerates,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import NodeTable
from ansible_collections.virt.placement.plugins.module_utils.scheduler.validation import (
    validate_pod_placement,
)

from .builders import PREFERRED, REQUIRED, ZONE, index, node, pod, term

NODES = [node("n1", "a"), node("n2", "b"), node("n3")]
WEB = {"app": "web"}


def test_label_key_of_63_characters_and_prefix_of_253_is_valid_and_longer_is_not() -> None:
    prefix = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert len(prefix) == 253
    assert is_label_key("k" * 63)
    assert not is_label_key("k" * 64)
    assert is_label_key(f"{prefix}/k")
    assert not is_label_key(f"{prefix}a/k")


def test_label_value_of_63_characters_is_valid_and_64_is_not() -> None:
    assert is_label_value("v" * 63)
    assert not is_label_value("v" * 64)


@pytest.mark.parametrize(
    ("operator", "value", "matching"),
    [("Gt", "3", False), ("Gt", "4", True), ("Lt", "3", False), ("Lt", "2", True)],
)
def test_gt_and_lt_exclude_their_bound(operator: str, value: str, matching: bool) -> None:
    requirement = Requirement("rank", operator, ("3",))
    assert holds(requirement, {"rank": value}) is matching
    table = NodeTable([_labelled("n1", rank=value)])
    assert nodes_of_term(NodeTerm((requirement,)), table) == (1 if matching else 0)


def test_gt_3_and_lt_7_match_4_to_6_and_gt_3_and_lt_4_match_none() -> None:
    table = NodeTable([_labelled(f"n{rank}", rank=str(rank)) for rank in range(10)])
    above = Requirement("rank", "Gt", ("3",))
    wide = NodeTerm((above, Requirement("rank", "Lt", ("7",))))
    narrow = NodeTerm((above, Requirement("rank", "Lt", ("4",))))
    assert table.names_of(nodes_of_term(wide, table)) == ("n4", "n5", "n6")
    assert nodes_of_term(narrow, table) == 0


def test_gt_and_lt_compare_64_bit_integers_of_19_digits() -> None:
    above = Requirement("rank", "Gt", ("9223372036854775806",))
    assert holds(above, {"rank": "9223372036854775807"})
    assert not holds(above, {"rank": "9223372036854775808"})


def test_request_that_equals_the_free_amount_fits_and_one_more_does_not() -> None:
    cluster = index([node("n1", cpu="4")], [pod("w1", "n1", cpu="3")])
    assert cluster.feasible_nodes(pod("new", cpu="1")) == ("n1",)
    (failure,) = cluster.failures(pod("new", cpu="1001m"), "n1")
    assert (failure.plugin, failure.code) == ("NodeResourcesFit", Code.UNSCHEDULABLE)


def test_request_that_equals_the_allocatable_amount_waits_and_one_more_never_fits() -> None:
    cluster = index([node("n1", cpu="4")], [pod("w1", "n1", cpu="1")])
    (waiting,) = cluster.failures(pod("new", cpu="4"), "n1")
    (never,) = cluster.failures(pod("new", cpu="4001m"), "n1")
    assert (waiting.code, never.code) == (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


def test_last_pod_slot_is_used_and_the_next_pod_is_rejected() -> None:
    cluster = index([node("n1", pods="2")], [pod("w1", "n1")])
    assert cluster.feasible_nodes(pod("new")) == ("n1",)
    cluster.place(pod("w2"), "n1")
    assert cluster.feasible_nodes(pod("new")) == ()
    assert cluster.failures_in_place("shop/w1") == ()
    cluster.place(pod("w3"), "n1")
    assert [failure.plugin for failure in cluster.failures_in_place("shop/w1")] == [
        "NodeResourcesFit"
    ]


def test_fewer_domains_than_min_domains_count_as_an_empty_domain() -> None:
    placed = [pod("w1", "n1", labels=WEB), pod("w2", "n2", labels=WEB)]
    cluster = index(NODES, placed)
    assert cluster.feasible_nodes(_spread(min_domains=2)) == ("n1", "n2")
    assert cluster.feasible_nodes(_spread(min_domains=3)) == ()
    assert cluster.feasible_nodes(_spread(min_domains=3, max_skew=2)) == ("n1", "n2")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("gpu", "Exists", "", "NoSchedule"), True),
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("gpu", "Equal", "a", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "a"), True),
        (Toleration("gpu", "Equal", "b"), False),
        (Toleration("gpu", "Like", "a"), False),
    ],
)
def test_toleration_covers_a_taint_by_operator_key_value_and_effect(
    toleration: Toleration, tolerated: bool
) -> None:
    assert tolerates(toleration, Taint("gpu", "a", "NoSchedule")) is tolerated


@pytest.mark.parametrize(
    ("used", "needed", "free"),
    [
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.1"}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({}, {"hostIP": "10.0.0.2"}, False),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({"protocol": "UDP"}, {}, True),
        ({"hostPort": 81}, {}, True),
    ],
)
def test_host_port_conflicts_by_number_protocol_and_address(
    used: dict[str, t.Any], needed: dict[str, t.Any], free: bool
) -> None:
    cluster = index([node("n1")], [_with_port("w1", "n1", used)])
    assert cluster.feasible_nodes(_with_port("new", "", needed)) == (("n1",) if free else ())


@pytest.mark.parametrize(
    ("scope", "rejected"),
    [
        ({}, False),
        ({"namespaces": ["bank"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "t2"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "t1"}}}, False),
        ({"namespaces": ["bank"], "namespaceSelector": {"matchLabels": {"team": "t1"}}}, True),
    ],
)
def test_anti_affinity_reaches_the_namespaces_of_the_term(
    scope: dict[str, t.Any], rejected: bool
) -> None:
    spaces = [
        namespace_from_manifest({"metadata": {"name": name, "labels": {"team": team}}})
        for name, team in (("shop", "t1"), ("bank", "t2"))
    ]
    placed = pod("w1", "n1", labels=WEB, metadata={"namespace": "bank"})
    cluster = Index(NODES[:2], [placed], spaces)
    affinity = {"podAntiAffinity": {REQUIRED: [term(WEB, **scope)]}}
    expected = ("n2",) if rejected else ("n1", "n2")
    assert cluster.feasible_nodes(pod("new", affinity=affinity)) == expected


def test_namespace_selector_of_a_new_pod_leaves_out_namespaces_without_an_object() -> None:
    """That of a placed pod is evaluated for such a namespace, as for one that has no labels."""
    no_team = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    affinity = {"podAntiAffinity": {REQUIRED: [term(WEB, namespaceSelector=no_team)]}}
    elsewhere = {"namespace": "bank"}
    beside = index(NODES[:2], [pod("w1", "n1", labels=WEB, metadata=elsewhere)])
    before = index(NODES[:2], [pod("w1", "n1", affinity=affinity)])
    assert beside.feasible_nodes(pod("new", affinity=affinity)) == ("n1", "n2")
    assert before.feasible_nodes(pod("new", labels=WEB, metadata=elsewhere)) == ("n2",)


@pytest.mark.parametrize(("weight", "valid"), [(0, False), (1, True), (100, True), (101, False)])
def test_weight_from_1_to_100_is_valid(weight: int, valid: bool) -> None:
    preferred = {"weight": weight, "podAffinityTerm": term(WEB)}
    spec = {"affinity": {"podAffinity": {PREFERRED: [preferred]}}}
    assert (validate_pod_placement(spec) == ()) is valid


def _labelled(name: str, **labels: str) -> t.Any:
    plain = node(name)
    return type(plain)(name, labels={**plain.labels, **labels})


def _spread(*, min_domains: int, max_skew: int = 1) -> t.Any:
    constraint = {
        "labelSelector": {"matchLabels": WEB},
        "maxSkew": max_skew,
        "minDomains": min_domains,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return pod("new", labels=WEB, topologySpreadConstraints=[constraint])


def _with_port(name: str, node_name: str, port: dict[str, t.Any]) -> t.Any:
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, **port}]}
    return pod(name, node_name, containers=[container])
