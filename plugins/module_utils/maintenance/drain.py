# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a drain: cordon the nodes with their marks, move what runs there, until nothing is left.

A drain is a run of the rollout's engine. What is planned, and when it is over, is here.
"""

from __future__ import annotations

import contextlib
import copy
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError
from ..cluster.access import Right, Role
from ..cluster.lease import LeaseKeeper, LeaseLost, LeaseReading
from ..cluster.read_new_pods import new_pod_fields
from ..cluster.reading import NODES_ONLY, ReadScope, read_snapshot
from ..forecast.new_pods import needs_of_change
from ..model.findings import Finding, InputError, InvalidInput
from ..model.kinds import POOL
from ..model.objects import Node, Ref
from ..model.plan import Plan, skipped_as_json
from ..model.write import Write
from ..rollout import report
from ..rollout.approved_plan import ApprovedPlan
from ..rollout.check_mode import planned_result
from ..rollout.context import StepContext
from ..rollout.journal import NOTE_LIMIT
from ..rollout.move import MoveRecord, Phase
from ..rollout.reconcile import Reconciler, goes_on
from ..rollout.reconciliation import Reconciliation
from ..rollout.send import StartRevisions, record_node_event, rights_of_run
from ..rollout.state import StepResult
from ..rollout.takeover import new_run
from ..rollout.watch import Listening
from ..rollout.window import OUTSIDE
from . import returns, start_again
from .drain_approval import changed_nodes, changes, new_findings, plan_of
from .drain_plan import DrainView
from .drain_state import DrainState
from .left_over import stays, what_is_left, why_given_up
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
from .places import NO_PLACE, drain_change, drain_forecast, without_node
from .pods import ALLOW_PENDING_CHANGES
from .preflight import preflight
from .read_preflight import attached_volumes, read_preflight
from .refusals import refusal, refusing, warning_lines
from .steering import Steering

EMPTY = 2
"""Readings in a row that show no pod on the nodes: one may have missed a pod that was just bound."""

_EVERYTHING = ReadScope(pods="all", quotas=True, budgets=True)


class DrainSource:
    """The source of a drain. `nodes` are the selected ones as they were read last, `findings` those of the preflight,
    `view` is the last reading."""

    view: DrainView
    role: Role = "maintainer"
    task = "maintenance"

    def __init__(
        self, api: ApiClient, asked: MaintenanceOptions, state: DrainState, listening: Listening
    ) -> None:
        self.context = StepContext.of_run(api, state, listening, asked.run_timeout)
        self.options = asked.run_options
        self.api, self.report = self.context.api, self.context.report
        self.asked = asked
        self.drain = state
        self.marks = NodeMarks(asked, state)
        self.steering = Steering(asked.serviced_later, state, self.report)
        self.nodes: tuple[Node, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._revisions = StartRevisions(
            self.api, lenient=state.held is None, permission=ALLOW_PENDING_CHANGES
        )
        self._all_nodes: tuple[Node, ...] = ()
        self._empty = 0
        self._new_pods: dict[str, t.Any] | None = None
        self._came_back = False

    def plan(self, view: DrainView, _reading: LeaseReading | None) -> Plan:
        """What else has changed since the plan was approved is compared in `refuse`, beside the findings."""
        plan = view.plan()
        if (approved := self.asked.approved) is not None:
            approved.plan.require_cluster(view.snapshot.platform.uid, self.api.host)
            if changed_nodes(approved, self.asked, self._all_nodes):
                raise approved.plan.refusal(changes(self.api, approved, view, plan, self.asked))
        return plan

    def _approvable(self, plan: Plan) -> ApprovedPlan | None:
        """The plan that check mode returns, also outside of the window, since it is for that. Raises InvalidInput for
        findings that would refuse the drain then."""
        approved = self.asked.approved
        if approved is not None or self.asked.state != "drained":
            return approved.plan if approved is not None else None
        view, findings = self.view, self.findings
        if outside_of_window(self.asked, self.nodes):
            view = self._with_new_pods(replace(view, moving=True))
            passed_over = without_node(view, self.asked.topology)
            view = replace(view, passed_over=passed_over)
            plan = self._with_targets(view, view.plan())
            findings = preflight(read_preflight(self.api, view, self.asked))
            if refused := refusing(findings, self.asked.allow_findings):
                raise refusal(refused)
        return plan_of(self.api, view, plan, findings, self.asked)

    def _with_targets(self, view: DrainView, plan: Plan) -> Plan:
        expected = drain_forecast(view, self.asked.topology).moves
        targets = {move.uid: move.targets for move in expected}
        moves = (replace(move, targets=targets.get(move.uid, ())) for move in plan.moves)
        return replace(plan, moves=tuple(moves))

    def check(self, view: DrainView, plan: Plan, creates: t.Sequence[str]) -> StepResult:
        """With the nodes that the forecast of the drain expects for each instance, and the marks that a run would write
        last."""
        if plan.moves:
            plan = self._with_targets(self._with_new_pods(view), plan)
        lines = [*self.plan_lines(view, plan), *creates]
        result = planned_result(self.context, self.options, view.snapshot, plan, lines)
        approvable = self._approvable(plan)
        result.plan = approvable.as_json() if approvable is not None else None
        outside = outside_of_window(self.asked, self.nodes)
        self._report_left_behind(result)
        if outside or self.drain.not_begun:
            self._report_not_begun(result)
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
        gaps = (str(gap) for gap in snapshot.unreadable if gap.resource != POOL.plural)
        if errors := [InputError("not permitted", gap, "permission") for gap in gaps]:
            raise InvalidInput(errors)
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
            passed_over = without_node(self._with_new_pods(self.view), self.asked.topology)
            self.drain.passed_over = {uid: dict(why) for uid, why in passed_over.items()}
            self.drain.placed = True
            self.view = replace(self.view, passed_over=self.drain.passed_over)
        return self.view

    def _with_new_pods(self, view: DrainView) -> DrainView:
        """The view with what a forecast reads beside about the pods that the drain moves. Read once a step."""
        if self._new_pods is None:
            self._new_pods = new_pod_fields(self.api, needs_of_change(drain_change(view)))
        return replace(view, snapshot=replace(view.snapshot, **self._new_pods))

    def rights(self, view: DrainView, plan: Plan, records: t.Sequence[MoveRecord]) -> set[Right]:
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

    def refuse(self, _view: DrainView, plan: Plan) -> StepResult | None:
        """Outside of its window a drain ends, perhaps beside moves that another run has left in the journal."""
        if outside_of_window(self.asked, self.nodes):
            return self._not_begun()
        check_limits(self.asked, self.nodes, self._all_nodes)
        if self.asked.state == "drained" and not self.drain.checked:
            self.findings = self._preflight(plan)
            self.drain.checked = True
            self.report.lines += warning_lines(self.findings)
        return None

    def _preflight(self, plan: Plan) -> tuple[Finding, ...]:
        """The findings. Raises InvalidInput for those that refuse the drain, and for all that has changed since a plan
        was approved."""
        view = self._with_new_pods(self.view)
        findings = preflight(read_preflight(self.api, view, self.asked))
        marks = [mark_of(node) if node.unschedulable else None for node in self.nodes]
        begun_before = all(mark and mark.phase is not MaintenancePhase.CORDONED for mark in marks)
        refused = refusing(findings, self.asked.allow_findings, continues=begun_before)
        if (approved := self.asked.approved) is not None:
            seen = changes(self.api, approved, self.view, plan, self.asked)
            compared = [x for x in findings if x not in refused and not begun_before]
            seen += new_findings(approved, compared, self.view.snapshot)
            if seen:
                raise approved.plan.refusal([*seen, *(f"{x.name}: {x.why}" for x in refused)])
        if refused:
            raise refusal(refused, "" if self.drain.marked else " No node was cordoned.")
        return findings

    def prepare(
        self, keeper: LeaseKeeper, view: DrainView, records: t.Sequence[MoveRecord]
    ) -> DrainView:
        """Cordon the nodes, each with its mark, and read them back."""
        if self.drain.cordoned:
            return view
        self.read(records, again=("nodes",))  # the limits hold under the Lease
        check_limits(self.asked, self.nodes, self._all_nodes)
        self._require_unchanged()
        draining = self.asked.state == "drained"
        phase = MaintenancePhase.DRAINING if draining else MaintenancePhase.CORDONED
        self.drain.returned = self.marks.returned_before(self.nodes, keeper.held.run)
        self.context.writes += self.steering.end_of_others(keeper.api_while_ours(), self.view)
        self._write(keeper.api_while_ours(), phase, keeper.held.run)
        self.drain.cordoned = True
        view = self.read(records, again=("nodes",))
        self._steer(keeper)
        return view

    def _require_unchanged(self) -> None:
        """The run may have waited long for the Lease."""
        if (approved := self.asked.approved) is not None:
            plan = self.view.plan()
            if seen := changes(self.api, approved, self.view, plan, self.asked):
                raise approved.plan.refusal(seen)

    def advance(self, _view: DrainView, _reconciler: Reconciler, _now: Reconciliation) -> None:
        """A drain writes nothing between its moves."""

    def goes_on(self, _view: DrainView, reconciler: Reconciler, now: Reconciliation) -> bool:
        self._report_left(now.nodes)
        self._report_not_ready()
        self._note_restarts(reconciler)
        self._note_returns(reconciler)
        passed_over = self._pass_over_failed(reconciler)
        if self.asked.serviced_later:
            self._steer(reconciler.keeper)
        held_up = (record for record in reconciler.journal.records if record.note)
        unsent = next((x for x in held_up if x.phase is Phase.INTENDED), None)
        if unsent is not None and not now.waiting:
            now.waiting = f"{unsent.instance} on {unsent.source}: {unsent.note}"
        if passed_over:
            now.settling = True
        if goes_on(reconciler, now, now.temporary) or now.plan.skipped:
            self._empty = 0
            may_leave = now.plan.moves or any(x.temporary for x in now.plan.skipped)
            return bool(reconciler.in_flight or now.settling or may_leave)
        if self.asked.state == "cordoned":
            return False
        self._empty += 1
        if self._empty < EMPTY:
            now.settling = True
            return True
        now.waiting = attached_volumes(self.api, now.view.snapshot, self.drain.nodes)
        return bool(now.waiting)

    def finish(self, _view: DrainView, plan: Plan, _keeper: LeaseKeeper | None) -> StepResult:
        """The nodes are drained, or what stays is named, and what was restarted and does not run."""
        if outside_of_window(self.asked, self.nodes):
            return self._not_begun()
        result = self.context.result(finished=True, plan=plan)
        self._report_left_behind(result)
        if plan.skipped:
            failures = "; ".join(self.drain.failures)
            failed = f". Failed moves: {failures}" if failures else ""
            result.failure = f"not drained: {'; '.join(stays(plan))}{failed}"
        elif (down := self._not_running()) and NO_PLACE not in self.asked.allow_findings:
            result.failure = f"not running after the drain: {'; '.join(down)}"
        elif self.asked.state == "drained" and self.drain.cordoned:
            self._end_steering()
            self._write(self.api, MaintenancePhase.DRAINED, self.drain.run)
            self.nodes = self.marks.still_ours(read_snapshot(self.api, NODES_ONLY))
        elif self.asked.state == "drained":
            boots = self._boots(run := new_run())
            self._write(self.api, MaintenancePhase.DRAINED, run, boots)
        result.changed = self.drain.changed = result.changed or self.report.changed
        return result

    def _steer(self, keeper: LeaseKeeper) -> None:
        """Before the first restart of the run."""
        if not self.drain.steers:
            api, run = keeper.api_while_ours(), keeper.held.run
            self.context.writes += self.steering.begin(api, self.view, run)

    def _end_steering(self) -> None:
        """At the end of the run, also where it has failed."""
        if self.drain.steered:
            self.context.writes += self.steering.end(self.api, self.drain.run)

    def _note_restarts(self, reconciler: Reconciler) -> None:
        """Write restarts that failed to the marks of their nodes: another run may end the drain."""
        restarts = self.drain.restarts
        known = sum(map(len, restarts.values()))
        for move in self.report.moves:
            if move["state"] == "failed" and move["method"] in ("restart", "recreate"):
                workload = f"{move['kind']}/{move['namespace']}/{move['name']}"
                failed = restarts.setdefault(move["from_node"], {})
                failed[workload] = move["reason"][:NOTE_LIMIT]
        if sum(map(len, restarts.values())) > known:
            self._note(reconciler)

    def _note_returns(self, reconciler: Reconciler) -> None:
        """Write to the marks how often instances came back, so that a run that continues this one counts on."""
        if not self._came_back:
            return
        self._came_back = False
        self._note(reconciler)

    def _pass_over_failed(self, reconciler: Reconciler) -> bool:
        """Note the policies of VMs by which moves failed, where another policy of the VM remains. Returns whether there
        is one that was not noted. A migration that the server refuses is none that failed: who forbids it does not
        want a restart in its place."""
        noted = False
        failed = {
            move["uid"]: move
            for move in self.report.moves
            if move["state"] == "failed" and move["uid"] not in reconciler.refused
        }
        for vmi in (x for x in self.view.snapshot.vmis if x.uid in failed):
            way = self.view.way_of_vm(vmi)
            if way.method is None or str(way.method) != failed[vmi.uid]["method"]:
                continue
            why = why_given_up(reconciler.journal, vmi.uid, way.method)
            known = self.drain.passed_over.get(vmi.uid, {})
            if why and way.policy not in known and self.view.ways.has_alternative(vmi, way.policy):
                reason = f"{why}: {failed[vmi.uid]['reason'][:NOTE_LIMIT]}"
                self.drain.passed_over[vmi.uid] = {**known, way.policy: reason}
                name = report.short(vmi.ref, vmi.ref)
                self.report.lines.append(
                    f"{name} does not leave by {way.policy} any more, since {why}: another one of its policies follows"
                )
                noted = True
        return noted

    def _not_running(self) -> list[str]:
        """The workloads that do not run since this run or an earlier one restarted them, with the reasons."""
        marks = [mark.down for mark in map(mark_of, self.nodes) if mark is not None]
        restarts = [*marks, *self.drain.restarts.values()]
        reasons = {Ref(*key.split("/")): why for down in restarts for key, why in down.items()}
        return [f"{ref}: {why}" for ref, why in reasons.items() if not self.view.runs(ref)]

    def _not_begun(self) -> StepResult:
        result = self.context.result(finished=True)
        self._report_not_begun(result)
        return result

    def _report_not_begun(self, result: StepResult) -> None:
        reason = f"{OUTSIDE} {self.asked.window}"
        names = ", ".join(self.drain.not_begun or self.drain.nodes)
        self.report.lines.append(f"{names}: not begun, {reason}" if names else reason)
        result.stop_reason = reason

    def undone(self, records: t.Sequence[MoveRecord], plan: Plan, waiting: str) -> str:
        """Each instance that is left, with its own reason."""
        texts = [*what_is_left(records, plan, waiting)]
        texts += [f"node {name} is not Ready" for name in self.drain.not_ready]
        return (
            "; ".join(texts)
            or waiting
            or "the nodes were empty in one reading, and a second one is needed"
        )

    def hint(self) -> str:
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
            if result.finished and self.drain.not_begun and not result.stop_reason:
                self._report_not_begun(result)
        elif not isinstance(error, (LeaseLost, *TRANSIENT_ERRORS)):
            with contextlib.suppress(ApiError, InvalidInput):
                nodes = read_snapshot(self.api, NODES_ONLY).nodes
                self.marks.note(nodes)
                self.nodes = select(self.asked, nodes)
        if result.finished:
            self._end_steering()

    def _report_left_behind(self, result: StepResult) -> None:
        """The pods that would come back, and so are left where they are, as those of DaemonSets are."""
        for left, _stays in self.view.left_behind:
            name = report.short(left.workload or left.instance, left.instance)
            self.report.lines.append(f"{name} is left on node {left.node}: {left.reason}")
            result.skipped.append(skipped_as_json(left))

    def _report_left(self, places: report.NodeDescriptions) -> None:
        for node, left in sorted(self.view.left.items()):
            total = self.drain.totals.setdefault(node, left)
            if left == self.drain.left.get(node, total):
                continue
            self.drain.left[node] = left
            total = self.drain.totals[node] = max(total, left)
            line = f"node {places.named(node)}: {left} of {total} still on the node"
            self.report.lines.append(line)

    def _report_not_ready(self) -> None:
        """Nodes that the drain cannot empty until they are Ready, and those that are again."""
        not_ready = [node.name for node in self.nodes if not node.ready]
        for name in sorted(set(not_ready) ^ set(self.drain.not_ready)):
            again = "is Ready again" if name not in not_ready else "is not Ready: nothing leaves it"
            self.report.lines.append(f"node {name} {again}")
        self.drain.not_ready = not_ready

    def _boots(self, run: str) -> PlanMark:
        """Raises InvalidInput where the work must not begin."""
        if self.nodes:
            self._preflight(Plan())
        return boots(run)

    def _note(self, reconciler: Reconciler) -> None:
        """Write what the state knows to the marks: another run may end the drain."""
        api = reconciler.keeper.api_while_ours()
        plan = self.marks.of_phase(MaintenancePhase.DRAINING, self.drain.run, self.view)
        self.context.writes += write_marks(api, self.nodes, plan).done

    def _write(
        self, api: ApiClient, phase: MaintenancePhase, run: str, drained: PlanMark | None = None
    ) -> None:
        """Write the marks. Raises InvalidInput where a node could not be written."""
        plan = drained or self.marks.of_phase(phase, run, self.view)
        applied = write_marks(api, self.nodes, plan)
        self.context.writes += applied.done
        self.report.changed |= bool(applied.done)
        self.drain.marked += [
            name for write in applied.done if (name := write.target.name) not in self.drain.marked
        ]
        verb = {MaintenancePhase.DRAINING: "cordoned, to be drained"}.get(phase, str(phase))
        verb = "drained before, and rebooted since" if drained is not None else verb
        for write in applied.done:
            self.report.lines.append(f"node {write.target.name}: {verb}")
            record_node_event(self.api, run, write, str(phase), self.asked.reason)
        if applied.failed:
            raise InvalidInput(applied.errors)
