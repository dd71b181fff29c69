# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A right that is missing makes what rests on it unknown, and is named."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from tests.support.cluster import Cluster, affinity, anti_affinity, apart, expression, spread

TEAMS = {"namespaceSelector": {"matchExpressions": [expression("team", "Exists")]}}


@pytest.mark.parametrize(
    ("spec", "resource", "namespace"),
    [
        pytest.param(anti_affinity(apart(tier="x")), "pods", "shop", id="pods of its own"),
        pytest.param(anti_affinity({**apart(tier="x"), **TEAMS}), "namespaces", "", id="labels"),
        pytest.param(
            affinity({**apart(plain=True, tier="x"), "namespaces": ["other"]}),
            "pods",
            "other",
            id="pods of others",
        ),
        pytest.param(spread(tier="x"), "pods", "shop", id="pods that a spread counts"),
        pytest.param({"nodeSelector": {"a": "b"}}, "nodes", "", id="nodes"),
    ],
)
def test_verdict_that_depends_on_a_gap_is_unknown_with_the_missing_right(
    spec: dict[str, t.Any], resource: str, namespace: str
) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", spec)
    gap = Unreadable(resource, namespace, "list", "grant list to the reader")
    empty: dict[str, t.Any] = {} if resource == "pods" else {resource: ()}

    (found,) = judge(cluster.snapshot(unreadable=(gap,), **empty)).instances

    assert found.verdict is Verdict.UNKNOWN
    assert str(gap) in {rule.reason.split("; ")[-1] for rule in found.rules}


def test_pods_of_unreadable_namespaces_may_have_anti_affinity_to_the_instance() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")
    gap = Unreadable("pods", "other", "list", "forbidden")

    (found,) = judge(cluster.snapshot(unreadable=(gap,))).instances

    assert found.verdict is Verdict.UNKNOWN
    own = next(rule for rule in found.rules if "anti-affinity" in rule.reason)
    assert own.verdict is Verdict.SATISFIED
