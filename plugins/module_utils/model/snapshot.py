# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One consistent reading of a cluster. Judge, planner and lint see nothing else."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .kinds import KINDS, Kind
from .objects import Labels, Namespace, Node, NodeTerm, Owner, Pod, Ref
from .platform import Platform
from .pointer import JSON, MISSING


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload object. `manifest` is what the API server returned; nothing changes it."""

    ref: Ref
    uid: str
    manifest: t.Mapping[str, JSON]
    owner: Owner | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.ref.kind]

    @property
    def template(self) -> t.Mapping[str, JSON]:
        """The pod-like template: `metadata` and `spec`. Empty where the object has none."""
        found = self.kind.template.read(self.manifest)
        return found if found is not MISSING and found is not None else {}

    @property
    def template_labels(self) -> Labels:
        return (self.template.get("metadata") or {}).get("labels") or {}

    @property
    def annotations(self) -> Labels:
        return self.manifest["metadata"].get("annotations") or {}

    @property
    def labels(self) -> Labels:
        return self.manifest["metadata"].get("labels") or {}

    def condition(self, kind: str, status: str = "True") -> t.Mapping[str, JSON] | None:
        """The condition `kind` of the object's status, where it has that status."""
        conditions = (self.manifest.get("status") or {}).get("conditions") or ()
        wanted = (kind, status)
        return next((x for x in conditions if (x.get("type"), x.get("status")) == wanted), None)


@dataclass(frozen=True, slots=True)
class MachineInstance:
    """A VirtualMachineInstance (VMI)."""

    ref: Ref
    uid: str
    phase: str
    node_name: str
    labels: Labels
    spec: t.Mapping[str, JSON]
    ready: bool = False
    owner: Owner | None = None
    live_migratable: bool | None = None
    """None: the condition is missing, so nobody knows."""
    live_migratable_reason: str = ""
    eviction_strategy: str = ""
    evacuation_node_name: str = ""
    migration: t.Mapping[str, JSON] = field(default_factory=dict)
    """status.migrationState"""
    active_pods: t.Mapping[str, str] = field(default_factory=dict)
    """Pod uid to node name."""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Migration:
    """A VirtualMachineInstanceMigration that has not ended."""

    ref: Ref
    uid: str
    instance: str
    phase: str
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instance:
    """A running copy of a workload: a VMI with its active launcher pod, or a pod.

    `pod` is None for a VMI whose pod could not be read or is not made yet; `vmi` is None
    where the workload is not made of virtual machines.
    """

    ref: Ref
    uid: str
    workload: Ref | None
    pod: Pod | None
    vmi: MachineInstance | None = None

    @property
    def node_name(self) -> str:
        if self.pod is not None:
            return self.pod.node_name
        return self.vmi.node_name if self.vmi is not None else ""


_OF_NO_NAMESPACE = frozenset({"namespaces", "nodes", "persistentvolumes"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that was needed and could not be read: verdicts that rest on it are unknown."""

    resource: str
    namespace: str
    verb: str
    reason: str

    def __str__(self) -> str:
        where = "" if self.resource in _OF_NO_NAMESPACE else " in all namespaces"
        if self.namespace:
            where = f" in namespace {self.namespace}"
        return f"cannot {self.verb} {self.resource}{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A reading of the cluster. A list that is missing in full or in part stands in `unreadable`."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    workloads: tuple[Workload, ...] = ()
    machine_instances: tuple[MachineInstance, ...] = ()
    migrations: tuple[Migration, ...] = ()
    controllers: t.Mapping[str, Ref] = field(default_factory=dict)
    """Uid of a ReplicaSet to the Deployment that owns it."""
    claim_terms: t.Mapping[tuple[str, str], tuple[NodeTerm, ...]] = field(default_factory=dict)
    """(namespace, claim) to the required node terms of the PersistentVolume bound to it."""
    platform: Platform = field(default_factory=Platform)
    unreadable: tuple[Unreadable, ...] = ()
    ending: tuple[Pod, ...] = ()
    """Of a cluster as it would be (planning.what_if): pods that end on lost nodes, as they stand
    until then. `pods` has nothing of them any more, or what is terminating."""

    def gap(self, resource: str, namespace: str) -> Unreadable | None:
        """Why a list (a plural) of the namespace could not be read, if that is so."""
        return next(
            (
                gap
                for gap in self.unreadable
                if gap.resource == resource and gap.namespace in ("", namespace)
            ),
            None,
        )
