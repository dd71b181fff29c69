# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One consistent reading of a cluster: its platform, nodes, pods, workloads, VMIs and ResourceQuotas.

Judge, planner, forecast and lint see nothing else of the cluster.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ..kinds.kind import Kind, RolloutRoom
from ..kinds.registry import KINDS, kind_of
from .findings import GRANT_READER, InputError
from .json_pointer import JSON, MISSING, Pointer
from .objects import Labels, Namespace, Node, NodeTerm, Owner, Pod, Ref
from .obstacle import NO_RIGHT, NOT_READ, Obstacle
from .rendering import one_line

if t.TYPE_CHECKING:  # a task that reads no quota loads no arithmetic of quotas
    from .admission import LimitRange, PodMutator, PodValidator
    from .admission_policy import AdmissionPolicy
    from .budget import DisruptionBudget
    from .quota import Quota
    from .storage import ClaimKey, ClaimState

TAINTS_POLICY_SINCE = (1, 26)
"""First Kubernetes in which nodeTaintsPolicy is on by default."""

MIN_DOMAINS_SINCE = (1, 27)
"""First Kubernetes in which minDomains is on by default."""

SPREAD_KEYS_SINCE = (1, 27)
"""First Kubernetes in which matchLabelKeys of a spread constraint is on by default."""


