# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait ends with a change, and with each change once."""

from __future__ import annotations

import threading
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Gone,
    Unreachable,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import Deadline
from ansible_collections.virt.placement.plugins.module_utils.rollout.watch import SETTLE, Watcher
from tests.unit.api.conftest import Clock


class OneChange:
    """An API whose watch reports one change, and no other until `over`."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.reads = 0

    def get(self, path: str, _query: t.Mapping[str, str]) -> t.NoReturn:
        self.reads += 1
        if self.reads == 1:
            raise Gone(ApiRequest("GET", path))
        self.over.wait(10)
        raise Unreachable(ApiRequest("GET", path))


def test_change_that_is_forgotten_ends_no_later_wait(clock: Clock) -> None:
    api = OneChange()
    watcher = Watcher(
        t.cast(ApiClient, api), Deadline(4 + 2 * SETTLE, clock=clock, sleep=clock.sleep)
    )
    watcher.start(["/api/v1/pods"])
    try:
        watcher.wait(4)
        assert clock.waits == [SETTLE]
        watcher.wait(0.01)
        assert clock.waits == [SETTLE] * 2, "a change counts until it is forgotten"
        watcher.forget()
        watcher.wait(0.01)
        assert clock.waits == [SETTLE] * 2
    finally:
        api.over.set()
