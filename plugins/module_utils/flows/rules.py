# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rules from its options to its result: one reading, one plan, one patch for each object that differs."""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from dataclasses import replace

from ..api.client import ApiClient
from ..cluster.expanded_templates import with_expanded_templates
from ..cluster.reading import ReadScope, reaches_across, read_more, read_snapshot
from ..compliance.terms import term_changes
from ..interface.arguments import rules_data, topology_of
from ..interface.results import warn_once
from ..interface.runner import PartialFailure
from ..kinds.registry import RULE_KINDS
from ..kubevirt.moving import MIGRATION, RECREATION, RESTART, end_of_hold
from ..model.findings import (
    FINDING_NAMES,
    FORECAST_RESULT,
    ONLY_OF_FORECASTS,
    SEVERITIES,
    Finding,
    InputError,
    TaskError,
    sentences,
)
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.rendering import Entry, listed, one_line, outcome, plural
from ..model.rule import Avoid, PodSelector, RawTerms, Rule, RunOn
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..model.write import Write, writes_result
from ..rules.change import HELD, NO_HOLDING
from ..rules.checks import how_to_accept
from ..rules.members import targets_of
from ..rules.parse import read_rules
from ..rules.plan import plan_rules
from ..rules.policy_plan import NONE, WrittenPolicies
from ..rules.registry import HOLDS, RESTORATIONS
from ..rules.rules_plan import ExtraFindings, RulesPlan, Written
from ..rules.rules_request import RulesRequest
from ..view.label_input import NO_LABELS, NodeLabels, assumed_node_labels, with_node_labels
from .rule_policies import policies_result, policy_entries, with_policy_plan

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, PartialFailure where findings refuse
    the plan or some objects could not be written, and ApiError."""
    params = module.params
    topology = topology_of(params)
    request = rules_request(params, topology, workload_rollout=params["workload_rollout"])
    faults: list[InputError] = []
    assumed = assumed_node_labels(params["assume_node_labels"], topology, faults)
    refusal = _forecast_refusal(params, faults)
    of_forecast = _findings_of_forecast(params, faults)
    written = write_rules(
        api,
        replace(request, faults=(*faults, *request.faults)),
        check=module.check_mode,
        extra_findings=lambda *plan: (*_lint(topology, *plan), *of_forecast),
        assumed=assumed if module.check_mode else {},
        refusal=refusal,
    )
    result = _result(written, params, diff=module._diff, check=module.check_mode, topology=topology)
    result |= entries(
        written, params["state"], check=module.check_mode, new_members=params["new_members"]
    )
    _warn(module, written.plan)
    failing = (*written.plan.refused, *written.changed_back)
    errors = [
        *(_refused(finding, sentence) for finding, sentence in sentences(failing)),
        *written.errors.values(),
        *filter(None, [written.refusal]),
    ]
    if errors:
        raise PartialFailure(result, errors)
    return result


def _lint(
    topology: Topology, snapshot: Snapshot, rules: tuple[Rule, ...], writes: tuple[Write, ...]
) -> t.Iterable[Finding]:
    """The findings about what rules declare after the writes. Imported where rules are written: a task that removes
    or restores them starts without the checks."""
    if not rules:
        return ()
    from ..lint.registry import lint_of_writes

    return lint_of_writes(topology)(snapshot, rules, writes)


def _result(
    written: Written, params: t.Mapping[str, t.Any], *, diff: bool, check: bool, topology: Topology
) -> dict[str, t.Any]:
    plan, policies = written.plan, written.policies
    result = {
        **writes_result(
            (*policies.done, *written.done),
            diff=diff,
            elsewhere={
                *(change.ref for change in plan.workloads),
                *(x.target for x in policies.done if x.after is not None),
            },
            words=lambda write: term_changes(write, topology),
            by_hand=policies.plan.writes if check and policies.refused else (),
        ),
        "workloads": written.workloads(),
        "findings": [finding.as_json() for finding in (*plan.findings, *written.changed_back)],
        "counts": written.counts(),
        "held": written.held(),
    }
    result |= policies_result(policies, params["new_members"])
    if change := written.change():
        result["change"] = change
    if restoration := RESTORATIONS.get(params["state"]):
        result |= restoration().result(written.as_workloads(plan.members), plan.findings)
    return result


def entries(
    written: Written, state: str, *, check: bool, new_members: str = NONE
) -> dict[str, JSON]:
    """What the task did with the rules, and what it left, for people."""
    done: list[Entry] = []
    would = "that would be " if check else ""
    for part, word in (("added", "added"), ("updated", "changed"), ("removed", "removed")):
        names = Counter(x.name for each in written.changes for x in getattr(each.merged, part))
        if names:
            named = (f"{name} ({plural(count, 'workload')})" for name, count in names.items())
            done.append(Entry(f"rules_{part}", f"rules {would}{word}", tuple(named)))
    failed = tuple(ref.namespaced_name for ref in sorted(written.failed))
    text = f"rules {'cannot' if check else 'could not'} be written"
    skipped = [Entry("not_written", text, failed)] if failed else []
    if restoration := RESTORATIONS.get(state):
        restored, left = restoration().entries(written.plan, written.changes, check)
        done, skipped = [*done, *restored], [*skipped, *left]
    elif not (done or skipped or written.policies.done or written.policies.refused):
        done = [Entry("unchanged", f"rules: {_unchanged(written.plan, state)}")]
    more_done, more_skipped, following = policy_entries(
        written.policies, new_members, check=check, restores=state in RESTORATIONS
    )
    done, skipped = [*more_done, *done], [*skipped, *more_skipped]
    if written.is_refused:
        done = [Entry("none_written", f"rules: none {'would be' if check else 'was'} written")]
    held = [Ref(**ref) for ref in written.held()]
    if held:
        done.append(Entry("held", f"workload rollouts {would}held", tuple(map(str, held))))
    if held and not check:
        following.append(end_of_hold(held, ["migrate"], tried=False))
    return outcome(done, skipped, following)


def _unchanged(plan: RulesPlan, state: str) -> str:
    if state == "absent":
        return "nothing to remove"
    return "nothing to change, " + (
        "all of them are written already" if plan.about else "they choose no workload that exists"
    )


def _warn(module: AnsibleModule, plan: RulesPlan) -> None:
    params = module.params
    warn_once(module.warn, (finding for finding in plan.findings if finding not in plan.refused))
    if params["fail_on_forecast"] and (params["forecast"] or {}).get("permission_gaps"):
        reasons = "; ".join(map(str, params["forecast"]["reasons"]))
        module.warn(one_line(f"no forecast of these rules could be made: {reasons}"))
    if module.check_mode and not plan.refused and (why := more_than_migration(plan)):
        module.warn(str(why))


def _refused(finding: Finding, sentence: str) -> TaskError:
    """Why a finding refuses the rules: it is an error, or fail_on_findings names it."""
    rule = f"rule {finding.rule}" if finding.rule else ""
    option = "" if finding.severity == "error" else " Refused by fail_on_findings."
    option += how_to_accept(finding)
    text = f"{rule}, {sentence}{option}" if rule else f"{sentence}{option}"
    return TaskError("finding", text, rule)


def with_restarts(plan: RulesPlan) -> RulesPlan:
    """The plan in which the change of a VM that can never migrate takes effect by a restart."""
    tied = {ref for finding in plan.findings if finding.never_migrates for ref in finding.objects}
    changes = (
        replace(x, takes_effect=RESTART) if x.ref in tied and x.takes_effect == MIGRATION else x
        for x in plan.workloads
    )
    return replace(plan, workloads=tuple(changes))


def more_than_migration(plan: RulesPlan) -> Obstacle | None:
    """Why a live migration does not bring all running workloads under the change."""
    methods = {
        change.ref: change.takes_effect
        for change in plan.workloads
        if change.takes_effect in (RESTART, RECREATION)
    }
    if not methods:
        return None
    need = "needs" if len(methods) == 1 else "need"
    allow = ", ".join(["migrate", *(x for x in (RESTART, RECREATION) if x in methods.values())])
    names = listed([f"{ref} ({method})" for ref, method in methods.items()])
    return Obstacle(
        "needs_restart",
        f"{names} {need} more than a live migration before the change is enforced: set allow of"
        f" rollout to [{allow}]",
    )


def rules_request(
    params: t.Mapping[str, t.Any], topology: Topology, *, workload_rollout: str
) -> RulesRequest:
    """The request that the options describe, with the faults of its rules. Raises InvalidInput
    where `rules` is text that is no YAML."""
    parsed = read_rules(
        rules_data(params["rules"]),
        namespace=params["namespace"],
        rule_set=params["rule_set"],
        topology=topology,
        absent=params["state"] == "absent",
    )
    adopt = str(params["adopt"]).lower()
    return RulesRequest(
        namespace=params["namespace"],
        rule_set=params["rule_set"],
        rules=parsed.rules,
        state=params["state"],
        prune=params["prune"],
        adopt=adopt != "false",
        adopt_similar=adopt == "similar",
        workload_rollout=workload_rollout,
        holding=HOLDS.get(HELD, NO_HOLDING),
        fail_on_findings=tuple(params.get("fail_on_findings") or ()),
        faults=parsed.faults,
        broken=parsed.broken,
        at=utc_now(),
        undoes=params.get("change") or "",
        new_members=params.get("new_members") or NONE,
    )


def utc_now() -> str:
    """The time that the record of a change has, by the clock of the job."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_rules(
    api: ApiClient,
    request: RulesRequest,
    *,
    check: bool,
    extra_findings: ExtraFindings | None = None,
    assumed: NodeLabels = NO_LABELS,
    refusal: TaskError | None = None,
) -> Written:
    """Writes the rules of `request`. Nothing is stored in check mode, which asks the server by dry runs. Nothing is
    sent if findings refuse the plan, or the forecast does, which `refusal` is then about.
    Raises InvalidInput with all faults or all missing rights, and ApiError."""
    faults = list(request.faults)
    scope = scope_of(request)
    snapshot = with_node_labels(_read(api, scope), assumed, faults)
    request = replace(request, faults=tuple(faults))
    snapshot, request = with_policy_plan(api, snapshot, request)
    snapshot, plan = _planned(api, snapshot, request, extra_findings)
    plan = with_restarts(plan)
    if plan.refused or not (plan.writes or request.policies.writes):
        return Written(plan, policies=WrittenPolicies(request.policies))
    if refusal:
        return Written(plan, refusal=refusal, policies=WrittenPolicies(request.policies))
    from .rule_writes import write

    return write(api, plan, request.policies, check)


