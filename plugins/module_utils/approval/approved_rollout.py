# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does an approved plan fit the cluster, and what does a rollout that makes it leave alone?

The rollout plans as always, from the cluster of now. Of that plan it makes the approved moves, and no others. Before
its first write it refuses an approved plan of which a move is neither planned any more nor done.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kubevirt.instances import in_flight
from ..model.json_pointer import JSON
from ..model.objects import Toleration
from ..model.obstacle import Obstacle
from ..model.plan import NOT_IN_PLAN, Method, Move, Plan, Uid
from ..model.rendering import listed
from ..model.snapshot import Instance
from ..moves import report
from ..moves.journal import RunJournal, digest
from ..moves.move import Phase
from ..moves.run_plan import ROLLOUT_PLAN, RunPlan
from ..planning.plan_request import PlanRequest
from ..scheduler.node_state import untolerated
from .plan import options_of_plan, other_method, read_plan, require

if t.TYPE_CHECKING:
    from ..rollout.judged_snapshot import JudgedSnapshot


def read(
    given: t.Mapping[str, JSON], defaults: t.Mapping[str, JSON]
) -> tuple[dict[str, JSON], RunPlan]:
    """The options of a task with its option `plan`, and that plan. Raises InvalidInput with what is wrong with it."""
    plan = read_plan(given["plan"], ROLLOUT_PLAN)
    return options_of_plan(given, defaults, plan), plan


class ApprovedMoves:
    """The moves of an approved plan, as an aspect: the plan of now may have no others."""

    def __init__(self, approved: t.Mapping[Uid, Move]) -> None:
        self._approved, self._refused = approved, dict[Uid, Obstacle]()

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        is_known = instance.uid in self._approved
        return self._refused.get(instance.uid) if is_known else NOT_IN_PLAN

    def permits(self, instance: Instance, method: Method) -> bool:
        why = other_method(self._approved[instance.uid].method, method)
        if why is not None:
            self._refused[instance.uid] = why
        return why is None


class MovedSince:
    """What does not run any more where an approved plan moves it from, as an aspect."""

    def __init__(self, approved: t.Mapping[Uid, Move]) -> None:
        self._approved = approved

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        approved, pod = self._approved.get(instance.uid), instance.pod
        if approved is None or pod is None or approved.source == pod.node_name:
            return None
        now = f"runs on {pod.node_name} now" if pod.node_name else "is Pending"
        text = f"the plan moves it from {approved.source or 'no node'}, and it {now}"
        return Obstacle("unlike_plan", text)


@dataclass(frozen=True, slots=True)
class ApprovedRollout:
    """The plan that a rollout makes, with its check."""

    plan: RunPlan

    def require(self, host: str, view: JudgedSnapshot, plan: Plan, run: RunJournal | None) -> None:
        """Raises InvalidInput that names all that has changed since the plan was approved. `plan`: that of now. `run`:
        the journal of a run that is continued."""
        check = _Check(self.plan, view, plan, self._on_the_way(view, run))
        require(self.plan, host, view.snapshot.platform.uid, check.faults())

    def _on_the_way(self, view: JudgedSnapshot, run: RunJournal | None) -> set[str]:
        """The approved instances that move already, or that the run which is continued has moved. A move that it has
        only intended begins anew if its instance is still there."""
        uids = set(in_flight(view.snapshot, view.selection.all_namespaces).instances)
        if run is not None:
            uids |= {
                record.uid
                for record in run.records
                if record.phase is not Phase.INTENDED or record.uid not in view.by_uid
            }
            if run.request == view.options.request:
                uids |= {uid for uid in self.plan.by_uid if digest(uid) in run.settled}
        return uids & self.plan.by_uid.keys()

    def order(self, plan: Plan) -> Plan:
        """The moves of now in the order that was approved, since the first moves are the canary. The run does not wait
        for instances that the approved plan does not move."""
        order = {uid: number for number, uid in enumerate(self.plan.by_uid)}
        moves = sorted(plan.moves, key=lambda move: order.get(move.uid, len(order)))
        skipped = (
            x if x.uid in order or not x.temporary else replace(x, temporary=False)
            for x in plan.skipped
        )
        return replace(plan, moves=tuple(moves), skipped=tuple(skipped))

    def prefer(self, request: PlanRequest) -> PlanRequest:
        """The request for a plan that moves to the approved nodes where these are available, and nothing that has moved
        since."""
        nodes = {move.uid: move.targets[0] for move in self.plan.moves if move.targets}
        return replace(
            request,
            settled=(*request.settled, MovedSince(self.plan.by_uid)),
            preferred_node=lambda uid: nodes.get(uid, ""),
        )

    def covers(self, plan: Plan) -> bool:
        """Whether all moves of a plan are approved, each by its method."""
        moves = self.plan.by_uid
        return all(
            x.uid in moves and other_method(moves[x.uid].method, x.method) is None
            for x in plan.moves
        )

    def narrow(self, request: PlanRequest) -> PlanRequest:
        """The request for a plan that has the approved moves at most."""
        return replace(request, late=(ApprovedMoves(self.plan.by_uid), *request.late))


