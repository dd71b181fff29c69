# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state machine of a move, and a last look at its instance before anything is sent."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..api.errors import NotFound
from ..api.requests import Api
from ..model.kinds import MACHINE_INSTANCE, instance_path
from ..model.plan import Method
from ..movement import evict, migrate, recreate, restart
from ..movement.entry import Answer, Entry, Seen, Settings, Step


class Machine(t.Protocol):
    """The functions of a state machine in `movement`."""

    @staticmethod
    def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
        """What to do next."""

    @staticmethod
    def answered(entry: Entry, answer: Answer) -> Step:
        """What the API server said to it."""


def machine(entry: Entry) -> Machine:
    if entry.method is Method.MIGRATE:
        return t.cast("Machine", migrate)
    if entry.method is Method.RESTART:
        return t.cast("Machine", restart)
    return t.cast("Machine", recreate if entry.instance.kind == MACHINE_INSTANCE else evict)


def under_way(entry: Entry, seen: Seen) -> bool:
    """It was sent before we stopped knowing: the migration is there, or the instance leaves."""
    if entry.method is Method.MIGRATE:
        return seen.migration is not None or seen.instance is None
    if seen.instance is None or seen.queued:
        return True
    vmi, pod = seen.instance.vmi, seen.instance.pod
    return vmi.terminating if vmi is not None else pod is not None and pod.terminating


@dataclass(frozen=True, slots=True)
class Sight:
    """An instance at this moment. `node` is empty where it does not say one."""

    version: str
    node: str
    terminating: bool

    def why_not(self, entry: Entry) -> str:
        """Why it is not as it was when its move was planned, or nothing."""
        if self.terminating:
            return "it is being deleted"
        if self.node and self.node != entry.source:
            return f"it runs on {self.node} now"
        return ""


def sight(api: Api, entry: Entry) -> Sight | None:
    """The entry's very instance; None if it is not there any more."""
    try:
        found = api.get(instance_path(entry.instance))
    except NotFound:
        return None
    metadata = found["metadata"]
    if metadata["uid"] != entry.uid:
        return None
    if entry.instance.kind == MACHINE_INSTANCE:
        node = (found.get("status") or {}).get("nodeName")
    else:
        node = (found.get("spec") or {}).get("nodeName")
    leaves = bool(metadata.get("deletionTimestamp"))
    return Sight(str(metadata["resourceVersion"]), str(node or ""), leaves)
