# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does what leaves the nodes of a drain find other nodes, and which VMs would have one by another of their policies?

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..compliance.declared import DeclaredReader
from ..forecast.change import ChangedCluster, what_if
from ..forecast.conclusion import (
    OF_ADMISSION,
    ForecastResult,
    advice_on_admission,
    conclude,
)
from ..forecast.doubts import doubts_of_change
from ..forecast.forecast import forecast
from ..forecast.result import Forecast, NotMigratableInstance, UnschedulableInstance
from ..kubevirt.next_pod import NEXT
from ..model.findings import Finding
from ..model.objects import Ref
from ..model.plan import Method
from ..model.rendering import listed
from ..model.snapshot import Vmi
from ..model.topology import Topology
from .drain_plan import DrainView
from .options import STOP_AND_START
from .pods import PodAction, drain_finding
from .preflight_findings import NO_PLACE, PLACE_UNKNOWN
from .vm_ways import VM_POLICY, PassedOver

NAMED = 5
"""Instances whose reasons are named at most, beside the proof of the forecast: those that it does not explain, and of
those for which it depends on what the scheduler chooses, the ones that it is not about."""

WithoutNode: t.TypeAlias = UnschedulableInstance | NotMigratableInstance


def drain_change(view: DrainView) -> ChangedCluster:
    """The cluster without the nodes of a drain, and with what the drain does with each VM of them."""
    concerned = {pod.vmi_uid for pod in view.snapshot.pods if pod.node_name in view.nodes}
    ways = ((x.uid, view.way_of_vm(x)) for x in view.snapshot.vmis if x.uid in concerned)
    leaves = {uid: Method.MIGRATE if x.is_awaited else x.method for uid, x in ways}
    return what_if(view.snapshot, lost_nodes=view.nodes, leaves=leaves)


def drain_forecast(view: DrainView, topology: Topology) -> Forecast:
    """Whether what leaves the nodes of a drain finds other nodes, and which. The snapshot of the view has what was read
    about its new pods (`cluster/read_new_pods`)."""
    change = drain_change(view)
    return forecast(change, topology=topology, doubts=doubts_of_change(change))


def without_node(view: DrainView, topology: Topology) -> PassedOver:
    """The policies, by VM, by which it would have no node, where another of its policies remains. Those that have
    none whatever the scheduler chooses are passed over first."""
    passed = {uid: dict(policies) for uid, policies in view.passed_over.items()}
    while vmis := _with_alternative(view):
        result = drain_forecast(view, topology)
        if result.answer is not ForecastResult.IMPOSSIBLE:
            break
        lacking = [(vmis[x.instance], x) for x in _without_node(result) if x.instance in vmis]
        if not lacking:
            break
        certain = [pair for pair in lacking if pair[1].certain]
        for vmi, instance in certain or lacking:
            policy = view.way_of_vm(vmi).policy
            passed.setdefault(vmi.uid, {})[policy] = instance.reason
        view = replace(view, passed_over={uid: dict(x) for uid, x in passed.items()})
    return passed


def place_findings(view: DrainView, result: Forecast) -> t.Iterator[Finding]:
    """Whether everything finds a node."""
    nodes = nodes_text(sorted(view.nodes))
    why = "; ".join(result.reasons)
    if result.answer is ForecastResult.IMPOSSIBLE:
        not_ready = {node.name for node in view.snapshot.nodes if not node.ready}
        stay = (x for x in result.not_migratable if x.node in not_ready)
        lacking = _without_node(result)
        if lacking and lacking == [*stay]:  # node_not_ready says it
            return
        count = max(1, result.min_unschedulable, len(result.not_migratable))
        more = [
            f"{_leaving(view, x).name}: {x.reason}"
            for x in lacking
            if x.instance not in (result.explained if x.certain else result.proven)
        ]
        why = "; ".join((*result.reasons, *list(dict.fromkeys(more))[:NAMED]))
        others = _other_policies(view, lacking)
        rules = _rules_text(view, lacking)
        finding = drain_finding(
            NO_PLACE,
            "error",
            f"{count} of {result.instances_to_schedule} instances of {nodes} would have no node:"
            f" {why}{rules}.",
            f"{_advice_about_room(result)}{others}",
            *(_leaving(view, x) for x in lacking),
        )
        yield replace(finding, named=())
    elif result.answer is ForecastResult.UNKNOWN:
        yield drain_finding(
            PLACE_UNKNOWN,
            "error" if result.unreadable or "dry_run_refused" in result.codes else "warning",
            f"It is unknown whether all instances of {nodes} find a node: {why}.",
            _advice_about_unknown(result),
        )
    elif result.answer is ForecastResult.POSSIBLE:
        yield drain_finding(
            PLACE_UNKNOWN,
            "info",
            f"All instances of {nodes} can find a node ({why}).",
            "Run forecast_info for details.",
        )


