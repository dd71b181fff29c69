# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceQuotas: how many pods may a namespace have, and how much may they request?

A live migration needs room for two pods of its VM. Sources: kubernetes pkg/quota/v1/evaluator/core/pods.go (what
is counted, podMatchesScopeFunc, Constraints) and pkg/apis/core/v1/helper/qos (which pods are best-effort).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Pod
from .quantity import parse_quantity, whole_units

_OF_OTHERS = ("Terminating", "VolumeAttributesClass")
"""Scopes that no pod of a workload is in: those with activeDeadlineSeconds are pods of Jobs, and claims."""
_EVALUATED = ("NotTerminating", "BestEffort", "NotBestEffort")
_MANDATORY = ("cpu", "memory", "limits.cpu", "limits.memory")
"""A pod that leaves one of these open is refused where a quota counts it."""


@dataclass(frozen=True, slots=True)
class Quota:
    """`hard` and `used` in the units of Pod.requests, by the resource without `requests.`."""

    namespace: str
    name: str
    hard: t.Mapping[str, int]
    used: t.Mapping[str, int]
    scopes: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"ResourceQuota {self.namespace}/{self.name}"

    def counts(self, pod: Pod) -> bool:
        """Whether a pod of its namespace is in its scopes, as far as these are evaluated."""
        best_effort = not any(
            amounts.get(resource)
            for amounts in (pod.requests, pod.limits)
            for resource in ("cpu", "memory")
        )
        return not self.scopes & {"NotBestEffort" if best_effort else "BestEffort"}

    def exceeded_by(self, pod: Pod, used: t.Mapping[str, int]) -> str:
        """The first resource of which the namespace would have too much, with the numbers; empty
        where there is none, or where the scopes are not evaluated."""
        if self._unknown_scopes() or not self.counts(pod):
            return ""
        more = charged(pod)
        for resource, hard in self.hard.items():
            total = used.get(resource, 0) + more.get(resource, 0)
            if more.get(resource) and total > hard:
                return f"{_amount(resource, hard)} {resource}, and {_amount(resource, total)} are needed"
        return ""

    def why_unknown(self, pod: Pod) -> str:
        """Why the quota may refuse a pod that it has room for; empty where it does not."""
        if not self.counts(pod):
            return ""
        if scopes := self._unknown_scopes():
            return f"its scope {', '.join(scopes)} is not evaluated"
        more = charged(pod)
        missing = [name for name in _MANDATORY if name in self.hard and name not in more]
        return f"{', '.join(missing)} of the next pod is not known" if missing else ""

    def _unknown_scopes(self) -> list[str]:
        return sorted(self.scopes.difference(_EVALUATED))


def quota_from_manifest(manifest: t.Mapping[str, JSON]) -> Quota | None:
    """None for a quota that counts no pod of a workload."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes = {*(spec.get("scopes") or ()), *(expression["scopeName"] for expression in selector)}
    if scopes.intersection(_OF_OTHERS):
        return None
    metadata = manifest["metadata"]
    hard, used = _resources(spec.get("hard")), _resources(status.get("used"))
    return Quota(metadata["namespace"], metadata["name"], hard, used, frozenset(scopes))


def charged(pod: Pod) -> dict[str, int]:
    """What a quota counts of a pod."""
    limits = {f"limits.{resource}": amount for resource, amount in pod.limits.items()}
    return {"pods": 1, **pod.requests, **limits}


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
