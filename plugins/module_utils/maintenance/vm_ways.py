# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a VM leave its node: which of its policies is the first that is possible, and why not a better one?

What is possible, and why not, is in `kubevirt/moving`. Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kubevirt.aspects import DoNotMove
from ..kubevirt.instances import owner_of, vmi_workload
from ..kubevirt.moving import EXTERNAL, Ways, eviction_strategy
from ..model.kinds import PREFIX
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Vmi
from ..view.view import ClusterView
from .options import STOP_AND_START, why_invalid
from .preflight_findings import (
    DO_NOT_MOVE_FINDING,
    INVALID_POLICY,
    NOT_EVICTABLE,
    NOT_MIGRATABLE,
    NOT_RESTARTABLE,
    PENDING_CHANGES,
    REFUSED_BY_POLICY,
)

VM_POLICY = f"{PREFIX}vm-policy"
"""Label of a VM, or of its VMI: its own policies for maintenance."""


LABEL_SEPARATOR = "."
"""Between the policies of a label, whose value can have no comma."""

POLICY_OF_LABELS: t.Mapping[str, t.Mapping[str, str]] = {
    "harvesterhci.io/maintain-mode-strategy": {
        "ShutdownAndRestartAfterEnable": "restart",
        "ShutdownAndRestartAfterDisable": STOP_AND_START,
        "Shutdown": "stop",
    },
}
"""Labels of a VM by which a product knows what its own maintenance does with the VM, and the policy of each value. Any
other value counts as none, as Harvester's Migrate: then the policies of the task count (harvester,
pkg/util/constants.go, pkg/controller/master/nodedrain, pkg/webhook/resources/virtualmachine/validator.go)."""


PassedOver = t.Mapping[str, t.Mapping[str, Obstacle]]
"""By the uid of a VMI and a policy, why this policy is not used: it has no node then, or failed in this run."""


@dataclass(frozen=True, slots=True)
class VmWay:
    """How a VM leaves by `policy`. With `method` None it does not leave: then `obstacle` says why, a temporary one is
    waited for, and `finding` is the name of the finding about it. `passed_over` are the policies that are preferred and
    not possible. `chosen_by`: the label of another product that has chosen the policy, as a clause."""

    policy: str
    method: Method | None
    obstacle: Obstacle | None = None
    finding: str = ""
    passed_over: tuple[tuple[str, Obstacle], ...] = ()
    chosen_by: str = ""

    @property
    def is_awaited(self) -> bool:
        """Whether what keeps the VM ends by itself."""
        return self.obstacle is not None and self.obstacle.temporary

    @property
    def passed_over_text(self) -> str:
        """The preferred policies that are not used, with the reasons."""
        by_text: dict[str, list[str]] = {}
        for policy, obstacle in self.passed_over:
            by_text.setdefault(obstacle.text, []).append(policy)
        return "; ".join(f"not {' or '.join(x)}: {text}" for text, x in by_text.items())

    @property
    def choice(self) -> str:
        """What is to be read about the choice of the policy, where it is not simply the first one of the task."""
        return "; ".join(filter(None, (self.chosen_by, self.passed_over_text)))


