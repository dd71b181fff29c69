# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a drain: cordon the nodes with their marks, move what runs there, until nothing is left.

A drain is a run of the rollout's engine. What is planned, and when it is over, is here.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError, NotFound
from ..api.lists import list_all
from ..cluster.access import Right, require_rights
from ..cluster.lease import LeaseKeeper, LeaseLost, LeaseReading
from ..cluster.reading import NODES_ONLY, ReadScope, read_snapshot
from ..kinds.registry import OPTIONAL_LISTS
from ..model.findings import Finding, InvalidInput
from ..model.objects import Node, Ref
from ..model.obstacle import Obstacle
from ..model.plan import Plan
from ..model.snapshot import Snapshot, unreadable_errors
from ..model.write import Write
from ..moves import report
from ..moves.context import StepContext, planned_result
from ..moves.move import MoveRecord, Phase
from ..moves.move_source import Wait
from ..moves.rights import rights_of_run
from ..moves.start_revisions import StartRevisions
from ..moves.state import StepResult
from ..moves.takeover import new_run
from ..moves.watch import Listening
from . import drained_nodes, returns, start_again
from .drain_plan import DrainView
from .drain_report import DrainReport, stays, what_is_left
from .drain_state import DrainState
from .failed_moves import not_running, note_restarts, pass_over_failed
from .mark import MaintenancePhase, mark_of
from .node_marks import NodeMarks, PlanMark, boots, planned, write_marks
from .options import (
    MaintenanceOptions,
    check_limits,
    outside_of_window,
    select,
    select_for_drain,
    with_assumed,
)
from .preflight_findings import ALLOW_PENDING_CHANGES, NO_PLACE
from .refusals import warning_lines
from .registry import approval_of
from .steering import Steering

if t.TYPE_CHECKING:
    from ..moves.reconcile import Reconciler
    from ..moves.reconciliation import Reconciliation
    from .drain_preflight import DrainPreflight

EMPTY = 2
"""Readings in a row that show no pod on the nodes: one may have missed a pod that was just bound."""

_ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"

_EVERYTHING = ReadScope(pods="all", quotas=True, budgets=True)


