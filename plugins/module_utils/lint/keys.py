# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the label keys of nodes that terms name."""

from __future__ import annotations

import difflib
import typing as t

from ..model.finding import Finding
from ..model.objects import PodTerm, Requirement, SpreadConstraint
from ..model.topology import DEPRECATED, HOSTNAME
from ..verdicts import wording
from ..verdicts.platform_terms import adds_node_key
from ..verdicts.terms import Kind, Term, requirements_of
from .scene import Scene, Subject

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
"""All node labels that Kubernetes defines under two prefixes that nobody else may use."""

_NEED_THE_KEY = ("In", "Exists", "Gt", "Lt")


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        for term in subject.terms:
            over = _over(term)
            if over:
                yield from _of_topology_key(scene, subject, term, over)
            for part in requirements_of(term):
                yield from _of_node_key(scene, subject, term, part)


def _of_topology_key(scene: Scene, subject: Subject, term: Term, key: str) -> t.Iterator[Finding]:
    yield from _of_any_key(scene, subject, term, key)
    if scene.nodes is None:
        yield from _unheard_of(subject, term, key)
        return
    if key not in scene.carried_keys():
        yield _on_no_node(scene, subject, term, key, _void(term))
        return
    yield from _on_some_nodes(scene, subject, term, key)
    yield from _single_domain(scene, subject, term, key)


def _of_node_key(
    scene: Scene, subject: Subject, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    if adds_node_key(part.key):
        return
    yield from _of_any_key(scene, subject, term, part.key)
    if scene.nodes is None:
        yield from _unheard_of(subject, term, part.key)
    elif part.key not in scene.carried_keys() and part.operator != "DoesNotExist":
        void = "allows no node" if part.operator in _NEED_THE_KEY else "has no effect"
        if term.preferred:
            void = "has no effect"
        yield _on_no_node(scene, subject, term, part.key, void, needed=part.operator != "NotIn")
    elif part.operator in ("In", "NotIn"):
        yield from _of_values(scene, subject, term, part)


def _of_values(
    scene: Scene, subject: Subject, term: Term, part: Requirement
) -> t.Iterator[Finding]:
    """Values that no node has: where others do, nobody would notice a slip."""
    there = sorted(scene.table.domains(part.key))
    for value in sorted(set(part.values).difference(there)):
        useless = "keeps its pods off no node" if part.operator == "NotIn" else "allows no node"
        hint = _nearest(value, there)
        yield subject.finding(
            term,
            "value_on_no_node",
            "warning",
            f"No node has {part.key}={value}, so this value {useless}; nodes have"
            f" {wording.listed(there)}.",
            f"Label the nodes, or correct the value{hint}.",
        )


def _of_any_key(scene: Scene, subject: Subject, term: Term, key: str) -> t.Iterator[Finding]:
    if key in REPLACED:
        yield subject.finding(
            term,
            "deprecated_key",
            "warning",
            f"Kubernetes has replaced the node label {key} by {REPLACED[key]}, and newer nodes may"
            " not carry the old one.",
            f"Use {REPLACED[key]}, and label nodes that lack it.",
        )
    elif "/" not in key and key not in scene.topology.keys.values():
        yield subject.finding(
            term,
            "bare_key",
            "warning",
            f"The node label {key} has no prefix, so anybody may use the same name for something"
            " else.",
            f"Put a prefix of your own before it, or declare {key} in topology_keys.",
        )


def _on_no_node(
    scene: Scene, subject: Subject, term: Term, key: str, void: str, *, needed: bool = True
) -> Finding:
    return subject.finding(
        term,
        "key_on_no_node",
        "error" if needed and not term.preferred else "warning",
        f"No node has the label {key}, so the {term.kind} term {void}.",
        f"Label the nodes first, or correct the key{_meant(key, scene.carried_keys())}.",
    )


def _unheard_of(subject: Subject, term: Term, key: str) -> t.Iterator[Finding]:
    """Without a cluster: a key that no node can have, since its prefix is Kubernetes' own."""
    prefix, _slash, name = key.rpartition("/")
    if prefix in KNOWN and name not in KNOWN[prefix]:
        known = [f"{each}/{label}" for each, labels in KNOWN.items() for label in labels]
        yield subject.finding(
            term,
            "key_on_no_node",
            "warning" if term.preferred else "error",
            f"Kubernetes gives no node a label {key}, and nobody else may use the prefix {prefix},"
            f" so the {term.kind} term {_void(term)}.",
            f"Correct the key{_meant(key, known)}.",
        )


def _on_some_nodes(scene: Scene, subject: Subject, term: Term, key: str) -> t.Iterator[Finding]:
    eligible = scene.eligible(subject)
    without = scene.table.names_of(eligible & ~scene.table.carrying(key))
    if without and eligible & scene.table.carrying(key):
        yield subject.finding(
            term,
            "key_on_some_nodes",
            "warning",
            f"{wording.listed(without)} would take its pods and lack the label {key}:"
            f" {_on_unlabelled(term)} there.",
            "Label these nodes too, or keep the workload off them.",
        )


def _single_domain(scene: Scene, subject: Subject, term: Term, key: str) -> t.Iterator[Finding]:
    if term.kind in (Kind.AFFINITY, Kind.PREFERRED_AFFINITY):
        return
    eligible = scene.eligible(subject)
    there = scene.table.domains(key)
    domains = [d for d, nodes in there.items() if nodes & eligible]
    if len(domains) == 1 and not (key == HOSTNAME and subject.copies == 1):
        advice = "Use a key with more domains, or label the nodes by where they are."
        if len(there) > 1:
            advice = "Let its node terms and tolerations allow more of them, or use another key."
        yield subject.finding(
            term,
            "single_domain",
            "warning",
            f"All nodes that take its pods are in one domain of {key}, {domains[0]}, so nothing"
            " can be apart over it.",
            advice,
        )


def _meant(key: str, known: t.Iterable[str]) -> str:
    """Keys of the same name under another prefix before others that are alike."""
    name = key.rpartition("/")[2]
    listed = sorted(known)
    same = [other for other in listed if other.rpartition("/")[2] == name]
    return _may_be(same or difflib.get_close_matches(key, listed, n=2, cutoff=0.7))


def _nearest(value: str, known: t.Sequence[str]) -> str:
    plain = [other for other in known if other.lower() == value.lower()]
    return _may_be(plain or difflib.get_close_matches(value, known, n=2, cutoff=0.6))


def _may_be(found: t.Sequence[str]) -> str:
    return f"; {' or '.join(found)} may be meant" if found else ""


def _void(term: Term) -> str:
    if term.preferred or term.kind is Kind.ANTI_AFFINITY:
        return "has no effect"
    return "leaves every pod of it Pending"


def _on_unlabelled(term: Term) -> str:
    if term.kind in (Kind.ANTI_AFFINITY, Kind.PREFERRED_ANTI_AFFINITY):
        return "nothing is kept apart"
    return "the term never lets a pod run"


def _over(term: Term) -> str:
    if isinstance(term.said, (PodTerm, SpreadConstraint)):
        return term.said.topology_key
    return ""
