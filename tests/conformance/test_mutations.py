# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and plans agree with trying everything, on cases that nobody has seen before.

PLACEMENT_EXAMPLES says how many (200), PLACEMENT_SEED with which seed the first one is made; the
seed of a case that disagrees is in the message.
"""

from __future__ import annotations

import os
import random

import pytest

from .forecasts import register
from .mutations import KINDS, expected, kept, mutated
from .search import PLANNERS

COUNT = int(os.environ.get("PLACEMENT_EXAMPLES", "200"))
FIRST = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**9))
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_planners_agree_with_trying_everything(part: int) -> None:
    register()
    checked = 0
    for seed in range(FIRST + part, FIRST + COUNT, PARTS):
        case = mutated(seed)
        if case is None:
            continue
        case["expect"] = want = expected(case)
        for planner in PLANNERS:
            got = planner(case) or {}
            unlike = {name: value for name, value in got.items() if want[name] != value}
            assert not unlike, f"seed {seed}: {planner} says {unlike}, and it is {want}"
        checked += 1
    assert checked > 0


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_cases_of_each_kind_to_start_from(kind: str) -> None:
    assert len(kept(kind)) >= 20
