# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which findings does a rule have by itself, and which because of what is already in a template?

By itself: no members, a single member, a selector that misses running pods or selects other pods, fields that
the server lacks, checks that were skipped. Lint finds what is wrong with the state after the write.
"""

from __future__ import annotations

import difflib
import json
import re
import typing as t

from ..kinds.registry import kind_of
from ..model.findings import Finding, Severity, near_names, rules_text
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.rendering import listed
from ..model.rule import KeepApart, PodSelector, Rule, RuleId, Spread
from ..model.snapshot import Unreadable, Workload
from ..scheduler.labels import matches
from ..view.view import ClusterView
from .compile import Compiled
from .members import Resolved, Selection, targets_of
from .term_slots import WEIGHTED_POD_TERMS, TemplateTerm, TermLocation

SELECTOR_MISSES_MEMBERS = "selector_misses_members"
SELECTOR_MATCHES_OTHERS = "selector_matches_others"
CHECK_SKIPPED = "check_skipped"


def selector_findings(rule: Rule, selection: Selection, view: ClusterView) -> t.Iterator[Finding]:
    """Members that the selector misses, and pods outside the group that it selects."""
    gap = view.snapshot.why_unreadable("pods", selection.namespace)
    if gap is not None:
        yield unchecked(gap, f"Which running pods the selector of rule {rule.id.name} selects")
        return
    if not selection.members:
        return
    selector = selection.selector()
    own = {pod.uid: (w, pod) for w in selection.members for pod in view.pods_of(w)}
    missed = [w for w, pod in own.values() if not matches(selector, pod.labels)]
    if missed and selection.label is None:
        yield _misses(rule, selection, missed)
    other_pods = [
        pod.ref
        for pod in view.pods_by_namespace.get(selection.namespace, ())
        if pod.uid not in own and not pod.terminating and matches(selector, pod.labels)
    ]
    if other_pods:
        yield matches_others(rule, selection, other_pods)


def _misses(rule: Rule, selection: Selection, missed: t.Sequence[Workload]) -> Finding:
    refs = tuple(dict.fromkeys(workload.ref for workload in missed))
    return Finding(
        SELECTOR_MISSES_MEMBERS,
        "warning",
        f"Running pods of {listed(refs, 3)} do not carry {_selector_text(selection)}, so the rule does"
        " not count them.",
        "Restart them, so that they get the labels of their templates, or select the workloads by name.",
        refs,
        rule.id.name,
    )


def matches_others(rule: Rule, selection: Selection, others: t.Sequence[Ref]) -> Finding:
    """`others` are pods outside the group that the selection selects, or workloads of such pods."""
    return Finding(
        SELECTOR_MATCHES_OTHERS,
        "warning",
        f"{_selector_text(selection)} also selects {listed(others, 3)}, which the rule is not about.",
        "Use labels that only the workloads of the rule have, or give the rule a label.",
        tuple(others),
        rule.id.name,
    )


def _selector_text(selection: Selection) -> str:
    return " and ".join(
        f"{e['key']} {e['operator']} [{listed(e.get('values') or (), 3)}]"
        for e in selection.expressions
    )


def unchecked(gap: Unreadable, what: str) -> Finding:
    """Something could not be read, so a check was not made."""
    return Finding(
        CHECK_SKIPPED,
        "warning",
        f"{what} was not checked: {gap}.",
        "Grant the right that is named, or check it by hand.",
    )


UNSUPPORTED_BY_SERVER = "unsupported_by_server"
NO_MATCHING_WORKLOADS = "no_matching_workloads"
SINGLE_WORKLOAD = "single_workload"
UNKNOWN_RULE = "unknown_rule"


def of_rule(
    resolved: Resolved, compiled: Compiled, view: ClusterView, *, later: Obstacle | None
) -> list[Finding]:
    """The findings of one rule by itself. `later`: why workloads that are created later do not get it."""
    rule = resolved.rule
    return [
        *_unread_nodes(compiled, view),
        *(_no_matching_workloads(resolved, later) if later else ()),
        *single_workload(rule),
        *_lacking(compiled),
        *(
            finding
            for selection in compiled.selections
            for finding in selector_findings(rule, selection, view)
        ),
    ]


def unknown_rules(
    requested: t.Mapping[RuleId, frozenset[Ref]],
    carried: t.Mapping[RuleId, frozenset[Ref]],
    verb: str,
) -> t.Iterator[Finding]:
    """Rules to remove or to disable (`verb`: removed, disabled) that no workload carries, where a carried one may be
    meant: its name is alike, or it is in another rule set. Both maps have the workloads of each rule, where they are
    named. Names that differ in numbers only are seldom typing errors, except for the same workloads, for which less
    similar names are alike, too. A rule that was removed before, and that no other rule resembles, has no finding."""
    for rule, workloads in requested.items():
        if rule in carried:
            continue
        same = [other for other in carried if other.namespace == rule.namespace]
        sets = sorted(other.rule_set for other in same if other.name == rule.name)
        others = [x for x in same if x.rule_set == rule.rule_set and x not in requested]
        twins = [x.name for x in others if workloads and carried[x] == workloads]
        twins = difflib.get_close_matches(rule.name, twins, n=3, cutoff=0.4)
        alike = twins or near_names(rule.name, [x.name for x in others])
        meant = [f"the one of rule set {name!r}" for name in sets] or list(map(repr, alike))
        if meant:
            misspelt = (
                sets
                or twins
                or any(_without_numbers(x) != _without_numbers(rule.name) for x in alike)
            )
            of_same = ", of the same workloads" if twins and not sets else ""
            yield Finding(
                UNKNOWN_RULE,
                "error" if misspelt else "warning",
                f"No workload has this rule of rule set {rule.rule_set!r}, so nothing would be {verb}.",
                f"Did you mean {' or '.join(meant)}{of_same}? If {_IF_RIGHT[verb]}, allow this finding.",
                rule=rule.name,
            )


_IF_RIGHT = {"removed": "it was removed before", "disabled": "it is a new rule"}


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "", name)


def _unread_nodes(compiled: Compiled, view: ClusterView) -> t.Iterator[Finding]:
    """Nodes cannot be read, and terms of the rule name their label keys."""
    gap = view.snapshot.why_unreadable("nodes", "")
    keyless = (TermLocation.LABEL, TermLocation.TOLERATION)
    terms = (term for terms in compiled.terms.values() for term in terms)
    if gap is not None and any(term.location not in keyless for term in terms):
        yield unchecked(gap, f"Whether nodes have the keys of rule {compiled.rule.id.name}")


def _no_matching_workloads(resolved: Resolved, later: Obstacle) -> t.Iterator[Finding]:
    """Labels that no workload of the rule has. Lint checks the labels of targets."""
    rule = resolved.rule
    for reference in rule.workloads:
        if reference.labels is not None and not resolved.members.workloads:
            labels = ",".join(f"{key}={value}" for key, value in sorted(reference.labels.items()))
            pools = (
                " VMs of a pool do not count: name its kind."
                if kind_of(reference.kind).run_strategy
                else ""
            )
            yield Finding(
                NO_MATCHING_WORKLOADS,
                "error",
                f"No {reference.kind} has {labels} in its template's labels.",
                f"Correct the labels: those of the template count, not those of the object.{pools} {later}",
                rule=rule.id.name,
            )


def single_workload(rule: Rule) -> t.Iterator[Finding]:
    """A group of one VM, by the rule alone. Labels may select more VMs later, and all workloads with
    the rule's `label` belong to its group, so such rules have no finding."""
    chosen = [*rule.workloads, *(target for _where, target in targets_of(rule))]
    if not isinstance(rule.rule_type, (KeepApart, Spread)) or rule.label:
        return
    group = set()
    for selector in chosen:
        if isinstance(selector, PodSelector) or selector.labels is not None:
            return
        group |= {Ref(selector.kind, selector.namespace, name) for name in selector.names}
    if len(group) != 1:
        return
    (only,) = group
    if kind_of(only.kind).run_strategy:
        yield Finding(
            SINGLE_WORKLOAD,
            "warning",
            f"{only} is the only member of the group, and runs once at most, so there is no other"
            " instance to keep it apart from.",
            "Name the other members too, or name in from what to keep it apart from.",
            (only,),
            rule.id.name,
        )


