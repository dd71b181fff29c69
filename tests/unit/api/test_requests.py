# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The retry table: what is sent again, what is not, and the errors."""

from __future__ import annotations

import json
import socket
import typing as t
from unittest import mock

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api import errors, transport
from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
    RetryPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.interface import runner
from tests.support.api_server import RESET, ApiServer, Clock, Reply, answer, status

NODE = "/api/v1/nodes/w1"
POD = "/api/v1/namespaces/shop/pods/p"
THERE = answer({"metadata": {"name": "w1"}})
HTML = Reply(200, b"<html><body>Welcome to the hotel network</body></html>")
CUT_OFF = Reply(200, b'{"items": [{"metad', cut_off=True)
PATCH = [{"op": "test", "path": "/metadata/uid", "value": "u"}]

PASSING = {
    "500 leader changed": status(500, "InternalError", "etcdserver: leader changed"),
    "502 of a proxy": Reply(502, b"<html>Bad Gateway</html>"),
    "503": status(503, "ServiceUnavailable"),
    "504": Reply(504, b""),
    "reset": RESET,
    "HTML page": HTML,
    "half an answer": CUT_OFF,
    "empty answer": Reply(200, b""),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_read_survives_what_passes(server: ApiServer, api: ApiClient, fault: Reply) -> None:
    server.plays(fault, fault, THERE)
    assert api.get(NODE) == {"metadata": {"name": "w1"}}
    assert (api.counts.by_verb, api.counts.retries) == ({"get": 3}, 2)


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_write_whose_outcome_is_unknown_is_not_sent_again(
    server: ApiServer, api: ApiClient, fault: Reply
) -> None:
    server.plays(fault, THERE)
    if fault.body == b"" and fault.status == 200:
        assert api.patch(NODE, PATCH) == {}
        return
    with pytest.raises(errors.ApiError) as caught:
        api.patch(NODE, PATCH)
    assert caught.value.outcome_unknown
    assert server.requests == [f"PATCH {NODE}?fieldManager=virt-placement&fieldValidation=Strict"]


@pytest.mark.parametrize("fault", [RESET, PASSING["503"]], ids=["reset", "503"])
def test_a_dry_run_and_a_delete_of_one_uid_are_sent_again(
    server: ApiServer, api: ApiClient, fault: Reply
) -> None:
    server.plays(fault, THERE)
    api.create("/api/v1/nodes", {}, dry_run=True)
    assert server.requests[1].endswith("&dryRun=All")
    server.plays(fault, status(404, "NotFound"))
    with pytest.raises(errors.NotFound):
        api.delete(POD, uid="u1")
    assert server.seen[-1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
    }


def test_task_may_be_ended_until_a_write_is_sent(server: ApiServer, api: ApiClient) -> None:
    """Questions about rights and dry runs were taken for writes, so that computing after them had no limit."""
    module = mock.Mock(params={"timeout": 9})
    with mock.patch.object(runner, "computing_bounded") as bounded:
        runner._computing_bounded(module, api)
    *_deadline, may_end = bounded.call_args.args
    server.plays(THERE, THERE, status(403, "Forbidden"))
    api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {})
    api.create("/api/v1/nodes", {}, dry_run=True)
    assert may_end(None)
    with pytest.raises(errors.Forbidden):
        api.patch(NODE, PATCH)
    assert not may_end(None)
    assert (api.counts.writes_sent, api.counts.writes) == (1, 0)


@pytest.mark.parametrize("method", ["get", "patch"])
def test_request_after_429_waits_for_retry_after(
    server: ApiServer, api: ApiClient, clock: Clock, method: str
) -> None:
    server.plays(Reply(429, b"Too many requests", {"Retry-After": "7"}), THERE)
    assert api.get(NODE) if method == "get" else api.patch(NODE, PATCH)
    assert clock.waits == [7.0]


def test_429_without_retry_after_backs_off(server: ApiServer, api: ApiClient, clock: Clock) -> None:
    server.plays(*[status(429, "TooManyRequests")] * 7, THERE)
    api.get(NODE)
    assert clock.waits == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_an_eviction_that_is_refused_is_the_callers_but_overload_is_not(
    server: ApiServer, api: ApiClient
) -> None:
    budget = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]}
    server.plays(
        Reply(429, b"Too many requests", {"Retry-After": "1"}),
        status(429, "TooManyRequests", "Cannot evict pod", details=budget),
    )
    with pytest.raises(errors.Throttled) as caught:
        api.create(f"{POD}/eviction", {})
    assert len(server.seen) == 2
    assert caught.value.causes == (errors.Cause("DisruptionBudget", "needs 2 healthy pods"),)


