# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes: ten guests leave one by a drain of ours, ten by kubectl's, and a rollout brings ten to one.

What is measured, in the same run, each on guests of its own that have been on no other node:

- a drain by a whole playbook with one task, from the start of the process to its end;
- `kubectl drain` of the same node with as many guests;
- a rollout of ten moves, for a rule that wants them in the zone of that node;
- KubeVirt's own limit: how long these migrations took, by how many it lets run at once. With the start-up of a
  playbook with one ping it is the floor.

No limit is held: a real migration takes as long as its machine lets it. KubeVirt fails one now and then: the row counts
it, and the floor has its time. Where real nodes cannot run, and in a small bench, the rows are left out.
"""

from __future__ import annotations

import collections
import datetime
import os
import typing as t
from dataclasses import dataclass, replace

from dev.real import left_out
from sandbox import Sandbox, drain
from sandbox.real_nodes import files
from sandbox.real_nodes.guests import Witness, guest

from . import playbooks
from .drained_node import ENDED, PER_NODE, DrainedNode, Object, has_ended
from .processes import Ended
from .row import LeftOut, Row

CLUSTER = "3-real-nodes-3-zones"
NODE, ZONE = "w1", "zone1"
GUESTS = 10
NAMES = tuple(f"vm{number:02}" for number in range(GUESTS))
PER_CLUSTER = 5
"""Migrations that KubeVirt lets run at once in a cluster (parallelMigrationsPerCluster)."""

DRAIN = f"drain of a real node with {GUESTS} guests"
ROLLOUT = f"rollout of {GUESTS} moves on real nodes"
PATIENCE = 900
LIMITS = {"run_timeout": PATIENCE, "move_timeout": PATIENCE // 2, "failures_allowed": GUESTS}


def rows(*, small: bool = False) -> list[Row | LeftOut]:
    """A row for the drain and one for the rollout."""
    if reason := "only in the full bench" if small else left_out():
        return [LeftOut(DRAIN, reason), LeftOut(ROLLOUT, reason)]
    files.build(print)
    with Sandbox.start(CLUSTER) as sandbox:
        drained = _of_new_guests(sandbox, "ours", _drain)
        by_kubectl = _of_new_guests(sandbox, "kubectl", _kubectl)
        rolled_out = _of_new_guests(sandbox, "rollout", _rollout, elsewhere=True)
    return [_drain_row(drained, by_kubectl), _row(ROLLOUT, rolled_out)]


@dataclass(frozen=True)
class Measured:
    """A program that moved all guests: its seconds and memory, the migrations, before it the load of the machine and
    the seconds of a playbook with one ping, after it the ticks that are on no guest's console."""

    seconds: float
    peak_rss_mb: float
    migrations: t.Sequence[Object]
    load: float
    ping: float
    lost_ticks: int = 0

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

    def create_elsewhere(self, vms: t.Sequence[Object]) -> None:
        """The namespace and its VMs, which start on the other nodes."""
        with drain.cordoned(self.sandbox, [self.name]):
            self.create_anywhere(vms)

    def end_vms(self) -> None:
        """Delete the VMs, and wait until their pods have ended."""
        self.sandbox.api.delete(self.sandbox.api.path("VirtualMachine", self.namespace))
        path = self.sandbox.api.path("Pod", self.namespace)
        self.sandbox.api.wait_list(path, lambda pods: not pods, timeout=PATIENCE)

    def migrations(self) -> list[Object]:
        """All of them, once they have ended. KubeVirt copies what became of one a sync after its last phase."""
        path = self.sandbox.api.path("VirtualMachineInstanceMigration", self.namespace)
        return self.sandbox.api.wait_list(
            path,
            lambda found: all(map(_is_complete, found)),
            timeout=PATIENCE,
        )


def _of_new_guests(
    sandbox: Sandbox,
    namespace: str,
    measure: t.Callable[[RealNode], Measured],
    *,
    elsewhere: bool = False,
) -> Measured:
    """What is measured with guests that have been on no other node than their first: all on the node, or none.

    virt-handler may keep the socket of a guest that has left its node, and waits for it, up to five minutes, when the
    guest comes back. RuntimeError where a guest was booted twice: these were no live migrations.
    """
    node = RealNode(sandbox, namespace, NODE, patience=PATIENCE)
    create = node.create_elsewhere if elsewhere else node.create
    with Witness(sandbox.api, namespace) as witness:
        create([guest(name, namespace) for name in NAMES])
        _wait_for_ticks(witness)
        measured = measure(node)
        _wait_for_ticks(witness)
        counts = witness.counts()
    if twice := [name for name, count in counts.items() if len(count.boots) != 1]:
        raise RuntimeError(f"booted twice: {', '.join(twice)}")
    node.end_vms()
    return replace(measured, lost_ticks=sum(count.lost for count in counts.values()))


def _wait_for_ticks(witness: Witness) -> None:
    for name in NAMES:
        witness.wait(name, timeout=PATIENCE)


def _measure(node: RealNode, what: str, move: t.Callable[[], Ended | playbooks.Timing]) -> Measured:
    node.settle()
    load, ping = os.getloadavg()[0], playbooks.run(playbooks.PING).seconds
    ended = move()
    measured = Measured(ended.seconds, ended.peak_rss_mb, node.migrations(), load, ping)
    print(f"bench: real: {what}: {ended.seconds:.1f} s, floor {measured.floor:.1f} s", flush=True)
    return measured


def _drain(node: RealNode) -> Measured:
    measured = _measure(node, DRAIN, node.ours)
    node.in_service()
    return measured


def _kubectl(node: RealNode) -> Measured:
    return _measure(node, f"{DRAIN} by kubectl", node.kubectl)


def _rollout(node: RealNode) -> Measured:
    mover = node.sandbox.kubeconfig("mover")
    home = {"name": "home", "workloads": [{"names": list(NAMES)}], "run_on": {"zone": ZONE}}
    rules = {"namespace": node.namespace, "rule_set": "bench", "rules": [home]}
    playbooks.run([{"virt.placement.rules": rules}], mover)
    rollout = {"virt.placement.rollout": {"namespaces": [node.namespace], **LIMITS}}
    return _measure(node, ROLLOUT, lambda: playbooks.run([rollout], mover))


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
        "s of the longest": max(map(_seconds, ours.migrations)),
        "migrations that KubeVirt failed": sum(map(_failed, ours.migrations)),
        "ticks on no console": ours.lost_ticks,
        "load before": ours.load,
    }
    return Row(name, "s", ours.seconds, floor=ours.floor, peak_rss_mb=ours.peak_rss_mb, also=also)


def limit(migrations: t.Sequence[Object]) -> float:
    """The fewest seconds that these migrations, as long as each took, need within KubeVirt's limits."""
    of_node: dict[str, list[float]] = collections.defaultdict(list)
    for migration in migrations:
        of_node[_source(migration)].append(_seconds(migration))
    every = [seconds for listed in of_node.values() for seconds in listed]
    nodes = [sum(listed) / PER_NODE for listed in of_node.values()]
    return max(sum(every) / PER_CLUSTER, *nodes, *every)


def _source(migration: Object) -> str:
    """Its source node; empty for one that failed before KubeVirt named it."""
    return str((migration["status"].get("migrationState") or {}).get("sourceNode", ""))


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


def _is_complete(migration: Object) -> bool:
    return has_ended(migration) and ("migrationState" in migration["status"] or _failed(migration))


def _failed(migration: Object) -> bool:
    return bool(migration["status"]["phase"] == "Failed")


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") not in ENDED
