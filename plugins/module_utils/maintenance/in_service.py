# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of putting nodes back in service: wait until each is back, undo what a drain left, uncordon.

A node is back when it was rebooted if that was expected, is Ready, and KubeVirt may start VMs on it
again (KubeVirt, virt-handler heartbeat: label kubevirt.io/schedulable).
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field, replace

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError, BadAnswer, NotFound, Unreachable
from ..api.lists import list_all
from ..api.transport import ComputingTimeout, Deadline, uptime
from ..cluster import lease
from ..cluster.access import Right, require_rights
from ..cluster.following import FollowedCluster
from ..cluster.patching import apply
from ..cluster.reading import NODES_ONLY, read_snapshot
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import KUBEVIRT_V1, MIGRATIONS, RUN, VMIS
from ..model.objects import Node
from ..model.write import Write
from ..rollout import journal as journals
from ..rollout import takeover
from ..rollout.migrate import NOT_CANCELED, phase_of
from ..rollout.recreate import SUBRESOURCES
from ..rollout.send import record_node_event, timestamp
from ..rollout.state import RolloutState, StepResult
from ..rollout.watch import (
    OVERTIME,
    STEP_LIMIT,
    STEP_SECONDS,
    Listening,
    OutageReport,
    ReportPipe,
    step_bounded,
)
from . import start_again, steering
from .holders import held_by
from .mark import MaintenancePhase, Mark, again, mark_of, unmark_write
from .options import MaintenanceOptions, missing_nodes, select

POLL = 1.0
"""Seconds between two readings of nodes that are not back yet."""

SCHEDULABLE = "kubevirt.io/schedulable"
NODE_NAME = "kubevirt.io/nodeName"
"""Label of a VMI with the node that it runs on (KubeVirt, api core/v1 types.go)."""

EVACUATION = "kubevirt.io/evacuationMigration"
"""Annotation of a migration that KubeVirt makes for an evacuation: the node (api core/v1 types.go)."""

_VMIS = f"/apis/{KUBEVIRT_V1}/{VMIS}"
_MIGRATIONS = f"/apis/{KUBEVIRT_V1}/{MIGRATIONS}"
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


def _is_evacuated(vmi: JSON, node: Node) -> bool:
    return bool((vmi.get("status") or {}).get("evacuationNodeName") == node.name)


def _name(item: JSON) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _of_drain(migration: JSON, node: Node, mark: Mark) -> bool:
    """Whether a run of this collection made the migration, or KubeVirt for an evacuation that is
    canceled."""
    metadata = migration["metadata"]
    evacuated = (metadata.get("annotations") or {}).get(EVACUATION) == node.name
    return RUN in (metadata.get("labels") or {}) or (evacuated and mark.cordoned)


def _left_steering(
    marked: t.Iterable[tuple[Node, Mark]], all_nodes: t.Iterable[Node]
) -> list[Write]:
    """The writes that take away the taints of the runs that drained these nodes and did not end."""
    return steering.taken_off(all_nodes, {mark.run for _node, mark in marked})


@dataclass(slots=True)
class ReturnState(RolloutState):
    """`undone` are lines about what earlier steps did. `checked`: the rights were."""

    checked: bool = False
    undone: list[str] = field(default_factory=list)


