# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeVirt with vmRolloutStrategy Stage, the default before 1.6: a rule of a running VM waits for its restart."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, objects
from tests.conftest import RunModule
from tests.modules.rules_task import RulesTask
from tests.shop import Shop

VMI = "VirtualMachineInstance"


@pytest.fixture
def staged(six: Sandbox) -> t.Iterator[Sandbox]:
    """The sandbox with Stage; afterwards with what it had."""
    path = six.api.path("KubeVirt", "kubevirt", "kubevirt")
    before = six.api.get(path)["spec"]["configuration"].get("vmRolloutStrategy")

    def configure(strategy: str | None) -> None:
        six.api.patch(path, {"spec": {"configuration": {"vmRolloutStrategy": strategy}}})

    configure("Stage")
    yield six
    configure(before)


@pytest.mark.tour
def test_rule_is_written_and_takes_effect_with_the_restart_that_is_allowed(
    staged: Sandbox, run_module: RunModule, namespace: t.Any
) -> None:
    shop = Shop(staged, namespace(staged, "staged"), run_module)
    rules = RulesTask(staged, run_module, shop.namespace)
    names = ["b0", "b1"]
    shop.start(*(objects.virtual_machine(name, shop.namespace) for name in names), nodes=["w1"])
    before = shop.uids()

    written = rules(
        {
            "name": "apart",
            "workloads": [{"names": names}],
            "keep_apart": {"topology_key": "zone"},
        }
    )
    assert {each["takes_effect"] for each in written["workloads"]} == {"restart"}

    waiting = shop.roll(allow=["migrate"])
    assert waiting["moves"] == []
    assert shop.uids() == before
    assert shop.zones() == ["zone1"] * 2

    restarted = shop.roll(allow=["migrate", "restart"])
    assert not restarted.get("failed"), restarted.get("msg")
    assert {move["method"] for move in restarted["moves"]} == {"restart"}
    assert len(set(shop.zones())) == 2
