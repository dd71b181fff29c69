# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who waits for a node as things are, in words. Pure."""

from __future__ import annotations

from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..verdicts.instances import instances
from ..verdicts.waiting import Waiting
from .proof_words import listed
from .world import index_of


def already_pending(snapshot: Snapshot, topology: Topology) -> tuple[str, ...]:
    """A line for each reason for which instances have no node, the most of them first."""
    without_node = [found for found in instances(snapshot) if not found.node_name]
    if not without_node:
        return ()
    waiting = Waiting(index_of(snapshot, snapshot.pods), topology)
    by_reason: dict[str, list[str]] = {}
    for found in without_node:
        pod = found.pod
        reason = waiting.reason(pod) if pod is not None else "no pod of it is there yet"
        by_reason.setdefault(reason, []).append(f"{found.ref.namespace}/{found.ref.name}")
    most_first = sorted(by_reason.items(), key=lambda each: (-len(each[1]), each))
    return tuple(
        f"{len(names)} {'is' if len(names) == 1 else 'are'} Pending already, and nothing is asked"
        f" about {'it' if len(names) == 1 else 'them'}: {listed(sorted(names))}: {reason}"
        for reason, names in most_first
    )
