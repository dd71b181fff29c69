# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances that could be moved: as they run, as they would come back, and by which methods.

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.objects import Placement, Pod, Ref
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Workload
from ..verdicts.declared import Declared, Reader
from ..verdicts.effective import Comparison, selecting_keys
from ..verdicts.instances import instances
from ..verdicts.successor import migrated, restarted
from .effects import Effect, effect_of

NO_RULES = Placement()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One instance. `pod` is what runs; `wanted` is the same pod (name, uid, node) as the
    workload declares it. `outdated`: the two differ in what is declared. `workload` is None for
    an instance that nothing would make again."""

    instance: Instance
    workload: Workload | None
    pod: Pod
    wanted: Pod
    target: Pod | None
    """The pod of a live migration, None where there cannot be one."""
    effect: Effect
    outdated: bool
    asked: Placement = NO_RULES
    """What the workload itself declares, without what the platform puts on every pod."""

    @property
    def uid(self) -> str:
        return self.instance.uid

    @property
    def node(self) -> str:
        return self.pod.node_name

    def probe(self, method: Method) -> Pod:
        """The pod that the scheduler would have to place for this move."""
        if method is Method.MIGRATE and self.target is not None:
            return self.target
        return replace(self.wanted, node_name="", uid="", name=f"{self.wanted.name}-next")

    def leaves_behind(self, method: Method) -> str | None:
        """Uid of the pod that is gone before the next one is placed; None: it stays until then."""
        return None if method is Method.MIGRATE else self.pod.uid


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which instances a plan is about: those of `workloads`, or all in `namespaces`."""

    namespaces: frozenset[str] = frozenset()
    workloads: frozenset[Ref] = frozenset()

    @property
    def places(self) -> frozenset[str]:
        """The namespaces that these instances are in."""
        return self.namespaces | {ref.namespace for ref in self.workloads}

    def __contains__(self, instance: Instance) -> bool:
        if instance.workload is None:
            return instance.ref.namespace in self.namespaces
        return instance.workload in self.workloads or (
            not self.workloads and instance.workload.namespace in self.namespaces
        )


def candidates(
    snapshot: Snapshot, wanted: Wanted, *, activate_foreign_changes: bool = False
) -> tuple[Candidate, ...]:
    """All instances that `wanted` names and whose workload could be read, or that have none."""
    workloads = {found.ref: found for found in snapshot.workloads}
    reader = Reader()
    comparison = Comparison(reader, selecting_keys(_placements(snapshot, reader)))
    found = []
    for instance in instances(snapshot):
        workload = workloads.get(instance.workload) if instance.workload is not None else None
        alone = instance.workload == instance.ref
        if instance.pod is None or instance not in wanted or not (workload or alone):
            continue
        effect = effect_of(
            workload,
            instance,
            snapshot.platform,
            activate_foreign_changes=activate_foreign_changes,
        )
        found.append(_candidate(instance, instance.pod, workload, effect, reader, comparison))
    return tuple(found)


def _candidate(
    instance: Instance,
    pod: Pod,
    workload: Workload | None,
    effect: Effect,
    reader: Reader,
    comparison: Comparison,
) -> Candidate:
    vmi = instance.vmi
    if workload is None:
        return Candidate(
            instance, None, pod, pod, None, effect, outdated=False, asked=pod.placement
        )
    declared = reader.declared(workload)
    gap = comparison.gap(declared, pod, vmi, workload)
    target = None
    if vmi is not None and Method.MIGRATE in effect.methods:
        target = migrated(pod, vmi, declared.placement)
    return Candidate(
        instance,
        workload,
        pod,
        as_declared(pod, declared),
        target,
        effect,
        outdated=gap is not None,
        asked=declared.placement,
    )


def as_declared(pod: Pod, declared: Declared) -> Pod:
    """`pod`, on its node, as if it had been made from what its workload declares now."""
    made = restarted(pod, declared.placement, declared.labels)
    return replace(made, name=pod.name, uid=pod.uid, node_name=pod.node_name)


def _placements(snapshot: Snapshot, reader: Reader) -> t.Iterator[t.Any]:
    yield from (pod.placement for pod in snapshot.pods)
    yield from (reader.declared(workload).placement for workload in snapshot.workloads)
