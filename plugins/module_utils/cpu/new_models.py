# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that get another CPU model: what is written, where each could start then, and what it loses.

A running guest keeps its model until it is restarted, also through live migrations (KubeVirt, watch/vm/vm.go,
syncRestartRequired).
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from ..kubevirt.labels import CPU_MODEL, SCHEDULABLE, needs_expansion
from ..kubevirt.launcher import (
    HOST_MODELS,
    completed_sockets,
    cpu_model,
    model_of,
    why_labels_not_modeled,
)
from ..kubevirt.next_pod import launcher_pod, planned_vmi
from ..kubevirt.pending_changes import UNNAMED, changes_since_start
from ..model.findings import InputError
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.objects import Node, Placement, Ref
from ..model.rendering import columns, listed, plural
from ..model.snapshot import Platform, Vmi, Workload
from ..model.write import Write, patched
from ..scheduler.labels import matches_node, matches_terms
from ..view.view import ClusterView
from .labels_of_nodes import NodeCpu
from .losses import ModelLoss, loss_of, offered_with
from .model_writes import CPU, model_write
from .reach import ReachReader

_SHOWN = 8
Spec = t.Mapping[str, JSON]


@dataclass(frozen=True)
class NewModel:
    """One VM. `before` and `model` are what its template names now and then, empty for the model of the cluster.
    `running` is the model of the running guest, empty without one, and `next_model` that after a restart. `nodes` are
    those on which it could start then by labels; None where that is not known. `refused`: why it could start on none,
    and could before."""

    vm: Workload
    vmi: Vmi | None
    before: str
    model: str
    running: str
    next_model: str
    nodes: tuple[str, ...] | None
    write: Write | None
    loss: ModelLoss
    refused: str = ""

    @property
    def ref(self) -> Ref:
        return self.vm.ref

    @property
    def needs_restart(self) -> bool:
        return self.vmi is not None and self.running != self.next_model


def new_models(
    view: ClusterView, cpus: t.Sequence[NodeCpu], wanted: t.Mapping[Ref, str]
) -> tuple[NewModel, ...]:
    """`wanted`: the model of each VM, empty for that of the cluster."""
    platform = view.snapshot.platform
    by_name = {cpu.name: cpu for cpu in cpus}
    offered = {model: offered_with(model, cpus) for model in set(wanted.values())}
    read = {vm.ref: vm for vm in ReachReader(view, cpus).vms(wanted.__contains__)}
    found = []
    for ref, model in sorted(wanted.items()):
        vm = view.workloads[ref]
        vmi = next(iter(view.vmis_of(vm)), None)
        before = model_of(vm.template.get("spec") or {})
        specs = _Specs(view, vm, vmi)
        next_model = specs.next_model(model)
        running = (model_of(vmi.spec) or cpu_model(vmi.spec, platform)) if vmi is not None else ""
        write, nodes, refused = model_write(vm, model, platform), specs.nodes(next_model, cpus), ""
        if write is not None and nodes == () and specs.nodes(specs.next_model(before), cpus) != ():
            refused = specs.why_no_node(next_model, cpus)
        source = by_name.get(read[ref].node) if ref in read else None
        loss = ModelLoss(running)
        if vmi is not None and running != next_model:
            loss = replace(loss, unknown="the CPU features of its node are not known")
            if next_model in HOST_MODELS:
                text = "it gets the CPU features of the node on which it starts"
                loss = replace(loss, unknown=text)
            elif source is not None:
                loss = loss_of(read[ref], source, offered.get(next_model, frozenset()))
        found.append(
            NewModel(vm, vmi, before, model, running, next_model, nodes, write, loss, refused)
        )
    return tuple(found)


class _Specs:
    """What the next VMI of a VM is made of, with another model."""

    def __init__(self, view: ClusterView, vm: Workload, vmi: Vmi | None) -> None:
        self._platform = view.snapshot.platform
        self._vm = vm
        self._own: Spec = vm.template.get("spec") or {}
        self._whole: Spec | None = None
        """With what an instance type or a preference adds; None where nothing does, or it is not known."""
        self._known = True
        if needs_expansion(vm):
            expanded = view.snapshot.expanded.get(vm.ref)
            running = vmi.spec if vmi is not None else None
            self._whole = expanded["spec"] if expanded is not None else running
            self._known = self._whole is not None

    def next_model(self, model: str) -> str:
        """The model of the next VMI if the template names `model`."""
        if model:
            return model
        if self._whole is not None and not model_of(self._own):
            return cpu_model(self._whole, self._platform)  # of the instance type
        return cpu_model(_with_model(self._own, ""), self._platform)

    def nodes(self, model: str, cpus: t.Iterable[NodeCpu]) -> tuple[str, ...] | None:
        placement = self._placement(model)
        if placement is None:
            return None
        return tuple(
            cpu.name
            for cpu in cpus
            if not cpu.node.unschedulable and matches_node(placement, cpu.node)
        )

    def why_no_node(self, model: str, cpus: t.Sequence[NodeCpu]) -> str:
        placement = self._placement(model) or Placement()
        causes = Counter(x for cpu in cpus for x in _unmet(placement, cpu.node))
        parts = [f"{count} {text}" for text, count in causes.most_common(_SHOWN)]
        return f"0/{len(cpus)} nodes take it with the CPU model {model}: {', '.join(parts)}"

    def _placement(self, model: str) -> Placement | None:
        if not self._known:
            return None
        template = None if self._whole is None else {"spec": self._whole}
        planned = planned_vmi(self._vm, self._vm.ref.name, template)
        spec = _with_model(planned.spec, model)
        if why_labels_not_modeled(spec, self._platform):
            return None
        pod = launcher_pod(replace(planned, spec=spec), self._platform, self._vm.template)
        return pod.placement


