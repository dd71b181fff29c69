# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ways does an instance have to leave its node, and when does a changed template take effect?

`Ways` has what Kubernetes and KubeVirt do. Others choose among the ways: a rollout those after which an instance runs
as declared (`move_options`), a drain by its policies (`maintenance/vm_ways`), a forecast by the eviction strategy
(`forecast/eviction`).

The rules about templates are KubeVirt's, too. Under the rollout strategy LiveUpdate a VirtualMachine's affinity, node
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
from dataclasses import dataclass, replace

from ..kinds.registry import has_vmis
from ..kinds.virtual_machine import run_strategy_named
from ..model.json_pointer import JSON
from ..model.objects import Node, Pod, Ref
from ..model.obstacle import NOT_STARTED, WORKLOAD_ROLLOUT_STOPPED, Obstacle
from ..model.plan import Method
from ..model.rendering import Entry, listed
from ..model.snapshot import Instance, Platform, Snapshot, Vmi, Workload
from .instances import owner_of
from .labels import (
    CPU_FEATURE,
    HOST_MODEL,
    HOST_MODEL_CPU,
    MIGRATION_CPU,
    SCHEDULABLE,
    vm_spec,
)
from .live_update import LIVE_UPDATE, PLACEMENT_FIELDS, rollout_strategy, waiting_fields
from .ordinals import keeps_all
from .pending_changes import staged_changes, why_applies_more, without_empty
from .pools import VM_CHANGED_BY_OTHERS, lacks_template, revision_of, why_not_brought

NONE = "None"
"""Eviction strategy: the eviction ends the VMI, whether or not it could migrate."""

LIVE_MIGRATE = "LiveMigrate"
"""The eviction becomes a live migration, or is refused."""

LIVE_MIGRATE_IF_POSSIBLE = "LiveMigrateIfPossible"
"""The eviction becomes a live migration, and ends a VMI that cannot migrate."""

EXTERNAL = "External"
"""The eviction is refused, and evacuationNodeName is set: another controller has to move the VMI."""

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


def end_of_hold(held: t.Sequence[Ref], allow: t.Iterable[str], *, tried: bool) -> Entry:
    """The next step for workloads whose own rollouts rules hold: a rollout that may use `allow`, and what their kinds
    need. `tried`: one has left them held."""
    methods, names = list(allow), listed(held, 4)
    first = "mend what the lines under skipped name, then " if tried else ""
    if "recreate" not in methods and not all(has_vmis(ref.kind) for ref in held):
        methods.append("recreate")
        first = ""
    namespaces = ", ".join(sorted({ref.namespace for ref in held}))
    return Entry(
        "held",
        f"to end the hold of {names}: {first}launch the playbook rollout with placement_rollout_namespaces:"
        f" [{namespaces}] and placement_rollout_allow: [{', '.join(methods)}]",
    )


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
    claims = spec.get("resourceClaims")  # a file may hold anything there
    entries = (x for x in (claims if isinstance(claims, list) else ()) if isinstance(x, dict))
    names = [x.get("resourceClaimName") for x in entries]
    named = [claim for claim in names if claim and isinstance(claim, str)]
    if not named:
        return None
    return Obstacle(
        "not_live_migratable",
        f"it uses the ResourceClaim {listed(named)}, whose devices are on its node; KubeVirt migrates a VM with a"
        " resourceClaimTemplateName in its place",
    )


PERMISSION = "set apply_pending_changes"
"""What a user of a rollout does to apply other pending changes, too."""


