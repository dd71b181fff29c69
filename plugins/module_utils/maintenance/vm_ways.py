# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a VM leave its node: which of its policies is the first that is possible, and why not a better one?

Pure.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..kubevirt.disruption import ends_pod
from ..kubevirt.eviction_strategy import EXTERNAL, eviction_strategy
from ..kubevirt.instances import vmi_workload
from ..kubevirt.moving import (
    restart_refusal,
    strategy_refusal,
    why_no_target,
    why_not_migratable,
)
from ..model.input import nearest
from ..model.kinds import PREFIX, REPLICA_SET, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Vmi, Workload
from ..planning.movable_instances import why_kept
from ..view.view import ClusterView
from .pods import DO_NOT_MOVE_FINDING, PENDING_CHANGES

VM_POLICY = f"{PREFIX}vm-policy"
"""Label of a VM, or of its VMI: its own policies for maintenance."""

STOP_AND_START = "stop_and_start"

VM_POLICIES = ("migrate", "restart", "stop", STOP_AND_START, "evict", "refuse")
"""How a VM leaves a node: live migration, a new VMI, shut down, shut down and started once the node is in service, by
the controller of its eviction strategy, or not at all."""

LABEL_SEPARATOR = "."
"""Between the policies of a label, whose value can have no comma."""

HARVESTER_STRATEGY = "harvesterhci.io/maintain-mode-strategy"
"""Label of a VM on Harvester: what its maintenance mode does with the VM."""

POLICY_OF_STRATEGY: t.Mapping[str, str] = {
    "ShutdownAndRestartAfterEnable": "restart",
    "ShutdownAndRestartAfterDisable": STOP_AND_START,
    "Shutdown": "stop",
}
"""Its other value, Migrate, is the same as none, and so is a value that Harvester does not know: then the policies of
the task count (harvester, pkg/util/constants.go, pkg/controller/master/nodedrain,
pkg/webhook/resources/virtualmachine/validator.go)."""

NOT_MIGRATABLE = "not_migratable"
NOT_RESTARTABLE = "not_restartable"
NOT_EVICTABLE = "not_evictable"
REFUSED_BY_POLICY = "refused_by_policy"
INVALID_POLICY = "invalid_policy"

PassedOver = t.Mapping[str, t.Mapping[str, str]]
"""By the uid of a VMI and a policy, why this policy is not used: it has no node then, or failed in this run."""


def why_invalid(policies: t.Sequence[str]) -> str:
    """What is wrong with a list of policies, or nothing."""
    if not policies:
        return f"must name a policy; known are {', '.join(VM_POLICIES)}"
    for policy in policies:
        if policy not in VM_POLICIES:
            hint = nearest(policy, VM_POLICIES) or f"; known are {', '.join(VM_POLICIES)}"
            return f"'{policy}' is not a policy{hint}"
    twice = [policy for policy, count in Counter(policies).items() if count > 1]
    if twice:
        return f"names '{twice[0]}' twice"
    if "refuse" in policies and len(policies) > 1:
        return "'refuse' must be alone"
    return ""


@dataclass(frozen=True, slots=True)
class VmWay:
    """How a VM leaves by `policy`; with `method` None why it does not leave, whether that ends by itself and is waited
    for, and the name of the finding. `passed_over` are the policies that are preferred and not possible, with the
    reasons. `because`: the label of another product that has chosen the policy."""

    policy: str
    method: Method | None
    why: str = ""
    temporary: bool = False
    finding: str = ""
    passed_over: tuple[tuple[str, str], ...] = ()
    because: str = ""

    @property
    def why_not_better(self) -> str:
        """Why the preferred policies are not used, or nothing."""
        by_why: dict[str, list[str]] = {}
        for policy, why in self.passed_over:
            by_why.setdefault(why, []).append(policy)
        return "; ".join(f"not {' or '.join(x)}: {why}" for why, x in by_why.items())

    @property
    def why_this_one(self) -> str:
        """What chose the policy, if that was another product's label, and why it is not a better one; or nothing."""
        return "; ".join(filter(None, (self.because, self.why_not_better)))


