# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it takes to give a running instance the placement that its workload declares.

Pure. The rules are KubeVirt's: with the rollout strategy LiveUpdate a VirtualMachine's affinity,
node selector and tolerations reach the running VMI, and its next launcher pod carries them;
topologySpreadConstraints, or anything under the strategy Stage, wait for a restart, and as long
as the condition RestartRequired stands nothing is propagated. The VMI of a replica set keeps the
spec that it was made with (KubeVirt 1.9, watch/vm and watch/replicaset).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.kinds import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.plan import Method
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.snapshot import Instance, MachineInstance, Workload
from ..rules.migratable import why_not_migratable

LIVE_FIELDS = ("affinity", "nodeSelector", "tolerations")
PLACEMENT_FIELDS = (*LIVE_FIELDS, "topologySpreadConstraints")

RESTARTABLE = ("Always", "Manual", "RerunOnFailure")
"""Run strategies under which KubeVirt restarts a running VM (virt-api, rest/lifecycle.go)."""

EASE = (Method.MIGRATE, Method.RESTART, Method.RECREATE)
"""Methods from the gentlest on."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How an instance can move so that it runs with its declared placement afterwards.

    `methods` are those that KubeVirt or Kubernetes would carry out, gentlest first; empty where
    there is none. `reason` says why it is not gentler, or why there is none. `passing` is true
    where the obstacle goes away by itself (a migration of somebody else, a start-up).
    """

    methods: tuple[Method, ...]
    reason: str = ""
    passing: bool = False

    def allowed(self, allow: t.Container[Method]) -> Method | None:
        return next((method for method in self.methods if method in allow), None)


def effect_of(
    workload: Workload | None,
    instance: Instance,
    platform: Platform,
    *,
    activate_foreign_changes: bool = False,
) -> Effect:
    """The ways in which `instance` can be moved, given what `workload` declares now."""
    vmi = instance.vmi
    if vmi is None:
        return _of_pod(workload, instance)
    if vmi.terminating:
        return Effect((), "the instance is being deleted", passing=True)
    if workload is None:
        return Effect((), "no controller would make this instance again")
    if workload.ref.kind == REPLICA_SET.name:
        return _of_replica(workload, vmi)
    if workload.ref.kind == VIRTUAL_MACHINE.name:
        return _of_machine(workload, vmi, platform, activate_foreign_changes)
    return Effect((), f"moving instances of a {workload.ref.kind} is not supported yet")


def can_migrate(workload: Workload | None, vmi: MachineInstance | None, platform: Platform) -> bool:
    """Whether Method.MIGRATE is among the methods of `effect_of`: what else there would be is not
    looked into, so it costs less."""
    if workload is None or vmi is None or vmi.terminating:
        return False
    if workload.ref.kind == VIRTUAL_MACHINE.name:
        return vmi.phase == "Running" and not _obstacle(workload, vmi, platform)
    return workload.ref.kind == REPLICA_SET.name and (
        Method.MIGRATE in _of_replica(workload, vmi).methods
    )


def _of_pod(workload: Workload | None, instance: Instance) -> Effect:
    pod = instance.pod
    if pod is not None and pod.terminating:
        return Effect((), "the pod is being deleted", passing=True)
    if workload is None:
        return Effect((), "no controller would make this pod again")
    if workload.ref.kind not in (DEPLOYMENT.name, STATEFUL_SET.name):
        return Effect((), f"pods of a {workload.ref.kind} are bound to their nodes")
    if _unseen(workload):
        return Effect((), "its controller has not seen the latest change yet", passing=True)
    if not _behind(workload):
        return Effect((Method.RECREATE,), "a pod cannot migrate")
    if held := _held(workload):
        return Effect((), held)
    return Effect((), "its own roll-out is under way", passing=True)


def _of_replica(workload: Workload, vmi: MachineInstance) -> Effect:
    behind = lagging_fields(workload, vmi)
    if behind:
        reason = f"{_listed(behind)} of the instance stays as it was made"
    elif vmi.phase != "Running":
        reason = f"the instance is {vmi.phase or 'not started'}"
    else:
        reason = why_not_migratable(vmi)
    if not reason:
        return Effect((Method.MIGRATE, Method.RECREATE))
    return Effect((Method.RECREATE,), reason)


def _of_machine(
    workload: Workload, vmi: MachineInstance, platform: Platform, activate_foreign_changes: bool
) -> Effect:
    if vmi.phase != "Running":
        return Effect((), f"the instance is {vmi.phase or 'not started'}", passing=True)
    obstacle = _obstacle(workload, vmi, platform)
    restart, refusal = _restart(workload, vmi, activate_foreign_changes)
    if not obstacle:
        return Effect((Method.MIGRATE, *restart))
    if not restart:
        return Effect((), f"{obstacle}; {refusal}")
    return Effect(restart, obstacle)


def _restart(
    workload: Workload, vmi: MachineInstance, activate_foreign_changes: bool
) -> tuple[tuple[Method, ...], str]:
    strategy = run_strategy(workload)
    if strategy not in RESTARTABLE:
        return (), f"a VM with run strategy {strategy} is not restarted"
    if workload.condition("VolumesChange"):
        return (), "KubeVirt refuses a restart while volumes are being changed"
    if not activate_foreign_changes and (foreign := staged_changes(workload, vmi)):
        return (), (
            f"a restart would also apply changes that somebody staged ({_listed(foreign)});"
            " activate_foreign_changes allows it"
        )
    return (Method.RESTART,), ""


