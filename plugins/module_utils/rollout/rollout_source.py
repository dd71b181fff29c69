# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout moves: the instances whose rules are violated or not enforced, or those of a map or a plan.

It waits for the workloads that replace their pods by themselves, and gives those that it held their own rollouts back.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..cluster.access import require_rights
from ..cluster.lease import LeaseKeeper, LeaseReading
from ..cluster.reading import ReadScope
from ..kinds.registry import RULE_KINDS
from ..kubevirt.moving import PERMISSION
from ..model.plan import Plan
from ..moves import report, takeover
from ..moves.context import StepContext, planned_result
from ..moves.move import MoveRecord
from ..moves.move_source import Wait
from ..moves.rights import rights_of_any_move, rights_of_run
from ..moves.run_plan import RunPlan
from ..moves.start_revisions import StartRevisions
from ..moves.state import RunState, StepResult
from ..moves.watch import Listening
from . import own_rollouts
from .judged_snapshot import JudgedSnapshot
from .not_moved import (
    judge_approved,
    judge_places,
    judge_skipped,
    places,
    report_held,
)
from .options import RolloutOptions, namespaces_of, wanted
from .own_rollouts import ROLLED
from .registry import approval_of

if t.TYPE_CHECKING:
    from ..moves.reconcile import Reconciler
    from ..moves.reconciliation import Reconciliation