def _read(api: ApiClient, scope: ReadScope) -> Snapshot:
    """A reading for a plan. Pods of all namespaces are read where a template selects some of another one."""
    snapshot = read_snapshot(api, scope)
    if scope.pod_namespaces is None or not reaches_across(snapshot, scope.pod_namespaces):
        return snapshot
    return read_more(api, snapshot, scope, replace(scope, pod_namespaces=None))


def _planned(
    api: ApiClient, snapshot: Snapshot, request: RulesRequest, extra_findings: ExtraFindings | None
) -> tuple[Snapshot, RulesPlan]:
    """As `plan_with_instance_types`. Volumes are read if rules name nodes that these may not reach."""
    if restoration := RESTORATIONS.get(request.state):
        return snapshot, restoration().plan(snapshot, request, extra_findings)
    expanded, plan = plan_with_instance_types(api, snapshot, request, extra_findings)
    if not any(isinstance(rule.rule_type, (RunOn, Avoid, RawTerms)) for rule in request.rules):
        return snapshot, plan
    from ..cluster.read_storage import claims_of, with_claim_terms

    members = (workload for workload in snapshot.workloads if workload.ref in plan.members)
    bound = with_claim_terms(api, expanded, claims_of(members))
    if bound.claim_terms == expanded.claim_terms:
        return snapshot, plan
    return snapshot, plan_rules(bound, request, extra_findings=extra_findings)


