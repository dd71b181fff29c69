# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the result of node_labels says for people."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.node_labels import (
    Labelled,
    entries_done,
    entries_next,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write
from ansible_collections.virt.placement.plugins.module_utils.node_labels.request import LabelRequest


def write(name: str, before: dict[str, str], after: dict[str, str]) -> Write:
    return Write(Ref("Node", "", name), "", "uid", (), (), before=before, after=after)


SET = write("w1", {}, {"zone": "a"})
REMOVED = write("w2", {"rack": "1"}, {})
BOTH = write("w3", {"rack": "1"}, {"zone": "a"})
TO_SET = LabelRequest(nodes=("w1",), labels={"zone": "a"})
TO_REMOVE = LabelRequest(nodes=("w1",), remove=("rack",))


@pytest.mark.parametrize(
    ("writes", "check", "request_", "entries"),
    [
        ([SET], False, TO_SET, ["labeled nodes: w1"]),
        ([SET], True, TO_SET, ["nodes that would be labeled: w1"]),
        ([REMOVED], False, TO_REMOVE, ["nodes from which labels were removed: w2"]),
        ([REMOVED], True, TO_REMOVE, ["nodes from which labels would be removed: w2"]),
        (
            [SET, REMOVED, BOTH],
            False,
            TO_SET,
            ["labeled nodes: w1, w3", "nodes from which labels were removed: w2, w3"],
        ),
        ([], False, TO_SET, ["all nodes have these labels already: "]),
        (
            [],
            False,
            LabelRequest(per_node={"w1": {"zone": "a"}}),
            ["all nodes have these labels already: "],
        ),
        (
            [],
            False,
            LabelRequest(labels={"zone": "a"}),
            ["no node is named, so no label is changed: "],
        ),
        ([], False, TO_REMOVE, ["none of the nodes has these labels: rack"]),
    ],
)
def test_entries_say_of_each_node_what_was_done(
    writes: list[Write], check: bool, request_: LabelRequest, entries: t.Sequence[str]
) -> None:
    labelled = Labelled(frozenset({"w1"}), tuple(writes))
    done = entries_done(labelled, request_, check=check)
    assert [f"{entry.text}: {', '.join(entry.objects)}" for entry in done] == list(entries)


@pytest.mark.parametrize(
    ("writes", "check", "names"),
    [
        ([SET], False, ("VirtualMachine shop/db",)),
        ([SET], True, None),
        ([], False, None),
    ],
    ids=["written", "check mode", "all refused"],
)
def test_dependents_are_moved_once_the_labels_are_written(
    writes: list[Write], check: bool, names: tuple[str, ...] | None
) -> None:
    dependents = (Ref("VirtualMachine", "shop", "db"),)
    labelled = Labelled(frozenset({"w1"}), tuple(writes), dependents=dependents)
    found = [entry.objects for entry in entries_next(labelled, check=check)]
    assert found == ([] if names is None else [names])
