# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a drain as it would be carried out now, and what of an approved one does not fit the cluster any more.

kube-scheduler chooses where VMs go, so the nodes of the moves are a forecast: a plan does not rely on them. It does not
rely on pods without a VM either: evicting another pod within its budgets is the same decision.
"""

from __future__ import annotations

import typing as t

from ..kubevirt.instances import pod_workload, vmi_workload
from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.objects import Node
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..moves.approved_plan import ApprovedPlan
from ..moves.report import short
from .approved_drain import (
    CLUSTER,
    PLAN,
    AboutObject,
    ApprovedDrain,
    findings_json,
    owner_uid,
    why_not_as_approved,
)
from .budget_findings import PDB_BLOCKS, PDB_DELEGATED
from .drain_plan import DrainView
from .options import MaintenanceOptions
from .pods import PodAction
from .preflight_findings import POLICY_FALLBACK, SHARED_DOMAIN
from .vm_ways import NOT_MIGRATABLE

_COME_AND_GO = (PDB_BLOCKS, PDB_DELEGATED, SHARED_DOMAIN, POLICY_FALLBACK)
"""Findings that do not make a plan stale: the drain waits for the budget, the node of a VM is a forecast, and how a VM
leaves is compared by itself."""


def plan_of(
    view: DrainView,
    plan: Plan,
    findings: t.Iterable[Finding],
    asked: MaintenanceOptions,
) -> ApprovedPlan:
    """The plan that check mode returns. `plan`: with the nodes that the forecast expects."""
    by_uid = view.snapshot.vmis_by_uid
    nodes = view.snapshot.nodes_by_name
    facts: dict[str, JSON] = {
        "nodes": [{"name": name, "uid": nodes[name].uid} for name in asked_nodes(asked, view)],
        "findings": findings_json(about_objects(findings, view.snapshot)),
    }
    of_moves = {
        move.uid: {
            "vm_policy": view.way_of_vm(by_uid[move.uid]).policy,
            "owner_uid": owner_uid(by_uid[move.uid]),
        }
        for move in plan.moves
        if move.instance.is_vmi
    }
    uid = view.snapshot.platform.uid
    return ApprovedPlan(uid, asked.planned, plan.moves, PLAN, facts, of_moves)


def asked_nodes(asked: MaintenanceOptions, view: DrainView) -> list[str]:
    """The nodes of the drain, in the order of the task."""
    named = [name for name in asked.nodes or () if name in view.nodes]
    return named or [node.name for node in view.snapshot.nodes if node.name in view.nodes]


def about_objects(findings: t.Iterable[Finding], snapshot: Snapshot) -> t.Iterator[AboutObject]:
    """The findings that a plan has, each with its objects: for a pod or a VMI its workload, since the next one has
    another name."""
    pods = {pod.ref: pod_workload(pod, snapshot.controllers) for pod in snapshot.pods}
    vmis, workloads = snapshot.vmis_by_ref, snapshot.workloads_by_ref
    for finding in findings:
        # a VM that has just started does not report yet whether it can be migrated
        starting = (finding.name, finding.severity) == (NOT_MIGRATABLE, "warning")
        if not (starting or finding.severity == "info" or finding.name in _COME_AND_GO):
            refs = (
                vmi_workload(vmis[ref], workloads) if ref in vmis else pods.get(ref, ref)
                for ref in finding.objects
            )
            names = list(map(str, refs))
            yield from ((finding.name, name) for name in names or [CLUSTER])


def changed_nodes(
    approved: ApprovedDrain, asked: MaintenanceOptions, nodes: t.Iterable[Node]
) -> list[str]:
    """The nodes of the task that are gone or replaced since the plan was made."""
    uids = {node.name: node.uid for node in nodes}
    texts = []
    for name in asked.nodes or ():
        known = approved.nodes[name]
        if name not in uids:
            texts.append(f"Node {name} does not exist any more")
        elif uids[name] != known:
            texts.append(f"Node {name} was replaced: its uid is {uids[name]}, and was {known}")
    return texts


def changes(approved: ApprovedDrain, view: DrainView, asked: MaintenanceOptions) -> list[str]:
    """What has changed since the plan was made, beside findings, one text for each object."""
    return [*changed_nodes(approved, asked, view.snapshot.nodes), *_changed_vms(view)]


def _changed_vms(view: DrainView) -> t.Iterator[str]:
    """VMs that the plan does not have, and those that would leave in another way now. Of those that cannot leave there
    are findings."""
    workloads = view.snapshot.workloads_by_ref
    named: set[str] = set()
    for decision in view.decisions:
        vmi = decision.vmi
        if vmi is None or vmi.terminating or vmi.finished or vmi.uid in named:
            continue
        policy, way = view.approved_policies.get(vmi.uid), view.way_of_vm(vmi)
        stays = decision.action is PodAction.MOVE_VM and way.method is None
        if (stays and not way.is_awaited) or (policy is not None and way.method is None):
            continue
        if (why := why_not_as_approved(policy, way)) is not None:
            named.add(vmi.uid)
            vm = short(vmi_workload(vmi, workloads), vmi.ref)
            because = f" ({way.passed_over_text})" if policy is not None and way.passed_over else ""
            yield f"{vm} on node {decision.pod.node_name}: {why}{because}"


def new_findings(
    approved: ApprovedDrain, findings: t.Sequence[Finding], snapshot: Snapshot
) -> list[str]:
    """The findings that the plan does not have, each once."""
    texts = []
    for finding in findings:
        if not approved.findings.issuperset(about_objects([finding], snapshot)):
            texts.append(f"new finding {finding.name}: {finding.why}")
    return texts
