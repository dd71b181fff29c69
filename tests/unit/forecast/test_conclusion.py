# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer that evidence and doubts allow, and the codes that made it."""

from __future__ import annotations

import ast
import functools
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    CODES,
    NO_CERTAINTY,
    NO_GUARANTEE,
    NO_PLACEMENT,
    NO_PROOF,
    NOTHING,
    Doubt,
    Evidence,
    conclude,
)
from tests.unit.test_structure import ROOT

ALWAYS = Evidence(always="worst_case")
NEVER = Evidence(never=("no_node", "apart"))
WITNESS = Evidence(witness=True, doubts=(Doubt("search_limit", "", NO_CERTAINTY),))
OPEN = Evidence(doubts=(Doubt("search_limit", "", NO_CERTAINTY),))


def doubted(evidence: Evidence, *forbids: t.Any) -> Evidence:
    doubts = (Doubt(f"d{number}", "", x) for number, x in enumerate(forbids))
    return Evidence(evidence.always, evidence.never, evidence.witness, (*evidence.doubts, *doubts))


@pytest.mark.parametrize(
    ("parts", "answer", "codes"),
    [
        ([ALWAYS], "guaranteed", ["worst_case"]),
        ([NEVER], "impossible", ["no_node", "apart"]),
        ([WITNESS], "possible", ["search_limit"]),
        ([OPEN], "unknown", ["search_limit"]),
        ([doubted(ALWAYS, NO_GUARANTEE)], "possible", ["d0"]),
        ([doubted(ALWAYS, NO_PROOF)], "guaranteed", ["worst_case"]),
        ([doubted(ALWAYS, NO_CERTAINTY, NO_PROOF)], "possible", ["d0"]),
        ([doubted(ALWAYS, NO_GUARANTEE, NO_PLACEMENT)], "unknown", ["d1"]),
        ([doubted(NEVER, NO_GUARANTEE)], "impossible", ["no_node", "apart"]),
        ([doubted(NEVER, NO_PLACEMENT)], "impossible", ["no_node", "apart"]),
        ([doubted(NEVER, NO_GUARANTEE, NO_CERTAINTY)], "unknown", ["d1"]),
        ([doubted(WITNESS, NO_GUARANTEE)], "possible", ["search_limit", "d0"]),
        ([doubted(WITNESS, NOTHING)], "unknown", ["d0"]),
        ([ALWAYS, Evidence(always="moves_satisfy_rules")], "guaranteed", ["worst_case", "moves_satisfy_rules"]),
        ([ALWAYS, doubted(ALWAYS, NO_GUARANTEE)], "possible", ["d0"]),
        ([ALWAYS, WITNESS, OPEN], "unknown", ["search_limit"]),
        ([doubted(NEVER, NO_PROOF), Evidence(never=("quota",))], "impossible", ["quota"]),
        ([NEVER, Evidence(never=("no_node",))], "impossible", ["no_node", "apart"]),
        ([], "guaranteed", []),
    ],
)  # fmt: skip
def test_answer_is_the_worst_that_the_doubts_allow(
    parts: list[Evidence], answer: str, codes: list[str]
) -> None:
    conclusion = conclude(*parts)

    assert (conclusion.answer.value, [*conclusion.codes]) == (answer, codes)


def test_doubts_of_a_conclusion_are_those_that_made_it() -> None:
    doubt = Doubt("other_scheduler", "another scheduler places db", NO_CERTAINTY)

    assert conclude(Evidence(never=("no_node",), doubts=(doubt,))).doubts == (doubt,)


@functools.cache
def module(file: str) -> ast.Module:
    return ast.parse((ROOT / "forecast" / f"{file}.py").read_text())


def texts_in(node: ast.AST) -> set[str]:
    return {
        x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and isinstance(x.value, str)
    }


@pytest.mark.parametrize("code", CODES)
def test_code_is_given_by_the_function_that_the_registry_names(code: str) -> None:
    file, *names = CODES[code].function.split(".")
    node: t.Any = module(file)
    for name in names:
        node = next(x for x in node.body if getattr(x, "name", "") == name)

    assert code in texts_in(node)


def given_codes() -> t.Iterator[str]:
    """The literal codes of each Doubt and each Evidence of the forecast."""
    for path in sorted((ROOT / "forecast").glob("*.py")):
        for node in ast.walk(module(path.stem)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in ("Doubt", "Proof") and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)
            if node.func.id == "Evidence":
                for keyword in node.keywords:
                    if keyword.arg in ("always", "never"):
                        yield from texts_in(keyword.value)


def test_every_code_that_is_given_has_a_meaning() -> None:
    assert set(given_codes()) <= CODES.keys()
