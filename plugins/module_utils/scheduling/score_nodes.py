# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores that need no other pod: preferred node affinity and PreferNoSchedule taints.

Source: scheduler plugins nodeaffinity and tainttoleration, helper.DefaultNormalizeScore.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Node, NodeTerm, Placement
from .node_terms import is_readable_term, matches_term
from .tolerations import PREFERENCE_EFFECTS, untolerated

MAX_SCORE = 100

Weighted = tuple[int, NodeTerm]


def effective_preferences(terms: t.Iterable[Weighted]) -> tuple[Weighted, ...]:
    """Without those that the scheduler passes over: of weight 0, or empty."""
    return tuple(
        (weight, term) for weight, term in terms if weight and (term.expressions or term.fields)
    )


def node_affinity_scores(
    placement: Placement, added: Placement | None, nodes: t.Sequence[Node]
) -> list[int] | None:
    """The weights of the preferred terms that match each node, summed. None: a term cannot be
    parsed, and the scheduler gives the attempt up with an error."""
    own = effective_preferences(placement.preferred_node_terms)
    if not all(is_readable_term(term) for _weight, term in own):
        return None
    extra = effective_preferences(added.preferred_node_terms if added is not None else ())
    readable = [(weight, term) for weight, term in (*own, *extra) if is_readable_term(term)]
    return [sum(weight for weight, term in readable if matches_term(term, node)) for node in nodes]


def taint_scores(placement: Placement, nodes: t.Sequence[Node], *, comparison: bool) -> list[int]:
    """How many PreferNoSchedule taints of each node are not tolerated: the fewer the better."""
    return [
        sum(
            1
            for _taint in untolerated(
                node.taints,
                placement.tolerations,
                effects=PREFERENCE_EFFECTS,
                comparison=comparison,
            )
        )
        for node in nodes
    ]


def normalized(scores: t.Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scaled so that the highest becomes 100; `reverse` turns the scale around."""
    highest = max(scores, default=0)
    if highest == 0:
        return [MAX_SCORE if reverse else score for score in scores]
    scaled = [MAX_SCORE * score // highest for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled
