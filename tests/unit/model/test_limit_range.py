# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What LimitRanges add to a pod, and which pods they refuse, in the words of the API server."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.limit_range import (
    LimitRange,
    limit_range_from_manifest,
    why_refused,
    with_defaults,
)

JSON = t.Any


def limit_range(kind: str = "Container", **limit: JSON) -> LimitRange:
    metadata = {"namespace": "shop", "name": "limits"}
    spec = {"limits": [{"type": "PersistentVolumeClaim"}, {"type": kind, **limit}]}
    found = limit_range_from_manifest({"metadata": metadata, "spec": spec})
    assert found is not None
    return found


def spec(requests: JSON = None, limits: JSON = None) -> JSON:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"containers": [{"name": "a", "resources": resources}]}


def resources(completed: JSON) -> JSON:
    return completed["containers"][0]["resources"]


def test_defaults_are_added_where_a_container_has_none() -> None:
    added = limit_range(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    assert resources(with_defaults(spec(), [added])) == {
        "requests": {"cpu": "500m"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    own = with_defaults(spec(limits={"cpu": "2"}), [added])
    assert resources(own) == {
        "requests": {"cpu": "2"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }


def test_a_limit_range_about_claims_alone_is_none() -> None:
    manifest = {
        "metadata": {"namespace": "shop", "name": "x"},
        "spec": {"limits": [{"type": "PersistentVolumeClaim"}]},
    }
    assert limit_range_from_manifest(manifest) is None


@pytest.mark.parametrize(
    ("limit", "requests", "limits", "why"),
    [
        (
            {"max": {"memory": "1Gi"}},
            {},
            {"memory": "2Gi"},
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {},
            {},
            "maximum memory usage per Container is 1Gi. No limit is specified",
        ),
        (
            {"min": {"cpu": "100m"}},
            {"cpu": "50m"},
            {},
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"min": {"cpu": "100m"}},
            {},
            {},
            "minimum cpu usage per Container is 100m. No request is specified",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "1"},
            {"cpu": "3"},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, ""),
        ({"max": {"cpu": "2"}, "min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "2"}, ""),
    ],
)
def test_a_pod_outside_of_the_limits_is_refused(
    limit: JSON, requests: JSON, limits: JSON, why: str
) -> None:
    found = why_refused(spec(requests, limits), [limit_range(**limit)])
    assert found == (f"LimitRange shop/limits refuses container a: {why}" if why else "")


def test_limits_of_a_pod_are_about_the_sum_of_its_containers() -> None:
    two = {"containers": spec(limits={"cpu": "1"})["containers"] * 2}
    found = why_refused(with_defaults(two, []), [limit_range("Pod", max={"cpu": "1500m"})])
    assert found == (
        "LimitRange shop/limits refuses the pod: maximum cpu usage per Pod is 1500m, but limit is 2000m"
    )


def test_a_default_limit_below_the_request_is_refused() -> None:
    added = limit_range(default={"memory": "1Gi"})
    found = why_refused(with_defaults(spec({"memory": "2Gi"}), [added]), [added])
    assert found.startswith("container a requests 2Gi memory, more than its limit of 1Gi")
