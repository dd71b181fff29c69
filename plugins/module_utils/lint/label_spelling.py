# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node label may be meant by a key or a value that no node has?

A wrong suggestion is worse than none: prefix and name of a key are compared by themselves, a replaced key is
not suggested where its successor is, and neither is another member of a series (zone-a for zone-d).
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ..model.topology import DEPRECATED

REPLACED: t.Mapping[str, str] = {
    **DEPRECATED,
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
}
"""Node labels that Kubernetes has replaced, and by what."""

KNOWN: t.Mapping[str, tuple[str, ...]] = {
    "kubernetes.io": ("hostname", "os", "arch"),
    "topology.kubernetes.io": ("zone", "region"),
}
"""All node labels that Kubernetes defines under two prefixes that it reserves."""

DEFINED = tuple(f"{prefix}/{name}" for prefix, names in KNOWN.items() for name in names)

_OF_INSTALLERS = ("kubernetes.io/role",)
"""Node labels under these prefixes that installers set all the same (AKS, kops)."""

_FREE = (
    "node-role.kubernetes.io",
    "node-restriction.kubernetes.io",
    "feature.node.kubernetes.io",
    "node.kubernetes.io",
)
"""Prefixes below kubernetes.io under which anyone may name node labels (kubelet's --node-labels, the admission
plugin NodeRestriction, node-feature-discovery)."""

_LIKE = 0.8
_SERIES = re.compile(r"\d+|(?<![a-z])[a-z](?![a-z])|(?<=\d)[a-z]$", re.IGNORECASE)
"""What tells the members of a series apart: a number, or a letter alone."""


def of_no_node(key: str) -> bool:
    """Whether Kubernetes gives no node this label, under a prefix that only Kubernetes may use."""
    prefix, _slash, name = key.rpartition("/")
    return prefix in KNOWN and name not in KNOWN[prefix] and key not in _OF_INSTALLERS


def misspelt(key: str) -> str:
    """The label of Kubernetes that a key is a misspelt form of; empty for none."""
    prefix, slash, _name = key.rpartition("/")
    if not slash or prefix in _FREE or key in (*DEFINED, *REPLACED, *_OF_INSTALLERS):
        return ""
    is_reserved = prefix == "kubernetes.io" or prefix.endswith(
        (".kubernetes.io", "topology.k8s.io")
    )
    of_kubernetes = [
        known
        for known in DEFINED
        if _same_name(key, known) and (is_reserved or _prefixes_alike(key, known))
    ]
    return next(iter(of_kubernetes or [x for x in DEFINED if _alike(key, x)]), "")


def meant_key(key: str, there: t.Collection[str]) -> str:
    """`; ... may be meant`, of the keys that are there and near enough, if any are."""
    current = sorted(x for x in there if x not in REPLACED)
    if (successor := REPLACED.get(key)) in current:
        return _may_be([successor])
    if (known := misspelt(key)) in current:
        return _may_be([known])
    same = [x for x in current if _same_name(key, x) and (x in DEFINED or _prefixes_alike(key, x))]
    return _may_be(same or [x for x in current if _alike(key, x)][:2])


def meant_defined_key(key: str) -> str:
    """As `meant_key`, of the labels that Kubernetes defines."""
    bare = [known for known in DEFINED if "/" not in key and _same_name(key, known)]
    return _may_be(bare or list(filter(None, [misspelt(key)])))


def meant_value(value: str, there: t.Collection[str]) -> str:
    """`; ... may be meant`, of the values that nodes have."""
    same = [x for x in there if x.casefold() == value.casefold()]
    near = difflib.get_close_matches(value, there, n=2, cutoff=0.6)
    return _may_be(same or [x for x in near if _SERIES.findall(x) == _SERIES.findall(value)])


def _same_name(key: str, other: str) -> bool:
    return key.rpartition("/")[2].casefold() == other.rpartition("/")[2].casefold()


def _prefixes_alike(key: str, other: str) -> bool:
    return _ratio(key.rpartition("/")[0], other.rpartition("/")[0]) >= _LIKE


def _alike(key: str, other: str) -> bool:
    """Whether prefixes and names are nearly the same, or the name is the beginning or a longer form of the other."""
    name, other_name = key.rpartition("/")[2], other.rpartition("/")[2]
    longer = min(len(name), len(other_name)) > 3 and (
        name.startswith(other_name) or other_name.startswith(name)
    )
    return _prefixes_alike(key, other) and (longer or _ratio(name, other_name) >= _LIKE)


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.casefold(), other.casefold()).ratio()


def _may_be(names: t.Sequence[str]) -> str:
    return f"; {' or '.join(names)} may be meant" if names else ""
