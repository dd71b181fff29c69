# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod was not created, by the events about the object that needs it."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Forbidden,
)
from ansible_collections.virt.placement.plugins.module_utils.api.lists import Listing
from ansible_collections.virt.placement.plugins.module_utils.cluster import refusals
from ansible_collections.virt.placement.plugins.module_utils.cluster.refusals import PodRefusals
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from tests.support.cluster import Cluster

API = t.cast(ApiClient, None)


def event(at: str, message: str, owner: str = "u1", **more: t.Any) -> dict[str, t.Any]:
    times = {"metadata": {"creationTimestamp": at}, "lastTimestamp": at}
    return {**times, "involvedObject": {"uid": owner}, "message": message, **more}


def newest(*owners: str, since: str = "") -> str:
    return str(PodRefusals(API).newest("shop", owners or ("u1",), since) or "")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[t.Any]:
    """The requests. The answer is what the last of them has."""
    requests: list[t.Any] = []

    def list_all(_api: ApiClient, path: str, *, params: t.Any) -> Listing[t.Any]:
        requests.append((path, params["fieldSelector"]))
        created = params["fieldSelector"].endswith("reason=SuccessfulCreate")
        return Listing(tuple(CREATED if created else EVENTS), "1")

    monkeypatch.setattr(refusals, "list_all", list_all)
    return requests


EVENTS: list[dict[str, t.Any]] = [
    event("2026-11-29T10:00:00Z", "an old one"),
    event(
        "2026-11-29T10:05:00Z",
        "an older one",
        series={"lastObservedTime": "2026-11-29T10:20:00.5Z"},
    ),
    event("2026-11-29T10:10:00Z", "the webhook\nsays no"),
]
CREATED: list[dict[str, t.Any]] = []


def test_newest_refusal_is_named(asked: list[t.Any]) -> None:
    refusal = PodRefusals(API).newest("shop", ["u1"])
    assert refusal is not None
    assert refusal.code == "refused"
    assert str(refusal) == "no pod is created for it (newest event FailedCreate): an older one"
    path, selector = asked[0]
    assert path == "/api/v1/namespaces/shop/events"
    assert selector == "involvedObject.uid=u1,reason=FailedCreate"


def test_newest_warning_since_a_time_has_its_reason(asked: list[t.Any]) -> None:
    read = PodRefusals(API).newest_warning
    assert str(read("shop", ["u1", "p1"], "2026-11-29T10:15:00Z")) == "event: an older one"
    assert [selector for _path, selector in asked] == [
        "involvedObject.uid=u1,type=Warning",
        "involvedObject.uid=p1,type=Warning",
    ]
    assert read("shop", ["u1"], "2026-11-29T10:21:00Z") is None


