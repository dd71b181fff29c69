# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does the write of rules set the rollout aside that a controller makes by itself, and what stays set aside?

A StatefulSet is held by OnDelete: each replica that is evicted comes back from the present template (kubernetes
pkg/controller/statefulset, newVersionedStatefulSetPod). A partition would not do: a replica below it comes back from
the previous template. A VirtualMachinePool is held by opportunistic (`kubevirt/pools`): its VMs get the template, and
their VMIs are migrated or restarted. A Deployment has no strategy that replaces nothing, and cannot be held.
"""

from __future__ import annotations

import contextlib
import json
import typing as t
from dataclasses import replace

from ..kubevirt import pools
from ..model.findings import Finding
from ..model.json_pointer import ANNOTATIONS, MISSING, UPDATE_STRATEGY
from ..model.kinds import HOLD
from ..model.objects import Ref
from ..model.obstacle import NO_HOLD, Obstacle
from ..model.snapshot import Platform, Workload
from ..model.write import Operation, Write
from ..rules.change import Holding, WorkloadChange
from ..rules.ownership import UnreadableAnnotation
from ..rules.record import read_undo_record
from ..view.view import ClusterView
from .hold import hold_of

if t.TYPE_CHECKING:
    from ..lint.lint_input import LintInput


def why_not_held(workload: Workload, platform: Platform) -> Obstacle | None:
    """Why the rollout of its own cannot be set aside."""
    if workload.strategy_name is None:
        return Obstacle(
            NO_HOLD,
            "it has no strategy that replaces nothing. Limit its rollout by spec.strategy.rollingUpdate"
            " (maxUnavailable, maxSurge), and set workload_rollout to allow",
        )
    if workload.kind.makes_vms:
        return pools.why_not_held(workload, platform)
    if partition := workload.kind.partition(workload.spec):
        return Obstacle(
            NO_HOLD,
            f"it has a partition ({partition}), and while its rollout is held, replicas below the partition would come"
            " back from the new template, too",
        )
    return None


def held(workload: Workload, write: Write) -> Write:
    """A write to the template that sets the rollout aside, too."""
    strategy = UPDATE_STRATEGY.read(workload.manifest)
    there = strategy is not MISSING
    text = json.dumps({"updateStrategy": strategy if there else {}}, sort_keys=True)
    update = workload.kind.update_strategy
    held_by = update.set_aside if update is not None else None
    set_aside = Operation("replace" if there else "add", UPDATE_STRATEGY, held_by)
    return replace(
        write,
        operations=(*write.operations, set_aside, Operation("add", ANNOTATIONS / HOLD, text)),
        before={**write.before, "updateStrategy": strategy if there else None},
        after={**write.after, "updateStrategy": held_by},
    )


def held_by(
    view: ClusterView, changes: t.Iterable[WorkloadChange], rule_set: str
) -> frozenset[Ref]:
    """The workloads that the rule set (`namespace/set`) has written, with or without a rule of it by now, and whose
    own rollouts are set aside, once the changes are made."""
    held_now = {change.ref for change in changes if change.is_held}
    for workload in view.snapshot.workloads_by_ref.values():
        hold = hold_of(workload)
        if hold is None or hold.is_over:
            continue
        with contextlib.suppress(UnreadableAnnotation):
            record = read_undo_record(workload)
            if record is not None and rule_set in record.changes:
                held_now.add(workload.ref)
    return frozenset(held_now)


def hold_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Workloads that a run has left without their own rollout."""
    for subject in lint_input.subjects:
        hold = hold_of(subject.workload) if subject.workload is not None else None
        if hold is None or hold.is_over:
            continue
        by_hand = f"set its update strategy and remove the annotation {HOLD}"
        allowing, replaces = " with recreate in allow", "replaces a pod"
        if hold.workload.runs_vms:
            by_hand += f". {pools.BEFORE_STRATEGY}"
            allowing, replaces = "", "restarts a VM"
        rollout = f"Run a rollout of it{allowing}, which gives the strategy back. In a file, "
        yield subject.finding(
            None,
            "workload_rollout_held",
            "warning",
            "Rules were written with workload_rollout hold, so its update strategy is"
            f" {hold.workload.strategy_name}: no change of its template {replaces}, by whatever client.",
            f"{rollout}{by_hand}." if hold.strategy is not None else f"S{by_hand[1:]}.",
        )


HOLDING = Holding(why_not_held, held, held_by)
