# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what matters for pods that do not exist yet: their claims, and what the API server makes of them.

A right that is missing is no failure for LimitRanges, for webhooks and policies that change pods, and for the default
PriorityClass: None says that a forecast cannot know.
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound, UnservedVersion
from ..api.lists import list_all, list_converted
from ..model.admission import (
    LimitRange,
    PodMutator,
    PodValidator,
    limit_range_from_manifest,
    pod_policy_from_manifest,
    pod_validators_from_manifests,
    pod_webhooks_from_manifest,
)
from ..model.json_pointer import JSON
from ..model.new_pod_needs import NewPodNeeds
from ..model.storage import IN_TREE
from .read_storage import attach_limits, claim_states
from .served_versions import ServedVersions

_LIMIT_RANGES = "/api/v1/{}limitranges"
_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_VALIDATING = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)
_POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"

_SINGLE_READS = 3
"""The most namespaces whose LimitRanges are read one by one: for more, those of all are read."""


def new_pod_fields(api: ApiClient, needs: NewPodNeeds) -> dict[str, t.Any]:
    """Fields of a Snapshot; those that are not needed are not there. Raises ApiError, but not for a missing right."""
    fields: dict[str, t.Any] = {}
    if needs.namespaces:
        fields["limit_ranges"] = limit_ranges(api, needs.namespaces)
    if needs.mutators:
        fields["pod_mutators"] = pod_mutators(api)
        fields["pod_validators"] = pod_validators(api)
    if needs.priority_class:
        fields["default_priority_class"] = default_priority_class(api)
    drivers = dict(needs.drivers)
    if needs.claims:
        fields["claim_states"] = states = claim_states(api, needs.claims)
        drivers |= {key: state.driver for key, state in states.items() if state.driver}
    if names := {drivers[key] for key in (*needs.claims, *needs.moved) if key in drivers}:
        in_tree = any(driver.startswith(IN_TREE) for driver in drivers.values())
        fields["attach_limits"] = None if in_tree else attach_limits(api, names)
        fields["drivers"] = drivers
    return fields


def limit_ranges(api: ApiClient, namespaces: t.Collection[str]) -> tuple[LimitRange, ...] | None:
    """The LimitRanges of these namespaces that are about pods. Raises ApiError, but not for a missing right."""
    paths = [_LIMIT_RANGES.format(f"namespaces/{name}/") for name in sorted(namespaces)]
    if len(paths) > _SINGLE_READS:
        paths = [_LIMIT_RANGES.format("")]
    try:
        listed = [
            item
            for path in paths
            for item in list_converted(api, path, limit_range_from_manifest).items
        ]
    except Forbidden:
        return None
    return tuple(x for x in listed if x is not None and x.namespace in namespaces)


def default_priority_class(api: ApiClient) -> str | None:
    """The PriorityClass of a pod that names none, of several default ones the lowest (kubernetes plugin/pkg/admission/
    priority, getDefaultPriorityClass); empty where there is none. Raises ApiError, but not for a missing right."""
    try:
        listed = list_converted(api, _PRIORITY_CLASSES, _default_priority).items
    except Forbidden:
        return None
    return min(filter(None, listed), default=(0, ""))[1]


def _default_priority(manifest: t.Mapping[str, JSON]) -> tuple[int, str] | None:
    """Value and name of a PriorityClass that is a default."""
    if not manifest.get("globalDefault"):
        return None
    return int(manifest.get("value") or 0), manifest["metadata"]["name"]


def pod_mutators(api: ApiClient) -> tuple[PodMutator, ...] | None:
    """The webhooks and policies that may change a new pod. Raises ApiError, but not for a missing right."""
    try:
        webhooks = list_converted(api, _WEBHOOKS, pod_webhooks_from_manifest).items
        policies = _policies(api)
    except (Forbidden, UnservedVersion):
        return None
    return (*(x for listed in webhooks for x in listed), *policies)


def pod_validators(api: ApiClient) -> tuple[PodValidator, ...] | None:
    """The ValidatingAdmissionPolicies that may refuse a new pod. Raises ApiError, but not for a missing right."""
    try:
        policies, bindings = (list_all(api, path).items for path in _VALIDATING)
    except NotFound:  # Kubernetes before 1.30
        return ()
    except Forbidden:
        return None
    return tuple(pod_validators_from_manifests(policies, bindings))


def _policies(api: ApiClient) -> list[PodMutator]:
    def read(path: str) -> t.Sequence[PodMutator | None]:
        return list_converted(api, path, pod_policy_from_manifest).items

    try:
        listed = ServedVersions(api).read(_POLICIES, read, ("v1beta1",))
    except NotFound:  # Kubernetes before 1.36
        return []
    return [policy for policy in listed if policy is not None]
