# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles verify and drill with keep_room_for: what they ask, print, and fail with."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils import job_stages, job_verify
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from tests.unit.report.results import shop_placement

DRILL = {"domains_of": ["node"], "event": "failure"}
VERIFY: dict[str, t.Any] = {
    "namespaces": [],
    "workloads": [],
    "columns": ["zone"],
    "fail_on": [],
    "report": {},
}


class RoomJob:
    """A job whose capacity_info has an answer."""

    def __init__(self, role: str, capacity: str, keep_room_for: list[str]) -> None:
        options = {**VERIFY, **DRILL, "topology_keys": {}, "keep_room_for": keep_room_for}
        self.role = f"placement_{role}"
        self.record = JobRecord(self.role, "prod", "play", 0.0, asked=options)
        self.arguments = {"lines": ["the drill"], "failures": []}
        self.capacity = capacity
        self.shown: list[str] = []
        self.asked: list[dict[str, t.Any]] = []

    def run(self, module: str, arguments: dict[str, t.Any], **how: bool) -> dict[str, t.Any]:
        if module == "placement_info":
            return shop_placement()
        self.asked.append(arguments)
        if self.capacity == "bad":
            return {"failed": True, "msg": "tolerate[0]: unknown topology 'zon'"}
        result = {"capacity": self.capacity, "table": f"{self.capacity.upper()}: shop/db"}
        if not how.get("check"):
            self.record.note(module, result)
        return result

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines


def ended(role: str, capacity: str, *keep_room_for: str) -> tuple[RoomJob, list[str]]:
    job = RoomJob(role, capacity, list(keep_room_for))
    stage = {"drill": job_stages.show_drill, "verify": job_verify.verify}[role]
    try:
        stage(t.cast(t.Any, job))
    except JobFailed as error:
        return job, error.lines
    return job, []


@pytest.mark.parametrize("role", ["drill", "verify"])
def test_role_fails_without_room_and_shows_what_has_no_node(role: str) -> None:
    job, errors = ended(role, "red", "zone")

    assert errors == [
        f"Now the capacity is red, not green (placement_{role}_keep_room_for). The lines above show why."
    ]
    assert job.asked == [{"tolerate": ["zone"], "topology_keys": {}}]
    assert job.shown[-1] == "RED: shop/db"
    assert "capacity if any one of these fails (zone): red" in closing_of(job.record, 1).done


@pytest.mark.parametrize("role", ["drill", "verify"])
def test_role_with_room_does_not_fail(role: str) -> None:
    job, errors = ended(role, "green", "node")

    assert errors == []
    assert job.shown[-1] == "GREEN: shop/db"


@pytest.mark.parametrize("role", ["drill", "verify"])
def test_role_asks_for_no_room_by_default(role: str) -> None:
    assert ended(role, "red")[0].asked == []


@pytest.mark.parametrize("role", ["drill", "verify"])
def test_unknown_domain_is_named_by_the_variable(role: str) -> None:
    _job, errors = ended(role, "bad", "zon")

    assert errors == [f"placement_{role}_keep_room_for[0]: unknown topology 'zon'"]
