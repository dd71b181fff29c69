# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler filters read of Kubernetes objects, as frozen values.

Field meanings follow the Kubernetes API (core/v1); names are those of the API in snake case.
Quantities are integers: cpu in millicores, everything else in its base unit (bytes, count).
"""

from __future__ import annotations

import itertools
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.vmi import VM, is_vmi

Labels = t.Mapping[str, str]


LONG_GRACE = 2 * 3600
"""Seconds. A VM with a grace period of an hour, usual for Windows, has a launcher pod with 30 s more (KubeVirt,
services/template.go, gracePeriodKillAfter)."""

next_number: t.Final = itertools.count().__next__
"""For the field `number` of an object, which no other object has: the key of caches of what is made from this very
object, where a hash of its values would cost too much. It is no part of its value."""

_OBJECT_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def is_object_name(text: str) -> bool:
    """Whether the text has the form of an object's name (RFC 1123 subdomain)."""
    return len(text) <= 253 and _OBJECT_NAME.fullmatch(text) is not None


class Ref(t.NamedTuple):
    """Identifies one object of a cluster; `namespace` is empty for cluster-scoped kinds. A tuple, since it is the
    key of most tables: its hash is that of C."""

    kind: str
    namespace: str
    name: str

    @property
    def is_vmi(self) -> bool:
        """Whether an instance is a VirtualMachineInstance (VMI), not a pod by itself."""
        return is_vmi(self.kind)

    @property
    def vm(self) -> Ref:
        """The VirtualMachine of this name, whose VMI has its name, too (KubeVirt, watch/vm/vm.go, SetupVMIFromVM)."""
        return self._replace(kind=VM)

    @property
    def namespaced_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


