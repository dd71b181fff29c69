# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand a VMI with the eviction strategy External to its controller: ask for its eviction, wait until it has left.

Pure. virt-api refuses the eviction with 429 and writes `status.evacuationNodeName`, which is what the controller
acts on (KubeVirt, webhooks admitters/pod-eviction-admitter.go). A second eviction changes nothing.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.kinds import instance_path
from ..model.obstacle import Obstacle
from .move import (
    ApiCall,
    MoveRecord,
    MoveResult,
    Observation,
    Outcome,
    Phase,
    Transition,
    eviction_body,
    terminating,
)

WAITS: t.Final = Obstacle(
    "moved_by_others", "waits for the controller of its eviction strategy External", True
)


def advance(record: MoveRecord, seen: Observation) -> Transition:
    """Ask until the VMI is marked; then wait until it runs on another node or is gone."""
    vmi = seen.instance.vmi if seen.instance is not None else None
    if seen.instance is None or vmi is None:
        return Transition(record, ended=MoveResult(Outcome.MOVED))
    if vmi.node_name and vmi.node_name != record.source:
        return Transition(record, ended=MoveResult(Outcome.MOVED, node=vmi.node_name))
    if vmi.evacuation_node_name or terminating(seen.instance):
        return Transition(replace(record.held_by(WAITS), phase=Phase.BEGUN))
    pod = seen.instance.pod
    if pod is None:
        return Transition(record.held_by(Obstacle("changed", "its pod was not read", True)))
    request = ApiCall(
        "create", f"{instance_path(pod.ref)}/eviction", eviction_body(pod.ref, {"uid": pod.uid})
    )
    return Transition(replace(record, phase=Phase.INTENDED), request)