def eviction_strategy(vmi: Vmi, platform: Platform) -> str:
    """The strategy of the VMI, or else the cluster's."""
    return vmi.eviction_strategy or platform.eviction_strategy or NONE


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways of one instance to leave its node, each with its obstacle or None, whatever a run chooses. `owner` makes
    its VMI or pod: a VirtualMachine, also one of a pool, a replica set, or the workload of a pod; None where nothing
    does, or it was not read. `source` is its node, None where that is not known."""

    owner: Workload | None
    vmi: Vmi | None
    pod: Pod | None
    source: Node | None
    platform: Platform

    @classmethod
    def of(cls, instance: Instance, snapshot: Snapshot) -> Ways:
        """Those of an instance of a snapshot."""
        vmi, workloads = instance.vmi, snapshot.workloads_by_ref
        if vmi is not None:
            owner = owner_of(vmi, workloads)
        else:
            owner = workloads.get(instance.workload) if instance.workload else None
        source = snapshot.nodes_by_name.get(instance.node_name)
        return cls(owner, vmi, instance.pod, source, snapshot.platform)

    @property
    def migrate(self) -> Obstacle | None:
        """A live migration."""
        if self.vmi is None:
            return Obstacle("not_live_migratable", "a pod cannot migrate")
        return why_not_migratable(self.vmi) or self.no_target

    @property
    def no_target(self) -> Obstacle | None:
        """Why KubeVirt makes no target pod for a migration of this instance.

        1.4 and 1.5: for the CPU model host-model createTargetPod ends with an error where the node lacks the label of
        its model, and tries again for ever; a VM that has migrated keeps the labels of its first node
        (watch/migration/migration.go, prepareNodeSelectorForHostCpuModel). From 1.6 that error is lost in an inner
        block.
        """
        vmi, pod, source = self.vmi, self.pod, self.source
        if not (0, 0) < self.platform.kubevirt_release < ANY_HOST_MODEL_SINCE:
            return None
        if vmi is None or pod is None or source is None:
            return None
        model = ((vmi.spec.get("domain") or {}).get("cpu") or {}).get("model")
        keys = [key for key, _value in pod.placement.node_selector]
        kept = any(CPU_FEATURE in key or MIGRATION_CPU in key for key in keys)
        if kept or model != HOST_MODEL or any(x.startswith(HOST_MODEL_CPU) for x in source.labels):
            return None
        return Obstacle(
            "no_target_pod",
            f"node {source.name} has no label {HOST_MODEL_CPU}MODEL, without which KubeVirt before 1.6 makes no target"
            " pod for a VM with the CPU model host-model. virt-handler sets it",
        )

    @property
    def doubt_of_migration(self) -> Obstacle | None:
        """Why a migration that KubeVirt accepts may not begin. virt-controller sets the label where it has seen no
        heartbeat of virt-handler for five minutes, and virt-handler where devices are missing (KubeVirt,
        watch/node/node.go, pkg/virt-handler/heartbeat)."""
        if self.no_target is not None or self.source is None:
            return self.no_target
        if self.source.labels.get(SCHEDULABLE) != "false":
            return None
        text = f"node {self.source.name} has the label {SCHEDULABLE}=false, so its virt-handler may not run"
        return Obstacle("no_target_pod", text)

    @property
    def again(self) -> tuple[Method, Obstacle | None]:
        """The method that ends it, after which another one is made, and why that is refused: a restart of a VM, which
        virt-api refuses by run strategy and during a change of volumes (rest/lifecycle.go), else a recreation."""
        owner = self.owner
        if owner is not None and not owner.kind.has_vm:
            return Method.RECREATE, None
        refusal = self.stop or self._by_run_strategy("restarted")
        if refusal is None and owner is not None and owner.condition("VolumesChange"):
            text = "KubeVirt refuses a restart while volumes are being changed (condition VolumesChange)"
            refusal = Obstacle("in_progress", text, True)
        return Method.RESTART, refusal

    def pending_changes(self, permission: str) -> Obstacle | None:
        """Why the next VMI would have more than the declared placement: it is made from the template as that is then
        (watch/vm/vm.go, watch/replicaset/replicaset.go). `permission` is how to allow it."""
        if self.owner is None or self.vmi is None:
            return None
        action = "a restart" if self.owner.kind.has_vm else "recreating the VMI"
        return why_applies_more(action, staged_changes(self.owner, self.vmi), permission)

    @property
    def stop(self) -> Obstacle | None:
        """A stop, after which its VirtualMachine stays off."""
        text = "no VirtualMachine owns it, which a restart or a stop needs"
        return None if self._run_strategy else Obstacle("no_virtual_machine", text)

    @property
    def stop_and_start(self) -> Obstacle | None:
        """A stop, and a start later, which virt-api refuses by run strategy (rest/lifecycle.go)."""
        return self.stop or self._by_run_strategy("started again")

    @property
    def _run_strategy(self) -> str:
        """That of the VirtualMachine of a VMI, or "" without one: what owns a plain pod is none of KubeVirt's."""
        return self.owner.run_strategy if self.owner is not None and self.vmi is not None else ""

    def _by_run_strategy(self, done: str) -> Obstacle | None:
        text = f"a VM with run strategy {self._run_strategy} is not {done}"
        restarted = run_strategy_named(self._run_strategy).restarted
        return None if restarted else Obstacle("run_strategy", text)

    def evicted(self, strategy: str) -> tuple[Method | None, Obstacle | None]:
        """What an eviction does to a VMI with this strategy: MIGRATE; EVICT where that ends it; None where the eviction
        is refused, with the reason. Only the condition LiveMigratable counts, so that a VMI that never migrates is
        marked for evacuation for ever (KubeVirt, webhooks pod-eviction-admitter)."""
        vmi = self.vmi
        if strategy == NONE or vmi is None:
            return Method.EVICT, None
        text = f"its eviction strategy is {strategy}"
        if strategy == EXTERNAL:
            return None, Obstacle("moved_by_others", text)
        obstacle = why_not_migratable(vmi)
        if obstacle is None:
            return Method.MIGRATE, None
        if strategy == LIVE_MIGRATE_IF_POSSIBLE and vmi.live_migratable is False:
            return Method.EVICT, None
        return None, replace(obstacle, text=f"{text}, and {obstacle}")

    @property
    def successor(self) -> Obstacle | None:
        """Why nothing makes it again once it has ended without a request: its node failed, or its pod was evicted."""
        ended = self.vmi or self.pod
        if ended is not None and ended.owner is None:
            text = f"no controller recreates this {'pod' if self.vmi is None else 'instance'}"
        elif run_strategy_named(self._run_strategy).again == "never":
            text = f"a VM with run strategy {self._run_strategy} is not started again"
        elif self.owner is not None and self.vmi is not None and held_by_pause(self.owner):
            text = f"{self.owner.ref} is paused (spec.paused), and creates no instance"
        else:
            return None
        return Obstacle(NOT_STARTED, text)

    @property
    def doubt_of_successor(self) -> Obstacle | None:
        """Why a VM whose pod is evicted may stay off.

        With RerunOnFailure only a VMI that failed is followed by another (watch/vm/vm.go, syncRunStrategy). One
        that ends with its pod has failed only if its guest did not shut down (pkg/virt-handler/vm.go,
        calculateVmPhaseForStatusReason). The VMI of a failed node has.
        """
        if run_strategy_named(self._run_strategy).again != "if_failed":
            return None
        return Obstacle(
            NOT_STARTED,
            f"a VM with run strategy {self._run_strategy} is started again only if its guest does not shut down"
            " within its grace period",
        )


