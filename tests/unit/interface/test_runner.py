# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import time
import typing as t

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.api import transport
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiError,
    ApiRequest,
    ServerFault,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import (
    PartialFailure,
    Run,
    run_task,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from tests.conftest import RunModule, error_messages
from tests.support.api_server import ApiServer, answer, status

KUBE_SYSTEM = answer({"metadata": {"name": "kube-system", "uid": "cluster-1"}})


@pytest.fixture
def ends(run_module: RunModule, server: ApiServer) -> t.Any:
    """Runs a module made of `run` against the scripted server."""
    server.plays(KUBE_SYSTEM)

    def call(run: Run, **params: t.Any) -> dict[str, t.Any]:
        auth = {"host": server.url, "api_key": "secret-token"}
        given = params if "kubeconfig" in params else {**auth, **params}
        return run_module(lambda: run_task(AnsibleModule(argument_spec()), run), given)

    return call


@pytest.fixture
def stepped(run_module: RunModule, server: ApiServer) -> t.Any:
    """Runs a step of a run against the scripted server."""
    server.plays(*[KUBE_SYSTEM] * 9)
    spec = {**argument_spec(), "step_state": {"type": "dict", "default": {}}}

    def call(run: Run, **params: t.Any) -> dict[str, t.Any]:
        given = {"host": server.url, "api_key": "secret-token", **params}
        return run_module(lambda: run_task(AnsibleModule(spec), run), given)

    return call


def test_a_result_names_the_cluster(ends: t.Any, server: ApiServer) -> None:
    result = ends(lambda module, api: {"changed": True, "nodes": []})
    result.pop("invocation", None)  # ansible-core 2.21 adds it only when asked
    assert result == {
        "changed": True,
        "nodes": [],
        "cluster": {"api": server.url, "uid": "cluster-1"},
    }


def test_credential_program_that_fails_is_run_once(ends: t.Any, tmp_path: pathlib.Path) -> None:
    """It may show a login page, and wait for it."""
    ran = tmp_path / "ran"
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"echo >> {ran}; exit 1"],
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": program}}],
    }
    result = ends(lambda module, api: api.get("/version"), kubeconfig=kubeconfig)
    assert "exec: process returned 1" in result["msg"]
    assert ran.read_text() == "\n"


@pytest.mark.parametrize("params", [{}, {"cluster_uid": "cluster-1"}], ids=["", "cluster_uid"])
def test_server_that_is_no_api_server_is_named(
    ends: t.Any, server: ApiServer, params: dict[str, str]
) -> None:
    server.plays(answer({"status": "ok"}))
    result = ends(lambda module, api: api.get("/version"), **params)
    texts = str(result.get("msg", "")) + str(result.get("warnings", ""))
    assert "the answer is no Namespace" in texts
    assert "check host and proxy" in texts


def test_password_in_the_url_of_the_server_is_refused_and_hidden(
    ends: t.Any, server: ApiServer
) -> None:
    """The HTTP client would not send it."""
    host = server.url.replace("://", "://admin:s3%2Fcret@")
    result = ends(lambda module, api: {}, host=host)
    assert result["msg"].startswith("host has a password, which would be ignored: ")
    assert "cret@" not in json.dumps(result)
    assert server.requests == []


@pytest.mark.parametrize("verbosity", [2, 3])
def test_result_has_the_bytes_that_were_read_with_vvv(
    ends: t.Any, server: ApiServer, verbosity: int
) -> None:
    cluster = ends(lambda module, api: {}, _ansible_verbosity=verbosity)["cluster"]
    assert cluster.get("bytes_read") == (len(KUBE_SYSTEM.body) if verbosity == 3 else None)


def test_another_cluster_is_refused_before_anything_is_done(ends: t.Any) -> None:
    result = ends(lambda module, api: pytest.fail("must not run"), cluster_uid="cluster-2")
    assert result["failed"]
    assert "is cluster cluster-1, and cluster_uid says cluster-2" in result["msg"]
    assert result["cluster"]["uid"] == "cluster-1"


