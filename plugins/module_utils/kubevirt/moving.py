# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a changed template takes effect on what runs, and by which methods an instance can be moved.

The rules are KubeVirt's. Under the rollout strategy LiveUpdate a VirtualMachine's affinity, node
selector and tolerations reach the running VMI, and its next launcher pod carries them (watch/vm/vm.go,
handleAffinityChangeRequest, handleTolerationsChangeRequest). Other fields (`live_update`), or anything
under the strategy Stage, wait for a restart, and while the condition RestartRequired is set nothing is
propagated (syncRestartRequired). Labels of a template never reach a running VMI. The VMI of a replica
set keeps the spec that it was made with (watch/replicaset/replicaset.go). The VMI of a pool is that of one of its VMs,
which gets the template of the pool first (`pools`).
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ..kinds.stateful_set import partition_of
from ..model.json_pointer import JSON
from ..model.objects import Node, Pod
from ..model.obstacle import (
    WORKLOAD_ROLLOUT_STOPPED,
    Obstacle,
)
from ..model.plan import Method
from ..model.rendering import listed
from ..model.snapshot import Instance, Platform, Vmi, Workload
from .labels import CPU_FEATURE, HOST_MODEL, HOST_MODEL_CPU, MIGRATION_CPU, vm_spec
from .live_update import LIVE_UPDATE, PLACEMENT_FIELDS, rollout_strategy, waiting_fields
from .ordinals import keeps_all
from .pending_changes import staged_changes, why_applies_more, without_empty
from .pools import VM_CHANGED_BY_OTHERS, lacks_template, revision_of, why_not_brought

NOW = "now"
NEXT_START = "start"
OWN_ROLLOUT = "workload_rollout"
MIGRATION = "migration"
RESTART = "restart"
RECREATION = "recreate"
"""What has to happen to what runs before a change of its workload's template takes effect."""

_SEVERITY = ("", NOW, NEXT_START, OWN_ROLLOUT, MIGRATION, RESTART, RECREATION)
LONGEST_NAME = 63


def rolls_itself(workload: Workload) -> bool:
    """Whether a change of the template starts a workload rollout: at once, or of a pool once it is resumed. Then it
    restarts all its VMs, where a Deployment that is resumed replaces its pods as it always does."""
    paused = workload.paused and not workload.kind.makes_vms
    waits = paused or workload.waits_for_deletion or keeps_all(workload)
    return not waits and bool(workload.replicas)


def takes_effect(
    workload: Workload | None,
    vmi: Vmi | None,
    platform: Platform,
    *,
    declared: t.Mapping[str, JSON] | None = None,
    labels: t.Collection[str] = (),
    pinned: bool = False,
    vm: Workload | None = None,
) -> str:
    """MIGRATION, RESTART or RECREATION: the least that has to happen to a running instance before
    its pod has the placement that its workload declares.

    `vmi` is None for a plain pod. `declared` holds the placement fields where they are not those of
    the workload's template (yet). `labels` are keys that have to reach the pod from the template.
    `pinned`: no other node is allowed (`allows_only`), so that no live migration has a target.
    `vm`: the VirtualMachine of a pool, where it was read.
    """
    if workload is None or vmi is None:
        return RECREATION
    has_vm = workload.kind.has_vm
    again = RESTART if has_vm else RECREATION
    wanted = workload.template_labels
    behind_labels = any(vmi.labels.get(x) != wanted.get(x) for x in labels)
    if pinned or why_not_migratable(vmi) or behind_labels:
        return again
    behind = lagging_fields(workload, vmi, declared)
    if behind and (not has_vm or _why_not_live(vm or workload, behind, platform)):
        return again
    return MIGRATION


def pinned(node_name: str) -> Obstacle:
    """An instance has no live migration where `allows_only` holds."""
    text = f"no live migration is possible, since its node selector and node affinity allow only node {node_name}"
    return Obstacle("pinned_to_node", text)


def most_disruptive(effects: t.Iterable[str]) -> str:
    """The most disruptive of these effects (see _SEVERITY); empty where there is none."""
    return max(effects, key=_SEVERITY.index, default="")


_NEXT = {
    MIGRATION: "the next migration or restart",
    RESTART: "the next restart",
    RECREATION: "the next recreation",
}