class RolloutSource:
    """The source of a rollout."""

    def __init__(
        self, api: ApiClient, options: RolloutOptions, state: RunState, listening: Listening
    ) -> None:
        self.context = StepContext.of_run(api, state, listening, options, "rollout")
        self.context.waits_for = ROLLED
        self.options = options
        self._api, self._report = self.context.api, self.context.report
        self._revisions = StartRevisions(
            self._api, lenient=state.held is None, permission=PERMISSION
        )
        self._view: JudgedSnapshot | None = None

    def read(self, records: t.Iterable[MoveRecord] = (), *, fresh: bool = False) -> JudgedSnapshot:
        of_records = (record.workload.namespace for record in records)
        namespaces = tuple(dict.fromkeys((*namespaces_of(self.options), *of_records)))
        scope = ReadScope(namespaces, RULE_KINDS, budgets=True)
        snapshot = self.context.snapshot(scope, fresh=fresh)
        if self._view is None or self._view.snapshot is not snapshot:
            selection = wanted(self.options, snapshot)
            self._view = JudgedSnapshot.of(
                snapshot, selection, self.options, self._revisions.why_no_restart
            )
        rollouts = own_rollouts.with_deadline(
            self._view.own_rollouts,
            self.context.state.rollouts,
            self.context.elapsed,
            self.options.move_timeout,
        )
        if rollouts != self._view.own_rollouts:  # also where nothing has changed but the time
            self._view = replace(self._view, own_rollouts=rollouts)
        return self._view

    def plan(self, view: JudgedSnapshot, reading: LeaseReading | None) -> Plan:
        plan = view.plan()
        if (approval := approval_of(self.options.approved)) is not None:
            unfinished = takeover.read_journal(reading) if reading is not None else None
            approval.require(self._api.host, view, plan, unfinished)
        return plan

    def nothing_to_do(self, view: JudgedSnapshot, plan: Plan) -> bool:
        if view.held.ends or view.held.waiting or own_rollouts.why_waiting(view.own_rollouts):
            return False
        return not (plan.moves or any(left.temporary for left in plan.skipped))

    def refuse(self, view: JudgedSnapshot, plan: Plan, records: t.Sequence[MoveRecord]) -> None:
        """A rollout may begin whenever its plan fits."""
        if self.context.state.renewal:
            return
        rights = rights_of_run(plan, records) | view.held.rights
        if self.options.require_rights:
            rights |= rights_of_any_move(
                view.candidates,
                self.options.allow,
                apply_pending_changes=self.options.apply_pending_changes,
            )
        require_rights(self._api, rights, role="mover")

    def plan_lines(self, view: JudgedSnapshot, plan: Plan, run: str = "") -> list[str]:
        """The number of instances that were checked tells a wrong namespace from a good placement. A map of VMs has a
        table in the end, which names those that cannot go."""
        names_skipped, selected = self.options.places is None, len(view.candidates)
        lines = report.plan_lines(plan, run, name_skipped=names_skipped, selected=selected)
        return [*lines, *view.held.lines]

    def prepare(
        self, _keeper: LeaseKeeper, view: JudgedSnapshot, _records: t.Sequence[MoveRecord]
    ) -> JudgedSnapshot:
        return view

    def goes_on(self, view: JudgedSnapshot, reconciler: Reconciler, now: Reconciliation) -> bool:
        """Whether a move is in flight, one may begin later, or a workload replaces its pods."""
        own = own_rollouts.why_waiting(view.own_rollouts)
        held = view.held.waiting if now.stop is None else None
        return reconciler.goes_on(now, [own, *now.temporary, held])

    def finish(self, view: JudgedSnapshot, plan: Plan, keeper: LeaseKeeper | None) -> StepResult:
        """Report skipped instances, and those whose rules are not enforced yet."""
        if keeper is None:
            _ends, kept = view.held.check(self._api, ())
        else:
            kept = view.held.end(keeper, self.context)
        result = self._judged(view, self.context.result(finished=True, plan=plan), plan)
        self._judge_skipped(result, plan)
        if (approved := self.options.approved) is not None:
            judge_approved(result, approved, plan.skipped)
        report_held(result, kept)
        return result

    def _judged(self, view: JudgedSnapshot, result: StepResult, plan: Plan) -> StepResult:
        """The result with the workload rollouts that go on, and the instances whose rules are not enforced yet. A step
        that ends no run starts without what this imports."""
        from .not_enforced import report_not_enforced

        result.warnings += own_rollouts.warnings(view.own_rollouts)
        report_not_enforced(result, view.snapshot, view.candidates, plan, self.options.topology)
        return result

    def check(self, view: JudgedSnapshot, plan: Plan, creates: t.Sequence[str]) -> StepResult:
        lines = [*self.plan_lines(view, plan), *creates]
        result = planned_result(self.context, view.snapshot, plan, lines)
        if not self.options.require_rights:
            result.plan = self._plan_of(view, plan).as_json()
        ends, kept = view.held.check(self._api, {move["uid"] for move in result.moves})
        result.changed = result.changed or ends
        self._judged(view, result, plan)
        self._judge_skipped(result, plan)
        report_held(result, kept)
        return result

    def _plan_of(self, view: JudgedSnapshot, plan: Plan) -> RunPlan:
        """The plan that check mode returns: the approved one, or that of now."""
        if self.options.approved is not None:
            return self.options.approved
        zones = report.NodeDescriptions.of(view.snapshot, self.options.zone_key)
        of_moves = {
            move.uid: {"to_zone": zones.domain(move.targets[0])}
            for move in plan.moves
            if move.targets
        }
        cluster = view.snapshot.platform.uid
        return RunPlan(cluster, self.options.planned, plan.moves, of_moves=of_moves)

    def _judge_skipped(self, result: StepResult, plan: Plan) -> None:
        """Check mode fails for the same causes as the run. VMs of a map that its approved plan lacks were named when
        it was made."""
        fail, approved = self.options.fail_on_skipped, self.options.approved
        if self.options.places is None:
            judge_skipped(result, plan, fail=fail)
            return
        approvable = [x for x in plan.skipped if approved is None or x.uid in approved.by_uid]
        judge_places(result, approvable, fail=True)
        judge_places(result, [x for x in plan.skipped if x not in approvable], fail=fail)

    def undone(self, records: t.Sequence[MoveRecord], plan: Plan, waiting: Wait | None) -> str:
        rollouts = self._view.own_rollouts if self._view is not None else ()
        waits = waiting.line if waiting is not None else ""
        return report.undone(records, plan, waits, own_rollouts.unfinished(rollouts))

    def complete(self, result: StepResult, error: Exception | None) -> None:
        """Say where each VM of the option `places` runs when the run has ended, and why it is not in its place."""
        asked = self.options.places
        if asked is not None and self._view is not None and result.finished:
            snapshot = self._view.snapshot
            result.places = places(asked, snapshot, result.moves, result.deferred, result.skipped)
