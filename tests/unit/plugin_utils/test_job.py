# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job says of a module that failed."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.action import job as action
from ansible_collections.virt.placement.plugins.module_utils.api.errors import THREADS
from ansible_collections.virt.placement.plugins.plugin_utils.job import lines_of
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import (
    TRACEBACK as TRACEBACK_ADVICE,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

CRASH = "MODULE FAILURE\nSee stdout/stderr for the exact error"
TRACEBACK = "Traceback (most recent call last):\n  File \"x.py\", line 1\nNameError: name 'y' is not defined\n"
ENDED = f"The module ended without a result: {{}}. {TRACEBACK_ADVICE}"
PRINTED = (
    "The module ended without a result: {}. With -vvv the same job prints what the module printed."
)
KILLED = (
    "The module ended without a result: SIGKILL killed its process; where memory is short, raise the memory limit of"
    " its pod or node."
)


class Event(t.NamedTuple):
    """As in the exception of a result from ansible-core 2.19 on."""

    msg: str


class Summary(t.NamedTuple):
    event: Event


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"msg": "w1: refused.\n\nw2: refused."}, ["w1: refused.", "w2: refused."]),
        (
            {"msg": CRASH, "module_stdout": "", "module_stderr": TRACEBACK},
            [ENDED.format("NameError: name 'y' is not defined")],
        ),
        (
            {
                "msg": CRASH,
                "module_stdout": "",
                "module_stderr": "Traceback\nRuntimeError: can't start new thread\n",
            },
            [f"The module ended without a result: {THREADS}."],
        ),
        ({"exception": Summary(Event("one\nlast."))}, [ENDED.format("last")]),
        (
            {"msg": "no JSON", "module_stdout": "", "module_stderr": "Killed\n", "rc": 137},
            [KILLED],
        ),
        ({"msg": "no JSON", "module_stdout": "", "module_stderr": "", "rc": -9}, [KILLED]),
        (
            {"msg": "no JSON", "module_stdout": "", "module_stderr": "", "rc": 143},
            ["The module ended without a result: SIGTERM killed its process."],
        ),
        (
            {"msg": "no JSON", "module_stdout": "", "module_stderr": "", "rc": 0},
            [PRINTED.format("exit code 0")],
        ),
        (
            {"msg": "no JSON", "module_stdout": "{}{}", "module_stderr": "", "rc": 0},
            [
                PRINTED.format(
                    "something else printed on its standard output, so its result cannot be read"
                )
            ],
        ),
        ({}, [PRINTED.format("exit code unknown")]),
        (
            {"msg": ""},
            ["The module failed and gave no reason. With -vvv the same job prints its result."],
        ),
    ],
)
def test_lines_of_a_failed_module(result: dict[str, t.Any], lines: list[str]) -> None:
    assert lines_of({"failed": True, **result}) == lines


def test_undo_that_begins_late_keeps_what_its_tasks_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks are written in the role placement_apply, whose name their record has."""
    monkeypatch.setattr(JobRecord, "save", lambda _record: None)
    monkeypatch.setattr(action, "STAGES", {"verify_applied": lambda _job: {}})
    record = JobRecord("placement_apply", "localhost", "play", 0.0)
    job = types.SimpleNamespace(
        record=record,
        role="placement_undo",
        task_name="Verify",
        read_options=lambda: ({"rule_set": "default"}, []),
    )
    module: t.Any = object.__new__(action.ActionModule)
    module._staged("verify_applied", job)
    assert (record.role, record.ran) == ("placement_undo", ["Verify"])
