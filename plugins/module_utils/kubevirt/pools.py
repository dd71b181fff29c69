# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does KubeVirt do with the VMs of a VirtualMachinePool, and how far is it?

The controller of a pool writes the pool's template into each of its VirtualMachines under any update strategy but
`unmanaged`, and never while the pool is paused. What a VMI lacks then reaches it as for any VM. Under the strategy
`proactive`, which is the default, the controller also deletes each VMI that was started from another template:
also where only labels differ, or what is live by now, and all at once, since the default of maxUnavailable is 100%.
It tells them by the label of their revision (KubeVirt 1.8, virt-controller/watch/pool/pool.go: update,
opportunisticUpdate, proactiveUpdate, isOutdatedVMI).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kinds.virtual_machine import run_strategy_named
from ..model.json_pointer import JSON
from ..model.objects import Labels, Ref
from ..model.obstacle import NO_HOLD, WORKLOAD_ROLLOUT_STOPPED, Obstacle
from ..model.placement_manifests import node_term_from_json, selector_from_json
from ..model.snapshot import Platform, Snapshot, Vmi, Workload
from ..scheduler.labels import holds, matches
from .labels import POOL_REVISION, vm_spec
from .live_update import PLACEMENT_FIELDS
from .pending_changes import without_empty

STRATEGIES_SINCE = (1, 7)
"""First KubeVirt in which a pool has an update strategy (api/pool/v1beta1/types.go)."""

UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True)
class PoolMember:
    """A VirtualMachine of a pool, and its VMI where it has one that has not finished."""

    vm: Workload
    vmi: Vmi | None = None

    @property
    def outdated(self) -> bool:
        """Whether the VMI counts as started from another template than the VM has."""
        return self.vmi is not None and revision_of(self.vmi.labels) != revision_of(self.vm.labels)


def revision_of(labels: Labels) -> str:
    return labels.get(POOL_REVISION, "")


def members_of(pool: Workload, snapshot: Snapshot) -> tuple[PoolMember, ...]:
    """The VMs that a pool owns."""
    vmis = {
        vmi.owner.uid: vmi for vmi in snapshot.vmis if vmi.owner is not None and not vmi.finished
    }
    return tuple(
        PoolMember(vm, vmis.get(vm.uid))
        for vm in snapshot.workloads
        if vm.owner is not None and vm.owner.uid == pool.uid and vm.kind.run_strategy
    )


def lacks_template(pool: Workload, vm: Workload) -> bool:
    """Whether the controller has not brought the placement of the pool's template to one of its VMs yet."""
    wanted, has = (without_empty(placement_of(x.template)) for x in (pool, vm))
    return wanted != has or not pool.template_labels.items() <= vm.template_labels.items()


def changed_by_others(pool: Workload, vm: Workload, vms: t.Iterable[Workload]) -> bool:
    """Whether one of the `vms` of a pool lacks its template since something else has changed that VM: KubeVirt has
    brought the template to its revision, and reverts nothing before the pool changes again. A revision has the
    generation of the pool in its name (getRevisionName)."""
    if not lacks_template(pool, vm):
        return False
    brought = {f"{pool.ref.name}-{pool.manifest['metadata'].get('generation')}"}
    brought |= {revision_of(x.labels) for x in vms if not lacks_template(pool, x)}
    return revision_of(vm.labels) in brought


VM_CHANGED_BY_OTHERS = Obstacle(
    "changed_by_others",
    "its VirtualMachine has other placement than the template of its pool, which KubeVirt does not revert: change it"
    " back",
)

BEFORE_STRATEGY = (
    f"Before that, give each of its VMIs the label {POOL_REVISION} of its VirtualMachine: KubeVirt restarts those with"
    " another one, by default all at once"
)
"""What to do before the strategy of a pool becomes proactive by hand."""


def with_templates(
    workloads: t.Iterable[Workload], pools: t.Container[Ref]
) -> tuple[Workload, ...]:
    """The workloads once KubeVirt has brought the placement and labels of these pools to their VMs."""
    listed = tuple(workloads)
    templates = {x.uid: x for x in listed if x.kind.makes_vms and x.ref in pools}
    if not templates:
        return listed
    return tuple(
        _with_template(vm, pool)
        if vm.owner is not None
        and (pool := templates.get(vm.owner.uid)) is not None
        and why_not_brought(pool, vm) is None
        else vm
        for vm in listed
    )


def _with_template(vm: Workload, pool: Workload) -> Workload:
    template = vm.template
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in PLACEMENT_FIELDS}
    metadata = template.get("metadata") or {}
    labels = {**vm.template_labels, **pool.template_labels}
    changed = {
        **template,
        "metadata": {**metadata, "labels": labels},
        "spec": {**spec, **placement_of(pool.template)},
    }
    of_vm = {**vm.spec, "template": changed}
    return replace(vm, manifest={**vm.manifest, "spec": of_vm})


def placement_of(template: t.Mapping[str, JSON]) -> dict[str, JSON]:
    spec = template.get("spec") or {}
    return {name: spec[name] for name in PLACEMENT_FIELDS if name in spec}


