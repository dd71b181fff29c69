# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of the policies of a rule set, for workloads that are created later? Read, planned, and as a result."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..cluster.read_policies import with_policies
from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import Entry
from ..model.rule import RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, unreadable_texts
from ..rules.plan import is_named
from ..rules.policy_plan import NONE, PolicyPlan, WrittenPolicies
from ..rules.registry import NEW_MEMBERS
from ..rules.rules_request import RulesRequest


def with_policy_plan(
    api: ApiClient, snapshot: Snapshot, request: RulesRequest
) -> tuple[Snapshot, RulesRequest]:
    """The request with what it makes of the policies of its set, and the snapshot with stand-ins of the workloads that
    its rules name and that do not exist yet. Why there can be no policy is a fault of the request."""
    plan_policies = next(iter(NEW_MEMBERS.values()), None)
    if plan_policies is None or "/" in request.namespace or not request.namespace.strip():
        return snapshot, request
    snapshot = with_policies(api, snapshot, (request.namespace,))
    gaps = unreadable_texts(snapshot.policy_gaps)
    if request.new_members == NONE and not snapshot.policies:
        unread = tuple(gaps) if request.removes_rules else ()
        return snapshot, replace(request, policies=PolicyPlan(unread=unread, is_known=not gaps))
    faults = [InputError("new_members", text, "permission") for text in gaps]
    plan = plan_policies()(request, snapshot)
    if (why := plan.why_none) is not None and request.new_members != NONE:
        faults.append(InputError("new_members", f"{why}. {why.advice}".strip()))
    plan = replace(plan, there=_there(request, plan, snapshot))
    request = replace(request, policies=plan, faults=(*request.faults, *faults))
    return replace(snapshot, workloads=(*snapshot.workloads, *plan.expected)), request


def _there(
    request: RulesRequest, plan: PolicyPlan, snapshot: Snapshot
) -> tuple[WorkloadSelector, ...]:
    """What the rules choose, without names of workloads that do not exist yet, and labels that no workload has."""
    expected = plan.expected_refs
    there: list[WorkloadSelector] = []
    for x in (x for rule in request.rules for x in rule.workloads):
        names = tuple(n for n in x.names if Ref(x.kind, x.namespace, n) not in expected)
        left = replace(x, names=names)
        if names or (left not in there and any(is_named([left], w) for w in snapshot.workloads)):
            there.append(left)
    return tuple(there)


def policies_result(written: WrittenPolicies, mode: str) -> dict[str, JSON]:
    """The part `new_members` of the result; empty for a task that is not about policies."""
    plan = written.plan
    if mode == NONE and not plan.writes:
        return {}
    meanwhile = [ref._asdict() for ref in sorted(written.without_rules)]
    there = [{"kind": x.kind, "namespace": x.namespace, **x.chosen_by} for x in plan.there]
    return {
        "new_members": policy_result(written) | {"created_meanwhile": meanwhile, "workloads": there}
    }


def policy_result(written: WrittenPolicies) -> dict[str, JSON]:
    """The policy, and what it is about."""
    plan = written.plan
    return {
        "manifests": list(plan.manifests),
        "covered": sorted(rule.name for rule in plan.covered),
        "not_covered": [
            {"rule": rule.name, "code": why.code, "reason": str(why), "advice": why.advice}
            for rule, why in sorted(plan.not_covered.items())
        ],
        "expected": [ref._asdict() for ref in written.expected],
    }


def policy_entries(
    written: WrittenPolicies, mode: str, *, check: bool, restores: bool
) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """What was written for workloads that are created later, what was not, and what is left to be done, for people."""
    return (
        list(_done(written, check)),
        list(_skipped(written, mode, check)),
        list(_following(written, restores)),
    )


def _skipped(written: WrittenPolicies, mode: str, check: bool) -> t.Iterator[Entry]:
    plan = written.plan
    for rule, why in sorted(plan.not_covered.items()) if mode != NONE else ():
        yield Entry(
            why.code,
            "not in the policy for workloads that are created later, since its terms depend on those that exist",
            (rule.name,),
        )
    if written.refused is not None:
        yield Entry(
            "policy_not_written",
            f"policy {'cannot' if check else 'could not'} be written: {written.refused}",
            tuple(dict.fromkeys(str(write.target) for write in plan.writes)),
        )
    if plan.unread or (mode == NONE and plan.why_none is not None):
        why_unknown = "; ".join(plan.unread) or str(plan.why_none)
        yield Entry(
            "policy_unknown",
            f"unknown whether a policy gives these rules to workloads that are created later: {why_unknown}",
        )
    if plan.kept:
        yield Entry(
            "policy_rules_kept",
            "stay in the policy, whose labels still choose workloads that are created later",
            _names(plan.kept),
        )
    if written.without_rules:
        yield Entry(
            "created_meanwhile",
            "there without their rules: created before the policy was in force, cloned, or with an annotation that"
            " cannot be read",
            tuple(ref.namespaced_name for ref in sorted(written.without_rules)),
        )


def _following(written: WrittenPolicies, restores: bool) -> t.Iterator[Entry]:
    if written.refused is not None:
        yield Entry("policies_writer", f"for the policy: {written.refused.advice}")
    for policy, tool in written.plan.appliers if written.done or written.refused else ():
        step = (
            "commit the manifests in new_members of the result to"
            if written.plan.manifests
            else "remove the policy and its binding from"
        )
        yield Entry(
            "externally_managed",
            f"{tool} applies the policy, too, and puts it back: before the next sync {step} its source",
            (str(policy),),
        )
    if written.without_rules:
        yield Entry(
            "created_meanwhile",
            "run the same again: it writes their rules to workloads that were created meanwhile, and says what a clone"
            " or a damaged annotation needs first",
        )
    if written.plan.removed and restores and written.refused is None:
        yield Entry(
            "policy_rules_removed",
            "an undo takes all rules out of the policy, and none out of workloads that have them from it; to put these"
            " back: rules with new_members; to remove them: state absent",
            _names(written.plan.removed),
        )


def _done(written: WrittenPolicies, check: bool) -> t.Iterator[Entry]:
    plan = written.plan
    what = f"policy for workloads that are created later {'would be ' if check else ''}"
    policies = [x for x in written.done if not x.target.kind.endswith("Binding")] or written.done
    if names := tuple(str(write.target) for write in policies if write.after is not None):
        yield Entry("policy_written", f"{what}written", names)
    if names := tuple(str(write.target) for write in policies if write.after is None):
        yield Entry("policy_removed", f"{what}removed", names)
    if plan.removed and written.done:
        yield Entry(
            "policy_rules_removed",
            f"rules that new workloads {'would no longer' if check else 'no longer'} get",
            _names(plan.removed),
        )
    if plan.narrowed and written.done:
        yield Entry(
            "policy_rules_narrowed",
            f"rules that {'would stay' if check else 'stay'} in the policy for their other workloads",
            _names(plan.narrowed),
        )
    names = tuple(ref.namespaced_name for ref in written.expected if ref in plan.named)
    if names and written.refused is None:
        yield Entry("expected", "get their rules when they are created", names)


def _names(rules: t.Iterable[RuleId]) -> tuple[str, ...]:
    return tuple(rule.name for rule in rules)
