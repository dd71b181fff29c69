# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""forecast_info from its options to its result: one reading, a simulation, a report. Nothing is written."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..cluster.pod_dry_runs import pod_dry_runs
from ..cluster.read_new_pods import new_pod_fields
from ..cluster.reading import ReadScope, read_snapshot
from ..cluster.refusals import with_refused_workloads
from ..forecast.admission import asked_of_server
from ..forecast.change import ChangedCluster, what_if
from ..forecast.conclusion import ForecastResult
from ..forecast.doubts import doubts_of_change, relevant_gaps
from ..forecast.forecast import forecast
from ..forecast.forecast_request import (
    ForecastRequest,
    forecast_request,
    known_scales,
    unavailable_nodes,
)
from ..forecast.new_pods import needs_of_change
from ..forecast.result import Forecast, NotMigratableInstance, UnschedulableInstance, is_worse
from ..forecast.scaling import Scale
from ..forecast.stuck import newly_stuck, once_moved
from ..forecast.unplaced import pending_now
from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once, warn_unreadable
from ..interface.runner import with_errors_of_the_cluster
from ..kinds.registry import RULE_KINDS
from ..lint.registry import lint_of_writes
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.plan import move_as_json, skipped_as_json
from ..model.rendering import Entry, as_json, one_line, outcome, plural
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..planning.plan_request import Scope
from ..rules.policy_plan import NO_POLICIES, NONE, PolicyPlan
from ..rules.rules_plan import ExtraFindings, RulesPlan
from ..rules.rules_request import STATES, RulesRequest
from ..view.label_input import NodeLabels, assumed_node_labels, with_node_labels
from .rule_policies import with_policy_plan
from .rules import plan_with_instance_types, rules_request, scope_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    question = replace(read_question(module.params, api, topology), scope=module.params["scope"])
    question, change = with_new_pods(api, question)
    result = _forecast(question, change, topology)
    warn_unreadable(module.warn, result.unreadable)
    without_rules = functools.cache(
        lambda: _forecast_of(question.change(with_rules=False), question, topology)
    )
    stuck: tuple[Finding, ...] = ()
    if question.plan is not None and question.plan.writes and result.not_migratable:
        rule_set = (module.params["namespace"], module.params["rule_set"])
        moved = replace(question, before=once_moved(question.before, result))
        drain = functools.partial(_drain, moved, topology)
        stuck = tuple(newly_stuck(change, result, without_rules(), rule_set, drain))
    return {
        **_forecast_as_json(result),
        "worsened_by_rules": _worsened_by_rules(question, result, without_rules),
        "policy_digest": question.policies.digest,
        "policy_rules": [rule.name for rule in question.policies.rules],
        "policy_rules_removed": [rule.name for rule in question.policies.removed],
        **question.findings_as_json(module.warn, (*result.findings, *stuck)),
        **outcome([_entry(question, result)]),
    }


def _entry(question: Question, forecast: Forecast) -> Entry:
    """The answer in a line; a question about nothing has none that anyone could rely on."""
    if question.changes_something or forecast.unreadable:
        return Entry("forecast", f"forecast: {forecast.answer}")
    what = "workload that is there" if question.policies.writes else "workload or node"
    return Entry("no_change", f"nothing is forecast, since no {what} would change")


def _drain(question: Question, topology: Topology, node: str) -> Forecast:
    """The forecast of the drain of one node, with the rules."""
    request = replace(question.request, event="drain", scale=())
    asked = replace(question, request=request, unavailable=frozenset({node}))
    return _forecast_of(asked.change(), asked, topology)


def _forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    result = {
        name: as_json(getattr(forecast, name))
        for name in (
            "codes",
            "reasons",
            "instances_to_schedule",
            "min_unschedulable",
            "down_until_fenced",
            "deadlock",
            "optional_moves",
        )
    }
    return {
        **result,
        "forecast": str(forecast.answer),
        "pending": [_with_code(instance) for instance in forecast.pending],
        "not_migratable": [_with_code(instance) for instance in forecast.not_migratable],
        "moves": [move_as_json(move) for move in forecast.moves],
        "skipped_instances": [skipped_as_json(skipped) for skipped in forecast.skipped],
        "preferences_not_met": [missed.as_json() for missed in forecast.preferences_not_met],
        "permission_gaps": as_json(forecast.unreadable),
    }


def _with_code(instance: UnschedulableInstance | NotMigratableInstance) -> dict[str, JSON]:
    reason = instance.reason
    return {**as_json(instance), "reason": one_line(str(reason)), "reason_code": reason.code}


