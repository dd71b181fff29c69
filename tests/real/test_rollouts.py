# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and rollouts with guests that run: each counts on its console, and goes on where it is migrated to."""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

import pytest

from tests.guests import PATIENCE, Guests
from tests.job import Job

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
    assert first.stdout is not None
    for line in first.stdout:
        if "[1/1] migrating" in line:
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()

    second = job.start(**limits)
    output, _errors = second.communicate()

    assert second.returncode == 0, output
    assert "continuing run r" in output
    assert len({guests.zone(node) for node in guests.nodes().values()}) == 2
    assert guests.uids() == before
    guests.assert_went_on(*names)
    assert guests.disruptions(mark) == [("create", "virtualmachineinstancemigrations")]
    assert guests.lease()["spec"]["holderIdentity"] == ""