class DrainSource:
    """The source of a drain. `nodes` are the selected ones as they were read last, `findings` those of the preflight,
    `view` is the last reading."""

    view: DrainView

    def __init__(
        self, api: ApiClient, asked: MaintenanceOptions, state: DrainState, listening: Listening
    ) -> None:
        self.context = StepContext.of_run(api, state, listening, asked.run_options, "maintenance")
        self.context.hint = self._hint
        self.api, self.report = self.context.api, self.context.report
        self.asked = asked
        self.drain = state
        self.marks = NodeMarks(asked, state, self.context)
        self.lines = DrainReport(asked, state, self.report)
        self.steering = Steering(asked.serviced_later, state, self.report)
        self.nodes: tuple[Node, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._revisions = StartRevisions(
            self.api, lenient=state.held is None, permission=ALLOW_PENDING_CHANGES
        )
        self._all_nodes: tuple[Node, ...] = ()
        self._empty = 0
        self._came_back = False

    def plan(self, view: DrainView, _reading: LeaseReading | None) -> Plan:
        """What else has changed since the plan was approved is compared in `refuse`, beside the findings."""
        plan = view.plan()
        if (approval := approval_of(self.asked.approved)) is not None:
            approval.require_nodes(self.api.host, view, self.asked.nodes or ())
        return plan

    @functools.cached_property
    def preflight(self) -> DrainPreflight:
        """What asks the forecast. Imported where it is asked: later steps start without it."""
        from .drain_preflight import DrainPreflight

        return DrainPreflight(self.api, self.asked)

    def check(self, view: DrainView, plan: Plan, creates: t.Sequence[str]) -> StepResult:
        """With the nodes that the forecast of the drain expects for each instance, and the marks that a run would write
        last."""
        plan = self.preflight.with_targets(view, plan)
        lines = [*self.plan_lines(view, plan), *creates]
        result = planned_result(self.context, view.snapshot, plan, lines)
        approvable = self.preflight.approvable(view, plan, self.nodes, self.findings)
        result.plan = approvable.as_json() if approvable is not None else None
        outside = outside_of_window(self.asked, self.nodes)
        self.lines.left_behind(view, result)
        if outside or self.drain.not_begun:
            self.lines.not_begun(result)
        writes: list[Write] = []
        if not self.nothing_to_do(view, plan):
            last = MaintenancePhase(self.asked.state)
            writes = planned(self.nodes, self.marks.of_phase(last, "check-mode", view))
            writes += self.steering.planned(view, "check-mode")
        elif self.asked.state == "drained" and not outside:
            writes = planned(self.nodes, self._boots("check-mode"))
        self.context.writes += writes
        result.changed = result.changed or bool(writes)
        return result

    def read(
        self,
        records: t.Iterable[MoveRecord] = (),
        *,
        fresh: bool = False,
        again: t.Collection[str] = (),
    ) -> DrainView:
        """`again`: the lists that are read again."""
        draining = self.asked.state == "drained"
        scope = _EVERYTHING if draining or records else NODES_ONLY
        snapshot = self.context.snapshot(scope, fresh=fresh, again=again)
        gaps = [x for x in snapshot.unreadable if x.resource not in OPTIONAL_LISTS]
        if gaps:
            raise InvalidInput(unreadable_errors(gaps))
        if self.asked.assume_in_service:
            snapshot = replace(snapshot, nodes=with_assumed(self.asked, snapshot.nodes))
        self._all_nodes = snapshot.nodes
        if self.drain.cordoned:
            self.nodes = self.marks.still_ours(snapshot)
        else:
            self.nodes, self.drain.not_begun = select_for_drain(self.asked, snapshot.nodes)
            self.drain.nodes = {node.name: node.uid for node in self.nodes}
            self.marks.note(self.nodes)
        self.view = DrainView(
            snapshot,
            frozenset(self.drain.nodes),
            self.asked.vm_policy,
            self.asked.allow_findings,
            draining and not outside_of_window(self.asked, self.nodes),
            why_no_restart=self._revisions.why_no_restart,
            delegation=self.asked.delegation,
            passed_over=self.drain.passed_over,
            returned=self.drain.returned or self.marks.returned_before(self.nodes, self.drain.run),
            approved=self.asked.approved,
        )
        if self.drain.cordoned and returns.count(
            self.drain.there, self.drain.returned, self.view.present
        ):
            self.view = replace(self.view, returned=copy.deepcopy(self.drain.returned))
            self._came_back = True
        if self.view.moving and not self.drain.placed:
            passed_over = self.preflight.passed_over(self.view)
            self.drain.passed_over = {uid: dict(why) for uid, why in passed_over.items()}
            self.drain.placed = True
            self.view = replace(self.view, passed_over=self.drain.passed_over)
        return self.view

    def _rights(self, view: DrainView, plan: Plan, records: t.Sequence[MoveRecord]) -> set[Right]:
        rights = rights_of_run(plan, records)
        rights |= {Right("patch", "", "nodes", "", "", node.name) for node in self.nodes}
        if self.asked.state == "drained":
            rights.add(Right("list", "storage.k8s.io", "volumeattachments"))
            stopped = {name for names in view.starts.values() for name in names}
            rights |= start_again.rights(Ref(*name.split("/")) for name in stopped)
        return rights

    def plan_lines(self, _view: DrainView, plan: Plan, run: str = "") -> list[str]:
        """A drain has nodes: an empty plan needs no line."""
        return report.plan_lines(plan, run)

    def nothing_to_do(self, _view: DrainView, plan: Plan) -> bool:
        if outside_of_window(self.asked, self.nodes):
            return True
        marks = [mark_of(node) for node in self.nodes]
        if not all(node.unschedulable for node in self.nodes) or None in marks:
            return False
        if self.asked.state == "cordoned":
            return True
        drained = all(mark is not None and mark.phase is MaintenancePhase.DRAINED for mark in marks)
        return drained and not (plan.moves or plan.skipped)

    def refuse(
        self, view: DrainView, plan: Plan, records: t.Sequence[MoveRecord]
    ) -> StepResult | None:
        """Outside of its window a drain ends, perhaps beside moves that another run has left in the journal."""
        if outside_of_window(self.asked, self.nodes):
            return self._not_begun()
        check_limits(self.asked, self.nodes, self._all_nodes)
        if self.asked.state == "drained" and not self.drain.checked:
            self.findings = self._findings()
            self.drain.checked = True
            self.report.lines += warning_lines(self.findings)
        if not self.drain.renewal:
            require_rights(self.api, self._rights(view, plan, records), role="maintainer")
        return None

    def _findings(self) -> tuple[Finding, ...]:
        """Raises InvalidInput where the work must not begin."""
        return self.preflight.findings(self.view, self.nodes, cordoned=bool(self.drain.marked))

    def prepare(
        self, keeper: LeaseKeeper, view: DrainView, records: t.Sequence[MoveRecord]
    ) -> DrainView:
        """Cordon the nodes, each with its mark, and read them back."""
        if self.drain.cordoned:
            return view
        self.read(records, again=("nodes",))  # the limits hold under the Lease
        check_limits(self.asked, self.nodes, self._all_nodes)
        if (
            approval := approval_of(self.asked.approved)
        ) is not None:  # it may have waited for the Lease
            approval.require(self.api.host, self.view, self.asked.nodes or ())
        draining = self.asked.state == "drained"
        phase = MaintenancePhase.DRAINING if draining else MaintenancePhase.CORDONED
        self.drain.returned = self.marks.returned_before(self.nodes, keeper.held.run)
        self.context.writes += self.steering.end_of_others(keeper.api_while_ours(), self.view)
        if draining:
            self.marks.replaced = drained_nodes.replaced(self.api, self.nodes)
        marks = self.marks.of_phase(phase, keeper.held.run, self.view)
        self.marks.write(keeper.api_while_ours(), self.nodes, marks, phase, keeper.held.run)
        self.drain.cordoned = True
        view = self.read(records, again=("nodes",))
        if draining:
            self._note()
        self._steer(keeper)
        return view

    def goes_on(self, _view: DrainView, reconciler: Reconciler, now: Reconciliation) -> bool:
        self.lines.left(self.view, now.nodes)
        self.lines.not_ready(self.nodes)
        self._note_ended_moves(reconciler, now)
        if self.asked.serviced_later:
            self._steer(reconciler.keeper)
        held_up = (record for record in reconciler.journal.records if record.note)
        unsent = next((x for x in held_up if x.phase is Phase.INTENDED), None)
        if unsent is not None and not now.waiting:
            obstacle = Obstacle(unsent.code, unsent.note, True)
            now.waiting = Wait(obstacle, unsent.uid, f"{unsent.instance} on {unsent.source}")
        if reconciler.goes_on(now, now.temporary) or now.plan.skipped:
            self._empty = 0
            may_leave = now.plan.moves or any(x.temporary for x in now.plan.skipped)
            return bool(reconciler.in_flight or now.settling or may_leave)
        if self.asked.state == "cordoned":
            return False
        self._empty += 1
        if self._empty < EMPTY:
            now.settling = True
            return True
        attached = attached_volumes(self.api, now.view.snapshot, self.drain.nodes)
        now.waiting = Wait(attached) if attached is not None else None
        return attached is not None

    def finish(self, _view: DrainView, plan: Plan, _keeper: LeaseKeeper | None) -> StepResult:
        """The nodes are drained, or what stays is named, and what was restarted and does not run."""
        if outside_of_window(self.asked, self.nodes):
            return self._not_begun()
        phase, run = MaintenancePhase.DRAINED, self.drain.run
        result = self.context.result(finished=True, plan=plan)
        self.lines.left_behind(self.view, result)
        if plan.skipped:
            failures = "; ".join(self.drain.failures)
            failed = f". Failed moves: {failures}" if failures else ""
            result.failure = f"not drained: {'; '.join(stays(plan))}{failed}"
        elif (
            down := not_running(self.drain, self.nodes, self.view)
        ) and NO_PLACE not in self.asked.allow_findings:
            result.failure = f"not running after the drain: {'; '.join(down)}"
        elif self.asked.state == "drained" and self.drain.cordoned:
            self._end_steering()
            marks = self.marks.of_phase(phase, run, self.view)
            self.marks.write(self.api, self.nodes, marks, phase, run)
            self.nodes = self.marks.still_ours(read_snapshot(self.api, NODES_ONLY))
            self._note()
        elif self.asked.state == "drained":
            marks = self._boots(run := new_run())
            verb = "drained before, and rebooted since"
            self.marks.write(self.api, self.nodes, marks, phase, run, verb=verb)
            if self.report.changed:  # the marks were written
                nodes = read_snapshot(self.api, NODES_ONLY).nodes
                self.nodes = tuple(node for node in nodes if node.name in self.drain.nodes)
            self._note()  # the run that drained them may have been killed before it did
        result.changed = self.drain.changed = result.changed or self.report.changed
        return result

    def _note(self) -> None:
        nodes, topology = self.nodes, self.asked.topology
        self.report.lines += drained_nodes.note(self.api, nodes, self._all_nodes, topology)

    def _steer(self, keeper: LeaseKeeper) -> None:
        """Before the first restart of the run."""
        if not self.drain.steers:
            api, run = keeper.api_while_ours(), keeper.held.run
            self.context.writes += self.steering.begin(api, self.view, run)

    def _end_steering(self) -> None:
        """At the end of the run, also where it has failed."""
        if self.drain.steered:
            self.context.writes += self.steering.end(self.api, self.drain.run)

    def _note_ended_moves(self, reconciler: Reconciler, now: Reconciliation) -> None:
        """Note what failed, and how often instances came back. The marks have it too, since another run may end the
        drain."""
        moves, state = self.report.moves, self.drain
        if note_restarts(state, moves) or self._came_back:
            marks = self.marks.of_phase(MaintenancePhase.DRAINING, state.run, self.view)
            applied = write_marks(reconciler.keeper.api_while_ours(), self.nodes, marks)
            self.context.writes += applied.done
        self._came_back = False
        lines = pass_over_failed(state, self.view, reconciler.journal, moves, reconciler.refused)
        self.report.lines += lines
        now.settling = now.settling or bool(lines)

    def _not_begun(self) -> StepResult:
        result = self.context.result(finished=True)
        self.lines.not_begun(result)
        return result

    def undone(self, records: t.Sequence[MoveRecord], plan: Plan, waiting: Wait | None) -> str:
        """Each instance that is left, with its own reason."""
        texts = [*what_is_left(records, plan, waiting)]
        texts += [f"node {name} is not Ready" for name in self.drain.not_ready]
        texts += [] if texts or waiting is None else [waiting.line]
        return "; ".join(texts) or (
            "the nodes were empty in one reading, and a second one is needed"
        )

    def _hint(self) -> str:
        if self.drain.marked:
            names = ", ".join(self.drain.marked)
            undo = "undo it with state in_service and no change_id"
            return f". The cordon of {names} stays: remove the cause and run again, or {undo}"
        another_run_has_the_lease = self.drain.held is None and self.drain.renewal
        if self.drain.nodes and another_run_has_the_lease:
            return f". Not begun: {', '.join(self.drain.nodes)}"
        return ""

    def complete(self, result: StepResult, error: Exception | None) -> None:
        """With the nodes as they are now, where the run failed for good."""
        if error is None:
            if result.finished and self.drain.not_begun and result.stop is None:
                self.lines.not_begun(result)
        elif not isinstance(error, (LeaseLost, *TRANSIENT_ERRORS)):
            with contextlib.suppress(ApiError, InvalidInput):
                nodes = read_snapshot(self.api, NODES_ONLY).nodes
                self.marks.note(nodes)
                self.nodes = select(self.asked, nodes)
        if result.finished:
            self._end_steering()

    def _boots(self, run: str) -> PlanMark:
        """Raises InvalidInput where the work must not begin."""
        if self.nodes:
            self._findings()
        return boots(run)


def attached_volumes(
    api: ApiClient, snapshot: Snapshot, nodes: t.Container[str]
) -> Obstacle | None:
    """The volumes that are still attached to the nodes. Volumes of pods that belong to a node
    stay attached."""
    stay = {
        (pod.namespace, claim)
        for pod in snapshot.pods
        if pod.node_name in nodes and not pod.finished
        for claim in pod.claims
    }
    attached = []
    for item in list_all(api, _ATTACHMENTS).items:
        spec = item["spec"]
        if spec.get("nodeName") in nodes:
            volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
            if not volume or _claim(api, volume) not in stay:
                attached.append(f"{volume or item['metadata']['name']} to {spec['nodeName']}")
    text = f"volumes are still attached: {', '.join(sorted(attached))}"
    return Obstacle("in_progress", text, True) if attached else None


def _claim(api: ApiClient, volume: str) -> tuple[str, str]:
    """Namespace and name of the claim of a volume; empty where there is none."""
    try:
        persistent = api.get(f"/api/v1/persistentvolumes/{volume}")
    except NotFound:
        return "", ""
    claim = persistent["spec"].get("claimRef") or {}
    return claim.get("namespace", ""), claim.get("name", "")
