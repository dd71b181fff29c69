# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""References to workloads, pods and labels, as every option of the collection writes them."""

from __future__ import annotations

import typing as t

from ..model.kinds import DEPLOYMENT, KINDS, REPLICA_SET, VIRTUAL_MACHINE
from ..model.pointer import JSON
from ..model.rule import PodSelector, WorkloadSelector
from .label_input import label_key, label_value
from .values import Notes, left_out, nearest

SUPPORTED = (VIRTUAL_MACHINE.name, REPLICA_SET.name, DEPLOYMENT.name)

_OF_PODS = ("labels", "namespaces")
_WAYS = ("name", "names", "labels")
_OPTIONS = ("kind", "namespace", *_WAYS)


def workload(notes: Notes, value: JSON, namespace: str) -> WorkloadSelector | None:
    """`{kind, namespace, name | names | labels}`."""
    given = notes.mapping(value, _OPTIONS)
    if given is None:
        return None
    kind = _kind(notes.at("kind"), given.get("kind", VIRTUAL_MACHINE.name))
    where = notes.at("namespace").text(given["namespace"]) if "namespace" in given else namespace
    ways = [way for way in _WAYS if way in given]
    if len(ways) != 1:
        seen = f"has {' and '.join(ways)}" if ways else "has none of them"
        if ways or all(left_out(way, value, _OPTIONS) for way in _WAYS):
            notes.fault(f"must name workloads by one of name, names or labels, and {seen}")
        return None
    by_labels = ways == ["labels"]
    found = _by(notes.at(ways[0]), ways[0], given[ways[0]])
    if kind is None or where is None or found is None:
        return None
    if by_labels:
        return WorkloadSelector(kind, where, labels=t.cast("dict[str, str]", found))
    return WorkloadSelector(kind, where, names=t.cast("tuple[str, ...]", found))


def _by(notes: Notes, way: str, value: JSON) -> tuple[str, ...] | dict[str, str] | None:
    if way == "labels":
        return labels(notes, value)
    if way == "name":
        name = notes.text(value)
        return None if name is None else (name,)
    names = notes.texts(value)
    if names is not None and isinstance(value, list) and len(names) < len(value):
        given = [str(each).strip() for each in value]
        twice = [repr(name) for name in names if given.count(name) > 1]
        notes.fault(f"has {' and '.join(twice)} more than once")
        return None
    return names


def _kind(notes: Notes, value: JSON) -> str | None:
    name = notes.text(value)
    if name is None or name in SUPPORTED:
        return name
    known = ", ".join(SUPPORTED)
    if name == "Pod":
        notes.fault(f"a Pod has no template to put a rule in: name its owner, one of {known}")
    elif name in KINDS and KINDS[name].writable:
        notes.fault(f"{name} is not supported yet, it comes with a later release; now: {known}")
    elif name in KINDS:
        notes.fault(f"rules cannot be put on a {name}, it is only read; use one of {known}")
    else:
        notes.fault(
            f"{name!r} is no kind of workload: use one of {known}{nearest(name, SUPPORTED)}"
        )
    return None


def pods(notes: Notes, value: JSON, namespace: str) -> PodSelector | None:
    """`{labels, namespaces}`: pods whatever they belong to."""
    given = notes.mapping(value, _OF_PODS)
    if given is None:
        return None
    if "labels" not in given:
        if left_out("labels", value, _OF_PODS):
            notes.fault("needs labels: without them it would mean every pod, or none")
        return None
    found = labels(notes.at("labels"), given["labels"])
    namespaces: tuple[str, ...] | None = (namespace,)
    if "namespaces" in given:
        namespaces = notes.at("namespaces").texts(given["namespaces"])
    if namespaces == ():
        notes.at("namespaces").fault("is empty: name at least one namespace, or leave it out")
    if not found or not namespaces:
        return None
    return PodSelector(found, namespaces)


def labels(notes: Notes, value: JSON) -> dict[str, str] | None:
    """Label keys with their values: at least one."""
    if not isinstance(value, dict):
        notes.fault("must be a map of label keys and values")
        return None
    if not value:
        notes.fault("is empty: an empty selector would match everything, so name a label")
        return None
    found = {str(key): label_value(notes.at(str(key)), inner) for key, inner in value.items()}
    valid = [label_key(notes, key) for key in found]
    kept = {key: text for key, text in found.items() if text is not None}
    return kept if all(valid) and len(kept) == len(found) else None
