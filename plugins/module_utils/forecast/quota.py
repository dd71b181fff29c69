# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a forecast would a ResourceQuota refuse?

An instance that is recreated gives its share back first. The target of a live migration is a second
pod beside its source, and so is a pod that a rollout adds by its surge. Migrations of a namespace can
be made one after the other, and a rollout ends an old pod before it adds another, so each is counted
alone.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import replace

from ..model.objects import Pod, Ref
from ..model.plan import Method
from ..model.snapshot import Quota, charged
from .change import ChangedCluster
from .decide import ForecastResult, worst_of
from .result import Forecast, NotMigratableInstance, UnschedulableInstance
from .simulation import PendingPod

Used = dict[tuple[str, str], Counter[str]]
"""Namespace and name of a quota to what its namespace uses of it."""


class Quotas:
    """The quotas of a cluster, by their namespaces."""

    def __init__(self, quotas: t.Iterable[Quota]) -> None:
        self._of: dict[str, list[Quota]] = defaultdict(list)
        for quota in quotas:
            self._of[quota.namespace].append(quota)

    def __bool__(self) -> bool:
        return bool(self._of)

    def used(self, present: t.Iterable[Pod], staying: t.Iterable[Pod]) -> Used:
        """What the `staying` of the `present` pods use. Quotas count less than is seen where a pod of a Job
        is out of their scope, and more for a moment after a pod has ended."""
        now, later = self._sum(present), self._sum(staying)
        for quotas in self._of.values():
            for quota in quotas:
                key = quota.namespace, quota.name
                for resource, amount in now[key].items():
                    not_counted = max(0, amount - quota.used.get(resource, amount))
                    later[key][resource] -= not_counted
        return later

    def refusal(self, pod: Pod, used: Used) -> tuple[str, bool]:
        """Why a quota refuses one more pod, or may refuse it, and whether that is certain; no text where
        none does."""
        quotas = self._of.get(pod.namespace, ())
        for quota in quotas:
            if exceeded := quota.exceeded_by(pod, used[quota.namespace, quota.name]):
                return f"{quota} allows {exceeded}", True
        for quota in quotas:
            if why := quota.why_unknown(pod):
                return f"{quota} may refuse its pod: {why}", False
        return "", False

    def add(self, pod: Pod, used: Used) -> None:
        """Count `pod` as used."""
        for quota in self._of.get(pod.namespace, ()):
            if quota.counts(pod):
                used[quota.namespace, quota.name].update(charged(pod))

    def used_without(
        self, used: Used, ended: t.Iterable[Pod], namespaces: t.Container[str]
    ) -> Used:
        """`used` in these namespaces, without pods that end."""
        kept = ((key, Counter(amounts)) for key, amounts in used.items() if key[0] in namespaces)
        later: Used = defaultdict(Counter, kept)
        for key, amounts in self._sum(ended).items():
            if key[0] in namespaces:
                later[key].subtract(amounts)
        return later

    def refusals(
        self, pending: t.Sequence[PendingPod], used: Used
    ) -> t.Iterator[tuple[int, str, bool]]:
        """Number, reason and whether it is certain, of the required pods that quotas refuse or may refuse:
        each migration alone, new pods one after the other."""
        for number, pod in enumerate(pending):
            second = pod.reason == "migrate" and pod.replaces is not None
            if not pod.required or pod.pod.namespace not in self._of:
                continue
            reason, certain = self.refusal(pod.pod, used)
            if reason:
                is_second = second and certain
                yield number, f"{SECOND_POD}, and {reason}" if is_second else reason, certain
            if not second and not certain:
                self.add(pod.pod, used)

    def _sum(self, pods: t.Iterable[Pod]) -> Used:
        used: Used = defaultdict(Counter)
        for pod in pods:
            leaves = pod.finished or (pod.terminating and not pod.lingers)
            if pod.namespace in self._of and not leaves:
                self.add(pod, used)
        return used