@dataclass(frozen=True)
class Question:
    """What would change, and the cluster as it is before. `plan` has the writes of the rules."""

    request: ForecastRequest
    before: Snapshot
    unavailable: frozenset[str]
    plan: RulesPlan | None
    scope: Scope = "violated"
    left_out: tuple[str, ...] = ()
    """Label keys of `domains_of` that no node has, where some node has another one."""
    policies: PolicyPlan = NO_POLICIES

    @property
    def scale(self) -> tuple[Scale, ...]:
        return known_scales(self.request, self.before)

    @property
    def changes_something(self) -> bool:
        plan = self.plan is not None and (self.plan.writes or self.plan.members)
        return bool(self.unavailable or self.scale or plan)

    def change(self, *, with_rules: bool = True) -> ChangedCluster:
        """Without the rules it is still about their workloads."""
        return what_if(
            self.before,
            writes=self.plan.writes if self.plan is not None and with_rules else (),
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
    before = with_refused_workloads(api, read_snapshot(api, _scope(request, rules)))
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
    if not listed and not params["prune"] and params["state"] in STATES:
        if params["namespace"] == "":
            faults.append(InputError("namespace", "must not be empty: omit it"))
        return None
    if params["namespace"] is None:
        faults.append(
            InputError("namespace", "is required with rules, with prune and with state reverted")
        )
        return None
    held = params.get("workload_rollout", "allow")
    return rules_request(params, topology, workload_rollout=held)


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
    there = {key for node in before.nodes for key in node.labels}
    known = tuple(key for key in request.domains_of if key in there)
    left_out = tuple(key for key in request.domains_of if key not in there) if known else ()
    request = replace(request, domains_of=known or request.domains_of)
    unavailable = unavailable_nodes(request, before, faults)
    plan, policies = None, NO_POLICIES
    if rules is not None:
        checked = replace(rules, faults=(*faults, *rules.faults))
        # A task without the option takes its rules out of their policy. Drills are about nothing of it.
        if checked.new_members != NONE or not request.domains_of:
            before, checked = with_policy_plan(api, before, checked)
            policies = checked.policies
        before, plan = plan_with_instance_types(api, before, checked, extra_findings)
    elif faults:
        raise InvalidInput(faults)
    return Question(request, before, unavailable, plan, left_out=left_out, policies=policies)


def _scope(request: ForecastRequest, rules: RulesRequest | None) -> ReadScope:
    lost = request.nodes or request.domains or request.domains_of
    if lost or (rules is None and not request.scale):
        return replace(forecast_scope(None), budgets=request.event == "drain")
    namespaces = {scale.workload.namespace for scale in request.scale}
    if rules is not None:
        namespaces |= set(scope_of(rules).namespaces or ())
    return forecast_scope(tuple(sorted(namespaces)))


def forecast_scope(namespaces: tuple[str, ...] | None) -> ReadScope:
    """What a forecast needs: each pod takes room on its node, and some keep others out."""
    return ReadScope(namespaces, RULE_KINDS, migrations="moving", quotas=True)


def with_new_pods(api: ApiClient, question: Question) -> tuple[Question, ChangedCluster]:
    """The question with what matters for the pods that its change creates, and the change. A line says what was read,
    since the forecast of a large cluster takes seconds."""
    change = question.change()
    if (note := api.transport.outage.note) is not None:
        note(f"forecast: {_size(question.before)} were read, evaluating what changes")
    if relevant_gaps(change.after):  # no answer is claimed then
        return question, change
    drills = bool(question.request.domains_of)
    fields = new_pod_fields(api, needs_of_change(change, drills=drills))
    if not fields:
        return question, change
    before = replace(question.before, **fields)
    answers = pod_dry_runs(api, asked_of_server(replace(change, before=before), drills=drills))
    question = replace(question, before=replace(before, dry_runs=answers))
    if answers:  # they complete the first pods
        return question, question.change()
    after = replace(change.after, **fields)
    return question, replace(change, before=question.before, after=after)


def _size(snapshot: Snapshot) -> str:
    running = sum(not vmi.finished for vmi in snapshot.vmis)
    return (
        f"{plural(len(snapshot.nodes), 'node')}, {plural(running, 'running VM')} and"
        f" {plural(len(snapshot.pods), 'pod')}"
    )


def _forecast(question: Question, change: ChangedCluster, topology: Topology) -> Forecast:
    result = _forecast_of(change, question, topology)
    if question.changes_something or result.unreadable:
        return result
    pending = pending_now(question.before, topology)
    return replace(result, reasons=(*result.reasons, *pending))


def _forecast_of(change: ChangedCluster, question: Question, topology: Topology) -> Forecast:
    doubts = doubts_of_change(change, question.scale)
    return forecast(change, topology=topology, doubts=doubts, scope=question.scope)


def _worsened_by_rules(
    question: Question, result: Forecast, without_rules: t.Callable[[], Forecast]
) -> bool:
    """Whether `result` is worse than the forecast of the same workloads without the rules."""
    if (
        question.plan is None
        or not question.plan.writes
        or result.answer is ForecastResult.GUARANTEED
    ):
        return False
    return is_worse(result, without_rules())
