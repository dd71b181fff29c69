# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what matters for pods that do not exist yet: their claims, and what the API server makes of them.

What is read depends on what the snapshot shows: most changes create pods that take the place of running ones.
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..forecast.admission import first_pods, new_pods
from ..forecast.change import ChangedCluster
from ..forecast.claims import moved_claims, needed_claims
from ..model.objects import ClaimTemplate
from ..model.storage import ClaimKey
from .read_admission import limit_ranges, pod_mutators
from .read_storage import attach_limits, claim_states


def fields_of_change(
    api: ApiClient, change: ChangedCluster, *, drills: bool = False
) -> dict[str, t.Any]:
    """As `new_pod_fields`, for the pods that a change creates or moves; with `drills` for those of any node, too."""
    before = change.before
    moving = {pending.pod.namespace for pending in new_pods(change)}
    moving |= {workload.namespace for workload in change.affected}
    if drills:
        moving |= {pod.namespace for pod in before.pods if pod.node_name}
    return new_pod_fields(
        api,
        needed_claims(change),
        moving,
        moved=before.drivers if drills else moved_claims(change),
        drivers=before.drivers,
        mutators=bool(first_pods(change)),
    )


def new_pod_fields(
    api: ApiClient,
    claims: t.Mapping[ClaimKey, ClaimTemplate | None],
    namespaces: t.Collection[str],
    *,
    moved: t.Collection[ClaimKey],
    drivers: t.Mapping[ClaimKey, str],
    mutators: bool,
) -> dict[str, t.Any]:
    """Fields of a Snapshot. `claims` are those of the pods, `namespaces` where they are. `moved` are bound claims of
    pods that move, `drivers` those of all bound claims. With `mutators`, what changes new pods is read. Raises
    ApiError, but not for a missing right."""
    fields: dict[str, t.Any] = {}
    if namespaces:
        fields["limit_ranges"] = limit_ranges(api, namespaces)
    if mutators:
        fields["pod_mutators"] = pod_mutators(api)
    drivers = dict(drivers)
    if claims:
        fields["claim_states"] = states = claim_states(api, claims)
        drivers |= {key: state.driver for key, state in states.items() if state.driver}
    if names := {drivers[key] for key in (*claims, *moved) if key in drivers}:
        fields["attach_limits"] = attach_limits(api, names)
        fields["drivers"] = drivers
    return fields
