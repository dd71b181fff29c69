# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md explains each code of a result, and the code base has no other ones."""

from __future__ import annotations

import ast
import functools
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast import conclusion
from ansible_collections.virt.placement.plugins.module_utils.model import obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import CODES, INTERNAL
from dev import codes
from dev.commands import CHECKOUT

FIELDS = codes.code_fields()
IDS = [f"{field.module}.{field.path}" for field in FIELDS]


def test_the_page_is_up_to_date() -> None:
    document = codes.DOCUMENT.read_text()
    assert codes.with_section(document) == document, "run: .venv/bin/python -m dev.codes"


def test_a_page_without_the_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        codes.with_section(f"# Troubleshooting\n{codes.END}\n")


def test_results_document_the_codes_of_the_table() -> None:
    assert {code for field in FIELDS for code in field.codes} == CODES.keys() - INTERNAL


@pytest.mark.parametrize("field", FIELDS, ids=IDS)
def test_field_with_a_code_points_to_the_page(field: codes.CodeField) -> None:
    assert f"docs/troubleshooting.md, B({field.heading})" in field.description


def test_the_table_is_read_as_python_reads_it() -> None:
    assert codes.table(codes.OBSTACLES) == {x: (*CODES[x], "") for x in CODES}
    assert codes.table(codes.FORECASTS) == {x: conclusion.CODES[x][:3] for x in conclusion.CODES}


def test_code_that_is_twice_in_a_table_is_an_error(tmp_path: Path) -> None:
    line = 'Described("It waits.", "Wait.")'
    (file := tmp_path / "codes.py").write_text(
        f'HELD = "held"\nCODES: dict = {{HELD: {line}, "held": {line}}}\n'
    )
    with pytest.raises(ValueError, match="has a code twice"):
        codes.table(file)


@pytest.mark.parametrize("table", [CODES, conclusion.CODES], ids=["results", "forecasts"])
def test_meaning_and_advice_are_sentences(table: t.Mapping[str, tuple[str, ...]]) -> None:
    for text in (text for line in table.values() for text in line[:2]):
        assert text.endswith("."), text
        assert "|" not in text, "the page has them in a table"


def test_codes_of_forecasts_are_in_few_groups() -> None:
    assert {code.group for code in conclusion.CODES.values()} == codes.GROUPS.keys()
    assert len(codes.GROUPS) <= 15


FILES = [
    file.read_text()
    for file in sorted((CHECKOUT / "plugins" / "module_utils").rglob("*.py"))
    if file.name != "obstacle.py"
]
"""The texts of the files that may make an obstacle."""


@functools.cache
def nodes(text: str) -> t.Sequence[ast.AST]:
    return [x for x in ast.walk(ast.parse(text)) if isinstance(x, (ast.FunctionDef, ast.Call))]


@functools.cache
def makers() -> t.Mapping[str, int]:
    """The functions that make an obstacle of a code which they are called with: its position among the arguments."""
    positions = {"Obstacle": 0}
    for text in FILES:
        for function in nodes(text) if "Obstacle(" in text else ():
            if isinstance(function, ast.FunctionDef):
                names = [x.arg for x in function.args.args if x.arg != "self"]
                calls = [x for x in ast.walk(function) if is_call_of(x, "Obstacle") and x.args]
                made = [call.args[0] for call in calls]
                if any(isinstance(first, ast.Name) and first.id in names for first in made):
                    positions[function.name] = names.index("code")
    return positions


def is_call_of(node: ast.AST, name: str) -> t.TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == name


def codes_in(node: ast.expr) -> t.Iterator[str]:
    """The codes that an argument may be: a text, the name of a constant, or one of two of them."""
    if isinstance(node, ast.IfExp):
        yield from codes_in(node.body)
        yield from codes_in(node.orelse)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Name) and node.id.isupper():
        yield str(getattr(obstacle, node.id, ""))


@functools.cache
def used_codes() -> frozenset[str]:
    """The codes of all obstacles that are made."""
    return frozenset(
        code
        for name, position in makers().items()
        for text in FILES
        if f"{name}(" in text
        for node in nodes(text)
        if is_call_of(node, name) and len(node.args) > position
        for code in codes_in(node.args[position])
        if code
    )


def named_codes() -> set[str]:
    """The constants of the table that another file imports and uses."""
    uses = {name: rf"\b{name}\b.*\b{name}\b" for name in vars(obstacle) if name.isupper()}
    return {
        str(getattr(obstacle, name))
        for name, use in uses.items()
        if any(re.search(use, text, re.DOTALL) for text in FILES if name in text)
    }


def test_functions_that_make_an_obstacle_of_a_code_are_found() -> None:
    assert makers().keys() >= {"Obstacle", "_kept", "without_move"}


def test_codes_that_are_used_are_in_the_table() -> None:
    assert used_codes() - CODES.keys() == set()


def test_table_has_no_code_that_is_not_used() -> None:
    assert CODES.keys() - used_codes() - named_codes() == set()
