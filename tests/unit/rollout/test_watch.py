# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait ends with a change, and no later than the output is read."""

from __future__ import annotations

import threading

from ansible_collections.virt.placement.plugins.module_utils.api.transport import Deadline
from ansible_collections.virt.placement.plugins.module_utils.rollout.watch import SETTLE, wait_for
from tests.unit.api.conftest import Clock


def test_wait_ends_with_a_change_and_what_comes_along_with_it(clock: Clock) -> None:
    changed = threading.Event()
    until = Deadline(10, clock=clock, sleep=clock.sleep)
    wait_for(changed, 0.01, until)
    assert clock.waits == []
    changed.set()
    wait_for(changed, 4, until)
    assert clock.waits == [SETTLE]


def test_wait_ends_when_no_process_reads_the_output() -> None:
    wait_for(threading.Event(), 1e9, Deadline(1e9), lambda: False)
