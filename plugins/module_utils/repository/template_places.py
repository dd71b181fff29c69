# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where do objects that are no workloads of ours have the template of a pod or a VMI?

Kinds of workloads are not in PLACES. A row is added where the template is at one fixed place, and pods get
its labels. Operators that make up the labels themselves are left out: their terms cannot be judged.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kinds.registry import INSTANCES, KINDS, has_vmis
from ..model.json_pointer import JSON, MISSING, Object, Pointer

_TEMPLATE = Pointer(("spec", "template"))
_REPLICAS = (Pointer(("spec", "replicas")),)
_JOB = Pointer(("spec", "jobTemplate", "spec"))


@dataclass(frozen=True)
class TemplatePlace:
    """A kind of object with a template. `template` leads to the map with `metadata` and `spec`."""

    kind: str
    groups: tuple[str, ...]
    template: Pointer
    virtual_machines: bool = False
    counts: tuple[Pointer, ...] | None = None
    """Fields with a number of pods, of which the least counts; a pod if all are missing. None: no
    field says how many pods there are."""
    name_labels: tuple[str, ...] = ()
    """Labels that the controller sets to the name of the object."""
    set_labels: tuple[str, ...] = ()
    """Labels that the controller sets to values that are not in the manifest."""

    def replicas(self, item: Object) -> int | None:
        """How many pods it wants. None: not known."""
        if self.counts is None:
            return None
        given = [pointer.read(item, None) for pointer in self.counts]
        numbers = [
            number for number in given if isinstance(number, int) and not isinstance(number, bool)
        ]
        return min(numbers, default=1)


_JOB_NAME = ("job-name", "batch.kubernetes.io/job-name")
_JOB_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
"""pkg/apis/batch/types.go, LegacyJobNameLabel and so on."""
_OF_CLUSTER = (
    "kubevirt.io/vm",
    "name",
    "cluster.x-k8s.io/role",
    "cluster.x-k8s.io/cluster-name",
    "capk.cluster.x-k8s.io/kubevirt-machine-name",
    "capk.cluster.x-k8s.io/kubevirt-machine-namespace",
)
"""cluster-api-provider-kubevirt, pkg/kubevirt/utils.go and machine.go."""
_CAPK = ("infrastructure.cluster.x-k8s.io",)


def _of_vm(*parts: str) -> Pointer:
    """The VMI template of a VirtualMachine that is the value at `parts`."""
    return Pointer((*parts, "spec", "template"))


def _job_counts(spec: Pointer) -> tuple[Pointer, ...]:
    return spec / "parallelism", spec / "completions"


PLACES: t.Mapping[str, TemplatePlace] = {
    place.kind: place
    for place in (
        TemplatePlace("ReplicaSet", ("apps", "extensions"), _TEMPLATE, counts=_REPLICAS),
        TemplatePlace("ReplicationController", ("",), _TEMPLATE, counts=_REPLICAS),
        TemplatePlace(
            "Job",
            ("batch",),
            _TEMPLATE,
            counts=_job_counts(Pointer(("spec",))),
            name_labels=_JOB_NAME,
            set_labels=_JOB_UID,
        ),
        TemplatePlace(
            "CronJob",
            ("batch",),
            _JOB / "template",
            counts=_job_counts(_JOB),
            set_labels=(*_JOB_NAME, *_JOB_UID),
        ),
        TemplatePlace("PodTemplate", ("",), Pointer(("template",))),
        TemplatePlace(
            "DeploymentConfig",
            ("apps.openshift.io",),
            _TEMPLATE,
            counts=_REPLICAS,
            name_labels=("deploymentconfig",),
            set_labels=("deployment",),
        ),
        TemplatePlace(
            "Rollout",
            ("argoproj.io",),
            _TEMPLATE,
            counts=_REPLICAS,
            set_labels=("rollouts-pod-template-hash",),
        ),
        TemplatePlace(
            "Service",
            ("serving.knative.dev",),
            _TEMPLATE,
            name_labels=("serving.knative.dev/service", "serving.knative.dev/configuration"),
            set_labels=("serving.knative.dev/revision", "app"),
        ),
        TemplatePlace(
            "KubevirtMachine",
            _CAPK,
            _of_vm("spec", "virtualMachineTemplate"),
            virtual_machines=True,
            counts=(),
            set_labels=_OF_CLUSTER,
        ),
        TemplatePlace(
            "KubevirtMachineTemplate",
            _CAPK,
            _of_vm("spec", "template", "spec", "virtualMachineTemplate"),
            virtual_machines=True,
            set_labels=_OF_CLUSTER,
        ),
        TemplatePlace(
            "VirtualMachineTemplateVersion",
            ("harvesterhci.io",),
            _of_vm("spec", "vm"),
            virtual_machines=True,
        ),
        TemplatePlace(
            "VirtualMachineTemplate",
            ("template.kubevirt.io",),
            _of_vm("spec", "virtualMachine"),
            virtual_machines=True,
        ),
    )
    if place.kind not in KINDS
}
"""Sources of the fields: the CustomResourceDefinitions of these groups, and core/v1, batch/v1, apps/v1."""


def group_of(item: Object) -> str:
    """The API group of an object, empty for the core group."""
    version = str(item.get("apiVersion") or "")
    return version.rpartition("/")[0]


def place_of(item: Object) -> TemplatePlace | None:
    """The row of an object's kind. An object without apiVersion is taken for the kind of its name."""
    place = PLACES.get(str(item.get("kind")))
    if place is None:
        return None
    if item.get("apiVersion"):
        return place if group_of(item) in place.groups else None
    return place if place.kind != "Service" else None


def template_pointer(item: Object) -> Pointer | None:
    """Where the pod or VMI template of an object is. The empty pointer for a Pod and a VMI; None for a kind
    that has none, or is not known."""
    kind, group = str(item.get("kind")), group_of(item)
    if place := place_of(item):
        return place.template
    if kind in KINDS:
        known = (KINDS[kind].group, *KINDS[kind].older_groups)
        return (
            Pointer(KINDS[kind].template) if not item.get("apiVersion") or group in known else None
        )
    version = INSTANCES.get(kind)
    same = version is not None and group == group_of({"apiVersion": version})
    return Pointer(()) if version and (same or not item.get("apiVersion")) else None


def template_of(item: Object) -> JSON:
    """The template of an object that has a pointer, or null."""
    pointer = template_pointer(item)
    found = None if pointer is None else pointer.read(item)
    return None if found is MISSING else found


def has_vms(item: Object) -> bool:
    """Whether the template is that of VMIs. For objects that have a pointer."""
    place = place_of(item)
    return place.virtual_machines if place else has_vmis(item["kind"])
