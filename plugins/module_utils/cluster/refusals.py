# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why was a pod not created? The newest event FailedCreate about the object that needs it.

Controllers write it with the answer of the API server: of PodSecurity, a quota, a webhook (kube-controller-manager,
KubeVirt pkg/controller/controller.go FailedCreatePodReason). A migration that waits for its target pod says it nowhere
else, except for a quota. The event about a pod of a Deployment is of its ReplicaSet, with the reasons of
kube-controller-manager (pkg/controller/controller_utils.go).
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import replace
from operator import itemgetter

from ..api.client import ApiClient
from ..api.errors import Forbidden
from ..api.lists import list_all
from ..api.parallel import read_together
from ..kubevirt.instances import instances
from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.rendering import one_line
from ..model.snapshot import Snapshot

MOST = 1024
"""Characters of the message of an event: a tenant may be its author. As many as the API server takes of an event today
(kubernetes pkg/apis/core/validation/events.go, NoteLengthLimit)."""


class PodRefusals:
    """Reads events as far as this identity may. Without that right in a namespace there is no answer, and no second
    request."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._forbidden: set[str] = set()

    def newest(self, namespace: str, owners: t.Collection[str], since: str = "") -> Obstacle | None:
        """What the API server answered when a pod was to be created for one of the objects with these uids; several of
        them are ReplicaSets. None where nothing is known, or a pod was created later. `since` is a time of the cluster:
        older events are of an earlier pod. The text is the same for each new try of the controller: it has no time, and
        not the generated part of the name of a pod."""
        about = f"uid={next(iter(owners))}" if len(owners) == 1 else "kind=ReplicaSet"
        failed = self._newest(namespace, about, "reason=FailedCreate", owners)
        if failed is None or _time(failed) < since[:_SECONDS]:
            return None
        owner = failed["involvedObject"]["uid"]
        created = self._newest(namespace, f"uid={owner}", "reason=SuccessfulCreate", (owner,))
        if created is not None and _time(created) > _time(failed):
            return None
        message = _message_of(failed)
        return Obstacle(
            "refused", f"no pod is created for it (newest event FailedCreate): {message}", True
        )

    def newest_warning(self, namespace: str, uids: t.Sequence[str], since: str) -> Obstacle | None:
        """The newest event of type Warning about one of the objects of a migration; None where there is none since
        then, or events may not be read."""
        events = [self._newest(namespace, f"uid={uid}", "type=Warning", uids) for uid in uids]
        since_then = [x for x in events if x is not None and _time(x) >= since[:_SECONDS]]
        if not since_then:
            return None
        newest = max(since_then, key=_time)
        reason = one_line(str(newest.get("reason") or "event"))[:MOST]
        return Obstacle("migration_failed", f"{reason}: {_message_of(newest)}")

    def _newest(
        self, namespace: str, about: str, chosen_by: str, owners: t.Container[str]
    ) -> t.Mapping[str, JSON] | None:
        if namespace in self._forbidden:
            return None
        chosen = {"fieldSelector": f"involvedObject.{about},{chosen_by}"}
        try:
            events = list_all(self._api, f"/api/v1/namespaces/{namespace}/events", params=chosen)
        except Forbidden:
            self._forbidden.add(namespace)
            return None
        of_owners = (x for x in events.items if x["involvedObject"].get("uid") in owners)
        return max(of_owners, key=_time, default=None)


def with_refused_workloads(api: ApiClient, snapshot: Snapshot) -> Snapshot:
    """The snapshot in which workloads that lack pods have the refusal that only an event reports. Where events may not
    be listed, it stays unknown. Raises ApiError, but not for a missing right."""
    lacking = [x for x in snapshot.workloads if x.kind.refused_by_events and x.missing[0]]
    if not lacking:
        return snapshot
    created = [(x.workload, x.pod.created) for x in instances(snapshot) if x.pod is not None]
    newest_pods = dict(sorted(created, key=itemgetter(1)))
    refusals = PodRefusals(api)
    reads = [
        functools.partial(refusals.newest, x.ref.namespace, [x.uid], newest_pods.get(x.ref, ""))
        for x in lacking
    ]
    refused = dict(zip((x.uid for x in lacking), read_together(reads), strict=True))
    return replace(
        snapshot,
        workloads=tuple(
            replace(x, refused_by_event=refused[x.uid]) if refused.get(x.uid) else x
            for x in snapshot.workloads
        ),
    )


def _message_of(event: t.Mapping[str, JSON]) -> str:
    message = _GENERATED.sub(r"\1...", one_line(str(event.get("message") or "")))
    message = message.removeprefix("(combined from similar events): ")
    if rest := len(message[MOST:]):
        message = f"{message[:MOST]}... ({rest} more characters are in that event)"
    return message


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
