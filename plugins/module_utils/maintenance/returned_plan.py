# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a drain that check mode returns: its nodes, its findings, and how each VM leaves. Pure.

kube-scheduler chooses where VMs go, so the nodes of the moves are a forecast: a plan does not rely on them. It does not
rely on pods without a VM either: evicting another pod within its budgets is the same decision.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..kubevirt.instances import pod_workload, vmi_workload
from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.plan import Plan
from ..model.snapshot import Snapshot, Vmi
from ..moves.run_plan import PlanKind, RunPlan, checksum
from .preflight_findings import (
    NOT_MIGRATABLE,
    PDB_BLOCKS,
    PDB_DELEGATED,
    POLICY_FALLBACK,
    SHARED_DOMAIN,
)

if t.TYPE_CHECKING:
    from .drain_plan import DrainView
    from .options import MaintenanceOptions

DRAIN_PLAN = PlanKind(
    "node_maintenance",
    (
        "vm_policy",
        "max_nodes",
        "allow_findings",
        "delegated_budgets",
        "reboot_expected",
        "window",
        "topology_keys",
    ),
    ("vm_policy",),
    "nothing was done",
)

AboutObject = tuple[str, str]
"""The name of a finding, and an object that it is about."""

_COME_AND_GO = (PDB_BLOCKS, PDB_DELEGATED, SHARED_DOMAIN, POLICY_FALLBACK)
"""Findings that do not make a plan stale: the drain waits for the budget, the node of a VM is a forecast, and how a VM
leaves is compared by itself."""


def plan_of(
    view: DrainView,
    plan: Plan,
    findings: t.Iterable[Finding],
    asked: MaintenanceOptions,
) -> RunPlan:
    """The plan that check mode returns. `plan`: with the nodes that the forecast expects."""
    by_uid = view.snapshot.vmis_by_uid
    nodes = {node.name: node.uid for node in view.snapshot.nodes if node.name in view.nodes}
    names = asked.nodes or nodes
    facts: dict[str, JSON] = {
        "nodes": [{"name": name, "uid": nodes[name]} for name in names if name in nodes],
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
    return RunPlan(uid, asked.planned, plan.moves, DRAIN_PLAN, facts, of_moves)


def owner_uid(vmi: Vmi) -> str:
    """Empty for a VMI that no controller makes again."""
    return vmi.owner.uid if vmi.owner is not None else ""


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
            yield from ((finding.name, name) for name in names or ["the cluster"])


def findings_json(findings: t.Iterable[AboutObject]) -> list[JSON]:
    """As a plan has them."""
    objects: dict[str, list[str]] = defaultdict(list)
    for name, about in sorted(set(findings)):
        objects[name].append(about)
    return [{"name": name, "objects": names} for name, names in objects.items()]


def joined(plans: t.Sequence[t.Mapping[str, JSON]]) -> dict[str, JSON]:
    """The plan of a maintenance that takes the nodes of several plans one after the other. All are of the same task,
    and as they were returned."""
    first = plans[0]
    content = {
        **first,
        **{name: _without_repeats(plans, name) for name in ("nodes", "moves")},
        "findings": findings_json(
            (item["name"], about)
            for plan in plans
            for item in plan["findings"]
            for about in item["objects"]
        ),
    }
    return {**content, "checksum": checksum(content)}


def _without_repeats(parts: t.Iterable[t.Mapping[str, JSON]], name: str) -> list[JSON]:
    items: list[JSON] = []
    for part in parts:
        items += [item for item in part[name] if item not in items]
    return items
