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
from ..model.objects import Pod
from ..model.snapshot import Platform, Vmi, Workload
from .labels import MACHINE_TYPE_SINCE, needs_expansion, release
from .launcher import launcher_containers, launcher_node_expressions, launcher_node_selector
from .moving import staged_changes
from .next_pod import (
    Template,
    claim_of,
    launcher_pod,
    planned_vmi,
    why_estimated,
    with_missing_machine_type,
)

_OF_POD = ("domain", "networks", "volumes")
"""Fields of a template's spec that a launcher pod is made from, beside placement."""

_INSTANCE_TYPE = ("kubevirt.io/instancetype-name", "kubevirt.io/cluster-instancetype-name")
"""Annotations on a VMI: the instance type that it was made with (pkg/instancetype/annotations)."""


@dataclass(frozen=True, slots=True)
class ChangedPod:
    """`pod` is the next launcher pod where that is known to be another, as far as it can be told. `reason`
    says why it may be yet another one; empty where it is known."""

    pod: Pod | None = None
    reason: str = ""


def changed_by_restart(
    workload: Workload, vmi: Vmi, uid: str, expanded: Template | None, platform: Platform
) -> ChangedPod:
    """What a restart of the VMI changes. The next VMI has this uid. `expanded` is the template with
    its instance type and preference, None where it was not read."""
    if needs_expansion(workload) and expanded is None:
        paths = _staged(workload, vmi)
        return ChangedPod(None, f"its template was changed ({', '.join(paths)})" if paths else "")
    template = expanded or workload.template
    following = replace(planned_vmi(workload, vmi.ref.name, expanded), uid=uid)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    now = _asked(vmi.spec, platform, vmi.annotations)
    if now == _asked(following.spec, platform, annotations) and not vmi.resized:
        return ChangedPod()
    pod = launcher_pod(following, platform, template)
    return ChangedPod(pod, why_estimated(workload, expanded, platform))


_STATE = "persistent-state-for"
"""How names of claims begin that KubeVirt makes for the state of a VM (pkg/storage/backend-storage)."""


def changed_by_migration(target: Pod, vmi: Vmi, platform: Platform) -> tuple[Pod, str]:
    """`target`, a migration's target that asks for what the running pod does, with what it asks for itself; and
    why that is an estimate, empty where it is known."""
    if release(platform.kubevirt) >= MACHINE_TYPE_SINCE:
        placement = with_missing_machine_type(target.placement, vmi.machine_type)
        target = replace(target, placement=placement)
    claims = tuple(claim for claim in target.claims if not claim.startswith(_STATE))
    if vmi.resized:
        made = launcher_pod(vmi, platform, {"metadata": {"annotations": vmi.annotations}})
        target = replace(target, claims=claims, requests={**target.requests, **made.requests})
        return target, "CPUs or memory of the VMI were changed since its pod was made"
    if claims != target.claims:
        return replace(target, claims=claims), "its state may be copied to another volume"
    return target, ""


def _staged(workload: Workload, vmi: Vmi) -> list[str]:
    """Paths at which the template of a VM with an instance type was changed since the VMI was made."""
    paths = [x for x in staged_changes(workload, vmi) if x.startswith(_OF_POD)]
    reference = (workload.manifest.get("spec") or {}).get("instancetype") or {}
    names = {vmi.annotations[key] for key in _INSTANCE_TYPE if key in vmi.annotations}
    if names and reference.get("name") not in names:
        paths.append("instancetype")
    return paths


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
