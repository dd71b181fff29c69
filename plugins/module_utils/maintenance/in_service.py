# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of putting nodes back in service: wait until each is back, undo what a drain left, uncordon.

A node is back when it was rebooted if that was expected, is Ready, and KubeVirt may start VMs on it
again (KubeVirt, virt-handler heartbeat: label kubevirt.io/schedulable). It is in service once it is uncordoned and
has no startup taint any more: until then it takes no pod.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError, BadAnswer, Unreachable
from ..api.transport import ComputingTimeout, Deadline, uptime
from ..cluster.access import Right, require_rights
from ..cluster.patching import apply
from ..cluster.reading import NODES_ONLY, read_snapshot
from ..kubevirt.labels import SCHEDULABLE
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.objects import Node
from ..model.snapshot import Snapshot, unreadable_texts
from ..model.write import Write
from ..moves.context import StepContext, step_limit
from ..moves.send import record_node_event, timestamp
from ..moves.state import StepResult
from ..moves.watch import STEP_SECONDS, Listening, step_bounded
from . import start_again, steering
from .holders import held_by, startup_taints
from .mark import MaintenancePhase, Mark, again, mark_of, unmark_write
from .options import MaintenanceOptions, missing_nodes, select
from .undo_drain import ReturnState, UndoOfDrain, left_steering

POLL = 1.0
"""Seconds between two readings of nodes that are not back yet."""

IN_SERVICE = "in service"

_NO_SERVER = (BadAnswer, Unreachable)
"""At first contact a wrong address more often than an outage (`api.client.RetryPolicy`)."""


def why_not_back(node: Node, mark: Mark | None, *, reboot_expected: bool) -> str:
    """What a node lacks before pods may be placed on it; empty where it is back. One without a mark needs
    no reboot and no devices: it was replaced, or is in service. One whose drain has not ended needs no reboot, since no
    work was done on it."""
    rebooted = (
        mark is None or mark.phase is MaintenancePhase.DRAINING or node.boot_id != mark.boot_id
    )
    if reboot_expected and not rebooted:
        return f"was not rebooted (bootID is still {node.boot_id or 'unknown'})"
    if not node.ready:
        return "is not Ready"
    if SCHEDULABLE not in node.labels:
        return ""
    if node.labels[SCHEDULABLE] != "true":
        return f"has the label {SCHEDULABLE}={node.labels[SCHEDULABLE]}: virt-handler is not ready"
    devices = mark.devices if mark is not None else ()
    missing = [key for key in devices if not node.allocatable.get(key)]
    return f"has no allocatable {', '.join(missing)}" if missing else ""


def why_not_started(node: Node) -> str:
    """Which startup taints keep pods away from a node that is uncordoned; empty if none does."""
    taints = startup_taints(node) if not node.unschedulable else ()
    if not taints:
        return ""
    return f"has a startup taint, which a component of the node removes once it is ready: {', '.join(taints)}"


