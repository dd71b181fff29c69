# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why was a pod not created? The newest event FailedCreate about the object that needs it.

Controllers write it with the answer of the API server: of PodSecurity, a quota, a webhook (kube-controller-manager,
KubeVirt pkg/controller/controller.go FailedCreatePodReason). A migration that waits for its target pod says it nowhere
else, except for a quota.
"""

from __future__ import annotations

import re
import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden
from ..api.lists import list_all
from ..model.json_pointer import JSON
from ..model.rendering import one_line

MOST = 400
"""Characters of the message of an event: a tenant may be its author."""


class PodRefusals:
    """Reads events as far as this identity may. Without that right there is no answer, and no second request."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._forbidden = False

    def newest(self, namespace: str, uid: str, since: str = "") -> str:
        """What the API server answered when the pod of the object with this uid was to be created; empty where nothing
        is known. `since` is a time of the cluster: older events are of an earlier pod. The text is the same for each
        new try of the controller: it has no time, and not the generated part of the name of a pod."""
        if self._forbidden:
            return ""
        chosen = {"fieldSelector": f"involvedObject.uid={uid},reason=FailedCreate"}
        try:
            events = list_all(self._api, f"/api/v1/namespaces/{namespace}/events", params=chosen)
        except Forbidden:
            self._forbidden = True
            return ""
        event = max(events.items, key=_time, default=None)
        if event is None or _time(event) < since[:_SECONDS]:
            return ""
        message = _GENERATED.sub(r"\1...", one_line(str(event.get("message") or "")))
        message = message.removeprefix("(combined from similar events): ")
        cut = f"{message[:MOST]}..." if len(message) > MOST else message
        return f"no pod is created for it (newest event FailedCreate): {cut}"


_GENERATED = re.compile(r'(pods "[^"]*-)[bcdfghjklmnpqrstvwxz2456789]{5}(?=")')
"""The name of a pod in an answer of the API server (apimachinery, pkg/util/rand)."""

_SECONDS = len("2026-11-29T10:00:00")


def _time(event: t.Mapping[str, JSON]) -> str:
    """When it was written last, to the second."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    return str(next(filter(None, times), ""))[:_SECONDS]
