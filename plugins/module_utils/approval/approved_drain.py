# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does an approved plan of a drain fit the cluster, and which VMs may not leave as they would now?

A drain has to empty its nodes: it is refused for a VM that the plan does not have, and for one that would leave in
another way. One that appears later is left on its node.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..kubevirt.instances import vmi_workload
from ..maintenance.pods import PodAction
from ..maintenance.returned_plan import DRAIN_PLAN, AboutObject, about_objects, owner_uid
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.plan import NOT_IN_PLAN
from ..model.snapshot import Snapshot, Vmi
from ..moves.report import short
from ..moves.run_plan import RunPlan
from .plan import damaged, options_of_plan, other_method, read_plan, require

if t.TYPE_CHECKING:
    from ..maintenance.drain_plan import DrainView


def read(
    given: t.Mapping[str, JSON], defaults: t.Mapping[str, JSON]
) -> tuple[dict[str, JSON], RunPlan]:
    """The options of a task with its option `plan`, which has the nodes of the plan, or those of them that are given;
    and that plan. Raises InvalidInput with what is wrong with it, and for options that it does not allow."""
    plan = read_plan(given["plan"], DRAIN_PLAN)
    nodes = ApprovedDrain.of(plan).nodes
    names, faults = list(nodes if given["nodes"] is None else given["nodes"]), []
    if given["state"] != "drained":
        faults.append(InputError("plan", f"is for the state drained, and not {given['state']}"))
    faults += [
        InputError("nodes", f"'{name}' is not among the nodes of the plan: {', '.join(nodes)}")
        for name in names
        if name not in nodes
    ]
    try:
        options = options_of_plan(given, defaults, plan)
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.errors]) from error
    if faults:
        raise InvalidInput(faults)
    return {**options, "nodes": names}, plan


@dataclass(frozen=True, slots=True)
class ApprovedDrain:
    """The plan that a drain carries out, with its check. `nodes` in their order, with their uids. `findings`: those
    that were there when the plan was made. `policies`: uid of a VMI to the policy by which it leaves. `owners`: uid of
    a VirtualMachine or replica set to those of its VMIs."""

    plan: RunPlan
    nodes: t.Mapping[str, str]
    findings: frozenset[AboutObject]
    policies: t.Mapping[str, str]
    owners: t.Mapping[str, t.Sequence[str]]

    @classmethod
    def of(cls, plan: RunPlan) -> ApprovedDrain:
        """Raises InvalidInput for a plan without what one of a drain has."""
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
            raise damaged(error, DRAIN_PLAN) from error
        return cls(plan, nodes, findings, policies, owners)

    def obstacles(self, view: DrainView) -> dict[str, Obstacle]:
        """Why VMs of the nodes do not leave as they would now, by uid of the VMI."""
        vmis = {x.vmi.uid: x.vmi for x in view.decisions if x.vmi is not None}
        policies = self._policies_now(vmis.values(), view.snapshot)
        obstacles = dict.fromkeys(vmis.keys() - policies.keys(), NOT_IN_PLAN)
        for uid, policy in policies.items():
            way = view.way_of_vm(vmis[uid])
            if way.method is not None and (why := other_method(policy, way.policy)) is not None:
                obstacles[uid] = why
        return obstacles

    def _policies_now(self, on_nodes: t.Iterable[Vmi], snapshot: Snapshot) -> dict[str, str]:
        """The approved policies of VMs that are on nodes of the plan, whichever node of the plan they were on: this
        maintenance may have moved them. A VMI that was made since has that of one that is gone, if they have the same
        owner: it was restarted."""
        uids = snapshot.vmis_by_uid
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

    def require_nodes(self, host: str, view: DrainView, names: t.Sequence[str]) -> None:
        """As `require`, where a node of the task is gone or replaced, and for another cluster."""
        require(self.plan, host, view.snapshot.platform.uid, ())
        if any(self._changed_nodes(view, names)):
            self.require(host, view, names)

    def require(
        self,
        host: str,
        view: DrainView,
        names: t.Sequence[str],
        findings: t.Iterable[Finding] = (),
        refused: t.Iterable[Finding] = (),
    ) -> None:
        """Raises InvalidInput that names all that has changed since the plan was approved, and the findings that refuse
        the drain beside it. `names`: the nodes of the task. `findings`: those that the plan has to have."""
        changes = [*self._changed_nodes(view, names), *_changed_vms(view)]
        for finding in findings:
            if not self.findings.issuperset(about_objects([finding], view.snapshot)):
                changes.append(f"new finding {finding.name}: {finding.why}")
        if changes:
            changes += [f"{x.name}: {x.why}" for x in refused]
        require(self.plan, host, view.snapshot.platform.uid, changes)

    def _changed_nodes(self, view: DrainView, names: t.Iterable[str]) -> t.Iterator[str]:
        """The nodes of the task that are gone or replaced since the plan was made."""
        for name in names:
            known, node = self.nodes[name], view.snapshot.nodes_by_name.get(name)
            if node is None:
                yield f"Node {name} does not exist any more"
            elif node.uid != known:
                yield f"Node {name} was replaced: its uid is {node.uid}, and was {known}"


def _changed_vms(view: DrainView) -> t.Iterator[str]:
    """VMs that the plan does not have, and those that would leave in another way now. Of those that cannot leave there
    are findings."""
    workloads = view.snapshot.workloads_by_ref
    named: set[str] = set()
    for decision in view.decisions:
        vmi = decision.vmi
        if vmi is None or vmi.terminating or vmi.finished or vmi.uid in named:
            continue
        why, way = view.not_approved.get(vmi.uid), view.way_of_vm(vmi)
        stays = decision.action is PodAction.MOVE_VM and way.method is None
        if why is not None and (way.is_awaited or not stays):
            named.add(vmi.uid)
            vm = short(vmi_workload(vmi, workloads), vmi.ref)
            known = why.code != NOT_IN_PLAN.code
            because = f" ({way.passed_over_text})" if known and way.passed_over else ""
            yield f"{vm} on node {decision.pod.node_name}: {why}{because}"