def next_event(effects_of: t.Iterable[t.Collection[str]]) -> str:
    """What enforces the changed rules of instances, in words; of each instance what its rules need (`takes_effect`)."""
    order = tuple(reversed(_NEXT))
    counts = Counter(next((x for x in order if x in effects), "") for effects in effects_of)
    texts = {text: counts[effect] for effect, text in _NEXT.items() if counts[effect]}
    if len(texts) > 1:
        return ", ".join(f"{text} ({count} of them)" for text, count in texts.items())
    return next(iter(texts), _NEXT[MIGRATION])


def why_not_migratable(vmi: Vmi) -> Obstacle | None:
    """Why KubeVirt does not migrate this instance; None also where it has no condition LiveMigratable yet."""
    never = why_never_migrated(vmi.ref.name, vmi.spec)
    if never is not None or vmi.live_migratable is not False:
        return never
    reason = vmi.live_migratable_reason or "no reason given"
    return Obstacle("not_live_migratable", f"the instance is not live-migratable: {reason}")


ADDED_NODE_SELECTOR_SINCE = (1, 6)
"""First KubeVirt whose migrations have spec.addedNodeSelector (staging/src/kubevirt.io/api/core/v1/types.go)."""


def chooses_target(platform: Platform) -> bool:
    """Whether a migration can be held to a node (addedNodeSelector). An unknown version is taken for a new one."""
    return not (0, 0) < platform.kubevirt_release < ADDED_NODE_SELECTOR_SINCE


ANY_HOST_MODEL_SINCE = (1, 6)
"""First KubeVirt that makes a target pod for a VM with the CPU model host-model where its node does not say which
model that is."""


def why_no_target(pod: Pod, vmi: Vmi, source: Node | None, platform: Platform) -> Obstacle | None:
    """Why KubeVirt makes no target pod for a migration of this instance. `pod` is its pod and `source` its node, None
    where that is not known.

    1.4 and 1.5: for the CPU model host-model createTargetPod ends with an error where the node lacks the label of its
    model, and tries again for ever; a VM that has migrated keeps the labels of its first node
    (watch/migration/migration.go, prepareNodeSelectorForHostCpuModel). From 1.6 that error is lost in an inner block.
    """
    if not (0, 0) < platform.kubevirt_release < ANY_HOST_MODEL_SINCE:
        return None
    cpu = (vmi.spec.get("domain") or {}).get("cpu") or {}
    if source is None or cpu.get("model") != HOST_MODEL:
        return None
    if any(
        CPU_FEATURE in key or MIGRATION_CPU in key for key, _value in pod.placement.node_selector
    ):
        return None
    if any(key.startswith(HOST_MODEL_CPU) for key in source.labels):
        return None
    return Obstacle(
        "no_target_pod",
        f"node {source.name} has no label {HOST_MODEL_CPU}MODEL, without which KubeVirt before 1.6 makes no target pod"
        " for a VM with the CPU model host-model. virt-handler sets it",
    )


def outbound_nodes(node_name: str, state: t.Mapping[str, JSON]) -> frozenset[str]:
    """The nodes of which a migration takes one of the outbound migrations until its object has ended.
    `node_name` and `state` are `status.nodeName` and `status.migrationState` of its VMI. After the
    handover these are both nodes, and a source that is left from an earlier migration counts, too
    (watch/migration/migration.go, outboundMigrationsOnNode). KubeVirt before 1.6 counts the first alone: there,
    a move may wait for the end of a migration that KubeVirt does not count any more.
    """
    return frozenset(filter(None, (node_name, str(state.get("sourceNode") or ""))))


