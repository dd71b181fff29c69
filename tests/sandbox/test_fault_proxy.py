# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each way in which the fault proxy misbehaves, and that it does not otherwise."""

from __future__ import annotations

import concurrent.futures
import errno
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import typing as t
import urllib.parse
import uuid

import pytest
import requests
import yaml

from sandbox import Sandbox
from sandbox.fault_proxy import (
    ANY,
    WRITE,
    FaultProxy,
    Rule,
    delay,
    down,
    gone,
    hang,
    html,
    lost_answer,
    reset,
    sigkill,
    status,
    truncate,
)

NODES = "/api/v1/nodes"
MERGE = {"Content-Type": "application/merge-patch+json"}


class Caller:
    """Requests as an identity through a proxy."""

    def __init__(self, proxy: FaultProxy, identity: str = "labeler") -> None:
        config = yaml.safe_load(proxy.kubeconfig(identity).read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = cluster["certificate-authority"]
        self.session.headers["Authorization"] = f"Bearer {config['users'][0]['user']['token']}"

    def get(self, path: str = NODES, **options: t.Any) -> requests.Response:
        return self.session.get(self.url + path, **{"timeout": 10, **options})

    def label(self, node: str, value: str) -> requests.Response:
        """Set the label "proxied" of a node."""
        patch = {"metadata": {"labels": {"proxied": value}}}
        return self.session.patch(
            self.url + node, data=json.dumps(patch), headers=MERGE, timeout=10
        )


def proxy_before(small: Sandbox, other: FaultProxy) -> FaultProxy:
    """A proxy without rules that takes another one for the API server."""
    pki = small.directory / "pki"
    return FaultProxy(
        [],
        upstream=other.url,
        ca_file=small.ca_file,
        certificate=pki / "kube-apiserver.crt",
        key=pki / "kube-apiserver.key",
        kubeconfig_of=small.kubeconfig,
    )


@pytest.fixture
def node(small: Sandbox) -> t.Iterator[str]:
    """Path of a node without the label "proxied", which tests may write."""
    name = small.api.list(small.api.path("Node"))[0]["metadata"]["name"]
    path = small.api.path("Node", name=name)
    yield path
    small.api.patch(path, {"metadata": {"labels": {"proxied": None}}})


def value(small: Sandbox, node: str) -> str | None:
    """The label "proxied", read past the proxy."""
    return t.cast("str | None", small.api.get(node)["metadata"]["labels"].get("proxied"))


def test_request_that_no_rule_matches_passes_unchanged(small: Sandbox, node: str) -> None:
    with small.fault_proxy() as proxy:
        caller = Caller(proxy)
        direct = small.api.request("GET", node)
        answer = caller.get(node)
        assert answer.json()["metadata"]["uid"] == direct.json()["metadata"]["uid"]
        assert answer.headers["Content-Type"] == direct.headers["Content-Type"]
        assert caller.label(node, "through").status_code == 200
        assert value(small, node) == "through"
        selected = caller.get(f"{NODES}?labelSelector=proxied%20in%20%28through%29&limit=5")
        assert [item["metadata"]["labels"]["proxied"] for item in selected.json()["items"]] == [
            "through"
        ]
        assert caller.get("/api/v1/nodes/no-such-node").json()["reason"] == "NotFound"
        assert Caller(proxy, "reader").label(node, "x").status_code == 403
        assert Caller(proxy, "nobody").get(NODES).status_code == 403
        assert [(r.method, r.path, r.is_write, r.status, r.action) for r in proxy.requests] == [
            ("GET", node, False, 200, ""),
            ("PATCH", node, True, 200, ""),
            ("GET", f"{NODES}?labelSelector=proxied%20in%20%28through%29&limit=5", False, 200, ""),
            ("GET", "/api/v1/nodes/no-such-node", False, 404, ""),
            ("PATCH", node, True, 403, ""),
            ("GET", NODES, False, 403, ""),
        ]


def test_warnings_of_the_server_pass(small: Sandbox, node: str) -> None:
    body = json.dumps({"spec": {"unknown1": 1, "unknown2": 2}})
    with small.fault_proxy() as proxy:
        caller = Caller(proxy, "admin")
        url = f"{caller.url}{node}?dryRun=All&fieldValidation=Warn"
        answer = caller.session.patch(url, data=body, headers=MERGE, timeout=10)
        assert answer.status_code == 200
        assert "unknown1" in answer.headers["Warning"]
        assert "unknown2" in answer.headers["Warning"]
        assert [seen.is_write for seen in proxy.requests] == [False]


def test_a_watch_streams(small: Sandbox, node: str) -> None:
    with small.fault_proxy() as proxy:
        caller = Caller(proxy, "reader")
        version = caller.get().json()["metadata"]["resourceVersion"]
        path = f"{NODES}?watch=true&resourceVersion={version}&fieldSelector=metadata.name="
        with caller.get(path + node.rsplit("/", 1)[-1], stream=True) as watch:
            lines = watch.iter_lines(chunk_size=None)
            for number in ("1", "2"):
                small.api.patch(node, {"metadata": {"labels": {"proxied": number}}})
                seen = ""
                while seen != number:  # heartbeats come in between
                    event = json.loads(next(lines))
                    seen = event["object"]["metadata"]["labels"].get("proxied")


def test_many_requests_at_once(small: Sandbox) -> None:
    with small.fault_proxy([Rule("GET", "limit=7", status(503))]) as proxy:
        caller = Caller(proxy, "reader")

        def one(number: int) -> int:
            return caller.get(f"{NODES}?limit={number % 10}").status_code

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(one, range(100)))
        assert [code for n, code in enumerate(answers) if n % 10 == 7] == [503] * 10
        assert [code for n, code in enumerate(answers) if n % 10 != 7] == [200] * 90
        assert len(proxy.requests) == 100


