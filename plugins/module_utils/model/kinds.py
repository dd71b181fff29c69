# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be done with each kind of workload, and where is it in the API?

KINDS has one row for each kind. Every list of kinds is derived from its columns. The names that
the collection writes to a cluster are here, too.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON, Pointer
from .objects import Ref


@dataclass(frozen=True)
class UpdateStrategy:
    """The `spec.updateStrategy` of a kind, under which its controller replaces instances after a change of the
    template, or none. `replacing` is the name of the strategy that does, also where none is set; `held` that of the
    one that a hold sets. The name is the value of `type` (`typed`), or the key of the only member."""

    replacing: str
    held: str
    typed: bool

    def name(self, strategy: JSON) -> str:
        """The name of a strategy as an object has it."""
        given = strategy if isinstance(strategy, dict) else {}
        if self.typed:
            return str(given.get("type") or self.replacing)
        return next((name for name, value in given.items() if value is not None), self.replacing)

    @property
    def set_aside(self) -> JSON:
        """The strategy that a hold sets."""
        return {"type": self.held} if self.typed else {self.held: {}}


@dataclass(frozen=True)
class Kind:
    """One kind of workload.

    `template` leads from the object to its pod-like template, the mapping that holds
    `metadata.labels` and the `spec` with the placement fields.
    """

    name: str
    group_version: str
    plural: str
    template: Pointer
    virtual_machines: bool
    """Its instances are VMIs, not plain pods."""
    writable: bool = True
    """The template may be written; False: the kind is only read."""
    takes_rules: bool = False
    """The module `rules` writes to its template."""
    replicated: bool = True
    """spec.replicas is the wanted number of instances."""
    scalable: bool = False
    """forecast_info can scale it."""
    forecast: bool = False
    """forecast_info reads it, and knows what its controller does after a write."""
    workload_rollout: bool = False
    """A write to the template starts a rollout by the kind's own controller."""
    older_versions: tuple[str, ...] = ()
    """Versions of the group with the same fields, the newest first, that older releases serve instead."""
    update_strategy: UpdateStrategy | None = None
    """How the strategy of that rollout is given, which a hold sets aside; None where there is none to set aside."""
    refused_by_events: bool = False
    """Its controller reports a pod that the API server refuses in an event FailedCreate alone, not in a condition
    (kubernetes pkg/controller/statefulset/stateful_pod_control.go, pkg/controller/daemon/daemon_controller.go)."""
    surges: bool = False
    """That rollout may run more instances than wanted (spec.strategy.rollingUpdate.maxSurge), old ones beside new."""
    keeps_names: bool = False
    """An instance that is ended is replaced by one of the same name; False: its successor has any name."""

    @property
    def group(self) -> str:
        """Its API group."""
        return self.group_version.partition("/")[0]

    def path(self, namespace: str, name: str, version: str = "") -> str:
        """The API path of one object; in one of the older versions if that is the `version` (`group/version`)."""
        older = version in [f"{self.group}/{other}" for other in self.older_versions]
        group_version = version if older else self.group_version
        return f"/apis/{group_version}/namespaces/{namespace}/{self.plural}/{name}"


_OF_APPS = UpdateStrategy("RollingUpdate", "OnDelete", typed=True)

KUBEVIRT_V1 = "kubevirt.io/v1"
VMIS = "virtualmachineinstances"
MIGRATIONS = "virtualmachineinstancemigrations"
INSTANCE_LISTS = ("pods", VMIS, "nodes")
"""The lists of what runs, and where: each that could not be read is one more unknown."""

_TEMPLATE = Pointer(("spec", "template"))

