# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes can each VM reach by its CPU: a running one by live migration, a halted one at its start?

The pods are those that forecasts are about (`kubevirt/next_pod`): this asks what they select of nodes.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..compliance.declared import DeclaredReader
from ..kinds.vmi import VMIS
from ..kubevirt.changed_pods import changed_by_migration
from ..kubevirt.labels import CPU_FEATURE, HOST_MODEL, MIGRATION_CPU, needs_expansion
from ..kubevirt.launcher import cpu_model, doubt_about_labels
from ..kubevirt.moving import Ways, propagating
from ..kubevirt.next_pod import launcher_pod, migration_target_pod, planned_vmi
from ..model.json_pointer import JSON
from ..model.objects import Pod, Ref
from ..model.obstacle import NOT_MODELED, NOT_READ, Obstacle
from ..model.rendering import TextEnum
from ..model.snapshot import Instance, Vmi, Workload
from ..view.view import ClusterView
from .labels_of_nodes import NodeCpu
from .node_needs import NodeNeeds, needs_of

HOST_PASSTHROUGH = "host-passthrough"


class Reach(TextEnum):
    """How far a VM gets by its CPU. `zone`: to other nodes of its zone alone. `node`: it cannot leave its node.
    `none`: no node takes it, of a VM that has none."""

    FREE = "free"
    ZONE = "zone"
    NODE = "node"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class VmCpu:
    """A VM, and where it can go by its CPU. `ref` is its workload, `instance` its VMI, empty of a halted VM.
    `nodes` are those it can reach, without its own. `next_model` is the model after its next restart."""

    ref: Ref
    instance: str
    node: str
    model: str
    next_model: str | None
    policies: t.Mapping[str, str]
    """The policy of each CPU feature that it names."""
    needs: NodeNeeds | None
    nodes: tuple[str, ...]
    reach: Reach
    doubt: Obstacle | None = None
    """Why `reach` is unknown."""
    not_migratable: Obstacle | None = None
    """Why KubeVirt does not migrate it, whatever the nodes are."""
    host_model: str = ""
    """With the model host-model, the model of the node on which it started; empty where no label has it."""
    kept: frozenset[str] = frozenset()
    """CPU features of that node that its pod selects, since it has migrated with the model host-model."""
    migrated: bool = False
    doubtful: tuple[str, ...] = ()
    """Those of `nodes` for which KubeVirt may start a migration that libvirt then refuses: it compares the guest's CPU
    with the host, and the labels do not show that they fit."""
    proven_reach: Reach | None = None
    """How far a running VM gets without the doubtful nodes; None of others."""

    @property
    def unproven(self) -> bool:
        """Whether it gets as far as `reach` by doubtful nodes alone."""
        return self.proven_reach not in (None, self.reach)


