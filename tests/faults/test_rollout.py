# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout cut off at each of its writes, or with an API server that misbehaves: it converges, and
nothing is moved twice. The audit log, which no proxy stands before, is the witness."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox, objects
from sandbox.fault_proxy import WRITE, Rule, down, lost_answer, reset, sigkill, status
from tests.job import Job
from tests.shop import LEASE, ZONE, Object, Shop
from tests.terms import keep_machines_apart, pair_on_one_node

WRITES = 5
"""Of a run with one move: take the Lease, journal, move, tell (an Event), give the Lease back."""

MIGRATION = ("create", "virtualmachineinstancemigrations")
DELETION = ("delete", "virtualmachineinstances")


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "cut"), run_module)
    if six.api.find(LEASE):
        six.api.delete(LEASE)


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


SCENES = {
    "migrate": (pair_of_machines, MIGRATION),
    "recreate": (two_of_a_set_on_one_node, DELETION),
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
    assert shop.lease()["spec"]["holderIdentity"] == ""


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
    assert [move["outcome"] for move in result["moves"]] == ["moved"]
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


def test_an_api_server_that_is_away_for_a_while_is_waited_for(shop: Shop) -> None:
    pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "5"})
    mark = shop.sandbox.audit.mark()
    rule = Rule("GET", "virtualmachineinstancemigrations/placement-", down(seconds=20), nth=2)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        result = shop.roll(seconds=120, timeout=110, kubeconfig=str(proxy.kubeconfig("mover")))

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [MIGRATION]
    assert len(set(shop.zones())) == 2


def test_who_was_overtaken_disrupts_nothing_more(shop: Shop) -> None:
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
    assert "held by r-thief now" in result["msg"]
    assert len(sent) == 1, "after the theft was noticed nothing was sent again"
    assert shop.disruptions(mark) == []