def _lacking(compiled: Compiled) -> t.Iterator[Finding]:
    rule = compiled.rule
    for name in compiled.lacking:
        harm = _HARM[name]
        yield Finding(
            UNSUPPORTED_BY_SERVER,
            "warning" if rule.preferred else "error",
            f"The server does not know {name}, so it was left out: {harm}.",
            "Update Kubernetes and KubeVirt, make the rule preferred, or allow this finding.",
            tuple(workload.ref for workload in compiled.workloads),
            rule.id.name,
            named=(),
        )


_HARM: t.Mapping[str, str] = {
    "mismatchLabelKeys": "a VM cannot be live-migrated inside its own topology domain",
    "matchLabelKeys": "old and new pods of a rollout keep each other out of their topology domains",
    "nodeTaintsPolicy": "topology domains whose nodes are all drained still count as empty ones",
}


DUPLICATE_SPREAD = "duplicate_spread"
LABEL_CONFLICT = "label_conflict"
NODE_SELECTOR_CONFLICT = "node_selector_conflict"
NODE_TERMS_CONFLICT = "node_terms_conflict"
EMPTY_NODE_TERM = "empty_node_term"
MULTIPLE_REQUIRED_AFFINITY = "multiple_required_affinity"
SIMILAR_TERM = "similar_term"

