# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of guest-cluster VMs beside models of Harvester's webhook and maintenance mode, as
`make demo SYSTEM=harvester` runs it."""

from __future__ import annotations

import typing as t

import pytest

from demos.harvester import steps
from demos.stage import Stage, Step, named, opened


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with opened(steps, quiet=True) as stage:
        yield stage


@pytest.mark.parametrize("step", steps.STEPS, ids=named)
def test_harvester(stage: Stage, step: Step) -> None:
    """Each step asserts by itself: nodes, terms, live migrations, writes in the audit log, the second run."""
    step(stage)
