# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of the kinds say: each is found by its name, and the defaults are those of its controller."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kinds.deployment import DEPLOYMENT
from ansible_collections.virt.placement.plugins.module_utils.kinds.kind import RolloutRoom
from ansible_collections.virt.placement.plugins.module_utils.kinds.pool import POOL
from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import KINDS, has_vmis
from ansible_collections.virt.placement.plugins.module_utils.kinds.stateful_set import (
    STATEFUL_SET,
    partition_of,
)


def test_every_kind_has_its_own_name_and_path() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
    assert len({kind.path("a", "b") for kind in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize(
    ("spec", "room"),
    [
        ({}, RolloutRoom(1, 0)),
        ({"strategy": {"type": "Recreate"}}, RolloutRoom(0, 3, stops_first=True)),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}, RolloutRoom(0, 1)),
        ({"strategy": {"rollingUpdate": {"maxSurge": "50%"}}}, RolloutRoom(2, 0)),
    ],
)
def test_room_of_a_deployment(spec: dict[str, t.Any], room: RolloutRoom) -> None:
    assert DEPLOYMENT.room(spec, 3) == room


@pytest.mark.parametrize(("most", "unavailable"), [(None, 1), (2, 2), ("50%", 1), ("1%", 1)])
def test_room_of_a_stateful_set(most: int | str | None, unavailable: int) -> None:
    spec = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": most, "partition": 2}}}
    assert STATEFUL_SET.room(spec, 3) == RolloutRoom(0, unavailable)
    assert partition_of(spec) == 2


def test_object_is_reached_in_the_version_in_which_it_was_read() -> None:
    assert "/v1alpha1/" in POOL.path("a", "b", "pool.kubevirt.io/v1alpha1")
    assert "/v1beta1/" in POOL.path("a", "b", "pool.kubevirt.io/v2")


@pytest.mark.parametrize(
    ("kind", "vmis"),
    [("VirtualMachineInstance", True), ("VirtualMachinePool", True), ("Pod", False)],
)
def test_kinds_that_run_vmis(kind: str, vmis: bool) -> None:
    assert has_vmis(kind) is vmis
