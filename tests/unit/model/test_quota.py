# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ResourceQuota allows, in the units of pods' requests."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Quota,
    charged,
    quota_from_manifest,
)

LAUNCHER: dict[str, t.Any] = {
    "requests": {"cpu": "500m", "memory": "2Gi"},
    "limits": {"memory": "2Gi", "devices.kubevirt.io/kvm": "1"},
}


def pod(resources: t.Mapping[str, t.Any]) -> Pod:
    containers = [{"name": "compute", "resources": resources}]
    metadata = {"namespace": "shop", "name": "launcher"}
    return pod_from_manifest({"metadata": metadata, "spec": {"containers": containers}})


def counted(hard: t.Mapping[str, str], **spec: t.Any) -> Quota | None:
    metadata = {"namespace": "shop", "name": "compute"}
    return quota_from_manifest({"metadata": metadata, "spec": {"hard": hard, **spec}})


def exceeded(hard: t.Mapping[str, str], **spec: t.Any) -> str:
    """What a launcher pod would exceed beside three of them."""
    quota, launcher = counted(hard, **spec), pod(LAUNCHER)
    if quota is None:
        return "not counted"
    used = {name: 3 * amount for name, amount in charged(launcher).items()}
    return quota.exceeded_by(launcher, used)


@pytest.mark.parametrize(
    ("hard", "reason"),
    [
        ({"pods": "4", "requests.cpu": "2", "requests.memory": "8Gi"}, ""),
        ({"pods": "3"}, "3 pods, and 4 are needed"),
        ({"count/pods": "3"}, "3 pods, and 4 are needed"),
        ({"cpu": "1900m"}, "1.9 cpu, and 2 are needed"),
        ({"requests.memory": "7Gi"}, "7168Mi memory, and 8192Mi are needed"),
        ({"limits.memory": "7Gi"}, "7168Mi limits.memory, and 8192Mi are needed"),
        ({"limits.memory": "8Gi", "services": "0"}, ""),
    ],
)
def test_resources_are_those_that_pods_request_and_are_limited_to(
    hard: dict[str, str], reason: str
) -> None:
    assert exceeded(hard) == reason


def _selected(scope: str) -> dict[str, t.Any]:
    return {"matchExpressions": [{"operator": "Exists", "scopeName": scope}]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"scopes": ["NotTerminating"]}, "0 pods, and 4 are needed"),
        ({"scopes": ["NotBestEffort"]}, "0 pods, and 4 are needed"),
        ({"scopes": ["BestEffort"]}, ""),
        ({"scopeSelector": _selected("BestEffort")}, ""),
        ({"scopes": ["Terminating"]}, "not counted"),
        ({"scopeSelector": _selected("PriorityClass")}, ""),
    ],
)
def test_quota_counts_the_pods_in_its_scopes(spec: dict[str, t.Any], reason: str) -> None:
    assert exceeded({"pods": "0"}, **spec) == reason


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"hard": {"pods": "1", "limits.memory": "1Gi"}}, ""),
        ({"hard": {"limits.cpu": "9"}}, "limits.cpu of the next pod is not known"),
        (
            {"scopeSelector": _selected("PriorityClass")},
            "its scope PriorityClass is not evaluated",
        ),
        ({"hard": {"limits.cpu": "9"}, "scopes": ["BestEffort"]}, ""),
    ],
)
def test_quota_that_may_refuse_unknown_requests_is_reported(
    spec: dict[str, t.Any], reason: str
) -> None:
    quota = counted(**{"hard": {}, **spec})
    assert quota is not None
    assert quota.why_unknown(pod(LAUNCHER)) == reason


def test_pod_without_requests_is_best_effort() -> None:
    quota = counted({"pods": "0"}, scopes=["BestEffort"])
    assert quota is not None
    assert quota.exceeded_by(pod({}), {}) == "0 pods, and 1 are needed"
    assert quota.exceeded_by(pod({"limits": {"memory": "1Gi"}}), {}) == ""
