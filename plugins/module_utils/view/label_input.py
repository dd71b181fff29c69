# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels may users give, and which does the option `assume_node_labels` give to nodes?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import InputReader, nearest
from ..model.json_pointer import JSON
from ..model.kinds import PREFIX
from ..model.topology import Topology
from ..scheduler.labels import is_label_key, is_label_value

if t.TYPE_CHECKING:
    from ..model.snapshot import Snapshot

_RESERVED = ("kubevirt.io", "kubernetes.io", "k8s.io")
"""Prefixes that KubeVirt and Kubernetes keep for themselves, with every subdomain (Kubernetes:
Well-Known Labels, Annotations and Taints; KubeVirt: api/core/v1/types.go)."""

_RECOMMENDED = "app.kubernetes.io"
"""The one among them that Kubernetes leaves to users (its Recommended Labels)."""

_OF_CONTROLLERS = (
    "kubevirt.io",
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "job-name",
)
"""Keys without a prefix by which controllers know their pods; of a launcher pod that is
`kubevirt.io` (KubeVirt AppLabel)."""


def is_reserved(key: str) -> bool:
    """Whether a label belongs to KubeVirt or Kubernetes, which may no longer recognize a pod once
    its value changes."""
    prefix, slash, _name = key.rpartition("/")
    if not slash:
        return key in _OF_CONTROLLERS
    kept = any(prefix == reserved or prefix.endswith(f".{reserved}") for reserved in _RESERVED)
    return kept and prefix != _RECOMMENDED


def free_key(notes: InputReader, key: str) -> bool:
    """Whether a rule may put a label with this key on pods; an error is added if not."""
    if not is_reserved(key) and not key.startswith(PREFIX):
        return True
    owner = "virt.placement" if key.startswith(PREFIX) else "KubeVirt and Kubernetes"
    notes.error(
        f"{key!r} is a label of {owner}, whose pods are known by it: use a key of your own, such as"
        " example.com/group"
    )
    return False


def label_key(notes: InputReader, key: str) -> bool:
    """Whether `key` is a valid label key; an error is added if not."""
    if is_label_key(key):
        return True
    notes.error(
        f"{key!r} is not a valid label key: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit, after an optional DNS prefix and a slash"
    )
    return False


def label_value(notes: InputReader, value: JSON) -> str | None:
    """A valid label value that is not empty; None, and an error is added, if it is not."""
    text = notes.text(value)
    if text is None or is_label_value(text):
        return text
    notes.error(
        f"{text!r} is not a valid label value: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit"
    )
    return None


def labels(notes: InputReader, value: JSON) -> dict[str, str] | None:
    """Label keys with their values: at least one."""
    if not isinstance(value, dict):
        notes.error("must be a map of label keys and values")
        return None
    if not value:
        notes.error("is empty: name at least one label, since an empty selector matches every pod")
        return None
    texts = {str(key): label_value(notes.at(str(key)), inner) for key, inner in value.items()}
    valid = [label_key(notes, key) for key in texts]
    kept = {key: text for key, text in texts.items() if text is not None}
    return kept if all(valid) and len(kept) == len(texts) else None


OPTION = "assume_node_labels"

NodeLabels = t.Mapping[str, t.Mapping[str, "str | None"]]
"""By node name: the value of each label key; None for a label that is removed."""


NO_LABELS: NodeLabels = {}


def assumed_node_labels(
    given: t.Mapping[str, JSON], topology: Topology, faults: list[InputError]
) -> NodeLabels:
    """The option, with topology names resolved; what is wrong with it is added to `faults`."""
    return {
        name: _labels(InputReader(OPTION, faults, str(name)), labels, topology)
        for name, labels in given.items()
    }


def _labels(reader: InputReader, given: JSON, topology: Topology) -> dict[str, str | None]:
    if not isinstance(given, dict):
        reader.error("must be a map of label keys and values")
        return {}
    labels: dict[str, str | None] = {}
    for name, value in given.items():
        at = reader.at(str(name))
        # The key of a label that is removed is often no longer declared.
        is_key = name in topology.keys.values() or (value is None and name not in topology.keys)
        key = str(name) if is_key else at.key(name, topology)
        if key is None or not label_key(at, key):
            continue
        text = None if value is None else label_value(at, value)
        if value is None or text is not None:
            labels[key] = text
    return labels


def with_node_labels(snapshot: Snapshot, assumed: NodeLabels, faults: list[InputError]) -> Snapshot:
    """The snapshot as if its nodes had these labels. A node that does not exist is added to `faults`,
    unless nodes could not be read."""
    if not assumed:
        return snapshot
    names = snapshot.nodes_by_name
    if not any(gap.resource == "nodes" for gap in snapshot.unreadable):
        faults += [
            InputError(OPTION, f"there is no node {name!r}{nearest(name, names)}")
            for name in assumed
            if name not in names
        ]
    nodes = []
    for node in snapshot.nodes:
        if node.name in assumed:
            labels = {**node.labels, **assumed[node.name]}
            kept = {key: value for key, value in labels.items() if value is not None}
            node = replace(node, labels=kept)
        nodes.append(node)
    return replace(snapshot, nodes=tuple(nodes))
