# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the steps of simulated nodes take: as fast as they can, for tests, or as on real nodes.

The times are those of three real nodes with KubeVirt 1.8.4 (docs/architecture.md, Real nodes and simulated ones).
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from .admin_api import AdminApi

FAST, REAL = "fast", "real"
PACES: t.Final = (FAST, REAL)

_POD_STARTS_MILLISECONDS = 2500
VIRT_HANDLER_TIMES: t.Final = {
    "prepare-seconds": "1",
    "migration-seconds": "2",
    "source-pod-seconds": "14",
}
"""Defaults of each instance: sandbox/virt_handler has what they mean."""


def stage_files(pace: str, folder: Path, directory: Path) -> list[Path]:
    """The stages of pods in ``folder``; for a real pace with copies in ``directory``, in which pods start later."""
    files = sorted(folder.glob("*.yml"))
    if pace == FAST:
        return files
    return [_delayed(file, directory) if file.stem == "pod-run" else file for file in files]


def _delayed(file: Path, directory: Path) -> Path:
    stage = yaml.safe_load(file.read_text())
    stage["spec"]["delay"] = {"durationMilliseconds": _POD_STARTS_MILLISECONDS}
    copy = directory / file.name
    copy.write_text(yaml.safe_dump(stage))
    return copy


def set_pace(api: AdminApi, pace: str) -> None:
    """Give the simulated virt-handler its times."""
    if pace == REAL:
        settings = {"metadata": {"name": "sandbox-virt-handler"}, "data": VIRT_HANDLER_TIMES}
        api.create(api.path("ConfigMap", "kubevirt"), settings)
