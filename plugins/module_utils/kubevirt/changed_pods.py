# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the next launcher pod of a running VM ask for other things than its pod, beside placement?

A restart makes the VMI from the template as it is then (KubeVirt, watch/vm/vm.go, setupVMIFromVM). A migration makes
its target from the VMI as it is then (services/template.go, RenderMigrationManifest), of which CPUs and memory may
have been changed since its pod was made. State that is on no shared volume is copied to another volume
(pkg/storage/backend-storage, CreatePVCForMigrationTarget).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.json_pointer import JSON
from ..model.objects import Placement, Pod
from ..model.quantity import whole_units
from ..model.snapshot import Platform, Vmi, Workload
from .labels import CPU_MODEL, MACHINE_TYPE, MACHINE_TYPE_SINCE, needs_expansion
from .launcher import (
    HOST_MODELS,
    compute_requests,
    cpu_model,
    launcher_containers,
    launcher_node_expressions,
    launcher_node_selector,
    launcher_requests,
    memory_overhead,
    model_of,
)
from .next_pod import (
    Template,
    claim_of,
    doubt_about_new_vm,
    launcher_pod,
    planned_vmi,
    with_missing_machine_type,
)
from .pending_changes import staged_changes

_OF_POD = ("domain", "networks", "volumes")
"""Fields of a template's spec that a launcher pod is made from, beside placement."""

_INSTANCE_TYPE = ("kubevirt.io/instancetype-name", "kubevirt.io/cluster-instancetype-name")
"""Annotations on a VMI: the instance type that it was made with (pkg/instancetype/annotations)."""


@dataclass(frozen=True, slots=True)
class ChangedPod:
    """`pod` is the next launcher pod where that is known to differ, as far as it is known. `reason`
    says why it may be yet another one; empty where it is known."""

    pod: Pod | None = None
    reason: str = ""


def changed_by_restart(
    workload: Workload, vmi: Vmi, uid: str, expanded: Template | None, platform: Platform
) -> ChangedPod:
    """What a restart of the VMI changes. The next VMI has this uid. `expanded` is the template with
    its instance type and preference, None where it was not read."""
    if needs_expansion(workload) and expanded is None:
        paths = [x for x in staged_changes(workload, vmi) if x.startswith(_OF_POD)]
        reference = workload.spec.get("instancetype") or {}
        names = {vmi.annotations[key] for key in _INSTANCE_TYPE if key in vmi.annotations}
        if names and reference.get("name") not in names:
            paths.append("instancetype")
        return ChangedPod(None, f"its template was changed ({', '.join(paths)})" if paths else "")
    template = expanded or workload.template
    following = replace(planned_vmi(workload, vmi.ref.name, expanded), uid=uid)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    now = _asked(vmi.spec, platform, vmi.annotations)
    if now == _asked(following.spec, platform, annotations) and not vmi.resized:
        return ChangedPod()
    pod = launcher_pod(following, platform, template)
    return ChangedPod(pod, doubt_about_new_vm(workload, expanded, platform) or "")


_STATE = "persistent-state-for"
"""How names of claims begin that KubeVirt makes for the state of a VM (pkg/storage/backend-storage)."""


def changed_by_migration(target: Pod, vmi: Vmi, platform: Platform) -> tuple[Pod, str]:
    """`target`, a migration's target that asks for what the running pod does, with what it asks for itself; and
    why that is an estimate, empty where it is known."""
    if platform.kubevirt_release >= MACHINE_TYPE_SINCE:
        placement = with_missing_machine_type(target.placement, vmi.machine_type)
        target = replace(target, placement=placement)
    claims = tuple(claim for claim in target.claims if not claim.startswith(_STATE))
    if vmi.resized:
        made = launcher_pod(vmi, platform, {"metadata": {"annotations": vmi.annotations}})
        target = replace(target, claims=claims, requests={**target.requests, **made.requests})
        return target, "CPUs or memory of the VMI were changed since its pod was made"
    # virt-api filled in `cpuRequest` when the VMI was made (pkg/defaults/defaults.go, setDefaultCPURequests).
    configuration = {**platform.configuration, "cpuRequest": None}
    target = as_configured(target, vmi, replace(platform, configuration=configuration))
    if claims != target.claims:
        return replace(target, claims=claims), "its state may be copied to another volume"
    return target, ""


