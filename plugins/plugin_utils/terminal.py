# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that a task prints while it runs, below its banner."""

from __future__ import annotations

import typing as t

from ansible import constants as C  # noqa: N812
from ansible.utils.display import Display

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import one_line

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task

LATE_BANNER = ("display_skipped_hosts", "display_ok_hosts")
"""Options of the callback plugin `default`. Without one of them it prints the banner of a task with its result."""

_headed: set[str] = set()


def show_lines(task: Task, host: str, lines: t.Iterable[str], color: str | None = None) -> None:
    """Print the lines, each with the name of the inventory host. Nothing is printed of a task with no_log."""
    if task.no_log:
        return
    for line in lines:
        if task._uuid not in _headed:
            _headed.add(task._uuid)
            if _banner_is_late():
                Display().banner(f"TASK [{one_line(task.get_name())}]")
        Display().display(one_line(f"[{host}] {line}" if host else line), color=color)


def _banner_is_late() -> bool:
    try:
        values = [
            C.config.get_config_value(name, plugin_type="callback", plugin_name="default")
            for name in LATE_BANNER
        ]
    except Exception:  # the plugin is another one, which may not have these options
        return False
    return not all(values)
