# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles verify and drill with keep_room_for: what they ask, print, and fail with."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils import job_stages, job_verify
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.registry import at
from tests.unit.report.results import shop_placement

DRILL = {"domains_of": ["node"], "event": "failure"}
VERIFY: dict[str, t.Any] = {
    "namespaces": [],
    "workloads": [],
    "columns": ["zone"],
    "fail_on": [],
    "report": {},
}


RED = (
    "If node w1 fails, VirtualMachineInstance shop/db has no node (1.0 CPU, 1.0 GiB memory requested): node w3 lacks"
    " 12.0 GiB memory for db"
)
POSSIBLE = "If node w2 fails, the forecast is possible (not guaranteed: db may wait)"
WORST = {"green": "", "red": RED, "possible": POSSIBLE, "unknown": "unknown: cannot list pods"}


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
        result["worst"] = WORST[self.capacity]
        if not how.get("check"):
            self.record.note(module, result)
        return result

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines


class ApplyJob(RoomJob):
    """`before`: the answer without the rules."""

    check_mode = False

    def __init__(self, before: str, after: str) -> None:
        super().__init__("apply", after, ["node"])
        names = ("namespace", "rule_set", "rules", "state", "prune", "adopt", "new_members")
        self.record.asked |= dict.fromkeys(names)
        self.before, self.after = before, after

    def run(self, module: str, arguments: dict[str, t.Any], **how: bool) -> dict[str, t.Any]:
        self.capacity = self.after if "rules" in arguments else self.before
        return super().run(module, arguments, **how)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("green", "red", f"{RED}. Without these rules it is green."),
        ("red", "red", f"{RED}. It is red already without these rules: If node w1 fails, "),
        (
            "possible",
            "red",
            f"{RED}. It is possible already without these rules: {POSSIBLE}.",
        ),
        (
            "green",
            "possible",
            f"{POSSIBLE}. Without these rules it is green.",
        ),
        ("green", "unknown", "unknown: cannot list pods. Without these rules it is green."),
    ],
)
def test_refused_rules_are_the_cause_or_not(before: str, after: str, cause: str) -> None:
    job = ApplyJob(before, after)

    with pytest.raises(JobFailed) as refused:
        at("check placement_apply", t.cast(t.Any, job))

    (line,) = refused.value.lines
    option = "placement_apply_keep_room_for"
    assert line.startswith(
        f"With these rules the capacity is {after}, not green ({option}). {cause}"
    )
    assert line.endswith(" The lines above show all. No rule was written, and nothing is moved.")
    assert job.shown == [f"{after.upper()}: shop/db"]
    assert job.record.last("capacity_info")["capacity"] == after


def test_rules_with_room_ask_once() -> None:
    job = ApplyJob("red", "green")
    at("check placement_apply", t.cast(t.Any, job))
    assert len(job.asked) == 1


def ended(role: str, capacity: str, *keep_room_for: str) -> tuple[RoomJob, list[str]]:
    job = RoomJob(role, capacity, list(keep_room_for))
    stage = {"drill": job_stages.show, "verify": job_verify.verify}[role]
    try:
        stage(t.cast(t.Any, job))
    except JobFailed as error:
        return job, error.lines
    return job, []


@pytest.mark.parametrize("role", ["drill", "verify"])
def test_role_fails_without_room_and_shows_what_has_no_node(role: str) -> None:
    job, errors = ended(role, "red", "zone")

    assert errors == [
        f"Now the capacity is red, not green (placement_{role}_keep_room_for). {RED}. The lines above show all."
    ]
    assert job.asked == [{"tolerate": ["zone"], "topology_keys": {}}]
    assert job.shown[-1] == "RED: shop/db"
    assert job.record.last("capacity_info")["capacity"] == "red"


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
