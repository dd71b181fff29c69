# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every finding is documented, and every documented finding has a test in both ways."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
UTILS = CHECKOUT / "plugins" / "module_utils"
SOURCES = [
    *(path for path in (UTILS / "lint").glob("*.py") if path.name != "topology.py"),
    UTILS / "verdicts" / "findings.py",
]


def emitted() -> set[str]:
    """Names in calls of `subject.finding(term, NAME, ...)` and `Finding(NAME, ...)`."""
    found = set()
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        constants = {
            node.targets[0].id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = _name_in(call)
            if isinstance(name, ast.Constant):
                found.add(str(name.value))
            elif isinstance(name, ast.Name) and name.id in constants:
                found.add(str(constants[name.id]))
    return found


def _name_in(call: ast.Call) -> ast.expr | None:
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr == "finding":
        return call.args[1]
    if isinstance(called, ast.Name) and called.id == "Finding":
        return call.args[0]
    return None


def documented() -> set[str]:
    text = (CHECKOUT / "docs" / "findings.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def test_the_list_is_complete() -> None:
    assert emitted() == documented()
    assert len(documented()) == 22


def test_the_module_names_each_of_them() -> None:
    text = (CHECKOUT / "plugins" / "modules" / "placement_info.py").read_text()

    assert {name for name in documented() if f"C({name})" not in text} == set()


def test_each_has_a_test_online_and_offline() -> None:
    tests: list[str] = []
    for path in Path(__file__).parent.glob("test_*.py"):
        tree = ast.parse(path.read_text())
        tests += [ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef)]

    def named(name: str, how: t.Collection[str]) -> bool:
        return any(f"'{name}'" in test and any(way in test for way in how) for test in tests)

    names = documented()
    assert {name for name in names if not named(name, ("online(",))} == set()
    assert {name for name in names if not named(name, ("offline(", "lint("))} == set()
