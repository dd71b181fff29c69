# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each answer of the API server means for a move, and what is read right before it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.events import record_event
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    ApiCall,
    ApiReply,
    MoveRecord,
    MoveResult,
    Observation,
    Outcome,
    ReplyStatus,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.send import (
    CurrentInstance,
    read_instance,
    send,
    was_sent,
)
from tests.support.api_server import RESET, ApiServer, Clock, Reply, answer, status

VMI = Ref("VirtualMachineInstance", "shop", "db")
POD = Ref("Pod", "shop", "web-1")
WEB = Ref("Deployment", "shop", "web")
MOVE = MoveRecord(VMI, "u1", Ref("VirtualMachine", "shop", "db"), Method.MIGRATE, "w1", 1, 0.0)
EVICTED = MoveRecord(POD, "p1", WEB, Method.RECREATE, "w1", 2, 0.0)

PRECONDITIONS = {"preconditions": {"uid": "u1", "resourceVersion": "7"}}
MIGRATE = ApiCall(
    "create", "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstancemigrations", {}
)
DELETE = ApiCall(
    "delete", "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db", PRECONDITIONS
)
RESTART = ApiCall(
    "put", "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachines/db/restart", {}
)
EVICT = ApiCall("create", "/api/v1/namespaces/shop/pods/web-1/eviction", {})
CALLS = {"migrate": MIGRATE, "delete": DELETE, "restart": RESTART, "evict": EVICT}

BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "The budget web needs 2 pods"}]}
ENDING = {"causes": [{"reason": "NamespaceTerminating", "message": "shop is being terminated"}]}
QUOTA = 'migrations "x" is forbidden: exceeded quota: q, requested: count/migrations=1'
NEW_QUOTA = 'migrations "x" is forbidden: status unknown for quota: q'
RBAC = 'migrations is forbidden: User "exceeded quota" cannot create resource "migrations"'
POLICY = """migrations "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: quota"""
WEBHOOK = 'admission webhook "w" denied the request: exceeded quota'
VM_CHANGED = (
    'Operation cannot be fulfilled on virtualmachine "db": the server rejected our request: jsonpatch test'
    " operation does not apply"
)
CHANGED = "it changed at the same time"


@pytest.mark.parametrize("call", CALLS)
def test_accepted_request(server: ApiServer, api: ApiClient, call: str) -> None:
    server.plays(answer({}))
    assert send(api, CALLS[call]) == ApiReply(ReplyStatus.ACCEPTED)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("call", "reply", "expected"),
    [
        ("migrate", status(409, "AlreadyExists", "there"), (ReplyStatus.ACCEPTED, "", "")),
        ("migrate", status(409, "Conflict", "busy"), (ReplyStatus.BLOCKED, "changed", CHANGED)),
        ("delete", status(409, "Conflict", "uid"), (ReplyStatus.BLOCKED, "changed", CHANGED)),
        ("evict", status(409, "Conflict", "uid"), (ReplyStatus.BLOCKED, "changed", CHANGED)),
        ("restart", status(409, "Conflict", "halted"), (ReplyStatus.REFUSED, "refused", "halted")),
        ("restart", status(409, "Conflict", VM_CHANGED), (ReplyStatus.BLOCKED, "changed", CHANGED)),
        ("migrate", status(404, "NotFound", "no VMI"), (ReplyStatus.GONE, "gone", "no VMI")),
        ("restart", status(404, "NotFound", "no VM"), (ReplyStatus.GONE, "gone", "no VM")),
        ("migrate", status(422, "Invalid", "no"), (ReplyStatus.REFUSED, "refused", "no")),
        ("migrate", status(400, "BadRequest", "no"), (ReplyStatus.REFUSED, "refused", "no")),
        ("delete", status(422, "Invalid", "no"), (ReplyStatus.REFUSED, "refused", "no")),
        ("migrate", status(403, "Forbidden", QUOTA), (ReplyStatus.REFUSED, "refused", QUOTA)),
        (
            "migrate",
            status(403, "Forbidden", NEW_QUOTA),
            (ReplyStatus.REFUSED, "refused", NEW_QUOTA),
        ),
        (
            "migrate",
            status(403, "Forbidden", "ends", details=ENDING),
            (ReplyStatus.BLOCKED, "in_progress", "ends"),
        ),
        (
            "evict",
            status(403, "Forbidden", "ends", details=ENDING),
            (ReplyStatus.BLOCKED, "in_progress", "ends"),
        ),
        (
            "evict",
            status(429, "TooManyRequests", "Cannot evict", details=BUDGET),
            (ReplyStatus.BLOCKED, "budget", "The budget web needs 2 pods (in namespace shop)"),
        ),
        (
            "evict",
            status(429, "TooManyRequests", "Cannot evict"),
            (ReplyStatus.BLOCKED, "refused", "Cannot evict"),
        ),
        (
            "evict",
            status(429, "TooManyRequests"),
            (ReplyStatus.BLOCKED, "refused", "the API server asks to wait"),
        ),
    ],
)
def test_answer_to_a_move(
    server: ApiServer,
    api: ApiClient,
    call: str,
    reply: Reply,
    expected: tuple[ReplyStatus, str, str],
) -> None:
    server.plays(reply)
    answered = send(api, CALLS[call])
    reason = answered.reason or Obstacle("", "")
    assert (answered.status, reason.code, reason.text) == expected
    assert len(server.seen) == 1


