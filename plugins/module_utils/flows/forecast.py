# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""forecast_info from its options to its result: one reading, a simulation, a report. Nothing is written."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..cluster.reading import ReadScope, read_snapshot
from ..forecast.change import ChangedCluster, Scale, surplus_is_free, what_if
from ..forecast.decide import worst_of
from ..forecast.drill import DrillReport, drill, table
from ..forecast.eviction import ENDING_STRATEGIES
from ..forecast.forecast import forecast
from ..forecast.report import drill_as_json, forecast_as_json
from ..forecast.request import ForecastRequest, forecast_request, known_scales, lost_nodes
from ..forecast.result import Forecast
from ..forecast.unplaced import pending_now
from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once, warn_unreadable
from ..interface.runner import with_errors_of_the_cluster
from ..kubevirt.next_pod import sized
from ..lint.run import lint_of_writes
from ..model.findings import Finding, InputError, InvalidInput
from ..model.kinds import FORECAST_KINDS, VIRTUAL_MACHINE
from ..model.rendering import as_json
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..rules.plan import ExtraFindings, RulesPlan, RulesRequest, plan_rules
from .rules import rules_request, scope_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    faults: list[InputError] = []
    topology = topology_of(module.params)
    request = _rules_option(module.params, topology, faults)
    question = forecast_request(
        unavailable=module.params["unavailable"],
        event=module.params["event"],
        scale=module.params["scale"],
        drill=module.params["drill"],
        namespace=module.params["namespace"] or "",
        topology=topology,
        faults=faults,
    )
    if faults:
        raise InvalidInput(forecast_faults(api, question, request, faults))
    outcome = foresee(api, question, request, topology, extra_findings=lint_of_writes(topology))
    warn_once(module.warn, outcome.findings)
    result: dict[str, t.Any] = {}
    if outcome.drilled is not None:
        warn_unreadable(module.warn, outcome.drilled.unreadable)
        result = _drilled_as_json(outcome.drilled, topology)
    elif outcome.forecast is not None:
        warn_unreadable(module.warn, outcome.forecast.unreadable)
        result = forecast_as_json(outcome.forecast)
    return {
        **result,
        "findings": [finding.as_json() for finding in outcome.findings],
        "blocking_findings": list(
            dict.fromkeys(finding.name for finding in outcome.blocking_findings)
        ),
    }


def _rules_option(
    params: t.Mapping[str, t.Any], topology: Topology, faults: list[InputError]
) -> RulesRequest | None:
    """The rules to be written; None if there are none, or if they cannot be read."""
    try:
        listed = rules_data(params["rules"])
    except InvalidInput as error:
        faults += error.errors
        return None
    if not listed and not params["prune"]:
        if params["namespace"] == "":
            faults.append(InputError("namespace", "must not be empty: omit it"))
        return None
    if params["namespace"] is None:
        faults.append(InputError("namespace", "is required with rules: it is theirs"))
        return None
    return rules_request(params, topology, workload_rollout="allow")


def _drilled_as_json(drilled: DrillReport, topology: Topology) -> dict[str, t.Any]:
    hurting = [loss for loss in drilled.drills if loss.hurts]
    unknown = bool(drilled.unreadable)
    worst = str(worst_of(loss.answer for loss in drilled.drills))
    return {
        "forecast": "unknown" if unknown else worst,
        "reasons": [f"nobody can say: {gap}" for gap in drilled.unreadable],
        "drill": [drill_as_json(loss) for loss in hurting],
        "counts": {"losses": len(drilled.drills), "hurting": len(hurting)},
        "table": table(drilled, topology),
        "permission_gaps": as_json(drilled.unreadable),
    }


@dataclass(frozen=True)
class ForecastOutcome:
    """`forecast` for the change as a whole, `drilled` where drills were asked for. `blocking_findings`
    are those for which `rules` would refuse to write."""

    forecast: Forecast | None
    drilled: DrillReport | None
    findings: tuple[Finding, ...] = ()
    blocking_findings: tuple[Finding, ...] = ()


