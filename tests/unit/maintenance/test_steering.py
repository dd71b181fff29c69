# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taint that steers restarted VMs: what is written to nodes that have other taints, and who reads it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.holders import (
    held_by,
    lasting_taints,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.steering import (
    steering_run,
    steering_write,
    taken_off,
    would_be_taken_off,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.write import (
    PatchTestFailed,
    patched,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_state import untolerated

Taint = dict[str, str]

A: Taint = {"key": "a", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-11-22T19:00:00Z"}
B: Taint = {"key": "b", "effect": "PreferNoSchedule"}
HARD: Taint = {"key": "placement.virt/serviced-later", "value": "r1", "effect": "NoSchedule"}


def ours(run: str) -> Taint:
    taint = {"key": "placement.virt/serviced-later", "value": run, "effect": "PreferNoSchedule"}
    return {name: text for name, text in taint.items() if text}


def manifest(*taints: Taint) -> dict[str, t.Any]:
    spec = {"taints": list(taints)} if taints else {}
    return {"metadata": {"name": "w1", "uid": "u1", "annotations": {}}, "spec": spec}


def written(run: str, *taints: Taint) -> list[Taint] | None:
    """The taints after the write, None if there is none."""
    write = steering_write(node_from_manifest(manifest(*taints)), run)
    if write is None:
        return None
    after = patched(manifest(*taints), (*write.tests, *write.operations))
    return t.cast("list[Taint]", after["spec"].get("taints") or [])


@pytest.mark.parametrize(
    ("before", "run", "after"),
    [
        ((), "r1", [ours("r1")]),
        ((A, B), "r1", [A, B, ours("r1")]),
        ((A, ours("r0"), B), "r1", [A, ours("r1"), B]),
        ((A, ours("r1"), B), "r1", None),
        ((A, ours("r1"), B), "", [A, B]),
        ((ours("r1"),), "", []),
        ((ours(""),), "", []),
        ((A, B), "", None),
        ((HARD,), "", None),
        ((HARD,), "r1", [HARD, ours("r1")]),
    ],
)
def test_taints_of_others_stay_as_they_are(
    before: tuple[Taint, ...], run: str, after: list[Taint] | None
) -> None:
    assert written(run, *before) == after


@pytest.mark.parametrize("run", ["", "r2"])
def test_write_fails_where_another_client_has_changed_the_taints(run: str) -> None:
    write = steering_write(node_from_manifest(manifest(A, ours("r1"))), run)
    assert write is not None
    with pytest.raises(PatchTestFailed):
        patched(manifest(B, ours("r1")), (*write.tests, *write.operations))


def test_taints_are_taken_off_by_their_run() -> None:
    node = node_from_manifest(manifest(ours("r1")))
    assert steering_run(node) == "r1"
    assert len(taken_off([node])) == len(taken_off([node], {"r1"})) == 1
    assert taken_off([node], {"r2"}) == taken_off([node], set()) == []
    assert taken_off([node], keep={"w1"}) == []


def test_node_with_the_taint_takes_pods_and_is_held_by_nobody() -> None:
    plain, tainted = (node_from_manifest(manifest(*taints)) for taints in ((), (ours("r1"),)))
    assert held_by(tainted, lasting_taints(plain)) is None
    assert list(untolerated(tainted.taints, ())) == []


def test_check_mode_names_the_nodes_that_would_lose_the_taint() -> None:
    writes = taken_off([node_from_manifest(manifest(ours("r1")))], {"r1"})
    assert would_be_taken_off(writes) == [
        "taint placement.virt/serviced-later:PreferNoSchedule would be removed from w1"
    ]
    assert would_be_taken_off([]) == []
