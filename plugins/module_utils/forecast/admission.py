# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the API server make of the pods of a change when they are created: which does it change, or refuse?

LimitRanges complete the pods of some controllers exactly, since their templates are known. A pod that runs shows what
webhooks made of it, and LimitRanges that are older than it; nothing shows that of the first pod of a workload.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from functools import cached_property

from ..kubevirt.instances import instances
from ..kubevirt.next_pod import controlled_pod
from ..model.kinds import DEPLOYMENT, STATEFUL_SET
from ..model.limit_range import LimitRange, why_refused, with_defaults
from ..model.objects import Pod, Ref
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Workload
from .change import ChangedCluster
from .conclusion import NO_CERTAINTY, Doubt, Evidence
from .new_pods import first_pods, new_pods
from .refused_pods import mutators_of
from .result import Forecast, UnschedulableInstance
from .simulation import PendingPod

_WITH_TEMPLATES = (DEPLOYMENT.name, STATEFUL_SET.name)
"""Kinds whose pods are made from their templates as these are."""


class LimitRanges:
    """What the LimitRanges of a snapshot make of pods that do not exist yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._unread = snapshot.limit_ranges is None
        self._of: dict[str, list[LimitRange]] = {}
        for limit_range in snapshot.limit_ranges or ():
            self._of.setdefault(limit_range.namespace, []).append(limit_range)
        self._refused: dict[Ref, str] = {}

    def refusals(self, pending: t.Iterable[PendingPod]) -> t.Iterator[tuple[int, str]]:
        """The numbers of new pods that are refused for certain, and why."""
        for number, pod in enumerate(pending) if self._of else ():
            if pod.required and _is_new(pod) and (why := self.refusal(pod.workload)):
                yield number, why

    def refusal(self, ref: Ref | None) -> str:
        """Why no pod of the workload is created; empty where one is, or where that is not known."""
        workload = self._with_template(ref)
        if workload is None or not (ranges := self._of.get(workload.ref.namespace)):
            return ""
        if workload.ref not in self._refused:
            spec = with_defaults(workload.template.get("spec") or {}, ranges)
            self._refused[workload.ref] = why_refused(spec, ranges)
        return self._refused[workload.ref]

    def doubts(self, pending: t.Iterable[PendingPod]) -> tuple[Doubt, ...]:
        """What LimitRanges may make of new pods, where it is not known."""
        new = [pod for pod in pending if pod.required and _is_new(pod)]
        if self._unread and new:
            text = "LimitRanges could not be read, which may change or refuse new pods"
            return (Doubt("limit_range_unread", text),)
        doubts = (doubt for pod in new if self._of for doubt in self._doubts_of(pod))
        return tuple(dict.fromkeys(doubts))

    def _doubts_of(self, pending: PendingPod) -> t.Iterator[Doubt]:
        ranges = self._of.get(pending.pod.namespace)
        if not ranges:
            return
        if workload := self._with_template(pending.workload):
            pod = controlled_pod(workload, "", "", "", ranges)
            if any(x.adds_requests for x in ranges) and pod.requests != pending.pod.requests:
                text = (
                    f"{_named(ranges)} may set other requests for the next pod of {workload.ref} than its running"
                    " pods have"
                )
                yield Doubt("limit_range_unknown", text, NO_CERTAINTY)
            return
        what = pending.workload or pending.name
        before = pending.replaces or self._running.get(pending.workload)
        if before is None:
            text = f"{_named(ranges)} may change or refuse the first pod of {what}"
            yield Doubt("limit_range_unknown", text)
        elif newer := [x for x in ranges if x.is_newer_than(before.created)]:
            text = f"{_named(newer)} may be newer than the running pod of {what}, and may change or refuse the next one"
            yield Doubt("limit_range_unknown", text)

    def _with_template(self, ref: Ref | None) -> Workload | None:
        return self._workloads.get(ref) if ref is not None else None

    @cached_property
    def _workloads(self) -> t.Mapping[Ref, Workload]:
        return {x.ref: x for x in self._snapshot.workloads if x.ref.kind in _WITH_TEMPLATES}

    @cached_property
    def _running(self) -> t.Mapping[Ref | None, Pod]:
        """The newest pod with a node of each workload: it shows what becomes of the next one."""
        newest: dict[Ref | None, Pod] = {}
        for instance in instances(self._snapshot):
            pod, known = instance.pod, newest.get(instance.workload)
            if instance.workload is None or pod is None or not pod.node_name:
                continue
            if known is None or pod.created > known.created:
                newest[instance.workload] = pod
        return newest


def _is_new(pending: PendingPod) -> bool:
    return not pending.pod.uid


def _named(ranges: t.Iterable[LimitRange]) -> str:
    return listed(list(map(str, ranges)))


def admission_doubts(change: ChangedCluster) -> tuple[Doubt, ...]:
    """What webhooks and policies may make of new pods, where it is not known."""
    return tuple(dict.fromkeys(_of_webhooks(change)))


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
        changing = mutators_of(pending.pod, mutators or (), namespaces)
        names = sorted({str(mutator.source) for mutator in changing})
        if names:
            text = f"{listed(names)} may change the first pod of {pending.workload}"
            yield Doubt("pod_webhook", text, NO_CERTAINTY)


def within_limit_ranges(result: Forecast, change: ChangedCluster) -> Forecast:
    """The forecast with the pods that LimitRanges refuse."""
    if not change.after.limit_ranges:
        return result
    new = new_pods(change)
    refused = [(new[number], why) for number, why in LimitRanges(change.after).refusals(new)]
    if not refused:
        return result
    waiting = [UnschedulableInstance(x.instance, x.workload, why, True) for x, why in refused]
    reasons = dict.fromkeys(f"no pod of {x.workload} is created: {why}" for x, why in refused)
    named = {x.instance for x in waiting}
    return replace(
        result,
        evidence=(*result.evidence, *limit_range_evidence(refused)),
        reasons=(*result.reasons, *reasons),
        pending=(*(x for x in result.pending if x.instance not in named), *waiting),
        moves=tuple(move for move in result.moves if move.instance not in named),
        min_unschedulable=max(result.min_unschedulable, len(waiting)),
    )


def limit_range_evidence(refused: t.Sequence[tuple[t.Any, str]]) -> tuple[Evidence, ...]:
    """What `LimitRanges.refusals` shows."""
    return (Evidence(never=("limit_range",)),) if refused else ()
