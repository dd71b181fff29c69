# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The garbage collector is paused, and is afterwards as it was before."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.gc import (
    collector_paused,
    collector_spared_at_exit,
)


@pytest.fixture
def collector() -> t.Iterator[None]:
    yield
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_collector_is_off_in_nested_contexts_and_on_after_the_last() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_collector_is_on_after_an_error() -> None:
    def fail() -> None:
        with collector_paused(), collector_paused():
            assert not gc.isenabled()
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_collector_stays_off_until_the_last_thread_exits() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0
    leave.set()
    thread.join()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_disabled_collector_stays_disabled() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_objects_made_while_paused_are_collected_later() -> None:
    class Ring:
        def __init__(self) -> None:
            self.itself = self

    with collector_paused():
        made = Ring()
    assert made.itself is made
    del made
    assert gc.collect() > 0


def test_objects_are_frozen_at_process_exit() -> None:
    script = f"""
import atexit, gc, runpy
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
runpy.run_path({collector_spared_at_exit.__code__.co_filename!r})["collector_spared_at_exit"]()
print(gc.get_freeze_count())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "True"]
