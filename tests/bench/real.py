# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes: ten guests leave one by a drain of ours, a rollout brings them home, and kubectl drains the node, too.

What is compared, in the same run, on the same guests:

- a drain by a whole playbook with one task, from the start of the process to its end;
- a rollout of ten moves, for a rule that wants them in the zone of that node; the rule is taken back after it;
- `kubectl drain` of the same node with the same guests;
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
from dataclasses import dataclass, replace

from dev.real import left_out
from sandbox import Sandbox
from sandbox.real_nodes import files
from sandbox.real_nodes.guests import Witness, guest

from . import playbooks
from .drained_node import ENDED, PER_NODE, DrainedNode, Object
from .processes import Ended
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
        drained, rolled_out, by_kubectl = _drain(node), _rollout(node, names), _kubectl(node)
        for name in names:
            witness.wait(name, timeout=PATIENCE)
        _check(witness)
    return [_drain_row(drained, by_kubectl), _row(ROLLOUT, rolled_out)]


@dataclass(frozen=True)
class Measured:
    """A program that moved all guests: its seconds and memory, the migrations, and before it the load
    of the machine and the seconds of a playbook with one ping."""

    seconds: float
    peak_rss_mb: float
    migrations: t.Sequence[Object]
    load: float
    ping: float

    @property
    def floor(self) -> float:
        return self.ping + limit(self.migrations)


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


def _measure(node: RealNode, what: str, move: t.Callable[[], Ended | playbooks.Timing]) -> Measured:
    node.settle()
    load, ping = os.getloadavg()[0], playbooks.run(playbooks.PING).seconds
    ended = move()
    measured = Measured(ended.seconds, ended.peak_rss_mb, node.take_migrations(), load, ping)
    print(f"bench: real: {what}: {ended.seconds:.1f} s, floor {measured.floor:.1f} s", flush=True)
    return measured


def _drain(node: RealNode) -> Measured:
    measured = _measure(node, DRAIN, node.ours)
    node.in_service()
    return measured


def _kubectl(node: RealNode) -> Measured:
    return _measure(node, f"{DRAIN} by kubectl", node.kubectl)


def _rollout(node: RealNode, names: t.Sequence[str]) -> Measured:
    mover = node.sandbox.kubeconfig("mover")
    home = {"name": "home", "workloads": [{"names": list(names)}], "run_on": {"zone": ZONE}}
    rule_set = {"namespace": NAMESPACE, "rule_set": "bench"}
    playbooks.run([{"virt.placement.rules": {**rule_set, "rules": [home]}}], mover)
    rollout = {"virt.placement.rollout": {"namespaces": [NAMESPACE], **LIMITS}}
    measured = _measure(node, ROLLOUT, lambda: playbooks.run([rollout], mover))
    if node.vms() != names:
        raise RuntimeError(f"the rollout brought {node.vms()} to {NODE}, not {names}")
    playbooks.run([{"virt.placement.rules": {**rule_set, "state": "reverted"}}], mover)
    return measured


def _drain_row(ours: Measured, kubectl: Measured) -> Row:
    """`kubectl drain` beside ours. On a busier machine migrations take longer: it has a floor of its own."""
    also = {
        "times kubectl drain": ours.seconds / kubectl.seconds,
        "times its own floor of kubectl drain": kubectl.seconds / kubectl.floor,
        "MB at the peak of kubectl drain": kubectl.peak_rss_mb,
        "load before kubectl drain": kubectl.load,
    }
    row = _row(DRAIN, ours)
    return replace(row, peers={"kubectl drain": kubectl.seconds}, also={**row.also, **also})


def _row(name: str, ours: Measured) -> Row:
    also = {
        "times the floor": ours.seconds / ours.floor,
        "MB at the peak": ours.peak_rss_mb,
        "s of a migration": sum(map(_seconds, ours.migrations)) / len(ours.migrations),
        "load before": ours.load,
    }
    return Row(name, "s", ours.seconds, floor=ours.floor, peak_rss_mb=ours.peak_rss_mb, also=also)


def limit(migrations: t.Sequence[Object]) -> float:
    """The fewest seconds that these migrations, as long as each took, need within KubeVirt's limits."""
    of_node: dict[str, list[float]] = collections.defaultdict(list)
    for migration in migrations:
        of_node[migration["status"]["migrationState"]["sourceNode"]].append(_seconds(migration))
    every = [seconds for listed in of_node.values() for seconds in listed]
    nodes = [sum(listed) / PER_NODE for listed in of_node.values()]
    return max(sum(every) / PER_CLUSTER, *nodes, *every)


def _seconds(migration: Object) -> float:
    """From its target pod to its end, also a failure: so long a migration counts among those that run."""
    stamps = {
        entry["phase"]: datetime.datetime.fromisoformat(
            entry["phaseTransitionTimestamp"].replace("Z", "+00:00")
        )
        for entry in migration["status"]["phaseTransitionTimestamps"]
    }
    end = max(stamps.values())
    return (end - stamps.get("Scheduling", end)).total_seconds()


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") not in ENDED


def _check(witness: Witness) -> None:
    """RuntimeError where a guest was booted twice or has lost a tick: what was measured were no live migrations."""
    for name, count in witness.counts().items():
        if len(count.boots) != 1 or count.lost:
            raise RuntimeError(f"the guest of {name} did not run on: {count}")
