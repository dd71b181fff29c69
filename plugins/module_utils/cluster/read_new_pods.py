# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what matters for pods that do not exist yet: their claims, and what the API server makes of them."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..model.new_pod_needs import NewPodNeeds
from ..model.storage import IN_TREE
from .read_admission import default_priority_class, limit_ranges, pod_mutators
from .read_storage import attach_limits, claim_states


def new_pod_fields(api: ApiClient, needs: NewPodNeeds) -> dict[str, t.Any]:
    """Fields of a Snapshot; those that are not needed are not there. Raises ApiError, but not for a missing right."""
    fields: dict[str, t.Any] = {}
    if needs.namespaces:
        fields["limit_ranges"] = limit_ranges(api, needs.namespaces)
    if needs.mutators:
        fields["pod_mutators"] = pod_mutators(api)
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
