# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plain drain, as a person with kubectl would do it: a fixture for tests and demos."""

from __future__ import annotations

import contextlib
import time
import typing as t

from .admin_api import ApiFailure

if t.TYPE_CHECKING:
    from . import Sandbox


def cordon(sandbox: Sandbox, node: str) -> None:
    sandbox.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})


def uncordon(sandbox: Sandbox, node: str) -> None:
    sandbox.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


@contextlib.contextmanager
def cordoned(sandbox: Sandbox, nodes: t.Collection[str]) -> t.Iterator[None]:
    """These nodes take no new pod meanwhile."""
    try:
        for node in nodes:
            cordon(sandbox, node)
        yield
    finally:
        for node in nodes:
            uncordon(sandbox, node)


def drain(sandbox: Sandbox, node: str, timeout: float = 60) -> None:
    """Cordon, then evict every pod of `node` again and again until none is left.

    A 429 is an answer like any other: KubeVirt gives it while the virtual machine migrates.
    """
    cordon(sandbox, node)
    deadline = time.monotonic() + timeout
    while pods := _pods_on(sandbox, node):
        if time.monotonic() > deadline:
            left = ", ".join(pod["metadata"]["name"] for pod in pods)
            raise TimeoutError(f"drain of {node}: still there after {timeout:.0f} s: {left}")
        for pod in pods:
            evict(sandbox, pod)
        time.sleep(0.5)


def _pods_on(sandbox: Sandbox, node: str) -> list[dict[str, t.Any]]:
    pods = sandbox.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    return [pod for pod in pods if pod["status"].get("phase") in ("Running", "Pending")]


def evict(sandbox: Sandbox, pod: dict[str, t.Any]) -> None:
    """Ask once for the eviction of a pod. A refusal that may end by itself is no error."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    try:
        sandbox.api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
    except ApiFailure as refusal:
        if refusal.status not in (404, 429):
            raise
