# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about machines that must be near whom they, or their leader's other followers, avoid."""

from __future__ import annotations

import heapq
import typing as t
from collections import defaultdict

from ..model.finding import Finding
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import PodTerm, Ref
from ..model.topology import HOSTNAME
from ..verdicts import wording
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Kind, Term
from .groups import to_run
from .scene import Scene, Subject

NAMED = 7
"""As many as a sentence names, and two that it may leave out."""

_ADVICE = "Take one of the two terms away, or make it preferred."


def findings(scene: Scene) -> t.Iterator[Finding]:
    yield from _led_together(scene)
    yield from _near_whom_it_avoids(scene)


def _led_together(scene: Scene) -> t.Iterator[Finding]:
    """A machine that must be near the one that another follows too, and keep away from that other
    or from the leader."""
    leaders = {subject.ref: _leaders(scene, subject) for subject in scene.everybody}
    following: dict[tuple[str, Ref], set[Ref]] = defaultdict(set)
    for ref, led in leaders.items():
        for near, leader in led:
            following[near.said.topology_key, leader] |= {ref, leader}
    known: dict[t.Hashable, _Refs] = {}
    for subject in scene.subjects:
        for near, leader in leaders[subject.ref]:
            key = near.said.topology_key
            for term in _clashing(subject, near):
                away = scene.selected(subject, term) or ()
                same = key, leader, id(away)
                if same not in known:
                    known[same] = _Refs(following[key, leader] & {other.ref for other in away})
                if others := known[same].but(subject.ref):
                    follow = known[same].but(subject.ref, leader)
                    also = f", as must {follow}" if follow else ""
                    yield from _contradiction(
                        scene, subject, (near, str(leader), also), (term, others)
                    )


def _near_whom_it_avoids(scene: Scene) -> t.Iterator[Finding]:
    """A machine that must be near others of its group, each of whom it must keep away from. The
    first of them may run alone (the scheduler lets a pod that its own term selects be the first),
    so two that are to run are one too many."""
    known: dict[t.Hashable, _Refs | None] = {}
    for subject in scene.subjects:
        for near in subject.terms if _is_machine(subject) and to_run(subject) else ():
            group = _group(scene, subject, near)
            for term in _clashing(subject, near) if len(group) > 1 else ():
                away = scene.selected(subject, term) or ()
                same = id(group), id(away)
                if same not in known:
                    covered = _covers(scene, subject, near, group, away)
                    known[same] = _Refs({x.ref for x in group if to_run(x)}) if covered else None
                if others := known[same]:
                    whom = near, others.but(subject.ref), ""
                    yield from _contradiction(scene, subject, whom, (term, "the same"))


def _group(scene: Scene, subject: Subject, near: Term) -> tuple[Subject, ...]:
    """The machines that a required term of a subject selects, itself among them; empty where that
    is not all that it asks for."""
    if near.kind is not Kind.AFFINITY:
        return ()
    group = scene.selected(subject, near) or ()
    return group if any(other.ref == subject.ref for other in group) else ()


def _covers(
    scene: Scene,
    subject: Subject,
    near: Term,
    group: tuple[Subject, ...],
    away: tuple[Subject, ...],
) -> bool:
    """Whether all of a group are avoided, two of them are to run, and nobody else is near whom its
    term would allow."""
    return (
        all(map(_is_machine, group))
        and {other.ref for other in group} <= {other.ref for other in away}
        and sum(map(to_run, group)) > 1
        and not _others(scene, subject, near, group)
    )


class _Refs:
    """Many, of which a sentence names the first: it is asked for once for each of them."""

    def __init__(self, refs: set[Ref]) -> None:
        self._refs = refs
        self._first = heapq.nsmallest(NAMED, refs)

    def but(self, *without: Ref) -> str:
        """The first, and how many more, but for some (two at most); empty where there is none."""
        names = [str(ref) for ref in self._first if ref not in without]
        count = len(self._refs) - len(self._refs.intersection(without))
        return wording.listed(names, count=count)


def _clashing(subject: Subject, near: Term) -> t.Iterator[Term]:
    """The required terms by which a subject keeps away from whom it shares a domain of `near` with.
    That both select the same is told by itself, whoever is selected (see nodes)."""
    for term in subject.terms:
        if term.kind is Kind.ANTI_AFFINITY:
            one, other = t.cast(PodTerm, near.said), t.cast(PodTerm, term.said)
            same = (one.selector, one.namespaces) == (other.selector, other.namespaces)
            if one.topology_key in (HOSTNAME, other.topology_key) and not same:
                yield term


def _leaders(scene: Scene, subject: Subject) -> tuple[tuple[Term, Ref], ...]:
    """(term, machine) of each required term that nobody meets but one other machine."""
    found = []
    for term in subject.terms if subject.virtual else ():
        if term.kind is Kind.AFFINITY:
            chosen = scene.selected(subject, term) or ()
            if len(chosen) == 1 and _is_machine(chosen[0]):
                (leader,) = chosen
                if leader.ref != subject.ref and not _others(scene, subject, term, chosen):
                    found.append((term, leader.ref))
    return tuple(found)


def _is_machine(subject: Subject) -> bool:
    return subject.ref.kind == VIRTUAL_MACHINE.name


def _others(scene: Scene, subject: Subject, term: Term, known: t.Iterable[Subject]) -> bool:
    """Whether pods of others than `known` meet the term, or may."""
    running = scene.running(subject, term)
    own = {machine.uid for each in known for machine in each.machines}
    return running is None or any(pod.labels.get(CREATED_BY, "") not in own for pod in running)


def _contradiction(
    scene: Scene, subject: Subject, near: tuple[Term, str, str], away: tuple[Term, str]
) -> t.Iterator[Finding]:
    """For each rule that is concerned. `near` is its term, whom it asks for, and who follows them
    too; `away` is its term and whom it avoids."""
    (one, whom, also), (other, others) = near, away
    over, apart = (scene.topology.name_of(x.said.topology_key) for x in (one, other))
    rules = {subject.rule(term): term for term in (one, other)}
    told = f" (rules {' and '.join(rules)})" if len(rules) > 1 and all(rules) else ""
    why = (
        f"It can never run: {subject.ref} must be near {whom} over {over}{also}, and keep away from"
        f" {others} over {apart}{told}."
    )
    for term in rules.values():
        yield subject.finding(term, "never_met", "error", why, _ADVICE)