_NODES = 20
"""Nodes that a finding names: each of them may be the one that it is about."""


def nodes_text(names: t.Sequence[str]) -> str:
    return f"node{'s' if len(names) > 1 else ''} {listed(list(names), _NODES)}"


def _advice_about_room(result: Forecast) -> str:
    advice = ["Add or free a node that they may use, or relax their rules."]
    if "quota" in result.codes:
        raised = "Raise the ResourceQuota that is named, or end pods of its namespace: for that no other node helps."
        advice = [raised] if result.codes == ("quota",) else [*advice, raised]
    return " ".join(advice)


def _advice_about_unknown(result: Forecast) -> str:
    if gaps := result.unreadable:
        lacks_right = any(gap.lacks_right for gap in gaps)
        return "Grant the missing rights." if lacks_right else "The reason names what to do."
    if not OF_ADMISSION.isdisjoint(result.codes):
        levels = [doubt.advice for doubt in conclude(*result.evidence).doubts]
        advice = advice_on_admission(result.codes, levels)
        return f"The drain would wait for a pod that is not created. {advice}"
    if "moved_by_others" in result.codes:
        return "See that the controller of that strategy runs: the drain asks it, and waits until run_timeout."
    return "Run forecast_info for details."


def _without_node(result: Forecast) -> list[WithoutNode]:
    return [*result.pending, *result.not_migratable]


def _leaving(view: DrainView, lacking: WithoutNode) -> Ref:
    """What leaves: the VMI, or the pod on its node in place of the next one, which has no name yet."""
    instance = lacking.instance
    if instance in view.snapshot.vmis_by_ref:
        return instance
    return instance._replace(name=instance.name.removesuffix(NEXT))


def _with_alternative(view: DrainView) -> dict[Ref, Vmi]:
    """The VMs that leave, and could leave by another of their policies."""
    vmis = {}
    for decision in view.decisions:
        if decision.action is PodAction.MOVE_VM and decision.vmi is not None:
            way = view.way_of_vm(decision.vmi)
            if way.method is not None and view.ways.has_alternative(decision.vmi, way.policy):
                vmis[decision.vmi.ref] = decision.vmi
    return vmis


def _rules_text(view: DrainView, lacking: t.Iterable[WithoutNode]) -> str:
    """The rules of these instances that have required terms."""
    workloads = view.snapshot.workloads_by_ref
    reader, named = view.snapshot.derived(DeclaredReader), {}
    for instance in lacking:
        workload = workloads.get(instance.workload) if instance.workload is not None else None
        if workload is not None:
            owners = reader.declared(workload).owners.items()
            rules = {rule for term, names in owners if not term.preferred for rule in names}
            named.update(dict.fromkeys(sorted(rules)))
    if not named:
        return ""
    return f". They have the required rule{'s' if len(named) > 1 else ''} {listed(list(named))}"


def _other_policies(view: DrainView, lacking: t.Sequence[WithoutNode]) -> str:
    """The policies by which all of these VMs could leave."""
    leaving = {x.vmi.ref for x in view.decisions if x.vmi is not None}
    vmis = view.snapshot.vmis_by_ref
    ways = {x.instance: _down(view, vmis[x.instance], x) for x in lacking if x.instance in leaving}
    first, *others = ways.values() or [()]
    common = [way for way in first if all(way in other for other in others)]
    if not common:
        return ""
    names = listed([ref.name for ref in ways])
    text = f" Or let {names} be down for a time: set the label {VM_POLICY} of the VM to {' or '.join(common)}"
    if any(view.ways.has_own_policy(vmis[ref]) for ref in ways):
        return f"{text}."
    policies = ", ".join(dict.fromkeys((*(x for x in view.policies if x != "refuse"), common[0])))
    return f"{text}, or vm_policy to [{policies}], which does that only with VMs that have no better way."


def _down(view: DrainView, vmi: Vmi, instance: WithoutNode) -> tuple[str, ...]:
    """The policies by which the VM could leave without the node that it lacks. One that is started again comes back to
    its own."""
    restartable = isinstance(instance, NotMigratableInstance) and instance.if_restarted
    known = ("restart",) if restartable else ()
    possible = view.ways.possible(vmi)
    stop = STOP_AND_START if STOP_AND_START in possible else "stop"
    return tuple(x for x in (*known, stop) if x in possible)