class ReachReader:
    """Reads the VMs of one cluster. VMs that select the same of nodes are compared with them once."""

    def __init__(self, view: ClusterView, cpus: t.Sequence[NodeCpu]) -> None:
        self._view = view
        self._cpus = cpus
        self._by_name = {cpu.name: cpu for cpu in cpus}
        self._zones = {cpu.name: cpu.zone for cpu in cpus}
        self._declared = view.snapshot.derived(DeclaredReader)
        self._fitting: dict[NodeNeeds, tuple[str, ...]] = {}

    def vms(self, covers: t.Callable[[Ref], bool]) -> list[VmCpu]:
        """The VMs whose workload `covers` accepts: running, waiting and halted ones."""
        found, known = [], set()
        for instance in self._view.instances:
            if instance.vmi is None:
                continue
            ref = instance.workload or instance.ref
            known.add((instance.ref.namespace, instance.ref.name))
            if covers(ref):
                found.append(self._instance(instance, instance.vmi, ref))
        for workload in self._view.snapshot.workloads:
            ref = workload.ref
            if not workload.kind.run_strategy or (ref.namespace, ref.name) in known:
                continue
            if covers(ref):
                found.append(self._halted(workload))
        return sorted(found, key=lambda vm: (vm.ref, vm.instance))

    def _instance(self, instance: Instance, vmi: Vmi, ref: Ref) -> VmCpu:
        workload = self._view.workload_of(instance)
        facts = self._facts(ref, vmi.spec, instance.ref.name)
        facts["next_model"] = self._next_model(workload, vmi)
        facts["node"] = instance.node_name
        pod = instance.pod
        if pod is None:
            return self._unknown(
                facts,
                Obstacle(NOT_READ, "its launcher pod does not exist yet or could not be read"),
            )
        if not instance.node_name:
            return self._anywhere(facts, needs_of(pod.placement))
        selector = dict(pod.placement.node_selector)
        kept = sorted(key for key in selector if key.startswith(MIGRATION_CPU))
        facts["migrated"] = bool(kept or vmi.migration)
        if kept and facts["model"] == HOST_MODEL:
            facts["host_model"] = kept[0].removeprefix(MIGRATION_CPU)
            features = (key for key in selector if key.startswith(CPU_FEATURE))
            facts["kept"] = frozenset(key.removeprefix(CPU_FEATURE) for key in features)
        facts["not_migratable"] = Ways.of(instance, self._view.snapshot).migrate
        source = self._view.snapshot.nodes_by_name.get(instance.node_name)
        if source is None:
            return self._unknown(
                facts, Obstacle(NOT_READ, f"node {instance.node_name} could not be read")
            )
        own = self._by_name.get(source.name)
        if facts["model"] == HOST_MODEL and not kept and own is not None:
            facts["host_model"] = own.host_model
        placement = self._declared.of_vmi(vmi)
        if workload is not None and propagating(workload, vmi, self._view.snapshot.platform):
            placement = self._declared.declared(workload).placement
        target = migration_target_pod(pod, vmi, placement, source)
        target, _estimated = changed_by_migration(target, vmi, self._view.snapshot.platform)
        return self._from(facts, needs_of(target.placement), source.name)

    def _halted(self, workload: Workload) -> VmCpu:
        snapshot, ref = self._view.snapshot, workload.ref
        gap = snapshot.why_unreadable(VMIS, ref.namespace)
        expanded = snapshot.expanded.get(ref)
        vmi = planned_vmi(workload, ref.name, expanded)
        facts = self._facts(ref, vmi.spec, "")
        if expanded is None and needs_expansion(workload):
            facts["next_model"] = None
            text = "its instance type or preference could not be read"
            return self._unknown(facts, Obstacle(NOT_READ, text))
        if gap is not None:
            text = f"whether it runs is not known: {gap.what}"
            return self._unknown(facts, Obstacle(gap.reason_code, text))
        if doubt := doubt_about_labels(vmi.spec, snapshot.platform):
            return self._unknown(facts, Obstacle(NOT_MODELED, doubt))
        pod: Pod = launcher_pod(vmi, snapshot.platform, workload.template)
        return self._anywhere(facts, needs_of(pod.placement))

    def _facts(self, ref: Ref, spec: t.Mapping[str, JSON], instance: str) -> dict[str, t.Any]:
        cpu = (spec.get("domain") or {}).get("cpu") or {}
        model = cpu_model(spec, self._view.snapshot.platform)
        return {
            "ref": ref,
            "instance": instance,
            "node": "",
            "model": model,
            "next_model": model,
            "policies": {
                x["name"]: x.get("policy") or "require" for x in cpu.get("features") or ()
            },
        }

    def _next_model(self, workload: Workload | None, vmi: Vmi) -> str | None:
        """None where an instance type or a preference may name another model, or no workload is known."""
        platform = self._view.snapshot.platform
        if workload is None or needs_expansion(workload):
            return None
        spec = workload.template.get("spec") or {}
        return cpu_model(spec, platform)

    def _unknown(self, facts: dict[str, t.Any], doubt: Obstacle) -> VmCpu:
        return VmCpu(**facts, needs=None, nodes=(), reach=Reach.UNKNOWN, doubt=doubt)

    def _anywhere(self, facts: dict[str, t.Any], needs: NodeNeeds) -> VmCpu:
        if self._view.snapshot.why_unreadable("nodes", ""):
            return self._unknown(facts, Obstacle(NOT_READ, "the nodes could not be read"))
        nodes = self._fit(needs)
        reach = Reach.FREE if nodes else Reach.NONE
        return VmCpu(**facts, needs=needs, nodes=nodes, reach=reach)

    def _from(self, facts: dict[str, t.Any], needs: NodeNeeds, source: str) -> VmCpu:
        nodes = tuple(name for name in self._fit(needs) if name != source)
        doubtful = tuple(name for name in nodes if self._is_doubtful(facts, source, name))
        refusing = frozenset(doubtful)
        proven = [name for name in nodes if name not in refusing]
        return VmCpu(
            **facts,
            needs=needs,
            nodes=nodes,
            reach=self._reach(nodes, source),
            doubtful=doubtful,
            proven_reach=self._reach(proven, source),
        )

    def _is_doubtful(self, facts: t.Mapping[str, t.Any], source: str, name: str) -> bool:
        """Nodes without labels of their CPU, as those of arm64, are never alike. The guest has an optional feature if
        the node had it on which it started, and no label asks for it (libvirt, formatdomain: cpu)."""
        own, other = self._by_name.get(source), self._by_name[name]
        optional = {x for x, policy in facts["policies"].items() if policy == "optional"}
        if optional.difference(other.features) & (optional if own is None else own.features):
            return True
        if facts["model"] == HOST_PASSTHROUGH:
            alike = own is not None and own.host_model == other.host_model != ""
            return not alike or (own is not None and own.features != other.features)
        if facts["model"] != HOST_MODEL:
            return False
        model = facts.get("host_model")
        return not model or (model != other.host_model and model not in other.models)

    def _fit(self, needs: NodeNeeds) -> tuple[str, ...]:
        nodes = self._fitting.get(needs)
        if nodes is None:
            fitting = (cpu.name for cpu in self._cpus if not needs.unmet_by(cpu.node.labels))
            nodes = self._fitting[needs] = tuple(fitting)
        return nodes

    def _reach(self, nodes: t.Sequence[str], source: str) -> Reach:
        if not nodes:
            return Reach.NODE
        own = self._zones.get(source)
        others = {zone for zone in self._zones.values() if zone not in (None, own)}
        leaves = any(self._zones[name] in others for name in nodes)
        return Reach.FREE if leaves or own is None or not others else Reach.ZONE
