# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout cut off at each of its writes, or with an API server that misbehaves: it converges, and
nothing is moved twice. The audit log, which no proxy stands before, is the witness."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import JOURNAL
from ansible_collections.virt.placement.plugins.module_utils.moves import context, step
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.modules import rules
from sandbox import Sandbox, objects
from sandbox.fault_proxy import WRITE, Rule, down, gone, lost_answer, reset, sigkill, status
from tests.job import Job
from tests.shop import ZONE, Object, Shop, forget_runs
from tests.terms import keep_machines_apart, pair_on_one_node

WRITES = 5
"""Of a run with one move: take the Lease, journal, move, tell (an Event), give the Lease back."""

MIGRATION = ("create", "virtualmachineinstancemigrations")
DELETION = ("delete", "virtualmachineinstances")
RESTART = ("update", "virtualmachines/restart")


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "cut"), run_module)
    forget_runs(six.api)


def two_of_a_set_on_one_node(shop: Shop) -> Object:
    """Two instances of a replica set on w1 that keep apart over zones: one deletion heals them."""
    made = objects.replica_set("web", shop.namespace, replicas=2)
    shop.start(made, nodes=["w1"])
    term = {
        "labelSelector": {"matchLabels": {"kubevirt.io/domain": "web"}},
        "topologyKey": ZONE,
    }
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shop.patch_template("VirtualMachineInstanceReplicaSet", "web", {"affinity": required})
    return {"allow": ["recreate"]}


def pair_of_machines(shop: Shop) -> Object:
    pair_on_one_node(shop)
    return {}


def pair_that_cannot_migrate(shop: Shop) -> Object:
    pair_on_one_node(shop, faults={"sandbox.virt/not-migratable": "DisksNotLiveMigratable"})
    return {"allow": ["migrate", "restart"]}


