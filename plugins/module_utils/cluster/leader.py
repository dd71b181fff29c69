# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does virt-controller work? The process that leads renews its Lease every two seconds.

A process that could not renew it for 10 s ends, and another one takes the Lease after 15 s (KubeVirt,
pkg/virt-controller/leaderelectionconfig/config.go). Two readings are compared, never the clocks of two hosts.
"""

from __future__ import annotations

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..model.json_pointer import JSON
from ..model.obstacle import NO_ANSWER, Obstacle
from ..model.rendering import one_line

LOOK_EVERY = 15.0
"""Seconds between two readings of the Lease while a run waits."""

UNKNOWN_FOR = 300.0
"""Seconds after which a Lease is read again that could not be read."""

UNREAD_FOR = 2 * LOOK_EVERY
"""Seconds without a reading after which it is unknown whether the Lease was renewed meanwhile."""

STALE_AFTER = 30.0
"""Seconds without a renewal after which no virt-controller leads: the next one would have taken the Lease."""

LEASE = "virt-controller"


def silence_of(seen: str, namespace: str) -> Obstacle:
    """`seen`: to what it does not answer, or how that is known."""
    text = f"virt-controller does not answer{seen} see Deployment virt-controller in namespace {namespace}"
    return Obstacle(NO_ANSWER, text)


class Leader:
    """The Lease of virt-controller, as a run sees it. `known` is kept from step to step: the last renewal, since when
    it has not changed, when it was read last, and when it is read again, on the clock of the run. A Lease that cannot
    be read says nothing, and neither does the time of an outage: virt-controller could not renew it either."""

    def __init__(self, api: ApiClient, known: dict[str, JSON]) -> None:
        self._api = api
        self._known = known
        self.silence: Obstacle | None = None
        """That virt-controller does not answer, with what was seen; None where it does, or where it is unknown."""

    def look(self, namespace: str, now: float) -> None:
        """Read the Lease if it is time to, and renew `silence`."""
        known = self._known
        if now >= known.setdefault("due", now + LOOK_EVERY):
            known["due"] = now + LOOK_EVERY
            renewal = self._renewal(namespace)
            if not renewal:
                known["due"] = now + UNKNOWN_FOR
            unread = now - known.get("read", now) > UNREAD_FOR
            if renewal != known.get("renewal") or unread:
                known["renewal"], known["since"] = renewal, now
            known["read"] = now
        renewal = known.get("renewal", "")
        stale = renewal and known.get("read", 0.0) - known["since"] >= STALE_AFTER
        seen = f": its Lease {namespace}/{LEASE} was renewed last at {renewal};"
        self.silence = silence_of(seen, namespace) if stale else None

    def _renewal(self, namespace: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
        try:
            spec = self._api.get(path).get("spec") or {}
        except (NotFound, Forbidden):
            return ""
        return one_line(str(spec.get("renewTime") or ""))[:40]
