# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose VMs leave and are brought back, again and again: by ours, by bare migrations, by kubectl."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import typing as t

from sandbox import Sandbox, binaries, drain, objects

from . import playbooks, processes

PER_NODE = 2
"""Outbound migrations of a node that KubeVirt lets run at once (parallelOutboundMigrationsPerNode)."""

ENDED = ("Succeeded", "Failed")
Object = dict[str, t.Any]


class DrainedNode:
    """A node, and the namespace of its VMs. Whatever is waited for has `patience` seconds."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str, *, patience: int) -> None:
        self.sandbox, self.namespace, self.name = sandbox, namespace, name
        self._patience = patience
        self._numbers = itertools.count()

    def create(self, vms: t.Sequence[Object]) -> None:
        """The namespace and its VMs, which start on the node."""
        with self.alone():
            self.create_anywhere(vms)

    def create_anywhere(self, vms: t.Sequence[Object]) -> None:
        """The namespace and its VMs, until they can be migrated."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.sandbox.api.apply(namespace)
        self.sandbox.api.create_all(vms)
        self.sandbox.api.wait_list(
            self.sandbox.api.path("VirtualMachineInstance", self.namespace),
            lambda found: len(found) == len(vms) and all(map(_serves, found)),
            timeout=self._patience,
        )

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """All other nodes are cordoned meanwhile."""
        nodes = self.sandbox.api.list("/api/v1/nodes")
        others = [x["metadata"]["name"] for x in nodes if x["metadata"]["name"] != self.name]
        return drain.cordoned(self.sandbox, others)

    def vms(self) -> list[str]:
        """The VMs that are on the node."""
        return [name for name, node in self._places().items() if node == self.name]

    def ours(self) -> playbooks.Timing:
        """The drain by a whole playbook with one task. RuntimeError where a VM is left."""
        timing = playbooks.run(self._task("drained"), self.sandbox.kubeconfig("maintainer"))
        if left := self.vms():
            raise RuntimeError(f"ours left {left} on {self.name}")
        return timing

    def in_service(self) -> None:
        """Back in service after a drain of ours."""
        playbooks.run(self._task("in_service"), self.sandbox.kubeconfig("maintainer"))

    def kubectl(self) -> processes.Ended:
        """`kubectl drain`; the node is uncordoned after it. RuntimeError where it fails."""
        command = [str(binaries.directory() / "kubectl"), "drain", self.name]
        flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--force"]
        environment = {**os.environ, "KUBECONFIG": str(self.sandbox.kubeconfig("admin"))}
        ended = processes.run([*command, *flags, f"--timeout={self._patience}s"], environment)
        if ended.returncode:
            raise RuntimeError(f"kubectl drain ended with rc {ended.returncode}:\n{ended.output}")
        # its pods have left; virt-handler may write the new node of a VM later
        self.sandbox.api.wait_list(
            self.sandbox.api.path("VirtualMachineInstance", self.namespace),
            lambda vmis: self.name not in {vmi["status"].get("nodeName") for vmi in vmis},
            timeout=self._patience,
        )
        drain.uncordon(self.sandbox, self.name)
        return ended

    def bare(self) -> float:
        """Seconds of bare migrations away from the node, which is cordoned, as many as KubeVirt lets run."""
        drain.cordon(self.sandbox, self.name)
        waiting = self.vms()
        begun = time.perf_counter()
        self._migrate(waiting)
        seconds = time.perf_counter() - begun
        drain.uncordon(self.sandbox, self.name)
        return seconds

    def bring_back(self) -> None:
        """All VMs to the node, the only one that takes pods. A migration that fails is tried again, twice."""
        with self.alone():
            for _attempt in range(3):
                away = [name for name, node in self._places().items() if node != self.name]
                if not away:
                    return
                self._migrate(away)
        raise RuntimeError(f"these VMs did not come back: {', '.join(sorted(away))}")

    def _places(self) -> dict[str, str]:
        vmis = self.sandbox.api.list(
            self.sandbox.api.path("VirtualMachineInstance", self.namespace)
        )
        return {x["metadata"]["name"]: x["status"].get("nodeName", "") for x in vmis}

    def _migrate(self, names: t.Sequence[str]) -> None:
        """Migrates these VMs, so many at a time as may leave a node, and removes the migrations.

        A VM that is on its new node may still have an evacuation of the drain before, which lets no other begin.
        """
        path = self.sandbox.api.path("VirtualMachineInstanceMigration", self.namespace)
        self.sandbox.api.wait_list(
            path, lambda found: all(map(has_ended, found)), timeout=self._patience
        )
        waiting = list(names)
        running: set[str] = set()
        while waiting or running:
            while waiting and len(running) < PER_NODE:
                vm = waiting.pop(0)
                # the one before may still be being deleted
                name = f"bare-{vm}-{next(self._numbers)}"
                running.add(name)
                self.sandbox.api.create(path, objects.migration(vm, self.namespace, name=name))
            for migration in self.sandbox.api.list(path):
                if has_ended(migration):
                    name = migration["metadata"]["name"]
                    running.discard(name)
                    self.sandbox.api.delete(f"{path}/{name}")
            time.sleep(0.05)

    def _task(self, state: str) -> list[Object]:
        return [{"virt.placement.node_maintenance": {"nodes": [self.name], "state": state}}]


def has_ended(migration: Object) -> bool:
    return (migration.get("status") or {}).get("phase") in ENDED


def _serves(vmi: Object) -> bool:
    conditions = (vmi.get("status") or {}).get("conditions") or []
    migratable = any(x["type"] == "LiveMigratable" and x["status"] == "True" for x in conditions)
    return bool(vmi["status"].get("phase") == "Running" and migratable)