def foresee(
    api: ApiClient,
    question: ForecastRequest,
    request: RulesRequest | None,
    topology: Topology,
    *,
    extra_findings: ExtraFindings | None = None,
) -> ForecastOutcome:
    """The answer to a question, after the rules of `request` would have been written.

    Raises InvalidInput for what the cluster does not have, and ApiError.
    """
    before = read_snapshot(api, _scope(question, request))
    lost, plan = _checked(before, question, request, extra_findings)
    scale = known_scales(question, before)
    writes = plan.writes if plan is not None else ()
    members = plan.members if plan is not None else frozenset()
    if question.drill:
        after = what_if(before, writes=writes, members=members, scale=scale).after
        drilled = drill(after, question.drill, event=question.event, topology=topology)
        return _foreseen(None, drilled, plan)
    change = what_if(
        before,
        writes=writes,
        members=members,
        lost_nodes=lost,
        event=question.event,
        scale=scale,
    )
    result = forecast(
        change,
        topology=topology,
        assumed=tuple(_assumed(change)),
        estimated=tuple(_estimated(change, scale)),
    )
    if not (lost or scale or members or writes or result.unreadable):
        result = replace(result, reasons=(*result.reasons, *pending_now(before, topology)))
    return _foreseen(result, None, plan)


def forecast_faults(
    api: ApiClient,
    question: ForecastRequest,
    request: RulesRequest | None,
    faults: t.Sequence[InputError],
) -> tuple[InputError, ...]:
    """`faults` of the options, and the errors that only the cluster shows, in the valid options."""

    def look(brief: ApiClient) -> None:
        _checked(read_snapshot(brief, _scope(question, request)), question, request, None)

    errors = with_errors_of_the_cluster(api, faults, look, "the cluster")
    request_errors = request.faults if request is not None else ()
    return tuple(dict.fromkeys((*errors, *request_errors)))


def _checked(
    before: Snapshot,
    question: ForecastRequest,
    request: RulesRequest | None,
    extra_findings: ExtraFindings | None,
) -> tuple[frozenset[str], RulesPlan | None]:
    """The nodes that are lost, and the plan of the rules. Raises InvalidInput with all faults of both."""
    faults: list[InputError] = []
    lost = lost_nodes(question, before, faults)
    if request is not None:
        asked = replace(request, faults=(*faults, *request.faults))
        return lost, plan_rules(before, asked, extra_findings=extra_findings)
    if faults:
        raise InvalidInput(faults)
    return lost, None


def _foreseen(
    found: Forecast | None, drilled: DrillReport | None, plan: RulesPlan | None
) -> ForecastOutcome:
    of_plan = plan.findings if plan is not None else ()
    blocking = plan.refused if plan is not None else ()
    of_forecast = found.findings if found is not None else ()
    return ForecastOutcome(found, drilled, (*of_plan, *of_forecast), blocking)


def _scope(question: ForecastRequest, request: RulesRequest | None) -> ReadScope:
    if question.everywhere or (request is None and not question.scale):
        return ReadScope(kinds=FORECAST_KINDS)
    namespaces = {scale.workload.namespace for scale in question.scale}
    if request is not None:
        namespaces |= set(scope_of(request).namespaces or ())
    return ReadScope(namespaces=tuple(sorted(namespaces)), kinds=FORECAST_KINDS)


def _assumed(change: ChangedCluster) -> t.Iterator[str]:
    """Facts that a guarantee would need and that the cluster does not report."""
    before = change.before
    lost = {node.name for node in change.after.nodes if node.unschedulable}
    if change.event == "drain" and change.lost_nodes:
        for vmi in before.machine_instances:
            strategy = vmi.eviction_strategy or before.platform.eviction_strategy
            migrates = strategy not in ENDING_STRATEGIES and vmi.live_migratable is None
            if vmi.node_name in lost and migrates:
                yield f"whether {vmi.ref} can be live-migrated is not known"


def _estimated(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[str]:
    """Facts that are estimated, so that the forecast may differ from what happens."""
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in change.before.machine_instances}
    for workload in change.after.workloads:
        ref = workload.ref
        halted = ref.kind == VIRTUAL_MACHINE.name and (ref.namespace, ref.name) not in running
        if ref in change.affected and halted and not sized(workload):
            yield f"the requests of {ref}, which does not run, are an estimate"
    for entry in scale:
        if surplus_is_free(change.before, entry):
            yield f"it is the controller's choice which instances of {entry.workload} end"
