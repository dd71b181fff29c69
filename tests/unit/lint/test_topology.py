# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Domains, and what is wrong with the labels that make them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.topology import (
    TopologyReport,
    table,
    topology_report,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Taint
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import takes_pods

KEYS = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "node": "kubernetes.io/hostname",
    "old_zone": "failure-domain.beta.kubernetes.io/zone",
    "performance": "performance",
    "rack": "example.com/rack",
}
CONTROL_PLANE = Taint("node-role.kubernetes.io/control-plane", "", "NoSchedule")
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def _node(name: str, *taints: Taint, **labels: str) -> Node:
    found = {"node": name, "region": "r1", **labels}
    return Node(
        name,
        labels={KEYS[key]: value for key, value in found.items() if value},
        taints=taints,
    )


def _report(*nodes: Node, **keys: str) -> TopologyReport:
    return topology_report(nodes, Topology.of(keys))


def _found(report: TopologyReport, name: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.name == name]


GOOD = (
    _node("w1", zone="a"),
    _node("w2", zone="a", performance="high"),
    _node("w3", zone="b"),
    _node("cp", CONTROL_PLANE),
)


def test_domains_and_what_is_missing() -> None:
    report = _report(*GOOD)
    names = {
        key: {domain: [node.name for node in nodes] for domain, nodes in domains.items()}
        for key, domains in report.domains.items()
    }
    assert names == {
        "region": {"r1": ["cp", "w1", "w2", "w3"]},
        "zone": {"a": ["w1", "w2"], "b": ["w3"]},
        "node": {name: [name] for name in ("cp", "w1", "w2", "w3")},
        "performance": {"high": ["w2"]},
    }
    assert {key: [node.name for node in nodes] for key, nodes in report.missing.items()} == {
        "region": [],
        "zone": ["cp"],
        "node": [],
        "performance": ["cp", "w1", "w3"],
    }


def test_a_good_cluster_has_nothing_to_be_warned_of() -> None:
    assert [(found.name, found.severity) for found in _report(*GOOD).findings] == [
        ("single_domain", "info")
    ]


def test_a_table_for_people() -> None:
    assert table(_report(*GOOD)).splitlines() == [
        "KEY          DOMAIN  COUNT  NODES",
        "region       r1      4      cp, w1, w2, w3",
        "zone         a       2      w1, w2",
        "             b       1      w3",
        "             -       1      cp",
        "node         cp      1      cp",
        "             w1      1      w1",
        "             w2      1      w2",
        "             w3      1      w3",
        "performance  high    1      w2",
        "             -       3      cp, w1, w3",
    ]


@pytest.mark.parametrize(
    ("taints", "takes"),
    [
        ((), True),
        ((CORDONED,), False),
        ((CONTROL_PLANE,), False),
        ((Taint("dedicated", "db", "NoExecute"),), False),
        ((Taint("dedicated", "db", "PreferNoSchedule"),), True),
    ],
)
def test_node_takes_pods_without_noschedule_and_noexecute_taints(
    taints: tuple[Taint, ...], takes: bool
) -> None:
    assert takes_pods(_node("w1", *taints)) == takes


def test_cordoned_node_takes_no_pods() -> None:
    assert not takes_pods(replace(_node("w1"), unschedulable=True))


def test_a_key_that_some_nodes_lack() -> None:
    nodes = (*GOOD, _node("w4"), _node("w5"), _node("w6", CORDONED))
    (found,) = _found(_report(*nodes), "topology_incomplete")
    assert found.why == ("w4, w5 take pods and have no label topology.kubernetes.io/zone (zone).")
    assert [ref.name for ref in found.objects] == ["w4", "w5"]


@pytest.mark.parametrize(("keys", "severity"), [({}, "info"), ({"rack": KEYS["rack"]}, "warning")])
def test_a_key_that_no_node_has(keys: dict[str, str], severity: str) -> None:
    found = _found(
        _report(_node("w1", zone="a", performance="x", region=""), **keys), "no_node_has_key"
    )
    assert severity in {finding.severity for finding in found}


@pytest.mark.parametrize("value", ["true", "yes", ""])
def test_label_of_a_group_of_nodes_has_no_domains(value: str) -> None:
    """Such as that of a host group: it would be wrong to label the other nodes, too."""
    licensed = replace(GOOD[0], labels={**GOOD[0].labels, "example.com/licensed": value})

    report = _report(licensed, *GOOD[1:], licensed="example.com/licensed")

    assert _found(report, "topology_incomplete") == []
    assert _found(report, "single_domain") == [
        finding for finding in _report(*GOOD).findings if finding.name == "single_domain"
    ]


def test_one_domain_only() -> None:
    report = _report(_node("w1", zone="a"), _node("w2", zone="a"))
    assert [
        (found.severity, found.why.split("(")[1]) for found in _found(report, "single_domain")
    ] == [
        ("info", "region) are in one domain, r1."),
        ("warning", "zone) are in one domain, a."),
    ]


def test_two_nodes_with_one_hostname() -> None:
    (found,) = _found(_report(*GOOD, _node("w4", zone="b", node="w3")), "duplicate_hostname")
    assert (found.severity, found.why) == ("error", "w3, w4 all have kubernetes.io/hostname=w3.")


def test_a_zone_in_two_regions() -> None:
    (found,) = _found(_report(*GOOD, _node("w4", zone="b", region="r2")), "zone_in_two_regions")
    assert found.why == "Zone b has nodes in the regions r1, r2."


@pytest.mark.parametrize(("zone", "severity"), [("a", "info"), ("b", "warning"), ("", "warning")])
def test_a_label_that_was_replaced(zone: str, severity: str) -> None:
    (found,) = _found(_report(*GOOD, _node("w4", zone=zone, old_zone="a")), "deprecated_node_label")
    assert found.severity == severity
    assert ("differs or is missing on w4" in found.why) == (severity == "warning")
    assert found.advice.startswith("Give these nodes" if severity == "warning" else "They have")


def test_domain_with_the_empty_name_is_seen() -> None:
    nodes = [Node(f"w{n}", labels={KEYS["zone"]: "", KEYS["node"]: f"w{n}"}) for n in range(2)]
    report = _report(*nodes)

    assert 'in one domain, "".' in _found(report, "single_domain")[0].why
    assert 'zone         ""      2      w0, w1' in table(report)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("rack-1", "Rack_1", True),
        ("rack-1", "rack1", True),
        ("eu-west-1a", "euwest1a", True),
        ("r1-11", "r11-1", False),
        ("1.1", "11", False),
    ],
)
def test_domains_are_similar_whatever_their_case_and_punctuation(
    one: str, other: str, alike: bool
) -> None:
    """Punctuation between digits tells domains apart, such as rows and racks."""
    nodes = (*GOOD, _node("w4", zone=one), _node("w5", zone=other))
    assert bool(_found(_report(*nodes), "similar_domain_names")) is alike


def test_domains_that_differ_in_spelling() -> None:
    (found,) = _found(_report(*GOOD, _node("w4", zone="A")), "similar_domain_names")
    assert found.why == "The domains A and a of zone differ in spelling only."


def test_topology_without_nodes() -> None:
    report = _report()
    assert table(report) == "KEY  DOMAIN  COUNT  NODES"
    assert {found.name for found in report.findings} == {"no_node_has_key"}
