# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which findings does a rule have by itself, before it is written?

No members, a single member, a selector that misses running pods or selects other pods, fields that
the server lacks, checks that were skipped. Lint finds what is wrong with the state after the write.
"""

from __future__ import annotations

import typing as t

from ..model.findings import Finding, near_names
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.rule import KeepApart, PodSelector, Rule, RuleId, Spread
from ..model.snapshot import Unreadable, Workload
from ..scheduler.labels import matches
from .compile import Compiled
from .group_selector import Selection
from .resolve import Inventory, Resolved, targets_of
from .term_slots import TermLocation

SELECTOR_MISSES_MEMBERS = "selector_misses_members"
SELECTOR_MATCHES_OTHERS = "selector_matches_others"
CHECK_SKIPPED = "check_skipped"


def selector_findings(
    rule: Rule, selection: Selection, inventory: Inventory
) -> t.Iterator[Finding]:
    """Members that the selector misses, and pods outside the group that it selects."""
    gap = inventory.gap("pods", selection.namespace)
    if gap is not None:
        yield unchecked(gap, f"Which running pods the selector of rule {rule.id.name} selects")
        return
    if not selection.members:
        return
    selector = selection.selector()
    own = {pod.uid: (w, pod) for w in selection.members for pod in inventory.pods_of(w)}
    missed = [w for w, pod in own.values() if not matches(selector, pod.labels)]
    if missed and selection.label is None:
        yield _misses(rule, selection, missed)
    other_pods = [
        pod.ref
        for pod in inventory.pods.get(selection.namespace, ())
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


def of_rule(resolved: Resolved, compiled: Compiled, inventory: Inventory) -> list[Finding]:
    """The findings of one rule by itself."""
    rule = resolved.rule
    return [
        *_unread_nodes(compiled, inventory),
        *_no_matching_workloads(resolved),
        *single_workload(rule),
        *_lacking(compiled),
        *(
            finding
            for selection in compiled.selections
            for finding in selector_findings(rule, selection, inventory)
        ),
    ]


def unknown_rules(rules: t.Iterable[RuleId], carried: t.Collection[RuleId]) -> t.Iterator[Finding]:
    """Rules to remove that no workload carries, where a carried one may be meant: its name is alike, or
    it is in another rule set. A rule that was removed before has no finding."""
    for rule in rules:
        if rule in carried:
            continue
        same = [other for other in carried if other.namespace == rule.namespace]
        sets = sorted(other.rule_set for other in same if other.name == rule.name)
        alike = near_names(rule.name, [x.name for x in same if x.rule_set == rule.rule_set])
        meant = [f"the one of rule set {name!r}" for name in sets] or list(map(repr, alike))
        if meant:
            yield Finding(
                UNKNOWN_RULE,
                "warning",
                f"No workload has this rule of rule set {rule.rule_set!r}.",
                f"Did you mean {' or '.join(meant)}? If it was removed before, nothing is to be done.",
                rule=rule.name,
            )


def _unread_nodes(compiled: Compiled, inventory: Inventory) -> t.Iterator[Finding]:
    """Nodes cannot be read, and terms of the rule name their label keys."""
    gap = inventory.gap("nodes", "")
    keyless = (TermLocation.LABEL, TermLocation.TOLERATION)
    terms = (term for terms in compiled.terms.values() for term in terms)
    if gap is not None and any(term.location not in keyless for term in terms):
        yield unchecked(gap, f"Whether nodes have the keys of rule {compiled.rule.id.name}")


def _no_matching_workloads(resolved: Resolved) -> t.Iterator[Finding]:
    """Labels that no workload of the rule has. Lint checks the labels of targets."""
    rule = resolved.rule
    for reference in rule.workloads:
        if reference.labels is not None and not resolved.members.workloads:
            labels = ",".join(f"{key}={value}" for key, value in sorted(reference.labels.items()))
            yield Finding(
                NO_MATCHING_WORKLOADS,
                "error",
                f"No {reference.kind} has {labels} in its template's labels.",
                "Correct the labels: those of the template count, not those of the object.",
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
    if only.kind == VIRTUAL_MACHINE.name:
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
        )


_HARM: t.Mapping[str, str] = {
    "mismatchLabelKeys": "a VM cannot be live-migrated inside its own topology domain",
    "matchLabelKeys": "old and new pods of a rollout keep each other out of their topology domains",
    "nodeTaintsPolicy": "topology domains whose nodes are all drained still count as empty ones",
}