VIRTUAL_MACHINE = Kind(
    "VirtualMachine",
    KUBEVIRT_V1,
    "virtualmachines",
    _TEMPLATE,
    virtual_machines=True,
    takes_rules=True,
    replicated=False,
    forecast=True,
    keeps_names=True,
)
REPLICA_SET = Kind(
    "VirtualMachineInstanceReplicaSet",
    KUBEVIRT_V1,
    "virtualmachineinstancereplicasets",
    _TEMPLATE,
    virtual_machines=True,
    takes_rules=True,
    scalable=True,
    forecast=True,
)
POOL = Kind(
    "VirtualMachinePool",
    "pool.kubevirt.io/v1beta1",
    "virtualmachinepools",
    Pointer(("spec", "virtualMachineTemplate", "spec", "template")),
    virtual_machines=True,
    takes_rules=True,
    scalable=True,
    forecast=True,
    workload_rollout=True,
    update_strategy=UpdateStrategy("proactive", "opportunistic", typed=False),
    older_versions=("v1alpha1",),  # the only one before KubeVirt 1.7
    keeps_names=True,
)
DEPLOYMENT = Kind(
    "Deployment",
    "apps/v1",
    "deployments",
    _TEMPLATE,
    virtual_machines=False,
    takes_rules=True,
    scalable=True,
    forecast=True,
    workload_rollout=True,
    surges=True,
)
POD_TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods: their revision (apps/v1 Deployment)."""

STATEFUL_SET = Kind(
    "StatefulSet",
    "apps/v1",
    "statefulsets",
    _TEMPLATE,
    virtual_machines=False,
    takes_rules=True,
    scalable=True,
    forecast=True,
    workload_rollout=True,
    update_strategy=_OF_APPS,
    refused_by_events=True,
    keeps_names=True,
)
DAEMON_SET = Kind(
    "DaemonSet",
    "apps/v1",
    "daemonsets",
    _TEMPLATE,
    virtual_machines=False,
    writable=False,
    replicated=False,
    refused_by_events=True,
)

KINDS: t.Mapping[str, Kind] = {
    kind.name: kind
    for kind in (VIRTUAL_MACHINE, REPLICA_SET, POOL, DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
}

WRITABLE_KINDS = tuple(kind.name for kind in KINDS.values() if kind.writable)
"""What a rollout reads: instances of the others stay on their nodes."""

RULE_KINDS = tuple(kind.name for kind in KINDS.values() if kind.takes_rules)
FORECAST_KINDS = tuple(kind.name for kind in KINDS.values() if kind.forecast)
SCALABLE_KINDS = tuple(sorted(kind.name for kind in KINDS.values() if kind.scalable))
KUBEVIRT_KINDS = tuple(kind.name for kind in KINDS.values() if kind.virtual_machines)


@dataclass(frozen=True, slots=True)
class RolloutRoom:
    """How a controller replaces instances in its own rollout.

    `surge`: how many more than wanted may exist at a time. `unavailable`: how many fewer may run.
    `stops_first`: all old ones end before the first new one is created.
    """

    surge: int
    unavailable: int
    stops_first: bool = False


def rollout_room(kind: Kind, spec: t.Mapping[str, JSON], replicas: int) -> RolloutRoom:
    """The RolloutRoom that the strategy in the `spec` of a workload gives, for `replicas` instances.

    Defaults of a Deployment: a quarter of the replicas, rounded up for the surge, down for what may be
    unavailable, and one unavailable if both are 0. Of a StatefulSet one is unavailable, or as many as
    its maxUnavailable has (kubernetes stateful_set_utils.go, getStatefulSetMaxUnavailable).
    """
    if not kind.surges:
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        most = share_of(rolling.get("maxUnavailable") or 1, replicas, up=False)
        return RolloutRoom(0, max(1, most))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutRoom(0, replicas, stops_first=True)
    rolling = strategy.get("rollingUpdate") or {}
    surge = share_of(rolling.get("maxSurge"), replicas, up=True)
    unavailable = share_of(rolling.get("maxUnavailable"), replicas, up=False)
    return RolloutRoom(surge, unavailable if surge or unavailable else 1)


def partition_of(spec: t.Mapping[str, JSON]) -> int:
    """How many replicas of a StatefulSet, from the first, stay on the revision before its present template."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def share_of(value: JSON, of: int, *, up: bool) -> int:
    """`value` as a number of instances: a number, or a percentage of `of` (None: the default of a rollout)."""
    text = "25%" if value is None else str(value)
    if not text.endswith("%"):
        return int(text)
    hundredfold = int(text[:-1]) * of
    return -(-hundredfold // 100) if up else hundredfold // 100


VMI = "VirtualMachineInstance"


def instances_path(kind: str, namespace: str) -> str:
    """The API path of the VMIs of a namespace; of its pods for any other `kind`."""
    if kind == VMI:
        return f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{VMIS}"
    return f"/api/v1/namespaces/{namespace}/pods"


def instance_path(instance: Ref) -> str:
    """The API path of a VMI or a pod."""
    return f"{instances_path(instance.kind, instance.namespace)}/{instance.name}"


PREFIX = "placement.virt/"

DO_NOT_MOVE = f"{PREFIX}do-not-move"
"""Label on a workload: a rollout skips its instances."""

RULES = f"{PREFIX}rules"
"""Annotation on a workload: which rule put which terms there, and the uid of the object."""

UNDO = f"{PREFIX}undo"
"""Annotation on a workload: the undo record, which is the placement before the last change of the rules."""

HOLD = f"{PREFIX}hold"
"""Annotation on a StatefulSet or pool: its update strategy before a write of rules set its own rollout aside
(`rules/hold.py`)."""

JOURNAL = f"{PREFIX}journal"
"""Annotation on the Lease: the state of the run."""

DRAINED = f"{PREFIX}drained"
"""Annotation on the Lease: the marks of the nodes that are drained (`maintenance/drained_nodes.py`)."""

MAINTENANCE = f"{PREFIX}maintenance"
"""Annotation on a node: the mark of its maintenance (`maintenance/mark.py`)."""

SERVICED = f"{PREFIX}serviced"
"""Annotation on a node: the `change_id` of the maintenance that was done last."""

SERVICED_AT = f"{PREFIX}serviced-at"
"""Annotation on a node: when that maintenance ended (RFC 3339)."""

MOVED_AWAY = f"{PREFIX}moved-away"
"""Annotation on a node: the workloads that its last maintenance moved away or stopped (`maintenance/mark.py`)."""

START_AGAIN = f"{PREFIX}start-again"
"""Annotation on a node: the VMs that its last maintenance stopped and that are to be started, with their run
strategies (`maintenance/start_again.py`)."""

SERVICED_LATER = f"{PREFIX}serviced-later"
"""Taint of a node that the job of a drain services later; its value is the run (`maintenance/steering.py`)."""

NODE_LABELS = f"{PREFIX}node-labels"
"""Annotation on a node: the labels that node_labels set, with their values."""

GROUP = f"{PREFIX}group-"
"""Prefix of the label that a group gets if no other label selects exactly its pods; a digest
follows. The label is on template, VMI and pod."""

HOLDER = f"{PREFIX}holder"
"""Annotation of the Lease: account, host and job of the run that took it last, in words."""

RUN = f"{PREFIX}run"
"""Annotation and label on what a run creates or changes: the id of the run."""

LEASE_NAMESPACE = "kube-system"
LEASE = "virt-placement"
"""The one Lease of a cluster, held by the run that disrupts workloads."""

FIELD_MANAGER = "virt-placement"
