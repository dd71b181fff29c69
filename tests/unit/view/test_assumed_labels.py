# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels that nodes are assumed to have: the option, its errors, and a snapshot with them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InputError
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.topology import ZONE, Topology
from ansible_collections.virt.placement.plugins.module_utils.view.label_input import (
    assumed_node_labels,
    with_node_labels,
)
from tests.support.cluster import cluster


def parsed(given: t.Any) -> tuple[t.Any, list[str]]:
    faults: list[InputError] = []
    labels = assumed_node_labels(given, Topology.of(), faults)
    return labels, [str(fault) for fault in faults]


def test_names_become_keys_and_null_removes_a_label() -> None:
    labels, faults = parsed({"n1": {"zone": "x", "example.com/rack": 1, "old-key": None}})

    assert labels == {"n1": {ZONE: "x", "example.com/rack": "1", "old-key": None}}
    assert faults == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"n1": "zone=a"}, "assume_node_labels, n1: must be a map of label keys and values"),
        ({"n1": {"zon": "a"}}, "assume_node_labels, n1.zon: topology key 'zon' is not declared"),
        ({"n1": {"zone": ""}}, "assume_node_labels, n1.zone: must not be empty"),
        ({"n1": {"zone": "a b"}}, "assume_node_labels, n1.zone: 'a b' is not a valid label value"),
        ({"n1": {"a b/c": None}}, "assume_node_labels, n1.a b/c: 'a b/c' is not a valid label key"),
    ],
)
def test_invalid_labels_are_errors(given: t.Any, fault: str) -> None:
    _parsed, faults = parsed(given)

    assert len(faults) == 1
    assert faults[0].startswith(fault)


def test_snapshot_has_the_assumed_labels() -> None:
    snapshot = cluster("ab").snapshot()
    faults: list[InputError] = []

    assumed = with_node_labels(snapshot, {"n1": {ZONE: None, "rack": "r1"}}, faults)

    first, second = assumed.nodes
    assert (first.labels.get(ZONE), first.labels["rack"]) == (None, "r1")
    assert second is snapshot.nodes[1]
    assert faults == []


def test_unknown_node_is_an_error_with_the_nearest_name() -> None:
    snapshot = cluster("ab").snapshot()
    faults: list[InputError] = []

    with_node_labels(snapshot, {"n11": {ZONE: "a"}}, faults)

    assert [str(fault).partition(";")[0] for fault in faults] == [
        "assume_node_labels: there is no node 'n11'"
    ]


def test_node_is_not_called_unknown_where_nodes_cannot_be_read() -> None:
    gap = Unreadable("nodes", "", "list", "forbidden")
    snapshot = cluster("ab").snapshot(unreadable=(gap,), nodes=())
    faults: list[InputError] = []

    with_node_labels(snapshot, {"w9": {ZONE: "a"}}, faults)

    assert faults == []