def within_quotas(result: Forecast, change: ChangedCluster) -> Forecast:
    """The forecast with what the quotas of the namespaces refuse, or may refuse."""
    if not change.after.quotas:
        return result
    refusals = _Refusals(change)
    staying = tuple(refusals.migrations(result))
    waiting = tuple(refusals.creations())
    refused = [
        *((x.instance, x.reason) for x in staying),
        *((x.instance, x.reason) for x in waiting),
    ]
    named = {instance for instance, _reason in refused}
    unknown = [entry for entry in refusals.unknown.items() if entry[0] not in named]
    answers = [result.answer]
    answers += [ForecastResult.IMPOSSIBLE] * bool(refused) + [ForecastResult.UNKNOWN] * bool(
        unknown
    )
    return replace(
        result,
        answer=worst_of(answers),
        reasons=(
            *result.reasons,
            *(f"{instance}: {reason}" for instance, reason in (*refused, *unknown)),
        ),
        pending=(*(x for x in result.pending if x.instance not in named), *waiting),
        not_migratable=(*(x for x in result.not_migratable if x.instance not in named), *staying),
        moves=tuple(move for move in result.moves if move.instance not in named),
        min_unschedulable=max(result.min_unschedulable, len(waiting)),
    )


class _Refusals:
    """`unknown` has the instances of which it is not known whether a quota refuses their pods, and why."""

    def __init__(self, change: ChangedCluster) -> None:
        self.unknown: dict[Ref, str] = {}
        self._pending = [pending for pending in change.pending if pending.required]
        self._quotas = Quotas(change.after.quotas)
        self._sources = {
            (pod.owner.uid, pod.node_name): pod
            for pod in reversed(change.after.pods)
            if pod.uid and pod.owner is not None
        }
        self._existing = {pod.uid for pod in change.before.pods}
        staying = [pod for pod in change.after.pods if pod.uid in self._existing]
        self._used = self._quotas.used(change.before.pods, staying)

    def migrations(self, result: Forecast) -> t.Iterator[NotMigratableInstance]:
        """Instances that would have to migrate, by the event or to satisfy the rules."""
        seen = set[Ref]()
        for pending in self._pending:
            if pending.reason == "migrate" and pending.replaces is not None:
                seen.add(pending.instance)
                node = pending.replaces.node_name
                yield from self._migration(pending.instance, pending.workload, pending.pod, node)
        for move in result.moves:
            if move.method is Method.MIGRATE and move.instance not in seen:
                pod = self._sources.get((move.uid, move.source))
                if pod is not None:
                    yield from self._migration(move.instance, move.workload, pod, move.source)

    def creations(self) -> t.Iterator[UnschedulableInstance]:
        """Instances that come beside those that stay, one after the other, and pods of rollouts."""
        used: Used = defaultdict(Counter, {key: Counter(x) for key, x in self._used.items()})
        surging = []
        for pending in self._pending:
            if pending.reason in ("migrate", "replace") or pending.pod.uid in self._existing:
                continue
            if pending.in_rollout:
                surging.append(pending)
                continue
            reason, certain = self._quotas.refusal(pending.pod, used)
            if certain:
                yield UnschedulableInstance(pending.instance, pending.workload, reason, False)
                continue
            self._quotas.add(pending.pod, used)
            if reason:
                self.unknown[pending.instance] = reason
        for pending in surging:
            reason, certain = self._quotas.refusal(pending.pod, self._used)
            if certain:
                yield UnschedulableInstance(pending.instance, pending.workload, reason, False)
            elif later := self._quotas.refusal(pending.pod, used)[0]:
                self.unknown[pending.instance] = reason or f"beside other new pods, {later}"

    def _migration(
        self, instance: Ref, workload: Ref | None, pod: Pod, node: str
    ) -> t.Iterator[NotMigratableInstance]:
        reason, certain = self._quotas.refusal(pod, self._used)
        if certain:
            yield NotMigratableInstance(instance, workload, node, f"{SECOND_POD}, and {reason}")
        elif reason:
            self.unknown[instance] = reason


SECOND_POD = "its live migration needs a second pod"