def test_blocked_eviction_has_the_time_of_its_retry(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(429, "TooManyRequests", "Cannot evict", retry_after=10))
    assert send(api, CALLS["evict"]).retry_after == 10.0


@pytest.mark.parametrize("call", ["migrate", "restart", "evict"])
@pytest.mark.parametrize("reply", [status(500, "InternalError", "x"), RESET], ids=["500", "reset"])
def test_lost_answer_is_doubtful_and_not_sent_again(
    server: ApiServer, api: ApiClient, call: str, reply: Reply
) -> None:
    server.plays(reply)
    assert send(api, CALLS[call]).status is ReplyStatus.DOUBTFUL
    assert len(server.seen) == 1


def test_delete_with_preconditions_is_sent_again_after_500(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(status(500, "InternalError", "x"), status(404, "NotFound", "gone"))
    assert send(api, DELETE) == ApiReply(ReplyStatus.GONE, Obstacle("gone", "gone"))
    assert server.seen[-1].body["preconditions"] == {"uid": "u1", "resourceVersion": "7"}


def test_throttled_migration_waits_and_is_sent_again(
    server: ApiServer, api: ApiClient, clock: Clock
) -> None:
    server.plays(status(429, "TooManyRequests", "wait", retry_after=4), answer({}))
    assert send(api, MIGRATE) == ApiReply(ReplyStatus.ACCEPTED)
    assert clock.waits == [4.0]


def test_server_that_throttles_for_too_long_is_no_answer(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(429, "TooManyRequests", "wait", retry_after=90))
    with pytest.raises(errors.DeadlineExceeded):
        send(api.under(api.deadline.within(10)), MIGRATE)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (status(403, "Forbidden", RBAC), errors.Forbidden),
        (status(403, "Forbidden", POLICY), errors.Forbidden),
        (status(403, "Forbidden", WEBHOOK), errors.Forbidden),
        (status(401, "Unauthorized", "no"), errors.Unauthorized),
    ],
)
def test_missing_right_is_no_outcome_of_the_move(
    server: ApiServer, api: ApiClient, reply: Reply, error: type[Exception]
) -> None:
    server.plays(reply)
    with pytest.raises(error):
        send(api, MIGRATE)


def instance(uid: str = "u1", **fields: t.Any) -> Instance:
    vmi = Vmi(VMI, uid, "Running", "w1", {}, {}, ready=True)
    return Instance(VMI, uid, MOVE.workload, None, replace(vmi, **fields))


