# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""LimitRanges: what the API server adds to the containers of a new pod, and which pods it refuses.

Source: kubernetes plugin/pkg/admission/limitranger/admission.go (PodMutateLimitFunc, PodValidateLimitFunc).
The texts are those of the API server.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .quantity import Container, parse_quantity, pod_requests

Spec = t.Mapping[str, JSON]
Amounts = t.Mapping[str, JSON]

_CONTAINER, _POD = "Container", "Pod"
_CONTAINERS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class LimitRange:
    """`limits` are those of containers and of pods, as in its spec. `changed`: when it was written last, RFC 3339;
    empty if that is not known."""

    namespace: str
    name: str
    limits: tuple[t.Mapping[str, JSON], ...]
    changed: str = ""

    @property
    def adds_requests(self) -> bool:
        """Whether it sets requests of containers that have none."""
        return any(limit.get("defaultRequest") or limit.get("default") for limit in self.limits)

    def is_newer_than(self, created: str) -> bool:
        """Whether it may not have been as it is when a pod was created, at this time."""
        return not (self.changed and created) or self.changed >= created

    def __str__(self) -> str:
        return f"LimitRange {self.namespace}/{self.name}"


def limit_range_from_manifest(manifest: t.Mapping[str, JSON]) -> LimitRange | None:
    """None for one that is about other things than pods."""
    metadata = manifest["metadata"]
    listed = (manifest.get("spec") or {}).get("limits") or ()
    limits = tuple(limit for limit in listed if limit.get("type") in (_CONTAINER, _POD))
    written = [entry.get("time") or "" for entry in metadata.get("managedFields") or ()]
    changed = (
        max([metadata.get("creationTimestamp") or "", *written]) if all(written or [""]) else ""
    )
    return LimitRange(metadata["namespace"], metadata["name"], limits, changed) if limits else None


def with_defaults(spec: Spec, ranges: t.Iterable[LimitRange]) -> dict[str, JSON]:
    """The pod spec as the API server completes it: each request that is missing is the limit (pkg/apis/core/v1/
    defaults.go, SetDefaults_Pod), then what LimitRanges add."""
    defaults = [
        (limit.get("defaultRequest") or {}, limit.get("default") or {})
        for limit_range in ranges
        for limit in limit_range.limits
        if limit["type"] == _CONTAINER
    ]
    completed = dict(spec)
    for field in _CONTAINERS:
        completed[field] = [
            {**container, "resources": _completed(container.get("resources") or {}, defaults)}
            for container in spec.get(field) or ()
        ]
    return completed


def _completed(
    resources: t.Mapping[str, JSON], defaults: t.Iterable[tuple[Amounts, Amounts]]
) -> dict[str, JSON]:
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    for default_requests, default_limits in defaults:
        limits = {**default_limits, **limits}
        requests = {**default_requests, **requests}
    return {**resources, "requests": requests, "limits": limits}


def why_refused(spec: Spec, ranges: t.Iterable[LimitRange]) -> str:
    """Why the API server refuses a pod with this completed spec; empty where it does not."""
    for limit_range in ranges:
        for limit in limit_range.limits:
            for subject, requests, limits in _checked(spec, limit["type"]):
                if why := _violated(limit, requests, limits):
                    return f"{limit_range} refuses {subject}: {why}"
    for container in _all_containers(spec):
        requests, limits = _resources(container)
        for name, amount in limits.items():
            if name in requests and parse_quantity(requests[name]) > parse_quantity(amount):
                return (
                    f"container {container.get('name')} requests {requests[name]} {name}, more than its limit of"
                    f" {amount}, which a LimitRange sets"
                )
    return ""


def _all_containers(spec: Spec) -> t.Iterator[t.Mapping[str, JSON]]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _resources(container: t.Mapping[str, JSON]) -> tuple[Amounts, Amounts]:
    resources = container.get("resources") or {}
    return resources.get("requests") or {}, resources.get("limits") or {}


def _checked(spec: Spec, kind: str) -> t.Iterator[tuple[str, Amounts, Amounts]]:
    """What a limit of this kind is about: its name, its requests and its limits."""
    if kind == _CONTAINER:
        for container in _all_containers(spec):
            yield f"container {container.get('name')}", *_resources(container)
        return
    totals = []
    for number, field in enumerate(("requests", "limits")):
        initial = (
            Container(_resources(x)[number], x.get("restartPolicy") == "Always")
            for x in spec.get("initContainers") or ()
        )
        containers = (Container(_resources(x)[number]) for x in spec.get("containers") or ())
        level = (spec.get("resources") or {}).get(field)
        total = pod_requests(containers, initial, level, None)
        totals.append(
            {name: f"{amount}m" if name == "cpu" else amount for name, amount in total.items()}
        )
    yield "the pod", totals[0], totals[1]


def _violated(limit: t.Mapping[str, JSON], requests: Amounts, limits: Amounts) -> str:
    kind = limit["type"]
    for name, least in (limit.get("min") or {}).items():
        rule = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            return f"{rule}. No request is specified"
        for word, given in (("request", requests), ("limit", limits)):
            if name in given and parse_quantity(given[name]) < parse_quantity(least):
                return f"{rule}, but {word} is {given[name]}"
    for name, most in (limit.get("max") or {}).items():
        rule = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            return f"{rule}. No limit is specified"
        for word, given in (("limit", limits), ("request", requests)):
            if name in given and parse_quantity(given[name]) > parse_quantity(most):
                return f"{rule}, but {word} is {given[name]}"
    for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        rule = f"{name} max limit to request ratio per {kind} is {ratio}"
        request, most = parse_quantity(requests.get(name, 0)), parse_quantity(limits.get(name, 0))
        if not request or not most:
            return f"{rule}, but no {'limit' if request else 'request'} is specified"
        if most * 10**9 > parse_quantity(ratio) * request:
            return f"{rule}, but provided ratio is {most / request:.6f}"
    return ""
