# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules are written to workloads that are created later, and what is wrong with their policies?

Nothing is found where the policies were not read.
"""

from __future__ import annotations

import typing as t
from itertools import groupby

from ..lint.lint_input import LintInput
from ..lint.workloads import lacking_by_labels, lacks
from ..model.admission_policy import AdmissionPolicy, deletion
from ..model.findings import Finding
from ..model.objects import Ref
from ..model.rendering import listed, plural
from ..model.rule import Rule, RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, Unreadable
from ..rules.members import resolve
from ..rules.ownership import OwnedRule
from ..rules.ownership_index import OwnershipIndex
from ..rules.stored_rules import Coverage, StoredRules, stored_options
from ..view.selection import WorkloadLookup
from ..view.view import view_of
from .members import new_members
from .policy import MUTATES_SINCE, is_changed
from .stored import rules_of_policy

_Carried = t.Mapping[RuleId, t.Mapping[Ref, OwnedRule]]
_WRITE_AGAIN = "Run rules with all rules of the set and with new_members"
_DELETE = "Delete the policy and its bindings"
_DAMAGED = "its annotation placement.virt/rules cannot be read"


def policy_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """What is wrong with the policies, and which rule sets have none."""
    cluster = lint_input.cluster
    if cluster is None or cluster.policies is None:
        return
    carried = StoredRules(OwnershipIndex.of(view_of(cluster)), cluster).members
    rules_of_policies: list[Rule] = []
    for policy in cluster.policies:
        rules = rules_of_policy(policy)
        of_set = policy.namespace, policy.rule_set
        own = {rule: x for rule, x in carried.items() if (rule.namespace, rule.rule_set) == of_set}
        yield from _refused(policy)
        if of_no_rule := _of_no_rule(policy, rules or (), own, cluster):
            yield of_no_rule
        else:
            in_force = own.keys() - set(map(RuleId.parse, lint_input.rules_left_by_undo))
            yield from _stale(policy, rules, {rule: own[rule] for rule in in_force})
            rules_of_policies += rules or ()
    yield from _not_written(rules_of_policies, lint_input, cluster)
    chosen = {x for s in lint_input.subjects for x in s.declared.chosen}
    by_labels = sorted(map(RuleId.parse, chosen - lint_input.rules_left_by_undo))
    covering = {(x.namespace, x.rule_set) for x in cluster.policies}
    how = "policy" if cluster.platform.kubernetes >= MUTATES_SINCE else "warn"
    for (namespace, rule_set), group in groupby(by_labels, lambda x: (x.namespace, x.rule_set)):
        if (namespace, rule_set) not in covering:
            yield Finding(
                "new_members_not_covered",
                "info",
                f"The rules {listed([x.name for x in group], 5)} of the set {rule_set} choose workloads by labels, and"
                " workloads that are created later have none of them until rules are written again.",
                f"Run rules with new_members {how}, or write the rules again after each creation.",
                (Ref("Namespace", "", namespace),),
            )


def coverage(snapshot: Snapshot) -> Coverage:
    """How new members get a rule: `policy`, `warn`, or `none`; `unknown` where that cannot be said."""
    if snapshot.policies is None:
        return Coverage(lambda rule: "unknown")
    covered: dict[RuleId, str] = {}
    unknown = set()
    warnings_first = sorted(snapshot.policies, key=lambda x: x.mutates)
    read = [(policy, rules_of_policy(policy)) for policy in warnings_first]
    for policy, rules in read:
        if all(any(_limits(binding)) for binding in policy.bindings):
            continue
        if rules is None or is_changed(policy):
            unknown.add((policy.namespace, policy.rule_set))
            continue
        written = {member.rule for member in new_members(rules, snapshot).members}
        otherwise = "unknown" if _lacks_lists(snapshot, policy) else "none"
        how = "policy" if policy.mutates else "warn"
        covered |= {x.id: how if x.id in written else otherwise for x in rules}
    return Coverage(
        lambda rule: covered.get(
            rule, "unknown" if (rule.namespace, rule.rule_set) in unknown else "none"
        ),
        {x.id: x for _policy, rules in read for x in rules or ()},
        tuple(
            Unreadable(f"rules of {policy.ref}", policy.namespace, "read", _DAMAGED)
            for policy, rules in read
            if rules is None
        ),
    )


def _lacks_lists(cluster: Snapshot, policy: AdmissionPolicy) -> bool:
    return any(gap.namespace in ("", policy.namespace) for gap in cluster.unreadable)


def _limits(binding: AdmissionPolicy) -> t.Iterator[str]:
    """Why the policy does not hold by a binding for all that it is about. That of a mutating policy has no actions."""
    if not binding.spec.keys() <= {"policyName", "validationActions"}:
        yield "is for a part of the workloads"
    if "Warn" not in (binding.spec.get("validationActions") or ["Warn"]):
        yield "does not warn"


def _refused(policy: AdmissionPolicy) -> t.Iterator[Finding]:
    """What stops a policy, and what makes it stop creations."""
    seen = [
        *(f"its failurePolicy is {x}" for x in [policy.spec.get("failurePolicy")] if x != "Ignore"),
        *(f"its binding {x.name} {why}" for x in policy.bindings for why in _limits(x)),
        *(
            f"its binding {x.name} refuses creations"
            for x in policy.bindings
            if "Deny" in (x.spec.get("validationActions") or ())
        ),
        *([] if policy.bindings else ["it has no binding, so the API server does not ask it"]),
    ]
    if seen:
        yield Finding(
            "policy_refused",
            "warning",
            f"The policy for new members of the set {policy.rule_set} in {policy.namespace} does not do what was"
            f" written: {'; '.join(seen)}.",
            f"{_WRITE_AGAIN}, and delete bindings of others.",
            (policy.ref,),
        )


def _of_no_rule(
    policy: AdmissionPolicy, rules: t.Sequence[Rule], carried: _Carried, cluster: Snapshot
) -> Finding | None:
    """A policy of which nothing else is left. One about workloads that do not exist yet is none. `carried`: the rules
    of its set that workloads have."""
    if _lacks_lists(cluster, policy):
        return None
    members = [
        str(x.ref) for rule in rules for x in resolve(rule, view_of(cluster), []).members.workloads
    ]
    if policy.namespace not in cluster.namespaces_by_name:
        seen = (
            f"There is no namespace {policy.namespace}, and a new one of this name would get them"
        )
        advice = f"Unless that is wanted, run {deletion(policy.namespace, [policy.kind])}."
    elif carried or not members or not policy.mutates:
        return None
    else:
        seen = f"No workload has a rule of the set {policy.rule_set}, though {listed(members, 3)} could"
        advice = (
            f"Where the rules are still wanted, run rules with new_members. {_DELETE} where they are"
            " not."
        )
    return Finding(
        "policy_of_no_rule",
        "warning",
        f"{policy.ref} still has {plural(len(rules), 'rule') if rules else 'rules'} for new members. {seen}.",
        advice,
        (policy.ref,),
    )


def _stale(
    policy: AdmissionPolicy, rules: t.Iterable[Rule] | None, carried: _Carried
) -> t.Iterator[Finding]:
    """A policy that does not write what the workloads have."""
    seen, advice = "", f"{_WRITE_AGAIN}."
    if rules is None:
        seen = _DAMAGED
        advice = f"{_DELETE}. {advice}"
    elif is_changed(policy):
        seen = "another client changed its spec"
    else:
        declared = {rule.id: (stored_options(rule), rule.enabled) for rule in rules}
        other = [
            rule
            for rule, owned in sorted(carried.items())
            if (rule in declared or any(x.chosen for x in owned.values()))
            and any((x.declared, x.enabled) != declared.get(rule) for x in owned.values())
        ]
        parts = {
            "the policy lacks": [x.name for x in other if x not in declared],
            "workloads have other options of": [x.name for x in other if x in declared],
        }
        seen = "; ".join(f"{text} {listed(names, 5)}" for text, names in parts.items() if names)
    if seen:
        yield Finding(
            "policy_stale",
            "warning",
            f"New members of the set {policy.rule_set} in {policy.namespace} do not get the rules that its workloads"
            f" have: {seen}.",
            advice,
            (policy.ref,),
        )


def _not_written(
    rules: t.Iterable[Rule], lint_input: LintInput, cluster: Snapshot
) -> t.Iterator[Finding]:
    """Workloads that rules of policies name, and that lack these rules. Those of which their labels say it already are
    left out."""
    subjects = {subject.ref for subject in lint_input.subjects}
    lacking = {
        (rule.id, ref)
        for rule in rules
        for selector in (rule.workloads if rule.enabled else ())
        for ref in _chosen(selector, cluster)
        if ref in subjects and lacks(lint_input.by_ref[ref], str(rule.id))
    }
    if lacking:
        lacking -= {(rule_id, ref) for ref, rule_id in lacking_by_labels(lint_input)}
    for rule_id, pairs in groupby(sorted(lacking), lambda pair: pair[0]):
        yield Finding(
            "rule_not_on_new_member",
            "warning",
            f"It is a member of rule {rule_id.in_namespace} of the policy for new members, and lacks the rule: the"
            " policy did not write it at the creation, or another client removed it. The rule has no effect on its"
            " placement.",
            f"Write all rules of the set {rule_id.rule_set} again with new_members (playbook apply, or module"
            " rules). If it is no member, take it out of the rule first.",
            tuple(ref for _rule_id, ref in pairs),
            rule_id.name,
            named=(),
        )


def _chosen(selector: WorkloadSelector, cluster: Snapshot) -> t.Iterable[Ref]:
    """The workloads that names or labels choose. Those with names may not exist, or could not be read."""
    if selector.labels is None:
        return (Ref(selector.kind, selector.namespace, name) for name in selector.names)
    return WorkloadLookup(view_of(cluster), []).select(selector, "")
