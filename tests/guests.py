# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs with guests that run, in a namespace of a sandbox with real nodes; and what the guests counted meanwhile."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.virt.placement.plugins.modules import rules
from sandbox import Sandbox, drain
from sandbox.real_nodes.guests import Witness, guest
from tests.maintenance import Maintenance
from tests.shop import PATIENCE, Object


class Guests(Maintenance):
    """Real VMs, the modules that are run on them, and the witness of their consoles."""

    def __init__(
        self, sandbox: Sandbox, namespace: str, run_module: t.Any, witness: Witness
    ) -> None:
        super().__init__(sandbox, namespace, run_module)
        self.witness = witness

    def start_guests(
        self, *names: str, node: str, arguments: t.Sequence[str] = (), **options: t.Any
    ) -> None:
        """Start VMs on a node, and wait until each guest counts."""
        with self.alone(node):
            for name in names:
                vm = guest(name, self.namespace, *arguments, **options)
                self.api.create(self.path("VirtualMachine"), vm)
            for name in names:
                path = self.path("VirtualMachineInstance", name)
                self.api.wait(lambda vmi: vmi["status"]["phase"] == "Running", path, PATIENCE)
        for name in names:
            self.witness.wait(name, timeout=PATIENCE)

    def alone(self, node: str) -> contextlib.AbstractContextManager[None]:
        """All other nodes are cordoned meanwhile."""
        others = [name for name in self.sandbox.real_nodes.names() if name != node]
        return drain.cordoned(self.sandbox, others)

    def declare(self, *listed: Object, **options: t.Any) -> Object:
        """Write rules as the identity mover."""
        wanted = {"namespace": self.namespace, "rule_set": "real", "rules": list(listed)}
        return self.done(rules.main, "mover", **wanted, **options)

    def roll_out(self, **options: t.Any) -> Object:
        """A rollout that has all the time that it needs."""
        limits = {"run_timeout": PATIENCE, "move_timeout": PATIENCE // 2, **options}
        return self.roll(seconds=2 * PATIENCE, **limits)

    def drain(self, state: str, node: str, **options: t.Any) -> Object:
        """A node through maintenance, with all the time that it needs."""
        limits = {"run_timeout": PATIENCE, "move_timeout": PATIENCE // 2, **options}
        return self.maintain(state, node, seconds=2 * PATIENCE, **limits)

    def migrated(self) -> int:
        """Migrations of the namespace that have succeeded."""
        found = self.api.list(self.path("VirtualMachineInstanceMigration"))
        return sum(entry.get("status", {}).get("phase") == "Succeeded" for entry in found)

    def migrations(self) -> dict[str, list[str]]:
        """The phases of the migrations of each guest, of one that has not succeeded with what KubeVirt says of it."""
        phases: dict[str, list[str]] = {}
        for entry in self.api.list(self.path("VirtualMachineInstanceMigration")):
            status = entry.get("status", {})
            phase = status.get("phase", "")
            shown = phase if phase == "Succeeded" else f"{phase}: {status.get('migrationState')}"
            phases.setdefault(entry["spec"]["vmiName"], []).append(shown)
        return phases

    def in_flight(self) -> int:
        """Migrations of the namespace that have not ended."""
        found = self.api.list(self.path("VirtualMachineInstanceMigration"))
        phases = [entry.get("status", {}).get("phase") for entry in found]
        return sum(phase not in ("Succeeded", "Failed") for phase in phases)

    def boots(self, *names: str) -> dict[str, tuple[str, ...]]:
        """The boots of each guest so far."""
        return {name: self.witness.count(name).boots for name in names}

    def assert_went_on(self, *names: str) -> None:
        """Each guest counts on, in its first boot, and no tick of it is lost."""
        for name in names:
            count = self.witness.wait(name, timeout=PATIENCE)
            assert (len(count.boots), count.lost) == (1, 0), (name, count)


def servers(guests: Guests, replicas: int, name: str = "server") -> Object:
    """A Deployment of pods that only wait, labeled app with the Deployment's name."""
    container = {
        "name": "server",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"],
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": guests.namespace},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
