# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The marks that a drain writes to its nodes, and whether these are still in its maintenance."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..cluster.patching import Applied, apply
from ..model.findings import InputError, InvalidInput
from ..model.objects import Node
from ..model.snapshot import Snapshot
from ..model.write import Write
from ..moves.context import StepContext
from ..moves.events import record_node_event, timestamp
from .drain_plan import DrainView
from .drain_state import DrainState
from .mark import (
    DamagedMark,
    MaintenancePhase,
    Mark,
    again,
    begun,
    has_begun,
    mark_of,
    mark_write,
)
from .options import MaintenanceOptions
from .returns import Returned

PlanMark = t.Callable[[Node], "Write | None"]
"""The write of the mark that a node is to have."""

_NOT_OURS = "was put in service, or taken by another run, during its maintenance"


_VERBS = {MaintenancePhase.DRAINING: "cordoned, to be drained"}


class NodeMarks:
    """The marks of one run. What it knows of the nodes is in its state. What it writes is in its context."""

    def __init__(self, asked: MaintenanceOptions, state: DrainState, context: StepContext) -> None:
        self._asked = asked
        self._state = state
        self._context = context
        self.replaced: dict[str, Mark] = {}
        """The marks of Node objects that were deleted in an earlier maintenance, by the name that a new one has."""

    def is_ours(self, node: Node) -> bool:
        """Whether the node has the mark of this run; one that is only cordoned may have an older one."""
        try:
            mark = mark_of(node)
        except DamagedMark:
            return False
        return mark is not None and (mark.run == self._state.run or self._asked.state == "cordoned")

    def note(self, nodes: t.Iterable[Node]) -> None:
        """Note which nodes the run leaves cordoned if it ends now."""
        state = self._state
        ours = self.is_ours if state.cordoned else has_begun
        state.marked = [
            node.name
            for node in nodes
            if node.name in state.nodes and node.unschedulable and ours(node)
        ]

    def still_ours(self, snapshot: Snapshot) -> tuple[Node, ...]:
        """The nodes of the run. Raises InvalidInput if another client took one out of the maintenance."""
        self.note(snapshot.nodes)
        nodes, errors = snapshot.nodes_by_name, []
        for name, uid in self._state.nodes.items():
            node = nodes.get(name)
            if node is None:
                why = "was deleted during its maintenance"
            elif node.uid != uid:
                why = "was replaced during its maintenance by another node of this name"
            elif not node.unschedulable:
                why = "was uncordoned during its maintenance, by another client"
            elif not self.is_ours(node):
                why = _NOT_OURS
            else:
                continue
            errors.append(InputError(f"Node {name}", f"{why}: nothing more is moved"))
        if errors:
            raise InvalidInput(errors)
        return tuple(nodes[name] for name in self._state.nodes)

    def returned_before(self, nodes: t.Iterable[Node], run: str) -> Returned:
        """What the marks say of returns: of nodes that were drained before, and of a run that this one continues."""
        marks = {node.name: mark_of(node) for node in nodes}
        return {
            name: dict(mark.returned)
            for name, mark in marks.items()
            if mark is not None
            and mark.returned
            and (mark.run == run or mark.phase is MaintenancePhase.DRAINED)
        }

    def of_phase(self, phase: MaintenancePhase, run: str, view: DrainView) -> PlanMark:
        """The marks of nodes that come into this phase. Raises InvalidInput for a node that is not ours any more."""
        state, draining = self._state, phase is MaintenancePhase.DRAINING

        def plan(node: Node) -> Write | None:
            if state.cordoned and not (node.unschedulable and self.is_ours(node)):
                error = InputError(f"Node {node.name}", "was put in service meanwhile")
                raise InvalidInput([error])
            lost = self.replaced.get(node.name)
            away = {**(lost.away if lost else {}), **view.away.get(node.name, {})}
            starts = {*(lost.starts if lost else ()), *view.starts.get(node.name, ())}
            mark = begun(
                node,
                mark_of(node),
                run=run,
                phase=phase,
                reason=self._asked.reason,
                now=timestamp(),
                away=away if draining else {},
                starts=starts if draining else (),
            )
            drained = phase is MaintenancePhase.DRAINED
            down = {} if drained else {**mark.down, **state.restarts.get(node.name, {})}
            returned = state.returned.get(node.name, {})
            return mark_write(node, replace(mark, down=down, returned=returned))

        return plan

    def write(
        self,
        api: ApiClient,
        nodes: t.Iterable[Node],
        plan: PlanMark,
        phase: MaintenancePhase,
        run: str,
        *,
        verb: str = "",
    ) -> None:
        """Write the marks of a phase and report it, as `verb` if one is given. Raises InvalidInput where a node could
        not be written."""
        context, state = self._context, self._state
        applied = write_marks(api, nodes, plan)
        context.writes += applied.done
        context.report.changed |= bool(applied.done)
        state.marked += [
            name for write in applied.done if (name := write.target.name) not in state.marked
        ]
        verb = verb or _VERBS.get(phase, str(phase))
        for write in applied.done:
            context.report.lines.append(f"node {write.target.name}: {verb}")
            record_node_event(context.api, run, write, str(phase), self._asked.reason)
        if applied.failed:
            raise InvalidInput(applied.errors)


def boots(run: str) -> PlanMark:
    """The marks of nodes that an earlier run has drained: work on them may follow, and a reboot before it proves
    nothing about it. Raises InvalidInput for a node that is not drained any more."""

    def plan(node: Node) -> Write | None:
        mark = mark_of(node)
        if not node.unschedulable or mark is None or mark.phase is not MaintenancePhase.DRAINED:
            raise InvalidInput([InputError(f"Node {node.name}", _NOT_OURS)])
        same = mark.boot_id == node.boot_id
        return None if same else mark_write(node, replace(mark, run=run, boot_id=node.boot_id))

    return plan


def planned(nodes: t.Iterable[Node], plan: PlanMark) -> list[Write]:
    return [write for node in nodes if (write := plan(node)) is not None]


def write_marks(api: ApiClient, nodes: t.Iterable[Node], plan: PlanMark) -> Applied:
    return apply(api, planned(nodes, plan), recompute=again(plan))
