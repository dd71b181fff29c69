# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods does a ResourceQuota count, and which does it refuse?

Sources: kubernetes pkg/quota/v1/evaluator/core/pods.go (what is counted, podMatchesScopeFunc, Constraints) and
pkg/apis/core/v1/helper/qos (which pods are best-effort).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Placement, Pod, Requirement
from .obstacle import NOT_MODELED, Obstacle
from .quantity import parse_quantity, whole_units
from .rendering import listed

PRIORITY_CLASS = "PriorityClass"
_OF_CLAIMS = "VolumeAttributesClass"
"""A scope in which is no pod."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: how many pods a namespace may have, and how much these may request. `hard` and `used` in
    the units of Pod.requests, by the resource without `requests.`. A live migration needs room for two pods of
    its VM. `scopes`: a pod is counted that is in all of them; the key is the name of the scope."""

    namespace: str
    name: str
    hard: t.Mapping[str, int]
    used: t.Mapping[str, int]
    scopes: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return f"ResourceQuota {self.namespace}/{self.name}"

    @property
    def asks_for_priority(self) -> bool:
        """Whether it depends on the PriorityClass of a pod if it counts it."""
        return any(scope.key == PRIORITY_CLASS for scope in self.scopes)

    def counts(self, pod: Pod) -> bool:
        """Whether a pod of its namespace is in its scopes, as far as these are known."""
        return all(_is_in_scope(pod, scope) for scope in self.scopes)

    def may_count(self, pod: Pod) -> bool:
        """Whether it counts the pod if that gets the right PriorityClass."""
        return all(x.key == PRIORITY_CLASS or _is_in_scope(pod, x) for x in self.scopes)

    def exceeded_by(self, pod: Pod, used: t.Mapping[str, int]) -> str | None:
        """The first resource of which the namespace would have too much, with the numbers; None where there is none,
        or where the scopes are not known."""
        if self.unknown_scopes or not self.counts(pod):
            return None
        more = charged(pod)
        for resource, hard in self.hard.items():
            total = used.get(resource, 0) + more.get(resource, 0)
            if more.get(resource) and total > hard:
                return f"{_amount(resource, hard)} {resource}, and {_amount(resource, total)} are needed"
        return None

    def missing(self, pod: Pod) -> tuple[str, ...]:
        """The resources that a container of the pod has to specify and does not: the quota refuses it then."""
        if self.unknown_scopes or not self.counts(pod):
            return ()
        return tuple(name for name in pod.unset if name in self.hard)

    def why_unknown(self, pod: Pod) -> Obstacle | None:
        """Why it is not known whether the quota counts a pod."""
        if not (scopes := self.unknown_scopes) or not self.counts(pod):
            return None
        return Obstacle(NOT_MODELED, f"its scope {listed(scopes)} is not evaluated")

    @property
    def unknown_scopes(self) -> list[str]:
        return sorted({x.key for x in self.scopes if x.key not in (*_SCOPES, PRIORITY_CLASS)})


def quota_from_manifest(manifest: t.Mapping[str, JSON]) -> Quota | None:
    """None for a quota that counts no pod."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes = [Requirement(scope, "Exists") for scope in spec.get("scopes") or ()]
    scopes += (
        Requirement(x["scopeName"], x.get("operator") or "Exists", tuple(x.get("values") or ()))
        for x in selector
    )
    if any(scope.key == _OF_CLAIMS for scope in scopes):
        return None
    metadata = manifest["metadata"]
    hard, used = _resources(spec.get("hard")), _resources(status.get("used"))
    return Quota(metadata["namespace"], metadata["name"], hard, used, tuple(scopes))


def charged(pod: Pod) -> dict[str, int]:
    """What a quota counts of a pod."""
    limits = {f"limits.{resource}": amount for resource, amount in pod.limits.items()}
    return {"pods": 1, **pod.requests, **limits}


def _is_in_scope(pod: Pod, scope: Requirement) -> bool:
    """Whether a pod is in one scope, or may be in one that is not known."""
    if scope.key != PRIORITY_CLASS:
        return scope.key not in _SCOPES or _SCOPES[scope.key](pod)
    named = bool(pod.priority_class)
    return {
        "Exists": named,
        "DoesNotExist": not named,
        "In": named and pod.priority_class in scope.values,
        "NotIn": pod.priority_class not in scope.values,
    }.get(scope.operator, True)


def _is_best_effort(pod: Pod) -> bool:
    return not any(
        amounts.get(resource)
        for amounts in (pod.requests, pod.limits)
        for resource in ("cpu", "memory")
    )


def _reaches_across(placement: Placement) -> bool:
    """Whether an affinity term names namespaces (usesCrossNamespacePodAffinity)."""
    preferred = (*placement.preferred_affinity, *placement.preferred_anti_affinity)
    terms = (*placement.affinity, *placement.anti_affinity, *(term for _weight, term in preferred))
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


def _resources(listed: t.Mapping[str, JSON] | None) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for key, text in (listed or {}).items():
        resource = key.removeprefix("requests.").removeprefix("count/")
        amount = whole_units(resource.removeprefix("limits."), parse_quantity(text))
        amounts[resource] = min(amount, amounts.get(resource, amount))
    return amounts


def _amount(resource: str, amount: int) -> str:
    resource = resource.removeprefix("limits.")
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource == "memory":
        return f"{amount / 1024**2:.0f}Mi"
    return str(amount)


_SCOPES: t.Final[t.Mapping[str, t.Callable[[Pod], bool]]] = {
    "Terminating": lambda pod: pod.has_deadline,
    "NotTerminating": lambda pod: not pod.has_deadline,
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": lambda pod: _reaches_across(pod.placement),
}
"""Scopes that have no values."""
