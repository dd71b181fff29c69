# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a run against a server that accepts every write and migrates at once."""

from __future__ import annotations

import datetime
import functools
import json
import re
import sys
import threading
import time
import typing as t
from collections import Counter
from types import MappingProxyType

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api import transport
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Forbidden,
    NoConfiguration,
    Unreachable,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    ComputingTimeout,
    Deadline,
    Session,
    Transport,
    no_request_under_way,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster import leader, lease
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves import (
    context,
    takeover,
    watch,
)
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves import step as steps
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.moves.state import (
    RunState,
    StepReport,
    StepResult,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.step import run_step
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import RolloutOptions
from ansible_collections.virt.placement.plugins.module_utils.rollout.rollout_source import (
    RolloutSource,
)
from dev.trace_server import NAMESPACE, TraceServer
from tests.support.modules import slowness
from tests.unit.moves.test_gates import parameters

MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstancemigrations"
TOKEN = "s3cret-t0ken"
JOURNAL = "/metadata/annotations/placement.virt~1journal"


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


@pytest.fixture(autouse=True)
def step_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step does not end because its moves have just begun: here they end at once."""
    monkeypatch.setattr(steps, "YOUNG", 0.0)


def step(cluster: TraceServer, state: RunState | None = None, **options: t.Any) -> StepResult:
    check, listening = options.pop("check", False), options.pop("listening", lambda: True)
    return run_with(cluster, parameters(**options), state, check=check, listening=listening)


def run_with(
    cluster: TraceServer,
    asked: RolloutOptions,
    state: RunState | None = None,
    *,
    check: bool = False,
    listening: t.Callable[[], bool] = lambda: True,
) -> StepResult:
    with urllib3.PoolManager(maxsize=16) as pool:
        session = Session(pool, cluster.url, lambda: [("Authorization", f"Bearer {TOKEN}")])
        api = ApiClient(Transport(lambda: session), Deadline(60))
        return run_step(RolloutSource(api, asked, state or RunState(), listening), check=check)


def lease_patches(cluster: TraceServer) -> list[dict[str, t.Any]]:
    return [
        {operation["path"]: operation["value"] for operation in body}
        for method, path, body in cluster.writes
        if (method, path) == ("PATCH", lease.PATH)
    ]


def test_no_credential_is_written_to_the_cluster(cluster: TraceServer) -> None:
    """To the Lease, an Event, a migration or an annotation."""
    result = step(cluster)
    assert {path.rpartition("/")[2] for _method, path, _body in cluster.writes} >= {
        "virt-placement",
        "events",
        "virtualmachineinstancemigrations",
    }
    assert TOKEN not in json.dumps(cluster.writes)
    assert TOKEN not in repr(result)


def test_step_migrates_one_vm_and_releases_the_lease(cluster: TraceServer) -> None:
    result = step(cluster)
    assert (result.finished, result.failure, result.changed) == (True, "", True)
    (move,) = result.moves
    assert (move["method"], move["from_node"], move["to_node"]) == ("migrate", "w1", "w2")
    assert move["state"] == "moved"
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"] == {"vmiName": move["instance"]}
    assert len(result.progress) == 3
    assert "1 move planned" in result.progress[0]
    assert result.progress[1].startswith("[1/1] migrating")
    assert "migrated: w1 (a) -> w2 (b)" in result.progress[2]
    _taken, journaled, *_renewals, released = lease_patches(cluster)
    (record,) = journals.read(journaled[JOURNAL]).records
    assert (record.instance.name, record.source) == (move["instance"], "w1")
    assert (released["/spec/holderIdentity"], released[JOURNAL]) == ("", "")


def test_move_is_journaled_before_it_is_sent(cluster: TraceServer) -> None:
    step(cluster)
    order = [(method, path) for method, path, _body in cluster.writes]
    assert order.index(("PATCH", lease.PATH)) < order.index(("POST", MIGRATIONS))


def test_check_mode_plans_and_writes_nothing(cluster: TraceServer) -> None:
    result = step(cluster, check=True)
    assert (result.finished, result.changed) == (True, True)
    assert [move["method"] for move in result.moves] == ["migrate"]
    assert cluster.writes == []


def test_check_mode_defers_what_a_rollout_would_not_begin_now(cluster: TraceServer) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    start, end = ((now + datetime.timedelta(hours=hours)).strftime("%H:%M") for hours in (2, 3))
    window = {"start": start, "end": end}

    planned, made = step(cluster, check=True, window=window), step(cluster, window=window)

    for result in (planned, made):
        assert (result.failure, result.changed, result.moves) == ("", False, [])
        assert [move["method"] for move in result.deferred] == ["migrate"]
        assert str(result.stop) == f"outside of the window from {start} to {end} UTC"
        assert result.progress[-1].startswith(f"stopped: {result.stop!s}; not started: ")


def test_scope_all_continues_after_run_timeout_though_no_move_was_in_flight(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SLOW_POLL", 0.2)
    options: dict[str, t.Any] = {"scope": "all", "canary": 1, "soak": 600, "run_timeout": 3}

    first = step(cluster, **options)
    while not first.finished:
        first = step(cluster, first.state, **options)
    second = step(cluster, listening=lambda: False, **options)

    assert first.failure.startswith("not done within 3 s (run_timeout)")
    assert second.progress[0].startswith("continuing run r")
    assert second.progress[1].endswith("3 moves planned")
    assert second.progress[2].startswith("[1/3] migrating")


def test_step_that_no_process_listens_to_leaves_its_move_to_the_next_run(
    cluster: TraceServer,
) -> None:
    result = step(cluster, listening=lambda: False)
    assert result.finished
    assert result.failure.startswith("the Ansible task of this rollout has ended; the next rollout")
    released = lease_patches(cluster)[-1]
    assert released["/spec/holderIdentity"] == ""
    assert len(journals.read(released[JOURNAL]).records) == 1


def test_interrupted_step_names_moves_though_no_server_answers(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible waits for its message some seconds, and not for as long as a step may last."""
    monkeypatch.setattr(takeover, "RELEASE_LIMIT", 0.2)
    monkeypatch.setattr(TraceServer, "url", "http://127.0.0.1:9")
    move: dict[str, t.Any] = {"namespace": "shop", "name": "db", "method": "migrate"}
    began = time.monotonic()

    result = step(cluster, RunState("r1", 1, interrupted=True, in_flight=[{**move}]))

    assert time.monotonic() - began < 3
    assert "the next rollout continues the moves in flight: shop/db (migrate)" in result.failure
    assert result.skipped == [move]


def test_scope_outdated_moves_nothing_where_all_run_as_declared(cluster: TraceServer) -> None:
    result = step(cluster, allow=["restart"], scope="not_enforced")
    assert (result.moves, result.failure) == ([], "")
    assert MIGRATIONS not in {path for _method, path, _body in cluster.writes}


def test_step_reads_each_list_once_and_once_more_before_it_ends(cluster: TraceServer) -> None:
    step(cluster)
    lists = [read.partition("?")[0] for read in cluster.reads if "limit=" in read]
    whole = Counter(path for path in lists if path != "/apis/kubevirt.io/v1/kubevirts")
    assert set(whole.values()) == {2}
    watches = {read.partition("?")[0] for read in cluster.reads if "watch=true" in read}
    assert watches == set(whole)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrations do not begin."""
    create = TraceServer.create

    def pending(server: TraceServer, path: str, body: t.Any) -> t.Any:
        return create(server, path, {**body, "status": {"phase": "Pending"}})

    monkeypatch.setattr(TraceServer, "create", pending)
    monkeypatch.setattr(TraceServer, "_migrate", lambda _server, _name: None)


def test_step_ends_when_its_migration_has_begun(
    cluster: TraceServer, hanging: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next step begins while the migration runs, and not when it has ended."""
    monkeypatch.setattr(steps, "YOUNG", 60.0)
    waits: list[float] = []
    monkeypatch.setattr(steps, "wait_for", lambda _changed, seconds, *_rest: waits.append(seconds))

    result = step(cluster)

    assert not result.finished
    assert result.moves == []
    assert result.progress[-1].startswith("[1/1] migrating")
    assert waits == []


def test_step_waits_for_a_move_without_reading_the_lists_again(
    cluster: TraceServer, hanging: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod changes every so often."""
    monkeypatch.setattr(watch, "STEP_SECONDS", 3.0)
    monkeypatch.setattr(watch, "REPORT_AFTER", 3.0)
    pod = f"/api/v1/namespaces/{NAMESPACE}/pods/virt-launcher-db0"
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(0.3):
            item = cluster.objects[pod]
            node = "w3" if item["spec"]["nodeName"] != "w3" else "w2"
            cluster.change("MODIFIED", pod, {**item, "spec": {**item["spec"], "nodeName": node}})

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        result = step(cluster)
    finally:
        over.set()
        thread.join()
    assert not result.finished
    looks = sum(read.startswith(f"{MIGRATIONS}/") for read in cluster.reads)
    assert looks > 1, "it reconciled again with a change"
    assert sum("limit=" in x and x.startswith("/api/v1/pods?") for x in cluster.reads) == 1


def test_watches_that_are_late_cause_no_second_move(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the lists as the watches show them, both VMs are still on one node when the move has ended."""
    monkeypatch.setattr(watch, "SLOW_POLL", 0.1)
    cluster.lag = 0.8
    result = step(cluster)
    moves = list(result.moves)
    while not result.finished:  # on a busy machine the first step may end before its move
        result = step(cluster, result.state)
        moves += result.moves
    assert result.failure == ""
    assert [move["state"] for move in moves] == ["moved"]
    assert [path for _method, path, _body in cluster.writes].count(MIGRATIONS) == 1


def test_lease_is_renewed_while_a_step_reads_the_cluster(
    cluster: TraceServer, hanging: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "STEP_SECONDS", 0.5)
    monkeypatch.setattr(watch, "READINGS", 0.0)
    first = step(cluster)
    assert not first.finished
    monkeypatch.setattr(lease, "RENEW_IN_BACKGROUND", 0.2)
    monkeypatch.setattr(lease, "RENEW_PAUSE", 0.05)
    read = TraceServer.read
    renewals: list[int] = []

    def slow(server: TraceServer, path: str) -> t.Any:
        if path == "/api/v1/pods":
            before = len(lease_patches(server))
            time.sleep(1.5)
            renewals.append(len(lease_patches(server)) - before)
        return read(server, path)

    monkeypatch.setattr(TraceServer, "read", slow)
    assert not step(cluster, first.state).finished
    assert renewals[0] >= 2


def test_step_without_credentials_reports_the_move_that_it_began(
    cluster: TraceServer, hanging: None
) -> None:
    """The token expires after the migration was created, and the credential program fails."""

    def begun() -> bool:
        return any(path == MIGRATIONS for _method, path, _body in cluster.writes)

    def token() -> list[tuple[str, str]]:
        if begun():
            raise NoConfiguration("the token cannot be renewed")
        return []

    def open_session() -> Session:
        if begun():
            raise NoConfiguration("login has expired")
        return Session(pool, cluster.url, token)

    with urllib3.PoolManager(maxsize=16) as pool:
        api = ApiClient(Transport(open_session), Deadline(60))
        new = RolloutSource(api, parameters(), RunState(), lambda: True)
        result = run_step(new, check=False)

    assert result.finished
    assert "login has expired" in result.failure
    assert "in flight" in result.failure
    assert result.changed


def test_run_with_nothing_to_do_leaves_the_lease_as_it_is(cluster: TraceServer) -> None:
    """Its holder may be alive and wait: only a run that has to move instances watches it for that."""
    metadata = {"name": "virt-placement", "namespace": "kube-system", "uid": "lease"}
    spec = {"holderIdentity": "r-dead", "leaseTransitions": 3}
    held = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    cluster.objects[lease.PATH] = {
        **held,
        "spec": spec,
        "metadata": {**metadata, "resourceVersion": "1"},
    }
    result = step(cluster, allow=["restart"], scope="not_enforced")
    assert (result.finished, result.failure) == (True, "")
    assert cluster.writes == []


WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
NOTHING_TO_MOVE: t.Mapping[str, t.Any] = {"allow": ["restart"], "scope": "not_enforced"}


def deployment(
    replicas: int,
    updated: int,
    condition: t.Mapping[str, str] = MappingProxyType({}),
    seen: int = 2,
) -> dict[str, t.Any]:
    """With rules, and a template that was changed."""
    made = {"namespace": "shop", "name": "web", "uid": "web", "generation": 2}
    going = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
    counts = {"replicas": replicas, "updatedReplicas": updated, "availableReplicas": 3}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**made, "annotations": {RULES: "{}"}},
        "spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}},
        "status": {"observedGeneration": seen, "conditions": [{**going, **condition}], **counts},
    }