def plan_with_instance_types(
    api: ApiClient,
    snapshot: Snapshot,
    request: RulesRequest,
    extra_findings: ExtraFindings | None,
) -> tuple[Snapshot, RulesPlan]:
    """The plan, and the snapshot with the expanded templates of the halted members that have an
    instance type: which VMs these are, only the plan knows."""
    if restoration := RESTORATIONS.get(request.state):
        plan = restoration().plan(snapshot, request, extra_findings)
        return with_expanded_templates(api, snapshot, plan.members), plan
    plan = plan_rules(snapshot, request, extra_findings=extra_findings)
    expanded = with_expanded_templates(api, snapshot, plan.members)
    if expanded is snapshot:
        return snapshot, plan
    return expanded, plan_rules(expanded, request, extra_findings=extra_findings)


def _forecast_refusal(params: t.Mapping[str, t.Any], faults: list[InputError]) -> TaskError | None:
    """The error of rules that the forecast refuses. Problems that exist without the rules do not refuse them, and
    neither does what could not be read."""
    if not params["fail_on_forecast"] or params["state"] == "absent":
        return None
    forecast = params["forecast"] or {}
    missing = [x for x, kind in FORECAST_RESULT.items() if not isinstance(forecast.get(x), kind)]
    if missing:
        text = f"must be what forecast_info returned for these rules; it has no {listed(missing)}"
        faults.append(InputError("forecast", text))
        return None
    answer = forecast["forecast"]
    refuses = answer in params["fail_on_forecast"] and forecast["worsened_by_rules"]
    if not refuses or forecast["permission_gaps"]:
        return None
    text = (
        f"the forecast of these rules is {answer}: {'; '.join(map(str, forecast['reasons']))}. Change the rules, or"
        f" take {answer} out of fail_on_forecast to write them all the same"
    )
    return TaskError("finding", text, "fail_on_forecast")


