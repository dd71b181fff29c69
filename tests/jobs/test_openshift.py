# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of OpenShift Virtualization by the collection's playbooks, as
`make demo SYSTEM=openshift` runs it."""

from __future__ import annotations

import typing as t

import pytest

from demos.openshift import steps
from demos.stage import Stage, Step, named, opened


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with opened(steps, quiet=True) as stage:
        yield stage


@pytest.mark.parametrize("step", steps.STEPS, ids=named)
def test_openshift(stage: Stage, step: Step) -> None:
    """Each step asserts by itself: nodes, the lab's JSON, live migrations in order, writes, the second run."""
    step(stage)
