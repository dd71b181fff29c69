# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of each verb inside a rule."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.pointer import JSON
from ..model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    RunOn,
    SpreadOver,
    Target,
    Terms,
    Verb,
)
from ..model.topology import Topology
from . import references
from .label_input import label_key, label_value
from .raw_terms import read_terms
from .values import Notes, left_out


@dataclass(frozen=True)
class Context:
    """What names inside a verb mean."""

    namespace: str
    topology: Topology


Nodes = tuple[tuple[str, tuple[str, ...]], ...]


def run_on(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """`{key: value or list}`."""
    found = _nodes(notes, value, context)
    return None if found is None else RunOn(found)


def avoid(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """`{key: value or list}`."""
    found = _nodes(notes, value, context)
    return None if found is None else Avoid(found)


def keep_apart(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """`{over, from, pods, strict}`."""
    known = ("over", "from", "pods", "strict")
    given = notes.mapping(value, known)
    if given is None:
        return None
    over = _over(notes, value, known, context)
    strict = notes.at("strict").boolean(given.get("strict", False))
    others: list[Target | None] = []
    for option, read in (("from", references.workload), ("pods", references.pods)):
        if option in given:
            others += _targets(notes.at(option), given[option], read, context)
    if over is None or strict is None or None in others:
        return None
    return KeepApart(over, tuple(other for other in others if other is not None), strict)


def keep_together(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """`{over, with | leader | pods}`, or `{over}` for the members with each other."""
    known = ("over", "with", "leader", "pods")
    given = notes.mapping(value, known)
    if given is None:
        return None
    over = _over(notes, value, known, context)
    ways = [way for way in ("with", "leader", "pods") if way in given]
    if len(ways) > 1:
        notes.fault(f"takes one of with, leader and pods, not {' and '.join(ways)}")
        return None
    target: Target | None = None
    if ways:
        read = references.pods if ways == ["pods"] else references.workload
        target = read(notes.at(ways[0]), given[ways[0]], context.namespace)
        if target is None:
            return None
        if isinstance(target, PodSelector) and len(target.namespaces) > 1:
            notes.at("pods.namespaces").fault(
                "takes one namespace here: a pod beside them would have to be in all of them"
            )
            return None
    return None if over is None else KeepTogether(over, target, leader=ways == ["leader"])


def spread(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """`{over, max_skew}`."""
    known = ("over", "max_skew")
    given = notes.mapping(value, known)
    if given is None:
        return None
    over = _over(notes, value, known, context)
    skew = notes.at("max_skew").integer(given.get("max_skew", 1), 1)
    return None if over is None or skew is None else SpreadOver(over, skew)


def terms(notes: Notes, value: JSON, context: Context) -> Verb | None:
    """Placement fields of a pod, as Kubernetes writes them."""
    found = read_terms(notes, value)
    return None if found is None else Terms(found)


VERBS: t.Mapping[str, t.Callable[[Notes, JSON, Context], Verb | None]] = {
    "run_on": run_on,
    "avoid": avoid,
    "keep_apart": keep_apart,
    "keep_together": keep_together,
    "spread": spread,
    "terms": terms,
}


def _over(
    notes: Notes, given: t.Mapping[str, JSON], known: t.Collection[str], context: Context
) -> str | None:
    if "over" not in given:
        if left_out("over", given, known):
            notes.fault("needs over: the topology key whose domains are meant")
        return None
    inner = notes.at("over")
    key = inner.key(given["over"], context.topology)
    return key if key is not None and label_key(inner, key) else None


def _nodes(notes: Notes, value: JSON, context: Context) -> Nodes | None:
    if not isinstance(value, dict):
        notes.fault("must be a map of topology keys and the values that nodes have there")
        return None
    if not value:
        notes.fault("is empty: name at least one key with its value")
        return None
    before = len(notes.faults)
    found: dict[str, tuple[str, ...]] = {}
    for name, wanted in value.items():
        inner = notes.at(str(name))
        key = inner.key(name, context.topology)
        values = _node_values(inner, wanted)
        if key is None or not label_key(inner, key) or values is None:
            continue
        if key in found:
            inner.fault(f"is the key {key}, which stands here already under another name")
        found[key] = values
    return tuple(found.items()) if len(notes.faults) == before else None


def _node_values(notes: Notes, value: JSON) -> tuple[str, ...] | None:
    if value == []:
        notes.fault("is an empty list: name at least one value")
        return None
    values = value if isinstance(value, list) else [value]
    found = [label_value(notes, item) for item in values]
    kept = [item for item in found if item is not None]
    return tuple(dict.fromkeys(kept)) if len(kept) == len(found) else None


_Read = t.Callable[[Notes, JSON, str], "Target | None"]


def _targets(notes: Notes, value: JSON, read: _Read, context: Context) -> list[Target | None]:
    items = notes.sequence(value)
    if items is None:
        return [None]
    if not items:
        notes.fault("is an empty list: name whom to keep apart from, or leave it out")
        return [None]
    if isinstance(value, dict):
        return [read(notes, value, context.namespace)]
    return [read(notes.item(i), item, context.namespace) for i, item in enumerate(items)]
