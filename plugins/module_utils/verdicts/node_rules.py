# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The required node terms of a template, taken apart by who wrote what.

The scheduler asks one question of all of it together: does any OR-ed term match? To say which rule
a node breaks, each rule's own expressions are asked here.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.manifest import node_term_from_json
from ..model.objects import Node, NodeTerm, Requirement
from ..model.pointer import JSON
from ..rules.fingerprint import Fingerprint
from ..rules.node_terms import foreign_part, is_empty, standing
from ..rules.ownership import Ownership
from ..rules.slots import IN_NODE_TERM, MAPS, NODE_TERMS, Slot
from ..scheduling.node_terms import matches_term
from ..scheduling.selectors import holds

JSONTerm = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class NodeRule:
    """What one rule asks of nodes: all of `term`, one of `any_of` where there are some, and the
    `pairs` of the nodeSelector.

    `bypasses` are the numbers of the required terms that lack something of `term`: terms are
    OR-ed, so a node that fits one of them need not obey the rule. `gone`: a part that the rule
    wrote stands nowhere any more.
    """

    rule: str
    term: NodeTerm = field(default_factory=NodeTerm)
    any_of: tuple[NodeTerm, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    bypasses: tuple[int, ...] = ()
    gone: bool = False

    @property
    def asks(self) -> bool:
        return bool(self.term.expressions or self.term.fields or self.any_of or self.pairs)

    def broken(self, node: Node) -> tuple[Requirement, ...]:
        """What a node does not satisfy; of OR-ed terms that are the rule's own the first one's."""
        missing = [Requirement(k, "In", (v,)) for k, v in self.pairs if node.labels.get(k) != v]
        missing += _unmet(self.term, node)
        if self.any_of and not any(matches_term(term, node) for term in self.any_of):
            missing += _unmet(self.any_of[0], node)
        return tuple(missing)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What no rule owns: pairs of the nodeSelector, and the required terms without what rules put
    into them. `terms` None: nothing foreign is required."""

    pairs: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    def broken(self, node: Node) -> tuple[Requirement, ...]:
        missing = [Requirement(k, "In", (v,)) for k, v in self.pairs if node.labels.get(k) != v]
        if self.terms is not None and not any(matches_term(term, node) for term in self.terms):
            missing += [part for term in self.terms[:1] for part in _unmet(term, node)]
            missing = missing or [Requirement("", "matches no node")]
        return tuple(missing)


def read_node_rules(ownership: Ownership, template: t.Mapping[str, JSON]) -> tuple[NodeRule, ...]:
    """One for each rule that wrote something about nodes."""
    any_of = NODE_TERMS.read(template, None) or []
    selector = MAPS[Slot.NODE_SELECTOR].read(template, None) or {}
    inside = _inside(ownership)
    found = (
        _node_rule(str(rule), marks, any_of, selector, inside)
        for rule, marks in ownership.rules.items()
    )
    return tuple(rule for rule in found if rule is not None)


def foreign(ownership: Ownership, template: t.Mapping[str, JSON]) -> Foreign:
    """What stands in the template about nodes and belongs to no rule."""
    any_of = NODE_TERMS.read(template, None)
    selector = MAPS[Slot.NODE_SELECTOR].read(template, None) or {}
    owned = ownership.marks()
    pairs = tuple(pair for pair in selector.items() if not _owns(owned, _pair_mark(*pair)))
    if not any_of:
        return Foreign(pairs, None if any_of is None else ())
    parts = [foreign_part(term, _inside(ownership)) for term in any_of]
    # A term that held nothing but parts of rules asks for nothing foreign, nor do those beside it.
    if any(not part and not is_empty(term) for part, term in zip(parts, any_of, strict=True)):
        return Foreign(pairs)
    left = [part for part in parts if not _owns(owned, Fingerprint.of(Slot.NODE_TERM, part))]
    if len(left) < len(parts):
        return Foreign(pairs)
    return Foreign(pairs, tuple(node_term_from_json(part) for part in left))


def _node_rule(
    rule: str,
    marks: t.Collection[Fingerprint],
    any_of: t.Sequence[JSONTerm],
    selector: t.Mapping[str, str],
    inside: t.Collection[Fingerprint],
) -> NodeRule | None:
    own = [m for m in marks if m.slot in (*IN_NODE_TERM, Slot.NODE_TERM, Slot.NODE_SELECTOR)]
    if not own:
        return None
    expressions, bypasses = _parts([m for m in own if m.slot in IN_NODE_TERM], any_of)
    whole = {
        Fingerprint.of(Slot.NODE_TERM, part).meaning: node_term_from_json(part)
        for part in (foreign_part(term, inside) for term in any_of)
        if _owns(own, Fingerprint.of(Slot.NODE_TERM, part))
    }
    pairs = tuple(pair for pair in selector.items() if _owns(own, _pair_mark(*pair)))
    gone = len(expressions) + len(whole) + len(pairs) < len({(m.slot, m.meaning) for m in own})
    term = NodeTerm(
        tuple(part for slot, part in expressions if slot is Slot.NODE_EXPRESSION),
        tuple(part for slot, part in expressions if slot is Slot.NODE_FIELD),
    )
    return NodeRule(rule, term, tuple(whole.values()), pairs, () if gone else bypasses, gone)


def _parts(
    wanted: t.Collection[Fingerprint], any_of: t.Sequence[JSONTerm]
) -> tuple[tuple[tuple[Slot, Requirement], ...], tuple[int, ...]]:
    """The rule's expressions and fields, and the terms that lack one and match some node."""
    found: dict[str, tuple[Slot, Requirement]] = {}
    bypasses = []
    for number, term in enumerate(any_of):
        missing = {mark.meaning for mark in wanted}
        for slot, entry, mark in standing(term):
            if _owns(wanted, mark):
                found[mark.meaning] = slot, _requirement(entry)
                missing.discard(mark.meaning)
        if missing and not is_empty(term):
            bypasses.append(number)
    return tuple(found.values()), tuple(bypasses)


def _inside(ownership: Ownership) -> tuple[Fingerprint, ...]:
    return tuple(mark for mark in ownership.marks() if mark.slot in IN_NODE_TERM)


def _owns(own: t.Iterable[Fingerprint], mark: Fingerprint) -> bool:
    return any(each.says_the_same(mark) for each in own)


def _pair_mark(key: str, value: str) -> Fingerprint:
    return Fingerprint.of(Slot.NODE_SELECTOR, {"key": key, "value": value})


def _requirement(entry: t.Mapping[str, JSON]) -> Requirement:
    return Requirement(entry["key"], entry["operator"], tuple(entry.get("values") or ()))


def _unmet(term: NodeTerm, node: Node) -> list[Requirement]:
    missing = [part for part in term.expressions if not holds(part, node.labels)]
    named = {"metadata.name": node.name}
    return missing + [part for part in term.fields if not holds(part, named)]
