# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims matter for the pods of a change that need a node, and what about a pod is not modeled?

A pod that takes the place of one that runs uses claims that are bound. The claims of all others are read.
"""

from __future__ import annotations

import typing as t

from ..kubevirt.next_pod import NODE_NAME
from ..model.objects import ClaimTemplate
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.storage import IN_TREE, ClaimKey
from ..scheduler.framework import pod_key
from ..view.view import view_of
from .change import ChangedCluster
from .conclusion import NO_CERTAINTY, Doubt
from .simulation import PendingPod


def needed_claims(change: ChangedCluster) -> dict[ClaimKey, ClaimTemplate | None]:
    """The claims of pods that need a node, but those that a running pod leaves to its successor, each with the template
    that makes it where it does not exist; None where nothing does."""
    needed: dict[ClaimKey, ClaimTemplate | None] = {}
    for pending in change.pending:
        made = {template.claim: template for template in pending.pod.made_claims}
        held = _held(pending)
        for claim in pending.pod.claims:
            if claim not in held:
                needed[pending.pod.namespace, claim] = made.get(claim)
    return needed


def moved_claims(change: ChangedCluster) -> set[ClaimKey]:
    """The claims that running pods leave to pods that need a node, and those of the instances that may have to move."""
    moving = [x.pod for x in view_of(change.after).instances if x.workload in change.affected]
    held = {
        (pending.pod.namespace, claim)
        for pending in change.pending
        if pending.required
        for claim in _held(pending)
    }
    return held | {
        (pod.namespace, claim) for pod in moving if pod is not None for claim in pod.claims
    }


def _held(pending: PendingPod) -> t.Collection[str]:
    old = pending.replaces
    keeps = old is not None and bool(old.node_name) and pending.reason in ("migrate", "recreate")
    return old.claims if keeps and old is not None else ()


def of_claims(pending: PendingPod, snapshot: Snapshot) -> t.Iterator[Doubt]:
    """What about its claims may keep a pod from running, though the filters admit it."""
    pod, held = pending.pod, _held(pending)
    for claim in pod.claims:
        key = pod.namespace, claim
        if claim in held:
            if (driver := snapshot.drivers.get(key)) and snapshot.attach_limits is None:
                yield _limit_unread(pending, driver)
            continue
        state = snapshot.claim_states.get(key)
        if state is None:
            yield Doubt("claim_unread", f"{pending.name}: claim {claim} was not read")
        elif state.doubt:
            yield Doubt("claim_unbound", f"{pending.name}: {state.doubt}")
        elif state.driver and snapshot.attach_limits is None:
            yield _limit_unread(pending, state.driver)
        elif state.one_node and not state.exclusive:
            others = _other_users(pending, claim, snapshot)
            if others:
                text = (
                    f"{pending.name}: claim {claim} is ReadWriteOnce, and {listed(others)} may use it on another"
                    " node"
                )
                yield Doubt("claim_of_one_node", text)


def _limit_unread(pending: PendingPod, driver: str) -> Doubt:
    if driver.startswith(IN_TREE):
        text = f"{pending.name}: Kubernetes takes a volume of {driver} for one of a CSI driver"
        return Doubt("volume_limit_unread", text, NO_CERTAINTY)
    return Doubt(
        "volume_limit_unread",
        f"{pending.name}: how many volumes of {driver} a node may attach is not known",
    )


def _other_users(pending: PendingPod, claim: str, snapshot: Snapshot) -> list[str]:
    old = pending.replaces if pending.reason == "recreate" else None
    return sorted(
        pod.name
        for pod in snapshot.pods
        if claim in pod.claims
        and pod.namespace == pending.pod.namespace
        and not pod.finished
        and pod is not pending.pod
        and (old is None or pod_key(pod) != pod_key(old))
    )


def of_pod_spec(pending: PendingPod, _snapshot: Snapshot) -> t.Iterator[Doubt]:
    """What a pod has that no filter reads."""
    pod = pending.pod
    if pod.gated:
        text = f"{pending.name} has scheduling gates, and gets a node once they are removed"
        yield Doubt("scheduling_gates", text)
    for field in pod.unmodeled:
        if field == "resourceClaims":
            yield Doubt("device_claims", f"{pending.name} uses devices by resourceClaims")
        elif field == NODE_NAME:
            owner = pending.workload or pending.name
            text = f"the template of {owner} names a node (nodeName), which no scheduler checks"
            yield Doubt("named_node", text, NO_CERTAINTY)
        else:
            yield Doubt(
                "unmodeled_field", f"{pending.name} has {field}, which may matter for its node"
            )
