# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as the API server returns them, turned into model values.

A cluster has a hundred thousand pods made from far fewer templates. Placements and requests are
therefore parsed once for each distinct text and shared: equal values of one group are one object,
and whoever works on them may go by identity before equality.
"""

from __future__ import annotations

import marshal
import typing as t

from .collector import collector_paused
from .objects import Labels, Namespace, Node, Owner, Placement, Pod, Service, Taint
from .placement_manifest import (
    CREATED_BY,
    merge_match_label_keys,
    node_term_from_json,
    placement_from_spec,
    placement_of_owner,
    selector_from_json,
)
from .pointer import JSON
from .quantity import Container, amounts, parse_quantity, pod_requests

__all__ = [
    "merge_match_label_keys",
    "namespace_from_manifest",
    "node_from_manifest",
    "node_term_from_json",
    "parse_quantity",
    "placement_from_spec",
    "pod_from_manifest",
    "pods_from_manifests",
    "selector_from_json",
    "service_from_manifest",
]

_NONE: t.Final[dict[str, t.Any]] = {}
_OWN = b"\xff\xfeown value\xfe\xff"
"""Stands for the pod's own created-by in a text: no UTF-8 contains it."""
_LIMIT = 200_000

_placements: dict[bytes, Placement] = {}
_requests: dict[bytes, dict[str, int]] = {}


def pod_from_manifest(manifest: t.Mapping[str, JSON]) -> Pod:
    """A pod. Its labels, annotations and claims are those of `manifest`, not copies."""
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
        annotations=metadata.get("annotations") or _NONE,
        node_name=node_name,
        phase=status.get("phase") or "",
        terminating=metadata.get("deletionTimestamp") is not None,
        ready=_is_true(status, "Ready"),
        placement=_placement(spec, labels),
        requests=_pod_requests(spec, status),
        host_ports=_host_ports(spec),
        claims=_claims(metadata["name"], spec),
        priority=spec.get("priority") or 0,
        scheduler_name=spec.get("schedulerName") or "default-scheduler",
        owner=_owner(metadata),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        nominated_node_name=status.get("nominatedNodeName") or "",
    )


def pods_from_manifests(manifests: t.Iterable[t.Mapping[str, JSON]]) -> tuple[Pod, ...]:
    """Many pods at once."""
    with collector_paused():
        return tuple(map(pod_from_manifest, manifests))


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
    )


def namespace_from_manifest(manifest: t.Mapping[str, JSON]) -> Namespace:
    """A namespace."""
    metadata = manifest["metadata"]
    return Namespace(metadata["name"], metadata.get("labels") or {})


def service_from_manifest(manifest: t.Mapping[str, JSON]) -> Service:
    """A service."""
    metadata = manifest["metadata"]
    selector = (manifest.get("spec") or _NONE).get("selector")
    return Service(metadata.get("namespace") or "", metadata["name"], selector)


def _placement(spec: t.Mapping[str, JSON], labels: Labels) -> Placement:
    """The placement of a stored pod, shared with every pod that says the same.

    The text is the key. Where it names the pod's own created-by, that is blotted out, if nothing
    but `NotIn [own value]` requirements named it: then the parsed value does not contain it either.
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
        known = _placements.get(text)
        if known is None:
            known = placement_from_spec(spec)
            _remember(_placements, text, known)
        return known
    blotted = text.replace(own, _OWN)
    known = _placements.get(blotted) or _placements.get(text + _OWN + own)
    if known is None:
        known, recognised = placement_of_owner(spec, labels[CREATED_BY])
        shared = text.count(own) == recognised
        _remember(_placements, blotted if shared else text + _OWN + own, known)
    return known


def _pod_requests(spec: t.Mapping[str, JSON], status: t.Mapping[str, JSON]) -> dict[str, int]:
    containers: list[dict[str, JSON] | None] = [
        (each.get("resources") or _NONE).get("requests") for each in spec.get("containers") or ()
    ]
    initial = [
        ((each.get("resources") or _NONE).get("requests"), each.get("restartPolicy"))
        for each in spec.get("initContainers") or ()
    ]
    for each in status.get("containerStatuses") or ():
        if "resources" in each or "allocatedResources" in each:
            containers = list(_resized(spec["containers"], status["containerStatuses"]))
            break
    pod_level = spec.get("resources")
    key = marshal.dumps((containers, initial, pod_level, spec.get("overhead")), 2)
    known = _requests.get(key)
    if known is None:
        known = pod_requests(
            (Container(each or _NONE) for each in containers),
            (Container(each or _NONE, policy == "Always") for each, policy in initial),
            (pod_level or _NONE).get("requests"),
            spec.get("overhead"),
        )
        _remember(_requests, key, known)
    return known


def _requests_of(container: t.Mapping[str, JSON]) -> dict[str, JSON]:
    requests: dict[str, JSON] | None = (container.get("resources") or _NONE).get("requests")
    return requests or _NONE


def _resized(
    containers: t.Sequence[t.Mapping[str, JSON]], statuses: t.Sequence[t.Mapping[str, JSON]]
) -> list[dict[str, JSON]]:
    """Requests of containers that may be in the midst of being resized in place: the highest of
    what is asked for, allocated and in use counts (component-helpers, UseStatusResources)."""
    by_name = {each.get("name"): each for each in statuses}
    result = []
    for container in containers:
        asked = _requests_of(container)
        status = by_name.get(container.get("name"), _NONE)
        in_use, allocated = _requests_of(status), status.get("allocatedResources") or _NONE
        if (in_use and in_use != asked) or (allocated and allocated != asked):
            asked = _highest(asked, in_use, allocated)
        result.append(asked)
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
    found: list[tuple[str, str, int]] = []
    for container in spec.get("containers") or ():
        if "ports" in container:
            found += _ports_of(container)
    for container in spec.get("initContainers") or ():
        if "ports" in container and container.get("restartPolicy") == "Always":
            found += _ports_of(container)
    return tuple(found)


def _ports_of(container: t.Mapping[str, JSON]) -> t.Iterator[tuple[str, str, int]]:
    for port in container["ports"] or ():
        if port.get("hostPort"):
            address = port.get("hostIP") or "0.0.0.0"
            yield (port.get("protocol") or "TCP", address, port["hostPort"])


def _claims(pod_name: str, spec: t.Mapping[str, JSON]) -> tuple[str, ...]:
    found: list[str] = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod_name}-{volume['name']}")
    return tuple(found)


def _owner(metadata: t.Mapping[str, JSON]) -> Owner | None:
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return Owner(each["kind"], each["name"], each.get("uid") or "")
    return None


def _is_true(status: t.Mapping[str, JSON], condition: str) -> bool:
    for each in status.get("conditions") or ():
        if each.get("type") == condition:
            return bool(each.get("status") == "True")
    return False


def _taint(taint: t.Mapping[str, JSON]) -> Taint:
    return Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")


_Value = t.TypeVar("_Value")


def _remember(cache: dict[bytes, _Value], key: bytes, value: _Value) -> None:
    """Bounded: what is forgotten is parsed again, and equal values still compare equal."""
    if len(cache) >= _LIMIT:
        cache.clear()
    cache[key] = value
