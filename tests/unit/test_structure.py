# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The structure of plugins/module_utils: class names occur once, and no file imports itself by a circle."""

from __future__ import annotations

import ast
import typing as t
from collections import defaultdict

import pytest

from tests.unit.test_imports import CHECKOUT, UTILS, imports_of

ROOT = CHECKOUT / "plugins" / "module_utils"


def sources() -> dict[str, str]:
    """Dotted name below module_utils to the text of the file."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
        for path in sorted(ROOT.rglob("*.py"))
    }


def classes_by_name(files: t.Mapping[str, str]) -> dict[str, list[str]]:
    """Class name, without a leading underscore, to the files that define it at module level."""
    defined: dict[str, list[str]] = defaultdict(list)
    for name, source in files.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                defined[node.name.lstrip("_")].append(name)
    return defined


def runtime_source(source: str) -> str:
    """The source without what only type checkers import."""
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.unparse(tree)


def import_cycles(files: t.Mapping[str, str]) -> list[str]:
    """The files that import themselves through others."""
    edges: dict[str, set[str]] = {}
    for name, source in files.items():
        targets = set()
        for imported in imports_of(f"{UTILS}.{name}", runtime_source(source)):
            dotted = imported.name.removeprefix(f"{UTILS}.")
            targets |= {x for x in (dotted, dotted.rpartition(".")[0]) if x in files}
        edges[name] = targets - {name}
    return sorted(name for name in files if name in _reachable(edges, name))


def _reachable(edges: t.Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += edges[name]
    return reached


def test_no_class_name_occurs_twice() -> None:
    twice = {name: files for name, files in classes_by_name(sources()).items() if len(files) > 1}
    assert twice == {}


def test_no_file_imports_itself_through_others() -> None:
    assert import_cycles(sources()) == []


@pytest.mark.parametrize(
    ("files", "twice"),
    [
        ({"a.x": "class Plan: ...", "b.y": "class Plan: ..."}, ["a.x", "b.y"]),
        ({"a.x": "class Plan: ...", "b.y": "class _Plan: ..."}, ["a.x", "b.y"]),
        ({"a.x": "class Plan:\n  class Plan: ..."}, ["a.x"]),
    ],
)
def test_files_that_define_a_class_name_are_listed(files: dict[str, str], twice: list[str]) -> None:
    assert classes_by_name(files)["Plan"] == twice


@pytest.mark.parametrize(
    ("first", "cycle"),
    [
        ("from ..b import y", ["a.x", "b.y"]),
        ("from ..b.y import f", ["a.x", "b.y"]),
        ("def f():\n    from ..b.y import g", ["a.x", "b.y"]),
        ("import typing as t\nif t.TYPE_CHECKING:\n    from ..b.y import g", []),
        ("import json", []),
    ],
)
def test_a_circle_of_imports_is_listed(first: str, cycle: list[str]) -> None:
    assert import_cycles({"a.x": first, "b.y": "from ..a.x import f"}) == cycle


def test_the_layout_is_read() -> None:
    assert "model.objects" in sources()
