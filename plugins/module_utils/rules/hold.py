# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How is the rollout that a controller makes by itself set aside, and how does the workload get its strategy back?

With `workload_rollout: hold` the write of the rules also sets the update strategy that replaces nothing, and the
annotation `placement.virt/hold` keeps the strategy that the workload had. No instance ends by that. A rollout then
moves one after the other within its limits, and gives the strategy back once all are of the present template: then it
replaces nothing.

A StatefulSet is held by OnDelete: each replica that is evicted comes back from the present template (kubernetes
pkg/controller/statefulset, newVersionedStatefulSetPod). A partition would not do: a replica below it comes back from
the previous template. A VirtualMachinePool is held by opportunistic (`kubevirt/pools`): its VMs get the template, and
their VMIs are migrated or restarted. A Deployment has no strategy that replaces nothing, and cannot be held.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ..kinds.registry import KINDS
from ..kinds.stateful_set import partition_of
from ..kubevirt import pools
from ..kubevirt.pools import PoolMember, changed_by_others, lacks_template
from ..model.json_pointer import ANNOTATIONS, JSON, MISSING, Pointer
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import HOLD
from ..model.objects import Ref
from ..model.obstacle import NO_HOLD, Obstacle
from ..model.plan import Uid
from ..model.snapshot import Platform, Workload
from ..model.write import Operation, Write

STRATEGY = Pointer(("spec", "updateStrategy"))
PAUSED = Pointer(("spec", "paused"))

_HELD_KINDS = tuple(kind for kind in KINDS.values() if kind.takes_rules and kind.update_strategy)


@dataclass(frozen=True, slots=True)
class Hold:
    """A workload whose own rollout is set aside. `strategy` is the one that it had; None where that is not known,
    since the annotation is damaged. `replacing`: the name of that strategy. `members`: the VMs of a pool. `left`: the
    instances that are not of the present template."""

    workload: Workload
    strategy: JSON
    replacing: str
    members: tuple[PoolMember, ...] = ()
    left: frozenset[Uid] = frozenset()

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    @property
    def seen(self) -> bool:
        """Whether the controller has counted the pods of the present template, or brought it to each VM of a pool."""
        if self.workload.kind.makes_vms:
            vms = [member.vm for member in self.members]
            return not any(
                lacks_template(self.workload, vm) and not changed_by_others(self.workload, vm, vms)
                for vm in vms
            )
        return self.workload.seen

    @property
    def behind(self) -> int:
        """How many replicas are not of the present template, as the controller counts them. A pool counts none."""
        return 0 if self.workload.kind.makes_vms else self.workload.outdated

    @property
    def is_over(self) -> bool:
        """Whether another client has set another strategy meanwhile, so that nothing is set aside any more."""
        return not self.workload.kind.is_held(self.workload.spec)

    @property
    def ends(self) -> bool:
        """Whether the hold can end, and nothing restarts by that. The controller also counts replicas that a scale-in
        is about to delete (kubernetes stateful_set_control.go, updateStatus), so what is `left` counts as well."""
        is_counted = self.strategy is not None and self.seen and not self.behind
        return self.is_over or (is_counted and not self.left)


def hold_of(workload: Workload) -> Hold | None:
    """The hold of a workload, None where it has none."""
    text = workload.annotations.get(HOLD)
    update = workload.kind.update_strategy
    if text is None or update is None or workload.kind not in _HELD_KINDS:
        return None
    try:
        strategy = read_annotation(text).get("updateStrategy")
    except DamagedAnnotation:
        strategy = None
    known = isinstance(strategy, dict) and update.name(strategy) == update.replacing
    return Hold(workload, strategy if known else None, update.replacing)


def why_not_held(workload: Workload, platform: Platform) -> Obstacle | None:
    """Why the rollout of its own cannot be set aside."""
    if workload.kind not in _HELD_KINDS:
        return Obstacle(
            NO_HOLD,
            "it has no strategy that replaces nothing. Limit its rollout by spec.strategy.rollingUpdate"
            " (maxUnavailable, maxSurge), and set workload_rollout to allow",
        )
    if workload.kind.makes_vms:
        return pools.why_not_held(workload, platform)
    partition = partition_of(workload.spec)
    if not partition:
        return None
    return Obstacle(
        NO_HOLD,
        f"it has a partition ({partition}), and while its rollout is held, replicas below the partition would come"
        " back from the new template, too",
    )


def is_holding(write: Write) -> bool:
    """Whether a write sets the rollout of its workload aside."""
    return any(op.pointer == ANNOTATIONS / HOLD and op.op != "remove" for op in write.operations)


def with_same_strategy(workload: Workload, write: Write) -> Write:
    """A write to the template that is made only while what keeps the controller from replacing pods is as it was read:
    the update strategy, which a rollout may give back meanwhile, or the pause of a Deployment."""
    pointer = STRATEGY if workload.kind in _HELD_KINDS else PAUSED
    before = pointer.read(workload.manifest, None)
    return replace(write, tests=(*write.tests, Operation("test", pointer, before)))


def held(workload: Workload, write: Write) -> Write:
    """A write to the template that sets the rollout aside, too."""
    strategy = STRATEGY.read(workload.manifest)
    there = strategy is not MISSING
    text = json.dumps({"updateStrategy": strategy if there else {}}, sort_keys=True)
    update = workload.kind.update_strategy
    held_by = update.set_aside if update is not None else None
    set_aside = Operation("replace" if there else "add", STRATEGY, held_by)
    return replace(
        with_same_strategy(workload, write),
        operations=(*write.operations, set_aside, Operation("add", ANNOTATIONS / HOLD, text)),
        before={**write.before, "updateStrategy": strategy if there else None},
        after={**write.after, "updateStrategy": held_by},
    )


def release_of(hold: Hold) -> Write:
    """The write that gives the strategy back, unless something else has set one meanwhile. It needs the generation
    that was read: rules that are written at the same time rely on the strategy that replaces nothing."""
    workload = hold.workload
    generation = Pointer(("metadata", "generation"))
    strategy = STRATEGY.read(workload.manifest)
    annotation = ANNOTATIONS / HOLD
    tests = [
        Operation("test", generation, generation.read(workload.manifest, None)),
        Operation("test", annotation, workload.annotations[HOLD]),
        Operation("test", STRATEGY, None if strategy is MISSING else strategy),
    ]
    operations = [Operation("remove", annotation)]
    if not hold.is_over:
        given_back = Operation("replace", STRATEGY, hold.strategy)
        operations.insert(0, given_back if hold.strategy else Operation("remove", STRATEGY))
    return Write(
        target=workload.ref,
        path=workload.path,
        uid=workload.uid,
        tests=tuple(tests),
        operations=tuple(operations),
        before={"updateStrategy": strategy},
        after={"updateStrategy": hold.strategy},
    )
