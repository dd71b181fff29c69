# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about terms that say nothing, and about what no node can ever satisfy."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.finding import Finding
from ..model.objects import NodeTerm, Placement, PodTerm, Requirement
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
        yield _excluded(subject, None, "its node terms ask for", clashes[0], pairs)
    elif scene.nodes is not None:
        known = _of_known_keys(scene, said)
        asks = known.node_selector or known.node_terms
        if asks and not nodes_of_placement(known, scene.table):
            asked = [f"{key} In ({value})" for key, value in known.node_selector]
            wanted = " or ".join(map(wording.node_term, known.node_terms or ()))
            seen = " and ".join(filter(None, (*asked, wanted)))
            yield _never(subject, None, f"no node satisfies {seen}")


def _of_known_keys(scene: Scene, said: Placement) -> Placement:
    """The placement without what it asks of keys that no node has: that is another finding,
    key_on_no_node. No node fits the whole where none fits this."""
    selector = tuple(pair for pair in said.node_selector if pair[0] in scene.carried_keys())
    terms = said.node_terms
    if terms is not None:
        left = [replace(x, expressions=tuple(_asked(scene, x.expressions))) for x in terms]
        open_now = any(_is_empty(x) and not _is_empty(y) for x, y in zip(left, terms, strict=True))
        terms = None if open_now else tuple(left)
    return replace(said, node_selector=selector, node_terms=terms)


def _preferred(scene: Scene, subject: Subject, term: Term) -> t.Iterator[Finding]:
    said = t.cast(NodeTerm, term.said)
    if _is_empty(said):
        return
    if clash := _contradiction(said.expressions):
        yield _excluded(subject, term, "a preferred node term asks for", clash)
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
                    yield _never(subject, near, why, "Take one of the two terms away.")


def _excluded(
    subject: Subject,
    term: Term | None,
    seen: str,
    parts: t.Sequence[Requirement],
    pairs: t.Collection[Requirement] = (),
) -> Finding:
    """What a contradiction says. Whose each side is stands there where they are not one's."""
    if len(parts) == 1:
        unread = f"{wording.requirement(parts[0])}, which the scheduler cannot read"
        return _never(subject, term, f"{seen} {unread}", "Correct the value.")
    whose = {
        part: _owner(subject, part)
        or ("its nodeSelector" if part in pairs else "its own node affinity")
        for part in parts
        if term is None
    }
    told = len(set(whose.values())) > 1
    said = [wording.requirement(x) + (f" ({whose[x]})" if told else "") for x in parts]
    advice = "Change one of them: whatever labels a node has, it cannot satisfy both."
    return _never(subject, term, f"{seen} {' and '.join(said)}", advice)


def _owner(subject: Subject, part: Requirement) -> str:
    """The first rule that asks a requirement of nodes; empty for none."""
    name = next((name for name, parts in subject.node_rules() if part in parts), "")
    return f"rule {name}" if name else ""


def _never(
    subject: Subject,
    term: Term | None,
    why: str,
    advice: str = "Correct the values, or label nodes so that some satisfy it.",
) -> Finding:
    preferred = term is not None and term.preferred
    harm = "The term never has an effect" if preferred else "None of its pods can ever run"
    return subject.finding(
        term,
        "never_met",
        "warning" if preferred else "error",
        f"{harm}: {why}.",
        advice,
    )


def _contradiction(parts: t.Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Requirements on one key that no value satisfies, or one that the scheduler cannot read."""
    for part in parts:
        if not is_readable(part, of_nodes=True):
            return (part,)
    for key in dict.fromkeys(part.key for part in parts):
        same = tuple(dict.fromkeys(part for part in parts if part.key == key))
        if len(set(map(requirement, same))) > 1 and _excludes(same):
            return same
    return ()


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
    listed = tuple(parts)
    return scene.nodes is not None and len(_asked(scene, listed)) == len(listed)


def _asked(scene: Scene, parts: t.Iterable[Requirement]) -> list[Requirement]:
    """Those that need no key that no node has."""
    carried = scene.carried_keys()
    return [x for x in parts if x.operator in ("NotIn", "DoesNotExist") or x.key in carried]


def _parts(terms: t.Iterable[NodeTerm]) -> tuple[Requirement, ...]:
    return tuple(part for term in terms for part in term.expressions)


def _is_empty(term: NodeTerm) -> bool:
    return not term.expressions and not term.fields
