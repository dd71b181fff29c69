# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about terms that say nothing, and about what no node can ever satisfy."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import NodeTerm, PodTerm, Requirement
from ..model.topology import HOSTNAME
from ..scheduling.node_sets import nodes_of_placement, nodes_of_term
from ..scheduling.selectors import is_readable
from ..scheduling.syntax import parse_integer
from ..verdicts import wording
from ..verdicts.terms import Kind, Term, requirement
from .scene import Scene, Subject


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        yield from _empty_terms(subject)
        yield from _required(scene, subject)
        for term in subject.terms:
            if term.kind is Kind.PREFERRED_NODE_AFFINITY:
                yield from _preferred(scene, subject, term)
        yield from _near_and_apart(subject)


def _empty_terms(subject: Subject) -> t.Iterator[Finding]:
    said = subject.declared.placement
    required = said.node_terms
    if required is not None and all(_is_empty(term) for term in required):
        yield subject.finding(
            None,
            "empty_term",
            "error",
            "Its required node affinity says nothing, which matches no node, so none of its pods"
            " can run anywhere.",
            "Remove the empty required node affinity; forms of consoles leave it behind.",
        )
    elif required is not None and any(_is_empty(term) for term in required):
        yield subject.finding(
            None,
            "empty_term",
            "warning",
            "One of its required node terms says nothing; it matches no node, not every node.",
            "Remove the empty term, or say in it what is meant.",
        )
    for _weight, preference in said.preferred_node_terms:
        if _is_empty(preference):
            yield subject.finding(
                None,
                "empty_term",
                "warning",
                "A preferred node term says nothing, and the scheduler passes it over.",
                "Remove the empty term, or say in it what is meant.",
            )


def _required(scene: Scene, subject: Subject) -> t.Iterator[Finding]:
    said = subject.declared.placement
    pairs = tuple(Requirement(key, "In", (value,)) for key, value in said.node_selector)
    terms = (NodeTerm(),) if said.node_terms is None else said.node_terms
    terms = tuple(term for term in terms if said.node_terms is None or not _is_empty(term))
    clashes = [_contradiction((*pairs, *term.expressions)) for term in terms]
    if not terms or not (pairs or _parts(terms) or said.node_terms):
        return
    if all(clashes):
        yield _never(subject, None, f"its node terms ask for {clashes[0]}")
    elif _no_node(scene, (*pairs, *_parts(terms))) and not nodes_of_placement(said, scene.table):
        asked = [wording.requirement(pair) for pair in pairs]
        wanted = " or ".join(map(wording.node_term, said.node_terms or ()))
        seen = " and ".join(filter(None, (*asked, wanted)))
        yield _never(subject, None, f"no node satisfies {seen}")


def _preferred(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    said = t.cast(NodeTerm, term.said)
    if _is_empty(said):
        return
    if clash := _contradiction(said.expressions):
        yield _never(subject, term, f"a preferred node term asks for {clash}")
    elif _no_node(scene, said.expressions) and not nodes_of_term(said, scene.table):
        yield _never(subject, term, f"no node satisfies {wording.node_term(said)}")


def _near_and_apart(subject: Subject) -> t.Iterator[Finding]:
    """A pod that must be near what it must keep away from."""
    for near in subject.terms:
        for away in subject.terms:
            if near.kind is Kind.AFFINITY and away.kind is Kind.ANTI_AFFINITY:
                one, other = t.cast(PodTerm, near.said), t.cast(PodTerm, away.said)
                nested = one.topology_key in (HOSTNAME, other.topology_key)
                same = (one.selector, one.namespaces) == (other.selector, other.namespaces)
                if nested and same and one.selector is not None:
                    why = f"it must be near {wording.pods_of(one)} and keep away from the same"
                    yield _never(subject, near, why)


def _never(subject: Subject, term: Term | None, why: str) -> Finding:
    preferred = term is not None and term.preferred
    harm = "the term has no effect" if preferred else "none of its pods can ever run"
    return subject.finding(
        term,
        "never_met",
        "warning" if preferred else "error",
        f"It can never be met, so {harm}: {why}.",
        "Correct the values, or label nodes so that some satisfy it.",
    )


def _contradiction(parts: t.Sequence[Requirement]) -> str:
    """Requirements on one key that no value satisfies, in words; empty if there are none."""
    for part in parts:
        if not is_readable(part, of_nodes=True):
            return f"{wording.requirement(part)}, which the scheduler cannot read"
    for key in dict.fromkeys(part.key for part in parts):
        same = [part for part in parts if part.key == key]
        if len(set(map(requirement, same))) > 1 and _excludes(same):
            return " and ".join(map(wording.requirement, same))
    return ""


def _excludes(parts: t.Sequence[Requirement]) -> bool:
    operators = {part.operator for part in parts}
    if "DoesNotExist" in operators and operators & {"In", "Exists", "Gt", "Lt"}:
        return True
    allowed = [set(part.values) for part in parts if part.operator == "In"]
    if not allowed:
        return _empty_range(parts)
    left = set.intersection(*allowed)
    left -= {value for part in parts if part.operator == "NotIn" for value in part.values}
    low, high = _bounds(parts)
    if low is not None or high is not None:
        numbers = {value: parse_integer(value) for value in left}
        left = {v for v, n in numbers.items() if n is not None and _between(low, n, high)}
    return not left


def _empty_range(parts: t.Sequence[Requirement]) -> bool:
    low, high = _bounds(parts)
    return low is not None and high is not None and high - low < 2


def _bounds(parts: t.Sequence[Requirement]) -> tuple[int | None, int | None]:
    """Above what and below what Gt and Lt want it."""
    above = [parse_integer(part.values[0]) for part in parts if part.operator == "Gt"]
    below = [parse_integer(part.values[0]) for part in parts if part.operator == "Lt"]
    low = max((number for number in above if number is not None), default=None)
    return low, min((number for number in below if number is not None), default=None)


def _between(low: int | None, number: int, high: int | None) -> bool:
    return (low is None or number > low) and (high is None or number < high)


def _no_node(scene: Scene, parts: t.Iterable[Requirement]) -> bool:
    """Whether it makes sense to ask the nodes: they are known, and each key is on some node. That
    one is on none is another finding, key_on_no_node."""
    return scene.nodes is not None and all(
        part.key in scene.carried_keys()
        for part in parts
        if part.operator not in ("NotIn", "DoesNotExist")
    )


def _parts(terms: t.Iterable[NodeTerm]) -> tuple[Requirement, ...]:
    return tuple(part for term in terms for part in term.expressions)


def _is_empty(term: NodeTerm) -> bool:
    return not term.expressions and not term.fields
