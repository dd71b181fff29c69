# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated virt-handler keeps its view of the cluster through every way in which a watch ends."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest

from sandbox import Sandbox
from sandbox.fault_proxy import FaultProxy, Rule, gone, html, reset, status, truncate
from sandbox.virt_handler.api import Api, ConflictError, Object, Reflector
from sandbox.virt_handler.loop import Agenda

WATCH = "watch=true"


class View:
    """A reflector of the config maps of one namespace, behind a fault proxy."""

    def __init__(self, sandbox: Sandbox, namespace: str, proxy: FaultProxy) -> None:
        self.api, self.namespace = sandbox.api, namespace
        self.path = self.api.path("ConfigMap", namespace)
        self.ended: list[str] = []
        self.log: list[str] = []
        self.reflector = Reflector(
            Api(proxy.kubeconfig("kubevirt-controller")),
            self.path,
            {"labelSelector": "view=yes"},
            self._changed,
            self.log.append,
        )

    def _changed(self, item: Object, old: Object | None) -> None:
        if item["metadata"]["uid"] not in self.reflector.objects:
            self.ended.append(item["metadata"]["name"])

    def write(self, name: str) -> None:
        body = {"metadata": {"name": name, "labels": {"view": "yes"}}, "kind": "ConfigMap"}
        self.api.create(self.path, body)

    def wait(self, *names: str) -> None:
        """Wait until these are what the reflector holds."""
        deadline = time.monotonic() + 10
        while (held := self.names()) != set(names):
            assert time.monotonic() < deadline, (held, self.log)
            time.sleep(0.02)

    def names(self) -> set[str]:
        return {item["metadata"]["name"] for item in list(self.reflector.objects.values())}


@pytest.fixture
def proxy(small: Sandbox) -> t.Iterator[FaultProxy]:
    with small.fault_proxy() as proxy:
        yield proxy


@pytest.fixture
def view(
    small: Sandbox, namespace: t.Callable[[Sandbox], str], proxy: FaultProxy
) -> t.Iterator[View]:
    view = View(small, namespace(small), proxy)
    view.write("first")
    yield view
    view.reflector.stop()
    proxy.down(60)
    if view.reflector.ident is not None:
        view.reflector.join(10)
        assert not view.reflector.is_alive()


@pytest.mark.parametrize(
    "rules",
    [
        [Rule("GET", WATCH, gone(), nth=1)],
        [Rule("GET", WATCH, gone(events=1), nth=1)],
        [Rule("GET", WATCH, status(410), nth=1)],
        [Rule("GET", WATCH, reset(), nth=1), Rule("GET", "", status(500), nth=3)],
        [Rule("GET", "", html(), nth=range(1, 3))],
        [Rule("GET", "", truncate(), nth=1), Rule("GET", "", truncate(cut=False), nth=2)],
    ],
    ids=["gone", "gone later", "410", "reset", "html", "truncated"],
)
def test_watch_continues_after_a_fault(view: View, proxy: FaultProxy, rules: list[Rule]) -> None:
    proxy.rules = rules
    view.reflector.start()
    view.write("second")
    view.wait("first", "second")
    view.write("third")
    view.wait("first", "second", "third")
    view.api.delete(f"{view.path}/first")
    view.wait("second", "third")
    assert view.ended == ["first"]
    assert any(seen.action for seen in proxy.requests)


def test_watch_sees_changes_that_were_made_while_the_server_was_down(
    view: View, proxy: FaultProxy
) -> None:
    view.reflector.start()
    view.wait("first")
    proxy.down(0.5)
    view.api.delete(f"{view.path}/first")
    view.write("second")
    view.wait("second")
    assert view.ended == ["first"]


def test_a_write_loses_to_a_newer_one(small: Sandbox, view: View) -> None:
    api = Api(small.kubeconfig("kubevirt-controller"))
    path = f"{view.path}/first"
    seen = small.api.get(path)
    api.patch(path, seen, {"data": {"by": "us"}})
    with pytest.raises(ConflictError):
        api.patch(path, seen, {"data": {"by": "us again"}})
    assert small.api.get(path)["data"] == {"by": "us"}

    small.api.delete(path)
    small.api.wait_gone(path)
    view.write("first")
    with pytest.raises(ConflictError):
        api.delete_now(path, seen)
    assert small.api.get(path)


def test_an_agenda_gives_each_key_once_at_its_earliest_time() -> None:
    agenda = Agenda()
    agenda.add("late", 0.3)
    agenda.add("twice", 0.2)
    agenda.add("twice", 0.0)
    agenda.add("twice", 0.4)
    assert agenda.take() == "twice"
    threading.Timer(0.05, agenda.add, ["between"]).start()
    started = time.monotonic()
    assert [agenda.take(), agenda.take()] == ["between", "late"]
    assert 0.2 < time.monotonic() - started < 2