def _findings_of_forecast(
    params: t.Mapping[str, t.Any], faults: list[InputError]
) -> tuple[Finding, ...]:
    """The findings that only the forecast of the rules has. What `fail_on_findings` names that is neither a
    finding nor a severity is added to `faults`."""
    known = {*FINDING_NAMES, *SEVERITIES}
    for name in params["fail_on_findings"]:
        if name not in known:
            text = f"unknown finding or severity {name!r}{nearest(name, known)}"
            faults.append(InputError("fail_on_findings", text))
    listed = (params["forecast"] or {}).get("findings") or ()
    return tuple(
        Finding(
            x["name"], "warning", str(x.get("why")), str(x.get("advice")), rule=x.get("rule") or ""
        )
        for x in listed
        if isinstance(x, dict) and x.get("name") in ONLY_OF_FORECASTS
    )


def scope_of(request: RulesRequest) -> ReadScope:
    """What has to be read to plan the request: of pods their labels and owners, in the namespaces that
    rules select pods in. Terms as the Kubernetes API has them may select pods anywhere."""
    targets = [target for rule in request.rules for _where, target in targets_of(rule)]
    workloads = {x.namespace for x in targets if not isinstance(x, PodSelector)}
    workloads.add(request.namespace)
    pods = {name for x in targets if isinstance(x, PodSelector) for name in x.namespaces}
    anywhere = any(isinstance(rule.rule_type, RawTerms) for rule in request.rules)
    return ReadScope(
        namespaces=_readable(workloads),
        kinds=RULE_KINDS,
        pods="metadata",
        pod_namespaces=None if anywhere else _readable(workloads | pods),
        migrations="",
        volumes="",
    )


def _readable(namespaces: t.Iterable[str]) -> tuple[str, ...]:
    """Those that can be in a path; the others are errors of the options."""
    return tuple(sorted(name for name in namespaces if name.strip() and "/" not in name))
