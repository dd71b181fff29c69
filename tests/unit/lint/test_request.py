# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules linted as they are about to stand on a cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint_of_writes
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from tests.support.cluster import HOST, ZONE, Cluster, anti_affinity, apart, expression

TOPOLOGY = Topology.of()


def plan(cluster: Cluster, *rules: dict[str, t.Any]) -> RulesPlan:
    listed = [{"name": f"r{number}", **rule} for number, rule in enumerate(rules)]
    parsed = read_rules(listed, namespace="shop", rule_set="default", topology=TOPOLOGY)
    request = RulesRequest("shop", "default", parsed.rules, faults=parsed.faults)
    return plan_rules(cluster.snapshot(), request, extra_findings=lint_of_writes(TOPOLOGY))


def test_a_rule_as_the_harvester_test_had_it_is_refused() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    term = anti_affinity({"topologyKey": ZONE})

    found = plan(cluster, {"workloads": [{"name": "db"}], "terms": term})

    assert [(f.name, f.rule) for f in found.refused] == [("selector_matches_nothing", "r0")]


@pytest.mark.parametrize("running", [True, False])
def test_a_rule_that_is_fine_passes(running: bool) -> None:
    cluster = Cluster()
    for number, node in enumerate(["n1", "n3", "n5"]):
        cluster.start(cluster.vm(f"db{number}"), node) if running else cluster.vm(f"db{number}")
    names = [f"db{number}" for number in range(3)]

    found = plan(cluster, {"workloads": [{"names": names}], "keep_apart": {"topology_key": "zone"}})

    assert found.writes
    assert [f for f in found.findings if f.severity != "info"] == []


def test_a_rule_that_what_is_there_makes_impossible_is_refused() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {ZONE: "a"}})

    found = plan(cluster, {"workloads": [{"name": "db"}], "avoid": {ZONE: "a"}})

    assert [(f.name, f.rule) for f in found.refused] == [("unsatisfiable", "r0")]


def follow(over: str) -> dict[str, t.Any]:
    return {"workloads": ["db2"], "keep_together": {"topology_key": over, "with": "db1"}}


PAIR = {"workloads": ["db1", "db2"]}
LABELED = {**PAIR, "label": {"tier": "db"}}
ONE = {"workloads": ["db1"]}
TWO = {"workloads": ["db2"]}


@pytest.mark.parametrize("rule_set", ["default", "other"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("unsatisfiable", (follow("node"), {**PAIR, "keep_apart": "node"})),
        ("unsatisfiable", (follow("zone"), {**PAIR, "keep_apart": "zone"})),
        ("unsatisfiable", ({**PAIR, "keep_together": "zone"}, {**PAIR, "keep_apart": "zone"})),
        (
            "unsatisfiable",
            ({**LABELED, "keep_together": "zone"}, {**LABELED, "keep_apart": "zone"}),
        ),
        (
            "unsatisfiable",
            (follow("zone"), {**TWO, "keep_apart": {"topology_key": "zone", "from": ["db1"]}}),
        ),
        (
            "unsatisfiable",
            (follow("zone"), {**ONE, "keep_apart": {"topology_key": "zone", "from": ["db2"]}}),
        ),
        ("unsatisfiable", ({**ONE, "run_on": {"zone": "a"}}, {**ONE, "run_on": {"zone": "b"}})),
        ("unsatisfiable", ({**ONE, "run_on": {"zone": "a"}}, {**ONE, "avoid": {"zone": "a"}})),
        (
            "unsatisfiable",
            ({**ONE, "avoid": {"zone": "a"}}, {**ONE, "avoid": {"zone": ["b", "c"]}}),
        ),
        ("unsatisfiable", ({**PAIR, "run_on": {"zone": "a"}}, {**PAIR, "keep_apart": "zone"})),
        (
            "multiple_required_affinity",
            (follow("zone"), {**TWO, "keep_together": {"topology_key": "node", "with": "db3"}}),
        ),
        (
            "label_conflict",
            (
                LABELED | {"keep_apart": "node"},
                {**PAIR, "label": {"tier": "x"}, "keep_apart": "zone"},
            ),
        ),
        (
            "duplicate_spread",
            ({**PAIR, "spread": "zone"}, {**TWO, "label": {"tier": "x"}, "spread": "zone"}),
        ),
    ],
)
def test_rule_that_contradicts_a_written_rule_is_refused_and_both_are_named(
    name: str, rules: tuple[dict[str, t.Any], ...], first: int, rule_set: str
) -> None:
    cluster = Cluster()
    for vm, node in (("db1", "n1"), ("db2", "n3"), ("db3", "n5")):
        cluster.run(vm, node)
    written_rule, contradicting = rules[first], rules[1 - first]
    writes = named_plan(cluster.snapshot(), "default", {"name": "z-old", **written_rule}).writes
    snapshot = written(cluster.snapshot(), writes)

    refused = named_plan(snapshot, rule_set, {"name": "new", **contradicting}).refused

    found = [finding for finding in refused if finding.name == name]
    assert {finding.rule for finding in found} == {"new"}
    assert all("default/z-old" in finding.why for finding in found)


def named_plan(snapshot: Snapshot, rule_set: str, rule: dict[str, t.Any]) -> RulesPlan:
    parsed = read_rules([rule], namespace="shop", rule_set=rule_set, topology=TOPOLOGY)
    assert not parsed.faults
    request = RulesRequest("shop", rule_set, parsed.rules)
    return plan_rules(snapshot, request, extra_findings=lint_of_writes(TOPOLOGY))


def test_findings_about_foreign_terms_refuse_no_rule() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity({"topologyKey": ZONE}))

    found = plan(cluster, {"workloads": [{"name": "db"}], "run_on": {HOST: ["n1", "n2"]}})

    assert found.writes
    assert found.refused == ()


def test_an_allowed_finding_lets_the_rule_pass() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    rule = {
        "workloads": [{"name": "db"}],
        "terms": anti_affinity({"topologyKey": ZONE}),
        "allow_findings": ["selector_matches_nothing"],
    }

    found = plan(cluster, rule)

    assert found.refused == ()
    assert "selector_matches_nothing" in {f.name for f in found.findings}


def test_a_plain_term_over_zone_is_warned_of_and_written() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", tier="db")
    term = anti_affinity(apart(plain=True, tier="db"))

    found = plan(cluster, {"workloads": [{"name": "db"}], "terms": term})

    assert [(f.name, f.severity) for f in found.findings] == [("blocks_live_migration", "warning")]


def test_each_finding_is_reported_once() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    part = expression("example.com/disk", "In", "ssd")
    rule = {"workloads": [{"name": "db"}], "run_on": {part["key"]: "ssd"}}

    names = [f.name for f in plan(cluster, rule).findings]

    assert names == ["no_node_has_key"]


def test_a_node_selector_with_another_value_is_left_to_whoever_set_it() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {HOST: "n1"}})

    found = plan(cluster, {"workloads": [{"name": "db"}], "terms": {"nodeSelector": {HOST: "n2"}}})

    assert [(f.name, f.rule) for f in found.refused] == [("node_selector_conflict", "r0")]