class InServiceStep:
    """`nodes` are the selected ones as they were read last, `writes` what was written to them. `missing` says which of
    the others do not exist."""

    def __init__(
        self, api: ApiClient, asked: MaintenanceOptions, state: ReturnState, listening: Listening
    ) -> None:
        deadline = Deadline(step_limit(asked.run_timeout, state.elapsed))
        begun = state.elapsed > 0
        self.context = StepContext(api, state, listening, deadline, begun=begun)
        self.api, self._lines = self.context.api, self.context.report.lines
        self.asked, self.state = asked, state
        self.nodes: tuple[Node, ...] = ()
        self.missing = ""
        self.findings: tuple[Finding, ...] = ()
        self.started: list[dict[str, JSON]] = []
        self._undo = UndoOfDrain(self.context, state)

    def run(self, *, check: bool) -> StepResult:
        """Raises InvalidInput, ApiError and ComputingTimeout where nothing was done."""
        begun = self.context.before > 0
        try:
            with (
                contextlib.closing(self.context.cluster),
                step_bounded(self.api.deadline, begun=begun),
            ):
                return self._run(check=check)
        except (ApiError, ComputingTimeout, InvalidInput) as error:
            timed_out = isinstance(error, ComputingTimeout)
            if not (self.context.writes or self.state.undone or (begun and timed_out)):
                raise
            return self._result(finished=True, failure=str(error))

    def _run(self, *, check: bool) -> StepResult:
        while True:
            try:
                waiting = self._advance(check=check)
            except TRANSIENT_ERRORS as error:
                if check or (
                    not self.context.before and not self.nodes and isinstance(error, _NO_SERVER)
                ):
                    raise
                waiting = f"waiting for the API server: {error}"
            if not waiting or check:
                return self._result(finished=True, failure=self.missing)
            if waiting != self.state.waiting:
                self._lines += [] if self.context.outage.since else [waiting]
                self.state.waiting = waiting
            if self.context.elapsed >= self.asked.run_timeout:
                failure = f"not back within {self.asked.run_timeout} s (run_timeout): {waiting}"
                failure += f"; {self.missing}" if self.missing else ""
                return self._result(finished=True, failure=failure)
            over = uptime() - self.context.began >= STEP_SECONDS
            if over or self._lines or not self.context.listening():
                return self._result(finished=not self.context.listening())
            self.api.deadline.pause(POLL)

    def _advance(self, *, check: bool) -> str:
        """Put each node in service that is back. Returns what the others lack."""
        all_nodes = _nodes_of(self.context.cluster.snapshot(NODES_ONLY))
        self.context.cluster.follow(self.api.deadline, lambda _query, _namespace: False)
        self._select(all_nodes)
        marked = {node.name: (node, mark) for node in self.nodes if (mark := mark_of(node))}
        waiting = {vm for node in self.nodes for vm in start_again.vms_of(node)}
        if (marked or waiting) and not self.state.checked:
            rights = {Right("patch", "", "nodes", "", "", name) for name in marked}
            rights |= {Right("patch", "", "nodes", "", "", x.name) for x in self.nodes if waiting}
            rights |= start_again.rights(waiting)
            require_rights(self.api, rights, role="maintainer")
            self.state.checked = True
        reboot = self.asked.reboot_expected
        lacks = {
            node.name: why
            for node in self.nodes
            if (why := why_not_back(node, mark_of(node), reboot_expected=reboot))
        }
        back = [pair for name, pair in marked.items() if name not in lacks]
        if check:
            writes = (self._unmark(node, mark) for node, mark in marked.values())
            steered = left_steering(marked.values(), all_nodes)
            self.context.writes += [*steered, *filter(None, writes)]
            self._lines += steering.would_be_taken_off(steered)
            stopped = {
                vm: how for node in self.nodes for vm, how in start_again.vms_of(node).items()
            }
            self.started = [start_again.as_json(vm, how) for vm, how in stopped.items()]
            self._lines += [f"would start {vm} again" for vm in stopped]
            all_lacks = {**lacks, **self._starting(lacks)}
            self._lines += [f"node {name} {why}" for name, why in sorted(all_lacks.items())]
        elif back and (held_up := self._undo.undo(back, all_nodes)):
            return held_up
        elif back:
            self._uncordon([node for node, _mark in back])
        if not check:
            lacks |= self._starting(lacks)
            self._start_again()
        return "; ".join(f"waiting: node {name} {why}" for name, why in sorted(lacks.items()))

    def _starting(self, lacks: t.Container[str]) -> dict[str, str]:
        """What the nodes that are uncordoned, and not in `lacks`, still lack. The others of them are in service."""
        uncordoned = [node for node in self.nodes if node.name not in lacks]
        starting = {node.name: why for node in uncordoned if (why := why_not_started(node))}
        for node in uncordoned:
            if node.name in self.state.starting and node.name not in starting:
                self.state.starting.remove(node.name)
                self._lines.append(f"node {node.name}: {IN_SERVICE}")
        return starting

    def _start_again(self) -> None:
        """Start the VMs that the maintenance of nodes that are in service stopped for its time."""
        starter = start_again.Starter(self.api)
        try:
            for node in self.nodes:
                starter.start(node)
        finally:
            self.context.writes += starter.done
            self.started += starter.started
            self._lines += starter.lines
            self.state.undone += starter.lines
            self.state.changed = self.state.changed or bool(starter.started)
        if starter.done:
            self._select(_nodes_of(read_snapshot(self.api, NODES_ONLY)))  # read back
        if starter.errors:
            raise InvalidInput(starter.errors)

    def _select(self, nodes: t.Sequence[Node]) -> None:
        """The nodes that exist are put in service, whatever became of the others: a cloud controller deletes the Node
        object of a machine that is off. Raises InvalidInput if there is none."""
        names = {node.name for node in nodes}
        there = tuple(name for name in self.asked.nodes or () if name in names)
        self.missing = "; ".join(map(str, missing_nodes(self.asked, nodes)))
        if self.missing:
            stop = "" if self.missing.endswith("?") else "."
            self.missing += (
                f"{stop} If it was in maintenance and another client deleted it, run again with state"
                " in_service when it is back"
            )
        self.nodes = select(replace(self.asked, nodes=there) if there else self.asked, nodes)

    def _unmark(self, node: Node, mark: Mark) -> Write | None:
        return unmark_write(node, mark, self.asked.change_id, timestamp())

    def _uncordon(self, nodes: t.Sequence[Node]) -> None:
        begun = {node.name: mark for node in nodes if (mark := mark_of(node)) is not None}

        read: dict[str, Node] = {}

        def plan(node: Node) -> Write | None:
            mark, first = mark_of(node), begun[node.name]
            if mark is None or (mark.run, mark.since) != (first.run, first.since):
                return None
            read[node.name] = node
            return self._unmark(node, mark)

        writes = [write for node in nodes if (write := plan(node)) is not None]
        applied = apply(self.api, writes, recompute=again(plan))
        self.context.writes += applied.done
        for write in applied.done:
            name = write.target.name
            mark = begun[name]
            state = _state_after(write, mark, read[name])
            if state == IN_SERVICE and startup_taints(read[name]):
                self.state.starting.append(name)
                state = "uncordoned"
            self._lines.append(f"node {name}: {state}")
            record_node_event(self.api, mark.run, write, "in_service", "")
        errors = applied.errors
        failed = {x.write.target.name for x in applied.failed}
        if applied.done or applied.unchanged:
            self._select(_nodes_of(read_snapshot(self.api, NODES_ONLY)))  # read back
        errors += [
            InputError(f"Node {node.name}", "was put into maintenance again")
            for node in self.nodes
            if node.name in begun.keys() - failed and mark_of(node) is not None
        ]
        if errors:
            raise InvalidInput(errors)

    def _result(self, *, finished: bool, failure: str = "") -> StepResult:
        self.context.report.changed |= bool(self.context.writes)
        result = self.context.result(finished=finished)
        result.failure = failure
        result.progress += self.context.outage.lines
        return result


def _state_after(write: Write, mark: Mark, node: Node) -> str:
    """What a node is once its mark is removed, in words. `node` as it was read before."""
    if write.after["cordoned"] and mark.cordoned:
        holder = held_by(node, mark.taints)
        return (
            f"maintenance has ended; it stays cordoned, since {holder} holds it. Uncordon it when"
            " that has ended, if it is not uncordoned by then"
        )
    if write.after["cordoned"]:
        return "maintenance has ended; it stays cordoned, since another client cordoned it"
    if write.before["cordoned"]:
        return IN_SERVICE
    return (
        "in service; another client had uncordoned it before the end of its maintenance:"
        " check what ran there meanwhile"
    )


def _nodes_of(snapshot: Snapshot) -> tuple[Node, ...]:
    """Raises InvalidInput where nodes may not be read: of none of them it is known whether it exists."""
    gaps = unreadable_texts(gap for gap in snapshot.unreadable if gap.resource == "nodes")
    if gaps:
        raise InvalidInput([InputError("not permitted", gap, "permission") for gap in gaps])
    return snapshot.nodes
