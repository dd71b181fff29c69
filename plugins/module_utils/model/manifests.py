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
from hashlib import blake2b

from ..kinds.registry import KINDS
from ..kinds.vmi import VMI
from .json_pointer import JSON
from .json_text import DEPTH_LIMIT, shallow
from .objects import Labels, Namespace, Node, Owner, Placement, Pod, Ref, Taint, is_object_name
from .placement_manifests import (
    CREATED_BY,
    placement_from_spec,
    placement_of_owner,
)
from .pod_fields import unmodeled_fields
from .pod_security import Forbidden, forbidden
from .quantity import Container, amounts, parse_quantity, pod_requests
from .rendering import one_line
from .snapshot import Migration, Vmi, Workload
from .storage import volumes_of_pod

MIGRATION = "VirtualMachineInstanceMigration"

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API object of a static pod (core/v1, MirrorPodAnnotationKey)."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with the whole object once more (kubectl apply)."""

_ENDED = ("Succeeded", "Failed")

_NONE: t.Final[dict[str, t.Any]] = {}
_OWN = b"\xff\xfeown value\xfe\xff"
"""Masks the pod's own created-by value in a key; no UTF-8 text contains it."""
_LIMIT = 200_000

_names: dict[tuple[str, ...], tuple[str, ...]] = {}
_levels: dict[Forbidden, Forbidden] = {}
_placements: dict[bytes, Placement] = {}
_Amounts = tuple[dict[str, int], dict[str, int], tuple[str, ...]]
_resources: dict[bytes, _Amounts] = {}


class _Texts(dict[str, str]):
    """Each text once: `texts[text]`. As sys.intern, in whose place ansible-core has a slower function."""

    def __missing__(self, text: str) -> str:
        return self.setdefault(text, text)


_texts = _Texts()


def reference(kind: str, metadata: t.Mapping[str, JSON]) -> Ref:
    return Ref(kind, _texts[metadata.get("namespace") or ""], _texts[metadata["name"]])


