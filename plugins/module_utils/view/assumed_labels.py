# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels does the option `assume_node_labels` give to nodes, and what is a cluster like with them?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import InputReader, nearest
from ..model.json_pointer import JSON
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from .label_input import label_key, label_value

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
    names = {node.name for node in snapshot.nodes}
    if not any(gap.resource == "nodes" for gap in snapshot.unreadable):
        faults += [
            InputError(OPTION, f"there is no node {name!r}{nearest(name, names)}")
            for name in assumed
            if name not in names
        ]
    nodes = (
        replace(node, labels=_changed(node.labels, assumed[node.name]))
        if node.name in assumed
        else node
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=tuple(nodes))


def _changed(labels: t.Mapping[str, str], assumed: t.Mapping[str, str | None]) -> dict[str, str]:
    merged = {**labels, **assumed}
    return {key: value for key, value in merged.items() if value is not None}
