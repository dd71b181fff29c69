# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and rollouts with guests that run: each counts on its console, and goes on where it is migrated to."""

from __future__ import annotations

import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from tests.guests import Guests, servers
from tests.job import Job
from tests.shop import PATIENCE

ZONES = ["zone1", "zone2", "zone3"]


def apart(*names: str) -> dict[str, object]:
    return {"name": "apart", "workloads": [{"names": list(names)}], "keep_apart": "zone"}


@pytest.mark.real_tour
def test_rule_moves_guests_and_they_count_on(guests: Guests) -> None:
    names = ("a0", "a1", "a2")
    guests.start_guests(*names, node="w1")
    guests.declare(apart(*names))
    before = guests.uids()
    mark = guests.sandbox.audit.mark()

    result = guests.roll_out()

    assert not result.get("failed"), result.get("msg")
    assert guests.zones() == ZONES
    assert guests.uids() == before
    guests.assert_went_on(*names)
    assert guests.disruptions(mark) == [("create", "virtualmachineinstancemigrations")] * 2
    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]

    mark = guests.sandbox.audit.mark()
    again = guests.roll_out()

    assert (again["changed"], again["moves"]) == (False, [])
    assert guests.sandbox.audit.writes(since=mark) == []


@pytest.mark.real_tour
@pytest.mark.packaged_modules
def test_rollout_that_is_killed_in_a_real_migration_is_continued(
    guests: Guests, tmp_path: Path
) -> None:
    names = ("p0", "p1")
    guests.start_guests(*names, node="w1")
    guests.declare(apart(*names))
    before = guests.uids()
    mark = guests.sandbox.audit.mark()
    job = Job(guests, tmp_path)
    limits: dict[str, t.Any] = {"run_timeout": PATIENCE, "move_timeout": PATIENCE // 2}
    first = job.start(**limits)
    first.until_line("[1/1] migrating")
    first.end()
    assert first.returncode == -signal.SIGKILL

    second = job.start(**limits)
    output, _errors = second.communicate(timeout=2 * PATIENCE)

    assert second.returncode == 0, output
    assert "continuing run r" in output
    assert len({guests.zone(node) for node in guests.nodes().values()}) == 2
    assert guests.uids() == before
    guests.assert_went_on(*names)
    assert guests.disruptions(mark) == [("create", "virtualmachineinstancemigrations")]
    assert guests.lease()["spec"]["holderIdentity"] == ""


def test_target_moves_before_its_follower_and_both_stay_apart_from_a_third(guests: Guests) -> None:
    """Two dependent moves right after each other: the source pod of the first lingers for some seconds, and the
    second waits for its end."""
    guests.start_guests("db", "app", "other", node="w1")
    together = {"with": "db", "topology_key": "node"}
    guests.declare(
        {"name": "db-in-zone2", "workloads": ["db"], "run_on": {"zone": "zone2"}},
        {"name": "app-beside-db", "workloads": ["app"], "keep_together": together},
        apart("db", "other"),
    )
    before = guests.uids()

    result = guests.roll_out()

    assert not result.get("failed"), result.get("msg")
    assert [(move["name"], move["state"]) for move in result["moves"]] == [
        ("db", "moved"),
        ("app", "moved"),
    ]
    assert guests.nodes() == {"db": "w2", "app": "w2", "other": "w1"}
    assert guests.uids() == before
    guests.assert_went_on("db", "app", "other")


def test_undo_moves_nothing_and_leaves_no_rule(guests: Guests) -> None:
    names = ("u0", "u1")
    guests.start_guests(*names, node="w1")
    paths = {name: guests.path("VirtualMachine", name) for name in names}
    before = {name: guests.api.get(path)["spec"]["template"] for name, path in paths.items()}
    guests.declare(apart(*names))
    assert not guests.roll_out().get("failed")
    nodes = guests.nodes()

    undone = guests.declare(state="reverted")

    assert undone["counts"]["changed"] == 2
    assert {name: guests.api.get(path)["spec"]["template"] for name, path in paths.items()} == (
        before
    )
    again = guests.roll_out()
    assert (again.get("failed"), again["moves"]) == (None, [])
    assert guests.nodes() == nodes
    guests.assert_went_on(*names)


def test_restart_applies_a_pending_change_and_is_another_boot(guests: Guests) -> None:
    guests.start_guests("r0", node="w1")
    spec = {"domain": {"memory": {"guest": "160Mi"}}, "terminationGracePeriodSeconds": 3}
    guests.patch_template("VirtualMachine", "r0", spec)
    guests.declare({"name": "elsewhere", "workloads": ["r0"], "run_on": {"zone": "zone3"}})
    first = guests.witness.count("r0").boots
    uids = guests.uids()

    refused = guests.roll_out(allow=["restart"])

    assert (refused["moves"], guests.uids()) == ([], uids)
    (skipped,) = refused["skipped_instances"]
    assert "other pending changes" in skipped["reason"]

    result = guests.roll_out(allow=["restart"], apply_pending_changes=True)

    assert [(move["name"], move["method"], move["state"]) for move in result["moves"]] == [
        ("r0", "restart", "moved")
    ]
    assert guests.nodes() == {"r0": "w3"}
    vmi = guests.instances()["r0"]
    assert vmi["spec"]["domain"]["memory"]["guest"] == "160Mi"
    guests.witness.wait("r0", timeout=PATIENCE)
    boots = guests.witness.count("r0").boots
    assert boots[:1] == first and len(boots) == 2


@pytest.mark.packaged_modules
def test_second_rollout_at_once_begins_nothing(guests: Guests, tmp_path: Path) -> None:
    names = ("s0", "s1", "s2")
    guests.start_guests(*names, node="w1")
    guests.declare(apart(*names))
    before, mark = guests.uids(), guests.sandbox.audit.mark()
    limits: dict[str, t.Any] = {"run_timeout": PATIENCE, "max_parallel": 1}
    with guests.sandbox.real_nodes["w1"].slow_network(4):
        first = Job(guests, tmp_path).start(**limits)
        first.until_line("[1/2] migrating")
        second = guests.roll_out(run_timeout=5)
    output, _errors = first.communicate(timeout=2 * PATIENCE)

    assert second["failed"]
    assert "is held by run r" in second["msg"]
    assert first.returncode == 0, output
    assert guests.zones() == ZONES
    assert guests.uids() == before
    assert guests.disruptions(mark) == [("create", "virtualmachineinstancemigrations")] * 2
    guests.assert_went_on(*names)


def test_migration_that_never_converges_is_canceled_and_the_next_run_moves_the_guest(
    guests: Guests,
) -> None:
    """The guest changes its memory faster than its node sends it, until the network is as it was."""
    guests.start_guests("n0", node="w1", arguments=("fill=24", "dirty=1"))
    guests.declare({"name": "elsewhere", "workloads": ["n0"], "run_on": {"zone": "zone2"}})
    before = guests.uids()

    with guests.sandbox.real_nodes["w1"].slow_network(4):
        stopped = guests.roll_out(move_timeout=PATIENCE // 4)

    assert stopped["failed"]
    (move,) = stopped["moves"]
    assert (move["name"], move["state"], move["from_node"]) == ("n0", "failed", "w1")
    assert move["reason"].startswith("canceled because it took too long: the migration is Running")
    assert (guests.nodes(), guests.uids()) == ({"n0": "w1"}, before)
    assert (guests.migrated(), guests.in_flight()) == (0, 0)
    guests.assert_went_on("n0")

    result = guests.roll_out()

    assert not result.get("failed"), result.get("msg")
    assert [(move["name"], move["state"]) for move in result["moves"]] == [("n0", "moved")]
    assert (guests.nodes(), guests.uids()) == ({"n0": "w2"}, before)
    assert guests.migrated() == 1
    guests.assert_went_on("n0")


def test_article_is_placed_in_three_zones_and_its_guests_count_on(guests: Guests) -> None:
    """KubeVirt's article on advanced scheduling: a database in each zone, a cache in each zone, and an application
    beside each cache. The databases and applications are guests that all start on one node."""
    databases, applications = ["db0", "db1", "db2"], ["app0", "app1", "app2"]
    guests.start_guests(*databases, *applications, node="w1")
    guests.api.create(guests.path("Deployment"), servers(guests, 3, "cache"))
    path = guests.path("Deployment", "cache")
    guests.api.wait(lambda seen: seen["status"].get("readyReplicas") == 3, path, PATIENCE)
    before = guests.uids()
    cache = {"kind": "Deployment", "name": "cache"}
    beside = {"with": cache, "topology_key": "node"}
    guests.declare(
        {"name": "databases", "workloads": [{"names": databases}], "keep_apart": "zone"},
        {"name": "caches", "workloads": [cache], "keep_apart": "zone"},
        {"name": "beside", "workloads": [{"names": applications}], "keep_together": beside},
        {"name": "applications", "workloads": [{"names": applications}], "keep_apart": "zone"},
        workload_rollout="allow",
    )

    result = guests.roll_out()

    assert not result.get("failed"), result.get("msg")
    nodes = guests.nodes()
    for names in (databases, applications):
        assert sorted(guests.zone(nodes[name]) for name in names) == ZONES
    assert (guests.uids(), guests.migrated()) == (before, 4)
    wanted = {"namespaces": [guests.namespace], "details": "summary"}
    summary = guests.done(placement_info.main, "reader", **wanted)["summary"]
    wrong = ("violated", "misplaced", "pending", "unknown", "down")
    assert (summary["instances"], [summary[name] for name in wrong]) == (9, [0] * len(wrong))
    guests.assert_went_on(*databases, *applications)
