# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each criterion of a published system is a test that is found by its name, or demos/criteria.md says it is not shown.

AC-H1 and so on are what Harvester, OpenShift, Tanzu (T) and the EKS workshop do; S1 and so on are whole scenarios. A
test has the criterion in its name, as test_s10_two_vms_apart, or is the step of a demo that proves it.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "demos" / "criteria.md"
CRITERIA = [
    *(f"AC-{system}{number}" for system in "HOTE" for number in range(1, 7)),
    *(f"S{number}" for number in range(1, 26)),
]
NOT_SHOWN: frozenset[str] = frozenset()
"""Criteria that simulated nodes cannot show."""


@functools.cache
def proven_by_steps() -> set[tuple[str, str]]:
    """What the decorator `proves` names, which the step's test has in its id, and the step."""
    return {
        (str(argument.value), function.name.replace("_", " "))
        for path in (CHECKOUT / "demos").glob("*/steps.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "proves"
        for argument in decorator.args
        if isinstance(argument, ast.Constant)
    }


@functools.cache
def in_names_of_tests() -> set[tuple[str, str]]:
    """What names of tests have, and the files of these tests."""
    return {
        (criterion.upper().replace("_", "-"), str(path.relative_to(CHECKOUT)))
        for path in (CHECKOUT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.M)
        for criterion in re.findall(r"(?<=_)(?:ac_[hote]\d|s\d+)(?=_)", name)
    }


@functools.cache
def on_page() -> dict[str, str]:
    """The last cell of the row that names a criterion."""
    rows = [
        line.strip("| ").split(" | ")
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| (AC-|S\d)", line)
    ]
    return {name: row[-1] for row in rows for name in row[0].split(", ")}


@pytest.mark.parametrize("criterion", CRITERIA)
def test_criterion_has_a_test_and_a_row_on_the_page(criterion: str) -> None:
    where = {place for name, place in proven_by_steps() | in_names_of_tests() if name == criterion}
    row = on_page()[criterion]

    assert bool(where) == (criterion not in NOT_SHOWN)
    assert row.startswith("not shown") == (criterion in NOT_SHOWN)
    assert not where or any(place in row for place in where), "the row names its step or its file"


def test_steps_and_the_page_name_no_other_criterion() -> None:
    assert {name for name, _step in proven_by_steps()} <= set(CRITERIA)
    assert set(on_page()) <= set(CRITERIA)
