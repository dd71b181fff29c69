# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker whose `ansible-playbook` is gone ends where it sits in a pause, or repeats the steps of a run.

Since ansible-core 2.19 each worker has a session of its own. A job engine that cancels a job kills the process group of
`ansible-playbook`, and a worker in `ansible.builtin.pause`, as the tasks of a maintenance may have one, would stay
for as long as the pause lasts. Beside the steps of a run only a pause is ended: a worker whose module runs has work to
finish.
"""

from __future__ import annotations

import os
import threading
import time
import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import is_in_pause

POLL = 0.5

_watched: list[int] = []


def when_parent_is_gone(parent: int, act: t.Callable[[], object]) -> None:
    """Call `act`, in a thread, once this process has another parent than `parent`."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        act()

    threading.Thread(target=watch, daemon=True).start()


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
        when_parent_is_gone(parent, _end_in_pause)


def _end_in_pause() -> None:
    while not is_in_pause():
        time.sleep(POLL)
    os._exit(1)