def evicted(**fields: t.Any) -> Instance:
    return Instance(POD, "p1", WEB, Pod("shop", "web-1", "p1", **fields))


@pytest.mark.parametrize(
    ("method", "seen", "sent"),
    [
        (Method.MIGRATE, Observation(instance()), False),
        (Method.MIGRATE, Observation(instance(), migration={}), True),
        (Method.MIGRATE, Observation(), True),
        (Method.RESTART, Observation(instance()), False),
        (Method.RESTART, Observation(instance(), restart_queued=True), True),
        (Method.RESTART, Observation(), True),
        (Method.RECREATE, Observation(instance(terminating=True)), True),
        (Method.RECREATE, Observation(evicted()), False),
        (Method.RECREATE, Observation(evicted(terminating=True)), True),
    ],
)
def test_request_that_may_have_been_sent_is_recognized(
    method: Method, seen: Observation, sent: bool
) -> None:
    assert was_sent(replace(MOVE, method=method), seen) is sent


@pytest.mark.parametrize(
    ("record", "body", "expected"),
    [
        (MOVE, {"status": {"nodeName": "w2"}}, CurrentInstance("9", "w2", False)),
        (MOVE, {}, CurrentInstance("9", "", False)),
        (EVICTED, {"spec": {"nodeName": "w3"}}, CurrentInstance("9", "w3", False)),
        (EVICTED, {"status": {"nodeName": "w3"}}, CurrentInstance("9", "", False)),
        (replace(MOVE, uid="u0"), {}, None),
    ],
)
def test_instance_is_read_right_before_its_move(
    server: ApiServer,
    api: ApiClient,
    record: MoveRecord,
    body: dict[str, t.Any],
    expected: CurrentInstance | None,
) -> None:
    uid = "u1" if record.instance == VMI else "p1"
    server.plays(answer({"metadata": {"uid": uid, "resourceVersion": "9"}, **body}))
    assert read_instance(api, record) == expected


def test_terminating_instance_is_read_as_such(server: ApiServer, api: ApiClient) -> None:
    metadata = {"uid": "u1", "resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    server.plays(answer({"metadata": metadata}))
    assert read_instance(api, MOVE) == CurrentInstance("9", "", True)


def test_missing_instance_is_none(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(404, "NotFound"))
    assert read_instance(api, MOVE) is None


@pytest.mark.parametrize(
    ("record", "end", "expected"),
    [
        (
            MOVE,
            MoveResult(Outcome.MOVED, "w2"),
            ("PlacementMoved", "Normal", f"migrate of {VMI}: w1 -> w2"),
        ),
        (
            EVICTED,
            MoveResult(Outcome.FAILED, reason=Obstacle("refused", "x" * 2000)),
            ("PlacementMoveFailed", "Warning", f"recreate of {POD}: {'x' * 2000}"[:1000]),
        ),
        (
            EVICTED,
            MoveResult(Outcome.GONE, reason=Obstacle("gone", "scaled in")),
            ("PlacementMoved", "Normal", f"recreate of {POD}: scaled in"),
        ),
    ],
)
def test_move_that_ended_is_an_event_on_its_workload(
    server: ApiServer,
    api: ApiClient,
    record: MoveRecord,
    end: MoveResult,
    expected: tuple[str, str, str],
) -> None:
    server.plays(answer({}))
    record_event(api, "r1", record, end)
    body = server.seen[0].body
    assert server.seen[0].path.startswith("/api/v1/namespaces/shop/events")
    assert (body["reason"], body["type"], body["message"]) == expected
    assert body["involvedObject"]["name"] == record.workload.name
    assert body["metadata"]["name"].endswith(f"-{record.attempt}-{end.outcome}")


def test_event_that_is_refused_stops_nothing(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(403, "Forbidden", "no"))
    record_event(api, "r1", MOVE, MoveResult(Outcome.MOVED, "w2"))
    assert len(server.seen) == 1