def why_never_migrated(name: str, spec: t.Mapping[str, JSON]) -> Obstacle | None:
    """Why no migration of a VMI succeeds, whatever its conditions say. An eviction is still accepted: KubeVirt then
    tries to migrate for ever.

    Its name is too long for the label `kubevirt.io/vmi-name`, into which KubeVirt's webhook puts the name of a
    migration's VMI as it is (1.8.4; the webhook is the same in 1.9.0; pull request 17382 is about taking the label
    away). Or it names a ResourceClaim: that has devices of its node, and the target pod would need the same ones
    (KubeVirt 1.9, GPUs and host devices by DRA; a template makes a claim for each pod).
    """
    if len(name) > LONGEST_NAME:
        return Obstacle(
            "not_live_migratable",
            f"its name has {len(name)} characters, and KubeVirt makes no migration for a"
            f" name of more than {LONGEST_NAME}",
        )
    names = listed(_claims_by_name(spec.get("resourceClaims")))
    if not names:
        return None
    return Obstacle(
        "not_live_migratable",
        f"it uses the ResourceClaim {names}, whose devices are on its node; KubeVirt migrates a VM with a"
        " resourceClaimTemplateName in its place",
    )


def _claims_by_name(value: JSON) -> list[str]:
    """A file may hold anything there."""
    entries = value if isinstance(value, list) else []
    names = [x.get("resourceClaimName") for x in entries if isinstance(x, dict)]
    return [name for name in names if name and isinstance(name, str)]


RESTARTABLE = ("Always", "Manual", "RerunOnFailure")
"""Run strategies under which KubeVirt restarts a running VM (virt-api, rest/lifecycle.go)."""

PERMISSION = "set apply_pending_changes"
"""What a user of a rollout does to apply other pending changes, too."""


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """How an instance can move so that it runs with its declared placement afterwards.

    `methods` are those that KubeVirt or Kubernetes would carry out, the least disruptive first;
    empty where there is none. `obstacle` says why a less disruptive one is missing, `refusal` why the VM that
    can migrate is not restarted. `awaited`: the method that a temporary obstacle holds up, None where that is any.
    """

    methods: tuple[Method, ...]
    obstacle: Obstacle | None = None
    refusal: Obstacle | None = None
    awaited: Method | None = None

    @property
    def temporary(self) -> bool:
        """Whether the obstacle goes away by itself (a migration, a start)."""
        return self.obstacle is not None and self.obstacle.temporary


def move_options(
    workload: Workload | None,
    instance: Instance,
    platform: Platform,
    *,
    apply_pending_changes: bool = False,
    vm: Workload | None = None,
    vm_changed: bool = False,
) -> MoveOptions:
    """The ways in which `instance` can be moved, given what `workload` declares now. `vm`: its VirtualMachine, where
    that is one of a pool, and `vm_changed` as in `pools.changed_by_others`."""
    vmi, pod = instance.vmi, instance.pod
    if vmi is not None and vmi.terminating:
        return _none("terminating", "the instance is being deleted", temporary=True)
    if vmi is None and pod is not None and pod.terminating:
        return _none("terminating", "the pod is being deleted", temporary=True)
    if workload is None or (vmi is not None and not workload.runs_vms):
        return _none("not_movable", "no controller would recreate it")
    if vmi is None:
        return _of_pod(workload)
    if not workload.kind.has_vm:
        return _of_replica(workload, vmi, apply_pending_changes)
    if workload.kind.makes_vms:
        if vm is None:
            return _none("in_progress", "its VirtualMachine was not read", temporary=True)
        waits = _why_member_waits(workload, vm, vmi)
        if waits is not None:
            return MoveOptions((), VM_CHANGED_BY_OTHERS if vm_changed else waits)
        workload = vm
    return _of_vm(workload, vmi, platform, apply_pending_changes)


def _none(code: str, text: str, *, temporary: bool = False) -> MoveOptions:
    return MoveOptions((), Obstacle(code, text, temporary))


def can_migrate(
    workload: Workload | None, vmi: Vmi | None, platform: Platform, vm: Workload | None = None
) -> bool:
    """Whether Method.MIGRATE is among the methods of `move_options`; it costs less than all of them."""
    if workload is None or not workload.runs_vms or vmi is None or vmi.terminating:
        return False
    if workload.kind.makes_vms:
        if vm is None or _why_member_waits(workload, vm, vmi) is not None:
            return False
        workload = vm
    if workload.kind.has_vm:
        return vmi.phase == "Running" and _obstacle(workload, vmi, platform) is None
    return _replica_obstacle(workload, vmi) is None


