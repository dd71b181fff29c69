# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job says which nodes are in maintenance before the tasks of the user run, and when one of them fails."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from tests.unit.action.plays import played

UNDO = "placement_maintenance_state: in_service, and no placement_maintenance_change_id, to undo"
"""With an identifier the node would count as serviced, and the next job would skip it."""

ROLE = Path(__file__).resolve().parents[3] / "roles" / "placement_maintenance"


def output_of_work(folder: Path, task: dict[str, t.Any]) -> str:
    work = folder / "user.yml"
    work.write_text(json.dumps([{"name": "Update firmware", **task}]))
    done = played(
        folder,
        [
            {
                "ansible.builtin.include_tasks": str(ROLE / "tasks" / "work.yml"),
                "vars": {
                    "__placement_maintenance_options": {"tasks": str(work)},
                    "__placement_maintenance_group": "w1,w2",
                    "placement_maintenance_node": "w1",
                },
            }
        ],
        "-v",
    )
    return done.stdout


def test_node_is_named_before_the_tasks_run(tmp_path: Path) -> None:
    output = output_of_work(tmp_path, {"ansible.builtin.debug": {"msg": "work on the node"}})
    before, _message, after = output.partition("work on the node")
    assert "node w1: in maintenance. If this job ends here, launch it again to continue" in before
    assert UNDO in before
    assert after and "stays" not in after


def test_task_that_fails_is_followed_by_the_nodes_that_stay_cordoned(tmp_path: Path) -> None:
    failing = {"ansible.builtin.fail": {"msg": "secret of the task"}, "no_log": True}
    output = output_of_work(tmp_path, failing)
    last = output.rsplit("TASK [", 1)[1]
    assert "The task Update firmware failed for node w1. The cordon of w1, w2 stays" in last
    assert UNDO in last
    assert "failed=1" in last
    assert "secret of the task" not in last
