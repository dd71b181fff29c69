# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceQuotas: how many pods may a namespace have, and how much may they request?

A live migration needs room for two pods of its VM. Limits (`limits.cpu`) and quotas with scopes that
launcher pods need not be in are left out: no answer is derived from them. Source: kubernetes
pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Pod
from .quantity import parse_quantity, whole_units

_FOR_ALL_LAUNCHERS = ("NotTerminating",)
"""Scopes that all pods without activeDeadlineSeconds are in."""


@dataclass(frozen=True, slots=True)
class Quota:
    """`hard` and `used` in the units of Pod.requests, by the resource without `requests.`."""

    namespace: str
    name: str
    hard: t.Mapping[str, int]
    used: t.Mapping[str, int]

    def __str__(self) -> str:
        return f"ResourceQuota {self.namespace}/{self.name}"

    def exceeded_by(self, more: t.Mapping[str, int], used: t.Mapping[str, int]) -> str:
        """The first resource of which the namespace would have too much, with the numbers; empty
        where there is none."""
        for resource, hard in self.hard.items():
            total = used.get(resource, 0) + more.get(resource, 0)
            if more.get(resource) and total > hard:
                return f"{_amount(resource, hard)} {resource}, and {_amount(resource, total)} are needed"
        return ""


def quota_from_manifest(manifest: t.Mapping[str, JSON]) -> Quota | None:
    """None for a quota of which nothing is derived."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    if spec.get("scopeSelector") or {*(spec.get("scopes") or ())} - {*_FOR_ALL_LAUNCHERS}:
        return None
    metadata = manifest["metadata"]
    hard, used = _resources(spec.get("hard")), _resources(status.get("used"))
    return Quota(metadata["namespace"], metadata["name"], hard, used)


def charged(pod: Pod) -> dict[str, int]:
    """What a quota counts of a pod."""
    return {"pods": 1, **pod.requests}


def _resources(listed: t.Mapping[str, JSON] | None) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for key, text in (listed or {}).items():
        resource = key.removeprefix("requests.").removeprefix("count/")
        amount = whole_units(resource, parse_quantity(text))
        amounts[resource] = min(amount, amounts.get(resource, amount))
    return amounts


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource == "memory":
        return f"{amount / 1024**2:.0f}Mi"
    return str(amount)