@pytest.mark.parametrize(
    ("nth", "expected"),
    [
        (None, [409, 409, 409, 409]),
        (2, [200, 409, 200, 200]),
        (range(1, 3), [409, 409, 200, 200]),
        ({1, 4}, [409, 200, 200, 409]),
    ],
)
def test_a_rule_acts_on_the_matches_it_names(
    small: Sandbox, node: str, nth: t.Any, expected: list[int]
) -> None:
    with small.fault_proxy([Rule("PATCH", "^/api/v1/nodes/", status(409), nth)]) as proxy:
        caller = Caller(proxy)
        answers = []
        for number in range(4):
            caller.get(node)
            answers.append(caller.label(node, str(number)).status_code)
        assert answers == expected
        acted = [seen.action for seen in proxy.requests if seen.method == "PATCH"]
        assert acted == ["status" if code == 409 else "" for code in expected]


def test_the_first_rule_that_is_due_acts_and_rules_can_be_changed(small: Sandbox) -> None:
    rules = [Rule("GET|PUT", NODES, status(500), nth=2), Rule(ANY, NODES, status(504))]
    with small.fault_proxy(rules) as proxy:
        caller = Caller(proxy)
        assert [caller.get().status_code for _again in range(3)] == [504, 500, 504]
        proxy.rules = rules
        assert [caller.get().status_code for _again in range(2)] == [504, 500]
        proxy.rules = []
        assert caller.get().status_code == 200
        assert proxy.rules == []


def test_writes_are_counted_as_the_audit_counts_them(small: Sandbox, node: str) -> None:
    mark = small.audit.mark()
    with small.fault_proxy([Rule(WRITE, "", status(503), nth=2)]) as proxy:
        caller = Caller(proxy)
        review = {"spec": {"resourceAttributes": {"resource": "nodes", "verb": "patch"}}}
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        caller.session.post(caller.url + reviews, json=review, timeout=10).raise_for_status()
        patch = json.dumps({"metadata": {"labels": {"proxied": "dry"}}})
        dry = f"{caller.url}{node}?dryRun=All"
        caller.session.patch(dry, data=patch, headers=MERGE, timeout=10).raise_for_status()
        assert [caller.label(node, "x").status_code for _again in range(3)] == [200, 503, 200]
        passed = [seen for seen in proxy.requests if seen.is_write and not seen.action]
        assert len(passed) == len(small.audit.writes("labeler", since=mark)) == 2


def test_status_is_a_kubernetes_status(small: Sandbox, node: str) -> None:
    rules = [
        Rule("PATCH", NODES, status(429, retry_after=3), nth=1),
        Rule("PATCH", NODES, status(418, {"own": "body"}, headers={"X-Own": "header"}), nth=2),
    ]
    with small.fault_proxy(rules) as proxy:
        caller = Caller(proxy)
        throttled = caller.label(node, "x")
        assert throttled.headers["Retry-After"] == "3"
        assert throttled.json()["kind"] == "Status"
        assert throttled.json()["reason"] == "TooManyRequests"
        assert throttled.json()["code"] == throttled.status_code == 429
        own = caller.label(node, "x")
        assert (own.status_code, own.json(), own.headers["X-Own"]) == (
            418,
            {"own": "body"},
            "header",
        )
    assert value(small, node) is None


