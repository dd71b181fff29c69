# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain asks of the forecast before its first move: what refuses it, and where its VMs go.

Imported by a step that asks: those that move do not start with the forecast.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..cluster.pod_dry_runs import pod_dry_runs
from ..cluster.read_new_pods import new_pod_fields
from ..forecast.admission import asked_of_server
from ..forecast.new_pods import needs_of_change
from ..model.findings import Finding
from ..model.objects import Node
from ..model.plan import Plan
from ..moves.run_plan import RunPlan
from . import drained_nodes
from .drain_plan import DrainView
from .mark import MaintenancePhase, mark_of
from .options import MaintenanceOptions, outside_of_window
from .places import drain_change, drain_forecast, without_node
from .preflight import preflight
from .read_preflight import read_preflight
from .refusals import refusal, refusing
from .registry import approval_of
from .returned_plan import plan_of
from .vm_ways import PassedOver


class DrainPreflight:
    """Reads what a forecast needs about the pods that the drain moves, once a step."""

    def __init__(self, api: ApiClient, asked: MaintenanceOptions) -> None:
        self._api, self._asked = api, asked
        self._new_pods: dict[str, t.Any] | None = None

    def passed_over(self, view: DrainView) -> PassedOver:
        """The policies by which a VM would have no node, though it has others."""
        return without_node(self._with_new_pods(view), self._asked.topology)

    def findings(
        self, view: DrainView, nodes: t.Sequence[Node], *, cordoned: bool
    ) -> tuple[Finding, ...]:
        """Raises InvalidInput for findings that refuse the drain, and for all that has changed since a plan was
        approved. `cordoned`: this run has cordoned a node."""
        findings = self._findings(self._with_new_pods(view))
        marks = [mark_of(node) if node.unschedulable else None for node in nodes]
        begun_before = all(mark and mark.phase is not MaintenancePhase.CORDONED for mark in marks)
        refused = refusing(findings, self._asked.allow_findings, continues=begun_before)
        if (approval := approval_of(self._asked.approved)) is not None:
            compared = [x for x in findings if x not in refused and not begun_before]
            names = self._asked.nodes or ()
            approval.require(self._api.host, view, names, compared, refused)
        if refused:
            raise refusal(refused, "" if cordoned else " No node was cordoned.")
        return findings

    def with_targets(self, view: DrainView, plan: Plan) -> Plan:
        """The plan with the nodes that the forecast of the drain expects for each instance."""
        if not plan.moves:
            return plan
        expected = drain_forecast(self._with_new_pods(view), self._asked.topology).moves
        targets = {move.uid: move.targets for move in expected}
        moves = (replace(move, targets=targets.get(move.uid, ())) for move in plan.moves)
        return replace(plan, moves=tuple(moves))

    def approvable(
        self, view: DrainView, plan: Plan, nodes: t.Sequence[Node], findings: tuple[Finding, ...]
    ) -> RunPlan | None:
        """The plan that check mode returns, also outside of the window, since it is for that. Raises InvalidInput for
        findings that would refuse the drain then. `findings` are those that were made inside of it."""
        approved = self._asked.approved
        if approved is not None or self._asked.state != "drained":
            return approved
        if outside_of_window(self._asked, nodes):
            view = self._with_new_pods(replace(view, moving=True))
            view = replace(view, passed_over=self.passed_over(view))
            plan = self.with_targets(view, view.plan())
            findings = self._findings(view)
            if refused := refusing(findings, self._asked.allow_findings):
                raise refusal(refused)
        return plan_of(view, plan, findings, self._asked)

    def _findings(self, view: DrainView) -> tuple[Finding, ...]:
        drained = drained_nodes.read(self._api)
        drained = drained_nodes.deleted(drained, view.snapshot.nodes_by_name)
        deleted = {name: node.labels for name, node in drained.items()}
        inputs = read_preflight(self._api, view, self._asked)
        return preflight(replace(inputs, deleted=deleted))

    def _with_new_pods(self, view: DrainView) -> DrainView:
        if self._new_pods is None:
            change = drain_change(view)
            fields = new_pod_fields(self._api, needs_of_change(change))
            change = replace(change, before=replace(change.before, **fields))
            self._new_pods = {
                **fields,
                "dry_runs": pod_dry_runs(self._api, asked_of_server(change)),
            }
        return replace(view, snapshot=replace(view.snapshot, **self._new_pods))
