# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes: ten guests leave one, by ours and by kubectl; a rollout brings them home.

What is compared, in the same run, on the same guests:

- a drain by a whole playbook with one task, from the start of the process to its end;
- `kubectl drain` of the same node with the same guests, which are brought back before it;
- a rollout of ten moves, for a rule that wants them in the zone of that node;
- KubeVirt's own limit: how long these migrations took, by how many it lets run at once. With the start-up of a
  playbook with one ping it is the floor of ours.

No limit is held: a real migration takes as long as its machine lets it. Where real nodes cannot run, and in a small
bench, the rows are left out.
"""

from __future__ import annotations

import collections
import datetime
import os
import typing as t

from dev.real import left_out
from sandbox import Sandbox
from sandbox.real_nodes import files
from sandbox.real_nodes.guests import Witness, guest

from . import playbooks
from .drained_node import ENDED, PER_NODE, DrainedNode, Object
from .row import LeftOut, Row

CLUSTER = "3-real-nodes-3-zones"
NAMESPACE = "bench"
NODE, ZONE = "w1", "zone1"
GUESTS = 10
PER_CLUSTER = 5
"""Migrations that KubeVirt lets run at once in a cluster (parallelMigrationsPerCluster)."""

DRAIN = f"drain of a real node with {GUESTS} guests"
ROLLOUT = f"rollout of {GUESTS} moves on real nodes"
PATIENCE = 900
LIMITS = {"run_timeout": PATIENCE, "move_timeout": PATIENCE // 2}


def rows(*, small: bool = False) -> list[Row | LeftOut]:
    """A row for the drain and one for the rollout."""
    if reason := "only in the full bench" if small else left_out():
        return [LeftOut(DRAIN, reason), LeftOut(ROLLOUT, reason)]
    files.build(print)
    with Sandbox.start(CLUSTER) as sandbox, Witness(sandbox.api, NAMESPACE) as witness:
        node = RealNode(sandbox, NAMESPACE, NODE, patience=PATIENCE)
        names = [f"vm{number:02}" for number in range(GUESTS)]
        node.create([guest(name, NAMESPACE) for name in names])
        for name in names:
            witness.wait(name, timeout=PATIENCE)
        node.settle()
        measured = [_drain(node), _rollout(node, names)]
        for name in names:
            witness.wait(name, timeout=PATIENCE)
        _check(witness)
    return list(measured)


class RealNode(DrainedNode):
    """Pods of a real node end some seconds after their VMs have left, and keep them from coming back."""

    def settle(self) -> None:
        """Wait until each VM has one pod."""
        path = self.sandbox.api.path("Pod", self.namespace)
        self.sandbox.api.wait_list(
            path, lambda pods: sum(map(_runs, pods)) == GUESTS, timeout=PATIENCE
        )

    def take_migrations(self) -> list[Object]:
        """The migrations since the last time, which are removed."""
        path = self.sandbox.api.path("VirtualMachineInstanceMigration", self.namespace)
        found = self.sandbox.api.list(path)
        for migration in found:
            self.sandbox.api.delete(f"{path}/{migration['metadata']['name']}")
        return found


def _drain(node: RealNode) -> Row:
    load, ping = os.getloadavg()[0], playbooks.run(playbooks.PING).seconds
    ours = node.ours()
    migrations = node.take_migrations()
    node.in_service()
    node.settle()
    node.bring_back()
    node.settle()
    kubectl = node.kubectl()
    of_kubectl = node.take_migrations()
    return Row(
        DRAIN,
        "s",
        ours.seconds,
        {"kubectl drain": kubectl.seconds},
        ping + limit(migrations),
        ours.peak_rss_mb,
        also={
            "times kubectl drain": ours.seconds / kubectl.seconds,
            **_beside_floor(ours, ping, migrations),
            "MB at the peak of kubectl drain": kubectl.peak_rss_mb,
            "s of the limit of its migrations": limit(of_kubectl),
            "load before": load,
        },
    )


def _rollout(node: RealNode, names: t.Sequence[str]) -> Row:
    node.settle()
    load, ping = os.getloadavg()[0], playbooks.run(playbooks.PING).seconds
    mover = node.sandbox.kubeconfig("mover")
    home = {"name": "home", "workloads": [{"names": list(names)}], "run_on": {"zone": ZONE}}
    rules = {"namespace": NAMESPACE, "rule_set": "bench", "rules": [home]}
    playbooks.run([{"virt.placement.rules": rules}], mover)
    ours = playbooks.run([{"virt.placement.rollout": {"namespaces": [NAMESPACE], **LIMITS}}], mover)
    if node.vms() != names:
        raise RuntimeError(f"the rollout brought {node.vms()} to {NODE}, not {names}")
    migrations = node.take_migrations()
    return Row(
        ROLLOUT,
        "s",
        ours.seconds,
        floor=ping + limit(migrations),
        peak_rss_mb=ours.peak_rss_mb,
        also={**_beside_floor(ours, ping, migrations), "load before": load},
    )


def _beside_floor(
    ours: playbooks.Timing, ping: float, migrations: t.Sequence[Object]
) -> dict[str, float]:
    return {
        "times the floor": ours.seconds / (ping + limit(migrations)),
        "MB at the peak": ours.peak_rss_mb,
        "s of a migration": sum(map(_seconds, migrations)) / len(migrations),
    }


def limit(migrations: t.Sequence[Object]) -> float:
    """The fewest seconds that these migrations, as long as each took, need within KubeVirt's limits."""
    of_node: dict[str, list[float]] = collections.defaultdict(list)
    for migration in migrations:
        of_node[migration["status"]["migrationState"]["sourceNode"]].append(_seconds(migration))
    every = [seconds for listed in of_node.values() for seconds in listed]
    nodes = [sum(listed) / PER_NODE for listed in of_node.values()]
    return max(sum(every) / PER_CLUSTER, *nodes, *every)


def _seconds(migration: Object) -> float:
    """From its target pod to its end: so long a migration counts among those that run."""
    stamps = {
        entry["phase"]: datetime.datetime.fromisoformat(
            entry["phaseTransitionTimestamp"].replace("Z", "+00:00")
        )
        for entry in migration["status"]["phaseTransitionTimestamps"]
    }
    return (stamps["Succeeded"] - stamps["Scheduling"]).total_seconds()


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") not in ENDED


def _check(witness: Witness) -> None:
    """RuntimeError where a guest was booted twice or has lost a tick: what was measured were no live migrations."""
    for name, count in witness.counts().items():
        if len(count.boots) != 1 or count.lost:
            raise RuntimeError(f"the guest of {name} did not run on: {count}")
