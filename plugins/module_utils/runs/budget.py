# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much may be in flight at once: KubeVirt's limits, what others do, what is not Ready.

Pure. Counted from the cluster each time, so migrations, evacuations and outages of others count.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field, replace

from ..model.kinds import POOL, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.plan import Method, Move
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..movement.entry import Entry, ready
from ..planning.candidates import Wanted
from ..planning.effects import run_strategy

Key = tuple[str, str]
"""Namespace and name of a VMI."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`in_flight` 0: as much as KubeVirt allows."""

    in_flight: int = 0
    unavailable: int = 1


@dataclass(frozen=True, slots=True)
class Load:
    """What is going on. `outbound` are migrations by source node. `unavailable` are the instances
    in scope that are missing or not Ready, with those that we are about to take away."""

    ours: int = 0
    migrations: int = 0
    outbound: t.Mapping[str, int] = field(default_factory=dict)
    unavailable: int = 0
    named: tuple[str, ...] = ()
    """Some of what is not Ready, for messages."""

    def beside(self, move: Move) -> Load:
        """The load with one more move, of an instance that is Ready."""
        if move.method is not Method.MIGRATE:
            taken = 1 if move.source else 0
            return replace(self, ours=self.ours + 1, unavailable=self.unavailable + taken)
        outbound = {**self.outbound, move.source: self.outbound.get(move.source, 0) + 1}
        return replace(self, ours=self.ours + 1, migrations=self.migrations + 1, outbound=outbound)


def why_not(move: Move, load: Load, limits: Limits, snapshot: Snapshot) -> str:
    """Why this move has to wait, or nothing."""
    if limits.in_flight and load.ours >= limits.in_flight:
        return f"{load.ours} moves are in flight (max_in_flight)"
    if move.method is Method.MIGRATE:
        return _no_slot(move, load, snapshot)
    if move.source and load.unavailable >= limits.unavailable:
        what = f": {', '.join(load.named)}" if load.named else ""
        return f"{load.unavailable} instances are not Ready or being replaced{what}"
    return ""


def _no_slot(move: Move, load: Load, snapshot: Snapshot) -> str:
    platform = snapshot.platform
    if load.migrations >= platform.migrations_per_cluster:
        return f"{load.migrations} migrations are in flight on the cluster"
    outbound = load.outbound.get(move.source, 0)
    if outbound >= platform.migrations_per_node:
        return f"{outbound} migrations away from {move.source} are in flight"
    return ""


def load_of(
    snapshot: Snapshot,
    entries: t.Sequence[Entry],
    in_scope: t.Sequence[Instance],
    workloads: t.Collection[Ref] = (),
    sources: t.Mapping[Key, str] | None = None,
) -> Load:
    """What is going on in this snapshot, beside what `entries` are about to do. `workloads` are
    those that the run is about: one that ought to have instances and has none is missing them.
    `sources` are the nodes of migrating VMIs that the snapshot does not hold."""
    machines = {(m.ref.namespace, m.ref.name): m for m in snapshot.machine_instances}
    moving = _migrating(snapshot, machines, entries)
    nodes = {**(sources or {}), **{key: machine.node_name for key, machine in machines.items()}}
    outbound = Counter(nodes[key] for key in moving if key in nodes)
    missing, named = _not_ready(snapshot, entries, in_scope, workloads)
    return Load(len(entries), len(moving), outbound, missing, named)


def counted(
    instances: t.Iterable[Instance], wanted: Wanted, entries: t.Iterable[Entry]
) -> list[Instance]:
    """The instances that the run is about, and those of workloads of which it has a move in flight
    that it took over."""
    moving = {entry.workload for entry in entries}
    return [found for found in instances if found in wanted or found.workload in moving]


def workloads_of(snapshot: Snapshot, wanted: Wanted) -> list[Ref]:
    """The workloads that the run is about, whether they have instances or not."""
    return [
        found.ref
        for found in snapshot.workloads
        if found.ref in wanted.workloads
        or (not wanted.workloads and found.ref.namespace in wanted.namespaces)
    ]


def _migrating(
    snapshot: Snapshot, machines: t.Mapping[Key, MachineInstance], entries: t.Iterable[Entry]
) -> set[Key]:
    """VMIs that migrate, are marked for evacuation, or are ours and about to."""
    found = {(m.ref.namespace, m.instance) for m in snapshot.migrations}
    found |= {key for key, vmi in machines.items() if vmi.evacuation_node_name}
    found |= {
        (entry.instance.namespace, entry.instance.name)
        for entry in entries
        if entry.method is Method.MIGRATE
    }
    return found


def _not_ready(
    snapshot: Snapshot,
    entries: t.Sequence[Entry],
    in_scope: t.Sequence[Instance],
    workloads: t.Collection[Ref],
) -> tuple[int, tuple[str, ...]]:
    """Instances that should serve and do not: missing, not Ready, or ours and about to go."""
    taken = {entry.uid for entry in entries if entry.method is not Method.MIGRATE}
    serving = Counter(i.workload for i in in_scope if ready(i) and i.uid not in taken)
    there = Counter(i.workload for i in in_scope)
    known = {found.ref: found for found in snapshot.workloads}
    total, named = 0, []
    concerned = {ref for ref in there if ref is not None} | {e.workload for e in entries}
    for ref in sorted(concerned | set(workloads)):
        short = _expected(known.get(ref), there[ref]) - serving[ref]
        if ref.kind == VIRTUAL_MACHINE.name and _restarting(ref, entries):
            short = 1
        if short > 0:
            total += short
            named.append(f"{short} of {ref}")
    return total, tuple(named[:3])


def _expected(workload: Workload | None, there: int) -> int:
    """How many instances ought to serve. A VirtualMachine is expected to run where its run strategy
    is Always; under any other it may have ended of its own accord. Members of a pool are counted
    by the pool, and of what is being deleted nothing is expected that is not there."""
    if workload is None or workload.manifest["metadata"].get("deletionTimestamp"):
        return there
    wanted = replicas(workload)
    if wanted is not None:
        return max(wanted, 0)
    member = workload.owner is not None and workload.owner.kind == POOL.name
    return max(there, int(run_strategy(workload) == "Always" and not member))


def _restarting(ref: Ref, entries: t.Iterable[Entry]) -> bool:
    return any(e.workload == ref and e.method is Method.RESTART for e in entries)


def replicas(workload: Workload) -> int | None:
    """How many instances a workload of replicas wants; None for one that has no such number."""
    spec = workload.manifest.get("spec") or {}
    if workload.ref.kind == VIRTUAL_MACHINE.name:
        return None
    return int(spec.get("replicas", 1) if spec.get("replicas") is not None else 1)
