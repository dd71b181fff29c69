# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of an import: a fault names it, the reason and what to do, before anything is read."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.closing import Closing
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.drs import stages
from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from tests.unit.plugin_utils.test_closing import entry, record

WHAT_TO_DO = "Name a folder that the user who runs ansible-playbook may make and write."


def job(folder: object, *, check_mode: bool = False) -> t.Any:
    record = JobRecord("placement_drs_import", "lab", "play", 0.0, asked={"folder": str(folder)})
    return types.SimpleNamespace(record=record, check_mode=check_mode, changed=False)


def refusal(stage: t.Callable[[t.Any], object], asked: t.Any) -> list[str]:
    with pytest.raises(JobFailed) as caught:
        stage(asked)
    return caught.value.lines


def test_folder_that_is_below_a_file_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    folder = tmp_path / "a" / "b"
    assert refusal(stages.check, job(folder)) == [
        f"placement_drs_import_folder: cannot write to the folder {folder}: {tmp_path / 'a'} is a file. {WHAT_TO_DO}",
        NOTHING,
    ]


def test_folder_must_be_absolute() -> None:
    assert refusal(stages.check, job("rules")) == [
        f"placement_drs_import_folder: must be an absolute path, but is rules. {NOTHING}"
    ]


READ_REPORT = entry("apply", "read the report, then launch the playbooks")


def imported(folder: str = "/rules", **more: t.Any) -> Closing:
    asked = {"files": ["rules.json"], "folder": folder}
    made = record("placement_drs_import", asked=asked, **more)
    made.note("drs_import", {"outcome": {"next": [READ_REPORT]}})
    return closing_of(made, 1)


def test_import_says_where_its_files_are_and_what_they_are_for() -> None:
    block = imported()
    assert block.done == ("written to /rules: report.txt and variables of playbooks",)
    assert block.next_steps == (READ_REPORT["text"],)
    assert imported("").done == ("published, and written to no folder",)


def test_import_in_check_mode_has_written_no_files() -> None:
    block = imported(check_mode=True)
    assert block.done == ()
    assert block.next_steps[0] == "launch the same job without check mode"


def test_import_whose_files_are_not_written_leads_to_no_other_job() -> None:
    block = imported(open="Import rules")
    assert block.next_steps == ("correct the cause, then launch the same job again",)


def test_import_whose_task_failed_is_not_done() -> None:
    """Such as one of kubernetes.core, whose failure is in no record."""
    asked = {"files": ["rules.csv"], "folder": "/rules"}
    block = closing_of(record("placement_drs_import", asked=asked, open="Import rules"), 1)

    assert block.lines() == [
        "DRS import: FAILED, after 1 s",
        "  asked    import rules.csv",
        "  failed   Import rules: the job ended during this task, see the error above",
        "  next     correct the cause, then launch the same job again",
    ]
