# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codes of obstacles: RETURN of the modules names those that are in the registry, and no other one."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import yaml

from ansible_collections.virt.placement.plugins.module_utils.model import obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    CODES,
    INTERNAL,
    Obstacle,
)

MODULES = Path(__file__).resolve().parents[3] / "plugins" / "modules"


def _documented(fields: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """The codes that the descriptions of fields with a code name."""
    for name, field in fields.items():
        if name in ("reason_code", "stop_code"):
            yield from re.findall(r"\bV\((\w+)\)", str(field["description"]))
        yield from _documented(field.get("contains") or {})


def test_results_document_the_codes_of_the_registry() -> None:
    texts = [path.read_text() for path in sorted(MODULES.glob("*.py"))]
    blocks = [re.search(r'^RETURN = r?"""\n(.*?)^"""', text, re.M | re.S) for text in texts]
    documented = [_documented(yaml.safe_load(block[1])) for block in blocks if block is not None]
    assert {code for codes in documented for code in codes} == CODES.keys() - INTERNAL


def _names_of_codes() -> t.Iterator[str]:
    """What is given to Obstacle as a code: a text, or the name of a constant of the registry."""
    for path in sorted(MODULES.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Obstacle":
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    yield str(code.value)
                elif isinstance(code, ast.Name):
                    yield str(getattr(obstacle, code.id, ""))


def test_codes_that_are_used_are_in_the_registry() -> None:
    assert set(_names_of_codes()) - {""} <= CODES.keys()


def test_obstacle_after_a_text_is_the_same_obstacle() -> None:
    first = Obstacle("no_right", "a sentence", True, "advice")
    assert first.after("before") == Obstacle("no_right", "before; a sentence", True, "advice")


def test_obstacle_is_printed_as_its_text() -> None:
    assert f"{Obstacle('no_right', 'a sentence')}" == "a sentence"


def test_no_code_is_described_twice() -> None:
    tree = ast.parse(Path(str(obstacle.__file__)).read_text())
    names = [
        str(
            key.value
            if isinstance(key, ast.Constant)
            else getattr(obstacle, getattr(key, "id", ""))
        )
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "CODES"
        for key in t.cast("ast.Dict", node.value).keys
    ]
    assert sorted(names) == sorted(CODES)
