# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of the state machines: a move in flight, what is observed of it, what comes next.

Pure. Times are seconds on the run's own clock, which never goes back.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, replace

from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.rendering import TextEnum
from ..model.snapshot import Instance

CANCEL_PATIENCE = 60.0
"""Seconds in which a canceled migration should end. After that the run goes on without it."""


class Phase(TextEnum):
    """intended: journaled, nothing sent yet as far as we know. begun: the API server took it.
    cancelling: the deletion of its migration was requested. given_up: that migration has not ended,
    and no run waits for it any more."""

    INTENDED = "intended"
    BEGUN = "begun"
    CANCELLING = "cancelling"
    GIVEN_UP = "given_up"


class Outcome(TextEnum):
    """moved: it runs elsewhere (or anew). failed: it does not. gone: there is nothing left to
    move, and it was not us."""

    MOVED = "moved"
    FAILED = "failed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One move in flight, as the journal keeps it. `note` is what was last seen to hold it up, `code` the code of that
    Obstacle, where it has one. `refusal`: a digest of the refusal that is there, which is reported once."""

    instance: Ref
    uid: str
    workload: Ref
    method: Method
    source: str
    attempt: int
    begun: float
    phase: Phase = Phase.INTENDED
    note: str = ""
    code: str = ""
    refusal: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    """Node labels that the migration's target is held to beside the VM's own rules."""

    @property
    def obstacle(self) -> Obstacle | None:
        return Obstacle(self.code, self.note) if self.note else None

    def held_by(self, obstacle: Obstacle | None) -> MoveRecord:
        if obstacle is None:
            return replace(self, note="", code="")
        return replace(self, note=obstacle.text, code=obstacle.code)


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """`run` is the id that stands in what is created; the rest are seconds. `unschedulable_timeout`: a migration's
    target may wait so long for a node before KubeVirt gives up on it."""

    run: str
    move_timeout: float
    unschedulable_timeout: float


@dataclass(frozen=True, slots=True)
class Observation:
    """What the latest reading says of one move.

    `instance` is the instance with the record's uid, if it is still there. `successor` is what its
    controller made in its place. `migration` is our migration object. `pending` says why the pod
    that is to run it (the migration's target, the successor's) has no node, `free_node` names a node that takes the
    migration's target now, `refused` why there is no such
    pod. `quota`: the ResourceQuota that refuses the migration's target pod. `alone`: no other move of this run may
    free some of it. `surplus`: the workload has all the instances that it wants without a successor.
    `restart_queued`: KubeVirt has a request to restart this very instance and has not begun yet.
    `kubevirt_namespace`: of virt-controller. `no_leader`: that virt-controller does not answer
    (`cluster.leader.Leader`). `behind`: what KubeVirt migrates before it. `target`: the phase and node of the
    migration's target pod. `warning`: the newest event of type Warning about a migration that has failed.
    """

    instance: Instance | None = None
    successor: Instance | None = None
    migration: t.Mapping[str, JSON] | None = None
    pending: Obstacle | None = None
    refused: Obstacle | None = None
    free_node: str | None = None
    foreign_migration: bool = False
    propagating: bool = False
    quota: Obstacle | None = None
    alone: bool = False
    surplus: bool = False
    restart_queued: bool = False
    resource_version: str = ""
    kubevirt_namespace: str = ""
    no_leader: Obstacle | None = None
    behind: str = ""
    target: str = ""
    warning: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call: create `body` at `path`, put it there, or delete what is there.

    A delete carries its preconditions in `body`.
    """

    verb: t.Literal["create", "put", "delete"]
    path: str
    body: t.Mapping[str, JSON] | None = None


class ReplyStatus(str, enum.Enum):
    """accepted: done, or done before. refused: the server will not do it. blocked: not now.
    gone: the object does not exist. doubtful: outcome unknown; read before sending again."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    BLOCKED = "blocked"
    GONE = "gone"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class ApiReply:
    """`retry_after`: seconds for which a blocked request must not be sent again."""

    status: ReplyStatus
    reason: Obstacle | None = None
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class MoveResult:
    """`refused`: the server did not take the request, such as by an admission policy, so that nothing was begun."""

    outcome: Outcome
    node: str = ""
    reason: Obstacle | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """The record as it is now; a request to send; how the move ended, if it did."""

    record: MoveRecord
    request: ApiCall | None = None
    ended: MoveResult | None = None


def without_move(record: MoveRecord, outcome: Outcome, code: str, text: str) -> Transition:
    """The end of a move that did not move the instance, with the reason."""
    return Transition(record, ended=MoveResult(outcome, reason=Obstacle(code, text)))


@dataclass(frozen=True, slots=True)
class StateMachine:
    """One way to move: `send` has the registry. `advance` says what to do next after an
    observation, `answered` after the API server's reply to the request of a transition."""

    advance: t.Callable[[MoveRecord, Observation, float, MoveSettings], Transition]
    answered: t.Callable[[MoveRecord, ApiReply], Transition]


def eviction_body(pod: Ref, preconditions: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """The Eviction of a pod."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": dict(preconditions)},
    }


def terminating(instance: Instance) -> bool:
    """Whether the VMI is being deleted; the pod where there is no VMI."""
    vmi, pod = instance.vmi, instance.pod
    return vmi.terminating if vmi is not None else pod is not None and pod.terminating


def ready(instance: Instance) -> bool:
    """It runs and serves: the pod is Ready, and the VMI too where there is one."""
    if instance.pod is None or not instance.pod.ready or instance.pod.terminating:
        return False
    return instance.vmi is None or (instance.vmi.ready and instance.vmi.phase == "Running")