def _of_pod(workload: Workload) -> MoveOptions:
    if not workload.kind.replaces_pods:
        return _none("not_movable", f"pods of a {workload.ref.kind} are bound to their nodes")
    if not workload.seen:
        text = "its controller has not seen the latest change yet"
        return _none("in_progress", text, temporary=True)
    if not _behind(workload):
        no_migration = Obstacle("not_live_migratable", "a pod cannot migrate")
        return MoveOptions((Method.RECREATE,), no_migration)
    return MoveOptions((), _held(workload) or _ROLLING)


_ROLLING = Obstacle("in_progress", "the rollout of its workload is in progress", True)


def _of_replica(workload: Workload, vmi: Vmi, apply_pending_changes: bool) -> MoveOptions:
    obstacle = _replica_obstacle(workload, vmi)
    refusal = None if apply_pending_changes else why_not_recreated(workload, vmi)
    return _options(obstacle, Method.RECREATE, refusal)


def _options(obstacle: Obstacle | None, again: Method, refusal: Obstacle | None) -> MoveOptions:
    """A migration unless it has an obstacle, and the method that makes a new VMI unless that is refused."""
    possible = () if refusal is not None else (again,)
    if obstacle is None:
        return MoveOptions((Method.MIGRATE, *possible), refusal=refusal)
    if refusal is None:
        return MoveOptions(possible, obstacle)
    awaited = again if refusal.temporary else None
    return MoveOptions((), refusal.after(str(obstacle)), awaited=awaited)


def _replica_obstacle(workload: Workload, vmi: Vmi) -> Obstacle | None:
    """As `_obstacle`, for a VMI of a replica set."""
    behind = lagging_fields(workload, vmi)
    if behind:
        fixed = f"{', '.join(behind)} of the instance is fixed when the VMI is created"
        return Obstacle("needs_restart", fixed)
    return _why_not_running(vmi) or why_not_migratable(vmi)


def _why_not_running(vmi: Vmi, *, temporary: bool = False) -> Obstacle | None:
    text = f"the instance is {vmi.phase or 'not started'}"
    return None if vmi.phase == "Running" else Obstacle("not_running", text, temporary)


def why_not_recreated(
    workload: Workload, vmi: Vmi, permission: str = PERMISSION
) -> Obstacle | None:
    """Why another VMI of a replica set would have more than the declared placement. A replica set makes each VMI from
    its template as it is then (watch/replicaset/replicaset.go)."""
    return why_applies_more("recreating the VMI", staged_changes(workload, vmi), permission)


def _of_vm(
    workload: Workload, vmi: Vmi, platform: Platform, apply_pending_changes: bool
) -> MoveOptions:
    waits = _why_not_running(vmi, temporary=True)
    if waits is not None:
        return MoveOptions((), waits)
    refusal = restart_refusal(workload)
    if refusal is None and not apply_pending_changes:
        refusal = why_applies_more("a restart", staged_changes(workload, vmi), PERMISSION)
    return _options(_obstacle(workload, vmi, platform), Method.RESTART, refusal)


def _why_member_waits(pool: Workload, vm: Workload, vmi: Vmi) -> Obstacle | None:
    """Why a VM of a pool does not move now."""
    if lacks_template(pool, vm):
        text = "KubeVirt has not brought the template of its pool to its VirtualMachine yet"
        return why_not_brought(pool, vm) or Obstacle("in_progress", text, True)
    seen = vm.status.get("desiredGeneration")
    if isinstance(seen, int) and seen < int(vm.manifest["metadata"].get("generation") or 0):
        text = "KubeVirt has not seen the latest change of its VirtualMachine yet"
        return Obstacle("in_progress", text, True)
    rolls = not (pool.waits_for_deletion or pool.paused)
    return _ROLLING if rolls and revision_of(vmi.labels) != revision_of(vm.labels) else None


def restart_refusal(workload: Workload) -> Obstacle | None:
    """Why virt-api refuses to restart a VM (KubeVirt 1.8, rest/lifecycle.go)."""
    refusal = strategy_refusal(workload, "restarted")
    if refusal is not None or not workload.condition("VolumesChange"):
        return refusal
    text = "KubeVirt refuses a restart while volumes are being changed (condition VolumesChange)"
    return Obstacle("in_progress", text, True)


