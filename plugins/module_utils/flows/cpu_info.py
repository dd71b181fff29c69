# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_info from its options to its result: read nodes and VMs, compare what their CPU labels ask and offer."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..cluster.expanded_templates import with_expanded_templates
from ..cluster.reading import ReadScope, read_snapshot
from ..cpu.losses import ModelChange
from ..cpu.model_patch import model_patch
from ..cpu.reach import VmCpu
from ..cpu.report import CpuReport, cpu_report, entries, findings, is_bound, table
from ..interface.arguments import topology_of
from ..interface.results import warn_once, warn_unreadable
from ..kinds.registry import KINDS, KUBEVIRT_KINDS
from ..kinds.vmi import VMIS
from ..model.json_pointer import JSON
from ..model.rendering import as_json, one_line, outcome
from ..model.snapshot import managed_by
from ..view.selection import look_up, question_of
from ..view.view import ClusterView, view_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

_NEEDED = ("nodes", "pods", VMIS, *(KINDS[name].plural for name in KUBEVIRT_KINDS))
_NODES_LISTED = 20
"""Names of nodes in each list, unless all details are asked for."""


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    params = module.params
    topology = topology_of(params)
    query = question_of(params["namespaces"], params["workloads"], params["exclude_namespaces"])
    scope = ReadScope(
        namespaces=query.read,
        kinds=KUBEVIRT_KINDS,
        pod_namespaces=query.read,
        migrations="",
        volumes="",
    )
    snapshot = read_snapshot(api, scope)
    selected = look_up(query, snapshot)
    vms = [x.ref for x in snapshot.workloads if x.kind.run_strategy]
    snapshot = with_expanded_templates(api, snapshot, [x for x in vms if selected.covers(x)])
    view = view_of(snapshot)
    report = cpu_report(view, selected.covers, topology.resolve("zone"))
    found = findings(report)
    warn_once(module.warn, found)
    warn_unreadable(module.warn, snapshot.unreadable)
    everything = params["details"]
    counts = report.counts
    counts["unknown"] += sum(gap.resource in _NEEDED for gap in snapshot.unreadable)
    return {
        "counts": counts,
        "baselines": [{**as_json(x), "zone": x.zone} for x in report.baselines],
        "vms": [_vm(vm, report, everything) for vm in report.vms if everything or is_bound(vm)],
        "model_changes": [_model_change(x, view) for x in report.changes],
        "odd_nodes": as_json(report.odd_nodes),
        "findings": [finding.as_json() for finding in found],
        "permission_gaps": as_json(snapshot.unreadable),
        "table": table(report),
        **outcome(entries(counts)),
    }


def _model_change(change: ModelChange, view: ClusterView) -> dict[str, JSON]:
    platform = view.snapshot.platform
    vms = []
    for ref in change.vms:
        workload = view.snapshot.workloads_by_ref[ref]
        patch = None if managed_by(workload) else model_patch(workload, change.model, platform)
        vms.append({**ref._asdict(), "patch": patch})
    return {**as_json(change), "vms": vms}


def _vm(vm: VmCpu, report: CpuReport, everything: bool) -> dict[str, JSON]:
    most = None if everything else _NODES_LISTED
    unmet = report.lacking(vm)
    why = vm.doubt or vm.not_migratable
    return {
        **vm.ref._asdict(),
        "instance": vm.instance,
        "node": vm.node,
        "model": one_line(vm.model),
        "next_model": None if vm.next_model is None else one_line(vm.next_model),
        "features": [
            {"name": one_line(name), "policy": one_line(policy)}
            for name, policy in sorted(vm.policies.items())
        ],
        "reach": str(vm.reach),
        "reason": one_line(str(why or "")),
        "reason_code": why.code if why is not None else "",
        "nodes": list(vm.nodes[:most]),
        "nodes_count": len(vm.nodes),
        "doubtful_nodes": list(vm.doubtful[:most]),
        "selects": list(map(one_line, vm.needs.as_text())) if vm.needs is not None else [],
        "lacking": [
            {"label": one_line(text), "nodes": list(nodes[:most]), "count": len(nodes)}
            for text, nodes in unmet.items()
        ],
    }
