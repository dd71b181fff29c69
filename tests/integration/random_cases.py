# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of this run's random cases, and how many answers must be definite.

Each case has the next seed, so that the first seed repeats them all.
"""

from __future__ import annotations

import os
import random
import typing as t

import pytest

FIRST_SEED = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**6))
CLUSTERS = int(os.environ.get("PLACEMENT_RANDOM_CLUSTERS", "10"))
VMS = int(os.environ.get("PLACEMENT_RANDOM_VMS", "3"))
BATCH = 10
"""From this size on, half of the answers must be definite."""


def assert_enough_definite(answers: t.Sequence[str]) -> None:
    """Of ten or more answers half, of fewer a third, must be `guaranteed` or `impossible`. `possible` is
    seldom wrong, and `unknown` claims nothing."""
    if len(answers) < 3:
        pytest.skip("fewer than 3 answers: too few to check")
    definite_answers = sum(answer in ("guaranteed", "impossible") for answer in answers)
    least = len(answers) // (2 if len(answers) >= BATCH else 3)
    assert definite_answers >= least, sorted(answers)
