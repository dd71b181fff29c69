# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance killed at each of its writes: the next task ends what it began, no VM stops, and no
cordon of others is lifted. The audit log is the witness."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.fault_proxy import WRITE, Rule, sigkill
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, pods_on, vms

WRITES = 11
"""Of a drain of a VM and a pod that are not reviews: a dry run of the eviction, take the Lease, cordon, journal,
its Event, migrate, evict, two Events, drained and its Event, release the Lease. Renewals may come between."""

MIGRATION = ("create", "virtualmachineinstancemigrations")
EVICTION = ("create", "pods/eviction")


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "killed"), run_module) as shop:
        yield shop


def occupied(shop: Maintenance) -> set[str]:
    """A VM and a pod on w2, and a cordon of another client on w6; the uids of VMIs."""
    shop.start(*vms(shop, "a"), nodes=["w2"])
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    drain.cordon(shop.sandbox, "w6")
    return shop.uids()


def killed(shop: Maintenance, folder: Path, state: str, *, write: int, after: bool) -> bool:
    """Runs the task as a job that is killed at this write; whether it came so far."""
    job = Job(shop, folder, "node_maintenance", shop.identity)
    rule = Rule(WRITE, "/(?!selfsubject)", sigkill(after=after), nth=write)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        code, output = job.run(
            through=proxy.kubeconfig(shop.identity), nodes=["w2"], state=state, run_timeout=60
        )
        hit = any(seen.action == "sigkill" for seen in proxy.requests)
    assert hit == (code != 0), output
    return hit


def assert_invariants(shop: Maintenance, uids: set[str], mark: t.Any) -> None:
    assert shop.uids() == uids, "a VM was stopped"
    assert shop.cordoned("w6"), "the cordon of another client was lifted"
    assert shop.mark("w6") is None
    done = shop.disruptions(mark, refused=False)
    assert done.count(MIGRATION) == 1, done
    assert done.count(EVICTION) == 1, done
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_drain_killed_at_a_write_and_run_again(
    shop: Maintenance, tmp_path: Path, after: bool, write: int
) -> None:
    uids = occupied(shop)
    mark = shop.sandbox.audit.mark()
    assert killed(shop, tmp_path, "drained", write=write, after=after)

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, "w2") == []
    assert_invariants(shop, uids, mark)
    node = shop.mark("w2")
    assert node is not None and node["phase"] == "drained" and node["cordoned"] is True
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.cordoned("w6")


@pytest.mark.parametrize("write", range(2, WRITES + 1))
def test_drain_killed_at_a_write_and_undone(shop: Maintenance, tmp_path: Path, write: int) -> None:
    uids = occupied(shop)
    assert killed(shop, tmp_path, "drained", write=write, after=True)

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.uids() == uids
    assert shop.cordoned("w6")
    evacuated = [vmi["status"].get("evacuationNodeName") for vmi in shop.instances().values()]
    assert evacuated == [None]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_return_killed_at_its_write_and_run_again(
    shop: Maintenance, tmp_path: Path, after: bool
) -> None:
    shop.maintain("cordoned", "w2")
    assert killed(shop, tmp_path, "in_service", write=1, after=after)

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert result["changed"] is not after
    assert not shop.cordoned("w2") and shop.mark("w2") is None