class _Check:
    """Compares the approved moves with a plan of now, which has no others. `left`: those that are to be made.
    `went_elsewhere`: one of the others may be where these were to go, as it may happen during a rollout."""

    def __init__(
        self,
        approved: RunPlan,
        view: JudgedSnapshot,
        plan: Plan,
        on_the_way: t.Collection[str],
    ) -> None:
        self.view = view
        self.zones = report.NodeDescriptions.of(view.snapshot, view.options.zone_key)
        self.planned = {move.uid: move for move in plan.moves}
        self.skipped = {skipped.uid: skipped for skipped in plan.skipped}
        self.violated = plan.violated
        self.approved = approved
        self.open = [move for move in approved.moves if move.uid not in on_the_way]
        self.left = [move for move in self.open if not self._is_done(move)]
        left = {move.uid for move in self.left}
        begun = [move for move in approved.moves if move.uid not in left]
        self.went_elsewhere = any(map(self._went_elsewhere, begun))

    def _is_done(self, move: Move) -> bool:
        """It runs elsewhere and needs no move, or it was restarted or recreated and what replaced it needs none."""
        if move.uid in self.planned:
            return False
        now = self.view.by_uid.get(move.uid)
        if now is not None:
            return now.node != move.source and move.uid not in self.violated
        if move.method is Method.MIGRATE:
            return False
        successors = self._others_of(move)
        return bool(successors) and self.violated.isdisjoint(successors)

    def _went_elsewhere(self, move: Move) -> bool:
        """The scheduler did not choose the node that the plan counts on, or has not chosen yet."""
        now = self.view.by_uid.get(move.uid)
        uids = self._others_of(move) if now is None else [move.uid]
        return not {self.view.by_uid[uid].node for uid in uids}.intersection(move.targets)

    def _state_of(self, name: str, tolerations: t.Sequence[Toleration]) -> str | None:
        """What keeps pods with these tolerations off a node; None where the node itself does not."""
        node = self.view.snapshot.nodes_by_name.get(name)
        if node is None:
            return f"{name} does not exist any more"
        if node.unschedulable:
            return f"{name} is cordoned"
        taints = [taint.key for taint in untolerated(node.taints, tolerations)]
        return f"{name} has the taint {listed(taints)}" if taints else None

    def _others_of(self, move: Move) -> list[str]:
        """The instances of its workload that the plan does not move."""
        return [
            x.uid
            for x in self.view.candidates
            if x.uid not in self.approved.by_uid
            and x.workload is not None
            and x.workload.ref == move.workload
        ]

    def faults(self) -> t.Iterator[str]:
        for move in self.left:
            if text := self._fault(move):
                yield f"{report.short(move.workload, move.instance)} {text}"

    def _fault(self, move: Move) -> str:
        planned, skipped = self.planned.get(move.uid), self.skipped.get(move.uid)
        if planned is not None:
            node = move.targets[0] if move.targets else ""
            if not node or self.went_elsewhere:
                return ""
            if node not in planned.targets:
                tolerations = self.view.by_uid[move.uid].pod.placement.tolerations
                text = f"cannot move to {node} any more, only to {listed(planned.targets)}"
                state = self._state_of(node, tolerations)
                return text if state is None else f"{text}: {state}"
            zone, before = self.zones.domain(node), self.approved.zone_of(move)
            if self.view.options.pin_target_zone and zone != before:
                return f"would move to zone {zone}: {node} was in zone {before}"
            return ""
        if skipped is not None:
            return "" if skipped.temporary else f"cannot be moved as planned: {skipped.reason}"
        now = self.view.by_uid.get(move.uid)
        if now is not None:
            return f"needs no move any more: it violates nothing on {now.node or 'its node'}"
        others = self._others_of(move)
        if not others:
            return "has no instance any more"
        refused = next((self.skipped[uid].reason for uid in others if uid in self.skipped), None)
        text = f"was replaced: the instance with uid {move.uid} is gone"
        return (
            f"{text}. The one that runs now is not moved: {refused}"
            if refused is not None
            else text
        )