def as_restarted(pod: Pod, vmi: Vmi, platform: Platform) -> Pod:
    """`pod`, which a restart makes of an unchanged template, with the machine type and the requests that it gets."""
    asked = launcher_node_selector(vmi.spec, platform)
    types = [key.removeprefix(MACHINE_TYPE) for key in asked if key.startswith(MACHINE_TYPE)]
    placement = with_missing_machine_type(pod.placement, "".join(types))
    return as_configured(replace(pod, placement=placement), vmi, platform)


def with_staged_model(
    placement: Placement, vm: Workload | None, vmi: Vmi, platform: Platform
) -> Placement:
    """The placement of the launcher pod after a restart, with the CPU model that the template of the VM names now."""
    spec = (vm.template.get("spec") or {}) if vm is not None else {}
    if vm is None or (needs_expansion(vm) and not model_of(spec)):
        return placement
    model = cpu_model(spec, platform)
    if model == cpu_model(vmi.spec, platform):
        return placement
    kept = (x for x in placement.node_selector if not x[0].startswith(CPU_MODEL))
    asked = () if model in HOST_MODELS else ((f"{CPU_MODEL}{model}", "true"),)
    return replace(placement, node_selector=(*kept, *asked))


_DIVISORS = {"cpu": ("cpuAllocationRatio", 10), "memory": ("memoryOvercommit", 100)}
"""Settings of `developerConfiguration` that requests are divided by, with their defaults."""


def as_configured(pod: Pod, vmi: Vmi, platform: Platform) -> Pod:
    """`pod`, with the requests of the running one, as KubeVirt's configuration has them now. virt-controller
    computes them anew for each pod (services/renderresources.go, WithoutDedicatedCPU, WithMemoryRequests).
    Requests that no other divisor explains stay: admission has set them, or another release of KubeVirt."""
    made = launcher_requests(vmi.spec, platform, vmi.annotations)
    changed = {
        name: made[name]
        for name in _DIVISORS
        if made[name] != pod.requests.get(name)
        and _had_another_divisor(name, pod, vmi, platform, made)
    }
    return replace(pod, requests={**pod.requests, **changed}) if changed else pod


def _had_another_divisor(
    name: str, pod: Pod, vmi: Vmi, platform: Platform, made: t.Mapping[str, int]
) -> bool:
    """Whether a pod has what it would request of a resource under another setting."""
    setting, default = _DIVISORS[name]
    developer = platform.configuration.get("developerConfiguration") or {}
    share = compute_requests(vmi.spec, platform, vmi.annotations)[name]
    if name == "memory":
        share -= memory_overhead(vmi.spec, platform)
    share = whole_units(name, share)
    before = pod.requests.get(name, 0) - made[name] + share
    if before <= 0 or share <= 0:
        return False
    divisor = max(1, round(share * int(developer.get(setting) or default) / before))
    then = {**platform.configuration, "developerConfiguration": {**developer, setting: divisor}}
    platform = replace(platform, configuration=then)
    return launcher_requests(vmi.spec, platform, vmi.annotations)[name] == pod.requests[name]


def _asked(
    spec: t.Mapping[str, JSON], platform: Platform, annotations: t.Container[str]
) -> tuple[JSON, ...]:
    """What the launcher pod of a VMI with this spec asks for, beside placement."""
    plain = {**spec, "nodeSelector": {}}
    claims = [claim for claim in map(claim_of, spec.get("volumes") or ()) if claim]
    return (
        launcher_containers(plain, platform, annotations),
        launcher_node_selector(plain, platform),
        launcher_node_expressions(plain, platform),
        sorted(claim["persistentVolumeClaim"]["claimName"] for claim in claims),
    )
