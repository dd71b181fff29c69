# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as the API server returns them, turned into model values.

A cluster has a hundred thousand pods made from far fewer templates. Placements and requests are
parsed once for each distinct text and shared. Equal values of one group are one object, so code
may compare by identity before equality.
"""

from __future__ import annotations

import marshal
import typing as t

from .json_pointer import JSON
from .kinds import KINDS, VMI
from .objects import Labels, Namespace, Node, Owner, Placement, Pod, Ref, Taint
from .placement_manifests import (
    CREATED_BY,
    placement_from_spec,
    placement_of_owner,
)
from .quantity import Container, amounts, parse_quantity, pod_requests
from .snapshot import Migration, Vmi, Workload

MIGRATION = "VirtualMachineInstanceMigration"

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API object of a static pod (core/v1, MirrorPodAnnotationKey)."""

_ENDED = ("Succeeded", "Failed")

_NONE: t.Final[dict[str, t.Any]] = {}
_OWN = b"\xff\xfeown value\xfe\xff"
"""Masks the pod's own created-by value in a key; no UTF-8 text contains it."""
_LIMIT = 200_000

_placements: dict[bytes, Placement] = {}
_requests: dict[bytes, dict[str, int]] = {}


def reference(kind: str, metadata: t.Mapping[str, JSON]) -> Ref:
    return Ref(kind, metadata.get("namespace") or "", metadata["name"])


