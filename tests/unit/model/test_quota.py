# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ResourceQuota allows, in the units of pods' requests."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.quota import quota_from_manifest

GIB = 1024**3


def exceeded(hard: t.Mapping[str, str], **spec: t.Any) -> str:
    """What a pod of 500m and 2Gi would exceed beside three of them."""
    metadata = {"namespace": "shop", "name": "compute"}
    quota = quota_from_manifest({"metadata": metadata, "spec": {"hard": hard, **spec}})
    if quota is None:
        return "not counted"
    pod = {"pods": 1, "cpu": 500, "memory": 2 * GIB}
    return quota.exceeded_by(pod, {name: 3 * amount for name, amount in pod.items()})


@pytest.mark.parametrize(
    ("hard", "reason"),
    [
        ({"pods": "4", "requests.cpu": "2", "requests.memory": "8Gi"}, ""),
        ({"pods": "3"}, "3 pods, and 4 are needed"),
        ({"count/pods": "3"}, "3 pods, and 4 are needed"),
        ({"cpu": "1900m"}, "1.9 cpu, and 2 are needed"),
        ({"requests.memory": "7Gi"}, "7168Mi memory, and 8192Mi are needed"),
        ({"limits.memory": "1Gi", "services": "0"}, ""),
    ],
)
def test_resources_are_those_that_pods_request(hard: dict[str, str], reason: str) -> None:
    assert exceeded(hard) == reason


def test_only_scopes_of_all_launcher_pods_are_counted() -> None:
    none = {"pods": "0"}

    assert exceeded(none, scopes=["NotTerminating"])[0] == "0"
    assert exceeded(none, scopes=["BestEffort"]) == "not counted"
    priority = {"operator": "Exists", "scopeName": "PriorityClass"}
    assert exceeded(none, scopeSelector={"matchExpressions": [priority]}) == "not counted"