def test_run_without_moves_waits_for_a_deployment_that_replaces_its_pods(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status wakes the run, and no list is read for that."""
    monkeypatch.setattr(watch, "SLOW_POLL", 60.0)
    monkeypatch.setattr(watch, "REPORT_AFTER", 60.0)  # one step, also on a machine that is busy
    complete = {"reason": "NewReplicaSetAvailable"}
    cluster.change("ADDED", WEB, deployment(3, 3, complete, seen=1))
    stages = [deployment(4, 2), deployment(4, 3), deployment(3, 3, complete)]

    def wait_for(*arguments: t.Any) -> None:
        """While the run waits, the controller makes its next step."""
        change = functools.partial(cluster.change, "MODIFIED", WEB)
        threading.Timer(0.1, change, [stages.pop(0)]).start()
        watch.wait_for(*arguments)

    monkeypatch.setattr(steps, "wait_for", wait_for)
    result = step(cluster, **NOTHING_TO_MOVE)

    assert (result.finished, result.failure, result.changed) == (True, "", False)
    assert [line for line in result.progress if line.startswith("waiting")] == [
        "waiting: the controller of Deployment shop/web has not seen the latest change yet",
        "waiting: Deployment shop/web replaces its pods: 2 of 3",
        "waiting: Deployment shop/web replaces its pods: 3 of 3, and 1 old one is still there",
    ]
    lists = [x for x in cluster.reads if "/deployments" in x and "watch" not in x]
    assert len(lists) == 2, "at the beginning and at the end"

    before = len(cluster.writes)
    again = step(cluster, **NOTHING_TO_MOVE)

    assert (again.finished, again.failure) == (True, "")
    assert cluster.writes[before:] == []


def test_time_that_is_over_names_the_deployment_that_replaces_its_pods(
    cluster: TraceServer,
) -> None:
    cluster.change("ADDED", WEB, deployment(4, 1))
    result = step(cluster, **NOTHING_TO_MOVE, run_timeout=2)
    text = "still going on: Deployment shop/web replaces its pods: 1 of 3"
    assert result.finished
    assert result.failure.startswith("not done within 2 s (run_timeout). ")
    assert text in result.failure


def test_deployment_past_its_progress_deadline_is_a_warning(cluster: TraceServer) -> None:
    late = {"status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    cluster.change("ADDED", WEB, deployment(4, 1, late))
    for check in (False, True):
        result = step(cluster, **NOTHING_TO_MOVE, check=check)
        assert (result.finished, result.failure) == (True, "")
        (warning,) = [x for x in result.warnings if "Deployment" in x]
        assert "shop/web does not go on replacing its pods: 1 of 3. timed out." in warning
    assert [x for x in cluster.writes if "accessreviews" not in x[1]] == []


def test_check_mode_does_not_wait_for_a_deployment(cluster: TraceServer) -> None:
    cluster.change("ADDED", WEB, deployment(4, 1))
    began = time.monotonic()
    result = step(cluster, **NOTHING_TO_MOVE, check=True)
    assert (result.finished, result.failure, result.changed) == (True, "", False)
    assert time.monotonic() - began < 3


def test_maintenance_that_moves_back_does_not_wait_for_a_deployment(cluster: TraceServer) -> None:
    """It may have evicted a pod of it, and fails for no workload rollout that was there before."""
    cluster.change("ADDED", WEB, deployment(4, 1))
    web = {"kind": "Deployment", "namespace": "shop", "name": "web"}
    result = step(cluster, **NOTHING_TO_MOVE, only=[web])
    assert (result.finished, result.failure, cluster.writes) == (True, "", [])


def test_map_of_places_does_not_wait_for_a_deployment(cluster: TraceServer) -> None:
    cluster.change("ADDED", WEB, deployment(4, 1))
    result = step(cluster, namespaces=None, places={"shop/db0": "w1"})
    assert (result.finished, result.failure) == (True, "")
    assert [x for x in cluster.writes if "accessreviews" not in x[1]] == []


def test_time_that_is_over_before_the_step(cluster: TraceServer) -> None:
    result = step(cluster, RunState(elapsed=99.0, waiting="waiting: soak"), run_timeout=60)
    assert result.failure == "not done within 60 s (run_timeout): waiting: soak"
    assert cluster.writes == []


def test_unknown_namespace_is_refused_before_the_lease(cluster: TraceServer) -> None:
    with pytest.raises(InvalidInput, match="there is no namespace 'shp'"):
        step(cluster, namespaces=["shp"])
    assert cluster.writes == []


def endless_from(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Plans do not end from this one on, and a step ends a second after its beginning."""
    monkeypatch.setattr(transport, "COMPUTING_GRACE", 0.1)
    monkeypatch.setattr(context, "OVERTIME", 0.0)
    plan = JudgedSnapshot.plan
    plans: list[JudgedSnapshot] = []

    def endless(view: JudgedSnapshot, *arguments: t.Any) -> t.Any:
        plans.append(view)
        while len(plans) >= number:
            sum(range(1000))
        return plan(view, *arguments)

    monkeypatch.setattr(JudgedSnapshot, "plan", endless)


def test_computing_before_the_first_write_is_bounded(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless_from(monkeypatch, 1)
    with pytest.raises(ComputingTimeout, match="not done within 1 s: the cluster was read"):
        step(cluster, run_timeout=1)
    assert cluster.writes == []


def test_computing_of_a_run_is_bounded_and_the_lease_given_back(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless_from(monkeypatch, 2)
    result = step(cluster, run_timeout=1)
    assert result.finished
    assert result.failure.startswith("not done within 1 s: the cluster was read")
    assert lease_patches(cluster)[-1]["/spec/holderIdentity"] == ""


def test_no_request_is_taken_for_computing() -> None:
    seen: list[bool] = []

    def clock() -> float:
        seen.append(no_request_under_way(sys._getframe()))
        return 0.0

    clock()
    Deadline(1.0, clock=clock)
    assert seen == [True, False]


LEADER = "/apis/coordination.k8s.io/v1/namespaces/kubevirt/leases/virt-controller"


def until_it_ends(cluster: TraceServer, **options: t.Any) -> tuple[StepResult, list[str]]:
    """The last step of a run, and the lines of all its steps."""
    result = step(cluster, **options)
    lines = list(result.progress)
    while not result.finished:
        # through JSON, as from one module to the next
        state = RunState.read(json.loads(json.dumps(result.as_json()["step_state"])))
        result = step(cluster, state, **options)
        lines += result.progress
    return result, lines


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds stand for minutes."""
    monkeypatch.setattr(watch, "SLOW_POLL", 0.1)
    monkeypatch.setattr(watch, "STEP_SECONDS", 1.0)
    monkeypatch.setattr(watch, "REPORT_AFTER", 0.2)
    monkeypatch.setattr(watch, "READINGS", 0.0)
    monkeypatch.setattr(steps, "REMIND_AFTER", 1.0)
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(leader, "STALE_AFTER", 1.0)


def renew(cluster: TraceServer, at: str) -> None:
    metadata = {"name": "virt-controller", "namespace": "kubevirt", "uid": "lease"}
    spec = {"holderIdentity": "virt-controller-1", "renewTime": at}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    cluster.objects[LEADER] = {
        **kind,
        "metadata": {**metadata, "resourceVersion": at},
        "spec": spec,
    }


def test_run_that_waits_for_a_migration_says_so_each_minute(
    cluster: TraceServer, hanging: None, quick: None
) -> None:
    """Number 15 of issue 41: a rollout said nothing for 20 minutes."""
    renew(cluster, "2026-11-29T10:00:00.000000Z")
    over = threading.Event()

    def live() -> None:
        while not over.wait(0.1):
            renew(cluster, f"2026-11-29T10:00:{time.monotonic() % 60:09.6f}Z")

    thread = threading.Thread(target=live)
    thread.start()
    try:
        seconds = round(4 * min(slowness(), 5))
        _result, lines = until_it_ends(cluster, run_timeout=seconds)
    finally:
        over.set()
        thread.join()
    reminders = [line for line in lines if line.startswith("still waiting: ")]
    assert 2 <= len(reminders) <= seconds, lines
    migrating = r"still waiting: migrating VirtualMachine shop/web\d since \d\d:\d\d:\d\d \w+"
    for line in reminders:
        assert re.fullmatch(rf"{migrating} \(the migration is Pending\)", line)
    assert not any("does not answer" in line for line in lines)


def test_virt_controller_that_does_not_lead_is_named_by_its_lease(
    cluster: TraceServer, hanging: None, quick: None
) -> None:
    """Its migration has a phase, so only the Lease shows it."""
    renew(cluster, "2026-11-29T10:00:00.000000Z")
    result, lines = until_it_ends(cluster, run_timeout=8)
    silence = (
        "virt-controller does not answer: its Lease kubevirt/virt-controller was renewed last at"
        " 2026-11-29T10:00:00.000000Z; see Deployment virt-controller in namespace kubevirt"
    )
    named = [line for line in lines if line.endswith(f" waits: {silence}")]
    assert len(named) == 1, lines
    reminders = [line for line in lines if line.startswith("still waiting: migrating ")]
    assert reminders[-1].endswith(f"({silence})")
    assert silence in result.failure


@pytest.mark.parametrize("answer", [403, 404])
def test_lease_of_virt_controller_that_cannot_be_read_says_nothing(
    cluster: TraceServer,
    hanging: None,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    answer: int,
) -> None:
    if answer == 403:
        get = ApiClient.get

        def refused(api: ApiClient, path: str, **more: t.Any) -> t.Any:
            if path == LEADER:
                raise Forbidden(ApiRequest("GET", path), "no", status=403)
            return get(api, path, **more)

        monkeypatch.setattr(ApiClient, "get", refused)
    result, lines = until_it_ends(cluster, run_timeout=4)
    assert any(line.startswith("still waiting: migrating ") for line in lines)
    assert not any("does not answer" in line for line in lines)
    assert "does not answer" not in result.failure


def test_run_that_waits_for_a_workload_rollout_says_so_each_minute(
    cluster: TraceServer, quick: None
) -> None:
    cluster.change("ADDED", WEB, deployment(4, 1))
    _result, lines = until_it_ends(cluster, **NOTHING_TO_MOVE, run_timeout=4)
    text = "Deployment shop/web replaces its pods: 1 of 3"
    assert lines.count(f"waiting: {text}") == 1
    since = [line for line in lines if line.startswith(f"still waiting: {text} (since ")]
    assert len(since) >= 2, lines


def test_reminder_has_the_times_when_the_waits_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 36_000.0)
    monkeypatch.setattr(time, "localtime", time.gmtime)
    state, lines = RunState(printed_at=100.0, waiting_since=40.0), StepReport()
    ref = Ref("VirtualMachine", "shop", "db")
    records = [
        MoveRecord(ref, f"u{x}", ref, Method.MIGRATE, "w1", 1, 500.0 + x, note="it is Running")
        for x in (30, 0, 10, 20, 40)
    ]
    reminds = steps.Reminder(state, lines)
    reminds.remind(159.0, 600.0, records, "soaking")
    assert lines.lines == []
    reminds.remind(160.0, 600.0, records, "soaking")
    (line,) = lines.lines
    moving = "migrating VirtualMachine shop/db since 09:58:{} GMT (it is Running)"
    assert line == (
        f"still waiting: {moving.format(20)}; {moving.format(30)}; {moving.format(40)}; 2 more moves;"
        " soaking (since 09:58:00 GMT)"
    )
    reminds.remind(219.0, 660.0, records, "soaking")
    assert len(lines.lines) == 1


def test_outage_is_named_each_minute() -> None:
    state, lines = RunState(failing_since=10.0), StepReport()
    reminds = steps.Reminder(state, lines)
    error = Unreachable(ApiRequest("GET", "/api/v1/nodes"), "refused")
    reminds.remind_of_outage(10.0, error, begins=True)
    assert lines.lines == []
    for elapsed in (69.0, 70.0, 71.0, 131.0):
        reminds.remind_of_outage(elapsed, error, begins=False)
    assert len(lines.lines) == 2
    assert all(x.startswith("still no answer from the API server since ") for x in lines.lines)


def test_run_that_prints_lines_needs_no_reminder() -> None:
    state, lines = RunState(), StepReport()
    reminds = steps.Reminder(state, lines)
    for elapsed in range(0, 600, 30):
        lines.lines.append("[1/9] migrating")
        reminds.remind(float(elapsed), 0.0, (), "soaking")
    assert set(lines.lines) == {"[1/9] migrating"}
