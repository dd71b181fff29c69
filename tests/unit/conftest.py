# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server on a socket, and an ApiClient that talks to it, with a clock that only moves when it waits."""

from __future__ import annotations

import typing as t

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
    RetryPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from tests.support.api_server import ApiServer, Clock, answer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> t.Iterator[ApiServer]:
    with ApiServer() as running:
        running.plays(answer({}))
        yield running


@pytest.fixture
def tokens() -> list[str]:
    """The tokens that the configuration gives, one after the other."""
    return ["first", "second"]


@pytest.fixture
def api(server: ApiServer, clock: Clock, tokens: list[str]) -> t.Iterator[ApiClient]:
    pools: list[urllib3.PoolManager] = []

    def open_session() -> Session:
        pools.append(urllib3.PoolManager(maxsize=16))
        token = tokens[len(pools) - 1]
        return Session(pools[-1], server.url, lambda: [("Authorization", f"Bearer {token}")])

    deadline = Deadline(100, clock=clock, sleep=clock.sleep)
    yield ApiClient(Transport(open_session), deadline, RetryPolicy(draw=lambda: 1.0))
    for pool in pools:
        pool.clear()
