# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move that was begun, what is seen of it, and what comes next: the words of all state machines.

Pure. Each state machine is a function `advance(entry, seen, now, settings) -> Step` and a function
`answered(entry, answer) -> Step`; whoever runs them carries out `Step.request` and tells the
answer. Times are seconds on the run's own clock, which never goes back.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass

from ..model.objects import Ref
from ..model.plan import Method
from ..model.pointer import JSON
from ..model.snapshot import Instance

CANCEL_PATIENCE = 60.0
"""Seconds for a cancelled migration to end before it is reported as it stands."""


class Phase(str, enum.Enum):
    """intended: journalled, nothing sent yet as far as we know. begun: the API server took it.
    cancelling: it took too long and was called off."""

    INTENDED = "intended"
    BEGUN = "begun"
    CANCELLING = "cancelling"

    def __str__(self) -> str:
        return self.value


class Outcome(str, enum.Enum):
    """moved: it runs elsewhere (or anew). failed: it does not. gone: there is nothing left to
    move, and it was not us."""

    MOVED = "moved"
    FAILED = "failed"
    GONE = "gone"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Entry:
    """One move in flight, as the journal keeps it. `note` is what was last seen to hold it up."""

    instance: Ref
    uid: str
    workload: Ref
    method: Method
    source: str
    attempt: int
    begun: float
    phase: Phase = Phase.INTENDED
    note: str = ""
    pin: tuple[tuple[str, str], ...] = ()
    """Node labels that the migration's target is held to beside the VM's own rules."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`run` is the id that stands in what is created; the rest are seconds."""

    run: str
    move_timeout: float = 600.0
    unschedulable_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the latest reading says of one move.

    `instance` is the instance with the entry's uid, if it is still there. `successor` is what its
    controller made in its place. `migration` is our migration object. `pending` says why the pod
    that is to run it (the migration's target, the successor's) has no node. `surplus`: the
    workload has all the instances that it wants without a successor. `queued`: KubeVirt has been
    told to restart this very instance and has not begun yet.
    """

    instance: Instance | None = None
    successor: Instance | None = None
    migration: t.Mapping[str, JSON] | None = None
    pending: str = ""
    others_migrate: bool = False
    propagating: bool = False
    surplus: bool = False
    queued: bool = False
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One call: create `body` at `path`, put it there, or delete what is there.

    A delete carries its preconditions in `body`.
    """

    verb: t.Literal["create", "put", "delete"]
    path: str
    body: t.Mapping[str, JSON] | None = None


class Reply(str, enum.Enum):
    """accepted, or it was there already. refused: the server will not do it. blocked: not now.
    gone: there is no such object any more. doubtful: nobody knows; look before sending again."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    BLOCKED = "blocked"
    GONE = "gone"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class Answer:
    reply: Reply
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome
    node: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The entry as it is now; a request to carry out; how it ended, if it did."""

    entry: Entry
    request: Request | None = None
    ended: Ended | None = None


def ready(instance: Instance) -> bool:
    """It runs and serves: the pod is Ready, and the VMI too where there is one."""
    if instance.pod is None or not instance.pod.ready or instance.pod.terminating:
        return False
    return instance.vmi is None or (instance.vmi.ready and instance.vmi.phase == "Running")