def test_html_is_no_json(small: Sandbox) -> None:
    with small.fault_proxy([Rule("GET", NODES, html())]) as proxy:
        answer = Caller(proxy).get()
        assert answer.status_code == 502
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "<html>" in answer.text


def test_delay_waits_and_passes_on_or_goes_on_with_another_action(small: Sandbox) -> None:
    rules = [Rule("GET", NODES, delay(0.5), 1), Rule("GET", NODES, delay(0.5, status(500)), 2)]
    with small.fault_proxy(rules) as proxy:
        caller = Caller(proxy)
        for expected in (200, 500):
            started = time.monotonic()
            assert caller.get().status_code == expected
            assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize(("action", "written"), [(reset(), None), (lost_answer(), "lost")])
def test_a_reset_connection_may_hide_a_write(
    small: Sandbox, node: str, action: t.Any, written: str | None
) -> None:
    with small.fault_proxy([Rule("PATCH", NODES, action)]) as proxy:
        with pytest.raises(requests.ConnectionError, match="Connection aborted"):
            Caller(proxy).label(node, "lost")
        assert value(small, node) == written
        (seen,) = proxy.requests
        assert (seen.action, seen.status) == (action.name, 0)


def test_a_reset_is_one_of_tcp(small: Sandbox) -> None:
    """Not an orderly end; Python's TLS does not tell the two apart, the socket below does."""
    with small.fault_proxy([Rule("GET", "", reset())]) as proxy:
        host, port = urllib.parse.urlsplit(proxy.url).netloc.split(":")
        tls = ssl.create_default_context(cafile=str(small.ca_file))
        plain = socket.create_connection((host, int(port)), 5)
        with tls.wrap_socket(plain, server_hostname=host) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: sandbox\r\n\r\n")
            deadline, error = time.monotonic() + 5, 0
            while not error and time.monotonic() < deadline:
                error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            assert error == errno.ECONNRESET


def test_a_truncated_answer_is_cut_or_broken(small: Sandbox) -> None:
    rules = [Rule("GET", NODES, truncate(), 1), Rule("GET", NODES, truncate(0.3, cut=False), 2)]
    with small.fault_proxy(rules) as proxy:
        caller = Caller(proxy)
        with pytest.raises(requests.exceptions.ChunkedEncodingError, match="IncompleteRead"):
            caller.get()
        broken = caller.get()
        assert broken.status_code == 200
        with pytest.raises(requests.exceptions.JSONDecodeError):
            broken.json()
        assert caller.get().json()["kind"] == "NodeList"


def test_a_hanging_request_is_never_answered(small: Sandbox, node: str) -> None:
    with small.fault_proxy([Rule("PATCH", NODES, hang())]) as proxy:
        caller = Caller(proxy)
        patch = json.dumps({"metadata": {"labels": {"proxied": "hung"}}})
        with pytest.raises(requests.ReadTimeout):
            caller.session.patch(caller.url + node, data=patch, headers=MERGE, timeout=0.5)
        assert caller.get(node).status_code == 200
    assert value(small, node) is None


def test_lists_and_watches_are_gone(small: Sandbox) -> None:
    rules = [Rule("GET", "[?&]continue=", gone()), Rule("GET", "watch=true", gone(events=2))]
    with small.fault_proxy(rules) as proxy:
        caller = Caller(proxy, "reader")
        page = caller.get(f"{NODES}?limit=1").json()
        expired = caller.get(f"{NODES}?limit=1&continue={page['metadata']['continue']}")
        assert (expired.status_code, expired.json()["reason"]) == (410, "Expired")
        with caller.get(f"{NODES}?watch=true&resourceVersion=0", stream=True) as watch:
            events = [json.loads(line) for line in watch.iter_lines()]
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "ERROR"]
        assert (events[-1]["object"]["code"], events[-1]["object"]["kind"]) == (410, "Status")


