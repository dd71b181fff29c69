# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts of a cluster: one reading, then nothing but thought. Nothing is written."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..api.requests import Api
from ..cluster.read import Scope, read_snapshot
from ..model.finding import Fault, Finding, Refused
from ..model.kinds import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..planning.already_pending import already_pending
from ..planning.drill import Drilled, drill
from ..planning.forecast import forecast
from ..planning.foreseen import Forecast
from ..planning.making import sized
from ..planning.question import Question, known_scales, lost_nodes
from ..planning.what_if import surplus_is_free, what_if
from ..planning.written import touched
from ..rules.request import ExtraFindings, RulesPlan, RulesRequest, plan_rules
from .more_faults import with_faults_of_the_cluster
from .write_rules import scope_of

KINDS = (VIRTUAL_MACHINE.name, REPLICA_SET.name, DEPLOYMENT.name, STATEFUL_SET.name)


@dataclass(frozen=True)
class Foreseen:
    """`forecast` for the change as a whole, `drilled` where drills were asked for. `refused` are
    findings for which `rules` would refuse to write."""

    forecast: Forecast | None
    drilled: Drilled | None
    findings: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()


def foresee(
    api: Api,
    question: Question,
    request: RulesRequest | None,
    topology: Topology,
    *,
    extra_findings: ExtraFindings | None = None,
) -> Foreseen:
    """The answer to a question, after the rules of `request` would have been written.

    Raises Refused for what the cluster does not have, and ApiError.
    """
    before = read_snapshot(api, _scope(question, request))
    lost, plan = _checked(before, question, request, extra_findings)
    scale = known_scales(question, before)
    writes = plan.writes if plan is not None else ()
    members = plan.members if plan is not None else frozenset()
    if question.drill:
        changed = what_if(before, writes=writes, members=members, scale=scale)
        drilled = drill(changed, question.drill, cause=question.cause, topology=topology)
        return _foreseen(None, drilled, plan)
    after = what_if(
        before,
        writes=writes,
        members=members,
        lost_nodes=lost,
        cause=question.cause,
        scale=scale,
    )
    found = forecast(
        before,
        after,
        members=members,
        scaled=[each.workload for each in scale],
        lost_nodes=lost,
        cause=question.cause,
        topology=topology,
        assumed=tuple(_assumed(before, after, question)),
        estimated=tuple(_estimated(before, after, question, members)),
    )
    if not (lost or scale or members or writes or found.unreadable):
        found = replace(found, proof=(*found.proof, *already_pending(before, topology)))
    return _foreseen(found, None, plan)


def forecast_faults(
    api: Api, question: Question, request: RulesRequest | None, faults: t.Sequence[Fault]
) -> tuple[Fault, ...]:
    """`faults` of the options, and those that only the cluster tells of what is left of them."""

    def look(brief: Api) -> None:
        _checked(read_snapshot(brief, _scope(question, request)), question, request, None)

    found = with_faults_of_the_cluster(api, faults, look, "the cluster")
    said = request.faults if request is not None else ()
    return tuple(dict.fromkeys((*found, *said)))


def _checked(
    before: Snapshot,
    question: Question,
    request: RulesRequest | None,
    extra_findings: ExtraFindings | None,
) -> tuple[frozenset[str], RulesPlan | None]:
    """The nodes that are lost, and the plan of the rules. Raises Refused with all faults of both."""
    faults: list[Fault] = []
    lost = lost_nodes(question, before, faults)
    if request is not None:
        asked = replace(request, faults=(*faults, *request.faults))
        return lost, plan_rules(before, asked, extra_findings=extra_findings)
    if faults:
        raise Refused(faults)
    return lost, None


def _foreseen(found: Forecast | None, drilled: Drilled | None, plan: RulesPlan | None) -> Foreseen:
    of_plan = plan.findings if plan is not None else ()
    refused = plan.refused if plan is not None else ()
    of_forecast = found.findings if found is not None else ()
    return Foreseen(found, drilled, (*of_plan, *of_forecast), refused)


def _scope(question: Question, request: RulesRequest | None) -> Scope:
    if question.everywhere or (request is None and not question.scale):
        return Scope(kinds=KINDS)
    namespaces = {each.workload.namespace for each in question.scale}
    if request is not None:
        namespaces |= set(scope_of(request).namespaces or ())
    return Scope(namespaces=tuple(sorted(namespaces)), kinds=KINDS)


def _assumed(before: Snapshot, after: Snapshot, question: Question) -> t.Iterator[str]:
    """What a guarantee would rest on and a reading does not tell."""
    lost = {node.name for node in after.nodes if node.unschedulable}
    if question.cause == "drain" and (question.nodes or question.domains):
        for vmi in before.machine_instances:
            strategy = vmi.eviction_strategy or before.platform.eviction_strategy
            migrates = strategy not in _ENDING and vmi.live_migratable is None
            if vmi.node_name in lost and migrates:
                yield f"whether {vmi.ref} can be live-migrated is not known"


_ENDING = ("", "None")
"""Eviction strategies under which a drain ends a machine, whether or not it could migrate."""


def _estimated(
    before: Snapshot, after: Snapshot, question: Question, members: t.Collection[Ref]
) -> t.Iterator[str]:
    """What may be otherwise, for better or worse."""
    changed = touched(before, after).union(members)
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in before.machine_instances}
    for workload in after.workloads:
        ref = workload.ref
        halted = ref.kind == VIRTUAL_MACHINE.name and (ref.namespace, ref.name) not in running
        if ref in changed and halted and not sized(workload):
            yield f"the requests of {ref}, which does not run, are an estimate"
    for each in known_scales(question, before):
        if surplus_is_free(before, each):
            yield f"it is the controller's choice which instances of {each.workload} end"
