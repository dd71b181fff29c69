# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that no running one can be the model for: of halted machines and of empty workloads.

Pure. What is not known of such a pod is said: KubeVirt works out the requests of a launcher pod
from the machine, an instance type, and an overhead of its own.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.kinds import MACHINE_INSTANCE, VIRTUAL_MACHINE
from ..model.manifest import merge_match_label_keys, pod_from_manifest
from ..model.objects import Owner, Pod, Ref
from ..model.pointer import JSON
from ..model.quantity import parse_quantity
from ..model.snapshot import MachineInstance, Workload
from ..rules.machine_labels import HOSTNAME, MACHINE_ID, machine_id
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.successor import NEXT

SCHEDULABLE = "kubevirt.io/schedulable"
OVERHEAD = "250Mi"
"""About what KubeVirt adds for the processes beside a guest (services/renderresources.go)."""


def machine_instance(workload: Workload, name: str) -> MachineInstance:
    """The machine instance that starting a machine of `workload` would make."""
    spec = workload.template.get("spec") or {}
    return MachineInstance(
        ref=Ref(MACHINE_INSTANCE, workload.ref.namespace, name),
        uid=f"{workload.uid}-{name}{NEXT}",
        phase="Scheduling",
        node_name="",
        labels=workload.template_labels,
        spec=spec,
        owner=Owner(workload.ref.kind, workload.ref.name, workload.uid),
        eviction_strategy=spec.get("evictionStrategy") or "",
    )


def launcher_pod(vmi: MachineInstance) -> Pod:
    """The launcher pod of a machine instance that has none."""
    labels = {
        **vmi.labels,
        "kubevirt.io": "virt-launcher",
        CREATED_BY: vmi.uid,
        HOSTNAME: str(vmi.spec.get("hostname") or vmi.ref.name.split(".", 1)[0])[:63],
        MACHINE_ID: machine_id(vmi.ref.name),
    }
    said = {key: value for key, value in vmi.spec.items() if key in _PLACEMENT}
    selector = {**(said.get("nodeSelector") or {}), SCHEDULABLE: "true"}
    container = {"name": "compute", "resources": {"requests": machine_requests(vmi.spec)}}
    claims = [volume for volume in map(_claim, vmi.spec.get("volumes") or ()) if volume]
    spec = {**said, "nodeSelector": selector, "containers": [container], "volumes": claims}
    owner = {"kind": MACHINE_INSTANCE, "name": vmi.ref.name, "uid": vmi.uid, "controller": True}
    return _pod(f"virt-launcher-{vmi.ref.name}{NEXT}", vmi.ref.namespace, labels, spec, owner)


def controlled_pod(workload: Workload, name: str, owner_uid: str, owner_kind: str) -> Pod:
    """A pod that the controller of `workload` would make from its template."""
    spec = dict(workload.template.get("spec") or {})
    for field in ("containers", "initContainers"):
        spec[field] = [_with_requests(each) for each in spec.get(field) or ()]
    owner = {"kind": owner_kind, "name": workload.ref.name, "uid": owner_uid, "controller": True}
    return _pod(name, workload.ref.namespace, dict(workload.template_labels), spec, owner)


def sized(workload: Workload) -> bool:
    """Whether the requests of a machine that does not run can be told from its template."""
    spec = workload.manifest.get("spec") or {}
    if workload.ref.kind != VIRTUAL_MACHINE.name:
        return True
    domain = (workload.template.get("spec") or {}).get("domain") or {}
    requests = (domain.get("resources") or {}).get("requests") or {}
    return "instancetype" not in spec and "memory" in requests and "cpu" in requests


def machine_requests(spec: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """What a launcher pod asks for, as far as the machine says: guest memory with an overhead,
    and a tenth of a core for each virtual CPU (cpuAllocationRatio) unless it asks for more."""
    domain = spec.get("domain") or {}
    asked = (domain.get("resources") or {}).get("requests") or {}
    cores = domain.get("cpu") or {}
    count = 1
    for part in ("sockets", "cores", "threads"):
        count *= int(cores.get(part) or 1)
    memory = asked.get("memory") or (domain.get("memory") or {}).get("guest") or "0"
    total = (parse_quantity(memory) + parse_quantity(OVERHEAD)) // 10**9
    return {**asked, "cpu": asked.get("cpu") or f"{100 * count}m", "memory": str(total)}


def _pod(
    name: str, namespace: str, labels: dict[str, str], spec: JSON, owner: dict[str, JSON]
) -> Pod:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [owner],
    }
    manifest = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    pod = pod_from_manifest(manifest)
    return replace(pod, placement=merge_match_label_keys(pod.placement, labels))


def _claim(volume: t.Mapping[str, JSON]) -> JSON:
    """A volume of a machine as its launcher pod mounts it, if it is a claim."""
    claim = volume.get("persistentVolumeClaim")
    data = volume.get("dataVolume")
    name = (claim or {}).get("claimName") or (data or {}).get("name")
    if not name:
        return None
    return {"name": volume["name"], "persistentVolumeClaim": {"claimName": name}}


def _with_requests(container: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """A container with the requests that the API server sets from its limits."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


_PLACEMENT = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")
