# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which policy does a task of rules write for new members, and which of its rules does that not cover?

The diff of a policy shows its new members, each as the diff of a workload that gets the same.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.admission_policy import MUTATING
from ..model.json_pointer import JSON
from ..model.kinds import RULES
from ..model.objects import Ref
from ..model.obstacle import NO_POLICY, Obstacle
from ..model.rendering import label_text
from ..model.rule import Rule, RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, applied_by
from ..model.write import Write
from ..rules.draft import RequestedRules
from ..rules.merge import merge
from ..rules.plan import is_named
from ..rules.policy_plan import NONE, POLICY, PolicyPlan, policy_path, policy_writes
from ..rules.record import RuleSetChange
from ..rules.rules_request import STATES, RulesRequest
from ..rules.term_slots import digest
from .members import NewMember, new_members, stand_in, stand_ins_of_names
from .policy import mutating_policy, warning_policy, why_no_policy
from .stored import rules_of_policy, rules_text

_EXPRESSIONS = ("matchConditions", "variables", "mutations")
"""Fields of a spec that are code for the API server."""


def plan_policies(request: RulesRequest, snapshot: Snapshot) -> PolicyPlan:
    """What the request makes of the policies of its rule set."""
    own = [
        policy
        for policy in snapshot.policies or ()
        if (policy.namespace, policy.rule_set) == (request.namespace, request.rule_set)
    ]
    unchanged = tuple(x for policy in own for x in (policy, *policy.bindings))
    before: dict[str, tuple[Rule, ...]] = {}
    for policy in own:
        rules = rules_of_policy(policy)
        if rules is None:
            why = Obstacle(
                NO_POLICY,
                f"the rules in the annotation {RULES} of {policy.ref} cannot be read",
                advice="Delete the policy and its binding, and write all rules of the set again.",
            )
            return PolicyPlan(why_none=why, unchanged=unchanged)
        before[policy_path(policy.ref)] = rules
    stored = [rule for rules in before.values() for rule in rules]
    after = _rules_after(request, stored, snapshot)
    only_removes = request.state != "present" or request.new_members == NONE
    kept = _kept(request, after, stored)
    if request.new_members == NONE and after == stored:
        return PolicyPlan(
            kept=kept,
            rules=tuple(sorted(x.id for x in stored if x.enabled)),
            unchanged=unchanged,
        )
    mutates = any(x.mutates for x in own) if only_removes else request.new_members == POLICY
    plan = plan_of_rules(request, snapshot, after, mutates=mutates)
    if plan.why_none is not None:
        return replace(plan, unchanged=unchanged)
    listed = {rule.id for rule in request.rules} if mutates and not only_removes else ()
    named = [rule for rule in after if rule.id in listed and rule.id in plan.covered]
    rests = {rule.id for rule in stored if not rule.enabled}
    left = {x.id for x in after if plan.manifests and (x.enabled or x.id in rests)}
    return replace(
        plan,
        expected=stand_ins_of_names(named, snapshot),
        removed=tuple(sorted({rule.id for rule in stored} - left)),
        kept=kept,
        rules=tuple(x.id for x in after if x.enabled and x.id in plan.covered),
        narrowed=tuple(x.id for x in after if only_removes and x.id in left and x not in stored),
        appliers=tuple((x.ref, tool) for x in own if (tool := applied_by(x.manifest))),
        writes=_with_members_shown(policy_writes(plan.manifests, own), before, after, snapshot),
    )


def plan_of_rules(
    request: RulesRequest, snapshot: Snapshot, rules: t.Sequence[Rule], *, mutates: bool
) -> PolicyPlan:
    """The policy that has these rules of the set. It only warns of new members without them where it does not
    mutate."""
    rules = [_with_names_in_order(rule) for rule in rules]
    members, not_covered = new_members(rules, snapshot)
    if not members:
        return PolicyPlan(not_covered=not_covered)
    why = why_no_policy(request.namespace, snapshot.platform, members, mutates=mutates)
    if why is not None:
        return PolicyPlan((), not_covered, why)
    make = mutating_policy if mutates else warning_policy
    policy, binding = make(request.namespace, request.rule_set, members)
    annotations = {**policy["metadata"]["annotations"], RULES: rules_text(rules)}
    policy["metadata"] = {**policy["metadata"], "annotations": annotations}
    covered = frozenset(rule.id for rule in rules if rule.id not in not_covered)
    named = frozenset(
        Ref(x.kind.name, request.namespace, name) for x in members for name in x.names
    )
    return PolicyPlan((policy, binding), not_covered, covered=covered, named=named)


