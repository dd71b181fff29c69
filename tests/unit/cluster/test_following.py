# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A list that is followed is what a fresh reading would give, and is read again when it may not be."""

from __future__ import annotations

import os
import random
import threading
import time
import typing as t
from pathlib import Path

import pytest
import urllib3
import yaml

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.lists import Event
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.following import (
    FollowedCluster,
    ListState,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ListQuery,
    ReadScope,
    list_queries,
    read_snapshot,
)
from dev.trace_server import KUBEVIRT, NAMESPACE, TraceServer

Object = dict[str, t.Any]

SCOPE = ReadScope((NAMESPACE,), ("VirtualMachine", "Deployment"))
PODS = "/api/v1/pods"
VMIS = f"{KUBEVIRT}/namespaces/{NAMESPACE}/virtualmachineinstances"
DB0 = f"/api/v1/namespaces/{NAMESPACE}/pods/virt-launcher-db0"
READER = Path(__file__).parents[3] / "rbac" / "reader.yml"
SEED = int(os.environ.get("PLACEMENT_SEED", "1"))


class History:
    """Random changes of the objects of one list, with the state of each version."""

    def __init__(self, draw: random.Random, make: t.Callable[[random.Random], Object]) -> None:
        self.draw, self.make = draw, make
        self.states: list[dict[str, Object]] = [{}]
        self.events: list[Event] = []

    def step(self) -> None:
        state = dict(self.states[-1])
        name = self.draw.choice(["a", "a-b", "b", "b0", "c", "d"])
        namespace = self.draw.choice(["s", "s-a", "s0"])
        place = f"{namespace}/{name}"
        version = str(len(self.states))
        metadata = {"namespace": namespace, "name": name, "resourceVersion": version}
        if place in state and self.draw.random() < 0.4:
            last = state.pop(place)
            item = {**last, "metadata": {**last["metadata"], "resourceVersion": version}}
            self.events.append(Event("DELETED", item))
        else:
            uid = state[place]["metadata"]["uid"] if place in state else f"uid-{version}"
            item = {**self.make(self.draw), "metadata": {**metadata, "uid": uid}}
            self.events.append(Event("MODIFIED" if place in state else "ADDED", item))
            state[place] = item
        self.states.append(state)

    def listed(self, version: int) -> list[Object]:
        """In the order of the server: by the keys of etcd."""
        return [item for _place, item in sorted(self.states[version].items())]


def _migration(draw: random.Random) -> Object:
    phase = draw.choice(["Pending", "Running", "Succeeded"])
    return {"spec": {"vmiName": "db"}, "status": {"phase": phase}}


def _pod(draw: random.Random) -> Object:
    return {
        "spec": {"containers": [], "nodeName": draw.choice(["w1", "w2"])},
        "status": {"phase": draw.choice(["Running", "Succeeded"])},
    }


@pytest.mark.parametrize(("what", "make"), [("pods", _pod), ("migrations", _migration)])
def test_list_with_its_events_is_the_list_as_it_is_read_now(
    what: str, make: t.Callable[[random.Random], Object]
) -> None:
    draw = random.Random(SEED)
    for _round in range(150):
        history = History(draw, make)
        for _change in range(draw.randint(1, 25)):
            history.step()
        begin = draw.randrange(len(history.states))
        followed = ListState(ListQuery(what, "/list"))
        followed.begin(map(followed.keep, history.listed(begin)), str(begin))
        for number, event in enumerate(history.events[begin:], begin + 1):
            followed.apply(event)
            if draw.random() < 0.5:
                fresh = ListState(ListQuery(what, "/list"))
                fresh.begin(map(fresh.keep, history.listed(number)), str(number))
                assert followed.result() == fresh.result()


def test_event_that_changes_nothing_that_is_kept_is_no_change() -> None:
    state = ListState(ListQuery("migrations", "/list"))
    metadata = {"namespace": "s", "name": "m", "uid": "u", "resourceVersion": "1"}
    item = {"metadata": metadata, "spec": {"vmiName": "db"}, "status": {"phase": "Pending"}}
    assert state.apply(Event("ADDED", item))
    seen = {**item, "metadata": {**metadata, "resourceVersion": "2"}}
    assert not state.apply(Event("MODIFIED", seen))
    assert state.shows("s/m", "2")
    assert not state.shows("s/m", "3")
    assert not state.shows("s/m", "")
    ended = {**seen, "metadata": {**metadata, "resourceVersion": "3"}}
    assert state.apply(Event("MODIFIED", {**ended, "status": {"phase": "Failed"}}))
    assert state.result().items == []
    assert state.shows("s/m", "3")
    assert not state.shows("s/m", "4")
    assert state.shows("s/m", "")


@pytest.fixture
def server() -> t.Iterator[TraceServer]:
    with TraceServer() as running:
        yield running


@pytest.fixture
def api(server: TraceServer) -> t.Iterator[ApiClient]:
    with urllib3.PoolManager(maxsize=16) as pool:
        session = Session(pool, server.url, list)
        yield ApiClient(Transport(lambda: session), Deadline(60))


@pytest.fixture
def cluster(api: ApiClient) -> t.Iterator[FollowedCluster]:
    followed = FollowedCluster(api)
    yield followed
    followed.close()


def follow(cluster: FollowedCluster) -> None:
    cluster.snapshot(SCOPE)
    cluster.follow(Deadline(30), lambda query, _namespace: query.what == "pods")


