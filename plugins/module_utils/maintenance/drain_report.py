# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain reports of its nodes: which pods are left on each, and why; which is not Ready, which is not begun."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.objects import Node
from ..model.plan import Plan, skipped_as_json
from ..moves import report
from ..moves.move import MoveRecord
from ..moves.move_source import Wait
from ..moves.state import StepReport, StepResult
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
        if self._asked.window is None:
            return
        reason = self._asked.window.outside
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


def stays(plan: Plan) -> list[str]:
    """The instances that did not leave, with the reasons."""
    return [
        f"{report.short(x.workload or x.instance, x.instance)} on {x.node}: {x.reason}"
        for x in plan.skipped
    ]


def what_is_left(
    records: t.Sequence[MoveRecord], plan: Plan, waiting: Wait | None = None
) -> list[str]:
    """The instances that have not left when the time of a drain is over, by reason: each reason once. `waiting`: what
    the first move of the plan that could not begin waits for."""
    there = {record.uid: str(record.instance) for record in records}
    there |= {move.uid: str(move.instance) for move in plan.moves}
    reasons: dict[str, list[str]] = defaultdict(list)
    for record in records:
        reasons[record.note or str(record.method)].append(f"{record.instance} on {record.source}")
    known = {record.uid for record in records}
    left = [move for move in plan.moves if move.uid not in known]
    for move in left:
        why = "not started"
        if first := next((there[uid] for uid in move.after if uid in there), ""):
            why = f"moves after {first}"
        elif waiting is not None and waiting.uid in ("", move.uid):
            why = waiting.obstacle.text
        reasons[why].append(f"{move.instance} on {move.source}")
    for skipped in plan.skipped:
        name = report.short(skipped.workload or skipped.instance, skipped.instance)
        reasons[str(skipped.reason)].append(f"{name} on {skipped.node}")
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
