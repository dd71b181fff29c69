# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a move may not begin now: what the user asked for, KubeVirt's limits, what is not Ready.

Pure. The load is counted from each snapshot anew, so migrations, evacuations and outages that are
not of this run count too.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..compliance.instances import InstanceSelection
from ..kinds.registry import kind_of
from ..kinds.vmi import VMI
from ..kubevirt.moving import outbound_nodes
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move
from ..model.snapshot import Instance, Snapshot, Workload
from .move import MoveRecord, ready
from .run_options import RunOptions

VmiKey = tuple[str, str]
"""Namespace and name of a VMI."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is going on. `outbound` are migrations by node (see outbound_nodes). `missing` counts by workload the
    instances in scope that are missing or not Ready, with those that we are about to take away. `down` are the uids
    of those among them that exist and are known not to serve."""

    ours: int
    migrations: int
    outbound: t.Mapping[str, int]
    missing: t.Mapping[Ref, int]
    down: frozenset[str] = frozenset()

    @property
    def unavailable(self) -> int:
        return sum(self.missing.values())

    @property
    def named(self) -> tuple[str, ...]:
        """Some of what is not Ready, for messages."""
        return tuple(f"{count} of {ref}" for ref, count in sorted(self.missing.items()))[:3]

    def beside(self, move: Move) -> Load:
        """The load with one more move."""
        if move.method is not Method.MIGRATE:
            taken = 1 if move.source and move.uid not in self.down else 0
            missing = Counter(self.missing) + Counter({move.workload: taken})
            return replace(self, ours=self.ours + 1, missing=missing)
        outbound = {**self.outbound, move.source: self.outbound.get(move.source, 0) + 1}
        return replace(self, ours=self.ours + 1, migrations=self.migrations + 1, outbound=outbound)

    def without(self, move: Move) -> Load:
        """The load of all others, where the instance of the move is down: its restart takes nothing away."""
        if move.uid not in self.down:
            return self
        return replace(self, missing=Counter(self.missing) - Counter([move.workload]))


def limit_reached(
    move: Move, load: Load, options: RunOptions, snapshot: Snapshot
) -> Obstacle | None:
    """The limit that keeps this move waiting."""
    text = ""
    if options.max_parallel and load.ours >= options.max_parallel:
        text = f"{load.ours} moves are in flight (max_parallel)"
    elif move.method is Method.MIGRATE:
        platform, outbound = snapshot.platform, load.outbound.get(move.source, 0)
        if load.migrations >= platform.migrations_per_cluster:
            text = f"{load.migrations} migrations are in flight on the cluster"
        elif outbound >= platform.migrations_per_node:
            text = f"{outbound} migrations away from {move.source} are in flight"
    elif move.source and options.max_unavailable is not None:
        others = load.without(move)
        if others.unavailable >= options.max_unavailable:
            names = ", ".join(others.named)
            text = f"max_unavailable is reached, not ready or being replaced: {names}"
    return Obstacle("limit_reached", text, True) if text else None


def load_of(
    snapshot: Snapshot,
    records: t.Sequence[MoveRecord],
    in_scope: t.Sequence[Instance],
    workloads: t.Collection[Ref] = (),
    foreign: t.Mapping[VmiKey, frozenset[str]] | None = None,
) -> Load:
    """What is going on in this snapshot, beside what `records` are about to do. `workloads` are
    those that the run is about: one that ought to have instances and has none is missing them.
    `foreign` are the outbound nodes of migrating VMIs outside of the snapshot."""
    migrating = _migrating(snapshot, records, foreign or {})
    missing, down = _not_ready(snapshot, records, in_scope, workloads)
    outbound = Counter(node for nodes in migrating.values() for node in nodes)
    return Load(len(records), len(migrating), outbound, missing, down)


def instances_of_run(
    instances: t.Iterable[Instance], wanted: InstanceSelection, records: t.Iterable[MoveRecord]
) -> list[Instance]:
    """The instances that the run is about, and those of workloads of which it has a move in flight
    that it took over."""
    moving = {record.workload for record in records}
    return [instance for instance in instances if instance in wanted or instance.workload in moving]


