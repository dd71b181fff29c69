# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about Deployments whose own roll-outs stand still: this one's, and any later one."""

from __future__ import annotations

import math
import typing as t

from ..model.finding import Finding
from ..model.objects import PodTerm
from ..model.pointer import JSON
from ..rules.compile import POD_TEMPLATE_HASH
from ..verdicts.terms import Kind, Term
from .scene import Scene, Subject


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        if subject.ref.kind != "Deployment" or not _waits_for_new_pods(subject):
            continue
        for term in subject.terms:
            if term.kind is Kind.ANTI_AFFINITY and scene.selects_itself(subject, term):
                yield from _deadlock(scene, subject, term)


def _deadlock(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    said = t.cast(PodTerm, term.said)
    if POD_TEMPLATE_HASH in said.match_label_keys:
        return
    eligible = scene.eligible(subject)
    domains = scene.table.domains(said.topology_key).values()
    room = sum(1 for nodes in domains if nodes & eligible)
    if scene.nodes is not None and subject.copies is not None and subject.copies < room:
        return
    over = scene.topology.name_of(said.topology_key)
    seen = f" of which there are {room}" if scene.nodes is not None else ""
    yield subject.finding(
        term,
        "own_rollout_deadlock",
        "warning" if scene.nodes is None else "error",
        f"Each old pod keeps the new ones out of its domain of {over},{seen or ' if all are taken,'}"
        " and none may stop before a new one is Ready: any change of the template, by whomever,"
        " then waits for ever.",
        f"Add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the term, as keep_apart does, or set"
        " maxSurge 0 and maxUnavailable 1.",
    )


def _waits_for_new_pods(subject: Subject) -> bool:
    """Whether a roll-out stops no old pod before a new one is Ready (apps/v1 Deployment: surge is
    rounded up, unavailable down, and unavailable is 1 if both are 0)."""
    if subject.workload is None:
        return True
    spec = subject.workload.manifest.get("spec") or {}
    strategy = spec.get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    rolling = strategy.get("rollingUpdate") or {}
    copies = subject.copies or 0
    surge = _share(rolling.get("maxSurge", "25%"), copies, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), copies, math.floor)
    return unavailable == 0 and surge > 0


def _share(value: JSON, copies: int, rounded: t.Callable[[float], int]) -> int:
    text = str(value)
    if text.endswith("%"):
        return rounded(int(text[:-1]) * copies / 100)
    return int(text)
