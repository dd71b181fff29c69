# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a forecast would a ResourceQuota refuse?

An instance that is recreated gives its share back first, the target of a live migration is a second
pod beside its source. Migrations of a namespace can be made one after the other, so each is counted
alone.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import replace

from ..model.objects import Pod, Ref
from ..model.plan import Method
from ..model.quota import Quota, charged
from ..model.snapshot import Snapshot
from .change import ChangedCluster
from .decide import ForecastResult, worst_of
from .result import Forecast, NotMigratableInstance, UnschedulableInstance


def within_quotas(result: Forecast, change: ChangedCluster) -> Forecast:
    """The forecast with what the quotas of the namespaces refuse."""
    quotas = change.after.quotas
    if not quotas:
        return result
    refusals = _Refusals(change)
    staying = tuple(refusals.migrations(result))
    waiting = tuple(refusals.creations())
    if not staying and not waiting:
        return result
    refused = [
        *((x.instance, x.reason) for x in staying),
        *((x.instance, x.reason) for x in waiting),
    ]
    named = {instance for instance, _reason in refused}
    return replace(
        result,
        answer=worst_of((result.answer, ForecastResult.IMPOSSIBLE)),
        reasons=(*result.reasons, *(f"{instance}: {reason}" for instance, reason in refused)),
        pending=(*(x for x in result.pending if x.instance not in named), *waiting),
        not_migratable=(*(x for x in result.not_migratable if x.instance not in named), *staying),
        moves=tuple(move for move in result.moves if move.instance not in named),
        min_unschedulable=max(result.min_unschedulable, len(waiting)),
    )


class _Refusals:
    def __init__(self, change: ChangedCluster) -> None:
        self._pending = [pending for pending in change.pending if pending.required]
        self._quotas: dict[str, list[Quota]] = defaultdict(list)
        for quota in change.after.quotas:
            self._quotas[quota.namespace].append(quota)
        self._pods = {pod.uid: pod for pod in change.after.pods if pod.uid}
        self._existing = {pod.uid for pod in change.before.pods}
        self._used = _used(change.after, self._existing)

    def migrations(self, result: Forecast) -> t.Iterator[NotMigratableInstance]:
        """Instances that would have to migrate, by the event or to satisfy the rules."""
        seen = set[Ref]()
        for pending in self._pending:
            if pending.reason == "migrate" and pending.replaces is not None:
                seen.add(pending.instance)
                yield from self._migration(pending.instance, pending.workload, pending.replaces)
        for move in result.moves:
            if move.method is Method.MIGRATE and move.instance not in seen:
                pod = self._source(move.uid, move.source)
                if pod is not None:
                    yield from self._migration(move.instance, move.workload, pod)

    def creations(self) -> t.Iterator[UnschedulableInstance]:
        """Instances that come beside those that stay, one after the other."""
        used = {namespace: Counter(amounts) for namespace, amounts in self._used.items()}
        for pending in self._pending:
            if pending.reason in ("migrate", "replace") or pending.pod.uid in self._existing:
                continue
            namespace = pending.pod.namespace
            reason = self._refused(pending.pod, used.setdefault(namespace, Counter()))
            if reason:
                yield UnschedulableInstance(
                    pending.instance, pending.workload, reason, certain=False
                )
            else:
                used[namespace].update(charged(pending.pod))

    def _source(self, uid: str, node: str) -> Pod | None:
        return next(
            (
                pod
                for pod in self._pods.values()
                if pod.node_name == node and pod.owner is not None and pod.owner.uid == uid
            ),
            None,
        )

    def _migration(
        self, instance: Ref, workload: Ref | None, pod: Pod
    ) -> t.Iterator[NotMigratableInstance]:
        if reason := self._refused(pod, self._used.get(pod.namespace, {})):
            reason = f"its live migration needs a second pod, and {reason}"
            yield NotMigratableInstance(instance, workload, pod.node_name, reason)

    def _refused(self, pod: Pod, used: t.Mapping[str, int]) -> str:
        for quota in self._quotas.get(pod.namespace, ()):
            if exceeded := quota.exceeded_by(charged(pod), used):
                return f"{quota} allows {exceeded}"
        return ""


def _used(after: Snapshot, existing: t.Container[str]) -> dict[str, Counter[str]]:
    """What the pods that stay take of their namespaces' quotas. One that ends is not counted, nor
    is one that is planned only."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in after.pods:
        if pod.uid in existing and not pod.finished and not pod.terminating:
            used[pod.namespace].update(charged(pod))
    return used