class InServiceStep:
    """`nodes` are the selected ones as they were read last, `writes` what was written to them. `missing` says which of
    the others do not exist."""

    def __init__(
        self, api: ApiClient, asked: MaintenanceOptions, state: ReturnState, listening: Listening
    ) -> None:
        self.began = uptime()
        self.before = state.elapsed
        left = max(0.0, asked.run_timeout - state.elapsed) + OVERTIME
        self.api = api.under(Deadline(min(STEP_LIMIT, left)))
        self.cluster = FollowedCluster(self.api)
        self.asked, self.state, self.listening = asked, state, listening
        self.nodes: tuple[Node, ...] = ()
        self.missing = ""
        self.writes: list[Write] = []
        self.lines: list[str] = []
        self.findings: tuple[Finding, ...] = ()
        self.started: list[dict[str, JSON]] = []
        self.outage = OutageReport(
            self.api, ReportPipe(state.pipe), state.away_since, begun=self.before > 0
        )

    @property
    def elapsed(self) -> float:
        return self.before + uptime() - self.began

    def run(self, *, check: bool) -> StepResult:
        """Raises InvalidInput, ApiError and ComputingTimeout where nothing was done."""
        begun = self.before > 0
        try:
            with contextlib.closing(self.cluster), step_bounded(self.api.deadline, begun=begun):
                return self._run(check=check)
        except (ApiError, ComputingTimeout, InvalidInput) as error:
            timed_out = isinstance(error, ComputingTimeout)
            if not (self.writes or self.state.undone or (begun and timed_out)):
                raise
            result = self._result(finished=True)
            result.failure = str(error)
            return result

    def _run(self, *, check: bool) -> StepResult:
        while True:
            try:
                waiting = self._advance(check=check)
            except TRANSIENT_ERRORS as error:
                if check or (not self.before and not self.nodes and isinstance(error, _NO_SERVER)):
                    raise
                waiting = f"waiting for the API server: {error}"
            if not waiting or check:
                result = self._result(finished=True)
                result.failure = self.missing
                return result
            if waiting != self.state.waiting:
                self.lines += [] if self.outage.since else [waiting]
                self.state.waiting = waiting
            if self.elapsed >= self.asked.run_timeout:
                result = self._result(finished=True)
                result.failure = (
                    f"not back within {self.asked.run_timeout} s (run_timeout): {waiting}"
                    + (f"; {self.missing}" if self.missing else "")
                )
                return result
            over = uptime() - self.began >= STEP_SECONDS
            if over or self.lines or not self.listening():
                return self._result(finished=not self.listening())
            self.api.deadline.pause(POLL)

    def _advance(self, *, check: bool) -> str:
        """Put each node in service that is back. Returns what the others lack."""
        all_nodes = self.cluster.snapshot(NODES_ONLY).nodes
        self.cluster.follow(self.api.deadline, lambda _query, _namespace: False)
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
            self.writes = [*_left_steering(marked.values(), all_nodes), *filter(None, writes)]
            stopped = {
                vm: how for node in self.nodes for vm, how in start_again.vms_of(node).items()
            }
            self.started = [start_again.as_json(vm, how) for vm, how in stopped.items()]
            self.lines += [f"would start {vm} again" for vm in stopped]
            self.lines += [f"node {name} {why}" for name, why in sorted(lacks.items())]
        elif back and (held_up := self._undo(back, all_nodes)):
            return held_up
        elif back:
            self._uncordon([node for node, _mark in back])
        if not check:
            self._start_again()
        return "; ".join(f"waiting: node {name} {why}" for name, why in sorted(lacks.items()))

    def _start_again(self) -> None:
        """Start the VMs that the maintenance of nodes that are in service stopped for its time."""
        starter = start_again.Starter(self.api)
        try:
            for node in self.nodes:
                starter.start(node)
        finally:
            self.writes += starter.done
            self.started += starter.started
            self.lines += starter.lines
            self.state.undone += starter.lines
            self.state.changed = self.state.changed or bool(starter.started)
        if starter.done:
            self._select(read_snapshot(self.api, NODES_ONLY).nodes)  # read back
        if starter.errors:
            raise InvalidInput(starter.errors)

    def _select(self, nodes: t.Sequence[Node]) -> None:
        """The nodes that exist are put in service, whatever became of the others: a cloud controller deletes the Node
        object of a machine that is off. Raises InvalidInput if there is none."""
        names = {node.name for node in nodes}
        there = tuple(name for name in self.asked.nodes or () if name in names)
        self.missing = "; ".join(map(str, missing_nodes(self.asked, nodes)))
        if self.missing:
            self.missing += (
                ". If another client deleted it, run again with state in_service when it is back"
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
        self.writes += applied.done
        for write in applied.done:
            mark = begun[write.target.name]
            if write.after["cordoned"] and mark.cordoned:
                holder = held_by(read[write.target.name], mark.taints)
                state = (
                    f"maintenance has ended; it stays cordoned, since {holder} holds it. Uncordon it when"
                    " that has ended, if it is not uncordoned by then"
                )
            elif write.after["cordoned"]:
                state = "maintenance has ended; it stays cordoned, since another client cordoned it"
            elif write.before["cordoned"]:
                state = "in service"
            else:
                state = (
                    "in service; another client had uncordoned it before the end of its maintenance:"
                    " check what ran there meanwhile"
                )
            self.lines.append(f"node {write.target.name}: {state}")
            record_node_event(self.api, mark.run, write, "in_service", "")
        errors = applied.errors
        failed = {x.write.target.name for x in applied.failed}
        if applied.done or applied.unchanged:
            self._select(read_snapshot(self.api, NODES_ONLY).nodes)  # read back
        errors += [
            InputError(f"Node {node.name}", "was put into maintenance again")
            for node in self.nodes
            if node.name in begun.keys() - failed and mark_of(node) is not None
        ]
        if errors:
            raise InvalidInput(errors)

    def _undo(self, back: t.Sequence[tuple[Node, Mark]], all_nodes: t.Iterable[Node]) -> str:
        """Undo what an unfinished drain of these nodes left: its journal, its taints of other nodes, its pending
        migrations, marks of evacuation. Returns why that has to wait. Raises InvalidInput with what could not be
        undone."""
        names = {node.name for node, _mark in back}
        if held_up := self._forget_moves(names):
            return held_up
        applied = steering.write_taints(self.api, _left_steering(back, all_nodes))
        self.writes += applied.done
        self.lines += steering.lines(applied, steering.LEFT_BY_OTHERS, steering.REMOVE)
        errors: list[InputError] = []
        for node, mark in back:
            vmis = self._list(_VMIS, f"{NODE_NAME}={node.name}")
            evacuated = [vmi for vmi in vmis if _is_evacuated(vmi, node)]
            if mark.cordoned:
                self._each(errors, "evacuation of VMI", self._cancel_evacuation, node, evacuated)
            else:  # an evacuation is of the client that cordoned the node
                self.lines += [
                    f"node {node.name}: evacuation of VMI {_name(vmi)} is left to the client that cordoned the node"
                    for vmi in evacuated
                ]
            keys = {(x["metadata"]["namespace"], x["metadata"]["name"]) for x in vmis}
            pending = [
                migration
                for migration in (self._list(_MIGRATIONS) if keys else ())
                if (migration["metadata"]["namespace"], migration["spec"]["vmiName"]) in keys
                and phase_of(migration) not in NOT_CANCELED
                and _of_drain(migration, node, mark)
            ]
            self._each(errors, "migration", self._delete_migration, node, pending)
        if errors:
            raise InvalidInput(errors)
        return ""

    def _each(
        self,
        errors: list[InputError],
        what: str,
        undo: t.Callable[[Node, JSON], str],
        node: Node,
        objects: t.Iterable[JSON],
    ) -> None:
        for item in objects:
            try:
                line = undo(node, item)
            except NotFound:
                continue
            except TRANSIENT_ERRORS:
                raise
            except ApiError as error:
                why = f"{what} {_name(item)} could not be undone: {error}"
                errors.append(InputError(f"Node {node.name}", why, "api"))
                continue
            if line:
                self.lines.append(line)
                self.state.undone.append(line)
                self.state.changed = True

    def _cancel_evacuation(self, node: Node, vmi: JSON) -> str:
        namespace, name = vmi["metadata"]["namespace"], vmi["metadata"]["name"]
        path = f"{SUBRESOURCES}/{namespace}/virtualmachineinstances/{name}/evacuate/cancel"
        try:
            self.api.call_subresource(path, {"evacuationNodeName": node.name})
        except NotFound:  # the VMI, or what an older virt-api serves
            now = self.api.get(f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{VMIS}/{name}")
            if _is_evacuated(now, node):
                self.lines.append(
                    f"node {node.name}: VMI {namespace}/{name} stays marked for evacuation, since this"
                    " KubeVirt does not serve evacuate/cancel: it may still be migrated away"
                )
            return ""
        return f"node {node.name}: evacuation of VMI {_name(vmi)} canceled"

    def _delete_migration(self, node: Node, migration: JSON) -> str:
        metadata = migration["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        path = f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{MIGRATIONS}/{name}"
        self.api.delete(path, uid=metadata["uid"])
        return f"node {node.name}: pending migration {_name(migration)} deleted"

    def _list(self, path: str, selector: str = "") -> tuple[JSON, ...]:
        params = {"labelSelector": selector} if selector else {}
        try:
            return tuple(list_all(self.api, path, params=params).items)
        except NotFound:
            return ()

    def _forget_moves(self, nodes: t.Collection[str]) -> str:
        """Take moves away from these nodes out of the journal of a run that did not end. Returns why that
        has to wait."""
        reading = lease.read(self.api)
        journal = takeover.read_journal(reading)
        about = [x for x in journal.records if x.source in nodes] if journal is not None else []
        if journal is None or not about:
            return ""
        judged = self.state.watch_lease(reading, self.elapsed)
        if judged.renewing:
            raise InvalidInput(
                [
                    InputError(
                        lease.NAME,
                        f"run {reading.holder} moves instances away from {', '.join(sorted(nodes))} and"
                        " is running: end it first",
                    )
                ]
            )
        if not judged.free:
            return f"waiting up to {lease.DURATION} s to see whether run {reading.holder} has ended"
        left = tuple(record for record in journal.records if record.source not in nodes)
        text = journals.write(replace(journal, records=left)) if left else ""
        held = lease.take(self.api, reading, journal.run, text)
        if held is None:
            return "waiting for another run, which has just begun"
        lease.release(self.api, held, text)
        return ""

    def _result(self, *, finished: bool) -> StepResult:
        self.state.elapsed = self.elapsed
        self.state.changed = self.state.changed or bool(self.writes)
        self.state.away_since = self.outage.since
        return StepResult(
            finished=finished,
            state=self.state,
            progress=[*self.lines, *self.outage.lines],
            changed=self.state.changed,
        )
