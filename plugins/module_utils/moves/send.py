# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run sends: the requests of the state machines, and the read of an instance right before its move.

Errors that say nothing about the move itself (no rights, no server, no time left) are raised.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, NotFound, ServerText, Throttled
from ..model.kinds import instance_path
from ..model.obstacle import Obstacle
from ..model.plan import Method
from . import migrate, recreate
from .move import (
    ApiCall,
    ApiReply,
    MoveRecord,
    Observation,
    ReplyStatus,
    StateMachine,
    terminating,
)

STATE_MACHINES: t.Mapping[Method, StateMachine] = {
    Method.MIGRATE: migrate.MACHINE,
    Method.RESTART: recreate.MACHINE,
    Method.RECREATE: recreate.MACHINE,
    Method.EVICT: recreate.MACHINE,
    Method.STOP: recreate.MACHINE,
}
"""The registry of the ways to move."""


def send(api: ApiClient, request: ApiCall) -> ApiReply:
    """Send one request, once. Raises ApiError where it could not be sent or is not allowed."""
    try:
        if request.verb == "create":
            api.create(request.path, request.body)
        elif request.verb == "put":
            api.call_subresource(request.path, request.body)
        else:
            preconditions = (request.body or {})["preconditions"]
            version = preconditions.get("resourceVersion", "")
            api.delete(request.path, uid=preconditions["uid"], resource_version=version)
    except NotFound as error:
        return ApiReply(ReplyStatus.GONE, Obstacle("gone", error.message))
    except Conflict as error:
        if error.reason == "AlreadyExists":
            return ApiReply(ReplyStatus.ACCEPTED)  # it was created before
        if request.verb == "put" and not error.has(ServerText.VM_CHANGED):
            # KubeVirt, to a restart or stop that the state of the VM does not allow.
            return ApiReply(ReplyStatus.REFUSED, Obstacle("refused", error.message))
        text = "it changed at the same time"
        return ApiReply(ReplyStatus.BLOCKED, Obstacle("changed", text, True))
    except Throttled as error:
        busy = Obstacle("refused", error.message or "the API server asks to wait", True)
        if error.budgets:  # the server does not say their namespace, which is that of the pod
            text = f"{'; '.join(error.budgets)} (in namespace {error.request.namespace})"
            busy = Obstacle("budget", text, True)
        return ApiReply(ReplyStatus.BLOCKED, busy, error.retry_after or 0.0)
    except ApiError as error:
        if isinstance(error, Forbidden) and error.namespace_terminates:
            ends = Obstacle("in_progress", error.message, True)  # it ends with its namespace
            return ApiReply(ReplyStatus.BLOCKED, ends)
        if error.has(ServerText.TWO_BUDGETS):
            return ApiReply(ReplyStatus.REFUSED, Obstacle("budget", error.message))
        if error.refuses_request:
            return ApiReply(ReplyStatus.REFUSED, Obstacle("refused", error.message))
        if error.outcome_unknown:
            return ApiReply(ReplyStatus.DOUBTFUL, Obstacle("outcome_unknown", str(error), True))
        raise
    return ApiReply(ReplyStatus.ACCEPTED)


def was_sent(record: MoveRecord, seen: Observation) -> bool:
    """Whether a journaled move was sent: its migration exists, or its instance is ending."""
    if record.method is Method.MIGRATE:
        return seen.migration is not None or seen.instance is None
    if seen.instance is None or seen.restart_queued or terminating(seen.instance):
        return True
    vmi = seen.instance.vmi
    return record.method is Method.EVICT and vmi is not None and bool(vmi.evacuation_node_name)


@dataclass(frozen=True, slots=True)
class CurrentInstance:
    """An instance at this moment. `node` is empty where it does not say one."""

    version: str
    node: str
    terminating: bool

    def change(self, record: MoveRecord) -> Obstacle | None:
        """That it is not as it was when its move was planned."""
        if self.terminating:
            return Obstacle("changed", "it is being deleted")
        if self.node and self.node != record.source:
            return Obstacle("changed", f"it runs on {self.node} now")
        return None


def read_instance(api: ApiClient, record: MoveRecord) -> CurrentInstance | None:
    """The record's very instance; None if it is not there any more."""
    try:
        manifest = api.get(instance_path(record.instance))
    except NotFound:
        return None
    metadata = manifest["metadata"]
    if metadata["uid"] != record.uid:
        return None
    if record.instance.is_vmi:
        node = (manifest.get("status") or {}).get("nodeName")
    else:
        node = (manifest.get("spec") or {}).get("nodeName")
    leaves = bool(metadata.get("deletionTimestamp"))
    return CurrentInstance(str(metadata["resourceVersion"]), str(node or ""), leaves)
