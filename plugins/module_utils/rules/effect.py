# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a change of a template counts for what runs: `takes_effect`.

Sources: KubeVirt pkg/virt-controller/watch/vm/vm.go (affinity, nodeSelector and tolerations reach
a running VMI under LiveUpdate, unless RestartRequired is set; topologySpreadConstraints never do),
watch/replicaset/replicaset.go (a VMI of a replica set keeps the template it was made from).
"""

from __future__ import annotations

import typing as t

from ..model.kinds import DEPLOYMENT, REPLICA_SET
from ..model.snapshot import MachineInstance, Workload
from .inventory import Inventory
from .merge import Merged
from .migratable import why_not_migratable
from .slots import Slot

NOW = "now"
MIGRATION = "migration"
RESTART = "restart"
RECREATION = "recreation"
OWN_ROLLOUT = "own_rollout"
NEXT_START = "next_start"

INSTANCES = "virtualmachineinstances"
"""Where they could not be read, machines are taken to run, and to need the most."""


def takes_effect(workload: Workload, merged: Merged, inventory: Inventory) -> str:
    """What has to happen to the running instances before the change counts for them."""
    if not merged.slots:
        return NOW
    if workload.ref.kind == DEPLOYMENT.name:
        return OWN_ROLLOUT if replicas(workload) else NEXT_START
    machines = inventory.machines_of(workload)
    if not machines and inventory.gap(INSTANCES, workload.ref.namespace) is None:
        return NEXT_START
    if merged.slots == {Slot.LABEL}:
        return NOW
    if workload.ref.kind == REPLICA_SET.name:
        return RECREATION
    if not machines or _needs_restart(workload, merged, inventory, machines):
        return RESTART
    return MIGRATION


def replicas(workload: Workload) -> int:
    """How many instances are wanted; the API takes a missing number for one."""
    wanted = (workload.manifest.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def rolls_itself(workload: Workload) -> bool:
    """Whether a change of the template starts a roll-out at once."""
    paused = (workload.manifest.get("spec") or {}).get("paused")
    return workload.kind.self_rolling and not paused and replicas(workload) > 0


def spread_differs(merged: Merged, machines: t.Iterable[MachineInstance]) -> bool:
    """Whether a running machine has other topologySpreadConstraints than the template will, and that
    comes of the change."""
    return Slot.SPREAD in merged.slots and _spread_waits(merged, machines)


def _spread_waits(merged: Merged, machines: t.Iterable[MachineInstance]) -> bool:
    """The same, whoever changed it: nothing else reaches the machine before its restart."""
    wanted = merged.after.get(_SPREAD) or []
    return any((machine.spec.get(_SPREAD) or []) != wanted for machine in machines)


def _needs_restart(
    workload: Workload,
    merged: Merged,
    inventory: Inventory,
    machines: t.Sequence[MachineInstance],
) -> bool:
    return (
        _spread_waits(merged, machines)
        or inventory.snapshot.platform.rollout_strategy != "LiveUpdate"
        or workload.condition("RestartRequired") is not None
        or any(map(why_not_migratable, machines))
    )


_SPREAD = "topologySpreadConstraints"