@dataclass(frozen=True, slots=True)
class Platform:
    """`kubernetes` is (major, minor); `kubevirt` is None where KubeVirt is not installed."""

    uid: str = ""
    api: str = ""
    kubernetes: tuple[int, int] = (0, 0)
    kubevirt: str | None = None
    kubevirt_namespace: str = "kubevirt"
    rollout_strategy: str = ""
    """`vmRolloutStrategy` of KubeVirt; empty where it is not configured. What follows: kubevirt/live_update."""
    eviction_strategy: str = "None"
    migrations_per_cluster: int = 5
    migrations_per_node: int = 2
    configuration: t.Mapping[str, JSON] = field(default_factory=dict, hash=False)
    """KubeVirt's spec.configuration."""
    architecture: str = "amd64"
    """The architecture of a VM that does not name one (KubeVirt's status.defaultArchitecture)."""

    @property
    def kubevirt_release(self) -> tuple[int, int]:
        """(major, minor) of a version such as `v1.8.4`; (0, 0) where it is unknown."""
        parts = (self.kubevirt or "").lstrip("v").split(".")
        try:
            return int(parts[0]), int(parts[1])
        except (IndexError, ValueError):
            return 0, 0

    @property
    def merges_match_label_keys(self) -> bool:
        """The API server resolves (mis)matchLabelKeys of pod terms (beta and on since 1.31)."""
        return self.kubernetes >= (1, 31)

    @property
    def negative_namespace_selector_fault(self) -> bool:
        """From 1.34 on, NotIn and DoesNotExist of a namespaceSelector of the incoming pod match
        every namespace (kubernetes issue 141526); no release with the fix is confirmed."""
        return self.kubernetes >= (1, 34)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload object. `manifest` is what the API server returned; nothing changes it. `template` is the
    pod-like template in it, `metadata` and `spec`; empty where the object has none."""

    ref: Ref
    uid: str
    manifest: t.Mapping[str, JSON]
    owner: Owner | None = None
    refused_by_event: Obstacle | None = field(default=None, compare=False)
    """Why its next pod is refused, where only an event says it and that was read (cluster/refusals)."""
    template: t.Mapping[str, JSON] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        template = Pointer(self.kind.template).read(self.manifest)
        if template is MISSING or template is None:
            template = {}
        object.__setattr__(self, "template", template)

    @property
    def kind(self) -> Kind:
        return KINDS[self.ref.kind]

    @property
    def spec(self) -> t.Mapping[str, JSON]:
        return self.manifest.get("spec") or {}

    @property
    def status(self) -> t.Mapping[str, JSON]:
        return self.manifest.get("status") or {}

    @property
    def is_deleted(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.manifest["metadata"].get("deletionTimestamp"))

    @property
    def outdated(self) -> int:
        """How many replicas are not of its present template, as its controller counts them (updatedReplicas)."""
        return max(0, (self.replicas or 0) - int(self.status.get("updatedReplicas", 0)))

    @property
    def runs_vms(self) -> bool:
        """Whether its instances are VMIs."""
        return self.kind.virtual_machines

    @property
    def pool(self) -> Owner | None:
        """The pool that owns a VirtualMachine, which gets its template; None where no pool owns it."""
        return self.owner if self.owner and kind_of(self.owner.kind).makes_vms else None

    @property
    def path(self) -> str:
        """Its API path, in the version in which it was read."""
        version = str(self.manifest.get("apiVersion") or "")
        return self.kind.path(self.ref.namespace, self.ref.name, version)

    @property
    def template_labels(self) -> Labels:
        return (self.template.get("metadata") or {}).get("labels") or {}

    @property
    def annotations(self) -> Labels:
        return self.manifest["metadata"].get("annotations") or {}

    @property
    def labels(self) -> Labels:
        return self.manifest["metadata"].get("labels") or {}

    @property
    def replicas(self) -> int | None:
        """How many instances it wants; the API takes a missing number for one. None for a kind
        that has no such number."""
        if not self.kind.scales:
            return None
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else int(replicas)

    @property
    def missing(self) -> tuple[int, int]:
        """How many of its pods or VMIs do not exist, and how many are wanted, as its controller counts them; (0, 0) for
        a kind whose controller does not."""
        wanted, there = self.replicas, self.status.get("replicas")
        if wanted is None:
            wanted = int(self.status.get("desiredNumberScheduled") or 0)
            there = self.status.get("currentNumberScheduled")
        return max(0, wanted - int(there or 0)), wanted

    @property
    def paused(self) -> bool:
        """Whether its own rollout is paused: until it goes on, its controller creates no pod of a changed template
        (kubernetes pkg/controller/deployment/sync.go)."""
        return self.kind.workload_rollout and bool(self.spec.get("paused"))

    @property
    def seen(self) -> bool:
        """Whether its controller has seen the latest change, as far as its status has that (observedGeneration)."""
        generation = int(self.manifest["metadata"].get("generation", 0))
        return int(self.status.get("observedGeneration", 0)) >= generation

    @property
    def waits_for_deletion(self) -> bool:
        """Whether its controller replaces no instance after a change of the template: that of a kind without a rollout
        of its own, or with the strategy OnDelete of a StatefulSet, opportunistic or unmanaged of a pool."""
        return self.kind.waits_for_deletion(self.spec)

    @property
    def run_strategy(self) -> str:
        """spec.runStrategy of a VirtualMachine, or what the older spec.running stands for; "" for another kind."""
        if not self.kind.run_strategy:
            return ""
        before = "Always" if self.spec.get("running") else "Halted"
        return str(self.spec.get("runStrategy") or before)

    @property
    def strategy_name(self) -> str | None:
        """The name of its update strategy, set or by default; None where its kind has none."""
        return self.kind.strategy_name(self.spec)

    @property
    def rollout_room(self) -> RolloutRoom:
        """How the workload's own rollout replaces instances."""
        return self.kind.room(self.spec, self.replicas or 0)

    def condition(self, kind: str, status: str = "True") -> t.Mapping[str, JSON] | None:
        """The condition `kind` of the object's status, where it has that status."""
        conditions = self.status.get("conditions") or ()
        chosen = (x for x in conditions if (x.get("type"), x.get("status")) == (kind, status))
        return next(chosen, None)

    @property
    def refusal(self) -> Obstacle | None:
        """Why the API server refuses its next pod, VMI or VM, as its controller reports it in a condition or an event;
        None where it does not.
        The failure of a VM that has a VMI is about something else (kubernetes pkg/controller/deployment/sync.go,
        replicaset/replica_set_utils.go; KubeVirt watch/replicaset, watch/pool, watch/vm)."""
        failure = None if self.status.get("created") else self.condition("Failure")
        if (condition := self.condition("ReplicaFailure") or failure) is None:
            return self.refused_by_event
        why = condition.get("message") or condition.get("reason") or condition["type"]
        return Obstacle("refused", one_line(str(why)), True)


