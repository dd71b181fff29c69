# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether anybody still waits for what this process is going to print."""

from __future__ import annotations

import os
import select
import stat


def somebody_listens(descriptor: int = 1) -> bool:
    """False once the other end of standard output is closed: whoever ran us is gone.

    Poll reports an error on a pipe that nobody reads any more, without writing to it. What is
    neither pipe nor socket (a file, a terminal) always listens.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    poll = select.poll()
    poll.register(descriptor, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _fd, events in poll.poll(0))
