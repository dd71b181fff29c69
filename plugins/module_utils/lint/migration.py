# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about virtual machines: what stops a live migration, what waits for a restart."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import PodTerm, Requirement
from ..model.topology import HOSTNAME
from ..scheduling.node_terms import NAME_FIELD
from ..verdicts.declared import Reader
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject

_SPREADS = (Kind.SPREAD, Kind.PREFERRED_SPREAD)
_NOT_RUNNING = ("", "Stopped", "Paused", "Unknown", "Halted")


def findings(scene: Scene) -> t.Iterator[Finding]:
    reader = Reader()
    for subject in scene.subjects:
        if not subject.virtual:
            continue
        for term in subject.terms:
            if term.kind is Kind.ANTI_AFFINITY:
                yield from _own_source(scene, subject, term)
        yield from _pinned(subject)
        if subject.ref.kind == "VirtualMachine":
            yield from _restart(scene, subject, reader)


def _own_source(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    """During a migration the source pod is still there, with the labels of the target."""
    said = t.cast(PodTerm, term.said)
    if not scene.selects_itself(subject, term):
        return
    inside = _nodes_inside(scene, subject, said.topology_key)
    aside = CREATED_BY in said.mismatch_label_keys or said.differs_in == CREATED_BY
    if aside or said.topology_key == HOSTNAME or (inside and max(inside) == 1):
        yield from _all_taken(scene, subject, term, inside)
        return
    yield subject.finding(
        term,
        "blocks_live_migration",
        "warning",
        f"While a machine migrates, its own source pod matches the {term.kind} term over"
        f" {scene.topology.name_of(said.topology_key)} and keeps the target out of its own domain,"
        " free nodes there or not.",
        f"Add mismatchLabelKeys: [{CREATED_BY}] to the term, as keep_apart does: a machine then"
        " keeps away from all others and not from itself.",
    )


def _nodes_inside(scene: Scene, subject: Subject, key: str) -> list[int]:
    """How many nodes take the subject's pods in each domain that has one; none are known without
    nodes."""
    eligible = scene.eligible(subject)
    domains = scene.table.domains(key).values()
    return [bin(nodes & eligible).count("1") for nodes in domains if nodes & eligible]


def _all_taken(
    scene: Scene, subject: Subject, term: Term, inside: t.Sequence[int]
) -> t.Iterator[Finding]:
    """In a domain of one node: a target needs another domain, one that nobody of the group is in."""
    group = scene.selected(subject, term) or ()
    members = sum(other.copies or 0 for other in group)
    single = inside.count(1)
    if not single or members < len(inside):
        return
    yield subject.finding(
        term,
        "blocks_live_migration",
        "warning",
        f"The {term.kind} term over {scene.topology.name_of(term.said.topology_key)} is about"
        f" {members} instances, and {len(inside)} domains take them, {single} of them with a single"
        " node: once all are taken, a machine there has no target, and a drain of its node cannot"
        " end.",
        "Add a node, or make the term preferred.",
    )


def _pinned(subject: Subject) -> t.Iterator[Finding]:
    said = subject.declared.placement
    pairs = [Requirement(key, "In", (value,)) for key, value in said.node_selector]
    terms = said.node_terms or ()
    by_selector = any(_names_one_node(part) for part in pairs)
    by_terms = len(terms) == 1 and any(
        _names_one_node(part) for part in (*terms[0].expressions, *terms[0].fields)
    )
    if by_selector or by_terms:
        yield subject.finding(
            None,
            "blocks_live_migration",
            "warning",
            "Its node terms name a single node, so a migration has no target and a drain of that"
            " node cannot end.",
            "Ask for a label that several nodes have; to aim one migration, a roll-out adds a node"
            " selector to the migration alone.",
        )


def _names_one_node(part: Requirement) -> bool:
    names = part.key in (HOSTNAME, NAME_FIELD)
    return names and part.operator == "In" and len(part.values) == 1


def _restart(scene: Scene, subject: Subject, reader: Reader) -> t.Iterator[Finding]:
    declared = [term for term in subject.terms if term.kind in _SPREADS]
    if subject.machines:
        for vmi in subject.machines:
            if not declared and not vmi.spec.get("topologySpreadConstraints"):
                continue
            running = reader.placement(vmi.spec)[1].terms
            missing = [term for term in declared if term not in running]
            gone = [x for x in running if x.kind in _SPREADS and x not in subject.declared.terms]
            if missing or gone:
                yield _restart_required(subject, missing[0] if missing else None)
    elif scene.pods is None and declared and _may_run(subject):
        yield _restart_required(subject, declared[0])


def _restart_required(subject: Subject, term: Term | None) -> Finding:
    return subject.finding(
        term,
        "restart_required",
        "warning",
        "KubeVirt does not carry topologySpreadConstraints over to a machine that runs, and until"
        " it is restarted no other change of its placement reaches it either.",
        "Restart the machine, or use keep_apart, which takes effect by live migration.",
    )


def _may_run(subject: Subject) -> bool:
    """Whether a machine of which only the manifest or the rule is known may be running."""
    if subject.workload is None:
        return True
    status = subject.workload.manifest.get("status") or {}
    return status.get("printableStatus", "") not in _NOT_RUNNING