def strategy_refusal(workload: Workload, done: str) -> Obstacle | None:
    """Why a VM with its run strategy is not `done`: restarted, or started again after a stop."""
    strategy = run_strategy(workload)
    refusal = Obstacle("run_strategy", f"a VM with run strategy {strategy} is not {done}")
    return None if strategy in RESTARTABLE else refusal


def _obstacle(workload: Workload, vmi: Vmi, platform: Platform) -> Obstacle | None:
    """Why a live migration would not enforce the declared placement."""
    behind = lagging_fields(workload, vmi)
    return _why_not_live(workload, behind, platform) or why_not_migratable(vmi)


def _why_not_live(
    workload: Workload, behind: tuple[str, ...], platform: Platform
) -> Obstacle | None:
    """Why the declared placement does not reach the running VMI."""
    if not behind:
        return None
    waiting = waiting_fields(platform)
    frozen = tuple(name for name in behind if name in waiting)
    if (strategy := rollout_strategy(platform)) != LIVE_UPDATE:
        text = f"the cluster's rollout strategy is {strategy}"
    elif frozen:
        text = f"a change of {', '.join(frozen)} takes effect at a restart"
    elif workload.condition("RestartRequired"):
        text = "the VM has the condition RestartRequired, so nothing reaches the running instance"
    else:
        return None
    return Obstacle("needs_restart", text)


def propagating(workload: Workload, vmi: Vmi, platform: Platform) -> bool:
    """Whether KubeVirt is about to bring the declared placement to the VMI: a migration that is made
    now would still use the previous one."""
    behind = lagging_fields(workload, vmi) if workload.kind.has_vm else ()
    return bool(behind) and not _why_not_live(workload, behind, platform)


def lagging_fields(
    workload: Workload, vmi: Vmi, declared: t.Mapping[str, JSON] | None = None
) -> tuple[str, ...]:
    """Placement fields that differ between the template (or `declared`) and the VMI's spec.

    An instancetype adds keys of its own to the VMI's node selector (vm.go compares after
    ApplyToVM), so with one a key of the VMI alone is no difference.
    """
    if declared is None:
        declared = workload.template.get("spec") or {}
    expanded = "instancetype" in vm_spec(workload)
    lagging = []
    for name in PLACEMENT_FIELDS:
        running, wanted = vmi.spec.get(name), declared.get(name)
        if running == wanted:
            continue
        if name == "nodeSelector" and expanded:
            alike = (wanted or {}).items() <= (running or {}).items()
        else:
            alike = without_empty(wanted) == without_empty(running)
        if not alike:
            lagging.append(name)
    return tuple(lagging)


def run_strategy(workload: Workload) -> str:
    """spec.runStrategy, or what the older spec.running stands for."""
    return str(
        workload.spec.get("runStrategy") or ("Always" if workload.spec.get("running") else "Halted")
    )


def _behind(workload: Workload) -> int:
    """How many pods are not of the latest revision that the controller has seen. Under the strategy
    OnDelete that is nothing to wait for: pods follow when they are deleted."""
    return 0 if workload.waits_for_deletion else workload.outdated


def _held(workload: Workload) -> Obstacle | None:
    """Why the rollout of a Deployment or StatefulSet does not go on by itself. A StatefulSet keeps the pods below its
    partition on the previous revision."""
    stuck, partition = missed_deadline(workload), partition_of(workload.spec)
    if workload.spec.get("paused"):
        text = "is paused (spec.paused): resume it first"
    elif stuck is not None:
        text = f"is stuck: {stuck}"
    elif partition and _behind(workload) <= partition:
        text = f"is held by its partition ({partition})"
    else:
        return None
    return Obstacle(WORKLOAD_ROLLOUT_STOPPED, f"the rollout of its workload {text}")


def missed_deadline(workload: Workload) -> Obstacle | None:
    """What the Deployment controller says of a rollout that has `Progressing=False`, after progressDeadlineSeconds
    without progress."""
    stuck = workload.condition("Progressing", "False")
    if stuck is None:
        return None
    text = str(stuck.get("message") or stuck.get("reason") or "no reason given")
    return Obstacle(WORKLOAD_ROLLOUT_STOPPED, text)
