# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of the role placement_drs_import: its folder is checked first, and made when the rules are known."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result

OPTION = "placement_drs_import_folder"


def check(job: Job) -> Result:
    """Until the role shows its report, a failure of any task means that it is not done. Without a folder no file is
    written."""
    folder = job.record.asked["folder"]
    job.record.open = "Import rules"
    if folder and not os.path.isabs(folder):
        raise JobFailed([f"{OPTION}: must be an absolute path, but is {folder}. {NOTHING}"])
    if folder and (fault := _fault(Path(folder))):
        raise JobFailed([_refused(folder, fault), NOTHING])
    return {}


def make_folder(job: Job) -> Result:
    folder = Path(job.record.asked["folder"])
    job.changed = not folder.is_dir()
    if job.check_mode:
        return {}
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise JobFailed([_refused(str(folder), f"{error.strerror or error}")]) from error
    return {}


def _fault(folder: Path) -> str | None:
    """What keeps the folder from being used or made, as far as is known without a write."""
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not there.is_dir():
        return f"{there} is a file"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} is not writable"


def _refused(folder: str, why: str) -> str:
    return (
        f"{OPTION}: cannot write to the folder {folder}: {why}. Name a folder that the user who runs ansible-playbook"
        " may make and write."
    )