@dataclass(frozen=True)
class VmWays:
    """The ways of the VMs of one reading. `policies` are those of the task. `pending_changes` says what a restart would
    apply beside placement, unless it is allowed; `why_budgets_refuse` why budgets never allow a method."""

    view: ClusterView
    policies: tuple[str, ...]
    passed_over: PassedOver
    pending_changes: t.Callable[[Vmi], Obstacle | None]
    why_budgets_refuse: t.Callable[[Vmi, Method], Obstacle | None]

    def way(self, vmi: Vmi) -> VmWay:
        """The first of its policies that is possible. Where all lack a node or are refused by budgets, the last of
        them."""
        way, of_product = self._first_possible(vmi), self._label_of_product(vmi)
        if of_product is None or way.finding == DO_NOT_MOVE_FINDING:
            return way
        label, obstacle = f"its label {of_product[0]} is {of_product[1]}", way.obstacle
        if obstacle is not None and not obstacle.temporary:
            obstacle = replace(obstacle, text=f"{obstacle} ({label})")
        return replace(way, obstacle=obstacle, chosen_by=label)

    def _first_possible(self, vmi: Vmi) -> VmWay:
        policies, wrong = self.policies_of(vmi)
        first = policies[0] if policies else ""
        if wrong is not None:
            return VmWay(first, None, wrong, INVALID_POLICY)
        if (stays := self._why_it_stays(vmi)) is not None:
            return VmWay(first, None, stays, DO_NOT_MOVE_FINDING)
        if first == "refuse":
            refusal = Obstacle("refused_by_policy", "its vm_policy is 'refuse'")
            return VmWay(first, None, refusal, REFUSED_BY_POLICY)
        if vmi.phase != "Running":
            return VmWay(first, None, Obstacle("not_running", f"its VMI is {vmi.phase}", True))
        refused: list[tuple[str, Obstacle]] = []
        findings: list[str] = []
        possible: list[VmWay] = []
        for policy in policies:
            way = self._by(policy, vmi)
            if way.is_awaited:
                return way
            if way.obstacle is not None:
                refused.append((policy, way.obstacle))
                findings.append(way.finding)
                continue
            way = replace(way, passed_over=tuple(refused))
            obstacle = self.passed_over.get(vmi.uid, {}).get(policy)
            if obstacle is None and way.method is not None:
                obstacle = self.why_budgets_refuse(vmi, way.method)
            if obstacle is None:
                return way
            refused.append((policy, obstacle))
            possible.append(way)
        if possible:
            return possible[-1]
        named = findings.index(PENDING_CHANGES) if PENDING_CHANGES in findings else 0
        obstacle = refused[named][1]
        if len(refused) > 1:
            obstacle = replace(obstacle, text="; ".join(f"{x}: {why}" for x, why in refused))
        return VmWay(first, None, obstacle, findings[named])

    def has_alternative(self, vmi: Vmi, policy: str) -> bool:
        """Whether a policy that is possible and not passed over comes after this one."""
        policies, wrong = self.policies_of(vmi)
        if wrong is not None or policy not in policies:
            return False
        passed = self.passed_over.get(vmi.uid, {})
        later = (x for x in policies[policies.index(policy) + 1 :] if x not in passed)
        methods = (self._by(x, vmi).method for x in later)
        return any(x is not None and not self.why_budgets_refuse(vmi, x) for x in methods)

    def possible(self, vmi: Vmi) -> tuple[str, ...]:
        """The policies by which the VM could leave, whatever its policies are and whether it finds a node."""
        known = ("migrate", "restart", STOP_AND_START, "stop")
        passed = self.passed_over.get(vmi.uid, {})
        ways = {policy: self._by(policy, vmi).method for policy in known if policy not in passed}
        return tuple(
            policy
            for policy, method in ways.items()
            if method is not None and not self.why_budgets_refuse(vmi, method)
        )

    def why_not_migrated(self, vmi: Vmi) -> Obstacle | None:
        """Why a live migration of the VM is not possible, whatever its policies are."""
        passed = self.passed_over.get(vmi.uid, {})
        return self._by("migrate", vmi).obstacle or passed.get("migrate")

    def policies_of(self, vmi: Vmi) -> tuple[tuple[str, ...], Obstacle | None]:
        """The policies of the VM's own label, else of that of a product, else of the task; and what is wrong with the
        label, which anyone may write."""
        label = self._own_label(vmi)
        if not label:
            of_product = self._label_of_product(vmi)
            if of_product is None:
                return self.policies, None
            return (POLICY_OF_LABELS[of_product[0]][of_product[1]],), None
        policies = tuple(label.split(LABEL_SEPARATOR))
        wrong = why_invalid(policies)
        return policies, wrong and replace(wrong, text=f"its vm_policy is '{label}': {wrong}")

    def has_own_policy(self, vmi: Vmi) -> bool:
        """Whether a label of the VM decides, so that the policies of the task do not."""
        return bool(self._own_label(vmi) or self._label_of_product(vmi))

    def owner(self, vmi: Vmi) -> Ref:
        """The VirtualMachine or replica set of the VMI, which has its label and takes its restart."""
        if vmi.owner is None:
            return vmi.ref
        return Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name)

    def _own_label(self, vmi: Vmi) -> str:
        return self._label(vmi, VM_POLICY)

    def _label_of_product(self, vmi: Vmi) -> tuple[str, str] | None:
        """Key and value of the label of a product, where that decides how the VM leaves."""
        if self._own_label(vmi):
            return None
        labels = ((key, self._label(vmi, key)) for key in POLICY_OF_LABELS)
        return next((label for label in labels if label[1] in POLICY_OF_LABELS[label[0]]), None)

    def _label(self, vmi: Vmi, key: str) -> str:
        """The label of the VM, else of the VMI: Harvester reads that one, and keeps both equal."""
        owner = owner_of(vmi, self.view.snapshot.workloads_by_ref)
        own = owner.labels.get(key) if owner is not None else None
        return own or vmi.labels.get(key) or ""

    def _why_it_stays(self, vmi: Vmi) -> Obstacle | None:
        """The label that keeps it where it is, unless another label says how it leaves in a maintenance."""
        label = DoNotMove(self.view.snapshot.workloads_by_ref)
        stays = label.obstacle(self._instance(vmi), Method.MIGRATE)
        return None if self._own_label(vmi) else stays

    def _instance(self, vmi: Vmi) -> Instance:
        """The VMI with the pod that it has on its node."""
        pods = self.view.launcher_pods.get(vmi.uid, ())
        pod = next((pod for pod in pods if pod.node_name == vmi.node_name), None)
        workload = vmi_workload(vmi, self.view.snapshot.workloads_by_ref)
        return Instance(vmi.ref, vmi.uid, workload, pod, vmi)

    def _by(self, policy: str, vmi: Vmi) -> VmWay:
        """How the VM leaves by this policy, whatever its others say."""
        ways = Ways.of(self._instance(vmi), self.view.snapshot)
        if policy == "migrate":
            return _way(policy, Method.MIGRATE, ways.migrate, NOT_MIGRATABLE)
        if policy == "evict":
            strategy = eviction_strategy(vmi, ways.platform)
            text = f"its eviction strategy is {strategy}, and vm_policy evict is for {EXTERNAL}"
            other = Obstacle("not_evictable", text) if strategy != EXTERNAL else None
            return _way(policy, Method.EVICT, other, NOT_EVICTABLE)
        method, refusal = Method.STOP, ways.stop
        if policy == STOP_AND_START:
            refusal = ways.stop_and_start
        elif policy == "restart":
            method, refusal = ways.again
        if refusal is not None or policy == "stop":
            return _way(policy, method, refusal, NOT_RESTARTABLE)
        return _way(policy, method, self.pending_changes(vmi), PENDING_CHANGES)


def _way(policy: str, method: Method, obstacle: Obstacle | None, finding: str) -> VmWay:
    """By this method, unless there is an obstacle, about which the finding is."""
    if obstacle is None:
        return VmWay(policy, method)
    return VmWay(policy, None, obstacle, finding)
