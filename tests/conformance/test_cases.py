# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files kept here, the larger set where it is at hand, and the runner itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .__main__ import KEPT_HERE, main
from .runner import case_files, run_file

CHECKOUT = Path(__file__).resolve().parents[2]
NAMED = os.environ.get("SCHEDULER_CASES", str(CHECKOUT.parent / "shared" / "scheduler-cases"))
FILES = case_files(KEPT_HERE)
FILES += [
    path
    for path in (case_files(Path(NAMED)) if Path(NAMED).is_dir() else [])
    if not (KEPT_HERE / path.name).exists()
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_engine_agrees_with_the_scheduler(path: Path) -> None:
    result = run_file(path)
    assert result.cases > 0
    assert not result.disagreements


def test_case_files_are_complete() -> None:
    assert {path.stem for path in case_files(KEPT_HERE)} >= {
        "edge-cases",
        "validation",
        *(f"sample-{kind}" for kind in ("fuzz-filter", "fuzz-score", "plan-moves")),
        *(f"sample-preflight-{kind}" for kind in ("list", "replicas")),
        *(f"sample-verify-{kind}" for kind in ("random", "structured")),
        "sample-drill-failures",
    }


def test_disagreement_is_printed_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((KEPT_HERE / "edge-cases.json").read_text(encoding="utf-8"))
    content["cases"] = content["cases"][:3]
    content["meta"]["count"] = 3
    content["cases"][1]["expect"]["feasible"] = ["n1"]
    (tmp_path / "some.json").write_text(json.dumps(content), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "some: 3 cases, 2 agree"
    assert lines[1].startswith("  edge-cases-0002: feasible: expected ['n1']")


def test_case_that_raises_counts_as_a_disagreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"cases": [{"id": "odd", "expect": {"feasible": []}, "nodes": [{}], "pod": {}}]}
    (tmp_path / "odd.json").write_text(json.dumps(content), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert "odd: 1 cases, 0 agree" in capsys.readouterr().out


def test_directory_without_cases_ends_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no files of cases" in capsys.readouterr().err
