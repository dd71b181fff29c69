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
from ..model.manifests import vmi_from_manifest
from ..model.objects import Node
from ..model.obstacle import Obstacle
from ..model.snapshot import Snapshot, unreadable_errors
from ..model.write import Write
from ..moves.context import StepContext, step_limit
from ..moves.events import record_node_event, timestamp
from ..moves.state import StepResult
from ..moves.watch import STEP_SECONDS, Listening, step_bounded
from . import drained_nodes, start_again, steering
from .drained_nodes import DrainedNode
from .holders import held_by, startup_taints
from .mark import MaintenancePhase, Mark, again, mark_of, takeover_write, unmark_write
from .options import MaintenanceOptions, missing_nodes, select
from .refusals import warning_lines
from .undo_drain import ReturnState, UndoOfDrain, left_steering

POLL = 1.0
"""Seconds between two readings of nodes that are not back yet."""

IN_SERVICE = "in service"

STAYS_CORDONED = "it stays cordoned, since another client cordoned it"

GONE = (
    "does not exist: its Node object was deleted in its maintenance, and none has registered since"
)

_NO_SERVER = (BadAnswer, Unreachable)
"""At first contact a wrong address more often than an outage (`api.client.RetryPolicy`)."""


def why_not_back(node: Node, mark: Mark | None, *, reboot_expected: bool) -> Obstacle | None:
    """What a node lacks before pods may be placed on it; None where it is back. One without a mark needs
    no reboot and no devices: it was replaced, or is in service. One whose drain has not ended needs no reboot, since no
    work was done on it."""
    rebooted = (
        mark is None or mark.phase is MaintenancePhase.DRAINING or node.boot_id != mark.boot_id
    )
    if reboot_expected and not rebooted:
        text = f"was not rebooted (bootID is still {node.boot_id or 'unknown'})"
        return Obstacle("not_rebooted", text, True)
    if not node.ready:
        return _not_ready("is not Ready")
    if SCHEDULABLE not in node.labels:
        return None
    if node.labels[SCHEDULABLE] != "true":
        value = node.labels[SCHEDULABLE]
        return _not_ready(f"has the label {SCHEDULABLE}={value}: virt-handler is not ready")
    devices = mark.devices if mark is not None else ()
    missing = [key for key in devices if not node.allocatable.get(key)]
    return _not_ready(f"has no allocatable {', '.join(missing)}") if missing else None


def _not_ready(text: str) -> Obstacle:
    return Obstacle("node_not_ready", text, True)


def why_not_started(node: Node) -> Obstacle | None:
    """Which startup taints keep pods away from a node that is uncordoned."""
    taints = startup_taints(node) if not node.unschedulable else ()
    text = f"has a startup taint, which a component of the node removes once it is ready: {', '.join(taints)}"
    return _not_ready(text) if taints else None