def held_by_pause(workload: Workload) -> bool:
    """Whether its controller creates and ends no instance (KubeVirt, watch/replicaset/replicaset.go and
    watch/pool/pool.go, execute: no scale while spec.paused)."""
    scaled = workload.runs_vms and workload.replicas is not None
    return scaled and bool(workload.spec.get("paused"))


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
    ways: Ways,
    *,
    apply_pending_changes: bool = False,
    vm_changed: bool = False,
) -> MoveOptions:
    """The ways of an instance after which it runs as `workload` declares now. `vm_changed`: as in
    `pools.changed_by_others`."""
    vmi, owner = ways.vmi, ways.owner
    waits = _why_it_waits(workload, ways, vm_changed=vm_changed)
    if waits is not None or owner is None:
        return MoveOptions((), waits)
    if vmi is None:
        return MoveOptions((Method.RECREATE,), ways.migrate)
    again, refusal = ways.again
    if refusal is None and not apply_pending_changes:
        refusal = ways.pending_changes(PERMISSION)
    possible = () if refusal is not None else (again,)
    obstacle = _why_not_enforced(owner, vmi, ways)
    if obstacle is None:
        return MoveOptions((Method.MIGRATE, *possible), refusal=refusal)
    if refusal is None:
        return MoveOptions(possible, obstacle)
    awaited = again if refusal.temporary else None
    return MoveOptions((), refusal.after(str(obstacle)), awaited=awaited)


