# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No verdict rests on a message text of Kubernetes: the layers that judge neither know nor read one."""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

from dev.unit_matrix import PURE

UTILS = Path(__file__).resolve().parents[3] / "plugins" / "module_utils"
OF_THE_SCHEDULER = ("node(s)", "didn't match", "didn't satisfy", "didn't have", "Insufficient ")
"""How reasons of kube-scheduler begin, or what is in each of them."""

SHOWN = {
    "model/manifests.py",
    "model/budget_manifests.py",
    "kubevirt/moving.py",
    "model/snapshot.py",
}
"""Files that take a message along, for people: the reason beside LiveMigratable, Progressing and ReplicaFailure, and of
a budget."""


def trees() -> t.Iterator[tuple[str, ast.Module]]:
    for layer in PURE:
        for path in sorted((UTILS / layer).glob("*.py")):
            yield str(path.relative_to(UTILS)), ast.parse(path.read_text())


def strings(tree: ast.AST) -> t.Iterator[str]:
    """Every string but the docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.value)
        for parent in ast.walk(tree)
        if isinstance(parent, documented)
        for node in parent.body
        if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.value


def test_scheduler_texts_are_only_written_where_pending_pods_are_explained() -> None:
    known = {
        name
        for name, tree in trees()
        for text in strings(tree)
        if any(part in text for part in OF_THE_SCHEDULER)
    }
    # A claim that cannot be used has one answer for all nodes, which no kind of reason stands for.
    assert known == {"compliance/pending.py", "scheduler/claims.py"}


def test_no_text_of_the_scheduler_is_compared() -> None:
    compared = {
        (name, text)
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, (ast.Compare, ast.Match))
        for text in strings(node)
        if any(part in text for part in OF_THE_SCHEDULER)
    }
    assert compared == set()


def keys_read(tree: ast.AST) -> t.Iterator[object]:
    """What `mapping[key]` and `mapping.get(key)` read; a result that has such a key is no reading."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and node.args:
            key = node.args[0]
        if isinstance(key, ast.Constant):
            yield key.value


def test_messages_are_read_to_be_shown_and_nowhere_else() -> None:
    assert {name for name, tree in trees() if "message" in keys_read(tree)} == SHOWN
