# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it takes to follow a text to its end: commands, and what users of the workloads notice."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from demos.stage import Stage
    from sandbox.audit import Mark

PLAYED = "playbook run"


@dataclass(frozen=True)
class Effort:
    """`ended`: instances that were ended, by a restart, an eviction or a deletion; another takes the place of each."""

    commands: int
    ended: int
    migrations: int
    called: str = "command"

    def __str__(self) -> str:
        return (
            f"{_counted(self.commands, self.called)}, {_counted(self.ended, 'instance')} ended and started anew, "
            f"and {_counted(self.migrations, 'live migration')}"
        )

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.commands + other.commands,
            self.ended + other.ended,
            self.migrations + other.migrations,
            self.called,
        )


class Begun(t.NamedTuple):
    """When a step begins: the playbook runs until then, and the place in the audit log."""

    plays: int
    mark: Mark


def begun(stage: Stage) -> Begun:
    return Begun(stage.plays, stage.sandbox.audit.mark())


def effort(stage: Stage, since: Begun) -> Effort:
    """What a step took, by the audit log. Runs that changed nothing do not count: forecasts, refusals, second runs."""
    writes = [event for event in stage.sandbox.audit.writes(since=since.mark) if event.code < 400]
    ended = [
        event
        for event in writes
        if event.subresource in ("eviction", "restart")
        or (event.verb == "delete" and event.resource in ("pods", "virtualmachineinstances"))
    ]
    migrations = [
        event
        for event in writes
        if event.verb == "create" and event.resource == "virtualmachineinstancemigrations"
    ]
    return Effort(stage.plays - since.plays, len(ended), len(migrations), PLAYED)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