def controller_of(metadata: t.Mapping[str, JSON]) -> Owner | None:
    """The owner that controls the object: of several owners at most one does. One with a name or a kind
    that no object can have is none: the API server checks neither (apimachinery, pkg/api/validation)."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            name, kind = owner["name"], owner["kind"]
            if not (is_object_name(name) and is_object_name(kind.lower())):
                return None
            group = (owner.get("apiVersion") or "").rpartition("/")[0]
            return Owner(_texts[kind], _texts[name], _texts[owner.get("uid") or ""], _texts[group])
    return None


def labels_of(metadata: t.Mapping[str, JSON]) -> Labels:
    """The labels of an object; VMs, VMIs and pods have many of the same values."""
    texts = _texts
    labels = metadata.get("labels") or _NONE
    return {texts[key]: texts[value] for key, value in labels.items()}


def workload_from_manifest(kind: str, manifest: t.Mapping[str, JSON]) -> Workload:
    """A workload of `kind`, one of KINDS: items of a list have no kind. Its manifest has no more of
    `managedFields`, which is half of many objects, than the managers, and of LAST_APPLIED the key."""
    metadata = {**manifest["metadata"]}
    if "managedFields" in metadata:
        fields = metadata["managedFields"]
        metadata["managedFields"] = [{"manager": entry.get("manager")} for entry in fields]
    if LAST_APPLIED in (metadata.get("annotations") or _NONE):
        metadata["annotations"] = {**metadata["annotations"], LAST_APPLIED: ""}
    manifest = {
        **{_texts[key]: value for key, value in manifest.items()},
        "metadata": _shared(metadata, 2),
        "spec": _shared(manifest.get("spec"), 4),
        "status": _shared(manifest.get("status"), 1),
    }
    ref = reference(KINDS[kind].name, metadata)
    return Workload(ref, metadata["uid"], manifest, controller_of(metadata))


def vmi_from_manifest(manifest: t.Mapping[str, JSON]) -> Vmi:
    metadata = manifest["metadata"]
    spec = manifest.get("spec") or {}
    status = manifest.get("status") or {}
    # KubeVirt, pkg/util/migrations/migrations.go, IsBackupInProgress
    backup = (status.get("changedBlockTracking") or _NONE).get("backupStatus") or _NONE
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    migratable = conditions.get("LiveMigratable") or {}
    return Vmi(
        ref=reference(VMI, metadata),
        uid=_texts[metadata["uid"]],
        phase=_texts[status.get("phase") or ""],
        node_name=_texts[status.get("nodeName") or ""],
        labels=labels_of(metadata),
        spec=_shared(spec, 2),
        ready=_holds(conditions.get("Ready")) or False,
        lost_ready=_lost_ready(conditions.get("Ready") or _NONE, status),
        owner=controller_of(metadata),
        live_migratable=_holds(migratable),
        live_migratable_reason=_condition_text(migratable),
        unsynchronized=_condition_text(conditions.get("Synchronized") or _NONE, "False"),
        eviction_strategy=_texts[spec.get("evictionStrategy") or ""],
        evacuation_node_name=status.get("evacuationNodeName") or "",
        backup="" if backup.get("completed") else str(backup.get("backupName") or ""),
        migration=status.get("migrationState") or _NONE,
        active_pods={uid: _texts[node] for uid, node in (status.get("activePods") or {}).items()},
        terminating=bool(metadata.get("deletionTimestamp")),
        revision=status.get("virtualMachineRevisionName") or "",
        machine_type=_texts[(status.get("machine") or {}).get("type") or ""],
        annotations=_shared(metadata.get("annotations") or _NONE, 1),
        resized=not _RESIZED.isdisjoint(conditions),
    )


def _lost_ready(ready: t.Mapping[str, JSON], status: t.Mapping[str, JSON]) -> bool:
    """Whether a VMI was Ready since it is Running, and is not any more: its condition is that of its launcher pod, with
    the time of the change (KubeVirt, watch/vmi/lifecycle.go, syncReadyConditionFromPod)."""
    since = (
        x.get("phaseTransitionTimestamp") or ""
        for x in status.get("phaseTransitionTimestamps") or ()
        if x.get("phase") == "Running"
    )
    changed = ready.get("lastTransitionTime") or ""
    return ready.get("status") == "False" and any(running < changed for running in since)


def _condition_text(condition: t.Mapping[str, JSON], status: str = "") -> str:
    """The reason and the message of a condition that has this status, of another one none."""
    if status and condition.get("status") != status:
        return ""
    texts = [condition.get("reason"), condition.get("message")]
    return one_line(": ".join(filter(None, texts)))


_RESIZED = frozenset({"HotVCPUChange", "HotMemoryChange"})
"""Conditions of a VMI from a change of its CPUs or memory until a migration that applies it, or for good if that
failed (KubeVirt, watch/vmi/lifecycle.go, syncHotplugCondition; virt-handler/migration-target.go)."""


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
    """A pod. Nothing of `manifest` but text is kept."""
    metadata = manifest["metadata"]
    spec = manifest["spec"]
    status = manifest.get("status") or _NONE
    labels = labels_of(metadata)
    requests, limits, unset = _amounts(spec, status)
    claims, made_claims, empty_dirs = volumes_of_pod(metadata["name"], spec)
    return Pod(
        namespace=_texts[metadata.get("namespace") or ""],
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        labels=labels,
        annotations=_read_annotations(metadata),
        node_name=_texts[spec.get("nodeName") or ""],
        phase=_texts[status.get("phase") or ""],
        created=metadata.get("creationTimestamp") or "",
        terminating=metadata.get("deletionTimestamp") is not None,
        deletion_grace=metadata.get("deletionGracePeriodSeconds") or 0,
        ready=_is_ready(status),
        placement=_placement(spec, labels),
        requests=requests,
        limits=limits,
        unset=unset,
        has_deadline=spec.get("activeDeadlineSeconds") is not None,
        priority_class=_texts[spec.get("priorityClassName") or ""],
        host_ports=_host_ports(spec),
        claims=claims,
        made_claims=made_claims,
        empty_dirs=_remembered(_names, empty_dirs, empty_dirs),
        priority=spec.get("priority") or 0,
        scheduler_name=_texts[spec.get("schedulerName") or "default-scheduler"],
        gated=bool(spec.get("schedulingGates")),
        unmodeled=unmodeled_fields(spec),
        forbidden=_forbidden(metadata, spec),
        unscheduled="" if spec.get("nodeName") else _unscheduled(status),
        owner=controller_of(metadata),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        nominated_node_name=status.get("nominatedNodeName") or "",
    )


def pod_from_metadata(manifest: t.Mapping[str, JSON]) -> Pod:
    """A pod of which the server sent `metadata` alone: it has no node, no placement and no requests."""
    metadata = manifest["metadata"]
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        labels=metadata.get("labels") or _NONE,
        annotations=_read_annotations(metadata),
        terminating=metadata.get("deletionTimestamp") is not None,
        owner=controller_of(metadata),
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
        ready=_is_ready(status),
        boot_id=(status.get("nodeInfo") or _NONE).get("bootID") or "",
        maintenance_mode=any(
            condition.get("type") == "MaintenanceMode" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
    )


def namespace_from_manifest(manifest: t.Mapping[str, JSON]) -> Namespace:
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
        key = _digest(text)
        placement = _placements.get(key)
        return placement or _remembered(_placements, key, placement_from_spec(spec))
    masked = _digest(text.replace(own, _OWN))
    placement = _placements.get(masked)
    if placement is None:
        unmasked = _digest(text + _OWN + own)
        placement = _placements.get(unmasked)
    if placement is None:
        placement, removed = placement_of_owner(spec, labels[CREATED_BY])
        shared = text.count(own) == removed
        _remembered(_placements, masked if shared else unmasked, placement)
    return placement


_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})


def _amounts(spec: t.Mapping[str, JSON], status: t.Mapping[str, JSON]) -> _Amounts:
    """The requests, the limits and what is unset of a pod. Limits add up as requests do (kubernetes
    pkg/quota/v1/evaluator/core/pods.go, PodUsageFunc)."""
    listed = spec.get("containers") or ()
    containers = [container.get("resources") for container in listed]
    initial = [
        (container.get("resources"), container.get("restartPolicy"))
        for container in spec.get("initContainers") or ()
    ]
    pod_level, overhead = spec.get("resources"), spec.get("overhead")
    resized = None
    for status_of_container in status.get("containerStatuses") or ():
        if "resources" in status_of_container or "allocatedResources" in status_of_container:
            resized = _resized(listed, status["containerStatuses"])
            break
    key = _digest(marshal.dumps((containers, initial, pod_level, overhead, resized), 2))
    known = _resources.get(key)
    if known is not None:
        return known

    def total(field: str, amounts: t.Iterable[dict[str, JSON]]) -> dict[str, int]:
        """The sum of a field of all resources; `amounts` are those of the containers."""
        before = (Container(_part(x, field), policy == "Always") for x, policy in initial)
        return pod_requests(map(Container, amounts), before, _part(pod_level, field), overhead)

    requests = total("requests", resized or [_part(x, "requests") for x in containers])
    limits = [_part(x, "limits") for x in containers]
    limited: dict[str, int] = {}
    if not all(map(_LIMITED.isdisjoint, limits)):
        amounts = total("limits", limits)
        limited = {resource: amounts[resource] for resource in amounts if resource in _LIMITED}
    resources = [*containers, *(x for x, _policy in initial)]
    unset = () if pod_level and any(pod_level.values()) else _unset(resources)
    return _remembered(_resources, key, (requests, limited, unset))


def _unset(resources: t.Sequence[t.Mapping[str, JSON] | None]) -> tuple[str, ...]:
    """What not all containers with these resources set (pods.go, Constraints). A limit is a request, too (pkg/apis/
    core/v1/defaults.go, SetDefaults_Pod)."""
    limits = [_part(x, "limits") for x in resources]
    requests = [
        {**limit, **_part(x, "requests")} for x, limit in zip(resources, limits, strict=True)
    ]
    return tuple(
        f"{prefix}{name}"
        for prefix, amounts in (("", requests), ("limits.", limits))
        for name in ("cpu", "memory")
        if not all(name in x for x in amounts)
    )


def _part(resources: t.Mapping[str, JSON] | None, field: str) -> dict[str, JSON]:
    part: dict[str, JSON] | None = (resources or _NONE).get(field)
    return part or _NONE


def _resized(
    containers: t.Sequence[t.Mapping[str, JSON]], statuses: t.Sequence[t.Mapping[str, JSON]]
) -> list[dict[str, JSON]]:
    """Requests of containers that may be resized in place at present: the highest of requested,
    allocated and used amounts counts (component-helpers, UseStatusResources)."""
    by_name = {status.get("name"): status for status in statuses}
    result = []
    for container in containers:
        requests = _part(container.get("resources"), "requests")
        status = by_name.get(container.get("name"), _NONE)
        in_use = _part(status.get("resources"), "requests")
        allocated = status.get("allocatedResources") or _NONE
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


def _forbidden(metadata: t.Mapping[str, JSON], spec: t.Mapping[str, JSON]) -> Forbidden:
    found = forbidden(metadata, spec)
    return _remembered(_levels, found, found)


def _unscheduled(status: t.Mapping[str, JSON]) -> str:
    for entry in status.get("conditions") or ():
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            return one_line(entry.get("message") or "")
    return ""


def _is_ready(status: t.Mapping[str, JSON]) -> bool:
    for entry in status.get("conditions") or ():
        if entry.get("type") == "Ready":
            return bool(entry.get("status") == "True")
    return False


def _taint(taint: t.Mapping[str, JSON]) -> Taint:
    return Taint(
        *(_texts[taint.get(field) or ""] for field in ("key", "value", "effect", "timeAdded"))
    )


_Value = t.TypeVar("_Value")


def _digest(text: bytes) -> bytes:
    """Stands for a text as the key of a cache, a short one for itself."""
    return text if len(text) < 128 else blake2b(text, digest_size=16).digest()


def _remembered(cache: dict[t.Any, _Value], key: t.Hashable, value: _Value) -> _Value:
    """What the cache has under the key, which is `value` from now on if there was nothing.

    The size is limited. What was dropped is made again; equal values still compare equal.
    """
    if len(cache) >= _LIMIT:
        cache.clear()
    return cache.setdefault(key, value)


_shared_values: dict[bytes, JSON] = {}
_shared_maps: dict[int, dict[str, JSON]] = {}
"""By the hash of the names in a map and the ids of their values, which the map keeps alive."""


def _shared(value: JSON, depth: int = 0) -> JSON:
    """The value with the maps and lists that are `depth` deep in it replaced by equal ones that were met
    before, and the maps of these. Most VMs differ from the next one in names, addresses and claims alone."""
    if not depth or not isinstance(value, dict):
        if not value or not isinstance(value, (dict, list)):
            return value
        try:
            text = marshal.dumps(value, 2)
        except ValueError:  # some 2,000 deep
            return shallow(value)
        key = _digest(text)
        if (known := _shared_values.get(key)) is not None:
            return known
        if text.count(b"{") + text.count(b"[") > DEPTH_LIMIT:
            value = shallow(value)
        return _remembered(_shared_values, key, value)
    inner = {}
    for key, item in value.items():
        kind = type(item)
        if kind is str:
            item = _texts[item]
        elif kind is dict or kind is list:
            item = _shared(item, depth - 1)
        inner[_texts[key]] = item
    if depth > 1:
        return inner
    met = _remembered(_shared_maps, hash((*inner, *map(id, inner.values()))), inner)
    return met if met == inner else inner