def bare_workload(ref: Ref, uid: str, labels: Labels, selected: Labels | None = None) -> Workload:
    """A workload whose template has these labels and nothing else, for one that does not exist. `selected`: labels that
    the template has, too, and by which its selector selects."""
    manifest: JSON = {"metadata": {"labels": {**labels, **(selected or {})}}, "spec": {}}
    for part in reversed(KINDS[ref.kind].template):
        manifest = {part: manifest}
    if selected:
        manifest["spec"]["selector"] = {"matchLabels": selected}
    metadata = {"name": ref.name, "namespace": ref.namespace, "uid": uid}
    return Workload(ref, uid, {**manifest, "metadata": metadata})


@dataclass(frozen=True, slots=True)
class Vmi:
    """A VirtualMachineInstance (VMI)."""

    ref: Ref
    uid: str
    phase: str
    node_name: str
    labels: Labels
    spec: t.Mapping[str, JSON]
    ready: bool = False
    lost_ready: bool = False
    """It is not Ready any more, and was since it is Running: it is paused, or its guest does not answer a probe."""
    owner: Owner | None = None
    live_migratable: bool | None = None
    """None: the condition is missing, so it is unknown."""
    live_migratable_reason: str = ""
    eviction_strategy: str = ""
    evacuation_node_name: str = ""
    backup: str = ""
    """The name of a backup of its disks that has not ended (status.changedBlockTracking.backupStatus)."""
    migration: t.Mapping[str, JSON] = field(default_factory=dict)
    """status.migrationState"""
    active_pods: t.Mapping[str, str] = field(default_factory=dict)
    """Pod uid to node name."""
    terminating: bool = False
    revision: str = ""
    """The ControllerRevision with the spec of the VirtualMachine that it was started from."""
    machine_type: str = ""
    """The machine type with which the guest runs; empty where it is not known."""
    annotations: Labels = field(default_factory=dict)
    unsynchronized: str = ""
    """Why virt-controller or virt-handler does not go on with it: the condition Synchronized."""
    resized: bool = False
    """Its CPUs or memory were changed since its launcher pod was made."""

    @property
    def finished(self) -> bool:
        """The guest has ended (KubeVirt: VirtualMachineInstance.IsFinal)."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Migration:
    """A VirtualMachineInstanceMigration that has not ended."""

    ref: Ref
    uid: str
    instance: str
    phase: str
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instance:
    """A running replica of a workload: a VMI with its active launcher pod, or a pod.

    `pod` is None for a VMI whose pod could not be read or does not exist yet; `vmi` is None
    where the workload has no virtual machines.
    """

    ref: Ref
    uid: str
    workload: Ref | None
    pod: Pod | None
    vmi: Vmi | None = None

    @property
    def node_name(self) -> str:
        if self.pod is not None:
            return self.pod.node_name
        return self.vmi.node_name if self.vmi is not None else ""


_OF_NO_NAMESPACE = frozenset({"namespaces", "nodes", "persistentvolumes"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A list or object that is needed and could not be read. Verdicts that depend on it are unknown. `account` lacks
    the right; it is empty where no right is missing, or the server does not name it."""

    resource: str
    namespace: str
    verb: str
    reason: str
    account: str = ""
    reason_code: str = NOT_READ

    @property
    def what(self) -> str:
        where = "" if self.resource in _OF_NO_NAMESPACE else " in all namespaces"
        if self.namespace:
            where = f" in namespace {self.namespace}"
        return f"cannot {self.verb} {self.resource}{where}"

    @property
    def lacks_right(self) -> bool:
        """Whether a right is missing. Else the server or an admission policy refuses it for another reason."""
        return self.reason_code == NO_RIGHT

    def __str__(self) -> str:
        return unreadable_texts([self])[0]


