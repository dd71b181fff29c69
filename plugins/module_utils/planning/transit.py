# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on its way: pods that are about to be gone, and instances that are about to be elsewhere.

Pure. The scheduler counts such pods as long as they stand, so no place is open because of this. But
nobody has to move because of a pod that leaves by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model.snapshot import Snapshot
from ..verdicts.instances import active_pod, launcher_pods


@dataclass(frozen=True, slots=True)
class Transit:
    """`pods` (uids) are leaving. `instances` (uids) migrate to a node that has been found."""

    pods: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()


def transit(snapshot: Snapshot) -> Transit:
    """Pods that are being deleted, those of machines that are, a migration's source as soon as its
    target has a node, and whatever a migration that is over has left behind."""
    pods = {pod.uid for pod in snapshot.pods if pod.terminating}
    migrating = {(found.ref.namespace, found.instance) for found in snapshot.migrations}
    launchers = launcher_pods(snapshot)
    instances = set()
    for vmi in snapshot.machine_instances:
        alive = {pod.uid: pod.node_name for pod in launchers.get(vmi.uid, ()) if not pod.finished}
        if vmi.terminating:
            pods |= alive.keys()
            continue
        running = active_pod(vmi, launchers[vmi.uid]) if len(alive) > 1 else None
        active = running.uid if running is not None else ""
        beside = {uid for uid, node in alive.items() if node and uid != active}
        if not active or not beside:
            continue
        if (vmi.ref.namespace, vmi.ref.name) in migrating:
            instances.add(vmi.uid)
            pods.add(active)
        else:
            pods |= beside
    return Transit(frozenset(pods), frozenset(instances))
