# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of an import: a fault names it, the reason and what to do, before anything is read."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.drs import stages
from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

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
