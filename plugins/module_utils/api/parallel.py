# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several reads at a time."""

from __future__ import annotations

import typing as t
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from ..model.gc import collector_paused

_THREADS = 3


def read_together(reads: t.Sequence[t.Callable[[], t.Any]]) -> list[t.Any]:
    """The results of functions that read, with _THREADS of them at a time. Raises the error of the first
    that fails."""
    with collector_paused(), ThreadPoolExecutor(_THREADS, "read") as pool:
        futures: list[Future[t.Any]] = [pool.submit(read) for read in reads]
        done, unfinished = wait(futures, return_when=FIRST_EXCEPTION)
        for future in unfinished:  # after one failure the other lists would probably fail too
            future.cancel()
        for future in done:  # the error, before a canceled one is asked
            future.result()
        return [future.result() for future in futures]
