# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of this run's random cases, how many answers must be definite, and what decided them.

Each case has the next seed, so that the first seed repeats them all.
"""

from __future__ import annotations

import collections
import os
import random
import typing as t

import pytest

FIRST_SEED = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**6))
CLUSTERS = int(os.environ.get("PLACEMENT_RANDOM_CLUSTERS", "10"))
VMS = int(os.environ.get("PLACEMENT_RANDOM_VMS", "3"))
BATCH = 10
"""From this size on, half of the answers must be definite."""

DECIDED: collections.Counter[tuple[str, str]] = collections.Counter()
"""How many forecasts of this run had an answer, and a code that made it."""
FORECASTS: collections.Counter[str] = collections.Counter()
"""How many had each answer."""
CAPACITIES: collections.Counter[str] = collections.Counter()
"""How many answers of capacity_info were which, and how many failures were played after a green one."""


def count(found: t.Mapping[str, t.Any]) -> None:
    """Count a result of forecast_info."""
    FORECASTS[found["forecast"]] += 1
    DECIDED.update((found["forecast"], code) for code in found["codes"])


def summary_of_codes() -> t.Iterator[str]:
    """A line for each answer, and for each code that made it, with its share of all forecasts. A forecast may have
    several codes."""
    total = FORECASTS.total()
    for answer, number in sorted(FORECASTS.items()):
        yield f"{answer}: {number} of {total}"
        codes = ((n, code) for (of, code), n in DECIDED.items() if of == answer)
        for count_of_code, code in sorted(codes, reverse=True):
            yield f"  {code}: {count_of_code} ({100 * count_of_code / total:.1f} %)"
    if CAPACITIES:
        yield f"capacity: {', '.join(f'{n} {name}' for name, n in sorted(CAPACITIES.items()))}"


def assert_enough_definite(answers: t.Sequence[str]) -> None:
    """Of ten or more answers half, of fewer a third, must be `guaranteed` or `impossible`. `possible` is
    seldom wrong, and `unknown` claims nothing."""
    if len(answers) < 3:
        pytest.skip("fewer than 3 answers: too few to check")
    definite_answers = sum(answer in ("guaranteed", "impossible") for answer in answers)
    least = len(answers) // (2 if len(answers) >= BATCH else 3)
    assert definite_answers >= least, sorted(answers)
