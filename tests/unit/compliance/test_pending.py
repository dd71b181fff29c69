# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod has no node, as kube-scheduler words it."""

from __future__ import annotations

from tests.unit.compliance.cluster import Cluster, Object
from tests.unit.compliance.judged import judge


def waiting(cluster: Cluster, spec: Object) -> str:
    cluster.bare_pod("big", "", spec)
    (pending,) = judge(cluster.snapshot()).pending
    return pending.reason


def test_each_resource_that_is_short_counts_by_itself() -> None:
    cluster = Cluster("ab")
    cluster.nodes["n1"]["status"]["allocatable"]["cpu"] = "64"
    requests = {"resources": {"requests": {"cpu": "32", "memory": "128Gi"}}}

    reason = waiting(cluster, {"containers": [{"name": "c", **requests}]})

    assert reason == "0/2 nodes are available: 2 Insufficient memory, 1 Insufficient cpu"


def test_pod_with_scheduling_gates_waits_for_no_node() -> None:
    gated = {"schedulingGates": [{"name": "example.com/quota"}]}
    assert (
        waiting(Cluster("ab"), gated) == "scheduling is blocked due to non-empty scheduling gates"
    )
