# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the API server make of the pods of a change when they are created: which does it change, or refuse?

LimitRanges complete the pods of controllers exactly, since their templates are known. A pod that runs shows what
webhooks made of it; nothing shows that of the first pod of a workload.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..kubevirt.instances import instances
from ..kubevirt.next_pod import controlled_pod
from ..model.kinds import DEPLOYMENT, STATEFUL_SET
from ..model.limit_range import LimitRange, why_refused, with_defaults
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Workload
from ..scheduler.labels import matches
from .change import ChangedCluster
from .conclusion import NO_CERTAINTY, Doubt, Evidence
from .result import Forecast, UnschedulableInstance
from .simulation import PendingPod

_WITH_TEMPLATES = (DEPLOYMENT.name, STATEFUL_SET.name)
"""Kinds whose pods are made from their templates as these are."""


def new_pods(change: ChangedCluster) -> list[PendingPod]:
    """The pods that the answer is about and that do not exist yet."""
    existing = {pod.uid for pod in change.before.pods}
    return [x for x in change.pending if x.required and x.pod.uid not in existing]


def first_pods(change: ChangedCluster) -> list[PendingPod]:
    """Those of workloads of which no pod has a node: nothing shows what the next one looks like."""
    new = [x for x in new_pods(change) if x.reason == "start" and x.replaces is None]
    if not new:
        return []
    running = {x.workload for x in instances(change.before) if x.node_name}
    return [x for x in new if x.workload not in running]


def limited_pods(change: ChangedCluster) -> list[PendingPod]:
    """Those of which LimitRanges matter: a VM that runs shows what its next pod gets."""
    first = {id(pending) for pending in first_pods(change)}
    return [
        x
        for x in new_pods(change)
        if id(x) in first or (x.workload is not None and x.workload.kind in _WITH_TEMPLATES)
    ]


def admission_doubts(change: ChangedCluster) -> tuple[Doubt, ...]:
    """What admission may make of new pods, where it is not known."""
    return tuple(dict.fromkeys((*_of_limit_ranges(change), *_of_webhooks(change))))


def _of_limit_ranges(change: ChangedCluster) -> t.Iterator[Doubt]:
    snapshot = change.after
    if snapshot.limit_ranges is None:
        if limited_pods(change):
            text = "LimitRanges could not be read, which may change or refuse new pods"
            yield Doubt("limit_range_unread", text)
        return
    if not snapshot.limit_ranges:
        return
    workloads = {workload.ref: workload for workload in snapshot.workloads}
    for pending in limited_pods(change):
        workload = workloads.get(pending.workload) if pending.workload is not None else None
        ranges = _ranges(snapshot, pending.pod.namespace)
        if not ranges or workload is None:
            continue
        names = listed(list(map(str, ranges)))
        if workload.ref.kind not in _WITH_TEMPLATES:
            text = f"{names} may change or refuse the first pod of {workload.ref}"
            yield Doubt("limit_range_unknown", text)
        elif any(x.adds_requests for x in ranges) and (
            controlled_pod(workload, "", "", "", ranges).requests != pending.pod.requests
        ):
            text = f"{names} may set other requests for the next pod of {workload.ref} than its running pods have"
            yield Doubt("limit_range_unknown", text, NO_CERTAINTY)


def _of_webhooks(change: ChangedCluster) -> t.Iterator[Doubt]:
    mutators, snapshot = change.after.pod_mutators, change.after
    first = first_pods(change) if mutators is None or mutators else []
    if mutators is None and first:
        text = (
            "MutatingWebhookConfigurations and MutatingAdmissionPolicies could not be read, which may change new"
            " pods"
        )
        yield Doubt("webhooks_unread", text)
    namespaces = {namespace.name: namespace.labels for namespace in snapshot.namespaces}
    for pending in first:
        pod = pending.pod
        names = sorted(
            {
                str(mutator.source)
                for mutator in mutators or ()
                if (
                    mutator.namespaces is None
                    or matches(mutator.namespaces, namespaces.get(pod.namespace, {}))
                )
                and (mutator.pods is None or matches(mutator.pods, pod.labels))
            }
        )
        if names:
            text = f"{listed(names)} may change the first pod of {pending.workload}"
            yield Doubt("pod_webhook", text, NO_CERTAINTY)


def _ranges(snapshot: Snapshot, namespace: str) -> list[LimitRange]:
    return [x for x in snapshot.limit_ranges or () if x.namespace == namespace]


def within_limit_ranges(result: Forecast, change: ChangedCluster) -> Forecast:
    """The forecast with the pods that LimitRanges refuse."""
    if not change.after.limit_ranges:
        return result
    workloads = {workload.ref: workload for workload in change.after.workloads}
    refusals: dict[Ref, str] = {}
    waiting: list[UnschedulableInstance] = []
    for pending in new_pods(change):
        workload = workloads.get(pending.workload) if pending.workload is not None else None
        if workload is None or workload.ref.kind not in _WITH_TEMPLATES:
            continue
        if workload.ref not in refusals:
            refusals[workload.ref] = _refusal(workload, change.after)
        if why := refusals[workload.ref]:
            waiting.append(UnschedulableInstance(pending.instance, workload.ref, why, True))
    if not waiting:
        return result
    named = {x.instance for x in waiting}
    reasons = (f"no pod of {ref} is created: {why}" for ref, why in refusals.items() if why)
    return replace(
        result,
        evidence=(*result.evidence, Evidence(never=("limit_range",))),
        reasons=(*result.reasons, *reasons),
        pending=(*(x for x in result.pending if x.instance not in named), *waiting),
        moves=tuple(move for move in result.moves if move.instance not in named),
        min_unschedulable=max(result.min_unschedulable, len(waiting)),
    )


def _refusal(workload: Workload, snapshot: Snapshot) -> str:
    ranges = _ranges(snapshot, workload.ref.namespace)
    return (
        why_refused(with_defaults(workload.template.get("spec") or {}, ranges), ranges)
        if ranges
        else ""
    )
