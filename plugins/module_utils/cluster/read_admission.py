# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the API server makes of pods that are created: LimitRanges, and webhooks that change pods.

A right that is missing is no failure here: None says that a forecast cannot know.
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden
from ..api.lists import list_converted
from ..model.admission import PodWebhook, pod_webhooks_from_manifest
from ..model.limit_range import LimitRange, limit_range_from_manifest

_LIMIT_RANGES = "/api/v1/{}limitranges"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

_SINGLE_READS = 3
"""The most namespaces whose LimitRanges are read one by one: for more, those of all are read."""


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


def pod_webhooks(api: ApiClient) -> tuple[PodWebhook, ...] | None:
    """The webhooks that may change a new pod. Raises ApiError, but not for a missing right."""
    try:
        listed = list_converted(api, _WEBHOOKS, pod_webhooks_from_manifest).items
    except Forbidden:
        return None
    return tuple(webhook for webhooks in listed for webhook in webhooks)