def beside_placement(template: t.Mapping[str, JSON]) -> JSON:
    """What a template of a VMI has beside its placement and labels, comparable with that of another revision. The data
    of a ControllerRevision has no schema, so the parts may be anything."""
    spec, metadata = template.get("spec"), template.get("metadata")
    if isinstance(spec, dict):
        spec = {name: value for name, value in spec.items() if name not in PLACEMENT_FIELDS}
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else metadata
    return without_empty({"annotations": annotations, "spec": spec})


def why_not_brought(pool: Workload, vm: Workload | None = None) -> Obstacle | None:
    """Why the controller does not bring the template of a pool to its VMs, or to this one; None where it is about to
    (KubeVirt 1.8, watch/pool/pool.go, execute and update)."""
    if pool.is_deleted:
        text = f"{pool.ref} is being deleted, so its template reaches none of its VMs"
    elif pool.paused:
        text = f"{pool.ref} is paused (spec.paused), so its template reaches none of its VMs: resume it first"
    elif pool.strategy_name == UNMANAGED:
        text = (
            f"the update strategy of {pool.ref} is {UNMANAGED}, so its template reaches none of its VMs:"
            " set opportunistic first"
        )
    elif vm is not None and not _is_selected(pool, vm):
        text = (
            f"the update strategy of {pool.ref} brings its template only to the VMs that selectionPolicy.selectors"
            f" select, and {vm.ref} is none of them: change the selectors first"
        )
    else:
        return None
    return Obstacle(WORKLOAD_ROLLOUT_STOPPED, text)


def _is_selected(pool: Workload, vm: Workload) -> bool:
    """Whether the update strategy of a pool is about one of its VMs (`filterVMsBasedOnSelectors`): by the labels and
    the nodeSelector of the VM's own template."""
    selectors = _update_selectors(pool)
    labels, nodes = selectors.get("labelSelector"), selectors.get("nodeSelectorRequirementMatcher")
    node_selector = (vm.template.get("spec") or {}).get("nodeSelector") or {}
    node_term = node_term_from_json({"matchExpressions": nodes})
    return (labels is None or matches(selector_from_json(labels), vm.template_labels)) and all(
        holds(requirement, node_selector) for requirement in node_term.expressions
    )


def _update_selectors(pool: Workload) -> t.Mapping[str, JSON]:
    strategy = pool.spec.get("updateStrategy") or {}
    policy = (strategy.get("proactive") or {}).get("selectionPolicy") or {}
    return policy.get("selectors") or {}


def started_by_template(pool: Workload, snapshot: Snapshot) -> tuple[Ref, ...]:
    """The stopped VMs of a pool that a change of its template starts, whatever changes: the controller writes the whole
    template into each VM, with its run strategy (`opportunisticUpdate`). None for another kind."""
    wanted = vm_spec(pool)
    strategy = run_strategy_named(wanted.get("runStrategy"))
    starts = strategy.started or wanted.get("running") is True
    if not starts or not pool.kind.makes_vms:
        return ()
    names = ("running", "runStrategy")
    return tuple(
        member.vm.ref
        for member in members_of(pool, snapshot)
        if member.vmi is None
        and why_not_brought(pool, member.vm) is None
        and any(wanted.get(x) != member.vm.spec.get(x) for x in names)
    )


def kept_at_scale_in(pool: Workload) -> str:
    """The name of a scale-in strategy with which the controller of a pool ends no VM (`proactiveScaleIn`), or
    nothing."""
    strategy = pool.spec.get("scaleInStrategy") or {}
    return next((x for x in (UNMANAGED, "opportunistic") if strategy.get(x) is not None), "")


def why_not_held(pool: Workload, platform: Platform) -> Obstacle | None:
    """Why the rollout of a pool cannot be held: it has no update strategy, so that the server would drop one, or a hold
    would bring the template to more VMs than its strategy does (`filterVMsBasedOnSelectors`)."""
    if platform.kubevirt_release < STRATEGIES_SINCE:
        major, minor = STRATEGIES_SINCE
        version = platform.kubevirt
        seen = f"this is {version}" if version else "its version is not known here"
        text = f"a pool has an update strategy since KubeVirt {major}.{minor}, and {seen}"
    elif _update_selectors(pool):
        text = (
            "its update strategy brings the template only to the VMs that selectionPolicy.selectors select, and while"
            " its rollout is held all of its VMs would get it"
        )
    else:
        return None
    return Obstacle(NO_HOLD, text)


def autohealing_delay(pool: Workload) -> str | None:
    """For how long a VM of a pool finds no node until the controller deletes it, with the disks of its
    dataVolumeTemplates, and makes another one; None where it does not (`autoHealFailingVMs`, since 1.7)."""
    autohealing = pool.spec.get("autohealing")
    if autohealing is None:
        return None
    return str(autohealing.get("minFailingToStartDuration") or "5m")


def unavailable_of_pool(pool: Workload) -> str:
    """How many VMs of a pool its own rollout restarts at a time, in words (`calculateMaxUnavailableInt`). The field is
    named only where it is set: pools of KubeVirt 1.4 have no maxUnavailable (api/pool/v1alpha1/types.go)."""
    most = pool.spec.get("maxUnavailable")
    return "all at the same time" if most is None else f"{most} at a time (maxUnavailable)"