def test_401_is_tried_once_more_with_a_new_token(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(401, "Unauthorized"), THERE)
    api.patch(NODE, PATCH)
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer first",
        "Bearer second",
    ]


def test_401_twice_names_the_credentials(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(errors.Unauthorized) as caught:
        api.get(NODE)
    assert len(server.seen) == 2
    assert str(caught.value) == (
        "cannot get nodes w1: 401 Unauthorized: Unauthorized; the credentials were refused: renew"
        " the token or the certificate and run again"
    )


FINAL: dict[str, tuple[Reply, type[errors.ApiError]]] = {
    "400": (status(400, "BadRequest"), errors.ApiError),
    "403": (status(403, "Forbidden"), errors.Forbidden),
    "404": (status(404, "NotFound"), errors.NotFound),
    "409": (status(409, "Conflict"), errors.Conflict),
    "410": (status(410, "Expired"), errors.Gone),
    "422": (
        status(422, "Invalid", details={"causes": [{"field": "spec.x", "message": "no"}]}),
        errors.Invalid,
    ),
    "422 of a patch without causes": (status(422, "Invalid"), errors.TestFailed),
    "501": (Reply(501, b""), errors.ServerFault),
    "redirect to a login page": (
        Reply(302, b"", {"Location": "https://login.example.org/"}),
        errors.BadAnswer,
    ),
}


@pytest.mark.parametrize(("reply", "error"), FINAL.values(), ids=FINAL)
def test_error_that_a_retry_cannot_change_is_not_retried(
    server: ApiServer, api: ApiClient, reply: Reply, error: type[errors.ApiError]
) -> None:
    server.plays(reply, THERE)
    with pytest.raises(error):
        api.patch(NODE, PATCH)
    assert len(server.seen) == 1


def test_a_refusal_names_verb_resource_group_and_namespace(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(status(403, "Forbidden", "no"))
    with pytest.raises(errors.Forbidden) as caught:
        api.call_subresource(
            "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachines/db/restart", {}
        )
    assert str(caught.value) == (
        "cannot update virtualmachines/restart.subresources.kubevirt.io db in namespace shop: 403"
        " Forbidden: no; grant this identity the verb 'update' on 'virtualmachines/restart' of API"
        " group subresources.kubevirt.io in namespace shop"
    )


def test_server_text_is_cut(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(400, "BadRequest", "x" * 9000))
    with pytest.raises(errors.ApiError) as caught:
        api.get(NODE)
    assert len(caught.value.message) == errors.TEXT_LIMIT
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "begin",
    [
        'admission webhook "policy.example.com" denied the request: ',
        "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ",
    ],
)
def test_answer_of_admission_is_kept_whole(server: ApiServer, api: ApiClient, begin: str) -> None:
    text = f"{begin}{'rule 7 says no, ' * 60}call the storage team"
    server.plays(status(400, "BadRequest", text))
    with pytest.raises(errors.ApiError) as caught:
        api.get(NODE)
    assert caught.value.message == text


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid")])
def test_refusal_of_an_admission_policy_is_none_of_fields(
    server: ApiServer, api: ApiClient, code: int, reason: str
) -> None:
    text = (
        "vms \"db\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"
    )
    server.plays(status(code, reason, text))
    with pytest.raises(errors.ApiError) as caught:
        api.get(NODE)
    assert str(caught.value).endswith(f"denied request: no; {errors.ASK_POLICY}")


def test_retries_end_with_patience(server: ApiServer, api: ApiClient, clock: Clock) -> None:
    server.plays(THERE, status(503, "ServiceUnavailable"))
    api.get(NODE)
    with pytest.raises(errors.ServerFault):
        api.get(NODE)
    assert 60 <= clock.time < 66


def test_deadline_bounds_all_retries_and_reports_the_last_error(
    server: ApiServer, api: ApiClient, clock: Clock
) -> None:
    server.plays(Reply(429, b"", {"Retry-After": "99"}))
    clock.time = 2.0
    with pytest.raises(errors.DeadlineExceeded, match="not done within 100 s, last: 429"):
        api.get(NODE)
    clock.time = 100.0
    with pytest.raises(errors.DeadlineExceeded):
        api.get(NODE)
    assert len(server.seen) == 1, "nothing is sent after the end"


def test_the_budget_bounds_the_retries_of_a_run(server: ApiServer, api: ApiClient) -> None:
    api.policy = RetryPolicy(budget=3, draw=lambda: 0.0)
    server.plays(THERE, PASSING["503"])
    api.get(NODE)
    for _attempt in range(2):
        with pytest.raises(errors.ServerFault):
            api.get(NODE)
    assert api.counts.retries == 3


def test_silence_is_an_error_and_reads_are_tried_again(
    server: ApiServer, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "READ_SECONDS", 0.1)
    monkeypatch.setattr(transport, "WRITE_SECONDS", 0.1)
    server.plays(Reply(silent=2), THERE)
    assert api.get(NODE)
    server.plays(Reply(silent=2), THERE)
    with pytest.raises(errors.AnswerLost):
        api.patch(NODE, PATCH)


class FailingPool:
    """A connection pool in which each request raises one error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def request_encode_url(self, *_arguments: t.Any, **_options: t.Any) -> t.NoReturn:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("broken pipe\nsecond line"), "broken pipe"),
        (OSError(" \n"), "OSError"),
        (OSError("<pool.Connection object at 0x7f>: refused: [Errno 111]"), "refused: [Errno 111]"),
        (OSError("<pool.Connection object at 0x7f>"), "<pool.Connection object at 0x7f>"),
        (OSError("host: refused"), "host: refused"),
    ],
)
def test_lost_answer_has_the_first_line_without_the_address_of_an_object(
    clock: Clock, error: OSError, message: str
) -> None:
    session = Session(t.cast(urllib3.PoolManager, FailingPool(error)), "http://host", lambda: ())
    deadline = Deadline(1, clock=clock, sleep=clock.sleep)
    with pytest.raises(errors.AnswerLost) as caught:
        Transport(lambda: session).start(
            errors.ApiRequest("GET", NODE), NODE, deadline, 1, headers={}
        )
    assert caught.value.message == message


def test_unreachable_server_fails_soon_with_advice(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    api = _api_at(f"http://127.0.0.1:{port}", clock)
    with pytest.raises(errors.Unreachable) as caught:
        api.get(NODE)
    assert "refused" in str(caught.value)
    assert str(caught.value).endswith("check host, port, proxy and network")
    assert clock.time < 10


@pytest.mark.parametrize("host", ["http://[", "gopher://x", "http://no-such-host.invalid"])
def test_a_useless_host_is_unreachable(clock: Clock, host: str) -> None:
    with pytest.raises(errors.Unreachable):
        _api_at(host, clock).get(NODE)


def test_an_outage_is_survived_once_the_server_was_met(clock: Clock) -> None:
    with ApiServer() as first:
        first.plays(answer({}))
        api = _api_at(first.url, clock)
        api.get(NODE)
    with pytest.raises(errors.ApiError):
        api.get(NODE)
    assert clock.time >= 60


def test_several_values_of_a_header_stay_several(server: ApiServer, clock: Clock) -> None:
    groups = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    api = _api_at(server.url, clock, groups)
    api.patch(NODE, PATCH)
    assert server.seen[0].headers.get_all("Impersonate-Group") == ["a", "b"]


def _api_at(
    host: str, clock: Clock, headers: t.Sequence[tuple[str, str]] = (), seconds: float = 1000
) -> ApiClient:
    pool = urllib3.PoolManager()
    deadline = Deadline(seconds, clock=clock, sleep=clock.sleep)
    return ApiClient(
        Transport(lambda: Session(pool, host, lambda: headers)),
        deadline,
        RetryPolicy(draw=lambda: 1.0),
    )


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "x/../../secrets/y", "a/./b", "a/b", "a/log", "a/eviction/b"],
    ids=["up", "here", "empty", "far", "dot", "slash", "subresource", "below"],
)
def test_a_name_that_leads_to_another_path_is_not_sent(
    server: ApiServer, api: ApiClient, name: str
) -> None:
    with pytest.raises(errors.UnusablePath):
        api.delete(f"/api/v1/namespaces/shop/pods/{name}", uid="u1")
    assert server.requests == []


def test_token_is_sent_to_no_other_server_after_401(server: ApiServer, clock: Clock) -> None:
    server.plays(status(401, "Unauthorized"), THERE)
    sessions = [
        Session(
            urllib3.PoolManager(), host, lambda: [("Authorization", "Bearer first")], trust=trust
        )
        for host, trust in (
            (server.url, "ca"),
            (server.url.replace("127.0.0.1", "localhost"), "ca"),
        )
    ]
    api = ApiClient(Transport(iter(sessions).__next__), Deadline(9, clock=clock, sleep=clock.sleep))
    with pytest.raises(errors.Unauthorized, match="names http://localhost"):
        api.get(NODE)
    assert len(server.seen) == 1


def test_after_401_another_certificate_authority_ends_the_run(
    server: ApiServer, clock: Clock
) -> None:
    server.plays(status(401, "Unauthorized"), THERE)
    sessions = [
        Session(urllib3.PoolManager(), server.url, list, trust=trust) for trust in ("a", "b")
    ]
    api = ApiClient(Transport(iter(sessions).__next__), Deadline(9, clock=clock, sleep=clock.sleep))
    with pytest.raises(errors.Unauthorized, match="trusts another certificate authority"):
        api.get(NODE)
    assert len(server.seen) == 1


@pytest.mark.parametrize("replies", [(status(401, "Unauthorized"),), ()], ids=["401", "expired"])
def test_credentials_that_cannot_be_renewed_are_refused_ones(
    server: ApiServer, clock: Clock, replies: tuple[Reply, ...]
) -> None:
    """A run that has begun ends as after any request that is refused: with what it has done."""
    server.plays(THERE, *replies, THERE)

    def token() -> list[tuple[str, str]]:
        if server.seen and not replies:
            raise errors.NoConfiguration("the token cannot be renewed")
        return []

    def open_session() -> Session:
        if server.seen:
            raise errors.NoConfiguration("the credential program failed: login has expired")
        return Session(urllib3.PoolManager(), server.url, token)

    api = ApiClient(Transport(open_session), Deadline(9, clock=clock, sleep=clock.sleep))
    api.get(NODE)
    with pytest.raises(errors.Unauthorized, match="program failed: login has expired; the cred"):
        api.get(NODE)
    assert len(server.seen) == 1 + len(replies)


def test_nothing_is_sent_after_the_deadline_if_a_token_came_late(
    server: ApiServer, clock: Clock
) -> None:
    """A credential program may take longer than the Lease lasts that the deadline stands for."""

    def token() -> list[tuple[str, str]]:
        clock.sleep(10)
        return []

    session = Session(urllib3.PoolManager(), server.url, token)
    api = ApiClient(Transport(lambda: session), Deadline(9, clock=clock, sleep=clock.sleep))
    with pytest.raises(errors.DeadlineExceeded):
        api.patch(NODE, PATCH)
    assert server.requests == []


def test_text_of_the_server_cannot_forge_lines_or_move_the_cursor() -> None:
    assert errors.cut("a\x1b[2Jb\r\nc\u202ed") == "a?[2Jb c?d"


def test_a_quoted_object_is_left_out() -> None:
    assert errors.cut('cannot decode "{\\"data\\": 1}": bad') == 'cannot decode "{...}": bad'
    assert len(errors.cut('"{' * 400_000)) == errors.TEXT_LIMIT, "and not for hours"


@pytest.mark.parametrize("details", ["text", 5, {"causes": "text"}, {"causes": [None, "text"]}])
def test_status_of_another_form_is_an_error_without_causes(details: object) -> None:
    body = {"kind": "Status", "reason": "Bad\x1b[2J", "details": details}
    request = errors.ApiRequest("PATCH", NODE, errors.JSON_PATCH)
    refused = errors.from_answer(request, 422, {}, json.dumps(body).encode())
    assert (refused.causes, refused.reason) == ((), "Bad?[2J")


def test_the_status_of_a_request_that_takes_too_long_has_no_kind() -> None:
    body = {"metadata": {}, "status": "Failure", "message": "Timeout: not completed", "code": 504}
    request = errors.ApiRequest("GET", NODE)
    refused = errors.from_answer(request, 504, {}, json.dumps(body).encode())
    assert refused.is_status
    assert "504: Timeout: not completed" in str(refused)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ('pods "a-b" is forbidden: violates PodSecurity "restricted:latest": ', 8192),
        ('pods "a-b" is forbidden: exceeded quota: small, requested: ', 8192),
        ('pods is forbidden: User "a" cannot create resource "pods": ', 256),
        ('pods "a-b" is forbidden: User "a" cannot get resource "pods": ', 256),
        ("proxy says ", 256),
    ],
)
def test_refusal_of_an_object_is_read_to_its_end(message: str, limit: int) -> None:
    """Each of its reasons is something to do."""
    text = message + "x" * 600
    error = errors.Forbidden(errors.ApiRequest("POST", "/api/v1/pods"), text, status=403)
    assert error.message == (text if limit > 256 else f"{text[:253]}...")
    error = errors.Forbidden(errors.ApiRequest("POST", "/api/v1/pods"), text * 99, status=403)
    assert len(error.message) == limit
