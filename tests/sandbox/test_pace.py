# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sandbox may take its time as real nodes do; nothing is started."""

from __future__ import annotations

from pathlib import Path

import yaml

from sandbox.control_plane import STAGES
from sandbox.layout import Layout
from sandbox.pace import FAST, REAL, VIRT_HANDLER_TIMES, stage_files
from sandbox.releases import DEFAULT
from sandbox.virt_handler.faults import NO_FAULTS, parse_faults


def test_pods_start_later_at_the_real_pace(tmp_path: Path) -> None:
    assert stage_files(FAST, STAGES, tmp_path) == sorted(STAGES.glob("*.yml"))
    files = stage_files(REAL, STAGES, tmp_path)
    assert [file.name for file in files] == [file.name for file in sorted(STAGES.glob("*.yml"))]
    for file in files:
        stage, fast = (yaml.safe_load((x / file.name).read_text()) for x in (file.parent, STAGES))
        delay = stage["spec"].pop("delay", None)
        fast_delay = fast["spec"].pop("delay", None)
        assert stage == fast
        assert delay == ({"durationMilliseconds": 2500} if file.stem == "pod-run" else fast_delay)


def test_times_of_the_real_pace_are_known_to_virt_handler() -> None:
    faults = parse_faults(None, VIRT_HANDLER_TIMES)
    assert (faults.prepare_seconds, faults.migration_seconds) == (1, 2)
    assert faults.source_pod_seconds > NO_FAULTS.source_pod_seconds


def test_pace_is_kept_for_those_who_attach(tmp_path: Path) -> None:
    Layout.create(tmp_path, "six", tmp_path, DEFAULT, REAL)
    assert Layout.read(tmp_path).pace == REAL
