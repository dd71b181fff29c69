# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node label keys and values in terms do no nodes, or only some nodes, have?"""

from __future__ import annotations

import typing as t

from ..compliance.terms import Term, TermKind, requirements_of
from ..kubevirt.labels import adds_node_key
from ..model.findings import Finding, Severity
from ..model.objects import Requirement
from ..model.rendering import label_text, listed, value_text
from ..model.topology import HOSTNAME
from .label_spelling import (
    REPLACED,
    meant_defined_key,
    meant_key,
    meant_value,
    misspelt,
    of_no_node,
)
from .lint_input import LintedWorkload, LintInput

_NEED_THE_KEY = ("In", "Exists", "Gt", "Lt")


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        for term in subject.terms:
            if over := getattr(term.source, "topology_key", ""):
                yield from _of_topology_key(lint_input, subject, term, over)
            for part in requirements_of(term):
                yield from _of_node_key(lint_input, subject, term, part)


def _of_topology_key(
    lint_input: LintInput, subject: LintedWorkload, term: Term, key: str
) -> t.Iterator[Finding]:
    if _is_missing(lint_input, key):
        severity = _severity_of_missing(lint_input, term, key)
        yield _no_node_has_key(lint_input, subject, term, key, severity, _void(term))
    else:
        yield from _of_replaced(lint_input, subject, term, key)
    yield from _of_bare_key(lint_input, subject, term, key)
    if key in lint_input.carried_keys:
        yield from _on_some_nodes(lint_input, subject, term, key)
        yield from _single_domain(lint_input, subject, term, key)


