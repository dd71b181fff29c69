# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which spec has the next VMI of a VM that names an instance type or a preference, and what do these refuse?

As virt-api expands it, as far as its node labels and its scheduler depend on it. Source: KubeVirt 1.8.4,
pkg/instancetype/apply, pkg/instancetype/preference/apply (architecture.go, cpu.go, machine.go), and
pkg/instancetype/find for the kinds of a matcher.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON
from ..model.snapshot import Workload
from .instance_types import InstanceType
from .labels import vm_spec

Spec = t.Mapping[str, JSON]

GROUP = "instancetype.kubevirt.io"
INSTANCE_TYPE, CLUSTER_INSTANCE_TYPE = (
    "VirtualMachineInstancetype",
    "VirtualMachineClusterInstancetype",
)
PREFERENCE, CLUSTER_PREFERENCE = "VirtualMachinePreference", "VirtualMachineClusterPreference"

TYPE_KINDS = (INSTANCE_TYPE, CLUSTER_INSTANCE_TYPE, PREFERENCE, CLUSTER_PREFERENCE)

_ONE_OF_BOTH = ("nodeSelector", "schedulerName")
"""Fields that virt-api refuses in a VM whose instance type has them (nodeselector.go, scheduler.go)."""


@dataclass(frozen=True, slots=True)
class VmPreference:
    """A VirtualMachinePreference, or a VirtualMachineClusterPreference, which has no namespace."""

    name: str
    namespace: str
    spec: Spec


def preference_from_manifest(manifest: Spec) -> VmPreference:
    """Raises what a part of another type raises."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    preference = VmPreference(metadata["name"], metadata.get("namespace") or "", spec)
    _preferred({}, spec)
    return preference


@dataclass(frozen=True, slots=True)
class ExpandedVmi:
    """The spec of the next VMI. `lacks`: the matchers whose object is not known (`instancetype`, `preference`).
    `conflicts`: the fields of the VM that virt-api refuses beside its `instance_type`."""

    spec: Spec
    lacks: frozenset[str] = frozenset()
    conflicts: tuple[str, ...] = ()
    instance_type: str = ""


@dataclass(frozen=True)
class KnownTypes:
    """Instance types and preferences by kind, namespace and name. They may not be all."""

    types: t.Mapping[tuple[str, str], InstanceType]
    preferences: t.Mapping[tuple[str, str], VmPreference]

    @classmethod
    def of(
        cls, types: t.Iterable[InstanceType] = (), preferences: t.Iterable[VmPreference] = ()
    ) -> KnownTypes:
        """Of several of one name the last one counts."""
        return cls(
            {(x.namespace, x.name): x for x in types},
            {(x.namespace, x.name): x for x in preferences},
        )

    def beside(self, others: KnownTypes) -> KnownTypes:
        """These and others; of one name these count."""
        return KnownTypes(
            {**others.types, **self.types}, {**others.preferences, **self.preferences}
        )

    def expanded(self, workload: Workload) -> ExpandedVmi:
        """The next VMI of a VM, or of a VM that a pool makes."""
        vm, spec = vm_spec(workload), workload.template.get("spec") or {}
        matchers = {name: vm[name] for name in ("instancetype", "preference") if vm.get(name)}
        known = {
            "instancetype": _matched(vm.get("instancetype"), workload.ref.namespace, self.types),
            "preference": _matched(vm.get("preference"), workload.ref.namespace, self.preferences),
        }
        instance_type, preference = known["instancetype"], known["preference"]
        conflicts: tuple[str, ...] = ()
        if isinstance(instance_type, InstanceType):
            added = instance_type.template["spec"]
            conflicts = tuple(x for x in _ONE_OF_BOTH if spec.get(x) and added.get(x))
            spec = _merged(added, spec)
        if isinstance(preference, VmPreference):
            spec = _preferred(spec, preference.spec)
        lacks = frozenset(name for name in matchers if known[name] is None)
        return ExpandedVmi(spec, lacks, conflicts, str(instance_type or ""))


_Named = t.TypeVar("_Named")


def _matched(
    matcher: JSON, namespace: str, named: t.Mapping[tuple[str, str], _Named]
) -> _Named | None:
    """The object that a matcher names. Without a kind it is one of the cluster. `inferFromVolume` names none."""
    if not isinstance(matcher, dict):
        return None
    kind = str(matcher.get("kind") or "cluster").lower()
    return named.get(("" if "cluster" in kind else namespace, str(matcher.get("name") or "")))


def _merged(under: JSON, over: JSON) -> JSON:
    """Maps in one another, of which the second one counts."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return under if over is None else over
    return {
        **under,
        **{
            key: _merged(under[key], value) if key in under else value
            for key, value in over.items()
        },
    }


def _preferred(spec: Spec, preference: Spec) -> Spec:
    """What a preference adds where the VM has nothing of its own."""
    domain = spec.get("domain") or {}
    cpu, machine = domain.get("cpu") or {}, domain.get("machine") or {}
    own = cpu.get("features") or []
    names = {feature["name"] for feature in own}
    wanted = (preference.get("cpu") or {}).get("preferredCPUFeatures") or []
    features = [*own, *(x for x in wanted if x["name"] not in names)]
    machine_type = (preference.get("machine") or {}).get("preferredMachineType")
    added: dict[str, JSON] = dict(domain)
    if features:
        added["cpu"] = {**cpu, "features": features}
    if machine_type and not machine.get("type"):
        added["machine"] = {**machine, "type": machine_type}
    architecture = spec.get("architecture") or preference.get("preferredArchitecture")
    return {**spec, "domain": added, **({"architecture": architecture} if architecture else {})}
