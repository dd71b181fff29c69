# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of the role placement_drs_import is checked before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.plugin_utils.closing import LAUNCH
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Capability,
    Job,
    JobFailed,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord, Result

OPTION = "placement_drs_import_folder"


def check(job: Job) -> Result:
    """Until the role shows its report, a failure of any task means that it is not done. Without a folder no file is
    written."""
    folder = job.record.asked["folder"]
    job.record.open = "Import rules"
    if folder and not os.path.isabs(folder):
        raise JobFailed([f"{OPTION}: must be an absolute path, but is {folder}. {NOTHING}"])
    if folder and (fault := _fault(Path(folder))):
        raise JobFailed(
            [
                f"{OPTION}: cannot write to the folder {folder}: {fault}. Name a folder that the user who runs"
                " ansible-playbook may make and write.",
                NOTHING,
            ]
        )
    return {}


def _fault(folder: Path) -> str | None:
    """What keeps the folder from being used or made, as far as is known without a write."""
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not there.is_dir():
        return f"{there} is a file"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} is not writable"


def parts(record: JobRecord) -> Result:
    folder = record.asked["folder"]
    asked = (f"import {listed(record.asked['files'])}",)
    written = f"written to {folder}: report.txt and variables of playbooks"
    if record.failures:
        return {"asked": asked}
    if record.check_mode and folder:
        return {"asked": asked, "next_steps": (LAUNCH,)}
    return {"asked": asked, "done": (written if folder else "published, and written to no folder",)}


CAPABILITY = Capability(
    points={"check placement_drs_import": check},
    parts={"placement_drs_import": parts},
)
