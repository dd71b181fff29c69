# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RETURN of each module documents the codes of the entries of its `outcome`, and no other ones."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.cpu.report import entries
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import CODES
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import NOT_REVERTED
from dev.codes import return_text

CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = [
    path
    for path in sorted((CHECKOUT / "plugins" / "modules").glob("*.py"))
    if path.stem
    not in ("job", "report")  # actions on the controller, which have no result of a cluster
]
UNPROVEN = dict.fromkeys(("vms", "node", "zone", "none", "unknown", "unproven"), 1)
COMPUTED = {
    *(entry.code for entry in entries(UNPROVEN)),
    *(f"rules_{part}" for part in ("added", "updated", "removed")),
    *("with_impact", "not_guaranteed"),  # names of `domain_entries`
    *map(str, Verdict),
    *("constraint_removed", "down", "rule_not_on_new_member"),
    NOT_REVERTED,
    *CODES,
}
"""Codes that are no text at the place where the entry is made."""


def documented(module: Path) -> set[str]:
    lines = yaml.safe_load(return_text(module))["outcome"]["description"]
    return {code for line in lines for code in re.findall(r"(?<!\w)V\((\w+)\)", line)}


def made() -> set[str]:
    """The codes that are texts where an entry is made."""
    found: set[str] = set()
    for path in sorted((CHECKOUT / "plugins" / "module_utils").rglob("*.py")):
        text = path.read_text()
        calls = ast.walk(ast.parse(text)) if "Entry(" in text else ()
        for call in calls:
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Entry" and call.args:
                found.update(_texts(call.args[0]))
    return found


def _texts(node: ast.expr) -> t.Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    for part in getattr(node, "values", ()) if isinstance(node, ast.BoolOp) else ():
        yield from _texts(part)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_module_documents_only_codes_that_are_made(module: Path) -> None:
    values = {"info", "green", "reverted"}  # of other fields and options
    assert documented(module) - values - made() - COMPUTED == set()


def test_codes_that_are_made_are_documented() -> None:
    of_modules = set().union(*map(documented, MODULES))
    assert made() - CODES.keys() - of_modules == set()
