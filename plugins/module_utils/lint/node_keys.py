# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node label keys and values in terms do no nodes, or only some nodes, have?"""

from __future__ import annotations

import difflib
import typing as t
from functools import partial

from ..compliance.terms import Term, TermKind, requirements_of
from ..kubevirt.labels import adds_node_key
from ..model.findings import Finding, Severity
from ..model.objects import Requirement
from ..model.rendering import listed
from ..model.topology import DEPRECATED, HOSTNAME
from .lint_input import LintedWorkload, LintInput

REPLACED: t.Mapping[str, str] = {
    **DEPRECATED,
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
}
"""Node labels that Kubernetes has replaced, and by what."""

KNOWN: t.Mapping[str, tuple[str, ...]] = {
    "kubernetes.io": ("hostname", "os", "arch"),
    "topology.kubernetes.io": ("zone", "region"),
}
"""All node labels that Kubernetes defines under two prefixes that it reserves."""

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
    yield from _of_any_key(lint_input, subject, term, key)
    if _is_missing(lint_input, key):
        severity: Severity = "warning" if term.preferred else "error"
        yield _no_node_has_key(lint_input, subject, term, key, severity, _void(term))
    elif lint_input.nodes is not None:
        yield from _on_some_nodes(lint_input, subject, term, key)
        yield from _single_domain(lint_input, subject, term, key)


def _of_node_key(
    lint_input: LintInput, subject: LintedWorkload, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    if adds_node_key(part.key):
        return
    yield from _of_any_key(lint_input, subject, term, part.key, part)
    if _is_missing(lint_input, part.key):
        if part.operator != "DoesNotExist":
            severity, effect = _without_key(lint_input, term, part)
            yield _no_node_has_key(lint_input, subject, term, part.key, severity, effect, part)
    elif lint_input.nodes is not None and part.operator in ("In", "NotIn"):
        yield from _of_values(lint_input, subject, term, part)


def _without_key(lint_input: LintInput, term: Term, part: Requirement) -> tuple[Severity, str]:
    """How bad it is that no node has the key of `part`, and what becomes of the term."""
    if term.preferred or part.operator not in _NEED_THE_KEY:
        return "warning", "has no effect"
    if term.kind is TermKind.NODE_AFFINITY and any(
        (alternative.expressions or alternative.fields)
        and not any(map(partial(_needs_missing_key, lint_input), alternative.expressions))
        for alternative in term.source
    ):
        return "warning", "allows nodes only by its other alternatives"
    return "error", _void(term) if lint_input.nodes is None else "allows no node"


def _needs_missing_key(lint_input: LintInput, part: Requirement) -> bool:
    needed = part.operator in _NEED_THE_KEY and not adds_node_key(part.key)
    return needed and _is_missing(lint_input, part.key)


def _is_missing(lint_input: LintInput, key: str) -> bool:
    """Whether no node has the label key. Without a cluster: whether none can have it, since its prefix is
    Kubernetes' own."""
    if lint_input.nodes is not None:
        return key not in lint_input.carried_keys
    prefix, _slash, name = key.rpartition("/")
    return prefix in KNOWN and name not in KNOWN[prefix]


def _of_values(
    lint_input: LintInput, subject: LintedWorkload, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    """Values that no node has. A typo beside valid values has no other symptom."""
    there = sorted(lint_input.table.domains(part.key))
    for value in sorted(set(part.values).difference(there)):
        required = "keeps its pods off no node" if part.operator == "NotIn" else "allows no node"
        useless = "has no effect" if term.preferred else required
        same = [candidate for candidate in there if candidate.lower() == value.lower()]
        hint = _may_be(same or difflib.get_close_matches(value, there, n=2, cutoff=0.6))
        yield subject.finding(
            term,
            "no_node_has_value",
            "warning",
            f"No node has {part.key}={value}, so this value {useless}; nodes have {listed(there)}.",
            f"Label the nodes, or correct the value{hint}.",
            part,
        )


def _of_any_key(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    key: str,
    part: Requirement | None = None,
) -> t.Iterator[Finding]:
    if key in REPLACED:
        yield subject.finding(
            term,
            "deprecated_node_label",
            "warning",
            f"Kubernetes has replaced the node label {key} by {REPLACED[key]}, and newer nodes may"
            " not carry the old one.",
            f"Use {REPLACED[key]}, and label nodes that lack it.",
            part,
        )
    elif "/" not in key and key not in lint_input.topology.keys.values():
        yield subject.finding(
            term,
            "unprefixed_label_key",
            "warning",
            f"The node label {key} has no prefix, so others may use the same name for something else.",
            f"Put a prefix of your own before it, or declare {key} in topology_keys.",
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
    if lint_input.nodes is not None:
        why = f"No node has the label {key}, so the {term.kind} term {effect}."
        meant = _meant(key, lint_input.carried_keys)
        advice = f"Label the nodes first, or correct the key{meant}."
    else:
        why = (
            f"Kubernetes gives no node a label {key}, and only Kubernetes may use the prefix"
            f" {key.rpartition('/')[0]}, so the {term.kind} term {effect}."
        )
        known_keys = [f"{prefix}/{label}" for prefix, labels in KNOWN.items() for label in labels]
        advice = f"Correct the key{_meant(key, known_keys)}."
    return subject.finding(term, "no_node_has_key", severity, why, advice, part)


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
            f"All nodes that take its pods are in one domain of {key}, {domains[0]}, so nothing"
            " can be apart over it.",
            advice,
        )


def _meant(key: str, keys: t.Iterable[str]) -> str:
    """Keys of the same name under another prefix before others that are alike."""
    name = key.rpartition("/")[2]
    listed = sorted(keys)
    same = [candidate for candidate in listed if candidate.rpartition("/")[2] == name]
    return _may_be(same or difflib.get_close_matches(key, listed, n=2, cutoff=0.7))


def _may_be(names: t.Sequence[str]) -> str:
    return f"; {' or '.join(names)} may be meant" if names else ""


def _void(term: Term) -> str:
    if term.preferred or term.kind is TermKind.ANTI_AFFINITY:
        return "has no effect"
    return "leaves every pod of it Pending"
