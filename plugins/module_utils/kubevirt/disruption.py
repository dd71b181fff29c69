# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do PodDisruptionBudgets allow that a pod ends now, and could they ever?

The one question before an eviction, and before a restart, a stop or the recreation of a VM, which no server
asks it for. A live migration needs no budget: its target pod runs before the source pod ends.

The answer is that of the eviction API (kubernetes 1.36, pkg/registry/core/pod/storage/eviction.go):

| the pod, its budgets | answer |
|---|---|
| it is Pending, has finished or is terminating; no budget selects it; it has no labels | yes |
| two budgets or more select it | no, whatever their numbers are |
| it is not Ready, and the policy of the budget is AlwaysAllow | yes |
| it is not Ready, and as many pods as needed are healthy, and at least one is needed | yes |
| the status of the budget is about an earlier spec | not now |
| `disruptionsAllowed` is 0 | not now; never if the budget needs as many pods as it expects, or cannot be counted |

Pure.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from ..model.budget import BUDGETS, DisruptionBudget
from ..model.objects import Pod, Ref, Selector
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.rendering import TextEnum, listed
from ..model.snapshot import Instance, Snapshot, Vmi
from ..scheduler.labels import matches

DISRUPTIVE = (Method.RESTART, Method.RECREATE, Method.STOP, Method.EVICT)
"""Methods that end a pod before another one runs."""

DELEGATED_OWNERS = ("kubevirt.io", "postgresql.cnpg.io", "ceph.rook.io")
"""API groups of operators that keep budgets of their own at zero on purpose, and move the pod themselves once
its node is cordoned: KubeVirt, CloudNativePG (switchover), Rook (docs/PodDisruptionBudgets)."""

DELEGATED_POD_OWNERS = ("longhorn.io",)
"""API groups of operators whose pods have budgets without an owner. Longhorn has a budget for each instance manager,
and deletes it once the node is cordoned and its volumes are detached or have healthy replicas elsewhere
(longhorn-manager, controller/instance_manager_controller.go)."""


def ends_pod(method: Method | None, vmi: Vmi | None) -> bool:
    """Whether the method ends the pod of an instance before another one runs. KubeVirt ends no VM that is handed over
    to another controller: it refuses the eviction."""
    handed_over = method is Method.EVICT and vmi is not None
    return method in DISRUPTIVE and not handed_over


class Allowance(TextEnum):
    """ALLOWED: the pod may end now. BLOCKED: not now, and that may end by itself. NEVER: not as long as nobody
    changes the budget or the number of pods. UNKNOWN: the budgets could not be read."""

    ALLOWED = "allowed"
    BLOCKED = "blocked"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Disruption:
    """The answer for one pod. `budgets` are those that stand against it, `why` says so in a clause. `operator` is the
    API group or the selector by which a budget is delegated; empty where none is."""

    allowance: Allowance
    budgets: tuple[DisruptionBudget, ...] = ()
    why: str = ""
    operator: str = ""

    def __bool__(self) -> bool:
        """Whether the pod may end now."""
        return self.allowance is Allowance.ALLOWED

    @property
    def refs(self) -> tuple[Ref, ...]:
        return tuple(budget.ref for budget in self.budgets)


ALLOWED: t.Final = Disruption(Allowance.ALLOWED)


@dataclass(frozen=True, slots=True)
class Delegation:
    """Which budgets an operator lifts by itself once the node is cordoned. `owner_groups` are API groups of the
    budget's controller, `pod_owner_groups` of the pod's. `selectors`, by their text, select pods or budgets."""

    owner_groups: frozenset[str] = frozenset()
    pod_owner_groups: frozenset[str] = frozenset()
    selectors: t.Mapping[str, Selector] = field(default_factory=dict)

    @classmethod
    def known(
        cls, groups: t.Iterable[str] = (), selectors: t.Mapping[str, Selector] | None = None
    ) -> Delegation:
        """The operators that are known, and those that the user names."""
        named = frozenset(groups)
        return cls(
            named.union(DELEGATED_OWNERS), named.union(DELEGATED_POD_OWNERS), selectors or {}
        )

    def operator(self, budget: DisruptionBudget, pod: Pod) -> str:
        """The API group or the selector by which the budget is delegated; empty where it is not."""
        if budget.owner is not None and budget.owner.group in self.owner_groups:
            return budget.owner.group
        if pod.owner is not None and pod.owner.group in self.pod_owner_groups:
            return pod.owner.group
        for text, selector in self.selectors.items():
            if matches(selector, pod.labels) or matches(selector, budget.labels):
                return text
        return ""