@dataclass(frozen=True)
class VmWays:
    """The ways of the VMs of one reading. `policies` are those of the task. `pending_changes` says what a restart would
    apply beside placement, empty where it is allowed; `why_never_ended` why disruption budgets never allow its end."""

    view: ClusterView
    policies: tuple[str, ...]
    passed_over: PassedOver
    pending_changes: t.Callable[[Vmi], str]
    why_never_ended: t.Callable[[Vmi], Obstacle | None]

    def way(self, vmi: Vmi) -> VmWay:
        """The first of its policies that is possible. Where all lack a node or are refused by budgets, the last of
        them."""
        way, because = self._first_possible(vmi), self._strategy(vmi)
        if not because or way.finding == DO_NOT_MOVE_FINDING:
            return way
        why = f"{way.why} ({because})" if way.method is None and not way.temporary else way.why
        return replace(way, why=why, because=because)

    def _first_possible(self, vmi: Vmi) -> VmWay:
        policies, wrong = self.policies_of(vmi)
        first = policies[0] if policies else ""
        if wrong:
            return VmWay(first, None, wrong, finding=INVALID_POLICY)
        if why := self._why_it_stays(vmi):
            return VmWay(first, None, why, finding=DO_NOT_MOVE_FINDING)
        if first == "refuse":
            return VmWay(first, None, "its vm_policy is 'refuse'", finding=REFUSED_BY_POLICY)
        if vmi.phase != "Running":
            return VmWay(first, None, f"its VMI is {vmi.phase}", temporary=True)
        refused: list[tuple[str, str]] = []
        findings: list[str] = []
        possible: list[VmWay] = []
        for policy in policies:
            way = self._by(policy, vmi)
            if way.temporary:
                return way
            if way.method is None:
                refused.append((policy, way.why))
                findings.append(way.finding)
                continue
            way = replace(way, passed_over=tuple(refused))
            why = self.passed_over.get(vmi.uid, {}).get(policy, "")
            why = why or str(self._why_budgets_refuse(vmi, way.method) or "")
            if not why:
                return way
            refused.append((policy, why))
            possible.append(way)
        if possible:
            return possible[-1]
        why = refused[0][1] if len(refused) == 1 else "; ".join(f"{x}: {why}" for x, why in refused)
        finding = PENDING_CHANGES if PENDING_CHANGES in findings else findings[0]
        return VmWay(first, None, why, finding=finding)

    def has_alternative(self, vmi: Vmi, policy: str) -> bool:
        """Whether a policy that is possible and not passed over comes after this one."""
        policies, wrong = self.policies_of(vmi)
        if wrong or policy not in policies:
            return False
        passed = self.passed_over.get(vmi.uid, {})
        later = (x for x in policies[policies.index(policy) + 1 :] if x not in passed)
        methods = (self._by(x, vmi).method for x in later)
        return any(x is not None and not self._why_budgets_refuse(vmi, x) for x in methods)

    def possible(self, vmi: Vmi) -> tuple[str, ...]:
        """The policies by which the VM could leave, whatever its policies are and whether it finds a node."""
        known = ("migrate", "restart", STOP_AND_START, "stop")
        passed = self.passed_over.get(vmi.uid, {})
        ways = {policy: self._by(policy, vmi).method for policy in known if policy not in passed}
        return tuple(
            policy
            for policy, method in ways.items()
            if method is not None and not self._why_budgets_refuse(vmi, method)
        )

    def why_not_migrated(self, vmi: Vmi) -> str:
        """Why a live migration of the VM is not possible, whatever its policies are, or nothing."""
        passed = self.passed_over.get(vmi.uid, {})
        return self._by("migrate", vmi).why or passed.get("migrate", "")

    def _why_budgets_refuse(self, vmi: Vmi, method: Method | None) -> Obstacle | None:
        return self.why_never_ended(vmi) if ends_pod(method, vmi) else None

    def policies_of(self, vmi: Vmi) -> tuple[tuple[str, ...], str]:
        """The policies of the VM's own label, else of Harvester's, else of the task; and what is wrong with the
        label, which anyone may write."""
        label = self._own_label(vmi)
        if not label:
            strategy = POLICY_OF_STRATEGY.get(self._label(vmi, HARVESTER_STRATEGY))
            return (strategy,) if strategy else self.policies, ""
        policies = tuple(label.split(LABEL_SEPARATOR))
        wrong = why_invalid(policies)
        return policies, f"its vm_policy is '{label}': {wrong}" if wrong else ""

    def has_own_policy(self, vmi: Vmi) -> bool:
        """Whether a label of the VM decides, so that the policies of the task do not."""
        return bool(self._own_label(vmi) or self._strategy(vmi))

    def owner(self, vmi: Vmi) -> Ref:
        """The VirtualMachine or replica set of the VMI, which has its label and takes its restart."""
        if vmi.owner is None:
            return vmi.ref
        return Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name)

    def _own_label(self, vmi: Vmi) -> str:
        return self._label(vmi, VM_POLICY)

    def _strategy(self, vmi: Vmi) -> str:
        """Harvester's label, where it says how the VM leaves, as a reason; or nothing."""
        strategy = self._label(vmi, HARVESTER_STRATEGY)
        chosen = strategy in POLICY_OF_STRATEGY and not self._own_label(vmi)
        return f"its label {HARVESTER_STRATEGY} is {strategy}" if chosen else ""

    def _label(self, vmi: Vmi, key: str) -> str:
        """The label of the VM, else of the VMI, which Harvester reads and keeps equal."""
        workload = self._workload(vmi)
        own = workload.labels.get(key) if workload is not None else None
        return own or vmi.labels.get(key) or ""

    def _workload(self, vmi: Vmi) -> Workload | None:
        return self.view.workloads.get(self.owner(vmi))

    def _why_it_stays(self, vmi: Vmi) -> str:
        """The label that keeps it where it is, unless another label says how it leaves in a maintenance."""
        if self._own_label(vmi):
            return ""
        workloads = self.view.workloads
        workload = vmi_workload(vmi, workloads)
        kept = why_kept(Instance(vmi.ref, vmi.uid, workload, None, vmi), workloads)
        return str(kept or "")

    def _why_no_target(self, vmi: Vmi) -> Obstacle | None:
        source, platform = self.view.nodes.get(vmi.node_name), self.view.snapshot.platform
        pods = self.view.launcher_pods.get(vmi.uid, ())
        found = (
            why_no_target(x, vmi, source, platform) for x in pods if x.node_name == vmi.node_name
        )
        return next(found, None)

    def _by(self, policy: str, vmi: Vmi) -> VmWay:
        """How the VM leaves by this policy, whatever its others say."""
        if policy == "migrate":
            obstacle = why_not_migratable(vmi) or self._why_no_target(vmi)
            if obstacle is not None:
                return VmWay(policy, None, str(obstacle), finding=NOT_MIGRATABLE)
            return VmWay(policy, Method.MIGRATE)
        if policy == "evict":
            strategy = eviction_strategy(vmi, self.view.snapshot.platform)
            if strategy != EXTERNAL:
                why = f"its eviction strategy is {strategy}, and vm_policy evict is for {EXTERNAL}"
                return VmWay(policy, None, why, finding=NOT_EVICTABLE)
            return VmWay(policy, Method.EVICT)
        workload = self._workload(vmi)
        kind = workload.ref.kind if workload is not None else ""
        if policy == "restart" and kind == REPLICA_SET.name:
            why = self.pending_changes(vmi)
            if why:
                return VmWay(policy, None, why, finding=PENDING_CHANGES)
            return VmWay(policy, Method.RECREATE)
        if kind != VIRTUAL_MACHINE.name or workload is None:
            why = f"no VirtualMachine owns it, which its vm_policy '{policy}' needs"
            return VmWay(policy, None, why, finding=NOT_RESTARTABLE)
        if policy == "stop":
            return VmWay(policy, Method.STOP)
        starts = policy == STOP_AND_START
        if starts:
            refusal = strategy_refusal(workload, "started again")
        else:
            refusal = restart_refusal(workload)
        if refusal is not None:
            return VmWay(policy, None, str(refusal), refusal.temporary, NOT_RESTARTABLE)
        if why := self.pending_changes(vmi):
            return VmWay(policy, None, why, finding=PENDING_CHANGES)
        return VmWay(policy, Method.STOP if starts else Method.RESTART)