def unreadable_texts(gaps: t.Iterable[Unreadable]) -> list[str]:
    """One text for each cause: all missing rights are one, with the role that grants them."""
    by_cause: dict[str, list[Unreadable]] = {}
    for gap in gaps:
        identity = f"; this identity is {gap.account}" if gap.account else ""
        cause = f"{GRANT_READER}{identity}" if gap.lacks_right else gap.reason
        by_cause.setdefault(cause, []).append(gap)
    return [
        f"cannot {', '.join(gap.what.removeprefix('cannot ') for gap in same)}: {cause}"
        for cause, same in by_cause.items()
    ]


def unreadable_errors(gaps: t.Collection[Unreadable]) -> list[InputError]:
    """One error for each cause, since nothing is decided without these lists."""
    lacking = [gap for gap in gaps if gap.lacks_right]
    others = [gap for gap in gaps if not gap.lacks_right]
    return [
        *(InputError("not permitted", text, "permission") for text in unreadable_texts(lacking)),
        *(InputError("not readable", text) for text in unreadable_texts(others)),
    ]


_Derived = t.TypeVar("_Derived")

_NOT_READY = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""Taints of a node whose Ready condition is not true (kubernetes, pkg/controller/nodelifecycle)."""


@dataclass(frozen=True)
class Snapshot:
    """A reading of the cluster. `unreadable` names each list that is missing in full or in part. Its tables of objects
    are made when they are first asked for."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    workloads: tuple[Workload, ...] = ()
    vmis: tuple[Vmi, ...] = ()
    migrations: tuple[Migration, ...] = ()
    controllers: t.Mapping[str, Ref] = field(default_factory=dict)
    """Uid of a ReplicaSet to the Deployment that owns it."""
    claim_terms: t.Mapping[tuple[str, str], tuple[NodeTerm, ...]] = field(default_factory=dict)
    """(namespace, claim) to the required node terms of the PersistentVolume bound to it."""
    access_modes: t.Mapping[ClaimKey, tuple[str, ...]] = field(default_factory=dict)
    """(namespace, claim) to the access modes of the PersistentVolume bound to it."""
    claim_states: t.Mapping[ClaimKey, ClaimState] = field(default_factory=dict)
    """What claims mean for pods that need a node; only of claims that a forecast asked about."""
    attach_limits: t.Mapping[str, t.Mapping[str, int]] | None = field(default_factory=dict)
    """Node to the most volumes of each CSI driver that it may attach, of drivers that a forecast asked about; None
    where that could not be read."""
    drivers: t.Mapping[ClaimKey, str] = field(default_factory=dict)
    """(namespace, claim) to the CSI driver of its volume."""
    quotas: tuple[Quota, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    limit_ranges: tuple[LimitRange, ...] | None = ()
    """Those of the namespaces in which a forecast creates pods; None where they could not be read."""
    pod_mutators: tuple[PodMutator, ...] | None = ()
    """Read where a forecast creates pods; None where they could not be read."""
    pod_validators: tuple[PodValidator, ...] | None = ()
    """As `pod_mutators`: what may refuse new pods."""
    policies: tuple[AdmissionPolicy, ...] | None = None
    """Those of rule sets in the namespaces that were read; None where they were not read, or some could not be."""
    policy_gaps: tuple[Unreadable, ...] = ()
    """Why some of them could not be read. They are no part of `unreadable`: no verdict depends on them."""
    default_priority_class: str | None = ""
    """The PriorityClass of a new pod that names none, read where a quota asks for one; None where it could not be
    read."""
    dry_runs: t.Mapping[str, Pod | str] = field(default_factory=dict)
    """Uid of a running pod, or of a workload with a pod template, to the next pod as the server would create it, or why
    the server refuses it. Only of those that a forecast asked about, where this identity may ask."""
    expanded: t.Mapping[Ref, t.Mapping[str, JSON]] = field(default_factory=dict)
    """Halted VM to its template with its instance type and preference, where that was read."""
    network_devices: t.Mapping[Ref, tuple[str, ...]] = field(default_factory=dict)
    """Halted VM to the resources that its Multus networks make its pod request, where all were read."""
    platform: Platform = field(default_factory=Platform)
    unreadable: tuple[Unreadable, ...] = ()
    terminating_pods: tuple[Pod, ...] = ()
    """Only in a simulated cluster (`forecast/change`): pods that end on lost nodes, as they are until
    they end. `pods` does not contain them, or contains them as terminating."""
    _derived: dict[t.Callable[[Snapshot], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What was made of the snapshot already. A changed copy of it begins with nothing."""

    def derived(self, make: t.Callable[[Snapshot], _Derived]) -> _Derived:
        """What `make` makes of this snapshot: made when it is first asked for, and kept with the snapshot. All that
        ask get the same object, so nothing changes it. It must not refer to the snapshot, which is freed once nothing
        else does."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return t.cast("_Derived", self._derived[make])

    @cached_property
    def nodes_by_name(self) -> t.Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def namespaces_by_name(self) -> t.Mapping[str, Namespace]:
        """Namespaces by name."""
        return {namespace.name: namespace for namespace in self.namespaces}

    @cached_property
    def workloads_by_ref(self) -> t.Mapping[Ref, Workload]:
        """Workloads by kind, namespace and name."""
        return {workload.ref: workload for workload in self.workloads}

    @cached_property
    def pods_by_uid(self) -> t.Mapping[str, Pod]:
        """Pods by uid."""
        return {pod.uid: pod for pod in self.pods}

    @cached_property
    def vmis_by_uid(self) -> t.Mapping[str, Vmi]:
        """Virtual machine instances by uid, also those that have ended."""
        return {vmi.uid: vmi for vmi in self.vmis}

    @cached_property
    def vmis_by_ref(self) -> t.Mapping[Ref, Vmi]:
        """Virtual machine instances by namespace and name, also those that have ended."""
        return {vmi.ref: vmi for vmi in self.vmis}

    @property
    def not_ready_nodes(self) -> frozenset[str]:
        """Nodes whose Ready condition is not true. No VM on them can be migrated, and no pod of them
        is seen to end."""
        return frozenset(
            node.name for node in self.nodes if _NOT_READY & {taint.key for taint in node.taints}
        )

    def why_unreadable(self, resource: str, namespace: str) -> Unreadable | None:
        """Why a list of the namespace could not be read; None if it was. `resource` is a plural."""
        for gap in self.unreadable:
            if gap.resource == resource and gap.namespace in ("", namespace):
                return gap
        return None


_TOOL_ANNOTATIONS: t.Mapping[str, str] = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "meta.helm.sh/release-name": "Helm",
}
"""Argo CD: resource tracking by annotation, its default since 3.0. Helm: owner of a release."""

_TOOL_LABELS: t.Mapping[str, str] = {
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}

_TOOL_MANAGERS: t.Mapping[str, str] = {
    "argocd-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
}
"""Field managers of the tools, which they have whatever labels they track by: gitops-engine
pkg/utils/kube (argocd-controller), fluxcd pkg/ssa and helm-controller (named like the program)."""


def managed_by(workload: Workload) -> str | None:
    """The controller or tool that owns the workload's template, with its name; None if there is none."""
    if workload.owner is not None:
        return f"{workload.owner.kind} {workload.owner.name}"
    return applied_by(workload.manifest)


def applied_by(manifest: t.Mapping[str, JSON]) -> str | None:
    """The tool that applies an object, and what shows it; None if there is none."""
    metadata = manifest["metadata"]
    for part, tools in (("labels", _TOOL_LABELS), ("annotations", _TOOL_ANNOTATIONS)):
        values = metadata.get(part) or {}
        for key, tool in tools.items():
            if values.get(key):
                return f"{tool} ({key}={values[key]})"
    for entry in metadata.get("managedFields") or ():
        manager = entry.get("manager")
        if manager in _TOOL_MANAGERS:
            return f"{_TOOL_MANAGERS[manager]} (field manager {manager})"
    return None
