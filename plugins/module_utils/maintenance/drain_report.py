# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain reports of its nodes: how many pods are left on each, which is not Ready, which is not begun."""

from __future__ import annotations

import typing as t

from ..model.objects import Node
from ..model.plan import skipped_as_json
from ..moves import report
from ..moves.state import StepReport, StepResult
from ..moves.window import outside_of
from .drain_plan import DrainView
from .drain_state import DrainState
from .options import MaintenanceOptions


class DrainReport:
    """Progress lines of one drain. What was reported by earlier steps is in its state."""

    def __init__(self, asked: MaintenanceOptions, state: DrainState, report: StepReport) -> None:
        self._asked, self._state, self._lines = asked, state, report.lines

    def left_behind(self, view: DrainView, result: StepResult) -> None:
        """The pods that would come back, and so are left where they are, as those of DaemonSets are."""
        for left, _stays in view.left_behind:
            name = report.short(left.workload or left.instance, left.instance)
            self._lines.append(f"{name} is left on node {left.node}: {left.reason}")
            result.skipped.append(skipped_as_json(left))

    def not_begun(self, result: StepResult) -> None:
        """The nodes that the window keeps from being begun."""
        reason = outside_of(self._asked.window)
        names = ", ".join(self._state.not_begun or self._state.nodes)
        self._lines.append(f"{names}: not begun, {reason}" if names else reason.text)
        result.stop = reason

    def left(self, view: DrainView, names: report.NodeDescriptions) -> None:
        """How many pods are still on each node, where that has changed."""
        state = self._state
        for node, left in sorted(view.left.items()):
            total = state.totals.setdefault(node, left)
            if left == state.left.get(node, total):
                continue
            state.left[node] = left
            total = state.totals[node] = max(total, left)
            self._lines.append(f"node {names.named(node)}: {left} of {total} still on the node")

    def not_ready(self, nodes: t.Iterable[Node]) -> None:
        """Nodes that the drain cannot empty until they are Ready, and those that are again."""
        not_ready = [node.name for node in nodes if not node.ready]
        for name in sorted(set(not_ready) ^ set(self._state.not_ready)):
            again = "is Ready again" if name not in not_ready else "is not Ready: nothing leaves it"
            self._lines.append(f"node {name} {again}")
        self._state.not_ready = not_ready