def test_the_api_server_goes_down_and_comes_back(small: Sandbox) -> None:
    with small.fault_proxy([Rule("GET", "limit=1$", down(0.7))]) as proxy:
        caller, watcher = Caller(proxy, "reader"), Caller(proxy, "reader")
        with watcher.get(f"{NODES}?watch=true&resourceVersion=0", stream=True) as watch:
            lines = watch.iter_lines()
            next(lines)
            started = time.monotonic()
            with pytest.raises(requests.ConnectionError, match="Connection aborted"):
                caller.get(f"{NODES}?limit=1")
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                list(lines)
        with pytest.raises(requests.ConnectionError, match="refused"):
            caller.get()
        while time.monotonic() < started + 5:
            try:
                answer = caller.get()
                break
            except requests.ConnectionError:
                time.sleep(0.05)
        assert answer.status_code == 200
        assert time.monotonic() - started > 0.7
        proxy.down(60)
        with pytest.raises(requests.ConnectionError):
            caller.get()
        proxy.down(0)
        time.sleep(0.2)
        assert caller.get().status_code == 200


LABELLING = """
import json, sys, requests, yaml
config = yaml.safe_load(open(sys.argv[1]))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
for number in ("1", "2", "3"):
    requests.patch(
        cluster["server"] + sys.argv[2],
        data=json.dumps({"metadata": {"labels": {"proxied": number}}}),
        headers={"Content-Type": "application/merge-patch+json", "Authorization": "Bearer " + user["token"]},
        verify=cluster["certificate-authority"],
    ).raise_for_status()
"""


@pytest.mark.parametrize("how", ["found by its connection", "by process id", "by a function"])
@pytest.mark.parametrize(("after", "written"), [(False, "1"), (True, "2")])
def test_the_caller_is_killed_at_its_second_write(
    small: Sandbox, node: str, how: str, after: bool, written: str
) -> None:
    with small.fault_proxy() as proxy:
        kubeconfig = str(proxy.kubeconfig("labeler"))
        process = subprocess.Popen([sys.executable, "-c", LABELLING, kubeconfig, node])
        target = {
            "found by its connection": None,
            "by process id": process.pid,
            "by a function": process.kill,
        }[how]
        proxy.rules = [Rule(WRITE, "", sigkill(target, after=after), nth=2)]
        assert process.wait(10) == -signal.SIGKILL
        assert [seen.action for seen in proxy.requests] == ["", "sigkill"]
    assert value(small, node) == written


def test_the_proxy_does_not_kill_itself(small: Sandbox, node: str) -> None:
    with small.fault_proxy([Rule(WRITE, "", sigkill())]) as proxy:
        with pytest.raises(requests.ConnectionError):
            Caller(proxy).label(node, "x")
        (seen,) = proxy.requests
        assert seen.action.startswith("sigkill failed") and str(os.getpid()) in seen.action


def test_write_is_sent_even_if_the_caller_disconnects(small: Sandbox, node: str) -> None:
    with (
        small.fault_proxy([Rule("PATCH", NODES, delay(0.5))]) as slow,
        proxy_before(small, slow) as proxy,
    ):
        caller = Caller(proxy)
        patch = json.dumps({"metadata": {"labels": {"proxied": "given-up"}}})
        with pytest.raises(requests.ReadTimeout):
            caller.session.patch(caller.url + node, data=patch, headers=MERGE, timeout=0.2)
        assert value(small, node) is None
        small.api.wait(
            lambda seen: seen["metadata"]["labels"].get("proxied") == "given-up", node, 5
        )


def test_two_proxies_run_at_the_same_time_and_end(small: Sandbox) -> None:
    with small.fault_proxy() as first, small.fault_proxy([Rule(ANY, "", status(500))]) as second:
        assert Caller(first).get().status_code == 200
        assert Caller(second).get().status_code == 500
        caller, kubeconfig = Caller(first), first.kubeconfig("reader")
        assert kubeconfig.stat().st_mode & 0o077 == 0
    assert not kubeconfig.exists()
    with pytest.raises(requests.ConnectionError):
        caller.get(f"{NODES}?{uuid.uuid4()}")


def test_an_api_server_that_is_away_is_a_broken_connection(small: Sandbox) -> None:
    with small.fault_proxy() as ended:
        pass
    with proxy_before(small, ended) as proxy:
        with pytest.raises(requests.ConnectionError):
            Caller(proxy).get()
        (seen,) = proxy.requests
        assert seen.action.startswith("pass on failed")