def _obstacle(workload: Workload, vmi: MachineInstance, platform: Platform) -> str:
    """Why a live migration would not do, or nothing."""
    behind = lagging_fields(workload, vmi)
    return _why_not_live(workload, behind, platform) or why_not_migratable(vmi)


def _why_not_live(workload: Workload, behind: tuple[str, ...], platform: Platform) -> str:
    """Why the declared placement does not reach the running VMI, or nothing."""
    if not behind:
        return ""
    if platform.rollout_strategy != "LiveUpdate":
        return f"the cluster's rollout strategy is {platform.rollout_strategy}"
    frozen = tuple(name for name in behind if name not in LIVE_FIELDS)
    if frozen:
        return f"a change of {_listed(frozen)} takes effect at a restart"
    if workload.condition("RestartRequired"):
        return "the VM has the condition RestartRequired, so nothing reaches the running instance"
    return ""


def propagating(workload: Workload, vmi: MachineInstance, platform: Platform) -> bool:
    """The declared placement is on its way to the VMI: a migration made now would use the old."""
    behind = lagging_fields(workload, vmi)
    return bool(behind) and not _why_not_live(workload, behind, platform)


def lagging_fields(workload: Workload, vmi: MachineInstance) -> tuple[str, ...]:
    """Placement fields that the template declares and the VMI's spec does not say (yet).

    An instancetype adds keys of its own to the VMI's node selector, so that one is a subset test.
    """
    declared = workload.template.get("spec") or {}
    return tuple(
        name for name in PLACEMENT_FIELDS if not _says(vmi.spec.get(name), declared.get(name), name)
    )


def _says(effective: JSON, declared: JSON, name: str) -> bool:
    if name == "nodeSelector":
        return bool((declared or {}).items() <= (effective or {}).items())
    return bool(declared == effective or without_empty(declared) == without_empty(effective))


def without_empty(value: JSON) -> JSON:
    """`value` with nulls, empty lists and empty mappings left out: what consoles add and remove.

    Inside a list an empty mapping stays, since there it means "everything".
    """
    if isinstance(value, dict):
        kept = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])} or None
    if isinstance(value, list):
        return [without_empty(item) or {} for item in value] or None
    return value


def staged_changes(workload: Workload, vmi: MachineInstance) -> tuple[str, ...]:
    """Paths under spec.template.spec that a restart would change beside placement.

    Everything that the template says must stand in the VMI's spec, which holds more: defaults,
    and what an instancetype or preference adds. Volumes and networks are compared by name.
    """
    declared = workload.template.get("spec") or {}
    return tuple(
        found
        for name, value in declared.items()
        if name not in PLACEMENT_FIELDS
        for found in _differences(value, vmi.spec.get(name), name)
    )


def _differences(declared: JSON, running: JSON, path: str) -> t.Iterator[str]:
    if isinstance(declared, dict):
        inner = running if isinstance(running, dict) else {}
        for key, value in declared.items():
            yield from _differences(value, inner.get(key), f"{path}.{key}")
    elif isinstance(declared, list):
        yield from _list_differences(declared, running if isinstance(running, list) else [], path)
    elif declared != running and declared not in (None, "", False):
        yield path


def _list_differences(declared: list[JSON], running: list[JSON], path: str) -> t.Iterator[str]:
    named = {item["name"]: item for item in running if isinstance(item, dict) and "name" in item}
    for position, item in enumerate(declared):
        if isinstance(item, dict) and "name" in item:
            label = f"{path}[{item['name']}]"
            if item["name"] not in named:
                yield label
            else:
                yield from _differences(item, named[item["name"]], label)
        elif position >= len(running):
            yield f"{path}[{position}]"
        else:
            yield from _differences(item, running[position], f"{path}[{position}]")


def run_strategy(workload: Workload) -> str:
    """spec.runStrategy, or what the older spec.running stands for."""
    spec = workload.manifest.get("spec") or {}
    if strategy := spec.get("runStrategy"):
        return str(strategy)
    return "Always" if spec.get("running") else "Halted"


def _unseen(workload: Workload) -> bool:
    metadata, status = workload.manifest["metadata"], workload.manifest.get("status") or {}
    return bool(status.get("observedGeneration", 0) < metadata.get("generation", 0))


def _behind(workload: Workload) -> int:
    """How many pods are not of the latest revision that the controller has seen. Under the strategy
    OnDelete that is nothing to wait for: pods follow when they are deleted."""
    spec, status = workload.manifest.get("spec") or {}, workload.manifest.get("status") or {}
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return 0
    wanted = spec.get("replicas", 1)
    return max(0, int(1 if wanted is None else wanted) - int(status.get("updatedReplicas", 0)))


def _held(workload: Workload) -> str:
    """Why the roll-out of a Deployment or StatefulSet will not go on by itself, or nothing.

    `Progressing=False` is what a Deployment says once progressDeadlineSeconds have gone by without
    progress. A StatefulSet keeps pods below its partition on the revision of before.
    """
    if (workload.manifest.get("spec") or {}).get("paused"):
        return "its own roll-out is paused (spec.paused): resume it first"
    stuck = workload.condition("Progressing", "False")
    if stuck is not None:
        why = stuck.get("message") or stuck.get("reason") or "no reason given"
        return f"its own roll-out is stuck: {why}"
    strategy = (workload.manifest.get("spec") or {}).get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    if partition and _behind(workload) <= partition:
        return f"its own roll-out is held by its partition ({partition})"
    return ""


def _listed(names: t.Sequence[str]) -> str:
    return ", ".join(names)
