# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which placement fields of a VM reach its running VMI, under which KubeVirt."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.live_update import (
    rollout_strategy,
    waiting_fields,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform

GATE = {"developerConfiguration": {"featureGates": ["VMLiveUpdateFeatures"]}}
LIVE = {"vmRolloutStrategy": "LiveUpdate"}


@pytest.mark.parametrize(
    ("version", "configuration", "strategy"),
    [
        ("", {}, "LiveUpdate"),
        ("v1.8.4", {}, "LiveUpdate"),
        ("v1.6.0", {"vmRolloutStrategy": "Stage"}, "Stage"),
        ("v1.5.2", {}, "Stage"),
        ("v1.5.2", LIVE, "LiveUpdate"),
        ("v1.4.1", LIVE, "Stage"),
        ("v1.3.1", {**LIVE, **GATE}, "LiveUpdate"),
        ("v1.3.1", GATE, "Stage"),
    ],
)
def test_strategy_of_a_release(version: str, configuration: t.Any, strategy: str) -> None:
    configured = configuration.get("vmRolloutStrategy", "")
    platform = Platform(kubevirt=version, rollout_strategy=configured, configuration=configuration)
    assert rollout_strategy(platform) == strategy


@pytest.mark.parametrize(
    ("version", "strategy", "waiting"),
    [
        (None, "LiveUpdate", {"topologySpreadConstraints"}),
        ("v1.8.4", "LiveUpdate", {"topologySpreadConstraints"}),
        ("v1.3.1", "LiveUpdate", {"tolerations", "topologySpreadConstraints"}),
        (
            "v1.8.4",
            "Stage",
            {"affinity", "nodeSelector", "tolerations", "topologySpreadConstraints"},
        ),
    ],
)
def test_fields_that_wait_for_a_restart(
    version: str | None, strategy: str, waiting: set[str]
) -> None:
    platform = Platform(kubevirt=version, rollout_strategy=strategy, configuration=GATE)
    assert set(waiting_fields(platform)) == waiting
