# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims matter for the pods of a change that need a node, and what about them is not certain?

A pod that takes the place of one that runs uses claims that are bound. The claims of all others are read.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import replace

from ..model.objects import ClaimTemplate, Pod
from ..model.rendering import listed
from ..model.storage import ClaimKey, ClaimState
from ..scheduler.framework import pod_key
from .change import ChangedCluster
from .conclusion import Doubt
from .simulation import PendingPod

NeededClaims = dict[ClaimKey, ClaimTemplate | None]
"""What each claim is made from where it does not exist; None where nothing makes it."""


def needed_claims(change: ChangedCluster) -> NeededClaims:
    """The claims of pods that need a node, but those that a running pod leaves to its successor."""
    needed: NeededClaims = {}
    for pending in change.pending:
        made = {template.claim: template for template in pending.pod.made_claims}
        held = _held(pending)
        for claim in pending.pod.claims:
            if claim not in held:
                needed[pending.pod.namespace, claim] = made.get(claim)
    return needed


def _held(pending: PendingPod) -> t.Container[str]:
    old = pending.replaces
    keeps = old is not None and bool(old.node_name) and pending.reason in ("migrate", "recreate")
    return old.claims if keeps and old is not None else ()


def with_claim_states(
    change: ChangedCluster, states: t.Mapping[ClaimKey, ClaimState]
) -> ChangedCluster:
    """The change with these states before and after it."""
    return replace(
        change,
        before=replace(change.before, claim_states=states),
        after=replace(change.after, claim_states=states),
    )


def claim_doubts(change: ChangedCluster) -> t.Iterator[Doubt]:
    """The doubts about claims that may keep a required pod from running, though the filters admit it."""
    states = change.after.claim_states
    users: dict[ClaimKey, list[Pod]] = defaultdict(list)
    ending = {pod_key(x.replaces) for x in change.pending if x.replaces is not None}
    for pod in change.after.pods:
        for claim in pod.claims:
            state = states.get((pod.namespace, claim))
            if state is not None and state.one_node and pod_key(pod) not in ending:
                users[pod.namespace, claim].append(pod)
    for pending in change.pending:
        if not pending.required:
            continue
        namespace, held = pending.pod.namespace, _held(pending)
        for claim in pending.pod.claims:
            if claim in held:
                continue
            state = states.get((namespace, claim))
            if state is None:
                yield Doubt("claim_unread", f"claim {claim} of {pending.name} was not read")
            elif state.doubt:
                yield Doubt("claim_unbound", f"{pending.name}: {state.doubt}")
            elif state.one_node and not state.exclusive:
                others = [x.name for x in users[namespace, claim] if x is not pending.pod]
                if others:
                    yield Doubt(
                        "claim_of_one_node",
                        f"{pending.name}: claim {claim} is ReadWriteOnce, and {listed(sorted(others))}"
                        " may use it on another node",
                    )
