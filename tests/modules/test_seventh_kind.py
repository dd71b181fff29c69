# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules work on a seventh kind of workload, with a control plane of its own: `seventh_kind.py` in the copy that
tests/unit/test_seventh_kind.py makes."""

from __future__ import annotations

from pathlib import Path

from tests.support.copies import run_tests
from tests.unit.test_seventh_kind import copy_with_seventh_kind


def test_modules_work_on_seventh_kind(tmp_path: Path) -> None:
    copy_with_seventh_kind(tmp_path)
    result = run_tests(tmp_path, "tests/modules/test_seventh_kind.py")
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
