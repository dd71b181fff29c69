# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run sends: the requests of the state machines.

Also the rights that these requests need, and the read of an instance right before its move. Errors
that say nothing about the move itself (no rights, no server, no time left) are raised.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, NotFound, ServerText, Throttled
from ..cluster.access import Right
from ..compliance.instances import DeclaredInstance
from ..kinds.virtual_machine import VMIS
from ..kubevirt.pending_changes import changes_since_start, why_applies_more
from ..model import kinds as names
from ..model.json_pointer import JSON
from ..model.json_text import shallow
from ..model.kinds import MIGRATIONS, instance_path
from ..model.objects import Ref
from ..model.obstacle import PENDING_CHANGES, Obstacle
from ..model.plan import Method, Plan
from ..model.snapshot import Platform, Vmi
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


class StartRevisions:
    """What restarts would apply beside placement. Reads each VMI's ControllerRevision once.

    `lenient`: a missing right is not an error here, since all missing rights are reported together
    before anything is sent. `permission`: what a user does to apply these changes too.
    """

    def __init__(self, api: ApiClient, *, lenient: bool, permission: str) -> None:
        self._api = api
        self._lenient = lenient
        self._permission = permission
        self._started: dict[tuple[str, str], t.Mapping[str, JSON] | None] = {}

    def why_no_restart(self, movable: DeclaredInstance, platform: Platform) -> Obstacle | None:
        """Why a restart would apply more than placement."""
        vmi, workload = movable.instance.vmi, movable.vm
        if vmi is None or workload is None:
            return None
        key = (vmi.uid, vmi.revision)
        try:
            if key not in self._started:
                self._started[key] = start_revision(self._api, vmi)
        except Forbidden:
            if self._lenient:
                return None
            raise
        started = self._started[key]
        if started is None:
            return Obstacle(
                PENDING_CHANGES,
                "it is unknown what else a restart would apply, since the ControllerRevision"
                f" {vmi.revision or 'of its start'} is missing or damaged: restart it, or"
                f" {self._permission}",
            )
        changes = changes_since_start(started, workload, vmi, platform)
        return why_applies_more("a restart", changes, self._permission)


def start_revision(api: ApiClient, vmi: Vmi) -> t.Mapping[str, JSON] | None:
    """The spec of the VM that a VMI was started from; None where its ControllerRevision is missing or damaged."""
    if not vmi.revision:
        return None
    path = f"/apis/apps/v1/namespaces/{vmi.ref.namespace}/controllerrevisions/{vmi.revision}"
    try:
        manifest = api.get(path)
    except NotFound:
        return None
    data = shallow(manifest.get("data"))
    spec = data.get("spec") if isinstance(data, dict) else None
    damaged = not isinstance(spec, dict) or not isinstance(spec.get("template", {}), dict)
    return None if damaged else spec


_KUBEVIRT = "kubevirt.io"
_SUBRESOURCES = "subresources.kubevirt.io"
_LEASES = "coordination.k8s.io"

Disruption = tuple[Method, Ref]
"""A way to move, and the instance that moves."""


def needed_rights(disruptions: t.Iterable[Disruption]) -> set[Right]:
    """The rights of a run that makes these moves."""
    where, name = names.LEASE_NAMESPACE, names.LEASE
    rights = {Right(verb, _LEASES, "leases", "", where, name) for verb in ("get", "patch")}
    for method, instance in disruptions:
        rights |= set(_of_move(method, instance))
    return rights


def rights_of_run(plan: Plan, records: t.Iterable[MoveRecord]) -> set[Right]:
    """The rights of a run that makes the moves of the plan, and continues those of `records`."""
    disruptions = [(move.method, move.instance) for move in plan.moves]
    return needed_rights([*disruptions, *((record.method, record.instance) for record in records)])


def rights_of_any_move(
    candidates: t.Iterable[DeclaredInstance],
    allow: t.Container[Method],
    *,
    apply_pending_changes: bool,
) -> set[Right]:
    """The rights for every move of these instances that is allowed."""
    return needed_rights(
        (method, movable.instance.ref)
        for movable in candidates
        for method in movable.move_options(apply_pending_changes=apply_pending_changes).methods
        if method in allow
    )


def _of_move(method: Method, instance: Ref) -> t.Iterator[Right]:
    """`get` is for the read right before the move (and of what a restart would apply), `patch` for the
    takeover (`takeover.outdate_pending_deletes`), `delete` of a migration to cancel it."""
    where = instance.namespace
    is_vmi = instance.is_vmi
    group, plural = (_KUBEVIRT, VMIS) if is_vmi else ("", "pods")
    yield Right("get", group, plural, "", where)
    if method is Method.MIGRATE:
        for verb in ("create", "delete", "get"):
            yield Right(verb, _KUBEVIRT, MIGRATIONS, "", where)
    elif method is Method.STOP:
        yield Right("update", _SUBRESOURCES, "virtualmachines", "stop", where)
    elif method is Method.EVICT:
        yield Right("create", "", "pods", "eviction", where)
    elif method is Method.RESTART:
        yield Right("update", _SUBRESOURCES, "virtualmachines", "restart", where)
        yield Right("get", "apps", "controllerrevisions", "", where)
    else:
        yield Right("patch", group, plural, "", where)
        if is_vmi:
            yield Right("delete", group, plural, "", where)
        else:
            yield Right("create", group, plural, "eviction", where)
