# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about required pod affinity: who hangs on whom."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import PodTerm, Ref
from ..model.topology import HOSTNAME
from ..verdicts import wording
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject


def findings(scene: Scene) -> t.Iterator[Finding]:
    needs = {subject.ref: _needed(scene, subject) for subject in scene.everybody}
    for subject in scene.subjects:
        for term in subject.terms:
            if term.kind is Kind.AFFINITY:
                yield from _of_term(scene, subject, term, needs)


def _needed(scene: Scene, subject: Subject) -> frozenset[Ref]:
    """The carriers of which one must be near before a pod of the subject can run: those that all
    its required terms select, since one pod has to match them all."""
    chosen = [
        {other.ref for other in scene.selected(subject, term) or ()}
        for term in subject.declared.terms
        if term.kind is Kind.AFFINITY
    ]
    return frozenset(set.intersection(*chosen)) if chosen else frozenset()


def _of_term(
    scene: Scene, subject: Subject, term: Term, needs: t.Mapping[Ref, frozenset[Ref]]
) -> t.Iterator[Finding]:
    leaders = needs[subject.ref]
    partners = sorted(ref for ref in leaders if ref != subject.ref and subject.ref in needs[ref])
    itself = subject.ref in leaders
    if partners or (itself and (subject.copies or 2) > 1):
        yield from _mutual(scene, subject, term, partners, itself)
    elif leaders - {subject.ref}:
        yield _follower(subject, term, sorted(leaders - {subject.ref}))


def _mutual(
    scene: Scene, subject: Subject, term: Term, partners: t.Sequence[Ref], itself: bool
) -> t.Iterator[Finding]:
    key = t.cast(PodTerm, term.said).topology_key
    group = [str(ref) for ref in sorted({subject.ref, *partners})]
    tied = (
        f"{wording.listed(group)} need one another" if partners else "its copies need one another"
    )
    if subject.virtual and _one_node_each(scene, key):
        yield subject.finding(
            term,
            "mutual_affinity",
            "error",
            f"The machines can never be live-migrated: they must share a node, since {tied}.",
            "Choose one workload as leader (keep_together: {leader: ..., over: ...}), which the"
            " others follow, or make the term preferred.",
        )
    elif not itself:
        yield subject.finding(
            term,
            "mutual_affinity",
            "error",
            f"None can start before what it must be near is there, and {tied}, so none can be the"
            " first.",
            "Take the term off one of them: it then leads, and the others follow.",
        )
    elif subject.virtual:
        yield subject.finding(
            term,
            "mutual_affinity",
            "warning",
            f"The machines can never leave their domain of {key} by live migration, since {tied}.",
            "Make the term preferred, or let one workload lead.",
        )


def _follower(subject: Subject, term: Term, leaders: t.Sequence[Ref]) -> Finding:
    return subject.finding(
        term,
        "follower_depends_on_leader",
        "info",
        f"It follows {wording.listed(list(map(str, leaders)))}: it cannot start, or move to"
        " another domain, before that is there.",
        "Nothing, if that is meant; maintenance and roll-outs move the leader first.",
    )


def _one_node_each(scene: Scene, key: str) -> bool:
    """Whether no domain of a key has a second node."""
    if key == HOSTNAME or scene.nodes is None:
        return key == HOSTNAME
    domains = scene.table.domains(key).values()
    return bool(domains) and all(nodes & (nodes - 1) == 0 for nodes in domains)
