# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a forecast would a ResourceQuota refuse?

An instance that is recreated gives its share back first. The target of a live migration is a second
pod beside its source, and so is a pod that a rollout adds by its surge. Migrations of a namespace can
be made one after the other, and a rollout ends an old pod before it adds another, so each is counted
alone. Where several workloads roll at once, a pod is not certain that has no share beside those of the others.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain

from ..model.objects import Pod, Ref
from ..model.obstacle import NOT_READ, Obstacle
from ..model.plan import Method
from ..model.quota import Quota, charged
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from .change import ChangedCluster
from .conclusion import NOTHING, Doubt, Evidence
from .result import Forecast, NotMigratableInstance, UnschedulableInstance
from .simulation import PendingPod

Used = dict[tuple[str, str], Counter[str]]
"""Namespace and name of a quota to what its namespace uses of it."""


class Refusal(t.NamedTuple):
    """Why a quota refuses one more pod, or may refuse it where that is not `certain`."""

    text: str
    certain: bool


class Quotas:
    """The quotas of a cluster, by their namespaces."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._of: dict[str, list[Quota]] = defaultdict(list)
        for quota in snapshot.quotas:
            self._of[quota.namespace].append(quota)
        self._default_class = snapshot.default_priority_class
        self._with_defaults = (
            None if snapshot.limit_ranges is None else {x.namespace for x in snapshot.limit_ranges}
        )

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

    def refusal(self, pod: Pod, used: Used) -> Refusal | None:
        """That of the first quota which certainly refuses one more pod, else of the first one that may."""
        quotas, pod, doubts = self._of.get(pod.namespace, ()), self._admitted(pod), list[Refusal]()
        # A LimitRange may set what its containers do not, or KubeVirt for its quota (services/renderresources.go).
        may_be_completed = (
            bool(pod.vmi_uid) or self._with_defaults is None or pod.namespace in self._with_defaults
        )
        for quota in quotas:
            why = self._why_unknown(quota, pod)
            if not why and (exceeded := quota.exceeded_by(pod, used[quota.namespace, quota.name])):
                return Refusal(f"{quota} allows {exceeded}", True)
            missing = listed(quota.missing(pod))
            if not why and missing and not may_be_completed:
                return Refusal(
                    f"{quota} refuses a pod with a container that does not specify {missing}", True
                )
            if why or missing:
                text = why or f"{missing} of the next pod is not known"
                doubts.append(Refusal(f"{quota} may refuse its pod: {text}", False))
        return doubts[0] if doubts else None

    def _admitted(self, pod: Pod) -> Pod:
        """The pod with the PriorityClass that it gets when it is created, as far as that is known."""
        if pod.uid or pod.priority_class or not self._default_class:
            return pod
        return replace(pod, priority_class=self._default_class)

    def _why_unknown(self, quota: Quota, pod: Pod) -> Obstacle | None:
        """Why it is not known whether a quota counts a pod."""
        unread = self._default_class is None and not (pod.uid or pod.priority_class)
        if unread and quota.asks_for_priority and quota.may_count(pod):
            return Obstacle(NOT_READ, "the default PriorityClass of a pod could not be read")
        return quota.why_unknown(pod)

    def add(self, pod: Pod, used: Used) -> None:
        """Count `pod` as used."""
        pod = self._admitted(pod)
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
    ) -> t.Iterator[tuple[int, Refusal]]:
        """The required pods, by their number, that quotas refuse or may refuse.
        `used` is without the pods that end. New pods come one after the other. One of a migration or a
        rollout is counted alone, and may be refused if new pods come first."""
        with_new: Used = defaultdict(Counter, {key: Counter(x) for key, x in used.items()})
        beside = []
        for number, pod in enumerate(pending):
            if not pod.required or pod.pod.namespace not in self._of:
                continue
            if pod.reason == "migrate" or pod.in_rollout:
                beside.append((number, pod))
                continue
            refusal = self.refusal(pod.pod, with_new)
            if refusal is not None:
                yield number, refusal
            if refusal is None or not refusal.certain:
                self.add(pod.pod, with_new)
        yield from self._refused_beside(beside, used, with_new)

    def _refused_beside(
        self, beside: t.Sequence[tuple[int, PendingPod]], used: Used, with_new: Used
    ) -> t.Iterator[tuple[int, Refusal]]:
        """The refusals of pods that come beside or after others. A rollout that is not refused ends old pods, and one
        of another workload or a migration may take their share. A new pod of a rollout that waits for a node keeps its
        share, also where that node becomes free only once the rollout of another workload has its own."""
        refused = {number: self._alone(pod, used) for number, pod in beside}
        certainly = {number for number, x in refused.items() if x is not None and x.certain}
        beside_others = self._beside_others([pod for _number, pod in beside], with_new)
        going_on = {
            (x.pod.namespace, x.workload)
            for number, x in beside
            if x.in_rollout and number not in certainly
        }
        for number, pod in beside:
            alone = refused[number]
            if alone is None:
                around = self._given_back(pod, beside_others[pod.workload])
                if (later := self.refusal(pod.pod, around)) is not None:
                    yield number, Refusal(f"beside other new pods, {later.text}", False)
                continue
            text, certain = alone
            if certain and pod.reason == "migrate":
                text = f"its live migration needs a second pod, and {text}"
            if certain and any(
                namespace == pod.pod.namespace and workload != pod.workload
                for namespace, workload in going_on
            ):
                text, certain = f"{text} unless another rollout ends a pod before", False
            yield number, Refusal(text, certain)

    def _beside_others(
        self, pods: t.Sequence[PendingPod], used: Used
    ) -> t.Mapping[Ref | None, Used]:
        """By workload, what is used once the rollouts of all other workloads have their new pods, too."""
        surges: dict[Ref | None, list[Pod]] = defaultdict(list)
        for pod in pods:
            surges[pod.workload] += [pod.pod] if pod.reason == "surge" else []
        with_all: Used = defaultdict(Counter, {key: Counter(x) for key, x in used.items()})
        for surge in chain.from_iterable(surges.values()):
            self.add(surge, with_all)
        everywhere = set(self._of)
        return {
            workload: self.used_without(with_all, own, everywhere)
            for workload, own in surges.items()
        }

    def _alone(self, pod: PendingPod, used: Used) -> Refusal | None:
        """The refusal of a pod beside what is used now."""
        refusal = self.refusal(pod.pod, self._given_back(pod, used))
        if refusal is None or pod.reason in ("migrate", "surge"):
            return refusal
        return refusal._replace(certain=False)

    def _given_back(self, pod: PendingPod, used: Used) -> Used:
        """What is used in the namespace of a pod once the one has ended that leaves before it."""
        ended = [pod.replaces] if pod.replaces and pod.reason == "replace" else []
        return self.used_without(used, ended, {pod.pod.namespace})

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
    quotas = Quotas(change.after)
    existing = change.before.pods_by_uid
    staying_pods = [pod for pod in change.after.pods if pod.uid in existing]
    used = quotas.used(change.before.pods, staying_pods)
    created = [pending for pending in change.pending if pending.pod.uid not in existing]
    created += _planned_migrations(result, change)
    staying: list[NotMigratableInstance] = []
    waiting: list[UnschedulableInstance] = []
    proofs: list[str] = []
    doubts: list[str] = []
    refused = list(quotas.refusals(created, used))
    for number, (reason, certain) in refused:
        pending = created[number]
        ref, workload, old = pending.instance, pending.workload, pending.replaces
        (proofs if certain else doubts).append(f"{pending.subject}: {reason}")
        refusal = Obstacle("refused", reason)
        if certain and pending.reason == "migrate" and old is not None:
            staying.append(NotMigratableInstance(ref, workload, old.node_name, refusal))
        elif certain:
            waiting.append(UnschedulableInstance(ref, workload, refusal, False))
    named = {x.instance for x in staying} | {x.instance for x in waiting}
    return replace(
        result,
        evidence=(*result.evidence, *quota_evidence(created, refused)),
        reasons=tuple(dict.fromkeys((*proofs, *result.reasons, *doubts))),
        pending=(*(x for x in result.pending if x.instance not in named), *waiting),
        not_migratable=(*(x for x in result.not_migratable if x.instance not in named), *staying),
        moves=tuple(move for move in result.moves if move.instance not in named),
        min_unschedulable=max(result.min_unschedulable, len(waiting)),
        explained=result.explained | named,
        proven=result.proven | named,
    )


def quota_evidence(
    pending: t.Sequence[PendingPod], refused: t.Iterable[tuple[int, Refusal]]
) -> t.Iterator[Evidence]:
    """What `Quotas.refusals` shows."""
    for number, (reason, certain) in refused:
        if certain:
            yield Evidence(never=("quota",))
        else:
            text = f"{pending[number].subject}: {reason}"
            yield Evidence(doubts=(Doubt("quota_unknown", text, NOTHING),))


def _planned_migrations(result: Forecast, change: ChangedCluster) -> t.Iterator[PendingPod]:
    """The migrations of VMs that violate the rules: their target pods are like the pods that run."""
    targets = {x.instance for x in change.pending if x.reason == "migrate"}
    launchers = {
        (pod.owner.uid, pod.node_name): pod
        for pod in reversed(change.after.pods)
        if pod.uid and pod.owner is not None
    }
    for move in result.moves:
        pod = launchers.get((move.uid, move.source))
        if move.method is Method.MIGRATE and move.instance not in targets and pod is not None:
            yield PendingPod(pod, pod, "migrate", workload=move.workload)
