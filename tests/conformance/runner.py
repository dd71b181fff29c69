# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which check a case asks for, and how a file fared."""

from __future__ import annotations

import json
import traceback
import typing as t
from dataclasses import dataclass
from pathlib import Path

from . import filters, forecasts, matchers, scores, search
from .validation import validate
from .world import Case

forecasts.register()


@dataclass(frozen=True)
class Result:
    """One file. `disagreements`: the id of each case that disagrees, with every difference."""

    name: str
    cases: int
    disagreements: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def summary(self) -> str:
        return f"{self.name}: {self.cases} cases, {self.cases - len(self.disagreements)} agree"


def case_files(directory: Path) -> list[Path]:
    """The files of a directory that hold cases, by name."""
    return sorted(path for path in directory.glob("*.json") if path.is_file())


def run_file(path: Path) -> Result:
    """Every case of a file through the engine. Raises ValueError for a file of another form."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise ValueError(f"{path} is no file of cases: it has no list 'cases'")
    cases = content["cases"]
    declared = content.get("meta", {}).get("count", len(cases))
    found = [(case["id"], differences) for case in cases if (differences := check_case(case))]
    if declared != len(cases):
        found.append((path.stem, (f"meta.count is {declared}, the file has {len(cases)} cases",)))
    return Result(path.stem, len(cases), tuple(found))


def check_case(case: Case) -> tuple[str, ...]:
    """Every difference between what a case expects and what the engine says."""
    try:
        return tuple(_check_for(case)(case))
    except Exception:  # a fault of the engine is a disagreement of this case: the others still run
        return (traceback.format_exc(limit=-3).strip(),)


def _check_for(case: Case) -> t.Callable[[Case], t.Iterable[str]]:
    """By what the case holds, so that a file may have any name."""
    expected = case.get("expect")
    if "what" in case:
        return validate
    if case.get("kind") in matchers.KINDS:
        return matchers.matcher
    if "expectScores" in case:
        return scores.all_plugins
    if "plugin" in case:
        return scores.one_plugin if case.get("kind") == "score" else filters.one_filter
    if "newPods" in case or "replicas" in case:
        planned = isinstance(expected, dict) and "liveMigrate" in expected
        return search.plan_moves if planned else search.place_all
    if isinstance(expected, list):
        return filters.verify
    if isinstance(expected, dict) and "feasible" in expected:
        return filters.all_filters
    raise ValueError(f"no check knows a case with the fields {sorted(case)}")
