# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker that sits in a pause ends when its `ansible-playbook` is gone.

Since ansible-core 2.19 each worker has a session of its own. A job engine that cancels a job kills the process group of
`ansible-playbook`, and a worker in `ansible.builtin.pause`, as the tasks of a maintenance may have one, would stay
for as long as the pause lasts. Only a pause is ended: a worker whose module runs has work to finish.
"""

from __future__ import annotations

import os
import sys
import threading
import time

POLL = 1.0

_PAUSE = os.path.join("plugins", "action", "pause.py")

_watched: list[int] = []


def end_pauses_with_parent() -> None:
    """Of the workers that this process forks from now on. `ansible-playbook` loads the action of a task, which calls
    this, before it forks the worker."""
    if os.getpid() not in _watched:
        _watched.append(os.getpid())
        os.register_at_fork(after_in_child=_watch)


def _watch() -> None:
    """In the worker."""
    parent = os.getppid()
    if parent in _watched:
        threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL)
    while not _is_in_pause():
        time.sleep(POLL)
    os._exit(1)


def _is_in_pause() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_PAUSE):
            return True
        frame = frame.f_back
    return False
