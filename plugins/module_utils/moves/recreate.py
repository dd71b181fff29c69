# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move an instance by ending it: its controller creates another one, on another node. Pure.

| method, instance | request that ends it |
|---|---|
| recreate, VMI | a delete with uid and resourceVersion as preconditions |
| recreate, pod | an Eviction with the same preconditions, which respects disruption budgets |
| evict, pod | the same Eviction; the successor is not waited for |
| evict, VMI | an Eviction that virt-api refuses: by the controller of its eviction strategy |
| restart, VMI of a VirtualMachine | KubeVirt's subresource `restart` |
| stop, VMI of a VirtualMachine | KubeVirt's subresource `stop` |

A run that was overtaken cannot end what its successor has marked: the preconditions fail. KubeVirt's
restart has none, so it is only sent right after the VMI's uid was read, and never again once that
uid has changed.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.kinds import instance_path
from ..model.obstacle import Obstacle
from ..model.plan import WITHOUT_SUCCESSOR, Method
from .move import (
    ApiCall,
    ApiReply,
    MoveRecord,
    MoveResult,
    MoveSettings,
    Observation,
    Outcome,
    Phase,
    ReplyStatus,
    StateMachine,
    Transition,
    eviction_body,
    ready,
    terminating,
    without_move,
)

SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces"
_SUBRESOURCE = {Method.RESTART: "restart", Method.STOP: "stop"}
_WAITS = Obstacle(
    "moved_by_others", "waits for the controller of its eviction strategy External", True
)


def advance(
    record: MoveRecord, seen: Observation, now: float, settings: MoveSettings
) -> Transition:
    """End the instance; once that was sent, wait until its successor serves."""
    if record.method is Method.EVICT and record.instance.is_vmi:
        return _hand_over(record, seen)
    instance = seen.instance
    if record.phase is Phase.INTENDED and instance is not None and not terminating(instance):
        if now - record.begun >= settings.move_timeout and record.method not in WITHOUT_SUCCESSOR:
            return _too_long(record, seen, settings)
        return Transition(record, _ending(record, seen.resource_version))
    record, successor = replace(record, phase=Phase.BEGUN), seen.successor
    if record.method in WITHOUT_SUCCESSOR:
        if instance is None:
            return Transition(record, ended=MoveResult(Outcome.MOVED))
        return Transition(record.held_by(_obstacle(seen)))
    if successor is not None and ready(successor) and successor.node_name:
        return Transition(record, ended=MoveResult(Outcome.MOVED, node=successor.node_name))
    if successor is None and instance is None and seen.surplus:
        text = "its controller created no replacement, since the workload was scaled in"
        return without_move(record, Outcome.GONE, "gone", text)
    record = record.held_by(_obstacle(seen))
    if now - record.begun >= settings.move_timeout:
        return _too_long(record, seen, settings)
    return Transition(record)


def answered(record: MoveRecord, reply: ApiReply) -> Transition:
    """After the API server answered the request. A restart of what is gone was refused: its VM
    exists no more. A doubtful or blocked request is looked for before it is sent again."""
    by_vm = record.method in _SUBRESOURCE
    ended = reply.status is ReplyStatus.GONE and not by_vm
    if reply.status is ReplyStatus.ACCEPTED or ended:
        return Transition(replace(record.held_by(None), phase=Phase.BEGUN))
    if reply.status in (ReplyStatus.REFUSED, ReplyStatus.GONE):
        return Transition(record, ended=MoveResult(Outcome.FAILED, reason=reply.reason))
    return Transition(record.held_by(reply.reason))


MACHINE = StateMachine(advance, answered)


def _hand_over(record: MoveRecord, seen: Observation) -> Transition:
    """Hand a VMI with the eviction strategy External to its controller: ask until the VMI is marked; then wait until it
    runs on another node or is gone. virt-api refuses the eviction with 429 and writes `status.evacuationNodeName`,
    which is what the controller acts on (KubeVirt, webhooks admitters/pod-eviction-admitter.go). A second eviction
    changes nothing."""
    vmi = seen.instance.vmi if seen.instance is not None else None
    if seen.instance is None or vmi is None:
        return Transition(record, ended=MoveResult(Outcome.MOVED))
    if vmi.node_name and vmi.node_name != record.source:
        return Transition(record, ended=MoveResult(Outcome.MOVED, node=vmi.node_name))
    if vmi.evacuation_node_name or terminating(seen.instance):
        return Transition(replace(record.held_by(_WAITS), phase=Phase.BEGUN))
    pod = seen.instance.pod
    if pod is None:
        return Transition(record.held_by(Obstacle("changed", "its pod was not read", True)))
    request = ApiCall(
        "create", f"{instance_path(pod.ref)}/eviction", eviction_body(pod.ref, {"uid": pod.uid})
    )
    return Transition(replace(record, phase=Phase.INTENDED), request)


def _ending(record: MoveRecord, resource_version: str) -> ApiCall:
    """The request that ends the very instance that was read at this resource version."""
    verb = _SUBRESOURCE.get(record.method)
    if verb is not None:
        vm = record.instance  # a VirtualMachine and its VMI have one name
        return ApiCall("put", f"{SUBRESOURCES}/{vm.namespace}/virtualmachines/{vm.name}/{verb}", {})
    path = instance_path(record.instance)
    preconditions = {"uid": record.uid, "resourceVersion": resource_version}
    if record.instance.is_vmi:
        return ApiCall("delete", path, {"preconditions": preconditions})
    return ApiCall("create", f"{path}/eviction", eviction_body(record.instance, preconditions))


def _obstacle(seen: Observation) -> Obstacle:
    """What the move waits for."""
    cause = seen.refused or seen.pending
    if cause is None and seen.no_leader is not None:
        return seen.no_leader
    why = f": {seen.refused}" if seen.refused else ""
    if seen.successor is None and seen.instance is not None:
        return Obstacle("in_progress", f"{seen.instance.ref} has not terminated yet", True)
    if seen.successor is None:
        text = f"its controller has not created a replacement yet{why}"
    elif why:
        text = f"{seen.successor.ref} has no pod yet{why}"
    elif seen.pending:
        text = f"{seen.successor.ref} is Pending: {seen.pending}"
    else:
        text = f"{seen.successor.ref} is not Ready yet"
    return Obstacle(cause.code if cause is not None else "in_progress", text, True)


def _too_long(record: MoveRecord, seen: Observation, settings: MoveSettings) -> Transition:
    last = record.obstacle or _obstacle(seen)
    text = f"not done within {int(settings.move_timeout)} s: {last}"
    return without_move(record, Outcome.FAILED, last.code, text)
