# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of this run's random cases: the next one each, so that one number repeats them all; and
how many answers have to be definite."""

from __future__ import annotations

import os
import random
import typing as t

import pytest

FIRST = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**6))
CLUSTERS = int(os.environ.get("PLACEMENT_RANDOM_CLUSTERS", "10"))
VMS = int(os.environ.get("PLACEMENT_RANDOM_VMS", "3"))
BATCH = 10
"""A batch that is not a mere taste."""


def definite(answers: t.Sequence[str]) -> None:
    """Half of a batch, a third of a taste of one, bind the forecast to what becomes of it: with
    `possible` little can be wrong, and `unknown` claims nothing."""
    if len(answers) < 3:
        pytest.skip(f"{len(answers)} answers have no share")
    definite_answers = sum(answer in ("guaranteed", "impossible") for answer in answers)
    least = len(answers) // (2 if len(answers) >= BATCH else 3)
    assert definite_answers >= least, sorted(answers)
