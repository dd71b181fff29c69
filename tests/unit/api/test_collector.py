# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cycle collector comes back."""

from __future__ import annotations

import gc
import threading

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.collector import put_aside


def test_it_is_off_inside_and_on_after_even_after_an_error() -> None:
    def fail() -> None:
        with put_aside(), put_aside():
            assert not gc.isenabled()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert gc.isenabled()


def test_the_last_thread_turns_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with put_aside():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with put_aside():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off() -> None:
    gc.disable()
    try:
        with put_aside():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
