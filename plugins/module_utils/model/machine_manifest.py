# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of workloads, VirtualMachineInstances and their migrations to model values."""

from __future__ import annotations

import typing as t

from .kinds import KINDS, MACHINE_INSTANCE
from .objects import Owner, Ref
from .pointer import JSON
from .snapshot import MachineInstance, Migration, Workload

MIGRATION = "VirtualMachineInstanceMigration"

_ENDED = ("Succeeded", "Failed")


def reference(kind: str, metadata: t.Mapping[str, JSON]) -> Ref:
    return Ref(kind, metadata.get("namespace") or "", metadata["name"])


def controller_of(metadata: t.Mapping[str, JSON]) -> Owner | None:
    """The owner that controls the object: of several owners at most one does."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(owner["kind"], owner["name"], owner["uid"])
    return None


def workload_from_manifest(kind: str, manifest: t.Mapping[str, JSON]) -> Workload:
    """A workload of `kind`, one of KINDS: items of a list do not say what they are."""
    metadata = manifest["metadata"]
    ref = reference(KINDS[kind].name, metadata)
    return Workload(ref, metadata["uid"], manifest, controller_of(metadata))


def machine_instance_from_manifest(manifest: t.Mapping[str, JSON]) -> MachineInstance:
    """A VirtualMachineInstance (kubevirt.io/v1)."""
    metadata = manifest["metadata"]
    spec = manifest.get("spec") or {}
    status = manifest.get("status") or {}
    conditions = {found["type"]: found for found in status.get("conditions") or ()}
    migratable = conditions.get("LiveMigratable") or {}
    return MachineInstance(
        ref=reference(MACHINE_INSTANCE, metadata),
        uid=metadata["uid"],
        phase=status.get("phase") or "",
        node_name=status.get("nodeName") or "",
        labels=metadata.get("labels") or {},
        spec=spec,
        ready=_holds(conditions.get("Ready")) or False,
        owner=controller_of(metadata),
        live_migratable=_holds(migratable),
        live_migratable_reason=": ".join(
            filter(None, [migratable.get("reason"), migratable.get("message")])
        ),
        eviction_strategy=spec.get("evictionStrategy") or "",
        evacuation_node_name=status.get("evacuationNodeName") or "",
        migration=status.get("migrationState") or {},
        active_pods=status.get("activePods") or {},
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def _holds(condition: t.Mapping[str, JSON] | None) -> bool | None:
    """True or False as the condition says; None where it is missing or Unknown."""
    return {"True": True, "False": False}.get((condition or {}).get("status", ""))


def migration_from_manifest(manifest: t.Mapping[str, JSON]) -> Migration | None:
    """A VirtualMachineInstanceMigration; None where it has ended."""
    metadata = manifest["metadata"]
    phase = (manifest.get("status") or {}).get("phase") or ""
    if phase in _ENDED:
        return None
    return Migration(
        ref=reference(MIGRATION, metadata),
        uid=metadata["uid"],
        instance=(manifest.get("spec") or {}).get("vmiName") or "",
        phase=phase,
        labels=metadata.get("labels") or {},
    )