CHANGED_BY_WEBHOOK = "changed_by_webhook"

NOT_REVERTED = "not_reverted"

NEVER_ALLOWED = frozenset(
    {
        CHANGED_BY_WEBHOOK,
        DUPLICATE_SPREAD,
        LABEL_CONFLICT,
        NODE_SELECTOR_CONFLICT,
        NODE_TERMS_CONFLICT,
        NOT_REVERTED,
    }
)
"""No `allow_findings` helps: the term could not be written at all, or there is no rule that could allow it."""


def is_refused(finding: Finding, rules: t.Sequence[Rule], fail_on: t.Collection[str] = ()) -> bool:
    """Whether a finding prevents the write: its rule does not allow it, or nothing can. That is an error, and
    what `fail_on` has the name or the severity of."""
    if finding.severity != "error" and not {finding.name, finding.severity} & {*fail_on}:
        return False
    concerned = [rule for rule in rules if finding.rule in ("", rule.id.name)]
    allowed = [finding.name in rule.allow_findings for rule in concerned]
    return finding.name in NEVER_ALLOWED or not allowed or not all(allowed)


def how_to_accept(finding: Finding) -> str:
    """The sentence after the advice of a finding that refuses rules, where `allow_findings` helps and the finding names
    no other option for it."""
    if finding.name in NEVER_ALLOWED or finding.names_option:
        return ""
    where = "the rule" if finding.rule else "each rule"
    return f" To accept it, add allow_findings: [{finding.name}] to {where}."


def for_rules(
    rules: t.Iterable[RuleId],
    ref: Ref,
    name: str,
    why: str,
    advice: str,
    severity: Severity = "error",
    *,
    names_option: bool = False,
) -> list[Finding]:
    """The same finding for each rule that is concerned."""
    return [
        Finding(name, severity, why, advice, (ref,), rule.name, names_option=names_option)
        for rule in rules
    ]


def _of(present: t.Sequence[RuleId]) -> str:
    """The rules that wrote what is there."""
    return f" (rule {', '.join(rule.in_namespace for rule in present)})" if present else ""


def duplicate_spread(
    rules: t.Iterable[RuleId],
    ref: Ref,
    constraint: JSON,
    present: t.Sequence[RuleId],
    option: str,
) -> list[Finding]:
    """The API takes one constraint for each pair of topologyKey and whenUnsatisfiable. `present`: the
    rules that own the one that is there. `option`: the value of adopt with which the rule takes it over, if any."""
    by_hand = "Remove it from the template, or spread over another key."
    key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
    return for_rules(
        rules,
        ref,
        DUPLICATE_SPREAD,
        f"{ref} already has a topologySpreadConstraint over {key} with {action}{_of(present)}, and the"
        " API takes only one of each.",
        "Remove one of the two rules, or spread over another key."
        if present
        else f"Set adopt to {option}, and the rule takes it over."
        if option
        else by_hand,
    )


