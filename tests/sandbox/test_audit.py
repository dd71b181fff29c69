# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit log shows exactly the writes that were made."""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import threading
import typing as t
from pathlib import Path

import pytest
import requests

from sandbox import AdminApi, ApiFailure, Sandbox
from sandbox.audit import COLLECTION, AuditLog, parse_event

RECORD = {
    "auditID": "1",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/nodes/w1",
    "verb": "patch",
    "user": {"username": "virt-placement:labeler"},
    "userAgent": "tests",
    "objectRef": {"resource": "nodes", "name": "w1", "apiVersion": "v1"},
    "responseStatus": {"code": 200},
    "requestReceivedTimestamp": "2026-03-01T12:00:00.250000Z",
    "stageTimestamp": "2026-03-01T12:00:00.500000Z",
}


@pytest.fixture
def node(small: Sandbox) -> t.Iterator[str]:
    """Path of a node whose label "audit" tests may write."""
    name = small.api.list(small.api.path("Node"))[0]["metadata"]["name"]
    path = small.api.path("Node", name=name)
    yield path
    small.api.patch(path, {"metadata": {"labels": {"audit": None}}})


def label(value: str) -> dict[str, t.Any]:
    return {"metadata": {"labels": {"audit": value}}}


def test_audit_has_exactly_the_writes_that_were_sent(small: Sandbox, node: str) -> None:
    labeler, reader = small.api_as("labeler"), small.api_as("reader")
    labeler.patch(node, label("before"))
    mark = small.audit.mark()
    assert small.audit.writes(since=mark) == []

    labeler.get(node)
    labeler.patch(node, label("one"))
    with pytest.raises(ApiFailure):
        reader.patch(node, label("refused"))
    small.api.patch(node, label("by-admin"))

    name = node.rsplit("/", 1)[-1]
    writes = small.audit.writes(since=mark)
    assert [(w.user, w.verb, w.resource, w.name, w.code) for w in writes] == [
        (small.username("labeler"), "patch", "nodes", name, 200),
        (small.username("reader"), "patch", "nodes", name, 403),
    ]
    assert writes[0].user_agent == "sandbox-labeler"
    assert abs(datetime.datetime.now(datetime.timezone.utc) - writes[0].time).total_seconds() < 60
    assert [w.code for w in small.audit.writes("reader", since=mark)] == [403]
    assert [w.uri for w in small.audit.writes("admin", since=mark)] == [node]
    reads = small.audit.requests(since=mark, user=small.username("labeler"))
    assert [event.verb for event in reads] == ["get", "patch"]


def test_dry_runs_and_reviews_are_no_writes(small: Sandbox, node: str) -> None:
    api = small.api
    mark = small.audit.mark()
    patch = {"query": {"dryRun": "All"}, "content_type": "application/merge-patch+json"}
    small.api_as("labeler").request("PATCH", node, label("dry"), **patch)  # type: ignore[arg-type]
    attributes = {"resource": "nodes", "verb": "patch"}
    review = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    small.api_as("labeler").create(path, {"kind": "SelfSubjectAccessReview", **review})
    pods = api.path("Pod", "default")
    pod = {"metadata": {"name": "x", "namespace": "default"}}
    eviction = {**pod, "deleteOptions": {"dryRun": ["All"]}}
    with pytest.raises(ApiFailure):
        small.api_as("mover").create(f"{pods}/x/eviction", eviction)
    instances = api.path("VirtualMachineInstance", "default")
    small.api_as("mover").delete(f"{instances}/x", dryRun=["All"])

    assert small.audit.writes(since=mark) == []
    seen = [(e.verb, e.dry_run) for e in small.audit.requests(mark) if e.verb != "get"]
    assert seen == [("patch", True), ("create", False), ("create", True), ("delete", True)]

    with pytest.raises(ApiFailure):
        small.api_as("mover").create(f"{pods}/x/eviction", pod)
    assert [(w.subresource, w.name) for w in small.audit.writes(since=mark)] == [("eviction", "x")]


def test_many_writers_are_all_counted_at_once(small: Sandbox, node: str) -> None:
    labeler = small.api_as("labeler")
    for _again in range(5):
        mark = small.audit.mark()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: labeler.patch(node, label(str(n))), range(40)))
        assert len(small.audit.writes(since=mark)) == 40
        assert small.audit.writes(since=small.audit.mark()) == []


def test_a_watch_is_seen_when_it_begins_and_once(small: Sandbox) -> None:
    mark = small.audit.mark()
    url = f"{small.url}/api/v1/nodes?watch=true&resourceVersion=0"
    headers = {"Authorization": f"Bearer {small.token('reader')}"}
    with requests.get(
        url, headers=headers, verify=str(small.ca_file), stream=True, timeout=10
    ) as answer:
        next(answer.iter_lines())
        assert [e.verb for e in small.audit.requests(mark, small.username("reader"))] == ["watch"]
    small.audit.mark()
    assert [e.verb for e in small.audit.requests(mark, small.username("reader"))] == ["watch"]


def test_an_unknown_identity_is_an_error(small: Sandbox) -> None:
    with pytest.raises(KeyError, match="mayor"):
        small.audit.writes("mayor")


class SlowServer:
    """Stands in for an API server whose log lags behind its answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[bytes] = []

    def request(self, method: str, path: str, query: dict[str, str]) -> None:
        """Write the marker's line late and in two pieces, after what had to be written before."""
        uri = f"{path}?{'&'.join('='.join(pair) for pair in query.items())}"
        marker = {**RECORD, "auditID": uri, "verb": "get", "requestURI": uri, "objectRef": None}
        content = b"".join([*self.lines, json.dumps(marker).encode() + b"\n"])
        self.lines = []

        def write() -> None:
            with self.path.open("ab", buffering=0) as file:
                file.write(content[: len(content) // 3])
                threading.Event().wait(0.1)
                file.write(content[len(content) // 3 :])

        threading.Timer(0.1, write).start()


def test_audit_waits_for_a_late_log_and_for_incomplete_lines(tmp_path: Path) -> None:
    server = SlowServer(tmp_path / "audit.jsonl")
    server.path.touch()
    users = {**dict.fromkeys(COLLECTION, "x"), "labeler": "virt-placement:labeler"}
    log = AuditLog(server.path, users, t.cast(AdminApi, server))
    server.lines = [json.dumps(RECORD).encode() + b"\n"]
    mark = log.mark()
    assert [event.name for event in log.writes()] == ["w1"]
    assert log.writes(since=mark) == []
    server.lines = [json.dumps({**RECORD, "auditID": "2"}).encode() + b"\n"]
    assert len(log.writes(since=mark)) == 1


def test_a_log_that_never_catches_up_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        def request(self, method: str, path: str, query: dict[str, str]) -> None:
            """Answers, and writes nothing down."""

    monkeypatch.setattr("sandbox.audit._TIMEOUT", 0.1)
    (tmp_path / "audit.jsonl").touch()
    log = AuditLog(tmp_path / "audit.jsonl", {}, t.cast(AdminApi, Silent()))
    with pytest.raises(TimeoutError, match="does not show"):
        log.requests()


def test_an_event_without_an_object_has_empty_fields() -> None:
    event = parse_event({**RECORD, "objectRef": None, "responseStatus": None, "verb": "get"})
    assert (event.resource, event.namespace, event.name, event.code) == ("", "", "", 0)
    assert event.time.isoformat() == "2026-03-01T12:00:00.250000+00:00"
    assert not event.is_write