class Budgets:
    """The budgets of a snapshot, as an aspect of its runs. Nothing is delegated where no node is cordoned, as in a
    rollout."""

    def __init__(self, snapshot: Snapshot, delegation: Delegation | None = None) -> None:
        self._snapshot = snapshot
        self._delegation = delegation or Delegation()
        self._ready: dict[Ref, list[Pod]] = {}
        self._selecting: dict[int, tuple[DisruptionBudget, ...]] = {}
        self._by_namespace: dict[str, list[DisruptionBudget]] = defaultdict(list)
        for budget in snapshot.budgets:
            self._by_namespace[budget.ref.namespace].append(budget)

    def of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """The budgets that select the pod, as the eviction API finds them: none for a pod without labels. Without
        that which KubeVirt before 1.6 keeps for each VMI (pkg/virt-controller/watch/drain/disruptionbudget): it turns
        evictions into migrations, and is no objection of the VM's owner. A plan asks for a pod again and again."""
        if not pod.labels:
            return ()
        known = self._selecting.get(pod.number)
        if known is None:
            known = self._selecting[pod.number] = tuple(
                budget
                for budget in self._by_namespace.get(pod.namespace, ())
                if matches(budget.selector, pod.labels)
                and (not pod.vmi_uid or budget.owner is None or budget.owner.uid != pod.vmi_uid)
            )
        return known

    def disruption(self, pod: Pod, taken: t.Collection[str] | None = None) -> Disruption:
        """Whether the pod may end now. `taken` are the uids of instances that are about to end: the status of a budget
        may not show them yet, so its healthy pods are counted without them."""
        if pod.finished or pod.terminating or pod.phase == "Pending":
            return ALLOWED
        gap = self._snapshot.why_unreadable(BUDGETS, pod.namespace)
        if gap is not None:
            why = f"whether PodDisruptionBudgets allow it is unknown: {gap}"
            return Disruption(Allowance.UNKNOWN, (), why)
        selecting = self.of(pod)
        own = {budget.ref: self._delegation.operator(budget, pod) for budget in selecting}
        if len(selecting) > 1:
            return self._several(pod, selecting, own)
        if not selecting:
            return ALLOWED
        return self._one(pod, selecting[0], own[selecting[0].ref], taken)

    def obstacle(self, instance: Instance, method: Method) -> Obstacle | None:
        """Why the method never may end the instance. Where budgets could not be read, the server still asks them before
        it evicts a pod, and none before a VM ends."""
        if instance.pod is None or not ends_pod(method, instance.vmi):
            return None
        answer = self.disruption(instance.pod)
        refused = (
            (Allowance.NEVER,) if instance.vmi is None else (Allowance.NEVER, Allowance.UNKNOWN)
        )
        return Obstacle("budget", answer.why) if answer.allowance in refused else None

    def why_not_now(
        self, instance: Instance, method: Method, taken: t.Collection[str]
    ) -> Obstacle | None:
        """Why the method may not end the instance now, beside those of `taken`. The server answers an eviction that no
        successor is waited for: it is sent until it is allowed, unless the server would refuse it for good, since a
        delegated budget is not lifted yet."""
        if instance.pod is None or not ends_pod(method, instance.vmi):
            return None
        answer = self.disruption(instance.pod, taken)
        several = answer.allowance is Allowance.BLOCKED and len(answer.budgets) > 1
        asked_of_pods = answer.allowance is Allowance.UNKNOWN and instance.vmi is None
        is_asked = asked_of_pods or (method is Method.EVICT and not several)
        return Obstacle("budget", answer.why, True) if answer.why and not is_asked else None

    def _several(
        self, pod: Pod, selecting: tuple[DisruptionBudget, ...], own: t.Mapping[Ref, str]
    ) -> Disruption:
        names = listed([budget.ref.name for budget in selecting])
        why = (
            f"it is selected by {len(selecting)} PodDisruptionBudgets ({names}), and the API server evicts"
            " no such pod"
        )
        rest = [budget for budget in selecting if not own[budget.ref]]
        operator = next(filter(None, own.values()), "")
        if (
            operator
            and len(rest) < 2
            and not any(self._never_allows(x) or x.sync_error for x in rest)
        ):
            return Disruption(Allowance.BLOCKED, selecting, why, operator)
        return Disruption(Allowance.NEVER, selecting, why)

    def _one(
        self,
        pod: Pod,
        budget: DisruptionBudget,
        operator: str,
        taken: t.Collection[str] | None,
    ) -> Disruption:
        left = None if taken is None else self._left(budget, taken)
        healthy = budget.healthy if left is None else min(budget.healthy, left)
        if not pod.ready and (budget.always_allows_unhealthy or healthy >= budget.desired > 0):
            return ALLOWED
        allowed = budget.allowed if left is None else min(budget.allowed, left - budget.desired)
        if budget.observed and allowed > 0:
            return ALLOWED
        seen = f"{budget.healthy} of {self._expected(budget)} pods are healthy, {budget.desired} must be"
        if budget.sync_error:  # the status of such a budget is about no spec at all
            never = True
            why = f"allows no disruption: the server cannot count its pods ({budget.sync_error})"
        elif not budget.observed:
            never, why = False, "allows no disruption now: its status is not up to date"
        elif budget.allowed > 0:
            never, why = (
                False,
                "allows no disruption now: others that it allowed have not ended yet",
            )
        elif self._never_allows(budget):
            never, why = True, f"never allows a disruption: {seen}"
        else:
            never, why = False, f"allows no disruption now: {seen}"
        allowance = Allowance.NEVER if never and not operator else Allowance.BLOCKED
        return Disruption(allowance, (budget,), f"{budget.ref} {why}", operator)

    def not_ready(self, budget: DisruptionBudget) -> list[Pod]:
        """The pods that the budget selects and does not count as healthy, without those that end."""
        return [
            pod
            for pod in self._snapshot.pods
            if pod.namespace == budget.ref.namespace
            and not (pod.ready or pod.finished or pod.terminating)
            and matches(budget.selector, pod.labels)
        ]

    def _never_allows(self, budget: DisruptionBudget) -> bool:
        return budget.never_allows(self._expected(budget))

    def _expected(self, budget: DisruptionBudget) -> int:
        """How many pods may be healthy: finished ones, which a budget may expect, never are."""
        if not budget.counts_finished:
            return budget.expected
        alive = sum(
            matches(budget.selector, pod.labels)
            for pod in self._unfinished_pods.get(budget.ref.namespace, ())
        )
        return min(budget.expected, alive) if alive else budget.expected

    def _left(self, budget: DisruptionBudget, taken: t.Collection[str]) -> int:
        """How many healthy pods of the budget are left without those of `taken`."""
        if budget.ref not in self._ready:
            self._ready[budget.ref] = [
                pod
                for pod in self._ready_pods.get(budget.ref.namespace, ())
                if matches(budget.selector, pod.labels)
            ]
        return sum(
            pod.uid not in taken and (pod.owner is None or pod.owner.uid not in taken)
            for pod in self._ready[budget.ref]
        )

    @cached_property
    def _unfinished_pods(self) -> t.Mapping[str, list[Pod]]:
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in self._snapshot.pods:
            if pod.namespace in self._by_namespace and not pod.finished:
                pods[pod.namespace].append(pod)
        return pods

    @cached_property
    def _ready_pods(self) -> t.Mapping[str, list[Pod]]:
        """The healthy pods of each namespace with budgets (pkg/controller/disruption, countHealthyPods)."""
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in self._snapshot.pods:
            if pod.namespace in self._by_namespace and pod.ready and not pod.terminating:
                pods[pod.namespace].append(pod)
        return pods
