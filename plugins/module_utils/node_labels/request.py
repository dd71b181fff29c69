# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node labels do the options of `node_labels` request, and which options are invalid?"""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ..model.findings import InputError
from ..model.input import InputReader, shown
from ..model.json_pointer import JSON
from ..model.topology import Topology, UndeclaredKey
from ..view.label_input import label_key, label_value

_NEAR = 0.7
"""How much a bare key to be removed must look like a declared name to be taken for a slip."""


@dataclass(frozen=True)
class LabelRequest:
    """Label keys are full keys.

    `per_node` has the labels of each node that is named, in the option `named_in`; `nodes` are named
    with `labels` for all of them, `selector` chooses such nodes at the server. `remove` are keys that
    go from the nodes meant, `exclusive` keys that go from every node that is not given them. `follow`: the labels say
    where nodes are, so that rules that depend on them do not prevent a change.
    """

    per_node: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    selector: str | None = None
    labels: t.Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    force: bool = False
    follow: bool = False
    named_in: str = "nodes"

    @property
    def named(self) -> tuple[str, ...]:
        """The nodes that the task names one by one."""
        return (*self.per_node, *self.nodes)

    def labels_of(self, node: str) -> t.Mapping[str, str]:
        """The labels that a node of the task gets."""
        return self.per_node.get(node, self.labels)


def parse_label_request(
    params: t.Mapping[str, JSON], topology: Topology
) -> tuple[LabelRequest, tuple[InputError, ...]]:
    """The request and all errors of the module's options. With errors the request is incomplete: use
    it only to find more errors."""
    faults: list[InputError] = []
    keys = _Keys(topology, faults)
    per_value = params["per_value"]
    per_node = {
        name: keys.labels(InputReader("per_node", faults, name), labels)
        for name, labels in (params["per_node"] or {}).items()
        if _is_name(name, InputReader("per_node", faults))
    }
    if per_value is not None:
        per_node = _by_node(per_value, keys, faults)
    request = LabelRequest(
        per_node=per_node,
        nodes=_names(params["nodes"] or (), faults),
        selector=_selector(params["selector"], keys, faults),
        labels=keys.labels(InputReader("labels", faults), params["labels"] or {}),
        remove=keys.removed(params["remove"]),
        exclusive=keys.listed("exclusive", params["exclusive"]),
        force=params["force"],
        follow=params["follow"],
        named_in="per_value" if per_value is not None else "per_node" if per_node else "nodes",
    )
    faults += _contradictions(request, params, complete=not faults)
    return request, tuple(faults)


class _Keys:
    """Reads label keys: a name of the vocabulary, or a key with its prefix."""

    def __init__(self, topology: Topology, faults: list[InputError]) -> None:
        self._topology = topology
        self._faults = faults

    def labels(self, reader: InputReader, given: JSON) -> dict[str, str]:
        if not isinstance(given, dict):
            reader.error("must be a map of label keys and values")
            return {}
        labels: dict[str, str] = {}
        for name, value in given.items():
            at = reader.at(str(name))
            key = self.key(at, str(name))
            text = label_value(at, value)
            if key in labels:
                at.error(f"the label {key} is given twice, by name and by key")
            if key is not None and text is not None:
                labels[key] = text
        return labels

    def key(self, reader: InputReader, name: str) -> str | None:
        try:
            key = self._topology.resolve(name)
        except UndeclaredKey as error:
            reader.error(str(error))
            return None
        return key if label_key(reader, key) else None

    def listed(self, option: str, names: t.Sequence[str]) -> tuple[str, ...]:
        keys = [
            self.key(InputReader(f"{option}[{index}]", self._faults), name)
            for index, name in enumerate(names)
        ]
        return tuple(dict.fromkeys(key for key in keys if key is not None))

    def removed(self, names: t.Sequence[str]) -> tuple[str, ...]:
        """Keys to be removed. A key without a prefix need not be declared, since it is often no longer
        in use, but one that resembles a declared name is an error."""
        keys = []
        for index, name in enumerate(names):
            reader = InputReader(f"remove[{index}]", self._faults)
            near = difflib.get_close_matches(name, self._topology.keys, n=1, cutoff=_NEAR)
            declared = name in self._topology.keys or "/" in name or bool(near)
            key = self.key(reader, name) if declared else name if label_key(reader, name) else None
            if key is not None:
                keys.append(key)
        return tuple(dict.fromkeys(keys))