def controller_of(metadata: t.Mapping[str, JSON]) -> Owner | None:
    """The owner that controls the object: of several owners at most one does."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(owner["kind"], owner["name"], owner.get("uid") or "")
    return None


def workload_from_manifest(kind: str, manifest: t.Mapping[str, JSON]) -> Workload:
    """A workload of `kind`, one of KINDS: items of a list have no kind. Its manifest has no more of
    `managedFields`, which is half of many objects, than the managers."""
    metadata = manifest["metadata"]
    if "managedFields" in metadata:
        managers = [{"manager": entry.get("manager")} for entry in metadata["managedFields"]]
        metadata = {**metadata, "managedFields": _shared(managers)}
    manifest = {
        **manifest,
        "metadata": metadata,
        "spec": _shared(manifest.get("spec"), 4),
        "status": _shared(manifest.get("status"), 1),
    }
    ref = reference(KINDS[kind].name, metadata)
    return Workload(ref, metadata["uid"], manifest, controller_of(metadata))


def vmi_from_manifest(manifest: t.Mapping[str, JSON]) -> Vmi:
    """A VirtualMachineInstance (kubevirt.io/v1)."""
    metadata = manifest["metadata"]
    spec = manifest.get("spec") or {}
    status = manifest.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    migratable = conditions.get("LiveMigratable") or {}
    return Vmi(
        ref=reference(VMI, metadata),
        uid=metadata["uid"],
        phase=status.get("phase") or "",
        node_name=status.get("nodeName") or "",
        labels=metadata.get("labels") or {},
        spec=_shared(spec, 2),
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
        revision=status.get("virtualMachineRevisionName") or "",
    )


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


def pod_from_manifest(manifest: t.Mapping[str, JSON]) -> Pod:
    """A pod. Its labels, annotations and claims are those of `manifest`, without a copy."""
    metadata = manifest["metadata"]
    spec = manifest["spec"]
    status = manifest.get("status") or _NONE
    labels = metadata.get("labels") or _NONE
    node_name = spec.get("nodeName") or ""
    return Pod(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        labels=labels,
        annotations=_read_annotations(metadata),
        node_name=node_name,
        phase=status.get("phase") or "",
        terminating=metadata.get("deletionTimestamp") is not None,
        ready=_is_true(status, "Ready"),
        placement=_placement(spec, labels),
        requests=_pod_requests(spec, status),
        host_ports=_host_ports(spec),
        claims=_claims(metadata["name"], spec),
        empty_dirs=_empty_dirs(spec),
        priority=spec.get("priority") or 0,
        scheduler_name=spec.get("schedulerName") or "default-scheduler",
        owner=controller_of(metadata),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        nominated_node_name=status.get("nominatedNodeName") or "",
    )


def _read_annotations(metadata: t.Mapping[str, JSON]) -> Labels:
    """The annotations of a pod that are read: KubeVirt puts half a kilobyte of others on each."""
    annotations = metadata.get("annotations") or _NONE
    return {MIRROR: annotations[MIRROR]} if MIRROR in annotations else _NONE


def node_from_manifest(manifest: t.Mapping[str, JSON]) -> Node:
    """A node; allocatable amounts are in the units of Pod.requests."""
    metadata = manifest["metadata"]
    spec = manifest.get("spec") or _NONE
    status = manifest.get("status") or _NONE
    return Node(
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        taints=tuple(map(_taint, spec.get("taints") or ())),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=amounts(status.get("allocatable")),
        ready=_is_true(status, "Ready"),
        boot_id=(status.get("nodeInfo") or _NONE).get("bootID") or "",
    )


def namespace_from_manifest(manifest: t.Mapping[str, JSON]) -> Namespace:
    """A namespace."""
    metadata = manifest["metadata"]
    return Namespace(metadata["name"], metadata.get("labels") or {})


def _holds(condition: t.Mapping[str, JSON] | None) -> bool | None:
    """True or False by the status of the condition; None if it is missing or Unknown."""
    return {"True": True, "False": False}.get((condition or {}).get("status", ""))


def _placement(spec: t.Mapping[str, JSON], labels: Labels) -> Placement:
    """The placement of a stored pod, shared by all pods with equal fields.

    The serialized fields are the key. The pod's own created-by value is masked in the key if only
    `NotIn [own value]` requirements contain it: then the parsed value does not contain it either.
    """
    text = marshal.dumps(
        (
            spec.get("affinity"),
            spec.get("topologySpreadConstraints"),
            spec.get("nodeSelector"),
            spec.get("tolerations"),
        ),
        2,
    )
    own = (labels.get(CREATED_BY) or "").encode()
    if not own or own not in text:
        placement = _placements.get(text)
        if placement is None:
            placement = placement_from_spec(spec)
            _remember(_placements, text, placement)
        return placement
    masked = text.replace(own, _OWN)
    placement = _placements.get(masked) or _placements.get(text + _OWN + own)
    if placement is None:
        placement, removed = placement_of_owner(spec, labels[CREATED_BY])
        shared = text.count(own) == removed
        _remember(_placements, masked if shared else text + _OWN + own, placement)
    return placement


def _pod_requests(spec: t.Mapping[str, JSON], status: t.Mapping[str, JSON]) -> dict[str, int]:
    containers: list[dict[str, JSON] | None] = [
        (container.get("resources") or _NONE).get("requests")
        for container in spec.get("containers") or ()
    ]
    initial = [
        ((container.get("resources") or _NONE).get("requests"), container.get("restartPolicy"))
        for container in spec.get("initContainers") or ()
    ]
    for status_of_container in status.get("containerStatuses") or ():
        if "resources" in status_of_container or "allocatedResources" in status_of_container:
            containers = list(_resized(spec["containers"], status["containerStatuses"]))
            break
    pod_level = spec.get("resources")
    key = marshal.dumps((containers, initial, pod_level, spec.get("overhead")), 2)
    total = _requests.get(key)
    if total is None:
        total = pod_requests(
            (Container(requests or _NONE) for requests in containers),
            (Container(requests or _NONE, policy == "Always") for requests, policy in initial),
            (pod_level or _NONE).get("requests"),
            spec.get("overhead"),
        )
        _remember(_requests, key, total)
    return total


def _requests_of(container: t.Mapping[str, JSON]) -> dict[str, JSON]:
    requests: dict[str, JSON] | None = (container.get("resources") or _NONE).get("requests")
    return requests or _NONE


def _resized(
    containers: t.Sequence[t.Mapping[str, JSON]], statuses: t.Sequence[t.Mapping[str, JSON]]
) -> list[dict[str, JSON]]:
    """Requests of containers that may be resized in place at present: the highest of requested,
    allocated and used amounts counts (component-helpers, UseStatusResources)."""
    by_name = {status.get("name"): status for status in statuses}
    result = []
    for container in containers:
        requests = _requests_of(container)
        status = by_name.get(container.get("name"), _NONE)
        in_use, allocated = _requests_of(status), status.get("allocatedResources") or _NONE
        if (in_use and in_use != requests) or (allocated and allocated != requests):
            requests = _highest(requests, in_use, allocated)
        result.append(requests)
    return result


def _highest(*listed: t.Mapping[str, JSON]) -> dict[str, JSON]:
    result: dict[str, JSON] = {}
    for requests in listed:
        for name, amount in requests.items():
            if name not in result or parse_quantity(amount) > parse_quantity(result[name]):
                result[name] = amount
    return result


def _host_ports(spec: t.Mapping[str, JSON]) -> tuple[tuple[str, str, int], ...]:
    """Of containers and sidecars (kube-scheduler, util.GetHostPorts)."""
    ports: list[tuple[str, str, int]] = []
    for container in spec.get("containers") or ():
        if "ports" in container:
            ports += _ports_of(container)
    for container in spec.get("initContainers") or ():
        if "ports" in container and container.get("restartPolicy") == "Always":
            ports += _ports_of(container)
    return tuple(ports)


def _ports_of(container: t.Mapping[str, JSON]) -> t.Iterator[tuple[str, str, int]]:
    for port in container["ports"] or ():
        if port.get("hostPort"):
            address = port.get("hostIP") or "0.0.0.0"
            yield (port.get("protocol") or "TCP", address, port["hostPort"])


def _claims(pod_name: str, spec: t.Mapping[str, JSON]) -> tuple[str, ...]:
    claims: list[str] = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            claims.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            claims.append(f"{pod_name}-{volume['name']}")
    return tuple(claims)


def _empty_dirs(spec: t.Mapping[str, JSON]) -> tuple[str, ...]:
    return tuple(
        volume["name"] for volume in spec.get("volumes") or () if volume.get("emptyDir") is not None
    )


def _is_true(status: t.Mapping[str, JSON], condition: str) -> bool:
    for entry in status.get("conditions") or ():
        if entry.get("type") == condition:
            return bool(entry.get("status") == "True")
    return False


def _taint(taint: t.Mapping[str, JSON]) -> Taint:
    return Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")


_shared_values: dict[bytes, JSON] = {}
_SHARED_LIMIT = 20_000


def _shared(value: JSON, depth: int = 0) -> JSON:
    """The value with the maps and lists that are `depth` deep in it replaced by equal ones that were met
    before. Most VMs differ from the next one in names, addresses and claims alone."""
    if not isinstance(value, (dict, list)) or not value:
        return value
    if depth and isinstance(value, dict):
        return {key: _shared(inner, depth - 1) for key, inner in value.items()}
    text = marshal.dumps(value, 2)
    if len(_shared_values) >= _SHARED_LIMIT:
        _shared_values.clear()
    return _shared_values.setdefault(text, value)


_Value = t.TypeVar("_Value")


def _remember(cache: dict[bytes, _Value], key: bytes, value: _Value) -> None:
    """The size is limited. A dropped text is parsed again; equal values still compare equal."""
    if len(cache) >= _LIMIT:
        cache.clear()
    cache[key] = value
