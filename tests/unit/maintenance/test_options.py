# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a maintenance: what they select, and which nodes may be out of service together."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.options import (
    MaintenanceOptions,
    check_limits,
    parse_options,
    select,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from tests.support.facts import node

ZONE = "topology.kubernetes.io/zone"
MARKED = {"placement.virt/maintenance": "{}"}


def options(**given: t.Any) -> MaintenanceOptions:
    defaults = {
        "nodes": ["w1"],
        "topology": None,
        "state": "drained",
        "reason": "",
        "change_id": "",
        "vm_policy": ["migrate"],
        "reboot_expected": False,
        "max_nodes": 1,
        "window": None,
        "allow_findings": [],
        "delegated_budgets": [],
        "assume_in_service": [],
        "serviced_later": [],
        "run_timeout": 60,
        "move_timeout": 60,
    }
    return parse_options({**defaults, **given}, Topology.of({}))


NODES = (node("w1", "a"), node("w2", "a"), node("w3", "b"))


def error_of(**given: t.Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        options(**given)
    return str(raised.value)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"delegated_budgets": ["apps"]}, "'apps' is neither the API group of an operator"),
        ({"delegated_budgets": ["a=b,c"]}, "'a=b,c' is neither the API group of an operator"),
        (
            {"delegated_budgets": ["a=b c"]},
            "known without it: ceph.rook.io, kubevirt.io, longhorn.io",
        ),
        ({"delegated_budgets": [""]}, "'' is neither the API group of an operator"),
        (
            {"nodes": None, "topology": {"zone": "a", "region": "x"}},
            "must have one topology name and its value or values",
        ),
        ({"nodes": None, "topology": {"zone": []}}, "must have one topology name"),
        ({"nodes": None, "topology": {"zone": True}}, "must be text"),
        (
            {"nodes": None, "topology": {"zone": ["a", ["b"]]}},
            "topology.zone: must be text, not ['b']",
        ),
        ({"nodes": None, "topology": {"zoen": "a"}}, "is not declared"),
        ({"vm_policy": ["migrat"]}, "vm_policy: 'migrat' is not a policy; did you mean 'migrate'?"),
        ({"vm_policy": ["stop", "refuse"]}, "vm_policy: 'refuse' must be alone"),
        (
            {"vm_policy": []},
            "vm_policy: must name a policy; known are migrate, restart, stop, stop_and_start, evict",
        ),
        ({"max_nodes": 0}, "max_nodes: must be at least 1"),
        ({"reason": "x" * 300}, "reason: must have at most 256"),
        ({"window": {"start": "22", "end": "04:00"}}, "window.start: '22' is no time of day"),
        ({"change_id": "CHG1"}, "change_id: is recorded with state in_service only"),
    ],
)
def test_bad_options_are_named(given: dict[str, t.Any], error: str) -> None:
    assert error in error_of(**given)


def test_delegated_budgets_as_text_are_one_selector() -> None:
    """Ansible would split the text at its comma."""
    delegation = options(delegated_budgets="app=a,tier=b").delegation
    assert delegation == options(delegated_budgets=["app=a,tier=b"]).delegation
    assert delegation != options(delegated_budgets=["app=a", "tier=b"]).delegation
    assert options(delegated_budgets="longhorn.io").delegation
    assert "several are a list" in error_of(delegated_budgets="longhorn.io,ceph.rook.io")


def test_topology_selects_its_nodes() -> None:
    asked = options(nodes=None, topology={"zone": "a"})
    assert [x.name for x in select(asked, NODES)] == ["w1", "w2"]


def test_several_values_select_the_nodes_of_one_after_the_other() -> None:
    asked = options(nodes=None, topology={"zone": ["b", "a", "b"]})
    assert [x.name for x in select(asked, NODES)] == ["w3", "w1", "w2"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"nodes": ["w9"]}, "there is no node 'w9'"),
        (
            {"nodes": None, "topology": {"zone": "z"}},
            "no node has the label .*=z; known values: 'a",
        ),
        ({"nodes": None, "topology": {"zone": ["a", "z"]}}, "no node has the label .*=z; known"),
    ],
)
def test_selection_of_nothing_is_an_error(given: dict[str, t.Any], error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        select(options(**given), NODES)


def test_empty_list_is_no_node() -> None:
    assert select(options(nodes=[]), NODES) == ()


def test_damaged_mark_is_an_error_about_its_node_alone() -> None:
    nodes = (node("w1", "a", annotations=MARKED), node("w2", "a"))
    with pytest.raises(InvalidInput, match="Node w1: annotation"):
        select(options(nodes=["w1"]), nodes)
    assert [x.name for x in select(options(nodes=["w2"]), nodes)] == ["w2"]


def test_limits_hold_with_nodes_of_earlier_tasks() -> None:
    marked = (NODES[0], node("w2", "a", annotations=MARKED), node("w3", "b"))
    with pytest.raises(
        InvalidInput, match=r"max_nodes: allows 1 node .* be 2: .* w2 .a, in maintenance"
    ):
        check_limits(options(), marked[:1], marked)
    check_limits(options(max_nodes=2), marked[:1], marked)
    with pytest.raises(InvalidInput, match="in 2 topology domains"):
        check_limits(options(nodes=["w3"], max_nodes=6), marked[2:], marked)


def test_nodes_without_zones_are_limited_by_number_alone() -> None:
    nodes = (node("w1"), node("w2"))
    check_limits(options(max_nodes=2), nodes, nodes)


def test_same_nodes_are_the_same_request() -> None:
    assert options().run_options.request == options(reason="other").run_options.request
    assert options().run_options.request != options(nodes=["w2"]).run_options.request
