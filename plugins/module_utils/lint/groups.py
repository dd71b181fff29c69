# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about required terms of several virtual machines that cannot all hold at once."""

from __future__ import annotations

import heapq
import typing as t
from collections import defaultdict
from dataclasses import replace

from ..model.finding import Finding
from ..model.objects import Labels, Node, PodTerm, Ref
from ..model.topology import HOSTNAME
from ..verdicts import wording
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject

_TRANSIENT = "node.kubernetes.io/"
"""Prefix of the taints that come and go with a node's state: cordon, not ready, pressure
(Kubernetes core/v1 well_known_taints.go)."""

_KEPT_RUNNING = ("Always", "RerunOnFailure")

NAMED = 7
"""As many as a sentence names, and two that it may leave out."""


def findings(scene: Scene) -> t.Iterator[Finding]:
    if scene.nodes:
        yield from _too_many(scene, replace(scene, nodes=tuple(map(_at_its_best, scene.nodes))))
    yield from _led_together(scene)


def _at_its_best(node: Node) -> Node:
    """A node without what may pass."""
    return replace(
        node, taints=tuple(each for each in node.taints if not each.key.startswith(_TRANSIENT))
    )


def _too_many(scene: Scene, lasting: Scene) -> t.Iterator[Finding]:
    """More machines that keep apart from each other than there are domains for them."""
    looked_at = {subject.ref for subject in scene.subjects}
    for group in _groups_apart(scene):
        running = sum(_running(subject) for subject, _term in group)
        said = t.cast(PodTerm, group[0][1].said)
        domains = lasting.table.domains(said.topology_key).values()
        able = 0
        for subject, _term in group:
            able |= lasting.eligible(subject)
        room = sum(1 for nodes in domains if nodes & able)
        if not room or running <= room:
            continue  # that no node has the key at all is another finding, key_on_no_node
        over = scene.topology.name_of(said.topology_key)
        for subject, term in group:
            if subject.ref in looked_at:
                yield _never(
                    subject,
                    term,
                    f"It can never be met for all: {running} machines are to run and must keep"
                    f" apart over {over}, and there are {room} domains for them.",
                    "Stop machines, add domains, or make the term preferred.",
                )


def _groups_apart(scene: Scene) -> t.Iterator[list[tuple[Subject, Term]]]:
    """Machines of one namespace that all carry one term, which selects them all."""
    carriers: dict[t.Hashable, list[tuple[Subject, Term]]] = defaultdict(list)
    for subject in scene.everybody:
        for term in subject.terms if subject.virtual else ():
            said = term.said
            if term.kind is Kind.ANTI_AFFINITY and _separates_all(said):
                key = (said.topology_key, said.selector, said.namespaces, said.namespace_selector)
                carriers[subject.ref.namespace, key].append((subject, term))
    for found in carriers.values():
        chosen = {other.ref for other in scene.selected(*found[0]) or ()}
        group = [(subject, term) for subject, term in found if subject.ref in chosen]
        if len(group) > 1 or any((subject.copies or 0) > 1 for subject, _term in group):
            yield group


def _separates_all(said: PodTerm) -> bool:
    """Whether it keeps any two machines apart that it selects, whatever other labels they have."""
    return not said.match_label_keys and set(said.mismatch_label_keys) <= {CREATED_BY}


def _running(subject: Subject) -> int:
    """How many instances are to run."""
    if subject.ref.kind != "VirtualMachine" or subject.workload is None:
        return subject.copies or 0
    spec = subject.workload.manifest.get("spec") or {}
    wanted = spec.get("runStrategy") in _KEPT_RUNNING or spec.get("running") is True
    return int(wanted or bool(subject.machines))


def _led_together(scene: Scene) -> t.Iterator[Finding]:
    """A machine that must be near the one that another follows too, and keep away from that other
    or from the leader."""
    leaders = {subject.ref: _leaders(scene, subject) for subject in scene.everybody}
    following: dict[tuple[str, Ref], set[Ref]] = defaultdict(set)
    for ref, led in leaders.items():
        for near, leader in led:
            following[near.topology_key, leader] |= {ref, leader}
    known: dict[t.Hashable, _Refs] = {}
    for subject in scene.subjects:
        for near, leader in leaders[subject.ref]:
            key = near.topology_key
            for term in subject.terms:
                if term.kind is not Kind.ANTI_AFFINITY or not _clashes(near, term.said):
                    continue
                away = scene.selected(subject, term) or ()
                same = key, leader, id(away)
                if same not in known:
                    known[same] = _Refs(following[key, leader] & {other.ref for other in away})
                if known[same].but(subject.ref):
                    yield _contradiction(scene, subject, term, known[same], key, leader)


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


def _clashes(near: PodTerm, away: PodTerm) -> bool:
    """Whether two pods that share a domain of one term share one of the other. That both select the
    same is told by itself, whoever is selected (see nodes)."""
    same = (near.selector, near.namespaces) == (away.selector, away.namespaces)
    return near.topology_key in (HOSTNAME, away.topology_key) and not same


def _leaders(scene: Scene, subject: Subject) -> tuple[tuple[PodTerm, Ref], ...]:
    """(term, machine) of each required term that nobody meets but one other machine."""
    found = []
    for term in subject.terms if subject.virtual else ():
        if term.kind is Kind.AFFINITY:
            chosen = scene.selected(subject, term) or ()
            if len(chosen) == 1 and chosen[0].ref.kind == "VirtualMachine":
                (leader,) = chosen
                if leader.ref != subject.ref and not _others(scene, subject, term, leader):
                    found.append((term.said, leader.ref))
    return tuple(found)


def _others(scene: Scene, subject: Subject, term: Term, leader: Subject) -> bool:
    """Whether pods that are not the leader's meet the term, or may."""
    running = scene.running(subject, term)
    own = {machine.uid for machine in leader.machines}
    return running is None or any(_maker(pod.labels) not in own for pod in running)


def _maker(labels: Labels) -> str:
    return labels.get(CREATED_BY, "")


def _contradiction(
    scene: Scene, subject: Subject, term: Term, others: _Refs, key: str, leader: Ref
) -> Finding:
    near, away = scene.topology.name_of(key), scene.topology.name_of(term.said.topology_key)
    follow = others.but(subject.ref, leader)
    met = f", as must {follow}" if follow else ""
    return _never(
        subject,
        term,
        f"It can never be met: {subject.ref} must be near {leader} over {near}{met}, and keep away"
        f" from {others.but(subject.ref)} over {away}.",
        "Take one of the two terms away, or make it preferred.",
    )


def _never(subject: Subject, term: Term, why: str, advice: str) -> Finding:
    return subject.finding(term, "never_met", "error", why, advice)