def _by_node(
    per_value: t.Mapping[str, JSON], keys: _Keys, faults: list[InputError]
) -> dict[str, dict[str, str]]:
    """The labels of each node in `{key: {value: [node, ...]}}`."""
    labels: dict[str, dict[str, str]] = {}
    for name, nodes_by_value in per_value.items():
        reader = InputReader("per_value", faults, str(name))
        key = keys.key(reader, str(name))
        if not isinstance(nodes_by_value, dict):
            reader.error(f"must be a map of values to lists of nodes, not {shown(nodes_by_value)}")
            continue
        for value, nodes in nodes_by_value.items():
            at = reader.at(str(value))
            text, names = label_value(at, value), at.texts(nodes)
            for node in names or ():
                given = labels.setdefault(node, {})
                if key is None or text is None:
                    continue
                if key in given:
                    at.error(f"{node} is also listed under {given[key]!r}: keep one of the two")
                given.setdefault(key, text)
    return labels


def _is_name(name: JSON, reader: InputReader) -> bool:
    if isinstance(name, str) and name.strip():
        return True
    reader.error(f"{name!r} is not the name of a node")
    return False


def _names(given: t.Sequence[str], faults: list[InputError]) -> tuple[str, ...]:
    nodes = []
    for index, name in enumerate(given):
        reader = InputReader(f"nodes[{index}]", faults)
        if not _is_name(name, reader):
            continue
        if name in nodes:
            reader.error(f"{name} is listed twice")
        else:
            nodes.append(name)
    return tuple(nodes)


_REQUIREMENT = re.compile(r"\s*(!?)\s*([^\s!=<>(),]+)(.*)", re.DOTALL)
_SEPARATOR = re.compile(r",(?![^(]*\))")


def _selector(text: str | None, keys: _Keys, faults: list[InputError]) -> str | None:
    """A label selector as the server reads it, with the keys of topology names. None if there is
    none, or it is invalid.

    The server checks what follows the key of each requirement.
    """
    reader, before = InputReader("selector", faults), len(faults)
    if text is None:
        return None
    if not text.strip():
        reader.error("must not be empty: an empty selector matches every node")
        return None
    requirements = []
    for part in _SEPARATOR.split(text):
        match = _REQUIREMENT.fullmatch(part)
        if match is None:
            reader.error(
                f"{part.strip()!r} is not a requirement: write key, !key, key=value or key in (a, b)"
            )
            continue
        key = keys.key(reader, match[2])
        requirements.append(f"{match[1]}{key}{match[3].rstrip()}")
    return ",".join(requirements) if len(faults) == before else None


def _contradictions(
    request: LabelRequest, params: t.Mapping[str, JSON], *, complete: bool
) -> t.Iterator[InputError]:
    """Options that contradict each other; `complete`: all options could be read."""
    chosen = [request.labels] if params["nodes"] or params["selector"] else []
    given = {key for labels in (*request.per_node.values(), *chosen) for key in labels}
    for key in request.remove:
        if key in given:
            yield InputError("remove", f"{key} is also given: remove it from one of the two")
        if key in request.exclusive:
            yield InputError("remove", f"{key} is also in exclusive: remove it from one of the two")
    for key in request.exclusive:
        if complete and key not in given:
            yield InputError(
                "exclusive",
                f"{key} is set on no node here, so every node would lose it: use remove instead",
            )
    for option in ("per_node", "per_value"):
        if request.labels and params[option] is not None:
            yield InputError("labels", f"only with nodes or selector: {option} has its own labels")
