# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a maintenance that check mode returns and a later task carries out: its nodes, and how each VM leaves.

It is a plan of `moves/approved_plan` with nodes and findings beside the moves. Pure.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.plan import NOT_IN_PLAN
from ..model.snapshot import Vmi
from ..moves.approved_plan import (
    ApprovedPlan,
    PlanKind,
    checksum,
    damaged,
    options_of_plan,
    other_method,
    read_plan,
)
from .vm_ways import VmWay

PLAN = PlanKind(
    "node_maintenance",
    (
        "vm_policy",
        "max_nodes",
        "allow_findings",
        "delegated_budgets",
        "reboot_expected",
        "window",
        "topology_keys",
    ),
    ("vm_policy",),
    "nothing was done",
)

AboutObject = tuple[str, str]
"""The name of a finding, and an object that it is about."""

CLUSTER = "the cluster"
"""What a finding without objects is about."""


@dataclass(frozen=True, slots=True)
class ApprovedDrain:
    """`nodes` in their order, with their uids. `findings`: those that were there when the plan was made. `policies`:
    uid of a VMI to the policy by which it leaves. `owners`: uid of a VirtualMachine or replica set to those of its
    VMIs."""

    plan: ApprovedPlan
    nodes: t.Mapping[str, str]
    findings: frozenset[AboutObject]
    policies: t.Mapping[str, str]
    owners: t.Mapping[str, t.Sequence[str]]

    @classmethod
    def read(cls, given: t.Mapping[str, JSON]) -> ApprovedDrain:
        """Raises InvalidInput as `read_plan`."""
        plan = read_plan(given, PLAN)
        owners: dict[str, list[str]] = defaultdict(list)
        try:
            nodes = {item["name"]: item["uid"] for item in plan.facts["nodes"]}
            found = plan.facts["findings"]
            findings = frozenset((x["name"], about) for x in found for about in x["objects"])
            vms = [move.uid for move in plan.moves if move.instance.is_vmi]
            policies = {uid: plan.of_moves[uid]["vm_policy"] for uid in vms}
            for uid in vms:
                owners[plan.of_moves[uid]["owner_uid"]].append(uid)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(error, PLAN) from error
        return cls(plan, nodes, findings, policies, owners)

    def options_of(
        self, given: t.Mapping[str, JSON], defaults: t.Mapping[str, JSON]
    ) -> dict[str, JSON]:
        """The options of a task that carries the plan out: its nodes, or those of them that are given. Raises
        InvalidInput for options that the plan does not allow."""
        faults = []
        if given["state"] != "drained":
            faults.append(InputError("plan", f"is for the state drained, and not {given['state']}"))
        names = self.nodes if given["nodes"] is None else given["nodes"]
        faults += [
            InputError(
                "nodes", f"'{name}' is not among the nodes of the plan: {', '.join(self.nodes)}"
            )
            for name in names
            if name not in self.nodes
        ]
        try:
            options = options_of_plan(given, defaults, self.plan)
        except InvalidInput as error:
            raise InvalidInput([*faults, *error.errors]) from error
        if faults:
            raise InvalidInput(faults)
        return {**options, "nodes": list(names)}

    def policies_now(self, on_nodes: t.Iterable[Vmi], all_vmis: t.Iterable[Vmi]) -> dict[str, str]:
        """The approved policies of VMs that are on nodes of the plan, whichever node of the plan they were on: this
        maintenance may have moved them. A VMI that was made since has that of one that is gone, if they have the same
        owner: it was restarted."""
        uids = {vmi.uid for vmi in all_vmis}
        gone = Counter(
            {owner: sum(x not in uids for x in known) for owner, known in self.owners.items()}
        )
        policies = {}
        for vmi in sorted(on_nodes, key=lambda vmi: vmi.uid):
            owner = owner_uid(vmi)
            if vmi.uid in self.policies:
                policies[vmi.uid] = self.policies[vmi.uid]
            elif owner and gone[owner] > 0:
                gone[owner] -= 1
                policies[vmi.uid] = self.policies[self.owners[owner][0]]
        return policies


def owner_uid(vmi: Vmi) -> str:
    """Empty for a VMI that no controller makes again."""
    return vmi.owner.uid if vmi.owner is not None else ""


def why_not_as_approved(policy: str | None, way: VmWay) -> Obstacle | None:
    """Why a VM does not leave by `way`. `policy` is the approved one, None for a VM that the plan does not have."""
    if policy is None:
        return NOT_IN_PLAN
    return other_method(policy, way.policy)


def joined(plans: t.Sequence[t.Mapping[str, JSON]]) -> dict[str, JSON]:
    """The plan of a maintenance that takes the nodes of several plans one after the other. All are of the same task,
    and as they were returned."""
    first = plans[0]
    content = {
        **first,
        **{name: _without_repeats(plans, name) for name in ("nodes", "moves")},
        "findings": findings_json(
            (item["name"], about)
            for plan in plans
            for item in plan["findings"]
            for about in item["objects"]
        ),
    }
    return {**content, "checksum": checksum(content)}


def _without_repeats(parts: t.Iterable[t.Mapping[str, JSON]], name: str) -> list[JSON]:
    items: list[JSON] = []
    for part in parts:
        items += [item for item in part[name] if item not in items]
    return items


def findings_json(findings: t.Iterable[AboutObject]) -> list[JSON]:
    """As a plan has them."""
    objects: dict[str, list[str]] = defaultdict(list)
    for name, about in sorted(set(findings)):
        objects[name].append(about)
    return [{"name": name, "objects": names} for name, names in objects.items()]
