# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about topology spread constraints that do not mean what they seem to."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import SpreadConstraint
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        for term in subject.terms:
            if term.kind is Kind.SPREAD:
                yield from _no_maximum(scene, subject, term)
                yield from _strands(scene, subject, term)


def _no_maximum(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    said = t.cast(SpreadConstraint, term.said)
    if said.max_skew != 1 or _kept_apart(subject, said.topology_key):
        return
    domains = _domains(scene, subject, said.topology_key)
    members = sum(other.copies or 1 for other in scene.selected(subject, term) or (subject,))
    if scene.nodes is not None and members <= domains:
        return
    over = scene.topology.name_of(said.topology_key)
    yield subject.finding(
        term,
        "max_skew_is_not_max_count",
        "info",
        f"max_skew 1 over {over} does not mean one in each: it bounds the difference between the"
        " fullest and the emptiest domain, so with more instances than domains two share one.",
        "Use keep_apart where no two may share a domain.",
    )


def _strands(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    said = t.cast(SpreadConstraint, term.said)
    if said.node_taints_policy == "Honor":
        return
    over = scene.topology.name_of(said.topology_key)
    yield subject.finding(
        term,
        "spread_strands_drain",
        "warning",
        f"A domain of {over} whose nodes are all drained or down still counts as an empty one, so"
        " what ran there finds no place in the others.",
        "Set nodeTaintsPolicy: Honor in the constraint, as spread does.",
    )


def _kept_apart(subject: Subject, key: str) -> bool:
    return any(
        term.kind is Kind.ANTI_AFFINITY and term.said.topology_key == key
        for term in subject.declared.terms
    )


def _domains(scene: Scene, subject: Subject, key: str) -> int:
    eligible = scene.eligible(subject)
    return sum(1 for nodes in scene.table.domains(key).values() if nodes & eligible)