def test_each_try_of_a_controller_has_one_text(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = set()
    for name in ("virt-launcher-p0-x7k2p", "virt-launcher-p0-bcd45"):
        monkeypatch.setitem(EVENTS[1], "message", f'pods "{name}" is forbidden: seccomp')
        texts.add(newest().partition(": ")[2])
    assert texts == {'pods "virt-launcher-p0-..." is forbidden: seccomp'}


def test_refusal_of_an_earlier_pod_is_not_named(asked: list[t.Any]) -> None:
    assert newest(since="2026-11-29T10:20:01Z") == ""
    assert newest(since="2026-11-29T10:20:00Z") != ""


def test_refusal_before_the_newest_pod_of_a_workload_is_not_named(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event stays for an hour, and the pod that was created later may be gone, too."""
    for at, named in (("10:19:59", True), ("10:20:00", True), ("10:20:01", False)):
        monkeypatch.setitem(globals(), "CREATED", [event(f"2026-11-29T{at}Z", "Created pod: a")])
        assert bool(newest()) is named


def test_refusal_of_a_pod_of_a_deployment_is_an_event_of_one_of_its_replica_sets(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [event("2026-11-29T10:00:00Z", x, owner=x) for x in ("rs1", "rs2", "of another one")]
    monkeypatch.setitem(globals(), "EVENTS", events)
    monkeypatch.setitem(events[1], "lastTimestamp", "2026-11-29T10:00:09Z")
    monkeypatch.setitem(events[2], "lastTimestamp", "2026-11-29T10:00:19Z")
    assert newest("rs1", "rs2").endswith(": rs2")
    assert [selector for _path, selector in asked] == [
        "involvedObject.kind=ReplicaSet,reason=FailedCreate",
        "involvedObject.uid=rs2,reason=SuccessfulCreate",
    ]


def stateful_set(cluster: Cluster, there: int, *, kind: str = "StatefulSet") -> Ref:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}
    ref = cluster.workload(kind, f"db-of-{there}", {"template": template, "replicas": 3})
    status = {"replicas": there, "currentNumberScheduled": there, "desiredNumberScheduled": 3}
    cluster.workloads[ref]["metadata"]["uid"] = "u1"
    cluster.workloads[ref]["status"] = status
    return ref


def refused_of(cluster: Cluster) -> str:
    """What is read for the only workload."""
    (workload,) = refusals.with_refused_workloads(API, cluster.snapshot()).workloads
    return str(workload.refusal or "")


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_refusal_of_a_workload_that_lacks_pods_is_read(asked: list[t.Any], kind: str) -> None:
    cluster = Cluster("ab")
    stateful_set(cluster, 1, kind=kind)
    assert refused_of(cluster).endswith("(newest event FailedCreate): an older one")
    assert asked[0][1] == "involvedObject.uid=u1,reason=FailedCreate"


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_events_of_workloads_that_need_none_are_not_read(asked: list[t.Any], kind: str) -> None:
    """Those of which all pods exist, and those of which a condition says it."""
    cluster = Cluster("ab")
    stateful_set(cluster, 3 if kind == "StatefulSet" else 1, kind=kind)
    assert (refused_of(cluster), asked) == ("", [])


@pytest.mark.parametrize(("created", "named"), [("10:20:00", True), ("10:20:01", False)])
def test_event_before_the_newest_pod_of_a_stateful_set_does_not_count(
    asked: list[t.Any], created: str, named: bool
) -> None:
    cluster = Cluster("ab")
    ref = stateful_set(cluster, 1)
    for at in ("09:00:00", created):
        cluster.start(ref, "n1")["metadata"]["creationTimestamp"] = f"2026-11-29T{at}Z"
    assert bool(refused_of(cluster)) is named


def test_refusal_stays_unknown_where_events_may_not_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def list_all(*_arguments: t.Any, **_more: t.Any) -> t.Any:
        raise Forbidden(ApiRequest("GET", "/api/v1/namespaces/shop/events"))

    monkeypatch.setattr(refusals, "list_all", list_all)
    cluster = Cluster("ab")
    stateful_set(cluster, 1)
    assert refused_of(cluster) == ""


def test_text_of_an_event_is_one_line_and_bounded(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENTS[1], "message", "no\n\x1b[31m" + "x" * 5000)
    text = newest()
    assert text.isprintable()
    assert len(text) < 1200
    assert re.search(r"xxx\.\.\. \(3984 more characters are in that event\)$", text)


def test_events_of_a_namespace_that_may_not_be_read_are_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A RoleBinding may grant the right in another namespace, whose workloads must not depend on which comes first."""
    requests = []

    def refused(_api: ApiClient, path: str, **_more: t.Any) -> t.NoReturn:
        requests.append(path)
        raise Forbidden(ApiRequest("GET", path), "no", status=403)

    monkeypatch.setattr(refusals, "list_all", refused)
    pods = PodRefusals(API)
    names = ("shop", "shop", "bank", "shop", "bank")
    assert [pods.newest(name, ["u1"]) for name in names] == [None] * 5
    assert requests == [f"/api/v1/namespaces/{name}/events" for name in ("shop", "bank")]
