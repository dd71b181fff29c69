# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node terms that say nothing or that nothing satisfies."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import lint_rules
from tests.parsed import parsed
from tests.support.cluster import (
    HOST,
    PREFERRED,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
)
from tests.unit.lint.online_offline import manifests, offline, online
from tests.unit.lint.test_request import plan

EMPTY: dict[str, object] = {"matchExpressions": [], "matchFields": []}


def preferred(*terms: dict[str, object]) -> dict[str, object]:
    weighted = [{"weight": 1, "preference": term} for term in terms]
    return {"affinity": {"nodeAffinity": {PREFERRED: weighted}}}


@pytest.mark.parametrize(
    ("spec", "severity"),
    [
        pytest.param(node_affinity(), "error", id="no term"),
        pytest.param(node_affinity(EMPTY), "error", id="one that says nothing"),
        pytest.param(
            node_affinity(EMPTY, {"matchExpressions": [expression(ZONE, "Exists")]}),
            "warning",
            id="one beside another",
        ),
        pytest.param(preferred(EMPTY), "warning", id="preferred"),
    ],
)
def test_an_empty_node_term(spec: dict[str, object], severity: str) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", spec)

    for found in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in found.items()} == {"empty_node_term": severity}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            node_affinity(
                {"matchExpressions": [expression(ZONE, "In", "a"), expression(ZONE, "In", "b")]}
            ),
            id="two values",
        ),
        pytest.param(
            node_affinity(
                {"matchExpressions": [expression(ZONE, "In", "a"), expression(ZONE, "NotIn", "a")]}
            ),
            id="wanted and barred",
        ),
        pytest.param(
            node_affinity(
                {"matchExpressions": [expression(ZONE, "Exists"), expression(ZONE, "DoesNotExist")]}
            ),
            id="there and not there",
        ),
        pytest.param(
            node_affinity(
                {"matchExpressions": [expression(HOST, "Gt", "4"), expression(HOST, "Lt", "5")]}
            ),
            id="no number between",
        ),
        pytest.param(
            node_affinity({"matchExpressions": [expression(HOST, "Gt", "x")]}), id="no number"
        ),
        pytest.param(
            {
                "nodeSelector": {ZONE: "a"},
                **node_affinity({"matchExpressions": [expression(ZONE, "In", "b")]}),
            },
            id="selector and term",
        ),
    ],
)
def test_terms_that_contradict_themselves_are_unsatisfiable(spec: dict[str, object]) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", spec)

    for found in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in found.items()} == {"unsatisfiable": "error"}


@pytest.mark.parametrize(
    ("expressions", "satisfiable"),
    [
        ([expression(HOST, "Gt", "3"), expression(HOST, "Lt", "7")], True),
        ([expression(HOST, "Gt", "3"), expression(HOST, "Lt", "5")], True),
        ([expression(HOST, "Gt", "3"), expression(HOST, "Lt", "4")], False),
        ([expression(HOST, "Gt", "3"), expression(HOST, "In", "4")], True),
        ([expression(HOST, "Gt", "3"), expression(HOST, "In", "3")], False),
        ([expression(HOST, "Lt", "3"), expression(HOST, "In", "3")], False),
        (
            [expression(HOST, "Gt", "9"), expression(HOST, "Gt", "3"), expression(HOST, "Lt", "7")],
            False,
        ),
    ],
)
def test_gt_and_lt_contradict_where_no_integer_lies_between(
    expressions: list[dict[str, object]], satisfiable: bool
) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", node_affinity({"matchExpressions": expressions}))

    assert ("unsatisfiable" in offline(cluster)) is not satisfiable


def test_node_without_a_label_satisfies_exclusions_of_its_values() -> None:
    cluster = Cluster()
    absent, other = expression("gpu", "DoesNotExist"), expression("gpu", "NotIn", "old")
    cluster.run("db", "n1", node_affinity({"matchExpressions": [absent, other]}))

    for found in (online(cluster), offline(cluster)):
        assert "unsatisfiable" not in found


def test_one_of_or_ed_terms_is_enough() -> None:
    cluster = Cluster()
    never = {"matchExpressions": [expression(ZONE, "In", "a"), expression(ZONE, "In", "b")]}
    cluster.run(
        "db", "n1", node_affinity(never, {"matchExpressions": [expression(ZONE, "Exists")]})
    )

    assert online(cluster) == {}
    assert offline(cluster) == {}


def test_a_value_that_no_node_has_is_unsatisfiable_where_nodes_are_known() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {ZONE: "z"}})

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert found["unsatisfiable"].severity == "error"
        assert f"no node satisfies {ZONE} In (z)" in found["unsatisfiable"].why
    assert offline(cluster) == {}


def test_a_preference_that_no_node_meets_has_no_effect() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", preferred({"matchExpressions": [expression(ZONE, "In", "z")]}))

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert found["unsatisfiable"].severity == "warning"