def workloads_of(snapshot: Snapshot, wanted: InstanceSelection) -> list[Ref]:
    """The workloads that the run is about, whether they have instances or not."""
    return [
        workload.ref
        for workload in snapshot.workloads
        if workload.ref in wanted.workloads
        or (not wanted.workloads and workload.ref.namespace in wanted.namespaces)
    ]


def _migrating(
    snapshot: Snapshot,
    records: t.Iterable[MoveRecord],
    foreign: t.Mapping[VmiKey, frozenset[str]],
) -> dict[VmiKey, frozenset[str]]:
    """The VMIs that migrate, are marked for evacuation, or are ours and about to migrate, each with its outbound
    nodes, as far as these are known."""
    nodes = {
        (vmi.ref.namespace, vmi.ref.name): outbound_nodes(vmi.node_name, {})
        for vmi in snapshot.vmis
        if vmi.evacuation_node_name
    }
    for migration in snapshot.migrations:
        key = (migration.ref.namespace, migration.instance)
        vmi = snapshot.vmis_by_ref.get(Ref(VMI, *key))
        if vmi is None:
            nodes[key] = foreign.get(key, frozenset())
        else:
            nodes[key] = outbound_nodes(vmi.node_name, vmi.migration)
    for record in records:
        if record.method is Method.MIGRATE:
            key = (record.instance.namespace, record.instance.name)
            nodes[key] = nodes.get(key, frozenset()) | outbound_nodes(record.source, {})
    return nodes


def _not_ready(
    snapshot: Snapshot,
    records: t.Sequence[MoveRecord],
    in_scope: t.Sequence[Instance],
    workloads: t.Collection[Ref],
) -> tuple[dict[Ref, int], frozenset[str]]:
    """Instances that should serve and do not: missing, not Ready, or ours and about to go. And the uids of those whose
    pod was read and is not Ready; what is not known of an instance does not make it down."""
    taken = {record.uid for record in records if record.method is not Method.MIGRATE}
    restarting = {record.workload for record in records if record.method is Method.RESTART}
    serving = Counter(i.workload for i in in_scope if ready(i) and i.uid not in taken)
    there = Counter(i.workload for i in in_scope)
    missing = {}
    concerned = {ref for ref in there if ref is not None} | {e.workload for e in records}
    stopped = _stopped_members(snapshot, records)
    for ref in sorted(concerned | set(workloads)):
        short = (
            _expected(snapshot.workloads_by_ref.get(ref), there[ref], stopped[ref]) - serving[ref]
        )
        if ref in restarting and kind_of(ref.kind).run_strategy:
            short = 1
        if short > 0:
            missing[ref] = short
    down = (i for i in in_scope if i.workload in missing and i.uid not in taken)
    return missing, frozenset(i.uid for i in down if i.pod is not None and not ready(i))


def _stopped_members(snapshot: Snapshot, records: t.Iterable[MoveRecord]) -> Counter[Ref]:
    """How many VMs of each pool have no VMI and are not about to get one, beside those that the records restart. One
    whose guest was shut down has a VMI that succeeded, which starts again under Always alone."""
    there = (vmi for vmi in snapshot.vmis if vmi.phase != "Succeeded")
    running = {vmi.owner.uid for vmi in there if vmi.owner is not None}
    restarted = {record.instance.vm for record in records}
    return Counter(
        Ref(vm.pool.kind, vm.ref.namespace, vm.pool.name)
        for vm in snapshot.workloads
        if vm.pool is not None
        and vm.run_strategy != "Always"
        and vm.uid not in running
        and vm.ref not in restarted
    )


def _expected(workload: Workload | None, there: int, stopped: int) -> int:
    """How many instances ought to serve. A VirtualMachine is expected to run where its run strategy
    is Always; under any other it may have ended of its own accord. Members of a pool are counted
    by the pool, without those that are `stopped`, and of what is being deleted nothing is expected that is not
    there."""
    if workload is None or workload.is_deleted:
        return there
    replicas = workload.replicas
    if replicas is not None:
        return max(replicas - stopped, 0)
    return max(there, int(workload.run_strategy == "Always" and workload.pool is None))
