# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ResourceQuota allows, in the units of pods' requests."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.quota import (
    Quota,
    charged,
    quota_from_manifest,
)

LAUNCHER: dict[str, t.Any] = {
    "requests": {"cpu": "500m", "memory": "2Gi"},
    "limits": {"memory": "2Gi", "devices.kubevirt.io/kvm": "1"},
}


def pod(of_container: t.Mapping[str, t.Any], **spec: t.Any) -> Pod:
    containers = [{"name": "compute", "resources": of_container}]
    metadata = {"namespace": "shop", "name": "launcher"}
    return pod_from_manifest({"metadata": metadata, "spec": {"containers": containers, **spec}})


def across(**namespaces: t.Any) -> dict[str, t.Any]:
    """A preferred anti-affinity to pods of these namespaces."""
    term = {"topologyKey": "zone", "labelSelector": {}, **namespaces}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return {"affinity": {"podAntiAffinity": preferred}}


def counted(hard: t.Mapping[str, str], **spec: t.Any) -> Quota | None:
    metadata = {"namespace": "shop", "name": "compute"}
    return quota_from_manifest({"metadata": metadata, "spec": {"hard": hard, **spec}})


def exceeded(hard: t.Mapping[str, str], **spec: t.Any) -> str:
    """What a launcher pod would exceed beside three of them."""
    quota, launcher = counted(hard, **spec), pod(LAUNCHER)
    if quota is None:
        return "not counted"
    used = {name: 3 * amount for name, amount in charged(launcher).items()}
    return quota.exceeded_by(launcher, used) or ""


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
        ({"scopes": ["Terminating"]}, ""),
        ({"scopeSelector": _selected("PriorityClass")}, ""),
    ],
)
def test_quota_counts_the_pods_in_its_scopes(spec: dict[str, t.Any], reason: str) -> None:
    assert exceeded({"pods": "0"}, **spec) == reason


def priority(operator: str, *values: str) -> dict[str, t.Any]:
    selector = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [selector]}}


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"scopes": ["PriorityClass"]}, {"gold", "silver"}),
        (priority("Exists"), {"gold", "silver"}),
        (priority("DoesNotExist"), {""}),
        (priority("In", "gold"), {"gold"}),
        (priority("NotIn", "gold"), {"", "silver"}),
        ({**priority("NotIn", "gold"), "scopes": ["BestEffort"]}, set()),
    ],
)
def test_case_77_scope_priority_class_is_compared_with_the_class_of_the_pod(
    spec: dict[str, t.Any], counts: set[str]
) -> None:
    quota = counted({"pods": "0"}, **spec)
    assert quota is not None
    pods = [replace(pod(LAUNCHER), priority_class=x) for x in ("", "gold", "silver")]
    assert {x.priority_class for x in pods if quota.counts(x)} == counts
    assert {x.priority_class for x in pods if quota.exceeded_by(x, {})} == counts


@pytest.mark.parametrize(
    ("scope", "spec", "counts"),
    [
        ("Terminating", {}, False),
        ("NotTerminating", {}, True),
        ("Terminating", {"activeDeadlineSeconds": 60}, True),
        ("NotTerminating", {"activeDeadlineSeconds": 60}, False),
        ("CrossNamespacePodAffinity", {}, False),
        ("CrossNamespacePodAffinity", across(namespaces=["shop"]), True),
        ("CrossNamespacePodAffinity", across(namespaceSelector={}), True),
        ("CrossNamespacePodAffinity", across(), False),
    ],
)
def test_other_scopes_are_read_of_the_pod(scope: str, spec: dict[str, t.Any], counts: bool) -> None:
    quota = counted({"pods": "0"}, scopes=[scope])
    assert quota is not None
    assert quota.counts(pod(LAUNCHER, **spec)) == counts


def test_scope_that_is_not_known_is_reported() -> None:
    quota = counted({"pods": "0"}, scopes=["Newer"])
    assert quota is not None
    assert str(quota.why_unknown(pod(LAUNCHER))) == "its scope Newer is not evaluated"
    assert (quota.exceeded_by(pod(LAUNCHER), {}), quota.missing(pod(LAUNCHER))) == (None, ())


def test_quota_of_claims_counts_no_pod() -> None:
    assert counted({"count/pods": "0"}, scopes=["VolumeAttributesClass"]) is None


EVERY = ("cpu", "memory", "limits.cpu", "limits.memory")


@pytest.mark.parametrize(
    ("containers", "missing"),
    [
        ([LAUNCHER], ("limits.cpu",)),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], ()),
        ([{"requests": {"cpu": "0", "memory": "0"}}], ("limits.cpu", "limits.memory")),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": "1"}}], EVERY[1:]),
        ([None], EVERY),
    ],
)
def test_each_container_has_to_specify_what_a_quota_limits(
    containers: list[t.Any], missing: tuple[str, ...]
) -> None:
    quota = counted(dict.fromkeys(("requests.cpu", *EVERY[1:], "pods"), "9"))
    assert quota is not None
    listed = [{"name": "a", "resources": x} for x in containers]
    assert quota.missing(pod({}, containers=listed)) == missing
    assert quota.missing(pod({}, initContainers=listed, containers=[])) == missing
    whole = {"limits": {"cpu": "1"}}
    assert quota.missing(pod({}, containers=listed, resources=whole)) == ()


def test_pod_without_requests_is_best_effort() -> None:
    quota = counted({"pods": "0"}, scopes=["BestEffort"])
    assert quota is not None
    assert quota.exceeded_by(pod({}), {}) == "0 pods, and 1 are needed"
    assert quota.exceeded_by(pod({"limits": {"memory": "1Gi"}}), {}) is None
