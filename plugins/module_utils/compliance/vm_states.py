# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs of a selection do not run, and which running ones cannot be live-migrated?

Verdicts are about what runs and where. A verification names these VMs beside them: nothing is verified of the first,
and no rollout or drain moves the others alive.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..kinds.registry import KINDS
from ..kinds.vmi import VMIS
from ..kubevirt.moving import why_not_migratable
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import as_json, listed, one_line
from ..model.snapshot import Snapshot
from ..view.view import view_of

_NAMED = 6


class NotMigratable(t.NamedTuple):
    vmi: Ref
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class VmStates:
    """None where a list that is needed could not be read, so that it is unknown."""

    not_running: tuple[Ref, ...] | None
    not_migratable: tuple[NotMigratable, ...] | None

    def counts(self) -> dict[str, JSON]:
        lists = {"not_running": self.not_running, "not_migratable": self.not_migratable}
        return {name: None if vms is None else len(vms) for name, vms in lists.items()}

    def as_json(self) -> dict[str, JSON]:
        return {
            "not_running": as_json(self.not_running or ()),
            "not_migratable": [
                {**vm.vmi._asdict(), "node": vm.node, "reason": one_line(vm.reason)}
                for vm in self.not_migratable or ()
            ],
        }

    def lines(self) -> t.Iterator[str]:
        """One for the VMs that do not run, and one for each reason why some cannot be live-migrated."""
        if self.not_running:
            names = [f"{ref.namespace}/{ref.name}" for ref in self.not_running]
            yield f"not running, so not verified: {listed(names, _NAMED)}"
        by_reason: dict[str, list[str]] = defaultdict(list)
        for vmi, node, reason in self.not_migratable or ():
            by_reason[reason].append(f"{vmi.namespace}/{vmi.name} on {node or 'no node'}")
        for reason, names in by_reason.items():
            yield f"no live migration: {listed(names, _NAMED)}: {reason}"


NO_VMS = VmStates((), ())


def vm_states(snapshot: Snapshot, covers: t.Callable[[Ref], bool]) -> VmStates:
    """`covers` accepts the workloads of the selection."""
    unread = {gap.resource for gap in snapshot.unreadable}
    if VMIS in unread:
        return VmStates(None, None)
    running, fixed = set(), []
    for instance in view_of(snapshot).instances:
        if instance.vmi is None:
            continue
        running.add((instance.ref.namespace, instance.ref.name))
        obstacle = why_not_migratable(instance.vmi)
        if obstacle is not None and covers(instance.workload or instance.ref):
            fixed.append(NotMigratable(instance.ref, instance.node_name, str(obstacle)))
    off = (
        workload.ref
        for workload in snapshot.workloads
        if workload.kind.run_strategy
        and (workload.ref.namespace, workload.ref.name) not in running
        and covers(workload.ref)
    )
    known = unread.isdisjoint(kind.plural for kind in KINDS.values() if kind.run_strategy)
    return VmStates(tuple(sorted(off)) if known else None, tuple(sorted(fixed)))
