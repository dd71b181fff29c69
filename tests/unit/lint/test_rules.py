# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules linted by themselves, before anything is looked up."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import lint_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from tests.support.cluster import HOST, REQUIRED, ZONE, affinity, anti_affinity, apart

VM = {"name": "db"}
PAIR = [{"name": "db"}, {"name": "app"}]
WEB = {"kind": "Deployment", "name": "web"}


def lint(*rules: dict[str, t.Any]) -> dict[str, tuple[str, str]]:
    """Name to severity and rule of each finding."""
    listed = [{"name": f"r{number}", **rule} for number, rule in enumerate(rules)]
    parsed = read_rules(listed, namespace="shop", rule_set="default", topology=Topology.of())
    assert not parsed.faults, parsed.faults
    return {f.name: (f.severity, f.rule) for f in lint_rules(parsed.rules)}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"workloads": [VM], "run_on": {"performance": "high"}}, id="run_on"),
        pytest.param({"workloads": [VM], "avoid": {"performance": "high"}}, id="avoid"),
        pytest.param({"workloads": PAIR, "keep_apart": {"topology_key": "zone"}}, id="keep_apart"),
        pytest.param(
            {"workloads": [WEB], "keep_apart": {"topology_key": "node"}}, id="of a Deployment"
        ),
        pytest.param(
            {"workloads": [VM], "keep_apart": {"topology_key": "zone", "from": WEB}},
            id="from another",
        ),
        pytest.param(
            {"workloads": PAIR, "keep_together": {"topology_key": "zone"}, "preferred": True},
            id="preferred together",
        ),
    ],
)
def test_the_verbs_make_terms_that_are_fine(rule: dict[str, t.Any]) -> None:
    assert lint(rule) == {}


def test_rule_with_a_target_depends_on_other_workload() -> None:
    rule = {"workloads": [{"name": "app"}], "keep_together": {"with": VM, "topology_key": "node"}}

    assert lint(rule) == {"depends_on_other_workload": ("info", "r0")}


def test_two_rules_with_affinity_of_two_vms_to_each_other() -> None:
    one = {"workloads": [{"name": "app"}], "keep_together": {"with": VM, "topology_key": "node"}}
    other = {"workloads": [VM], "keep_together": {"with": {"name": "app"}, "topology_key": "node"}}

    assert lint(one, other)["mutual_affinity"][0] == "error"


def test_members_that_must_all_share_a_node() -> None:
    rule = {"workloads": PAIR, "keep_together": {"topology_key": "node"}}

    assert lint(rule) == {"mutual_affinity": ("error", "r0")}


def test_spread_of_running_vms_and_what_its_skew_means() -> None:
    rule = {"workloads": PAIR, "spread": {"topology_key": "zone", "max_skew": 1}}

    assert lint(rule) == {
        "restart_required": ("warning", "r0"),
        "max_skew_misread": ("info", "r0"),
    }


def test_raw_anti_affinity_without_revision_deadlocks_rollouts() -> None:
    terms = anti_affinity(apart(app="web", plain=True))
    rule = {"workloads": [{"kind": "Deployment", "labels": {"app": "web"}}], "terms": terms}

    assert lint(rule) == {"rollout_deadlock": ("warning", "r0")}


def test_run_on_and_avoid_that_leave_no_node() -> None:
    one = {"workloads": [VM], "run_on": {"performance": "high"}}
    other = {"workloads": [VM], "avoid": {"performance": "high"}}

    assert lint(one, other)["unsatisfiable"][0] == "error"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        pytest.param(
            anti_affinity({"topologyKey": ZONE}), "selector_matches_nothing", id="no selector"
        ),
        pytest.param(
            anti_affinity({"topologyKey": ZONE, "labelSelector": {}}),
            "selector_matches_everything",
            id="an empty one",
        ),
        pytest.param(
            affinity(apart("topology.kubernetes.io/hostname", plain=True, app="cache")),
            "no_node_has_key",
            id="the article's key",
        ),
        pytest.param(
            anti_affinity(apart("failure-domain.beta.kubernetes.io/zone", plain=True, app="cache")),
            "deprecated_node_label",
            id="an old key",
        ),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "unprefixed_label_key", id="a bare key"),
        pytest.param({"nodeSelector": {HOST: "n1"}}, "blocks_live_migration", id="pinned"),
    ],
)
def test_rule_of_type_terms(fields: dict[str, t.Any], found: str) -> None:
    assert found in lint({"workloads": [VM], "terms": fields})


def test_an_empty_node_term_in_terms() -> None:
    empty: dict[str, t.Any] = {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    }
    listed = [{"name": "r0", "workloads": [VM], "terms": empty}]
    parsed = read_rules(listed, namespace="shop", rule_set="default", topology=Topology.of())

    found = [f.name for f in lint_rules(parsed.rules)]
    assert found == ["empty_node_term"] or parsed.faults
