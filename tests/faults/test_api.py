# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every request of a task meets every fault, on a real API server behind a proxy that misbehaves.

Whatever happens, the result tells the truth, nothing is written twice, and the next run converges.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time
import types
import typing as t

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.api import (
    connection,
    errors,
    transport,
)
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.lists import list_all, watch
from ansible_collections.virt.placement.plugins.module_utils.flows.node_labels import label_nodes
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.node_labels.request import (
    parse_label_request,
)
from ansible_collections.virt.placement.plugins.modules import node_labels, rules
from sandbox import Sandbox, objects
from sandbox import fault_proxy as faults
from sandbox.fault_actions import Action
from sandbox.fault_proxy import ANY, WRITE, Rule
from tests.conftest import RunModule

NODES = "/api/v1/nodes"
KEY = "example.com/fault"
NOTE = "placement.virt/node-labels"

FAULTS: dict[str, Action] = {
    "429 with Retry-After": faults.status(429, retry_after=1),
    "429": faults.status(429),
    "401": faults.status(401),
    "403": faults.status(403),
    "404": faults.status(404),
    "409": faults.status(409),
    "422": faults.status(422),
    "500": faults.status(500, message="etcdserver: leader changed"),
    "502": faults.html(502),
    "503": faults.status(503),
    "504": faults.status(504),
    "HTML with 200": faults.html(200),
    "reset before": faults.reset(),
    "reset after": faults.lost_answer(),
    "cut off": faults.truncate(),
    "cut off unseen": faults.truncate(cut=False),
    "silence": faults.hang(),
    "slow": faults.delay(0.3),
    "gone": faults.gone(),
    "outage": faults.down(1),
}
FINAL_FOR_READS = ("403", "404", "409", "422")
FINAL_FOR_REVIEWS = (*FINAL_FOR_READS, "gone")
FINAL_FOR_WRITES = ("403", "404", "gone")
"""Errors that are reported at once, since they do not pass by themselves."""

FINAL = {1: FINAL_FOR_READS, 2: FINAL_FOR_REVIEWS, 6: ()}
"""By the position of the request: the list, the review of the right, three writes, the cluster."""


@pytest.fixture(autouse=True)
def _short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "READ_SECONDS", 1.0)
    monkeypatch.setattr(transport, "LIST_SECONDS", 1.0)
    monkeypatch.setattr(transport, "WRITE_SECONDS", 1.0)


@pytest.fixture(autouse=True)
def _fresh_nodes(plain: Sandbox) -> t.Iterator[None]:
    yield
    for node in plain.api.list(NODES):
        nothing = {"labels": {KEY: None}, "annotations": {NOTE: None}}
        plain.api.patch(f"{NODES}/{node['metadata']['name']}", {"metadata": nothing})


def _names(sandbox: Sandbox) -> list[str]:
    return sorted(node["metadata"]["name"] for node in sandbox.api.list(NODES))


def _values(sandbox: Sandbox) -> dict[str, str | None]:
    return {
        node["metadata"]["name"]: node["metadata"]["labels"].get(KEY)
        for node in sandbox.api.list(NODES)
    }


def _api(kubeconfig: pathlib.Path, timeout: float = 30) -> ApiClient:
    unset = dict.fromkeys(connection.auth_argument_spec())
    params = {**unset, "timeout": timeout, "kubeconfig": str(kubeconfig)}
    return connection.connect(types.SimpleNamespace(params=params))


def _params(sandbox: Sandbox, kubeconfig: pathlib.Path) -> dict[str, t.Any]:
    per_node = {name: {KEY: "x"} for name in _names(sandbox)}
    return {"kubeconfig": str(kubeconfig), "per_node": per_node, "timeout": 30}


@pytest.mark.parametrize("position", range(1, 7))
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_at_every_request(
    plain: Sandbox, run_module: RunModule, fault: str, position: int
) -> None:
    start = plain.audit.mark()
    with plain.fault_proxy([Rule(ANY, ".", FAULTS[fault], nth=position)]) as proxy:
        result = run_module(node_labels.main, _params(plain, proxy.kubeconfig("labeler")))
        assert proxy.requests[position - 1].action
    values = _values(plain)
    reported_nodes = {node["name"] for node in result.get("nodes", ())}
    assert reported_nodes == {name for name, value in values.items() if value == "x"}
    assert result["changed"] == bool(reported_nodes)
    made = [event.name for event in plain.audit.writes("labeler", start) if event.code == 200]
    assert sorted(made) == sorted(reported_nodes), "each node is written once"
    assert bool(result.get("failed")) == (fault in FINAL.get(position, FINAL_FOR_WRITES))
    if result.get("failed"):
        assert "Traceback" not in result["msg"]
        assert result["msg"].startswith("cannot ")
        assert len(reported_nodes) == (0 if position < 3 else 2)
    again = run_module(node_labels.main, _params(plain, plain.kubeconfig("labeler")))
    assert again["changed"] == (len(reported_nodes) < 3)
    assert set(_values(plain).values()) == {"x"}