def test_contradiction_names_the_owner_of_each_term() -> None:
    where = {"workloads": [{"name": "db"}], "run_on": {ZONE: "b"}}
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {ZONE: "a"}})

    (found,) = [f for f in plan(cluster, where).refused if f.name == "unsatisfiable"]

    assert f"{ZONE} In (a) (its nodeSelector) and {ZONE} In (b) (rule default/r0)." in found.why
    assert found.advice.startswith("Change one of them")
    both = lint_rules(
        parsed([{"name": "r0", **where}, {"name": "r1", **where, "run_on": {ZONE: "a"}}])
    )
    assert [each.rule for each in both] == ["r0", "r1"]
    text = f"{ZONE} In (b) (rule default/r0) and {ZONE} In (a) (rule default/r1)."
    assert all(text in each.why for each in both)


def test_value_and_key_that_no_node_has_are_both_reported() -> None:
    cluster = Cluster()
    value, key = expression(ZONE, "In", "z"), expression("example.com/disk", "Exists")
    cluster.run("db", "n1", node_affinity({"matchExpressions": [value, key]}))
    cluster.run("web", "n1", node_affinity({"matchExpressions": [key]}))

    found = [(f.name, [ref.name for ref in f.objects]) for f in lint(cluster.snapshot())]

    assert ("unsatisfiable", ["db"]) in found
    assert ("no_node_has_key", ["db", "web"]) in found
    assert f"no node satisfies {ZONE} In (z)." in online(cluster)["unsatisfiable"].why


def test_a_rule_alone_that_no_node_satisfies_is_named() -> None:
    cluster = Cluster()
    nowhere = {"workloads": [{"name": "other"}], "run_on": {ZONE: "z"}}

    found = lint_rules(
        parsed([{"name": "r0", **nowhere}]), manifests=manifests(cluster, nodes=True)
    )

    assert [(f.name, f.rule) for f in found] == [
        ("unsatisfiable", "r0"),
        ("no_node_has_value", "r0"),
    ]


@pytest.mark.parametrize(("zone", "satisfiable"), [("a", True), ("b", False)])
def test_node_terms_against_the_zone_of_a_bound_volume(zone: str, satisfiable: bool) -> None:
    cluster = Cluster("ab")
    volume = {"name": "data", "dataVolume": {"name": "db-data"}}
    wanted = node_affinity({"matchExpressions": [expression(ZONE, "In", zone)]})
    cluster.run("db", "n1", {**wanted, "volumes": [volume]})
    bound = (NodeTerm((Requirement(ZONE, "In", ("a",)),)),)

    reported = online(cluster, claim_terms={("shop", "db-data"): bound})

    assert ("unsatisfiable" in reported) is not satisfiable
    if not satisfiable:
        why = f"the volume of its claim db-data is bound to nodes with {ZONE} In (a)"
        assert why in reported["unsatisfiable"].why


def test_near_and_away_from_the_same_is_unsatisfiable() -> None:
    cluster = Cluster()
    near = apart(HOST, plain=True, tier="db")
    away = anti_affinity(apart(ZONE, plain=True, tier="db"))["affinity"]
    cluster.run("db", "n1", tier="db")
    cluster.run("app", "n3", {"affinity": {**affinity(near)["affinity"], **away}})

    for found in (online(cluster), offline(cluster)):
        assert "it has affinity and anti-affinity to" in found["unsatisfiable"].why


def test_near_pods_of_other_namespaces_and_away_from_those_of_its_own_is_satisfiable() -> None:
    cluster = Cluster()
    near = {**apart(ZONE, plain=True, tier="db"), "namespaceSelector": {}}
    away = anti_affinity(apart(ZONE, plain=True, tier="db"))["affinity"]
    cluster.run("db", "n1", tier="db")
    cluster.run("app", "n3", {"affinity": {**affinity(near)["affinity"], **away}})
    cluster.bare_pod("other-db", "n3", namespace="other", tier="db")

    assert "unsatisfiable" not in online(cluster)


@pytest.mark.parametrize(
    ("generations", "satisfiable"), [(("3", "4", "6"), True), (("3", "6"), False), (("x",), False)]
)
def test_range_of_gt_and_lt_is_satisfied_by_a_node_between(
    generations: tuple[str, ...], satisfiable: bool
) -> None:
    generation = "example.com/generation"
    cluster = Cluster("a" * len(generations))
    for node, value in zip(cluster.nodes.values(), generations, strict=True):
        node["metadata"]["labels"][generation] = value
    between = [expression(generation, "Gt", "3"), expression(generation, "Lt", "5")]
    cluster.vm("db", node_affinity({"matchExpressions": between}))

    assert ("unsatisfiable" in online(cluster)) is not satisfiable
    assert "unsatisfiable" not in offline(cluster)
    assert offline(cluster, nodes=True).keys() == online(cluster).keys()
