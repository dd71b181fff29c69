# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work without searches for cyclic garbage in between."""

from __future__ import annotations

import contextlib
import gc
import typing as t


@contextlib.contextmanager
def collector_paused() -> t.Iterator[None]:
    """While it lasts, Python does not search for cyclic garbage, and afterwards it takes what was
    made for long-lived.

    For work that makes hundreds of thousands of lasting objects: each search would visit all of
    them again, and the gigabytes of JSON that they came from, and find nothing. Parsing the pods
    of a large cluster is four times as fast without.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # there and back: from the young generation to the old
                gc.freeze()
                gc.unfreeze()
            gc.enable()
