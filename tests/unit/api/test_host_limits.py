# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit of this host is named, and is no fault of the network, the kubeconfig or the token."""

from __future__ import annotations

import errno
import threading

import pytest
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError

from ansible_collections.virt.placement.plugins.module_utils.api.connection import open_session
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    FILES,
    MEMORY,
    THREADS,
    ApiRequest,
    HostLimit,
    HostLimitReached,
    NoConfiguration,
    Unreachable,
    host_limit,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import classify_errors

OPTIONS = {"host": "http://127.0.0.1:1", "api_key": "x"}


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_thread_that_cannot_be_started_is_no_fault_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(NoConfiguration) as raised:
        open_session(OPTIONS)
    assert str(raised.value) == str(THREADS)


def test_token_that_is_not_read_since_no_thread_starts_names_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = open_session(OPTIONS)
    monkeypatch.setattr(session.headers, "_fresh_until", 0.0)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(NoConfiguration, match="the token cannot be renewed: this host starts no"):
        session.headers()


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (RuntimeError("can't start new thread"), THREADS),
        (RuntimeError("another one"), None),
        (MemoryError(), MEMORY),
        (OSError(errno.EMFILE, "Too many open files"), FILES),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), None),
    ],
)
def test_limit_of_an_error(error: Exception, limit: HostLimit | None) -> None:
    assert host_limit(error) == limit
    outer = ValueError("outer")
    outer.__cause__ = error
    assert host_limit(outer) == limit


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EHOSTUNREACH])
def test_connection_without_a_free_file_names_the_limit(number: int) -> None:
    error = NewConnectionError(HTTPConnection("127.0.0.1"), "seen")
    error.__cause__ = OSError(number, "seen")
    with pytest.raises(Unreachable) as raised, classify_errors(ApiRequest("GET", "/api/v1/pods")):
        raise error
    assert isinstance(raised.value, HostLimitReached) is (number == errno.EMFILE)
    assert ("ulimit -n" in str(raised.value)) is (number == errno.EMFILE)