SCENES = {
    "migrate": (pair_of_machines, MIGRATION),
    "recreate": (two_of_a_set_on_one_node, DELETION),
    "restart": (pair_that_cannot_migrate, RESTART),
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_killed_at_a_write_and_run_again(
    shop: Shop, tmp_path: Path, scene: str, after: bool, write: int
) -> None:
    arrange, disruption = SCENES[scene]
    options = arrange(shop)
    job = Job(shop, tmp_path)
    mark = shop.sandbox.audit.mark()
    rule = Rule(WRITE, "/(?!selfsubject)", sigkill(after=after), nth=write)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        code, output = job.run(through=proxy.kubeconfig("mover"), **options)
        assert sum(seen.action == "sigkill" for seen in proxy.requests) == 1, output
    assert code != 0

    result = shop.roll(seconds=90, **options)

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [disruption], result["progress"]
    assert len(set(shop.zones())) == 2
    assert shop.lease_is_free()


POOL_WRITES = 17
"""Of a run that moves the three VMs of a held pool: for each journal, move and Event, then the revision of each VMI,
the strategy, and the Lease."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, POOL_WRITES + 1))
def test_held_pool_whose_run_is_killed_at_a_write_gets_its_strategy_back(
    shop: Shop, tmp_path: Path, after: bool, write: int
) -> None:
    """KubeVirt restarts no VM of it, and the next run moves none twice."""
    pool = objects.pool("web", shop.namespace, replicas=3)
    shop.start(pool, nodes=["w1", "w2"])
    path, uids = shop.path("VirtualMachinePool", "web"), shop.uids()
    rule = {
        "name": "apart",
        "workloads": [{"kind": "VirtualMachinePool", "name": "web"}],
        "keep_apart": "zone",
    }
    wanted = {"namespace": shop.namespace, "rules": [rule], "workload_rollout": "hold"}
    shop.done(rules.main, "mover", **wanted)
    job = Job(shop, tmp_path)
    mark = shop.sandbox.audit.mark()
    kill = Rule(WRITE, "/(?!selfsubject)", sigkill(after=after), nth=write)
    with shop.sandbox.fault_proxy([kill]) as proxy:
        code, output = job.run(through=proxy.kubeconfig("mover"))
        killed = sum(seen.action == "sigkill" for seen in proxy.requests)
    assert (code != 0) == bool(killed), (
        output
    )  # the journal is written once less where two moves end together

    result = shop.roll(seconds=90)

    assert not result.get("failed"), result.get("msg")
    found = shop.api.get(path)
    assert "updateStrategy" not in found["spec"], result["progress"]
    assert "placement.virt/hold" not in found["metadata"]["annotations"]
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    assert shop.disruptions(mark) == [MIGRATION] * 3, result["progress"]
    assert shop.uids() == uids, "no VM has restarted"
    assert shop.lease_is_free()


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_an_answer_that_is_lost_does_nothing_twice(shop: Shop, scene: str, write: int) -> None:
    arrange, disruption = SCENES[scene]
    options = arrange(shop)
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule(WRITE, "/", lost_answer(), nth=write)]) as proxy:
        kubeconfig = str(proxy.kubeconfig("mover"))
        result = shop.roll(seconds=90, kubeconfig=kubeconfig, **options)
        assert sum(seen.action == "lost_answer" for seen in proxy.requests) == 1

    assert not result.get("failed"), result.get("msg")
    made = [event for event in shop.disruptions(mark) if event == disruption]
    assert len(made) <= 2, "a create or delete that names its object may be sent again"
    assert [move["state"] for move in result["moves"]] == ["moved"]
    assert len(set(shop.zones())) == 2
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    "fault",
    [status(500), status(503), status(429), reset()],
    ids=["500", "503", "429", "reset"],
)
@pytest.mark.parametrize("request_number", [1, 5, 9, 14, 20, 30])
def test_an_error_at_any_request_is_survived(shop: Shop, fault: t.Any, request_number: int) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule("ANY", "/", fault, nth=request_number)]) as proxy:
        result = shop.roll(seconds=90, kubeconfig=str(proxy.kubeconfig("mover")))
        assert any(seen.action for seen in proxy.requests)

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [MIGRATION]
    assert len(set(shop.zones())) == 2


@pytest.mark.parametrize(
    "fault",
    [gone(events=1), reset(), status(403), status(500)],
    ids=["410 after an event", "reset", "403", "500"],
)
def test_rollout_needs_no_watch_to_converge(shop: Shop, fault: t.Any) -> None:
    pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "3"})
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule("GET", "watch=true", fault)]) as proxy:
        result = shop.roll(seconds=90, kubeconfig=str(proxy.kubeconfig("mover")))
        assert any(seen.action for seen in proxy.requests)

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved"]
    assert shop.disruptions(mark) == [MIGRATION]
    assert len(set(shop.zones())) == 2


def test_an_api_server_that_is_away_for_a_while_is_waited_for(shop: Shop) -> None:
    pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "5"})
    mark = shop.sandbox.audit.mark()
    rule = Rule("GET", "virtualmachineinstancemigrations/placement-", down(seconds=20), nth=2)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        result = shop.roll(seconds=120, run_timeout=110, kubeconfig=str(proxy.kubeconfig("mover")))

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [MIGRATION]
    assert len(set(shop.zones())) == 2


LISTS = r"/virtualmachineinstances\?"
FOR_EVER = range(2, 10**9)
"""From the second one on: the first look is needed to begin."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps give up a request, and runs a server, after seconds in place of minutes."""
    monkeypatch.setattr(context, "STEP_LIMIT", 4.0)
    monkeypatch.setattr(step, "PATIENCE", 8.0)


ENDS = {
    "patience": (600, "no answer for 8 s: "),
    "timeout": (6, "not done within 6 s"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.usefixtures("hurried")
def test_lists_that_fail_for_ever_end_the_run(shop: Shop, end: str) -> None:
    pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "30"})
    mark = shop.sandbox.audit.mark()
    timeout, message = ENDS[end]
    with shop.sandbox.fault_proxy([Rule("GET", LISTS, status(500), nth=FOR_EVER)]) as proxy:
        kubeconfig = str(proxy.kubeconfig("mover"))
        result = shop.roll(seconds=40, run_timeout=timeout, kubeconfig=kubeconfig)

    assert result["failed"]
    assert result["msg"].startswith(message)
    assert re.search(
        r"; the next rollout continues the moves in flight: .*/p\d \(migrate\)$", result["msg"]
    )
    assert shop.disruptions(mark) == [MIGRATION]
    assert result["changed"] is True
    lease = shop.lease()
    assert lease["spec"]["holderIdentity"] == "", "it was given back: the Lease could be written"
    assert len(journals.read(lease["metadata"]["annotations"][JOURNAL]).records) == 1
    assert sum(" from the API server since " in line for line in result["progress"]) <= 1


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.usefixtures("hurried")
def test_a_lease_that_can_never_be_written_ends_the_run(shop: Shop, end: str) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()
    timeout, message = ENDS[end]
    with shop.sandbox.fault_proxy([Rule("PATCH", "/leases/", status(500), nth=FOR_EVER)]) as proxy:
        kubeconfig = str(proxy.kubeconfig("mover"))
        result = shop.roll(seconds=40, run_timeout=timeout, kubeconfig=kubeconfig)

    assert result["failed"]
    assert result["msg"].startswith(message)
    assert "could not be released and expires in 20 s: cannot patch leases" in result["msg"]
    assert shop.disruptions(mark) == []
    assert (result["moves"], result["changed"]) == ([], False)
    assert "in flight" not in result["msg"]
    began = [line for line in result["progress"] if "migrating" in line]
    assert began == [], "nothing began that is in no journal"


def test_a_lease_that_can_never_be_taken_is_named(shop: Shop) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule("PATCH", "/leases/", status(500))]) as proxy:
        result = shop.roll(run_timeout=6, kubeconfig=str(proxy.kubeconfig("mover")))

    assert result["failed"]
    assert result["msg"].startswith("not done within 6 s (run_timeout): Lease ")
    assert "could not be taken" in result["msg"]
    assert shop.disruptions(mark) == []
    assert not result["changed"]


