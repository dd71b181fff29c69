# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""forecast_info from its options to its result: one reading, a simulation, a report. Nothing is written."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..cluster.reading import ReadScope, read_snapshot
from ..forecast.change import (
    ChangedCluster,
    Scale,
    what_if,
)
from ..forecast.eviction import ENDING_STRATEGIES
from ..forecast.forecast import estimates, forecast
from ..forecast.report import forecast_as_json
from ..forecast.request import (
    ForecastRequest,
    forecast_request,
    known_scales,
    unavailable_nodes,
)
from ..forecast.result import Forecast
from ..forecast.unplaced import pending_now
from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once, warn_unreadable
from ..interface.runner import with_errors_of_the_cluster
from ..lint.run import lint_of_writes
from ..model.findings import Finding, InputError, InvalidInput
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..rules.plan import ExtraFindings, RulesPlan, RulesRequest
from ..view.label_input import NodeLabels, assumed_node_labels, with_node_labels
from .rules import forecast_scope, plan_with_instance_types, rules_request, scope_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    question = read_question(module.params, api, topology)
    result = _forecast(question, topology)
    warn_unreadable(module.warn, result.unreadable)
    return {**forecast_as_json(result), **question.findings_as_json(module.warn, result.findings)}


@dataclass(frozen=True)
class Question:
    """What would change, and the cluster as it is before. `plan` has the writes of the rules."""

    request: ForecastRequest
    before: Snapshot
    unavailable: frozenset[str]
    plan: RulesPlan | None

    @property
    def scale(self) -> tuple[Scale, ...]:
        return known_scales(self.request, self.before)

    @property
    def changes_something(self) -> bool:
        plan = self.plan is not None and (self.plan.writes or self.plan.members)
        return bool(self.unavailable or self.scale or plan)

    def change(self) -> ChangedCluster:
        return what_if(
            self.before,
            writes=self.plan.writes if self.plan is not None else (),
            members=self.plan.members if self.plan is not None else frozenset(),
            lost_nodes=self.unavailable,
            event=self.request.event,
            scale=self.scale,
        )

    def findings_as_json(
        self, warn: t.Callable[[str], None], more: t.Sequence[Finding] = ()
    ) -> dict[str, t.Any]:
        """The findings about the rules, and `more`. Each name is a warning."""
        of_plan, blocking = (self.plan.findings, self.plan.refused) if self.plan else ((), ())
        findings = (*of_plan, *more)
        warn_once(warn, findings)
        return {
            "findings": [finding.as_json() for finding in findings],
            "blocking_findings": list(dict.fromkeys(finding.name for finding in blocking)),
        }


def read_question(params: t.Mapping[str, t.Any], api: ApiClient, topology: Topology) -> Question:
    """The options, checked, and one reading of the cluster. `params` are those of forecast_info or
    of drill_info. Raises InvalidInput with every fault of the options, and ApiError."""
    faults: list[InputError] = []
    assumed = assumed_node_labels(params["assume_node_labels"], topology, faults)
    rules = _rules_option(params, topology, faults)
    request = forecast_request(
        unavailable=params.get("unavailable"),
        event=params["event"],
        scale=params["scale"],
        domains_of=params.get("domains_of"),
        namespace=params["namespace"] or "",
        topology=topology,
        faults=faults,
    )
    if faults:
        raise InvalidInput(_all_faults(api, request, rules, assumed, faults))
    before = read_snapshot(api, _scope(request, rules))
    findings = lint_of_writes(topology)
    return _question(api, before, request, rules, assumed, extra_findings=findings)


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
        faults.append(InputError("namespace", "is required with rules and with prune"))
        return None
    return rules_request(params, topology, workload_rollout="allow")


def _all_faults(
    api: ApiClient,
    request: ForecastRequest,
    rules: RulesRequest | None,
    assumed: NodeLabels,
    faults: t.Sequence[InputError],
) -> tuple[InputError, ...]:
    """`faults` of the options, and the errors that only the cluster shows, in the valid options."""

    def look(brief: ApiClient) -> None:
        _question(brief, read_snapshot(brief, _scope(request, rules)), request, rules, assumed)

    errors = with_errors_of_the_cluster(api, faults, look, "the cluster")
    return tuple(dict.fromkeys((*errors, *(rules.faults if rules is not None else ()))))


def _question(
    api: ApiClient,
    before: Snapshot,
    request: ForecastRequest,
    rules: RulesRequest | None,
    assumed: NodeLabels,
    extra_findings: ExtraFindings | None = None,
) -> Question:
    """Raises InvalidInput for everything in the options that the cluster does not have."""
    faults: list[InputError] = []
    before = with_node_labels(before, assumed, faults)
    unavailable = unavailable_nodes(request, before, faults)
    if rules is not None:
        checked = replace(rules, faults=(*faults, *rules.faults))
        before, plan = plan_with_instance_types(api, before, checked, extra_findings)
        return Question(request, before, unavailable, plan)
    if faults:
        raise InvalidInput(faults)
    return Question(request, before, unavailable, None)


def _scope(request: ForecastRequest, rules: RulesRequest | None) -> ReadScope:
    if request.everywhere or (rules is None and not request.scale):
        return forecast_scope(None)
    namespaces = {scale.workload.namespace for scale in request.scale}
    if rules is not None:
        namespaces |= set(scope_of(rules).namespaces or ())
    return forecast_scope(tuple(sorted(namespaces)))


def _forecast(question: Question, topology: Topology) -> Forecast:
    change = question.change()
    result = forecast(
        change,
        topology=topology,
        assumed=tuple(_assumed(change)),
        estimated=tuple(estimates(change, question.scale)),
    )
    if question.changes_something or result.unreadable:
        return result
    pending = pending_now(question.before, topology)
    return replace(result, reasons=(*result.reasons, *pending))


def _assumed(change: ChangedCluster) -> t.Iterator[str]:
    """Facts that a guarantee would need and that the cluster does not report."""
    before = change.before
    lost = {node.name for node in change.after.nodes if node.unschedulable}
    if change.event == "drain" and change.lost_nodes:
        for vmi in before.vmis:
            strategy = vmi.eviction_strategy or before.platform.eviction_strategy
            migrates = strategy not in ENDING_STRATEGIES and vmi.live_migratable is None
            if vmi.node_name in lost and migrates:
                yield f"whether {vmi.ref} can be live-migrated is not known"
