# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of findings that are reported, that rules may allow and that are documented are the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    FINDING_NAMES,
    OF_MANIFESTS,
    OF_NODE_LABELS,
    OF_POLICIES,
    OF_RULES,
    OF_RUNNING_PODS,
    OF_TERMS,
    ONLY_ON_A_CLUSTER,
)
from tests.unit.lint.documented import DOCUMENTED

CHECKOUT = Path(__file__).resolve().parents[3]
UTILS = CHECKOUT / "plugins" / "module_utils"
LINT = [
    *(path for path in (UTILS / "lint").glob("*.py") if path.name != "topology.py"),
    *(UTILS / "repository").glob("*.py"),
    *(UTILS / "holds").glob("*.py"),
    UTILS / "compliance" / "declared.py",
    UTILS / "kubevirt" / "evacuation.py",
]


def constants(path: Path) -> dict[str, str]:
    """The texts that a file gives names to."""
    return {
        node.targets[0].id: node.value.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def emitted(*sources: Path) -> set[str]:
    """Names in calls of `subject.finding(term, NAME, ...)` and `Finding(NAME, ...)`."""
    found = set()
    for path in sources:
        named = constants(path)
        tree = ast.parse(path.read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = _name_in(call)
            if isinstance(name, ast.Constant):
                found.add(str(name.value))
            elif isinstance(name, ast.Name) and name.id in named:
                found.add(named[name.id])
    return found


def _name_in(call: ast.Call) -> ast.expr | None:
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr == "finding":
        return call.args[1]
    if isinstance(called, ast.Name) and called.id == "Finding":
        return call.args[0]
    return None


def test_lint_emits_every_finding_about_terms() -> None:
    assert emitted(*LINT) == {*OF_TERMS, *OF_RUNNING_PODS, *OF_MANIFESTS}


def test_policies_emit_every_finding_about_them() -> None:
    also_by_lint = "rule_not_on_new_member"
    assert emitted(UTILS / "new_members" / "findings.py") == {*OF_POLICIES, also_by_lint}


def test_topology_emits_every_finding_about_node_labels() -> None:
    shared = {"no_node_has_key", "single_domain", "deprecated_node_label"}
    assert emitted(UTILS / "lint" / "topology.py") == {*OF_NODE_LABELS, *shared}


def test_other_packages_emit_only_documented_findings() -> None:
    """Their names are constants, so that those of functions that pass a name on are found too."""
    found = set()
    for folder in ("rules", "undo", "forecast", "planning", "kubevirt", "compliance", "view"):
        for path in (UTILS / folder).glob("*.py"):
            if "Finding" in path.read_text():
                found |= {
                    value for value in constants(path).values() if re.fullmatch(r"[a-z_]+", value)
                }
    assert found - FINDING_NAMES == set()
    assert {*OF_RULES, *ONLY_ON_A_CLUSTER} - found == set()


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Terms", OF_TERMS),
        ("Node labels", OF_NODE_LABELS),
        ("Manifests in files", OF_MANIFESTS),
        ("Rules in templates", OF_RULES),
        ("Policies for new members", OF_POLICIES),
        ("Only on a cluster", (*OF_RUNNING_PODS, *ONLY_ON_A_CLUSTER)),
    ],
)
def test_each_is_documented_in_its_section(section: str, names: tuple[str, ...]) -> None:
    found = [name for name, row in DOCUMENTED.items() if row.section == section]

    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("placement_info", (*OF_TERMS, *OF_RUNNING_PODS, *OF_POLICIES)),
        ("topology_info", OF_NODE_LABELS),
    ],
)
def test_the_module_names_each_of_them(module: str, names: tuple[str, ...]) -> None:
    text = (CHECKOUT / "plugins" / "modules" / f"{module}.py").read_text()

    assert {name for name in names if f"C({name})" not in text} == set()
