# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms of rules conflict with terms and labels that are already in a template?"""

from __future__ import annotations

import typing as t

from ..model.findings import Finding, Severity, rules_text
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rule import Rule, RuleId

DUPLICATE_SPREAD = "duplicate_spread"
LABEL_CONFLICT = "label_conflict"
NODE_SELECTOR_CONFLICT = "node_selector_conflict"
NODE_TERMS_CONFLICT = "node_terms_conflict"
EMPTY_NODE_TERM = "empty_node_term"
MULTIPLE_REQUIRED_AFFINITY = "multiple_required_affinity"

NEVER_ALLOWED = frozenset(
    {DUPLICATE_SPREAD, LABEL_CONFLICT, NODE_SELECTOR_CONFLICT, NODE_TERMS_CONFLICT}
)
"""The term could not be written at all, so no `allow_findings` helps."""


def is_refused(finding: Finding, rules: t.Sequence[Rule]) -> bool:
    """Whether an error prevents the write: its rule does not allow it, or nothing can."""
    if finding.severity != "error":
        return False
    concerned = [rule for rule in rules if finding.rule in ("", rule.id.name)]
    allowed = [finding.name in rule.allow_findings for rule in concerned]
    return finding.name in NEVER_ALLOWED or not allowed or not all(allowed)


def for_rules(
    rules: t.Iterable[RuleId],
    ref: Ref,
    name: str,
    why: str,
    advice: str,
    severity: Severity = "error",
) -> list[Finding]:
    """The same finding for each rule that is concerned."""
    return [Finding(name, severity, why, advice, (ref,), rule.name) for rule in rules]


def _of(present: t.Sequence[RuleId]) -> str:
    """The rules that wrote what is there."""
    return f" (rule {', '.join(rule.in_namespace for rule in present)})" if present else ""


def duplicate_spread(
    rules: t.Iterable[RuleId], ref: Ref, constraint: JSON, present: t.Sequence[RuleId]
) -> list[Finding]:
    """The API takes one constraint for each pair of topologyKey and whenUnsatisfiable. `present`: the
    rules that own the one that is there."""
    key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
    return for_rules(
        rules,
        ref,
        DUPLICATE_SPREAD,
        f"{ref} already has a topologySpreadConstraint over {key} with {action}{_of(present)}, and the"
        " API takes only one of each.",
        "Remove one of the two rules, or spread over another key."
        if present
        else "Set adopt to true if it is equal, or remove it, or spread over another key.",
    )


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
