# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with eleven VMs is drained, beside kubectl and kubernetes.core, within KubeVirt's default limits.

What is compared, all in the same run, on the same VMs, which are brought back each time:

- ours: a whole playbook with one task, from the start of the process to its end;
- the floor: bare migration objects, two at a time, the next as soon as one has ended, and the start-up of
  a playbook with one ping;
- `kubectl drain`, which asks again every five seconds;
- `kubernetes.core.k8s_drain`, which fails at the first 429 of KubeVirt and leaves VMs on the node.
"""

from __future__ import annotations

import time
import typing as t

from sandbox import Sandbox, objects

from . import playbooks
from .drained_node import DrainedNode
from .row import Promise, Row

NAMESPACE = "bench"
NODE = "w2"
SECONDS = "sandbox.virt/migration-seconds"


def rows(*, small: bool = False) -> list[Row]:
    """Bench row of a drain. `small` only shows that it runs: its ratios mean nothing."""
    vms, seconds = (3, "1") if small else (11, "4")
    with Sandbox.start("six") as sandbox:
        node = DrainedNode(sandbox, NAMESPACE, NODE, patience=300)
        node.create([_vm(f"vm{number:02}", seconds) for number in range(vms)])
        ping = playbooks.run(playbooks.PING).seconds
        floor = node.bare()
        node.bring_back()
        ours = node.ours()
        node.in_service()
        node.bring_back()
        kubectl = node.kubectl().seconds
        node.bring_back()
        seconds_of_peer, left = _kubernetes_core(node)
    promises = (
        Promise("times the floor with start-up", ours.seconds / (floor + ping), 1.3),
        Promise("VMs that kubernetes.core's drain, which fails, leaves", len(left), 1, True),
    )
    return [
        Row(
            f"drain of a node with {vms} VMs, whole playbook",
            "s",
            ours.seconds,
            {"kubectl drain": kubectl, "kubernetes.core, until it fails": seconds_of_peer},
            floor + ping,
            ours.peak_rss_mb,
            () if small else promises,
        )
    ]


def _vm(name: str, seconds: str) -> dict[str, t.Any]:
    return objects.virtual_machine(name, NAMESPACE, cpu="100m", annotations={SECONDS: seconds})


def _kubernetes_core(node: DrainedNode) -> tuple[float, list[str]]:
    """Seconds until it fails, and the VMs that are on the node then. Raises RuntimeError where it does not
    fail, or for another reason."""
    options = {"ignore_daemonsets": True, "delete_emptydir_data": True, "force": True}
    task = {"kubernetes.core.k8s_drain": {"name": NODE, "delete_options": options}}
    begun = time.perf_counter()
    try:
        playbooks.run([task], node.sandbox.kubeconfig("admin"))
    except RuntimeError as failure:
        if "Eviction triggered evacuation" not in str(failure):
            raise
        return time.perf_counter() - begun, node.vms()
    raise RuntimeError("kubernetes.core.k8s_drain did not fail")
