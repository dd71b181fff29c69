# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores of soft topology spread constraints. Source: scheduler plugin podtopologyspread, scoring.go."""

from __future__ import annotations

import math
import typing as t

from ..model.objects import Labels
from ..model.topology import HOSTNAME
from .candidate import Candidate
from .node_table import NodeTable
from .score_nodes import MAX_SCORE
from .spread import Constraint


def spread_scores(
    constraints: t.Sequence[Constraint],
    table: NodeTable,
    numbers: t.Sequence[int],
    *,
    all_keys: bool,
) -> list[int | None]:
    """For each node the counts of its domains, each weighted by how many domains there are; the
    fewer the better. None: the node lacks a key and is left out.

    `all_keys` False: the constraints are the scheduler's own defaults, and a node needs not carry
    all of their keys.
    """
    keys = [each.key for each in constraints]
    scored = [
        table.labels[n]
        for n in numbers
        if not all_keys or all(key in table.labels[n] for key in keys)
    ]
    weights = [_weight(each.key, scored) for each in constraints]
    scores: list[int | None] = []
    for n in numbers:
        labels = table.labels[n]
        if all_keys and not all(key in labels for key in keys):
            scores.append(None)
            continue
        score = 0.0
        for each, weight in zip(constraints, weights, strict=True):
            if each.key in labels:
                score += _count(each, labels, n) * weight + (each.max_skew - 1)
        scores.append(math.floor(score + 0.5))
    return scores


def inverted(scores: t.Sequence[int | None]) -> list[int]:
    """Scaled to 0..100, the lowest count best; nodes that were left out get 0."""
    known = [score for score in scores if score is not None]
    lowest, highest = min(known, default=0), max(known, default=0)
    return [
        0
        if score is None
        else MAX_SCORE
        if highest == 0
        else MAX_SCORE * (highest + lowest - score) // highest
        for score in scores
    ]


def _weight(key: str, scored: t.Sequence[Labels]) -> float:
    sizes = len(scored) if key == HOSTNAME else len({labels.get(key, "") for labels in scored})
    return math.log(sizes + 2)


def _count(constraint: Constraint, labels: Labels, n: int) -> int:
    """Pods that count: for the hostname those on the very node, else those of the domain on
    eligible nodes."""
    if constraint.tally is None or constraint.match is None:
        return 0
    if constraint.key != HOSTNAME:
        return constraint.tally.counts.get(labels[constraint.key], 0)
    return sum(1 for each in _living(constraint) if each.node == n)


def _living(constraint: Constraint) -> t.Iterator[Candidate]:
    members = constraint.match.members if constraint.match is not None else ()
    return (each for each in members if not each.pod.terminating)