class Owner(t.NamedTuple):
    """A controller owner reference. `group` is its API group."""

    kind: str
    name: str
    uid: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key operator values`, of a label selector or a node expression."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: all requirements hold. Empty matches everything; None, where a selector
    is optional, matches nothing (Kubernetes: a null selector)."""

    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One of the OR-ed terms of a node selector. A term with neither list matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod affinity or anti-affinity term.

    `selector` has matchLabelKeys and mismatchLabelKeys already merged in where the term comes
    from a stored pod: the API server does that at creation (Kubernetes 1.33).
    """

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    differs_in: str = ""
    """A label in which a pod must differ from the owner of the term to be matched; a pod without
    the label differs. It stands for the requirement `NotIn [own value]` of the stored selector,
    which is taken out of `selector`: so the terms of many owners are one equal value."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topologySpreadConstraint with its API defaults filled in."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    selector: Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


@dataclass(frozen=True, slots=True)
class Toleration:
    """`seconds`: how long a pod stays on a node with a taint NoExecute, None for good. No filter reads it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Taint:
    """`added` is its timeAdded, as it was read."""

    key: str
    value: str
    effect: str
    added: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement fields of a pod spec: all that decides where it may run but its resources,
    ports and volumes. `node_terms` None is no constraint, an empty tuple matches no node."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred_node_terms: tuple[tuple[int, NodeTerm], ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[tuple[int, PodTerm], ...] = ()
    preferred_anti_affinity: tuple[tuple[int, PodTerm], ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    number: int = field(default_factory=next_number, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """A PersistentVolumeClaim that is made for a pod where it does not exist: of a StatefulSet, of an ephemeral
    volume, of a DataVolume. `class_name` is None where no class is named: then it gets the default one."""

    claim: str
    class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume: str = ""
    """The ephemeral volume of the pod that it is made for: the pod's name is a part of its own."""
    data_volume: bool = False
    """CDI makes it, for a DataVolume."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the scheduler sees it. `node_name` is empty while it is not bound."""

    namespace: str
    name: str
    uid: str = ""
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    """Those that are read: see `manifests`."""
    node_name: str = ""
    phase: str = ""
    created: str = ""
    """RFC 3339; empty where it is not known."""
    terminating: bool = False
    deletion_grace: int = 0
    """Seconds that a terminating pod has until it is killed."""
    ready: bool = False
    placement: Placement = Placement()
    requests: t.Mapping[str, int] = field(default_factory=dict)
    limits: t.Mapping[str, int] = field(default_factory=dict)
    """Of cpu, memory and ephemeral storage, in the units of `requests`: ResourceQuotas count them."""
    unset: tuple[str, ...] = ()
    """Of cpu, memory, limits.cpu and limits.memory what some container does not set, where the pod does not either."""
    has_deadline: bool = False
    """It ends by itself after some time (activeDeadlineSeconds)."""
    priority_class: str = ""
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(protocol, host IP, port) of each host port."""
    claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims that it mounts."""
    made_claims: tuple[ClaimTemplate, ...] = ()
    """Those of `claims` that are made for it where they do not exist."""
    empty_dirs: tuple[str, ...] = ()
    """Names of its emptyDir volumes: their data ends with the pod."""
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    gated: bool = False
    """It has scheduling gates: kube-scheduler places it only once they are removed (pkg/scheduler/framework/plugins/
    schedulinggates)."""
    unmodeled: tuple[str, ...] = ()
    """Fields of its spec that may matter for its node and that no filter reads."""
    forbidden: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What the levels baseline and restricted of PodSecurity may forbid of it (`pod_security`)."""
    unscheduled: str = ""
    """Why kube-scheduler has not given it a node, in its own words: the condition PodScheduled of a pending pod."""
    required_node_name: str = ""
    """spec.nodeName of a pod that is to be checked (the NodeName filter)."""
    owner: Owner | None = None
    may_preempt: bool = True
    """preemptionPolicy is not Never."""
    nominated_node_name: str = ""
    """The node on which the scheduler is making room for this pending pod by preemption."""
    number: int = field(default_factory=next_number, init=False, compare=False, repr=False)

    @property
    def ref(self) -> Ref:
        return Ref("Pod", self.namespace, self.name)

    @property
    def vmi_uid(self) -> str:
        """The uid of the VMI whose launcher pod it is; empty for any other pod."""
        owner = self.owner
        return owner.uid if owner is not None and is_vmi(owner.kind) else ""

    @property
    def instance(self) -> Ref:
        """The VMI whose launcher pod it is; any other pod is an instance by itself."""
        owner = self.owner
        if owner is not None and is_vmi(owner.kind):
            return Ref(owner.kind, self.namespace, owner.name)
        return self.ref

    @property
    def named(self) -> str:
        """The pod as users name it: a launcher pod is called by the VM of the VMI that owns it (KubeVirt 1.8,
        pkg/virt-controller/services/template.go, OwnerReferences)."""
        instance = self.instance
        return f"VM {self.namespace}/{instance.name}" if instance.is_vmi else str(self.ref)

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def renamed(self, name: str) -> Pod:
        """The same pod with another name, which is a part of the names of the claims of ephemeral volumes (kubernetes
        component-helpers storage/ephemeral, VolumeClaimName)."""
        if not any(template.volume for template in self.made_claims):
            return replace(self, name=name)
        names = {
            template.claim: f"{name}-{template.volume}"
            for template in self.made_claims
            if template.volume
        }
        made = tuple(
            replace(template, claim=names.get(template.claim, template.claim))
            for template in self.made_claims
        )
        claims = tuple(names.get(claim, claim) for claim in self.claims)
        return replace(self, name=name, claims=claims, made_claims=made)

    @property
    def lingers(self) -> bool:
        """Whether it may terminate for hours. kube-scheduler counts it on its node until it has ended."""
        return self.terminating and self.deletion_grace > LONG_GRACE


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str = ""
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: t.Mapping[str, int] = field(default_factory=dict)
    ready: bool = True
    boot_id: str = ""
    """Changes with each boot of the operating system."""
    maintenance_mode: bool = False
    """Condition MaintenanceMode, which Harvester sets."""

    @property
    def ref(self) -> Ref:
        return Ref("Node", "", self.name)


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    labels: Labels = field(default_factory=dict)
