# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about more machines, or copies of one, that keep apart than there are domains."""

from __future__ import annotations

import functools
import operator
import typing as t
from collections import defaultdict
from dataclasses import replace

from ..model.finding import Finding
from ..model.objects import Node, PodTerm, Ref
from ..rules.compile import POD_TEMPLATE_HASH
from ..verdicts import wording
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject

_TRANSIENT = "node.kubernetes.io/"
"""Prefix of the taints that come and go with a node's state: cordon, not ready, pressure
(Kubernetes core/v1 well_known_taints.go)."""

_KEPT_RUNNING = ("Always", "RerunOnFailure")

Group = list[tuple[Subject, Term]]
"""Carriers of a term that selects them all, each with its own copy of it."""


def findings(scene: Scene) -> t.Iterator[Finding]:
    if scene.nodes:
        yield from _too_many(scene, replace(scene, nodes=tuple(map(_at_its_best, scene.nodes))))


def _at_its_best(node: Node) -> Node:
    """A node without what may pass."""
    return replace(
        node, taints=tuple(each for each in node.taints if not each.key.startswith(_TRANSIENT))
    )


def _too_many(scene: Scene, lasting: Scene) -> t.Iterator[Finding]:
    """More instances that keep apart from each other than there are domains for them: for all of
    a group, or for those of it that may use some domains only."""
    looked_at = {subject.ref for subject in scene.subjects}
    for group in _groups_apart(scene):
        told: set[Ref] = set()
        for crowd in _crowds(lasting, group):
            why, advice = _no_room(scene, crowd)
            for subject, term in crowd.members:
                if subject.ref in looked_at and subject.ref not in told:
                    yield _never(subject, term, why, advice)
            told.update(subject.ref for subject, _term in crowd.members)


class _Crowd(t.NamedTuple):
    """Carriers of a term with more instances than the `domains` that all of them may use. `open`
    are the domains that would take them but for what they ask of nodes."""

    members: list[tuple[Subject, Term]]
    instances: int
    domains: tuple[str, ...]
    open: tuple[str, ...]


def _crowds(lasting: Scene, group: Group) -> t.Iterator[_Crowd]:
    """The smallest first. A set of domains is too small for whoever can only run inside it; looked
    at are those that one carrier may use, and all together (after Hall's marriage theorem)."""
    places = _Places(lasting, t.cast(PodTerm, group[0][1].said).topology_key)
    inside: dict[int, list[tuple[Subject, Term]]] = defaultdict(list)
    for subject, term in group:
        if within := places.of(subject):
            inside[within].append((subject, term))
    running = {
        within: sum(to_run(subject) for subject, _term in members)
        for within, members in inside.items()
    }
    if not inside or sum(running.values()) <= min(map(int.bit_count, inside)):
        return
    together = functools.reduce(operator.or_, inside)
    for few in sorted({*inside, together}, key=lambda each: (each.bit_count(), each)):
        instances = sum(count for within, count in running.items() if not within & ~few)
        if instances > few.bit_count():
            chosen = [x for within, members in inside.items() if not within & ~few for x in members]
            able = functools.reduce(operator.or_, (places.open_to(s) for s, _term in chosen))
            yield _Crowd(chosen, instances, places.names(few), places.names(able))


class _Places:
    """The domains of a key that take a carrier's pods, as a set of bits."""

    def __init__(self, lasting: Scene, key: str) -> None:
        self._lasting = lasting
        self._carrying = lasting.table.carrying(key)
        self._domains = tuple(lasting.table.domains(key).items())
        self._known: dict[int, int] = {}

    def of(self, subject: Subject) -> int:
        """Empty where a node without the key takes them: there the term holds nobody back."""
        eligible = self._lasting.eligible(subject)
        return 0 if eligible & ~self._carrying else self._touched(eligible)

    def open_to(self, subject: Subject) -> int:
        """Whatever its template asks of nodes."""
        free = replace(subject.declared.placement, node_selector=(), node_terms=None)
        bare = replace(subject, declared=replace(subject.declared, placement=free))
        return self._touched(self._lasting.eligible(bare))

    def _touched(self, eligible: int) -> int:
        if eligible not in self._known:
            bits = (1 << n for n, (_name, nodes) in enumerate(self._domains) if nodes & eligible)
            self._known[eligible] = sum(bits)
        return self._known[eligible]

    def names(self, places: int) -> tuple[str, ...]:
        return tuple(name for n, (name, _nodes) in enumerate(self._domains) if places >> n & 1)


def _no_room(scene: Scene, crowd: _Crowd) -> tuple[str, str]:
    """Why they can never all run, and what to do."""
    machines = all(subject.ref.kind == "VirtualMachine" for subject, _term in crowd.members)
    what = "machines" if machines else "instances"
    over = scene.topology.name_of(t.cast(PodTerm, crowd.members[0][1].said).topology_key)
    room = len(crowd.domains)
    there = f"there are {room} domains" if room > 1 else "there is 1 domain"
    why = (
        f"They can never all run: {crowd.instances} {what} are to run and must keep apart over"
        f" {over}, and {there} for them"
    )
    barred = sorted(set(crowd.open) - set(crowd.domains))
    if barred:
        left = f"{wording.listed(crowd.domains)}: what they require of nodes leaves out"
        return (
            f"{why}, {left} {wording.listed(barred)}.",
            "Let their nodeSelector and node affinity allow more domains, run fewer, or make the"
            " term preferred.",
        )
    return f"{why}.", f"Run fewer {what}, add domains, or make the term preferred."


def _groups_apart(scene: Scene) -> t.Iterator[Group]:
    """Carriers of one namespace of one term, which selects them all; of one alone, its copies."""
    carriers: dict[t.Hashable, Group] = defaultdict(list)
    for subject in scene.everybody:
        for term in () if subject.workload is None and not subject.virtual else subject.terms:
            said = term.said
            if term.kind is Kind.ANTI_AFFINITY and _separates_all(said) and not subject.owned:
                key = (said.topology_key, said.selector, said.namespaces, said.namespace_selector)
                alone = subject.ref if said.match_label_keys else None
                carriers[subject.ref.namespace, key, alone].append((subject, term))
    for found in carriers.values():
        chosen = {other.ref for other in scene.selected(*found[0]) or ()}
        group = [(subject, term) for subject, term in found if subject.ref in chosen]
        if len(group) > 1 or any((subject.copies or 0) > 1 for subject, _term in group):
            yield group


def _separates_all(said: PodTerm) -> bool:
    """Whether it keeps any two instances apart that it selects, whatever other labels they have,
    or any two pods of one revision: as many of these are to run in the end."""
    separated = set(said.match_label_keys) <= {POD_TEMPLATE_HASH}
    return separated and set(said.mismatch_label_keys) <= {CREATED_BY}


def to_run(subject: Subject) -> int:
    """How many instances are to run."""
    if subject.ref.kind != "VirtualMachine" or subject.workload is None:
        return subject.copies or 0
    spec = subject.workload.manifest.get("spec") or {}
    wanted = spec.get("runStrategy") in _KEPT_RUNNING or spec.get("running") is True
    return int(wanted or bool(subject.machines))


def _never(subject: Subject, term: Term, why: str, advice: str) -> Finding:
    return subject.finding(term, "never_met", "error", why, advice)
