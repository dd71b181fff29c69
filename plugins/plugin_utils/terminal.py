# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that a task prints while it runs, below its banner."""

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import one_line
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import (
    has_late_banner,
)

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task

_headed: set[str] = set()


def show_lines(task: Task, host: str, lines: t.Iterable[str], color: str | None = None) -> None:
    """Print the lines, each with the name of the inventory host. Nothing is printed of a task with no_log."""
    if task.no_log:
        return
    for line in lines:
        if (written := task.get_path()) not in _headed:
            _headed.add(written)
            if has_late_banner():
                Display().banner(f"TASK [{one_line(task.get_name())}]")
        Display().display(one_line(f"[{host}] {line}" if host else line), color=color)
