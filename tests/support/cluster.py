# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of tests, grown object by object: manifests as the API server would return them."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import jsonpatch

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.draft import RequestedRules
from ansible_collections.virt.placement.plugins.module_utils.rules.merge import merge
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import OwnedRule
from ansible_collections.virt.placement.plugins.module_utils.rules.record import RuleSetChange
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    TemplateTerm,
    TermLocation,
)

JSON = t.Any
Object = dict[str, JSON]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CREATED_BY = "kubevirt.io/created-by"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SCHEDULABLE = "kubevirt.io/schedulable"
LABELS_OF_KUBEVIRT = {
    SCHEDULABLE: "true",
    "kubernetes.io/arch": "amd64",
    "machine-type.node.kubevirt.io/q35": "true",
}
DEVICES = {
    "ephemeral-storage": "100Gi",
    **{f"devices.kubevirt.io/{name}": "1k" for name in ("kvm", "tun", "vhost-net")},
}
"""What virt-handler adds to the labels and the resources of a node."""
CONFIGURATION: Object = {
    "virtualMachineOptions": {"disableSerialConsoleLog": {}},
    "developerConfiguration": {"cpuAllocationRatio": 1},
}
"""KubeVirt's configuration without a container that logs the console, and with a CPU for each of the guest, so
that a VM asks for the CPU of its template and no more."""


def selector(**labels: str) -> Object:
    return {"matchLabels": labels}


def apart(over: str = ZONE, *, plain: bool = False, **labels: t.Any) -> Object:
    """A term that keeps pods with `labels` away; in the form that leaves migration possible."""
    term: Object = {"labelSelector": selector(**labels), "topologyKey": over}
    return term if plain else {**term, "mismatchLabelKeys": [CREATED_BY]}