def similar_term(rules: t.Iterable[RuleId], ref: Ref, term: TemplateTerm) -> list[Finding]:
    """A term of others that means the same as a term of the rules."""
    text = json.dumps(term.value, sort_keys=True)
    weighted = term.location in WEIGHTED_POD_TERMS
    selector = (term.value["podAffinityTerm"] if weighted else term.value).get("labelSelector")
    selected = "the same pods" if selector is not None else "no pods, since it has no labelSelector"
    return for_rules(
        rules,
        ref,
        SIMILAR_TERM,
        f"{ref} has a term that no rule owns beside the term of the rule, and it selects"
        f" {selected}: {LOCATION_TEXTS[term.location]} {text}.",
        "Set adopt to similar where the rule is written, and its term replaces this one.",
        "warning",
        names_option=True,
    )


LOCATION_TEXTS: t.Mapping[TermLocation, str] = {
    TermLocation.NODE_EXPRESSION: "required node affinity expression",
    TermLocation.NODE_FIELD: "required node affinity field",
    TermLocation.NODE_TERM: "required node affinity term",
    TermLocation.PREFERRED_NODE: "preferred node affinity term",
    TermLocation.AFFINITY: "required pod affinity term",
    TermLocation.PREFERRED_AFFINITY: "preferred pod affinity term",
    TermLocation.ANTI_AFFINITY: "required pod anti-affinity term",
    TermLocation.PREFERRED_ANTI_AFFINITY: "preferred pod anti-affinity term",
    TermLocation.SPREAD: "topology spread constraint",
    TermLocation.TOLERATION: "toleration",
    TermLocation.NODE_SELECTOR: "nodeSelector entry",
    TermLocation.LABEL: "label",
}
"""What an entry of each location is called in a message."""


def value_conflict(
    rules: t.Iterable[RuleId],
    ref: Ref,
    name: str,
    what: str,
    wanted: JSON,
    seen: str,
    present: t.Sequence[RuleId],
) -> list[Finding]:
    """A key of a map that already has another value. `present`: the rules that set it."""
    return for_rules(
        rules,
        ref,
        name,
        f"{ref} has {what} {wanted['key']}={seen} in its template{_of(present)}, the rule needs"
        f" {wanted['value']}.",
        f"Remove one of the two rules, or use another {what} key."
        if present
        else f"Change the value there by hand if nothing depends on it, or use another {what} key.",
    )


def label_conflict(
    rules: t.Iterable[RuleId],
    ref: Ref,
    key: str,
    seen: str,
    wanted: str,
    present: t.Sequence[RuleId],
) -> list[Finding]:
    """A label of a running VMI or pod. `present`: the rules that set it."""
    return for_rules(
        rules,
        ref,
        LABEL_CONFLICT,
        f"{ref} runs with the label {key}={seen}{_of(present) or ', which no rule set'}; the rule needs"
        f" {wanted}.",
        "Remove one of the two rules, or use another label key."
        if present
        else "Use another label key, or remove that label by hand if nothing depends on it.",
    )


def node_terms_conflict(rules: t.Iterable[RuleId], ref: Ref) -> list[Finding]:
    """OR-ed node terms of a rule beside other node terms or expressions."""
    return for_rules(
        rules,
        ref,
        NODE_TERMS_CONFLICT,
        f"{ref} would have several OR-ed required node terms of a rule and others beside them,"
        " which together allow other nodes than either asks for.",
        "Use run_on or avoid, whose expressions are added to every term, or put all terms into"
        " one rule with terms; set adopt to true if the existing terms are equal.",
    )


def empty_node_terms(rules: t.Iterable[RuleId], ref: Ref) -> list[Finding]:
    """If all required node terms are empty, the pod can run on no node."""
    return for_rules(
        rules,
        ref,
        EMPTY_NODE_TERM,
        f"{ref} has required node affinity without a single expression, so it can run on no"
        " node at all; an expression of a rule there would change that.",
        "Remove the empty required node affinity from the template (a form of a console leaves"
        " it behind), then write the rule again.",
    )


def multiple_required_affinity(
    rules: t.Iterable[RuleId], ref: Ref, count: int, carried: t.Iterable[RuleId]
) -> list[Finding]:
    """kube-scheduler counts only pods that match all required affinity terms at once. `carried`: all rules
    that have such a term there."""
    return for_rules(
        rules,
        ref,
        MULTIPLE_REQUIRED_AFFINITY,
        f"{ref} would have {count} required pod affinity terms"
        f"{rules_text(rule.in_namespace for rule in carried)}, and only a pod that matches all of"
        " them at once counts, so it would most likely run nowhere.",
        "Make all but one keep_together preferred, or let one rule name both targets by a label"
        " that they share.",
    )
