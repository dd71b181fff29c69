# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of this run's random cases: the next one each, so that one number repeats them all."""

from __future__ import annotations

import os
import random

FIRST = int(os.environ.get("PLACEMENT_SEED", "") or random.SystemRandom().randrange(10**6))
CLUSTERS = int(os.environ.get("PLACEMENT_RANDOM_CLUSTERS", "10"))
MACHINES = int(os.environ.get("PLACEMENT_RANDOM_MACHINES", "3"))