def _with_model(spec: Spec, model: str) -> Spec:
    domain = spec.get("domain") or {}
    cpu = {key: value for key, value in (domain.get("cpu") or {}).items() if key != "model"}
    return {**spec, "domain": {**domain, "cpu": {**cpu, "model": model} if model else cpu}}


def _unmet(placement: Placement, node: Node) -> t.Iterator[str]:
    """Why a node does not take it."""
    if node.unschedulable:
        yield "cordoned"
    for key, value in placement.node_selector:
        if node.labels.get(key) != value:
            yield f"without {key}={value}"
    terms = placement.node_terms
    if terms is not None and not matches_terms(terms, node):
        yield "outside of its node affinity"


def _is_open(node: Node) -> bool:
    return not node.unschedulable and node.labels.get(SCHEDULABLE) == "true"


def model_faults(changes: t.Iterable[NewModel], cpus: t.Sequence[NodeCpu]) -> list[InputError]:
    """The models that no node can run on which VMs can start now, and the VMs that no node would take."""
    by_model: dict[str, list[NewModel]] = defaultdict(list)
    faults = []
    able = {x for cpu in cpus if _is_open(cpu.node) for x in cpu.models}
    for change in changes:
        if change.write is None or change.model in HOST_MODELS:
            continue
        if change.model not in able:
            by_model[change.model].append(change)
    for model, vms in by_model.items():
        text = f"no node on which VMs can start has the label {CPU_MODEL}{model}=true"
        cordoned = [cpu.name for cpu in cpus if model in cpu.models]
        if cordoned:
            text += f"; nodes with it start no VMs now: {listed(cordoned, _SHOWN)}"
        else:
            text += f"; nodes have {listed(sorted(able), _SHOWN) or 'none'}{nearest(model, able)}"
        names = listed([f"{x.ref.namespace}/{x.ref.name}" for x in vms], _SHOWN)
        faults.append(InputError(f"CPU model {model} of {names}", text))
    known = {x.ref for vms in by_model.values() for x in vms}
    faults += [
        InputError(str(x.ref), x.refused) for x in changes if x.refused and x.ref not in known
    ]
    return faults


def changes_beside_model(started: Spec, change: NewModel, platform: Platform) -> tuple[str, ...]:
    """What a restart applies beside the CPU model, as changes_since_start; `started` is what that is given."""
    if change.vmi is None:
        return ()
    manifest = change.vm.manifest
    if change.write is not None:
        manifest = patched(manifest, change.write.operations)
    spec = manifest["spec"]["template"]["spec"]
    started_spec = (started.get("template") or {}).get("spec") or {}
    then = (started_spec.get("domain") or {}).get("cpu") or {}
    # a model comes and goes with the number of sockets that the VM has anyway
    same_sockets = _sockets(started_spec, platform) == _sockets(spec, platform)
    fields = ("model", "sockets") if same_sockets else ("model",)
    cpu = CPU.read(manifest, None) or {}
    alike = {key: value for key, value in cpu.items() if key not in fields}
    alike.update({key: then[key] for key in fields if then.get(key)})
    domain = {**spec["domain"], "cpu": alike or None}
    spec = {**spec, "domain": domain}
    whole = {**manifest["spec"], "template": {**manifest["spec"]["template"], "spec": spec}}
    vm = replace(change.vm, manifest={**manifest, "spec": whole})
    changes = changes_since_start(started, vm, change.vmi, platform)
    return tuple(x for x in changes if x != UNNAMED)


def _sockets(spec: Spec, platform: Platform) -> int:
    """Those of a VMI with this spec."""
    named = ((spec.get("domain") or {}).get("cpu") or {}).get("sockets")
    return named or completed_sockets(spec, platform)


def table(changes: t.Iterable[NewModel], others: t.Mapping[Ref, t.Sequence[str]]) -> list[str]:
    """A line for each VM. `others`: what a restart would apply beside."""
    rows = [("VM", "CPU MODEL BEFORE", "AFTER", "RESTART", "LOSES", "MAY LOSE")]
    for x in changes:
        restart = "needed" if x.needs_restart else "-"
        if others.get(x.ref):
            restart = f"needed, and would also apply {listed(others[x.ref], _SHOWN)}"
        may = plural(len(x.loss.may_lose), "feature") if x.loss.may_lose else "-"
        rows.append(
            (
                f"{x.ref.namespace}/{x.ref.name}",
                x.before or "(cluster)",
                x.model or "(cluster)",
                restart,
                listed(x.loss.loses, _SHOWN) or "-",
                f"unknown: {x.loss.unknown}" if x.loss.unknown else may,
            )
        )
    return columns(rows)