def _with_names_in_order(rule: Rule) -> Rule:
    """The same rule however its workloads are listed. What names a workload counts before labels that choose it, whose
    order has a meaning."""
    names = {(x.kind, x.namespace, (name,)) for x in rule.workloads for name in x.names}
    named = (WorkloadSelector(*each) for each in sorted(names))
    return replace(rule, workloads=(*named, *(x for x in rule.workloads if x.labels is not None)))


def _rules_after(request: RulesRequest, stored: t.Iterable[Rule], snapshot: Snapshot) -> list[Rule]:
    """The rules of the policy after the request: those that it lists, and others that the policy has. None after an
    undo: which of them the last change has added is not known where no workload has them."""
    if request.state not in STATES:
        return []
    listed = {rule.id: rule for rule in request.rules}
    after = {rule.id: rule for rule in stored if not request.prune}
    if request.state == "absent":
        parts = (_without(rule, listed.get(rule.id), snapshot) for rule in after.values())
        return [rule for rule in parts if rule is not None]
    if request.new_members == NONE:
        return [rule for rule in after.values() if rule.id not in listed]
    for rule in request.rules:
        if not rule.is_named_alone:
            after[rule.id] = rule
        elif rule.id in after:
            after[rule.id] = replace(after[rule.id], enabled=False)
    return sorted(after.values(), key=lambda rule: rule.id)


def _kept(
    request: RulesRequest, after: t.Iterable[Rule], stored: t.Collection[Rule]
) -> tuple[RuleId, ...]:
    """The rules that workloads lose while labels in the policy still choose new ones."""
    partly = {x.id for x in request.rules if request.state == "absent" and x.workloads}
    same = (rule for rule in after if rule.id in partly and rule in stored)
    return tuple(x.id for x in same if any(y.labels is not None for y in x.workloads))


def _without(rule: Rule, gone: Rule | None, snapshot: Snapshot) -> Rule | None:
    """The rule without the workloads that it is removed from; None where none is left. Labels stay while they choose
    others, too."""
    if gone is None:
        return rule
    left = tuple(y for x in rule.workloads for y in _left(x, gone.workloads, snapshot))
    if gone.everywhere or (rule.workloads and not left):
        return None
    return replace(rule, workloads=left)


def _left(
    selector: WorkloadSelector, gone: t.Sequence[WorkloadSelector], snapshot: Snapshot
) -> list[WorkloadSelector]:
    """What is left of one selector: itself, with fewer names, or nothing."""
    alike = [x for x in gone if (x.kind, x.namespace) == (selector.kind, selector.namespace)]
    if selector.labels is not None:
        chosen = selector.labels.items()
        whole = any(x.labels is not None and x.labels.items() <= chosen for x in alike)
        return [] if whole else [selector]
    named = {name for x in alike for name in x.names}
    named |= {x.ref.name for x in snapshot.workloads if is_named(alike, x)}
    names = tuple(name for name in selector.names if name not in named)
    return [replace(selector, names=names)] if names else []


def _with_members_shown(
    writes: t.Iterable[Write],
    before: t.Mapping[str, t.Sequence[Rule]],
    after: t.Sequence[Rule],
    snapshot: Snapshot,
) -> tuple[Write, ...]:
    """The writes with the new members of policies in place of expressions. `before`: the rules of each policy by its
    path; `after`: those of the policy that stays."""
    return tuple(
        replace(
            write,
            before=_shown(write, write.before, before.get(write.path, ()), snapshot),
            after=_shown(write, write.after, after, snapshot),
        )
        for write in writes
    )


def _shown(write: Write, spec: JSON, rules: t.Sequence[Rule], snapshot: Snapshot) -> JSON:
    if spec is None or "policyName" in spec:  # a binding
        return spec
    members = new_members(rules, snapshot).members
    return {
        "new_members": [_member(x, write.target.kind == MUTATING) for x in members],
        **{name: value for name, value in spec.items() if name not in _EXPRESSIONS},
        "expressions": digest([spec.get(name) for name in _EXPRESSIONS], 12),
    }


def _member(member: NewMember, mutates: bool) -> JSON:
    """The `workloads` of a new member in words, with what each of them gets."""
    kind, labels = member.kind.name, member.labels
    names = [f"{kind} {name}" for name in member.names]
    if labels is not None:
        pairs = (label_text(*pair) for pair in sorted(labels.items()))
        names = [f"each {kind} with {', '.join(pairs)}"]
    if not mutates:
        return {"workloads": names, "rules": [str(member.rule)], "warns": True}
    wanted = RequestedRules(
        {member.rule: member.terms},
        RuleSetChange(f"{member.rule.namespace}/{member.rule.rule_set}", 1, ""),
        stored={member.rule: member.stored},
    )
    write = merge(stand_in(Ref(kind, member.rule.namespace, "new"), {}), wanted).write
    return {**(write.after if write is not None else {}), "workloads": names}
