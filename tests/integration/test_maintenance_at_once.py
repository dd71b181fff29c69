# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Five jobs of the role placement_maintenance that are started at once, as by five people, on a real control plane."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, vms
from tests.witness import by_name, watching

pytestmark = pytest.mark.packaged_modules

JOBS = 5
SERVICED = {"w1": "zone1", "w3": "zone2"}
SLOW = {"sandbox.virt/migration-seconds": "6"}

REASONS = (
    r"is held by run \S+ \(\S+ on host \S+\), which is running .* w[13]",
    r"would be in maintenance in 2 topology domains .*w[13] \(zone",
    r"run \S+ moves instances away from w[13] and is running",
    r"Node w[13]: was put in service, or taken by another run, during its maintenance",
    r"Node w[13]: was put in service meanwhile",
    r"Node w[13]: was put into maintenance again",
    r"Node w[13] is not drained any more",
)
"""Why a job may end before its nodes are done: docs/maintenance.md says what to do about each."""


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "at-once"), run_module) as shop:
        yield shop


@pytest.mark.sweep
def test_five_maintenances_at_once_service_each_node_and_stop_no_vm(
    shop: Maintenance, tmp_path: Path
) -> None:
    for node in SERVICED:
        shop.start(*vms(shop, f"on-{node}", cpu="100m", annotations=SLOW), nodes=[node])
    before, began = shop.uids(), shop.sandbox.audit.mark()
    jobs, plays = [], []
    for number in range(JOBS):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs.append(Job(shop, folder, "node_maintenance", shop.identity))
        note = f"echo {{{{ placement_maintenance_node }}}} >> {folder / 'done'}; sleep 2"
        plays.append(shop.play(folder, SERVICED, {"ansible.builtin.shell": note}))

    with watching(shop.sandbox, shop.namespace) as history:
        running = [job.start_play(play) for job, play in zip(jobs, plays, strict=True)]
        ended = [(job.rest(), job.returncode) for job in running]

    assert any(code == 0 for _output, code in ended), ended
    for output, code in ended:
        assert code == 0 or any(re.search(reason, output) for reason in REASONS), output
    done = [path.read_text().split() for job in jobs if (path := job.folder / "done").exists()]
    assert {name for names in done for name in names} == set(SERVICED)
    assert shop.uids() == before
    assert shop.lease()["spec"]["holderIdentity"] == ""
    nodes = by_name(shop.api.list("/api/v1/nodes"))
    machines = by_name(shop.api.list(shop.path("VirtualMachine")))
    assert [
        *history.violated_invariants(max_nodes=1),
        *history.wrong_requests(shop.sandbox.audit.writes(since=began)),
        *history.violated_invariants_at_the_end(nodes, machines),
    ] == []
