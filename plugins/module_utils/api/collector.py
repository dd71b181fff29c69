# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python's cycle collector, put aside while JSON is read.

Values that json.loads makes have no cycles; the collector walks them all the same, again and again
while they grow: more than half of the time that 10,000 pods take.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import typing as t

_lock = threading.Lock()
_readers = 0
_was_on = False


@contextlib.contextmanager
def put_aside() -> t.Iterator[None]:
    """Off until the last of all threads that are in here leaves; then as it was before."""
    global _readers, _was_on
    with _lock:
        if not _readers:
            _was_on = gc.isenabled()
            gc.disable()
        _readers += 1
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if not _readers and _was_on:
                gc.enable()