def _of_node_key(
    lint_input: LintInput, subject: LintedWorkload, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    if adds_node_key(part.key):
        return
    yield from _of_bare_key(lint_input, subject, term, part.key, part)
    missing = _is_missing(lint_input, part.key)
    if not missing or part.operator == "DoesNotExist" or _is_alternative(term, part.key):
        yield from _of_replaced(lint_input, subject, term, part.key, part)
    if missing:
        if part.operator != "DoesNotExist" and not _is_alternative(term, part.key):
            severity, effect = _without_key(lint_input, term, part)
            yield _no_node_has_key(lint_input, subject, term, part.key, severity, effect, part)
    elif part.key in lint_input.carried_keys and part.operator in ("In", "NotIn"):
        yield from _of_values(lint_input, subject, term, part)


def _without_key(lint_input: LintInput, term: Term, part: Requirement) -> tuple[Severity, str]:
    """How bad it is that no node has the key of `part`, and what becomes of the term."""
    if term.preferred or part.operator not in _NEED_THE_KEY:
        return "warning", "has no effect"
    if term.kind is TermKind.NODE_AFFINITY and any(
        (alternative.expressions or alternative.fields)
        and not any(
            x.operator in _NEED_THE_KEY
            and not adds_node_key(x.key)
            and _is_missing(lint_input, x.key)
            for x in alternative.expressions
        )
        for alternative in term.source
    ):
        return "warning", "allows nodes only by its other alternatives"
    severity = _severity_of_missing(lint_input, term, part.key)
    return severity, _void(term) if lint_input.nodes is None else "allows no node"


def _severity_of_missing(lint_input: LintInput, term: Term, key: str) -> Severity:
    """A warning without nodes where the prefix is not Kubernetes' own, so that nodes may have the key."""
    certain = lint_input.nodes is not None or of_no_node(key)
    return "error" if certain and not term.preferred else "warning"


def _is_missing(lint_input: LintInput, key: str) -> bool:
    """Whether no node has the label key. Without a cluster: whether none can have it, since its prefix is
    Kubernetes' own, or most likely none has it, since it is a misspelt key of Kubernetes."""
    if lint_input.nodes is not None:
        return key not in lint_input.carried_keys | lint_input.unknown_keys
    return of_no_node(key) or bool(misspelt(key))


def _of_values(
    lint_input: LintInput, subject: LintedWorkload, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    """Values that no node has. A typo beside valid values has no other symptom."""
    there = sorted(lint_input.table.domains(part.key))
    have = (
        f"have {listed(list(map(value_text, there)))}"
        if any(there)
        else "have it with the empty value"
    )
    for value in sorted(set(part.values).difference(there)):
        required = "excludes no node" if part.operator == "NotIn" else "allows no node"
        useless = "has no effect" if term.preferred else required
        advice = f"Label the nodes, or correct the value{meant_value(value, there)}."
        if "" in there and (not any(there) or value in ("true", "yes", "1")):
            advice = _of_empty_value(subject, term, part)
        yield subject.finding(
            term,
            "no_node_has_value",
            "warning",
            f"No node has {label_text(part.key, value)}, so this value {useless}; nodes {have}.",
            advice,
            part,
        )


def _of_empty_value(subject: LintedWorkload, term: Term, part: Requirement) -> str:
    """What to do where a label is asked for with a value and nodes have it without one."""
    operator = "DoesNotExist" if part.operator == "NotIn" else "Exists"
    if subject.owner(term) or subject.owner_of_requirement(part):
        return f"Write a rule of type terms: node affinity that has {part.key} with operator {operator}."
    if term.kind is TermKind.NODE_SELECTOR:
        return f'Write {part.key}: "", or use operator Exists in node affinity.'
    return f"Correct the requirement on {part.key}: use operator {operator}, without values."


def _of_replaced(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    key: str,
    part: Requirement | None = None,
) -> t.Iterator[Finding]:
    """A key that Kubernetes has replaced, with what the nodes have of both."""
    if key not in REPLACED:
        return
    new = REPLACED[key]
    severity: Severity = "warning"
    why = f"Kubernetes has replaced the node label {key} by {new}"
    differ = _without_successor(lint_input, key)
    if _is_beside(subject, term, new):
        advice = f"Remove {key}: {new} is beside it."
        if _is_alternative(term, key) or term.preferred:
            severity = "info"
            advice = f"Remove {key}: {new} is beside it, and newer nodes have only that."
    elif differ is None:
        advice = f"Use {new}, and label nodes that lack it."
    elif differ:
        advice = f"Label {listed(differ)} with {new} and the same value, then use {new}."
    elif key not in lint_input.carried_keys:
        advice = f"Use {new}."
    else:
        severity = "info"
        advice = f"Use {new}: each node with {key} has it with the same value."
    if severity == "warning":
        why += ", and newer nodes may not carry the old one"
    yield subject.finding(term, "deprecated_node_label", severity, f"{why}.", advice, part)


def _without_successor(lint_input: LintInput, key: str) -> list[str] | None:
    """The nodes with a replaced label on which its successor is missing or has another value; None if the nodes
    are not known."""
    if lint_input.nodes is None:
        return None
    new = REPLACED[key]
    having = [node for node in lint_input.nodes if key in node.labels]
    return [node.name for node in having if node.labels.get(new) != node.labels[key]]


def _is_beside(subject: LintedWorkload, term: Term, key: str) -> bool:
    """Whether the subject has another term like this one about the node label, or this one asks for it, too."""
    like = [x for x in subject.terms if x.kind is term.kind]
    if hasattr(term.source, "topology_key"):
        return any(
            x.source.topology_key == key and x.source.selector == term.source.selector for x in like
        )
    return any(part.key == key for x in like for part in requirements_of(x))


def _is_alternative(term: Term, key: str) -> bool:
    """Whether required node affinity names the successor of a key in another alternative, so that nodes with
    either are allowed."""
    if term.kind is not TermKind.NODE_AFFINITY or key not in REPLACED:
        return False
    asked = [{part.key for part in alternative.expressions} for alternative in term.source]
    return any(REPLACED[key] in keys and key not in keys for keys in asked) and not any(
        {key, REPLACED[key]} <= keys for keys in asked
    )


def _of_bare_key(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    key: str,
    part: Requirement | None = None,
) -> t.Iterator[Finding]:
    """A key without a prefix. What may be meant by one that no node has, that finding says."""
    meant = meant_defined_key(key)
    if "/" in key or key in lint_input.topology.keys.values():
        return
    if meant and _is_missing(lint_input, key):
        return
    yield subject.finding(
        term,
        "unprefixed_label_key",
        "warning",
        f"The node label {key} has no prefix, so others may use the same name for something else.",
        f"Put a prefix of your own before it, or declare {key} in topology_keys{meant}.",
        part,
    )


def _no_node_has_key(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    key: str,
    severity: Severity,
    effect: str,
    part: Requirement | None = None,
) -> Finding:
    carried, harm = lint_input.carried_keys, f"the {term.kind} term {effect}"
    why = f"No node has the label {key}, so {harm}"
    advice = f"Label the nodes first, or correct the key{meant_key(key, carried)}."
    if lint_input.nodes is None:
        prefix = key.rpartition("/")[0]
        only = f", and only Kubernetes may use the prefix {prefix}" if of_no_node(key) else ""
        why = f"Kubernetes gives no node a label {key}{only}, so {harm}"
        if not only:
            why += " unless nodes were labeled by hand"
        advice = f"Correct the key{meant_defined_key(key)}."
    elif (new := REPLACED.get(key)) is not None:
        there = "which nodes have" if new in carried else "which no node has either"
        why += f"; Kubernetes has replaced it by {new}, {there}"
        advice = f"Use {new}." if new in carried else f"Label the nodes with {new}, then use that."
        if _is_beside(subject, term, new):
            advice = f"Remove {key}: {new} is beside it."
    return subject.finding(term, "no_node_has_key", severity, f"{why}.", advice, part)


def _on_some_nodes(
    lint_input: LintInput, subject: LintedWorkload, term: Term, key: str
) -> t.Iterator[Finding]:
    eligible = lint_input.eligible(subject)
    without = lint_input.table.names_of(eligible & ~lint_input.table.with_key(key))
    if without and eligible & lint_input.table.with_key(key):
        apart = term.kind in (TermKind.ANTI_AFFINITY, TermKind.PREFERRED_ANTI_AFFINITY)
        effect = "nothing is kept apart" if apart else "the term never lets a pod run"
        yield subject.finding(
            term,
            "nodes_lack_key",
            "warning",
            f"{listed(without)} would take its pods and lack the label {key}: {effect} there.",
            "Label these nodes too, or keep the workload off them.",
        )


def _single_domain(
    lint_input: LintInput, subject: LintedWorkload, term: Term, key: str
) -> t.Iterator[Finding]:
    if term.kind in (TermKind.AFFINITY, TermKind.PREFERRED_AFFINITY):
        return
    domains = list(lint_input.eligible_domains(subject, key))
    anti_affinity = term.kind in (TermKind.ANTI_AFFINITY, TermKind.PREFERRED_ANTI_AFFINITY)
    if anti_affinity and len(lint_input.shared_domains(subject, term, key)) > 1:
        return  # others can be in another domain
    if len(domains) == 1 and not (key == HOSTNAME and subject.replicas == 1):
        advice = "Use a key with more domains, or label the nodes by where they are."
        if len(lint_input.table.domains(key)) > 1:
            advice = "Let its node terms and tolerations allow more of them, or use another key."
        yield subject.finding(
            term,
            "single_domain",
            "warning",
            f"All nodes that take its pods are in one domain of {key}, {value_text(domains[0])}, so nothing"
            " can be apart over it.",
            advice,
        )


def _void(term: Term) -> str:
    if term.preferred or term.kind is TermKind.ANTI_AFFINITY:
        return "has no effect"
    return "leaves every pod of it Pending"
