# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the CPU labels of a cluster say about its VMs: for a result, as findings, and as a table."""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from ..model.findings import Finding
from ..model.objects import Ref
from ..model.rendering import Entry, columns, listed, plural, table_text
from ..view.view import ClusterView
from .baseline import Baseline, baselines
from .labels_of_nodes import NodeCpu, node_cpus
from .losses import ModelChange, model_changes
from .node_needs import NodeNeeds
from .odd_nodes import OddNode, odd_nodes
from .reach import Reach, ReachReader, VmCpu

BLOCKS_LIVE_MIGRATION = "blocks_live_migration"
_SHOWN = 3
_ROWS = 30
"""VMs in the table. The result has all of them."""
_WORST_FIRST = (Reach.NONE, Reach.NODE, Reach.UNKNOWN, Reach.ZONE, Reach.FREE)


@dataclass(frozen=True)
class CpuReport:
    cpus: tuple[NodeCpu, ...]
    vms: tuple[VmCpu, ...]
    baselines: tuple[Baseline, ...]
    odd_nodes: tuple[OddNode, ...]
    changes: tuple[ModelChange, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of VMs by reach, and of nodes."""
        reached = Counter(vm.reach for vm in self.vms)
        return {
            "nodes": len(self.cpus),
            "vms": len(self.vms),
            **{str(reach): reached[reach] for reach in Reach},
            "unproven": sum(vm.unproven for vm in self.vms),
        }

    @cached_property
    def _unmet(self) -> dict[NodeNeeds, dict[str, list[str]]]:
        """What VMs select, to each part of it that nodes lack, to these nodes: once for VMs that select the same."""
        unmet: dict[NodeNeeds, dict[str, list[str]]] = {}
        for needs in {vm.needs for vm in self.vms if vm.needs is not None}:
            nodes: dict[str, list[str]] = defaultdict(list)
            for cpu in self.cpus:
                for text in needs.unmet_by(cpu.node.labels):
                    nodes[text].append(cpu.name)
            unmet[needs] = dict(nodes)
        return unmet

    def lacking(self, vm: VmCpu) -> dict[str, tuple[str, ...]]:
        """What the VM selects, to the nodes that lack it, those that most nodes lack first. Without its own node."""
        unmet = self._unmet.get(vm.needs, {}) if vm.needs is not None else {}
        others = {text: tuple(x for x in nodes if x != vm.node) for text, nodes in unmet.items()}
        found = sorted((-len(nodes), text) for text, nodes in others.items() if nodes)
        return {text: others[text] for _count, text in found}


def cpu_report(view: ClusterView, covers: t.Callable[[Ref], bool], zone_key: str) -> CpuReport:
    """About the VMs of the workloads that `covers` accepts, and all nodes."""
    cpus = node_cpus(view.snapshot.nodes, zone_key)
    vms = tuple(ReachReader(view, cpus).vms(covers))
    shared = baselines(cpus, vms)
    return CpuReport(cpus, vms, shared, odd_nodes(cpus), model_changes(cpus, vms, shared))


_BOUND = {
    "node": "bound to one node",
    "zone": "bound to one zone",
    "none": "without a node to start on",
    "unknown": "unknown",
    "unproven": "perhaps bound: libvirt may refuse the other nodes",
}
"""What VMs of each count are."""


def entries(counts: t.Mapping[str, int]) -> t.Iterator[Entry]:
    """How many VMs there are, and how many of them their CPU keeps from other nodes, for people."""
    yield Entry("vms", plural(counts["vms"], "VM"))
    for name, text in _BOUND.items():
        if counts[name]:
            yield Entry(name, f"{counts[name]} {text}")


def is_bound(vm: VmCpu) -> bool:
    """Whether its CPU may keep it from other zones or nodes."""
    return vm.reach is not Reach.FREE or vm.unproven


def findings(report: CpuReport) -> tuple[Finding, ...]:
    """One for the VMs of a node that cannot be live-migrated for the same labels. VMs that KubeVirt does not migrate
    for another reason are left out, and so are all where there is no second node."""
    alike: dict[tuple[str, tuple[str, ...], tuple[str, ...], str], list[VmCpu]] = defaultdict(list)
    by_name = {cpu.name: cpu for cpu in report.cpus}
    models = {ref: change.model for change in report.changes for ref in change.vms}
    for vm in report.vms:
        if vm.reach is not Reach.NODE or vm.not_migratable or vm.needs is None or not vm.node:
            continue
        labels = tuple(report.lacking(vm).items())
        if not labels:
            continue
        others = sum(cpu.name != vm.node for cpu in report.cpus)
        everywhere = tuple(text for text, nodes in labels if len(nodes) == others)
        blocking = everywhere or tuple(text for text, _nodes in labels)
        own = by_name.get(vm.node)
        lost = vm.needs.unmet_by(own.node.labels) if own is not None else ()
        alike[vm.node, blocking, lost, models.get(vm.ref, "")].append(vm)
    total = len(report.cpus)
    return tuple(_finding(*cause, alike[cause], total) for cause in sorted(alike))


def _finding(
    node: str,
    blocking: tuple[str, ...],
    lost: tuple[str, ...],
    model: str,
    vms: t.Sequence[VmCpu],
    total: int,
) -> Finding:
    refs = sorted({vm.ref for vm in vms})
    what = f"has {blocking[0]}" if len(blocking) == 1 else f"has all of {listed(blocking, _SHOWN)}"
    blocked = [text[1:] for text in blocking if text.startswith("!")]
    if len(blocked) == len(blocking):
        what = f"is without {listed(blocked, _SHOWN)}"
    why = (
        f"{listed(refs, _SHOWN)} on node {node} cannot be live-migrated: 0 of the {plural(total - 1, 'other node')}"
        f" {what}, which KubeVirt asks of the next node."
    )
    if lost:
        why += f" The labels changed after the start: {node} itself does not fit {listed(lost, _SHOWN)} any more."
    wanted = [text for text in blocking if not text.startswith("!")]
    parts = [f"with these labels ({listed(wanted, _SHOWN)})"] if wanted else []
    parts += [f"without the labels {listed(blocked, _SHOWN)}"] if blocked else []
    advice = [f"Add a node {' and '.join(parts)}"]
    if lost:
        advice.append(
            "bring the labels back (firmware, microcode and releases of KubeVirt change them)"
        )
        advice.append("restart these VMs, which then ask for the labels of today")
    if model:
        advice.append(
            f"give these VMs the CPU model {model}, which such nodes have in common, and restart them"
        )
    text = advice[0] if len(advice) == 1 else f"{', '.join(advice[:-1])}, or {advice[-1]}"
    return Finding(BLOCKS_LIVE_MIGRATION, "warning", why, f"{text}.", tuple(refs))


def table(report: CpuReport) -> str:
    """The baselines, the VMs that do not reach each zone, the odd nodes, and what the common model would change."""
    if not report.cpus:
        return "no node has the label kubevirt.io/schedulable: KubeVirt runs on none"
    lines = [_summary(report)]
    if report.baselines:
        lines += ["", *_baselines(report.baselines)]
    bound = [vm for vm in report.vms if is_bound(vm)]
    if bound:
        lines += ["", *_bound(bound, report)]
    if report.changes:
        lines += ["", *_changes(report.changes)]
    if report.odd_nodes:
        rows = [("ODD NODE", "WHY"), *((odd.node, odd.why) for odd in report.odd_nodes)]
        lines += ["", *columns(rows)]
    return table_text(lines)


def _summary(report: CpuReport) -> str:
    counts = report.counts
    parts = [f"{counts[name]} {text}" for name, text in _BOUND.items() if counts[name]]
    bound = ", ".join(parts) or "none is bound to a node or a zone by its CPU"
    return f"{plural(counts['vms'], 'VM')} on {plural(counts['nodes'], 'node')}: {bound}"


def _baselines(shared: t.Iterable[Baseline]) -> list[str]:
    rows = [("ZONE", "CPU", "NODES", "BEST MODEL", "OTHER COMMON MODELS")]
    for each in shared:
        others = [model for model in each.models if model != each.model]
        cpu = f"{each.architecture} {each.vendor}".strip() or "-"
        zone = "(all)" if each.zone is None else each.zone
        rows.append(
            (
                zone,
                cpu,
                str(len(each.nodes)),
                each.model or "unknown",
                listed(others, _SHOWN) or "-",
            )
        )
    return columns(rows)


def _bound(vms: t.Sequence[VmCpu], report: CpuReport) -> list[str]:
    rows = [("VM", "NODE", "CPU MODEL", "BOUND TO", "WHY")]
    for vm in sorted(vms, key=lambda vm: _WORST_FIRST.index(vm.reach))[:_ROWS]:
        reach = "unknown" if vm.reach is Reach.UNKNOWN else f"its {vm.reach}"
        if vm.reach is Reach.NONE:
            reach = "no node"
        elif vm.unproven:
            reach = f"its {vm.proven_reach}, maybe"
        missing = [
            f"{text} ({plural(len(nodes), 'node')} without)"
            for text, nodes in report.lacking(vm).items()
        ]
        if vm.unproven:
            fit = "fits" if len(vm.doubtful) == 1 else "fit"
            missing = [
                f"libvirt may refuse: no label shows that {plural(len(vm.doubtful), 'node')} {fit} its CPU"
            ]
        why = str(vm.doubt or listed(missing, _SHOWN) or "there is no other node")
        name = vm.instance or vm.ref.name
        rows.append((f"{vm.ref.namespace}/{name}", vm.node or "-", vm.model, reach, why))
    lines = columns(rows)
    more = len(vms) - _ROWS
    return lines if more <= 0 else [*lines, f"and {plural(more, 'more VM')}"]


def _changes(changes: t.Iterable[ModelChange]) -> list[str]:
    rows = [("CPU MODEL NOW", "COMMON MODEL", "VMS", "LOSES", "MAY LOSE")]
    for change in changes:
        loses = listed(change.loses, _SHOWN) or "nothing that is known"
        may = plural(len(change.may_lose), "feature") if change.may_lose else "-"
        if change.unknown:
            may = f"unknown: {change.unknown}"
        rows.append((change.current, change.model, listed(change.vms, _SHOWN), loses, may))
    return columns(rows)