class InServiceStep:
    """`nodes` are the selected ones as they were read last, `writes` what was written to them. `missing` says which of
    the others do not exist. `gone` are the names of those whose Node objects were deleted in their maintenance: they
    may register again."""

    def __init__(
        self, api: ApiClient, asked: MaintenanceOptions, state: ReturnState, listening: Listening
    ) -> None:
        deadline = Deadline(step_limit(asked.run_timeout, state.elapsed))
        self.context = StepContext(
            api,
            state,
            listening,
            deadline,
            asked.run_options,
            "maintenance",
            begun=state.elapsed > 0,
        )
        self.api, self._lines = self.context.api, self.context.report.lines
        self.asked, self.state = asked, state
        self.nodes: tuple[Node, ...] = ()
        self.missing = ""
        self.gone: tuple[str, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._drained: drained_nodes.DrainedNodes = {}
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
                if not waiting and not check:
                    self._find_evacuations()
            except TRANSIENT_ERRORS as error:
                if check or (
                    not self.context.before and not self.nodes and isinstance(error, _NO_SERVER)
                ):
                    raise
                waiting = f"waiting for the API server: {error}"
            if not waiting or check:
                gone = [f"node {name} {GONE}" for name in self.gone]
                failure = "; ".join([*filter(None, [self.missing]), *gone])
                return self._result(finished=True, failure=failure)
            if waiting != self.state.waiting:
                self._lines += [] if self.context.outage.since else [waiting]
                self.state.waiting = waiting
            if not self._has_time:
                failure = f"not back within {self.asked.run_timeout} s (run_timeout): {waiting}"
                failure += f"; {self.missing}" if self.missing else ""
                return self._result(finished=True, failure=failure)
            over = uptime() - self.context.began >= STEP_SECONDS
            if over or self._lines or not self.context.listening():
                return self._result(finished=not self.context.listening())
            self.api.deadline.pause(POLL)

    @property
    def _has_time(self) -> bool:
        return self.context.elapsed < self.asked.run_timeout

    def _advance(self, *, check: bool) -> str:
        """Put each node in service that is back. Returns what the others lack."""
        if not self.nodes:  # before the nodes: what another job notes later is not of these
            self._drained = drained_nodes.read(self.api)
        all_nodes = _nodes_of(self.context.cluster.snapshot(NODES_ONLY))
        self.context.cluster.follow(self.api.deadline, lambda _query, _namespace: False)
        self._select(all_nodes)
        marked = {node.name: (node, mark) for node in self.nodes if (mark := mark_of(node))}
        replaced = [node for node in self.nodes if self._is_replaced(node)]
        self._require_rights([*marked, *(node.name for node in replaced)])
        lacks = {node.name: str(why) for node in self.nodes if (why := self._why_not_back(node))}
        lacks |= dict.fromkeys(self.gone, GONE)
        back = [pair for name, pair in marked.items() if name not in lacks]
        if check:
            self._plan(list(marked.values()), replaced, all_nodes)
            all_lacks = {**lacks, **self._starting(lacks)}
            self._lines += [f"node {name} {why}" for name, why in sorted(all_lacks.items())]
        elif back and (held_up := self._undo.undo(back, all_nodes)):
            return str(held_up)
        elif back:
            self._uncordon([node for node, _mark in back])
        if not check:
            self._take_over([node for node in replaced if node.name not in lacks])
            lacks |= self._starting(lacks)
            self._start_again()
            self._forget(lacks)
        return "; ".join(f"waiting: node {name} {why}" for name, why in sorted(lacks.items()))

    def _require_rights(self, names: t.Collection[str]) -> None:
        """Once a task, before its first write to the nodes of these names."""
        waiting = {vm for node in self.nodes for vm in start_again.vms_of(node)}
        if not (names or waiting) or self.state.checked:
            return
        patched = {*names, *(node.name for node in self.nodes if waiting)}
        rights = {Right("patch", "", "nodes", "", "", name) for name in patched}
        require_rights(self.api, rights | start_again.rights(waiting), role="maintainer")
        self.state.checked = True

    def _plan(
        self,
        marked: t.Sequence[tuple[Node, Mark]],
        replaced: t.Iterable[Node],
        all_nodes: t.Iterable[Node],
    ) -> None:
        """What check mode returns: the writes, and the VMs that would be started."""
        steered = left_steering(marked, all_nodes)
        writes = [*(self._unmark(node, mark) for node, mark in marked)]
        writes += map(self._taken_over, replaced)
        self.context.writes += [*steered, *filter(None, writes)]
        self._lines += steering.would_be_taken_off(steered)
        stopped = {vm: how for node in self.nodes for vm, how in start_again.vms_of(node).items()}
        self.state.started = [start_again.as_json(vm, how) for vm, how in stopped.items()]
        self._lines += [f"would start {vm} again" for vm in stopped]

    def _is_replaced(self, node: Node) -> bool:
        """Whether the Node object that was drained was deleted since, and this one registered."""
        drained = self._drained.get(node.name)
        return drained is not None and drained.is_replaced_by(node)

    def _why_not_back(self, node: Node) -> Obstacle | None:
        reboot = self.asked.reboot_expected
        if not self._is_replaced(node):
            return why_not_back(node, mark_of(node), reboot_expected=reboot)
        mark = self._drained[node.name].mark
        if mark.devices and SCHEDULABLE not in node.labels:
            return _not_ready(
                f"is a new Node object without the label {SCHEDULABLE}: virt-handler is not ready"
            )
        return why_not_back(node, mark, reboot_expected=reboot)

    def _taken_over(self, node: Node) -> Write | None:
        mark = self._drained[node.name].mark
        return takeover_write(node, mark, self.asked.change_id, timestamp())

    def _take_over(self, nodes: t.Sequence[Node]) -> None:
        """Write to new Node objects what the end of a maintenance leaves on a node. Their cordons are not ours."""
        if not nodes:
            return
        applied = apply(
            self.api,
            [write for node in nodes if (write := self._taken_over(node)) is not None],
            recompute=again(
                lambda node: self._taken_over(node) if self._is_replaced(node) else None
            ),
        )
        self.context.writes += applied.done
        cordoned = {node.name for node in nodes if node.unschedulable}
        for write in applied.done:
            name = write.target.name
            self._lines += _about_new(
                self._drained[name], next(node for node in nodes if node.name == name)
            )
            if name in cordoned:
                self._lines.append(f"node {name}: maintenance has ended; {STAYS_CORDONED}")
            else:
                self.state.starting.append(name)
            record_node_event(self.api, self._drained[name].mark.run, write, "in_service", "")
        self._select(_nodes_of(read_snapshot(self.api, NODES_ONLY)))  # read back
        if applied.errors:
            raise InvalidInput(applied.errors)

    def _find_evacuations(self) -> None:
        """VMIs that another client has marked for evacuation from nodes that are in service now. An outage is waited
        for until run_timeout, and fails no task."""
        nodes = [node for node in self.nodes if not node.unschedulable]
        try:
            read = [vmi_from_manifest(vmi) for node in nodes for vmi in self._undo.vmis_on(node)]
            vmis = [vmi for vmi in read if vmi.evacuation_node_name]
            if not vmis:
                self.findings = ()
                return
            platform = self.context.cluster.snapshot(NODES_ONLY).platform
        except ApiError as error:
            if isinstance(error, TRANSIENT_ERRORS) and self._has_time:
                raise
            self._lines.append(
                f"warning: it is unknown whether VMIs are marked for evacuation: {error}"
            )
            return
        from ..kubevirt.evacuation import evacuation_findings

        self.findings = tuple(evacuation_findings(vmis, self.nodes, platform))
        self._lines += warning_lines(self.findings)

    def _forget(self, lacks: t.Container[str]) -> None:
        """The Lease need not have the marks of nodes that are in service."""
        in_service = {
            node.name: self._drained[node.name]
            for node in self.nodes
            if node.name in self._drained
            and node.name not in lacks
            and mark_of(node) is None
            and not self._is_replaced(node)
        }
        if in_service:
            drained_nodes.forget(self.api, in_service)
            self._drained = {
                name: node for name, node in self._drained.items() if name not in in_service
            }

    def _starting(self, lacks: t.Container[str]) -> dict[str, str]:
        """What the nodes that are uncordoned, and not in `lacks`, still lack. The others of them are in service."""
        uncordoned = [node for node in self.nodes if node.name not in lacks]
        starting = {node.name: str(why) for node in uncordoned if (why := why_not_started(node))}
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
            self.state.started += starter.started
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
        absent = [name for name in self.asked.nodes or () if name not in names]
        deleted = drained_nodes.deleted(self._drained, names)
        self.gone = tuple(name for name in absent if name in deleted)
        unknown = replace(self.asked, nodes=tuple(name for name in absent if name not in self.gone))
        self.missing = "; ".join(map(str, missing_nodes(unknown, nodes)))
        if self.missing:
            self.missing += (
                " (if it was in maintenance and another client deleted it, run again with state in_service when it is"
                " back)"
            )
        known = there or self.gone
        self.nodes = select(replace(self.asked, nodes=there) if known else self.asked, nodes)

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
            is_uncordoned = write.before["cordoned"] and not write.after["cordoned"]
            if is_uncordoned and startup_taints(read[name]):
                self.state.starting.append(name)
                state = "uncordoned"
            self._lines.append(f"node {name}: {state}")
            record_node_event(self.api, mark.run, write, "in_service", "")
        errors = applied.errors
        failed = {failure.write.target.name for failure in applied.failed}
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
        result.progress += self.context.api.transport.outage.taken()
        return result


def _about_new(drained: DrainedNode, node: Node) -> list[str]:
    """Lines about a Node object that has taken the place of one that was deleted in its maintenance."""
    lines = [
        f"node {node.name}: its Node object was deleted in its maintenance, and a new one has registered"
    ]
    if lost := drained.lost_labels(node):
        lines.append(
            f"warning: the new Node object {node.name} has not the labels of the old one: {'; '.join(lost)}. Set them"
            " again, by the playbook topology where it has set them"
        )
    return lines


def _state_after(write: Write, mark: Mark, node: Node) -> str:
    """What a node is once its mark is removed, in words. `node` as it was read before."""
    if write.after["cordoned"] and mark.cordoned:
        holder = held_by(node, mark.taints)
        return (
            f"maintenance has ended; it stays cordoned, since {holder} holds it. Uncordon it when"
            " that has ended, if it is not uncordoned by then"
        )
    if write.after["cordoned"]:
        return f"maintenance has ended; {STAYS_CORDONED}"
    if write.before["cordoned"]:
        return IN_SERVICE
    return (
        "in service; another client had uncordoned it before the end of its maintenance:"
        " check what ran there meanwhile"
    )


def _nodes_of(snapshot: Snapshot) -> tuple[Node, ...]:
    """Raises InvalidInput where nodes cannot be read: of none of them it is known whether it exists."""
    gaps = [gap for gap in snapshot.unreadable if gap.resource == "nodes"]
    if gaps:
        raise InvalidInput(unreadable_errors(gaps))
    return snapshot.nodes