def test_an_api_that_stays_away_ends_the_task_in_time(
    plain: Sandbox, run_module: RunModule
) -> None:
    """The outage begins after the first answer, so the task hopes for as long as it may."""
    rules = [Rule(WRITE, ".", faults.down(60), nth=1)]
    with plain.fault_proxy(rules) as proxy:
        params = {**_params(plain, proxy.kubeconfig("labeler")), "timeout": 4}
        began = time.monotonic()
        result = run_module(node_labels.main, params)
        assert time.monotonic() - began < 7
    assert result["failed"]
    assert "not done within 4 s" in result["msg"]
    assert not result["changed"]
    assert set(_values(plain).values()) == {None}


def test_latency_is_bounded_by_timeout(plain: Sandbox, run_module: RunModule) -> None:
    with plain.fault_proxy([Rule(ANY, ".", faults.delay(30))]) as proxy:
        params = {**_params(plain, proxy.kubeconfig("labeler")), "timeout": 3}
        began = time.monotonic()
        result = run_module(node_labels.main, params)
        assert time.monotonic() - began < 6
    assert result["msg"].startswith("cannot list nodes: not done within 3 s")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_task_that_is_killed_is_finished_by_the_next(
    plain: Sandbox, tmp_path: pathlib.Path, position: int, after: bool
) -> None:
    rules = [Rule(WRITE, ".", faults.sigkill(after=after), nth=position)]
    start = plain.audit.mark()
    with plain.fault_proxy(rules) as proxy:
        assert _play(plain, tmp_path, proxy.kubeconfig("labeler")) != 0
    done = [name for name, value in _values(plain).items() if value == "x"]
    assert _play(plain, tmp_path, plain.kubeconfig("labeler")) == 0
    assert set(_values(plain).values()) == {"x"}
    written = [event.name for event in plain.audit.writes("labeler", start) if event.code == 200]
    assert sorted(written) == _names(plain), f"{done} were done, each node is written once"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_an_undo_that_is_killed_is_finished_by_the_next(
    plain: Sandbox, run_module: RunModule, tmp_path: pathlib.Path, position: int, after: bool
) -> None:
    path = plain.api.path("Deployment", "default")
    names = ["undo-a", "undo-b", "undo-c"]

    def specs() -> list[t.Any]:
        found = (plain.api.get(f"{path}/{name}") for name in names)
        return [each["spec"]["template"] for each in found]

    for name in names:
        plain.api.create(path, objects.deployment(name, "default", replicas=0))
    before = specs()
    workloads = [{"kind": "Deployment", "names": names}]
    listed = [{"name": "r", "workloads": workloads, "avoid": {"zone": "zone1"}}]
    options: dict[str, t.Any] = {"namespace": "default", "timeout": 30}
    known = {**options, "kubeconfig": str(plain.kubeconfig("mover"))}
    assert run_module(rules.main, {**known, "rules": listed})["changed"]
    undo = {**options, "state": "reverted"}
    fault = [Rule(WRITE, "/deployments/", faults.sigkill(after=after), nth=position)]

    with plain.fault_proxy(fault) as proxy:
        asked = {**undo, "kubeconfig": str(proxy.kubeconfig("mover"))}
        assert _play(plain, tmp_path, proxy.kubeconfig("mover"), rules=asked) != 0
    done = run_module(rules.main, {**known, **undo})

    assert not done.get("failed"), done.get("msg")
    assert done["counts"]["workloads"] == 3
    assert specs() == before
    start = plain.audit.mark()
    assert not run_module(rules.main, {**known, **undo})["changed"]
    assert not plain.audit.writes(since=start)
    for name in names:
        plain.api.delete(f"{path}/{name}")


def _play(sandbox: Sandbox, folder: pathlib.Path, kubeconfig: pathlib.Path, **task: t.Any) -> int:
    """Run node_labels in a playbook, or the module that `task` names."""
    tasks = task or {"node_labels": _params(sandbox, kubeconfig)}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [{f"virt.placement.{name}": options} for name, options in tasks.items()],
    }
    file = folder / "play.yml"
    file.write_text(yaml.safe_dump([play]))
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    environment = {
        **os.environ,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "TMPDIR": str(folder),  # a module that is killed leaves files
    }
    done = subprocess.run([program, file], env=environment, capture_output=True, check=False)
    return done.returncode


