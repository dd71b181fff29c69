# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas over ESXi hosts, with a second sandbox as Cluster API's management cluster, as
`make demo SYSTEM=tkg` runs it."""

from __future__ import annotations

import typing as t

import pytest

from demos.stage import Stage, Step, named, opened
from demos.tkg import steps


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with opened(steps, quiet=True) as stage:
        yield stage


@pytest.mark.parametrize("step", steps.STEPS, ids=named)
def test_tkg(stage: Stage, step: Step) -> None:
    """Each step asserts by itself: replicas a host, labels, evictions, writes in the audit log, the second run."""
    step(stage)