def anti_affinity(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def affinity(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def node_affinity(*terms: Object) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> Object:
    found: Object = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def spread(over: str = ZONE, max_skew: int = 1, **labels: t.Any) -> Object:
    constraint = {
        "topologyKey": over,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector(**labels),
    }
    return {"topologySpreadConstraints": [constraint]}


class Cluster:
    """Grows object by object; `snapshot` reads it."""

    def __init__(self, zones: str = "aabbcc") -> None:
        self.nodes: dict[str, Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.workloads: dict[Ref, Object] = {}
        self.machines: dict[str, Object] = {}
        self.controllers: dict[str, Ref] = {}
        self.namespaces: dict[str, Object] = {}
        self.claims: dict[str, tuple[str, ...]] = {}
        """The access modes of claims in the namespace shop, by their names."""
        platform = Platform(kubernetes=(1, 33), kubevirt="v1.8.4", configuration=CONFIGURATION)
        self.more: dict[str, JSON] = {"platform": platform}
        for number, zone in enumerate(zones, 1):
            self.node(f"n{number}", {ZONE: zone})
        self.namespace("shop")

    def node(self, name: str, labels: Object | None = None, **spec: JSON) -> None:
        known = {HOST: name, **LABELS_OF_KUBEVIRT, **(labels or {})}
        self.nodes[name] = {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": known},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110", **DEVICES},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def namespace(self, name: str, **labels: str) -> None:
        self.namespaces[name] = {"metadata": {"name": name, "labels": labels}}

    def vm(self, name: str, spec: Object | None = None, **labels: str) -> Ref:
        """A VirtualMachine that is not running."""
        template = {"metadata": {"labels": labels}, "spec": {"domain": {}, **(spec or {})}}
        return self.workload("VirtualMachine", name, {"template": template})

    def workload(self, kind: str, name: str, spec: Object, namespace: str = "shop") -> Ref:
        ref = Ref(kind, namespace, name)
        metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}".lower()}
        self.workloads[ref] = {"kind": kind, "metadata": metadata, "spec": spec}
        return ref

    def start(self, ref: Ref, node: str = "", name: str = "") -> Object:
        """One more instance of a workload, made from its template as it is now."""
        if ref.kind.startswith("VirtualMachine"):
            return self._start_machine(ref, node, name or ref.name)
        return self._start_pod(ref, node, name or f"{ref.name}-{len(self.pods)}")

    def run(self, name: str, node: str, spec: Object | None = None, **labels: str) -> Ref:
        """A VirtualMachine that runs on a node."""
        ref = self.vm(name, spec, **labels)
        self.start(ref, node)
        return ref

    def bare_pod(
        self,
        name: str,
        node: str,
        spec: Object | None = None,
        namespace: str = "shop",
        **labels: str,
    ) -> Object:
        metadata = {"name": name, "namespace": namespace, "uid": f"pod-{name}", "labels": labels}
        return self._add_pod(metadata, spec or {}, node)

    def write(self, ref: Ref, rule: str, *terms: tuple[TermLocation, JSON]) -> None:
        """Write a rule's terms into a workload, as the module `rules` would."""
        compiled = tuple(TemplateTerm(slot, value) for slot, value in terms)
        workload = workload_from_manifest(ref.kind, self.workloads[ref])
        change = RuleSetChange(f"{ref.namespace}/default", 1, "")
        written = RuleId(ref.namespace, "default", rule)
        stored = {written: OwnedRule(declared='{"terms":{}}')}
        merged = merge(workload, RequestedRules({written: compiled}, change, stored=stored))
        assert merged.write is not None and not merged.findings, merged
        # The API server takes a test for null for one that there is nothing.
        patch = [op for op in merged.write.patch() if op != {**op, "op": "test", "value": None}]
        self.workloads[ref] = jsonpatch.apply_patch(self.workloads[ref], patch)

    def propagate(self, ref: Ref) -> None:
        """What KubeVirt's LiveUpdate does: placement of the VM's template onto its VMI."""
        spec = self.template(ref)["spec"]
        for name in ("affinity", "nodeSelector", "tolerations"):
            self.machines[ref.name]["spec"][name] = copy.deepcopy(spec.get(name))

    def template(self, ref: Ref) -> Object:
        return t.cast(Object, self.workloads[ref]["spec"]["template"])

    def snapshot(self, **changes: JSON) -> Snapshot:
        read = Snapshot(
            nodes=tuple(map(node_from_manifest, self.nodes.values())),
            pods=tuple(map(pod_from_manifest, self.pods.values())),
            namespaces=tuple(map(namespace_from_manifest, self.namespaces.values())),
            workloads=tuple(
                workload_from_manifest(ref.kind, found) for ref, found in self.workloads.items()
            ),
            vmis=tuple(map(vmi_from_manifest, self.machines.values())),
            controllers=self.controllers,
            access_modes={("shop", name): modes for name, modes in self.claims.items()},
            **self.more,
        )
        return dataclasses.replace(read, **changes)

    def _start_machine(self, ref: Ref, node: str, name: str) -> Object:
        owner = self.workloads[ref]
        template = copy.deepcopy(self.template(ref))
        uid = f"vmi-{name}-{len(self.pods)}"
        labels = template["metadata"].get("labels") or {}
        self.machines[name] = {
            "metadata": {
                "name": name,
                "namespace": ref.namespace,
                "uid": uid,
                "labels": labels,
                "ownerReferences": [_owner(ref.kind, ref.name, owner["metadata"]["uid"])],
            },
            "spec": template["spec"],
            "status": {
                "phase": "Running" if node else "Scheduling",
                "nodeName": node,
                "conditions": [{"type": "LiveMigratable", "status": "True"}],
            },
        }
        return self.launcher(name, node)

    def launcher(self, machine: str, node: str) -> Object:
        """A launcher pod for a VMI, as it is now: the first, or the target of a migration."""
        vmi = self.machines[machine]
        metadata, uid = vmi["metadata"], vmi["metadata"]["uid"]
        name = f"virt-launcher-{machine}-{len(self.pods)}"
        labels = {
            **metadata["labels"],
            "kubevirt.io": "virt-launcher",
            CREATED_BY: uid,
            "vm.kubevirt.io/name": machine,
            "vmi.kubevirt.io/id": machine,
        }
        of_vmi = ("domain", "evictionStrategy", "networks")  # no fields of a pod
        spec = copy.deepcopy({k: v for k, v in vmi["spec"].items() if k not in of_vmi})
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), SCHEDULABLE: "true"}
        pod = {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"pod-{name}",
            "labels": labels,
            "ownerReferences": [_owner("VirtualMachineInstance", machine, uid)],
        }
        return self._add_pod(pod, spec, node)

    def _start_pod(self, ref: Ref, node: str, name: str) -> Object:
        replica_set = f"{ref.name}-5d4f8"
        self.controllers[f"rs-{ref.name}"] = ref
        template = copy.deepcopy(self.template(ref))
        metadata = {
            "name": name,
            "namespace": ref.namespace,
            "uid": f"pod-{name}",
            "labels": {**template["metadata"]["labels"], "pod-template-hash": "5d4f8"},
            "ownerReferences": [_owner("ReplicaSet", replica_set, f"rs-{ref.name}")],
        }
        return self._add_pod(metadata, template["spec"], node)

    def _add_pod(self, metadata: Object, spec: Object, node: str) -> Object:
        merge_match_label_keys(spec, metadata["labels"])
        container = {"name": "compute", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        pod = {
            "metadata": metadata,
            "spec": {"containers": [container], **spec, "nodeName": node},
            "status": {"phase": "Running" if node else "Pending"},
        }
        self.pods[metadata["namespace"], metadata["name"]] = pod
        return pod


def _owner(kind: str, name: str, uid: str) -> Object:
    return {"kind": kind, "name": name, "uid": uid, "controller": True}


def merge_match_label_keys(spec: Object, labels: t.Mapping[str, str]) -> None:
    """What the API server does when a pod is created (Kubernetes 1.31 and later)."""
    for group in (spec.get("affinity") or {}).values():
        entries = group.get(REQUIRED) or [] if isinstance(group, dict) else []
        weighted = group.get(PREFERRED) or [] if isinstance(group, dict) else []
        terms = [*entries, *(entry.get("podAffinityTerm", {}) for entry in weighted)]
        for term in terms if isinstance(entries, list) else []:
            for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                for key in term.get(name) or ():
                    if key in labels:
                        chosen = term["labelSelector"].setdefault("matchExpressions", [])
                        chosen.append(expression(key, operator, labels[key]))


def cluster(zones: str, *, migrates: bool = True) -> Cluster:
    """n1, n2 ... one for each letter, in the zone of that letter."""
    made = Cluster(zones)
    strategy = "LiveMigrate" if migrates else "None"
    made.more["platform"] = dataclasses.replace(made.more["platform"], eviction_strategy=strategy)
    return made


def configure(made: Cluster, **developer: JSON) -> None:
    """Change `developerConfiguration` of KubeVirt: what runs keeps what it was made with."""
    platform = made.more["platform"]
    before = platform.configuration["developerConfiguration"]
    configuration = {**platform.configuration, "developerConfiguration": {**before, **developer}}
    made.more["platform"] = dataclasses.replace(platform, configuration=configuration)


def machine(made: Cluster, name: str, node: str, spec: JSON = None, **labels: str) -> Ref:
    """A VirtualMachine that is always to run, on a node (empty: halted)."""
    ref = made.run(name, node, spec, **labels) if node else made.vm(name, spec, **labels)
    made.workloads[ref]["spec"]["runStrategy"] = "Always" if node else "Halted"
    return ref


def deployment(
    made: Cluster,
    name: str,
    nodes: t.Iterable[str],
    spec: JSON,
    labels: t.Mapping[str, str] | None = None,
) -> Ref:
    """A Deployment with a running pod on each of these nodes."""
    where = list(nodes)
    template = {"metadata": {"labels": {"app": name, **(labels or {})}}, "spec": spec}
    ref = made.workload("Deployment", name, {"replicas": len(where), "template": template})
    for node in where:
        made.start(ref, node)
    return ref


def replica_set(made: Cluster, name: str, nodes: t.Iterable[str], spec: JSON) -> Ref:
    """A VirtualMachineInstanceReplicaSet with a running machine on each of these nodes."""
    where = list(nodes)
    template = {"metadata": {"labels": {"app": name}}, "spec": {"domain": {}, **spec}}
    kind = "VirtualMachineInstanceReplicaSet"
    ref = made.workload(kind, name, {"replicas": len(where), "template": template})
    for number, node in enumerate(where):
        made.start(ref, node, f"{name}-{number}")
    return ref


def near(over: str = ZONE, **labels: str) -> JSON:
    """The affinity of a template that wants a pod with these labels near."""
    return affinity({"labelSelector": selector(**labels), "topologyKey": over})["affinity"]


def keep_apart(*, over: str = ZONE, plain: bool = False, **labels: str) -> JSON:
    """The affinity of a template that keeps pods with these labels apart."""
    return anti_affinity(apart(over, plain=plain, **labels))["affinity"]
