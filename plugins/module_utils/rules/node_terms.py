# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node expressions in OR-ed required node terms: AND-ed into each one, and out again.

The terms of a node selector are OR-ed, the expressions inside a term are AND-ed. So an
expression of ours stands in *every* term, or in one new term where there is none. A term without
expressions and fields matches no node (kube-scheduler skips it): it is left as it is, since our
expression would make it match. The same holds for an empty list of terms.
"""

from __future__ import annotations

import copy
import typing as t

from ..model.pointer import JSON
from .fingerprint import Fingerprint, digest
from .slots import IN_NODE_TERM, NODE_TERMS, CompiledTerm, Slot

NodeTerm = dict[str, JSON]


def is_empty(term: t.Mapping[str, JSON]) -> bool:
    """Whether a term matches no node because it says nothing."""
    return not any(term.get(key) for key in IN_NODE_TERM.values())


def standing(term: t.Mapping[str, JSON]) -> t.Iterator[tuple[Slot, JSON, Fingerprint]]:
    """Each expression and field of a term."""
    for slot, key in IN_NODE_TERM.items():
        for entry in term.get(key) or ():
            yield slot, entry, Fingerprint.of(slot, entry)


def foreign_part(term: NodeTerm, ours: t.Collection[Fingerprint]) -> NodeTerm:
    """The term without what is ours; a list that is left empty is left out."""
    rest = {}
    for key, value in term.items():
        if key in IN_NODE_TERM.values():
            slot = next(slot for slot, name in IN_NODE_TERM.items() if name == key)
            value = [e for e in value or () if not _among(Fingerprint.of(slot, e), ours)]
            if not value:
                continue
        rest[key] = value
    return rest


def put(
    term: NodeTerm,
    wanted: t.Sequence[CompiledTerm],
    ours: t.Collection[Fingerprint],
    created: set[str],
) -> set[Fingerprint]:
    """AND what is missing of `wanted` into the term; `ours` may already stand there.

    Returns what was missing.
    """
    added = set()
    marks = [Fingerprint.of(compiled.slot, compiled.value) for compiled in wanted]
    for compiled, mark in zip(wanted, marks, strict=True):
        present = [found for _slot, _entry, found in standing(term) if found.says_the_same(mark)]
        if present and _among(mark, ours):
            continue
        key = IN_NODE_TERM[compiled.slot]
        if term.get(key) is None:
            if not is_empty(term):
                created.add(_list_mark(term, key, {*ours, *marks}))
            term[key] = []
        term[key].append(copy.deepcopy(compiled.value))
        added.add(mark)
    return added


def take_out(
    term: NodeTerm,
    gone: t.Iterable[Fingerprint],
    ours: t.Collection[Fingerprint],
    created: set[str],
) -> bool:
    """Remove one entry for each of `gone`. False if the term has become empty by that."""
    removed = [_remove_one(term, mark) for mark in gone]
    if not any(removed):
        return True
    for key in IN_NODE_TERM.values():
        mark = _list_mark(term, key, ours)
        if term.get(key) == [] and mark in created:
            created.discard(mark)
            del term[key]
    return not is_empty(term)


def _remove_one(term: NodeTerm, mark: Fingerprint) -> bool:
    key = IN_NODE_TERM.get(mark.slot)
    return key is not None and remove_entry(term.get(key) or [], mark)


def remove_entry(entries: list[JSON], mark: Fingerprint) -> bool:
    """Remove the last entry that is written as `mark` says, or else the last that says the same.

    The last: a term of ours was appended to what stood there.
    """
    marks = [Fingerprint.of(mark.slot, entry) for entry in entries]
    same = [i for i, found in enumerate(marks) if found == mark]
    alike = [i for i, found in enumerate(marks) if found.says_the_same(mark)]
    for index in (same or alike)[-1:]:
        del entries[index]
        return True
    return False


def _among(mark: Fingerprint, ours: t.Collection[Fingerprint]) -> bool:
    return any(own.says_the_same(mark) for own in ours)


def _list_mark(term: NodeTerm, key: str, ours: t.Collection[Fingerprint]) -> str:
    rest = {k: v for k, v in foreign_part(term, ours).items() if k != key}
    return f"{NODE_TERMS}/#{digest(rest, 10)}/{key}"