def can_migrate(workload: Workload | None, ways: Ways) -> bool:
    """Whether Method.MIGRATE is among the methods of `move_options`; it costs less than all of them."""
    vmi, owner = ways.vmi, ways.owner
    if vmi is None or owner is None or _why_it_waits(workload, ways) is not None:
        return False
    return _why_not_enforced(owner, vmi, ways) is None


def _why_it_waits(
    workload: Workload | None, ways: Ways, *, vm_changed: bool = False
) -> Obstacle | None:
    """Why an instance does not move now, by whichever method."""
    vmi, owner, ended = ways.vmi, ways.owner, ways.vmi or ways.pod
    if ended is not None and ended.terminating:
        noun = "pod" if vmi is None else "instance"
        return Obstacle("terminating", f"the {noun} is being deleted", True)
    if workload is None or (vmi is not None and not workload.runs_vms):
        return Obstacle("not_movable", "no controller would recreate it")
    if vmi is None:
        return _why_pod_waits(workload)
    if not workload.kind.has_vm:
        return None
    if owner is None:
        return Obstacle("in_progress", "its VirtualMachine was not read", True)
    if workload.kind.makes_vms and (waits := _why_member_waits(workload, owner, vmi)):
        return VM_CHANGED_BY_OTHERS if vm_changed else waits
    return _why_not_running(vmi, temporary=True)


def _why_pod_waits(workload: Workload) -> Obstacle | None:
    if not workload.kind.replaces_pods:
        text = f"pods of a {workload.ref.kind} are bound to their nodes"
        return Obstacle("not_movable", text)
    if not workload.seen:
        return Obstacle("in_progress", "its controller has not seen the latest change yet", True)
    return (_held(workload) or _ROLLING) if _behind(workload) else None


_ROLLING = Obstacle("in_progress", "the rollout of its workload is in progress", True)


def _why_not_running(vmi: Vmi, *, temporary: bool = False) -> Obstacle | None:
    text = f"the instance is {vmi.phase or 'not started'}"
    return None if vmi.phase == "Running" else Obstacle("not_running", text, temporary)


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


def _why_not_enforced(owner: Workload, vmi: Vmi, ways: Ways) -> Obstacle | None:
    """Why a live migration would not enforce the declared placement."""
    behind = lagging_fields(owner, vmi)
    if owner.kind.has_vm:
        return _why_not_live(owner, behind, ways.platform) or ways.migrate
    if behind:
        fixed = f"{', '.join(behind)} of the instance is fixed when the VMI is created"
        return Obstacle("needs_restart", fixed)
    return _why_not_running(vmi) or ways.migrate


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


def _behind(workload: Workload) -> int:
    """How many pods are not of the latest revision that the controller has seen. Under the strategy
    OnDelete that is nothing to wait for: pods follow when they are deleted."""
    return 0 if workload.waits_for_deletion else workload.outdated


def _held(workload: Workload) -> Obstacle | None:
    """Why the rollout of a Deployment or StatefulSet does not go on by itself. A StatefulSet keeps the pods below its
    partition on the previous revision."""
    stuck, partition = missed_deadline(workload), workload.kind.partition(workload.spec)
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