def test_two_writers_lose_nothing(plain: Sandbox) -> None:
    """Two tasks give the same nodes different labels, again and again, at the same time."""
    rounds, keys = 30, (KEY, "performance")
    trouble: list[object] = []

    def write(api: ApiClient, key: str) -> None:
        unset = dict.fromkeys(("selector", "labels", "nodes", "per_value", "follow"))
        for number in range(rounds):
            per_node = {name: {key: f"v{number}"} for name in _names(plain)}
            rest: dict[str, t.Any] = {"remove": [], "exclusive": [], "force": True}
            options = {**unset, "per_node": per_node, **rest}
            request, _faults = parse_label_request(options, Topology.of())
            labelled = label_nodes(api, request, check=False)
            trouble.extend(failed.error for failed in labelled.failed)

    clients = [_api(plain.kubeconfig("labeler"), timeout=60) for _key in keys]
    for client in clients:
        client.get("/version")  # imports of the client library are not safe in two threads at once
    threads = [
        threading.Thread(target=write, args=pair) for pair in zip(clients, keys, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble
    last = f"v{rounds - 1}"
    for node in plain.api.list(NODES):
        assert {key: node["metadata"]["labels"].get(key) for key in keys} == dict.fromkeys(
            keys, last
        )
        noted = yaml.safe_load(node["metadata"]["annotations"][NOTE])
        assert noted == dict.fromkeys(keys, last)
    for name in _names(plain):
        plain.api.patch(f"{NODES}/{name}", {"metadata": {"labels": dict.fromkeys(keys)}})


BREAKS: dict[str, Action] = {
    "reset": faults.reset(),
    "410 at once": faults.gone(),
    "410 after an event": faults.gone(events=1),
    "503": faults.status(503),
    "429": faults.status(429, retry_after=1),
    "outage": faults.down(1),
    "HTML": faults.html(200),
}


@pytest.mark.parametrize("fault", BREAKS)
def test_a_watch_that_breaks_misses_nothing(plain: Sandbox, fault: str) -> None:
    name = _names(plain)[0]
    values = [f"v{number}" for number in range(8)]
    with plain.fault_proxy([Rule("GET", "watch=true", BREAKS[fault], nth=(1, 3))]) as proxy:
        api = _api(proxy.kubeconfig("reader"))
        seen: list[str] = []
        writer = threading.Thread(target=_set_all, args=(plain, name, values))
        for node in _listed_and_watched(api, writer.start):
            if node["metadata"]["name"] == name and KEY in node["metadata"]["labels"]:
                seen.append(node["metadata"]["labels"][KEY])
                if seen[-1] == values[-1]:
                    break
        writer.join()
        assert any(request.action for request in proxy.requests)
    assert seen[-1] == values[-1], "the last state is always seen"
    assert seen == sorted(seen), "and nothing older after something newer"


def _listed_and_watched(
    api: ApiClient, listed: t.Callable[[], None]
) -> t.Iterator[dict[str, t.Any]]:
    """Nodes of a list and of the watch after it, again when its version is too old. `listed` is
    called after the first list."""
    until = api.deadline.within(20)
    listing = list_all(api, NODES)
    listed()
    while not until.expired:
        yield from listing.items
        try:
            for event in watch(api, NODES, listing.resource_version, until=until):
                yield event.object
        except errors.Gone:
            listing = list_all(api, NODES)


def _set_all(sandbox: Sandbox, node: str, values: t.Sequence[str]) -> None:
    for value in values:
        sandbox.api.patch(f"{NODES}/{node}", {"metadata": {"labels": {KEY: value}}})
        time.sleep(0.3)


def test_list_starts_again_after_an_expired_page_token(sandbox_pool: t.Any) -> None:
    thousand = sandbox_pool.acquire("thousand")
    try:
        with thousand.fault_proxy([Rule("GET", "continue=", faults.gone(), nth=1)]) as proxy:
            listing = list_all(_api(proxy.kubeconfig("reader")), NODES, metadata_only=True)
            assert len({item["metadata"]["uid"] for item in listing.items}) == 1000
            assert [bool(request.action) for request in proxy.requests] == [
                False,
                True,
                False,
                False,
            ]
    finally:
        sandbox_pool.release("thousand")


def test_a_list_that_is_cut_off_is_never_a_short_list(plain: Sandbox) -> None:
    for action in (faults.truncate(), faults.truncate(cut=False), faults.html(200)):
        with plain.fault_proxy([Rule("GET", NODES, action)]) as proxy:
            api = _api(proxy.kubeconfig("reader"), timeout=2)
            with pytest.raises((errors.DeadlineExceeded, errors.BadAnswer, errors.AnswerLost)):
                list_all(api, NODES)