def test_after_401_the_cluster_is_compared_again(ends: t.Any, server: ApiServer) -> None:
    other = answer({"metadata": {"name": "kube-system", "uid": "cluster-2"}})
    server.plays(KUBE_SYSTEM, status(401, "Unauthorized"), other)
    result = ends(
        lambda module, api: api.delete("/api/v1/nodes/w1", uid="u"), cluster_uid="cluster-1"
    )
    assert result["failed"]
    assert (
        "is cluster cluster-2, and cluster_uid says cluster-1: another cluster than"
        in result["msg"]
    )
    assert [request.partition(" ")[0] for request in server.requests] == ["GET", "DELETE", "GET"]


def step(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    api.get("/api/v1/namespaces/kube-system")
    return {"step_state": {"run": "r1"}}


def test_step_continues_with_the_server_of_the_step_before(
    stepped: t.Any, server: ApiServer
) -> None:
    handed_on = stepped(step)["step_state"]
    assert handed_on.keys() == {"run", "server"}
    assert not stepped(step, step_state=handed_on).get("failed")
    assert server.url not in json.dumps(handed_on)


@pytest.mark.parametrize("changed", ["host", "certificates"])
def test_a_step_ends_the_run_where_host_or_certificates_changed_since_the_one_before(
    stepped: t.Any, server: ApiServer, changed: str
) -> None:
    handed_on = stepped(step)["step_state"]
    before = list(server.requests)
    other: dict[str, t.Any]
    if changed == "host":
        other = {"host": server.url.replace("127.0.0.1", "localhost")}
        message = "names http://localhost"
    else:
        other = {"validate_certs": False}
        message = "trusts another certificate authority"
    result = stepped(lambda module, api: pytest.fail("must not run"), step_state=handed_on, **other)
    assert result["failed"]
    assert (
        f"a step of this run has ended, and the configuration that was read again {message}"
        in (result["msg"])
    )
    assert server.requests == before


def test_later_step_leaves_an_outage_to_its_run_and_is_checked_before_its_first_request(
    stepped: t.Any, server: ApiServer
) -> None:
    handed_on = stepped(step)["step_state"]
    other = answer({"metadata": {"name": "kube-system", "uid": "cluster-2"}})
    server.plays(status(501, "NotImplemented"), other)

    def waits(_module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
        with pytest.raises(ServerFault):
            api.get("/api/v1/nodes")
        return step(_module, api)

    before = len(server.requests)
    result = stepped(waits, step_state=handed_on, cluster_uid="cluster-1")
    assert "is cluster cluster-2, and cluster_uid says cluster-1: another" in result["msg"]
    assert server.requests[before:] == ["GET /api/v1/namespaces/kube-system"] * 2


def test_the_right_cluster_is_asked_once(ends: t.Any, server: ApiServer) -> None:
    ends(lambda module, api: {}, cluster_uid="cluster-1")
    assert server.requests == ["GET /api/v1/namespaces/kube-system"]


def test_all_faults_are_named_and_no_server_is_asked(
    ends: t.Any,
    server: ApiServer,
) -> None:
    def run(module: t.Any, api: t.Any) -> t.Any:
        raise InvalidInput(
            [InputError("per_node.w1.zone", "is empty"), InputError("remove[0]", "is unknown")]
        )

    result = ends(run)
    assert result["failed"]
    assert error_messages(result) == ["per_node.w1.zone: is empty", "remove[0]: is unknown"]
    assert result["msg"] == "2 errors:\n- per_node.w1.zone: is empty\n- remove[0]: is unknown"
    assert result["cluster"] == {"api": server.url, "uid": None}
    assert not server.seen


def test_faults_are_named_where_nothing_leads_to_a_server(
    ends: t.Any, tmp_path: pathlib.Path
) -> None:
    def run(module: t.Any, api: t.Any) -> t.Any:
        raise InvalidInput([InputError("labels", "is empty")])

    result = ends(run, kubeconfig=str(tmp_path / "none"))
    assert result["errors"] == [
        {"type": "input", "message": "labels: is empty", "object": "labels"}
    ]
    assert result["cluster"] == {"api": None, "uid": None}


def test_no_time_is_refused(ends: t.Any, server: ApiServer) -> None:
    result = ends(lambda module, api: pytest.fail("must not run"), timeout=0)
    assert error_messages(result) == ["timeout: must be at least 1 second"]
    assert not server.seen


def test_a_partial_failure_returns_what_was_done(ends: t.Any) -> None:
    def run(module: t.Any, api: t.Any) -> t.Any:
        raise PartialFailure({"changed": True, "nodes": ["w1"]}, [ValueError("w2: no")])

    result = ends(run)
    assert (result["failed"], result["changed"], result["nodes"]) == (True, True, ["w1"])
    assert result["msg"] == "w2: no"
    assert result["errors"] == [{"type": "api", "message": "w2: no", "object": ""}]


def wrote(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    api.create("/api/v1/nodes", {})
    raise InvalidInput([InputError("rules", "are wrong")])


def had_no_answer(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    api.create("/api/v1/nodes", {})
    return {}


def asked_for_rights(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {})
    api.create("/api/v1/nodes", {}, dry_run=True)
    raise InvalidInput([InputError("rules", "are wrong")])


def changed(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    raise PartialFailure({"changed": True, "outcome": {"next": [{"code": "x"}]}}, ["w2: no"])


@pytest.mark.parametrize(
    ("run", "answers", "codes"),
    [
        (asked_for_rights, [answer({}), answer({})], ["nothing_written"]),
        (
            lambda _module, api: api.create("/api/v1/nodes", {}),
            [status(403, "Forbidden")],
            ["nothing_written"],
        ),
        (wrote, [answer({})], ["failed"]),
        (had_no_answer, [status(500, "InternalError")], ["cluster_away"]),
        (changed, [], ["unfinished", "x"]),
    ],
    ids=["refused", "forbidden write", "after a write", "no answer", "changed"],
)
def test_failure_has_its_next_step(
    run_module: RunModule, server: ApiServer, run: Run, answers: list[t.Any], codes: list[str]
) -> None:
    server.plays(*answers, KUBE_SYSTEM)
    given = {"host": server.url, "api_key": "secret-token"}

    def main() -> None:
        run_task(AnsibleModule(argument_spec()), run, of_change=True)

    result = run_module(main, given)

    assert [step["code"] for step in result["outcome"]["next"]] == codes


def test_step_of_a_run_that_holds_the_lease_continues(stepped: t.Any) -> None:
    def refused(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
        raise InvalidInput([InputError("rules", "are wrong")])

    waiting = stepped(lambda module, api: {"step_state": {}})["step_state"]
    assert stepped(refused, step_state=waiting)["outcome"]["next"][0]["code"] == "failed"
    holding = {**waiting, "transitions": 1}
    assert stepped(refused, step_state=holding)["outcome"]["next"][0]["code"] == "unfinished"


def test_a_refused_request_names_verb_and_resource(
    ends: t.Any,
    server: ApiServer,
) -> None:
    server.plays(status(403, "Forbidden", 'nodes is forbidden: User "nobody"'))
    result = ends(lambda module, api: api.get("/api/v1/nodes"))
    assert result["msg"] == (
        'cannot list nodes: 403 Forbidden: nodes is forbidden: User "nobody"; grant this identity'
        " the verb 'list' on 'nodes'; the ClusterRole virt-placement-reader (rbac/reader.yml) has"
        " every right to list"
    )
    (error,) = result["errors"]
    assert (error["type"], error["object"]) == ("permission", "nodes")


def test_a_cluster_whose_uid_may_not_be_read_has_none(
    ends: t.Any,
    server: ApiServer,
) -> None:
    server.plays(status(403, "Forbidden"))
    result = ends(lambda module, api: {})
    assert result["cluster"]["uid"] is None
    assert len(result["warnings"]) == 1


def asks_and(error: Exception) -> Run:
    """A run that gets an answer of the server, and fails after it."""

    def run(module: t.Any, api: t.Any) -> t.Any:
        api.get("/api/v1/nodes")
        raise error

    return run


def is_refused_later(module: t.Any, api: t.Any) -> t.Any:
    api.get("/api/v1/nodes")
    api.get("/api/v1/pods")


def is_partly_refused(module: t.Any, api: t.Any) -> t.Any:
    try:
        is_refused_later(module, api)
    except ApiError as error:
        raise PartialFailure({}, [error]) from error


NOT_FOUND = asks_and(InvalidInput([InputError("rules", "nobody is there")]))
PARTLY = asks_and(PartialFailure({}, ["w2: no"]))


@pytest.mark.parametrize(
    ("run", "asked"),
    [(NOT_FOUND, 0), (PARTLY, 0), (is_refused_later, 1), (is_partly_refused, 1)],
)
def test_a_failure_names_the_cluster_that_was_reached(
    ends: t.Any, server: ApiServer, run: Run, asked: int
) -> None:
    refusals = [status(403, "Forbidden")] * asked
    server.plays(answer({"items": []}), *refusals, KUBE_SYSTEM)

    result = ends(run)

    assert result["failed"]
    assert result["cluster"] == {"api": server.url, "uid": "cluster-1"}


def test_an_identity_without_rights_asks_once(ends: t.Any, server: ApiServer) -> None:
    server.plays(status(403, "Forbidden"))

    result = ends(lambda module, api: api.get("/api/v1/nodes"))

    assert server.requests == ["GET /api/v1/nodes"]
    assert result["cluster"]["uid"] is None


SERVER_FAILED = ServerFault(ApiRequest("GET", "/api/v1/nodes"), "no leader", status=500)


@pytest.mark.parametrize("error", [SERVER_FAILED, PartialFailure({}, [SERVER_FAILED])])
def test_a_server_that_failed_is_not_asked_again(
    ends: t.Any, server: ApiServer, error: Exception
) -> None:
    result = ends(asks_and(error))

    assert server.requests == ["GET /api/v1/nodes"]
    assert result["cluster"] == {"api": server.url, "uid": None}


def test_a_uid_that_may_not_be_read_is_left_out_of_a_failure(
    ends: t.Any, server: ApiServer
) -> None:
    server.plays(answer({"items": []}), status(403, "Forbidden"))

    result = ends(asks_and(InvalidInput([InputError("rules", "nobody is there")])))

    assert result["msg"] == "rules: nobody is there"
    assert result["cluster"]["uid"] is None
    assert "warnings" not in result


def test_a_defect_stays_a_traceback(ends: t.Any) -> None:
    with pytest.raises(ZeroDivisionError):
        ends(lambda module, api: {"changed": 1 // 0})


def test_credentials_are_nowhere_and_plain_words_are_left_alone(
    ends: t.Any,
    server: ApiServer,
) -> None:
    user = {
        "token": "very-secret-token",
        "exec": {"command": "aws", "args": ["eks"], "env": [{"name": "A", "value": "env-secret"}]},
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "jane"}}],
        "clusters": [{"name": "prod", "cluster": {"server": server.url}}],
        "users": [{"name": "jane", "user": {"token": user["token"]}}],
        "unused": [user],
    }
    seen = {"namespace": "prod", "kind": "v1 Config", "leak": "a very-secret-token b"}
    result = ends(lambda module, api: dict(seen), kubeconfig=kubeconfig)
    text = json.dumps(result)
    assert "very-secret-token" not in text
    assert "env-secret" not in text
    assert (result["namespace"], result["kind"]) == ("prod", "v1 Config")


def test_a_token_is_blanked_out_of_messages(
    ends: t.Any,
    server: ApiServer,
) -> None:
    server.plays(status(400, "BadRequest", "cannot read header Bearer secret-token"))
    result = ends(lambda module, api: api.get("/api/v1/nodes"))
    assert result["failed"]
    assert "secret-token" not in json.dumps(result)


def test_computing_ends_with_the_time_of_the_task(
    ends: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "COMPUTING_GRACE", 0.1)

    def endless(module: AnsibleModule, api: t.Any) -> dict[str, t.Any]:
        api.get("/api/v1/nodes/w1")
        while True:
            with contextlib.suppress(ValueError):
                sum(range(1000))

    result = ends(endless, timeout=3)
    assert result["failed"]
    assert "not done within 3 s (timeout)" in result["msg"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_writes_are_reported_however_long_they_take(
    ends: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "COMPUTING_GRACE", 0.0)

    def writes(module: AnsibleModule, api: t.Any) -> dict[str, t.Any]:
        api.create("/api/v1/nodes", {})
        time.sleep(3.3)
        return {"changed": True, "nodes": ["w1"]}

    result = ends(writes, timeout=3)
    assert (result["changed"], result["nodes"]) == (True, ["w1"])
