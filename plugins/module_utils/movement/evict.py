# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a pod by the eviction API, which respects disruption budgets; its controller makes another.

Pure. A budget's refusal (429) is not a failure before the move's time is over.
"""

from __future__ import annotations

from ..model.kinds import instance_path
from ..model.pointer import JSON
from . import recreate
from .entry import Entry, Phase, Request, Seen, Settings, Step

answered = recreate.answered


def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    """What to do next with this pod."""
    step = recreate.advance(entry, seen, now, settings)
    if entry.phase is not Phase.INTENDED or step.request is None:
        return step
    path = f"{instance_path(entry.instance)}/eviction"
    return Step(entry, Request("create", path, eviction(entry, seen.resource_version)))


def eviction(entry: Entry, resource_version: str) -> dict[str, JSON]:
    """The Eviction of the very pod that was looked at."""
    preconditions = {"uid": entry.uid, "resourceVersion": resource_version}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": entry.instance.name, "namespace": entry.instance.namespace},
        "deleteOptions": {"preconditions": preconditions},
    }