def lists(server: TraceServer, path: str = "") -> int:
    return sum("limit=" in read and read.startswith(path) for read in server.reads)


def change_pod(server: TraceServer, node: str) -> None:
    pod = server.objects[DB0]
    server.change("MODIFIED", DB0, {**pod, "spec": {**pod["spec"], "nodeName": node}})


def wait_until(condition: t.Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_cluster_is_read_once_and_shows_each_change(
    server: TraceServer, api: ApiClient, cluster: FollowedCluster
) -> None:
    follow(cluster)
    once = lists(server)
    for node in ("w2", "w3"):
        change_pod(server, node)
        assert cluster.changed.wait(10)
        assert cluster.snapshot(SCOPE) == read_snapshot(api, SCOPE)
        assert lists(server, PODS) == 1 + ["w2", "w3"].index(node) + 1
    assert lists(server) == once * 3, "the other readings are those that are compared with"


def test_snapshot_is_the_same_object_until_something_changes(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    follow(cluster)
    first = cluster.snapshot(SCOPE)
    assert cluster.snapshot(SCOPE) is first
    change_pod(server, "w2")
    assert cluster.changed.wait(10)
    assert cluster.snapshot(SCOPE) is not first


def test_scope_with_fewer_namespaces_is_followed_already(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    wide = ReadScope((NAMESPACE, "lab"), SCOPE.kinds)
    cluster.snapshot(wide)
    cluster.follow(Deadline(30), lambda _query, _namespace: False)
    before = lists(server)
    cluster.snapshot(SCOPE)
    assert lists(server) == before
    cluster.snapshot(ReadScope(("other",), SCOPE.kinds))
    assert lists(server, "/apis/kubevirt.io/v1/namespaces/other/") > 0


def test_list_whose_events_are_gone_is_read_again_and_followed_from_there(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    server.refusals[PODS] = 410
    follow(cluster)
    change_pod(server, "w2")
    wait_until(lambda: not cluster._lists[0].up_to_date())
    del server.refusals[PODS]
    (pod,) = [p for p in cluster.snapshot(SCOPE).pods if p.name == "virt-launcher-db0"]
    assert (pod.node_name, lists(server, PODS)) == ("w2", 2)
    change_pod(server, "w3")
    assert cluster.changed.wait(10)
    (pod,) = [p for p in cluster.snapshot(SCOPE).pods if p.name == "virt-launcher-db0"]
    assert (pod.node_name, lists(server, PODS)) == ("w3", 2)
    assert lists(server, VMIS) == 1


def test_list_that_may_not_be_watched_is_read_each_time(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    server.refusals[PODS] = 403
    follow(cluster)
    wait_until(lambda: not cluster._lists[0].up_to_date())
    for reading, node in enumerate(("w2", "w3"), 2):
        change_pod(server, node)
        (pod,) = [p for p in cluster.snapshot(SCOPE).pods if p.name == "virt-launcher-db0"]
        assert (pod.node_name, lists(server, PODS)) == (node, reading)
    assert lists(server, VMIS) == 1


def test_list_without_a_connection_is_read_again(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    server.refusals[PODS] = 500
    follow(cluster)
    wait_until(lambda: not cluster._lists[0].up_to_date())
    change_pod(server, "w2")
    (pod,) = [p for p in cluster.snapshot(SCOPE).pods if p.name == "virt-launcher-db0"]
    assert pod.node_name == "w2"


def test_fresh_snapshot_reads_all_and_named_lists_alone(
    server: TraceServer, cluster: FollowedCluster
) -> None:
    follow(cluster)
    once = lists(server)
    cluster.snapshot(SCOPE, again=("nodes",))
    assert (lists(server), lists(server, "/api/v1/nodes")) == (once + 1, 2)
    cluster.snapshot(SCOPE, fresh=True)
    assert lists(server) == 2 * once + 1


def test_change_that_is_known_is_waited_for(server: TraceServer, cluster: FollowedCluster) -> None:
    follow(cluster)
    for node in ("w2", "w3", "w1"):
        change_pod(server, node)
        cluster.catch_up([(DB0, "")])
        (pod,) = [p for p in cluster.snapshot(SCOPE).pods if p.name == "virt-launcher-db0"]
        assert pod.node_name == node
    server.change("DELETED", DB0, server.objects[DB0])
    cluster.catch_up([(DB0, "")])
    assert "virt-launcher-db0" not in {pod.name for pod in cluster.snapshot(SCOPE).pods}
    assert lists(server, PODS) == 1


def test_end_of_the_run_ends_its_watches(cluster: FollowedCluster) -> None:
    def watches() -> int:
        return sum(thread.name.startswith("watch ") for thread in threading.enumerate())

    follow(cluster)
    followed = list(cluster._lists)
    wait_until(lambda: all(x._response is not None for x in followed))
    assert watches() == len(followed)
    cluster.close()
    wait_until(lambda: not watches())
    assert all(x._response is None for x in followed)


def test_reader_may_watch_what_it_may_list() -> None:
    """Without the right to watch a rollout reads these lists again each time."""
    role = yaml.safe_load(READER.read_text())
    rights = {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for query in list_queries(ReadScope(quotas=True)):
        *_root, group, _version, resource = ["", *query.path.split("/")]
        group = "" if query.path.startswith("/api/") else group
        assert rights[group, resource] >= {"list", "watch"}, query.path
