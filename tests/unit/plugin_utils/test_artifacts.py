# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/awx.md describes all that jobs publish."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.plan import PAST
from ansible_collections.virt.placement.plugins.plugin_utils import job_stages
from ansible_collections.virt.placement.plugins.plugin_utils.closing import Closing
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import PUBLISHED

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "awx.md").read_text()


def table(heading: str) -> str:
    (rows,) = re.findall(rf"^{re.escape(heading)}\n\|[-|]+\n((?:\|.*\n)+)", GUIDE, re.MULTILINE)
    return str(rows)


PLANS = ("placement_rollout_plan", "placement_maintenance_plan")
"""Variables of roles, which are artifacts, too."""

OF_PLAYBOOKS = table("| playbook | artifact |")
OF_BLOCK = table("| key | content |")


def test_every_artifact_is_in_the_table_of_playbooks() -> None:
    assert set(re.findall(r"`(placement_\w+)`:", OF_PLAYBOOKS)) | {"placement_summary"} == {
        *PUBLISHED,
        *PLANS,
    }


def test_every_key_of_the_block_is_described() -> None:
    keys = [row.split("|")[1] for row in OF_BLOCK.splitlines()]
    described = [name for key in keys for name in re.findall(r"`(\w+)`", key)]
    assert sorted(described) == sorted(Closing("Verify", "done").data())


@pytest.mark.parametrize("word", [*PAST.values(), "ended_by_itself"])
def test_every_word_for_a_move_is_described(word: str) -> None:
    (row,) = [row for row in OF_BLOCK.splitlines() if row.startswith("| `moves`")]
    assert f"`{word}`" in row


class ClosedJob:
    """A job that ends."""

    host = "lab"

    def __init__(self, role: str, notes: list[dict[str, t.Any]]) -> None:
        self.role = f"placement_{role}"
        self.record = JobRecord(self.role, self.host, "play", 0.0, notes=notes)

    def show(self, lines: t.Iterable[str]) -> None:
        pass


SUMMARY: dict[str, t.Any] = {
    "module": "placement_info",
    "failed": False,
    "summary": {"instances": 0},
}
DRILL: dict[str, t.Any] = {
    "module": "drill_info",
    "failed": False,
    "forecast": "guaranteed",
    "domains": [],
}
ROOM: dict[str, t.Any] = {
    "module": "capacity_info",
    "capacity": "green",
    "room_for": None,
    "domains": [],
}
POLICY: dict[str, t.Any] = {
    "module": "rules",
    "failed": False,
    "new_members": {"manifests": [{"kind": "MutatingAdmissionPolicy"}]},
}


@pytest.mark.parametrize(("error", "is_there"), [("permission", True), ("finding", False)])
def test_policy_of_refused_rules_is_no_artifact(error: str, is_there: bool) -> None:
    """An administrator applies it where only the right is missing."""
    entry = {"code": "none_written", "text": "rules: none was written", "objects": []}
    outcome = {"done": [entry], "skipped": [], "next": []}
    errors = [{"type": error, "message": "why", "object": ""}]
    note = {**POLICY, "failed": True, "errors": errors, "outcome": outcome}
    closed = job_stages.close(t.cast(t.Any, ClosedJob("apply", [note])))
    assert ("placement_policy" in closed["ansible_stats"]["data"]) is is_there


@pytest.mark.parametrize(
    ("role", "note", "artifact"),
    [
        *((role, SUMMARY, "placement_summary") for role in ("verify", "apply", "undo", "report")),
        *((role, DRILL, "placement_drill") for role in ("drill", "report")),
        *((role, POLICY, "placement_policy") for role in ("apply", "undo")),
        *((x, ROOM, "placement_capacity") for x in ("capacity", "apply", "verify", "drill")),
    ],
)
def test_artifact_of_a_playbook_is_in_its_row(
    role: str, note: dict[str, t.Any], artifact: str
) -> None:
    closed = job_stages.close(t.cast(t.Any, ClosedJob(role, [note])))

    published = closed["ansible_stats"]["data"]
    assert artifact in published
    if note is POLICY:
        assert published[artifact] == {"lab": POLICY["new_members"]}
    (row,) = [row for row in OF_PLAYBOOKS.splitlines() if f"`{artifact}`:" in row.split("|")[2]][:1]
    assert f"`{role}`" in row.split("|")[1]
