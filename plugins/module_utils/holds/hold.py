# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a hold: a workload whose own rollout is set aside, and which strategy does it get back?

With `workload_rollout: hold` the write of the rules also sets the update strategy that replaces nothing, and the
annotation `placement.virt/hold` keeps the strategy that the workload had. No instance ends by that. A rollout then
moves one after the other within its limits, and gives the strategy back once all are of the present template: then it
replaces nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..kubevirt.pools import PoolMember, changed_by_others, lacks_template
from ..model.json_pointer import JSON
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import HOLD
from ..model.objects import Ref
from ..model.plan import Uid
from ..model.snapshot import Workload


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
        return self.is_over or (
            self.strategy is not None and self.seen and not self.behind and not self.left
        )


def hold_of(workload: Workload) -> Hold | None:
    """The hold of a workload, None where it has none."""
    text = workload.annotations.get(HOLD)
    if text is None or workload.strategy_name is None:
        return None
    try:
        strategy = read_annotation(text).get("updateStrategy")
    except DamagedAnnotation:
        strategy = None
    kind = workload.kind
    known = isinstance(strategy, dict) and not kind.waits_for_deletion({"updateStrategy": strategy})
    return Hold(workload, strategy if known else None, kind.strategy_name({}) or "")
