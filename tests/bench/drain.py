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

import itertools
import os
import subprocess
import time
import typing as t

from sandbox import Sandbox, binaries, drain, objects

from . import playbooks
from .row import Promise, Row

NAMESPACE = "bench"
NODE = "w2"
PER_NODE = 2
"""Outbound migrations of a node that KubeVirt lets run at once (parallelOutboundMigrationsPerNode)."""

SECONDS = "sandbox.virt/migration-seconds"
ENDED = ("Succeeded", "Failed")

_numbers = itertools.count()


def rows(*, small: bool = False) -> list[Row]:
    """Bench row of a drain. `small` only shows that it runs: its ratios mean nothing."""
    vms, seconds = (3, "1") if small else (11, "4")
    with Sandbox.start("six") as sandbox:
        _create(sandbox, vms, seconds)
        ping = playbooks.run(playbooks.PING).seconds
        floor = _floor(sandbox)
        _bring_back(sandbox)
        ours = playbooks.run(_our_task(), sandbox.kubeconfig("maintainer"))
        if left := _on_node(sandbox):
            raise RuntimeError(f"ours left {left} on {NODE}")
        playbooks.run(_our_return(), sandbox.kubeconfig("maintainer"))
        _bring_back(sandbox)
        kubectl = _kubectl(sandbox)
        drain.uncordon(sandbox, NODE)
        _bring_back(sandbox)
        seconds_of_peer, left = _kubernetes_core(sandbox)
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


def _create(sandbox: Sandbox, vms: int, seconds: str) -> None:
    sandbox.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    _cordon_others(sandbox)
    names = [f"vm{number:02}" for number in range(vms)]
    made = [
        objects.virtual_machine(name, NAMESPACE, cpu="100m", annotations={SECONDS: seconds})
        for name in names
    ]
    sandbox.api.create_all(made)
    sandbox.api.wait_list(
        sandbox.api.path("VirtualMachineInstance", NAMESPACE),
        lambda found: len(found) == vms and all(map(_serves, found)),
        timeout=120,
    )
    _uncordon_others(sandbox)


def _serves(vmi: dict[str, t.Any]) -> bool:
    conditions = (vmi.get("status") or {}).get("conditions") or []
    migratable = any(x["type"] == "LiveMigratable" and x["status"] == "True" for x in conditions)
    return bool(vmi["status"].get("phase") == "Running" and migratable)


def _on_node(sandbox: Sandbox) -> list[str]:
    vmis = sandbox.api.list(sandbox.api.path("VirtualMachineInstance", NAMESPACE))
    return [x["metadata"]["name"] for x in vmis if x["status"].get("nodeName") == NODE]


def _floor(sandbox: Sandbox) -> float:
    """Seconds of bare migrations away from the node, which is cordoned, as many as KubeVirt lets run."""
    drain.cordon(sandbox, NODE)
    waiting = _on_node(sandbox)
    begun = time.perf_counter()
    _migrate(sandbox, waiting, PER_NODE)
    seconds = time.perf_counter() - begun
    drain.uncordon(sandbox, NODE)
    return seconds


def _migrate(sandbox: Sandbox, names: t.Sequence[str], at_once: int) -> None:
    """Migrates these VMs, so many at a time, and removes the migrations."""
    path = sandbox.api.path("VirtualMachineInstanceMigration", NAMESPACE)
    waiting = list(names)
    running: set[str] = set()
    while waiting or running:
        while waiting and len(running) < at_once:
            vm = waiting.pop(0)
            running.add(vm)
            name = f"bare-{vm}-{next(_numbers)}"  # the one before may still be being deleted
            sandbox.api.create(path, objects.migration(vm, NAMESPACE, name=name))
        for migration in sandbox.api.list(path):
            if (migration.get("status") or {}).get("phase") in ENDED:
                running.discard(migration["spec"]["vmiName"])
                sandbox.api.delete(f"{path}/{migration['metadata']['name']}")
        time.sleep(0.05)


def _bring_back(sandbox: Sandbox) -> None:
    """All VMs to the node, the only one that takes pods. A migration that fails is tried again, twice."""
    _cordon_others(sandbox)
    for _attempt in range(3):
        vmis = sandbox.api.list(sandbox.api.path("VirtualMachineInstance", NAMESPACE))
        away = [x["metadata"]["name"] for x in vmis if x["status"].get("nodeName") != NODE]
        if not away:
            break
        _migrate(sandbox, away, PER_NODE)
    else:
        raise RuntimeError(f"these VMs did not come back: {', '.join(sorted(away))}")
    _uncordon_others(sandbox)


def _cordon_others(sandbox: Sandbox) -> None:
    for name in _others(sandbox):
        drain.cordon(sandbox, name)


def _uncordon_others(sandbox: Sandbox) -> None:
    for name in _others(sandbox):
        drain.uncordon(sandbox, name)


def _others(sandbox: Sandbox) -> list[str]:
    nodes = sandbox.api.list("/api/v1/nodes")
    return [x["metadata"]["name"] for x in nodes if x["metadata"]["name"] != NODE]


def _our_task() -> list[dict[str, t.Any]]:
    return [{"virt.placement.node_maintenance": {"nodes": [NODE], "state": "drained"}}]


def _our_return() -> list[dict[str, t.Any]]:
    return [{"virt.placement.node_maintenance": {"nodes": [NODE], "state": "in_service"}}]


def _kubectl(sandbox: Sandbox) -> float:
    """Seconds of `kubectl drain`."""
    command = [str(binaries.directory() / "kubectl"), "drain", NODE, "--timeout=300s"]
    flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--force"]
    environment = {**os.environ, "KUBECONFIG": str(sandbox.kubeconfig("admin"))}
    begun = time.perf_counter()
    subprocess.run([*command, *flags], env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def _kubernetes_core(sandbox: Sandbox) -> tuple[float, list[str]]:
    """Seconds until it fails, and the VMs that are on the node then. Raises RuntimeError where it does not
    fail, or for another reason."""
    options = {"ignore_daemonsets": True, "delete_emptydir_data": True, "force": True}
    task = {"kubernetes.core.k8s_drain": {"name": NODE, "delete_options": options}}
    begun = time.perf_counter()
    try:
        playbooks.run([task], sandbox.kubeconfig("admin"))
    except RuntimeError as failure:
        if "Eviction triggered evacuation" not in str(failure):
            raise
        return time.perf_counter() - begun, _on_node(sandbox)
    raise RuntimeError("kubernetes.core.k8s_drain did not fail")
