# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances that could be moved: as they run, as they would come back, and by which methods.

Pure. Of most instances a plan needs to know no more than that what is declared is in effect, so
everything else about them is worked out when it is first asked for.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..model.collector import collector_paused
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Placement, Pod, Ref
from ..model.plan import Method
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..verdicts.declared import Declared, Reader
from ..verdicts.effective import Comparison
from ..verdicts.successor import migrated, restarted
from ..verdicts.terms import selecting_keys
from .effects import Effect, can_migrate, effect_of
from .in_effect import QuickLook
from .running import Running, instance

_FACTS = frozenset({"asked", "effect", "instance", "migrates", "outdated", "target", "wanted"})
"""Methods of _Reading, and what of a Candidate they find out."""


@dataclass(eq=False, slots=True)
class Candidate:
    """One instance. `pod` is what runs; `wanted` is the same pod (name, uid, node) as the workload
    declares it, the very `pod` where it runs by just that. `outdated`: the two differ in what is
    declared. `workload` is None for an instance that nothing would make again."""

    instance: Instance
    workload: Workload | None
    pod: Pod
    wanted: Pod
    target: Pod | None
    """The pod of a live migration, None where there cannot be one."""
    effect: Effect
    outdated: bool
    asked: Placement = field(default_factory=Placement)
    """What the workload itself declares, without what the platform puts on every pod."""
    uid: str = field(init=False)
    node: str = field(init=False)
    migrates: bool = field(init=False)
    """Method.MIGRATE is among the methods of its effect."""
    _found: tuple[MachineInstance | None, Ref] | None = field(init=False, repr=False)
    """What `instance` is made of."""
    _probe: Pod | None = field(init=False, repr=False)
    _reading: _Reading | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.uid = self.instance.uid
        self.node = self.pod.node_name
        self.migrates = Method.MIGRATE in self.effect.methods
        self._found = self._probe = self._reading = None

    @classmethod
    def read(
        cls,
        vmi: MachineInstance | None,
        ref: Ref,
        workload: Workload | None,
        pod: Pod,
        reading: _Reading,
    ) -> Candidate:
        """One whose other facts are read when they are asked for. `ref` names its workload."""
        found = cls.__new__(cls)
        found._found = vmi, ref
        found.workload = workload
        found.pod = pod
        found.uid = (vmi or pod).uid
        found.node = pod.node_name
        found._probe = None
        found._reading = reading
        if reading.is_in_effect(workload, pod):
            found.wanted = pod
        return found

    if not t.TYPE_CHECKING:

        def __getattr__(self, name: str) -> t.Any:
            """A fact that `read` has left open: its slot is empty."""
            if name not in _FACTS or self._reading is None:
                raise AttributeError(name)
            found = getattr(self._reading, name)(self)
            setattr(self, name, found)
            return found

    @property
    def made_by(self) -> Ref | None:
        """What `instance.workload` names."""
        return self._found[1] if self._found is not None else self.instance.workload

    def probe(self, method: Method) -> Pod:
        """The pod that the scheduler would have to place for this move."""
        if method is Method.MIGRATE and self.target is not None:
            return self.target
        if self._probe is None:
            wanted = self.wanted
            self._probe = replace(wanted, node_name="", uid="", name=f"{wanted.name}-next")
        return self._probe


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
    with collector_paused():
        reading = _Reading(snapshot, activate_foreign_changes)
        found = (
            Candidate.read(vmi, ref, workload, pod, reading)
            for vmi, ref, workload, pod in Running(snapshot, wanted.places).found()
            if workload is not None or ref == (vmi or pod).ref
        )
        return tuple(x for x in found if x.instance in wanted) if wanted.workloads else tuple(found)


class _Reading:
    """What the candidates of one snapshot are read with."""

    def __init__(self, snapshot: Snapshot, activate_foreign_changes: bool) -> None:
        self._snapshot = snapshot
        self._activate_foreign_changes = activate_foreign_changes
        self._look = QuickLook()
        self._reader = Reader()
        self._comparison: Comparison | None = None

    def is_in_effect(self, workload: Workload | None, pod: Pod) -> bool:
        """Whether a pod runs by just what its workload declares, as far as a quick look tells."""
        if workload is None:
            return True
        manifest = workload.manifest
        if workload.ref.kind == VIRTUAL_MACHINE.name:
            template = (manifest.get("spec") or {}).get("template") or {}
        else:
            template = workload.template
        return self._look.says_the_same(template, pod)

    def wanted(self, found: Candidate) -> Pod:
        if found.workload is None:
            return found.pod
        return as_declared(found.pod, self._reader.declared(found.workload))

    def outdated(self, found: Candidate) -> bool:
        workload = found.workload
        if workload is None or found.wanted is found.pod:
            return False
        declared = self._reader.declared(workload)
        compare = self._compare()
        return compare.gap(declared, found.pod, found.instance.vmi, workload) is not None

    def instance(self, found: Candidate) -> Instance:
        if found._found is None:
            raise AssertionError(
                "a candidate is made from an instance, or read from what makes one"
            )
        return instance(*found._found, found.pod)

    def migrates(self, found: Candidate) -> bool:
        return can_migrate(found.workload, found.instance.vmi, self._snapshot.platform)

    def effect(self, found: Candidate) -> Effect:
        return effect_of(
            found.workload,
            found.instance,
            self._snapshot.platform,
            activate_foreign_changes=self._activate_foreign_changes,
        )

    def asked(self, found: Candidate) -> Placement:
        if found.workload is None:
            return found.pod.placement
        return self._reader.declared(found.workload).placement

    def target(self, found: Candidate) -> Pod | None:
        vmi = found.instance.vmi
        if vmi is None or found.workload is None or not found.migrates:
            return None
        return migrated(found.pod, vmi, self._reader.declared(found.workload).placement)

    def _compare(self) -> Comparison:
        if self._comparison is None:
            keys = selecting_keys(_placements(self._snapshot, self._reader))
            self._comparison = Comparison(self._reader, keys)
        return self._comparison


def as_declared(pod: Pod, declared: Declared) -> Pod:
    """`pod`, on its node, as if it had been made from what its workload declares now."""
    made = restarted(pod, declared.placement, declared.labels)
    return replace(made, name=pod.name, uid=pod.uid, node_name=pod.node_name)


def _placements(snapshot: Snapshot, reader: Reader) -> t.Iterator[t.Any]:
    yield from (pod.placement for pod in snapshot.pods)
    yield from (reader.declared(workload).placement for workload in snapshot.workloads)