def test_a_run_that_lost_its_lease_disrupts_nothing_more(shop: Shop) -> None:
    """Another run takes the Lease while this one is between two steps."""
    names = [f"q{number}" for number in range(3)]
    machines = [objects.virtual_machine(name, shop.namespace) for name in names]
    shop.start(*machines, nodes=["w1", "w2"])
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()
    rule = Rule(
        "POST", "virtualmachineinstancemigrations", sigkill(lambda: shop.hold_lease("r-thief"))
    )
    with shop.sandbox.fault_proxy([rule]) as proxy:
        result = shop.roll(seconds=60, kubeconfig=str(proxy.kubeconfig("mover")))
        sent = [seen for seen in proxy.requests if seen.action == "sigkill"]

    assert result["failed"]
    assert "is held by r-thief now" in result["msg"]
    assert len(sent) == 1, "after the theft was noticed nothing was sent again"
    assert shop.disruptions(mark) == []


LAST_LOOK = "/virtualmachineinstances/[a-z]"
SENT = "virtualmachineinstancemigrations|/restart|virtualmachineinstances/[a-z]"


@pytest.mark.parametrize(
    ("scene", "at"),
    [
        *((scene, at) for scene in SCENES for at in ("before its last look", "with it lost")),
        # KubeVirt's restart knows no precondition: one that comes that late restarts again
        *((scene, "with it on its way") for scene in ("migrate", "recreate")),
    ],
)
def test_run_that_was_frozen_past_its_lease_disrupts_nothing_afterwards(
    shop: Shop, tmp_path: Path, scene: str, at: str
) -> None:
    """Stopped with a move in the journal: before the last look at the instance, or with the request
    sent, and that lost or late. Another task takes over and ends before the first one goes on."""
    arrange, disruption = SCENES[scene]
    options = arrange(shop)
    job = Job(shop, tmp_path)
    mark = shop.sandbox.audit.mark()
    looks = at == "before its last look"
    method, path = ("GET", LAST_LOOK) if looks else ("POST|PUT|DELETE", SENT)

    result, code, output = job.frozen(
        lambda freeze: Rule(method, path, freeze, 1),
        lambda: shop.roll(seconds=90, **options),
        late=at == "with it on its way",
        **options,
    )

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved"]
    assert code != 0, output
    taken_by = shop.lease()["metadata"]["annotations"]["placement.virt/run"]
    assert f"was taken over by {taken_by}, and released since" in output
    assert shop.disruptions(mark, refused=False) == [disruption]
    assert len(set(shop.zones())) == 2
