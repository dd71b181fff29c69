# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and plans agree with trying everything, on cases that nobody has seen before.

PLACEMENT_EXAMPLES says how many (200), PLACEMENT_SEED with which seed the first one is made; the
seed of a case that disagrees is in the message.
"""

from __future__ import annotations

import dataclasses
import os
import random
import typing as t

import pytest

from .forecasts import register
from .mutations import KINDS, expected, kept, mutated
from .search import PLANNERS

COUNT = int(os.environ.get("PLACEMENT_EXAMPLES", "200"))
FIRST = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**9))
PARTS = 10
JSON = t.Any

LEAST = {
    ("any_order", "replicas"): 0.5,
    ("any_order", "list"): 0.5,
    ("moves", "moves"): 1.0,
}
"""Which planner answers cases of which kind, and how much of them; of others it says nothing. In any
order, what is merely possible binds to nothing."""


@dataclasses.dataclass
class Share:
    """How often a planner was asked about cases of a kind, and of these said anything."""

    asked: int = 0
    said: int = 0


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], Share]:
    """By planner and kind of case."""
    return {}


@pytest.mark.parametrize("part", range(PARTS))
def test_planners_agree_with_trying_everything(
    part: int, answers: dict[tuple[str, str], Share]
) -> None:
    register()
    checked = 0
    for seed in range(FIRST + part, FIRST + COUNT, PARTS):
        case = mutated(seed)
        if case is None:
            continue
        about = _about(case)
        case["expect"] = want = expected(case)
        for planner in PLANNERS:
            got = planner(case)
            share = answers.setdefault((_name(planner), about), Share())
            share.asked += 1
            share.said += bool(got)
            unlike = {name: value for name, value in (got or {}).items() if want[name] != value}
            assert not unlike, f"seed {seed}: {planner} has {unlike} instead of {want}"
        checked += 1
    assert checked > 0


@pytest.mark.parametrize(("planner", "about"), LEAST)
def test_planners_have_answers(
    planner: str, about: str, answers: dict[tuple[str, str], Share]
) -> None:
    share = answers.get((planner, about), Share())
    if not share.asked:
        pytest.skip(f"no case about {about} among {COUNT}")
    least = LEAST[planner, about] * share.asked if share.asked >= 10 else 1
    assert share.said >= least, share


def test_planners_answer_what_they_are_for(answers: dict[tuple[str, str], Share]) -> None:
    assert {key for key, share in answers.items() if share.said} <= set(LEAST)


def _name(planner: t.Any) -> str:
    return str(planner.__name__)


def _about(case: JSON) -> str:
    if "liveMigrate" in case["expect"]:
        return "moves"
    return "replicas" if "replicas" in case else "list"


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_cases_of_each_kind_to_start_from(kind: str) -> None:
    assert len(kept(kind)) >= 20
