# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task of `node_labels` asks for, read from its options with every fault at once."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ..model.finding import Fault
from ..model.pointer import JSON
from ..model.topology import Topology, UndeclaredKey
from .label_input import label_key, label_value
from .values import Notes

_NEAR = 0.7
"""How much a bare key to be removed must look like a declared name to be taken for a slip."""


@dataclass(frozen=True)
class LabelRequest:
    """Label keys are full keys.

    `per_node` has the labels of each node that is named; `nodes` are named with `labels` for all of
    them, `selector` chooses such nodes at the server. `remove` are keys that go from the nodes
    meant, `exclusive` keys that go from every node that is not given them.
    """

    per_node: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    selector: str = ""
    labels: t.Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    force: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """The nodes that the task names one by one."""
        return (*self.per_node, *self.nodes)

    def labels_of(self, node: str) -> t.Mapping[str, str]:
        """What a node that is meant is given."""
        return self.per_node.get(node, self.labels)


def parse_label_request(
    params: t.Mapping[str, JSON], topology: Topology
) -> tuple[LabelRequest, tuple[Fault, ...]]:
    """All faults in the module's options, and the request in what is left of them: that is for
    finding more faults, and not to be carried out."""
    faults: list[Fault] = []
    keys = _Keys(topology, faults)
    per_node = {
        name: keys.labels(Notes("per_node", faults, name), labels)
        for name, labels in (params["per_node"] or {}).items()
        if _is_name(name, Notes("per_node", faults))
    }
    request = LabelRequest(
        per_node=per_node,
        nodes=_names(params["nodes"] or (), faults),
        selector=_selector(params["selector"], keys, faults),
        labels=keys.labels(Notes("labels", faults), params["labels"] or {}),
        remove=keys.removed(params["remove"]),
        exclusive=keys.listed("exclusive", params["exclusive"]),
        force=params["force"],
    )
    faults += _contradictions(request, params, complete=not faults)
    return request, tuple(faults)


class _Keys:
    """Reads label keys: a name of the vocabulary, or a key with its prefix."""

    def __init__(self, topology: Topology, faults: list[Fault]) -> None:
        self._topology = topology
        self._faults = faults

    def labels(self, notes: Notes, given: JSON) -> dict[str, str]:
        if not isinstance(given, dict):
            notes.fault("must be a map of label keys and values")
            return {}
        found: dict[str, str] = {}
        for name, value in given.items():
            at = notes.at(str(name))
            key = self.key(at, str(name))
            text = label_value(at, value)
            if key in found:
                at.fault(f"the label {key} is given twice, by name and by key")
            if key is not None and text is not None:
                found[key] = text
        return found

    def key(self, notes: Notes, name: str) -> str | None:
        try:
            key = self._topology.resolve(name)
        except UndeclaredKey as error:
            notes.fault(str(error))
            return None
        return key if label_key(notes, key) else None

    def listed(self, option: str, names: t.Sequence[str]) -> tuple[str, ...]:
        found = [
            self.key(Notes(f"{option}[{index}]", self._faults), name)
            for index, name in enumerate(names)
        ]
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def removed(self, names: t.Sequence[str]) -> tuple[str, ...]:
        """Keys to be removed. A bare one need not be declared, since what is no longer wanted
        is often no longer declared, but one that looks like a slip is a fault."""
        found = []
        for index, name in enumerate(names):
            notes = Notes(f"remove[{index}]", self._faults)
            near = difflib.get_close_matches(name, self._topology.keys, n=1, cutoff=_NEAR)
            declared = name in self._topology.keys or "/" in name or bool(near)
            key = self.key(notes, name) if declared else name if label_key(notes, name) else None
            if key is not None:
                found.append(key)
        return tuple(dict.fromkeys(found))


def _is_name(name: JSON, notes: Notes) -> bool:
    if isinstance(name, str) and name.strip():
        return True
    notes.fault(f"{name!r} is no name of a node")
    return False


def _names(given: t.Sequence[str], faults: list[Fault]) -> tuple[str, ...]:
    found = []
    for index, name in enumerate(given):
        notes = Notes(f"nodes[{index}]", faults)
        if not _is_name(name, notes):
            continue
        if name in found:
            notes.fault(f"{name} is listed twice")
        else:
            found.append(name)
    return tuple(found)


_REQUIREMENT = re.compile(r"\s*(!?)\s*([^\s!=<>(),]+)(.*)", re.DOTALL)
_SEPARATOR = re.compile(r",(?![^(]*\))")


def _selector(text: str | None, keys: _Keys, faults: list[Fault]) -> str:
    """A label selector as the server reads it, the names of the vocabulary put in full. Empty where
    there is none, or it has a fault.

    What stands behind the key of each requirement is left to the server to judge.
    """
    notes, before = Notes("selector", faults), len(faults)
    if text is None:
        return ""
    if not text.strip():
        notes.fault("is empty, and would choose every node: name the label that chooses them")
        return ""
    found = []
    for part in _SEPARATOR.split(text):
        match = _REQUIREMENT.fullmatch(part)
        if match is None:
            notes.fault(
                f"{part.strip()!r} is no requirement: write key, !key, key=value or key in (a, b)"
            )
            continue
        key = keys.key(notes, match[2])
        found.append(f"{match[1]}{key}{match[3].rstrip()}")
    return ",".join(found) if len(faults) == before else ""


def _contradictions(
    request: LabelRequest, params: t.Mapping[str, JSON], *, complete: bool
) -> t.Iterator[Fault]:
    """What options say against each other; `complete` where all that is given could be read."""
    chosen = [request.labels] if params["nodes"] or params["selector"] else []
    given = {key for labels in (*request.per_node.values(), *chosen) for key in labels}
    for key in request.remove:
        if key in given:
            yield Fault("remove", f"{key} is also given: take it out of one of the two")
        if key in request.exclusive:
            yield Fault("remove", f"{key} is also in exclusive: take it out of one of the two")
    for key in request.exclusive:
        if complete and key not in given:
            yield Fault(
                "exclusive",
                f"no node is given {key}, so every node would lose it: use remove for that",
            )
    if request.labels and params["per_node"] is not None:
        yield Fault("labels", "goes with nodes or selector; per_node has labels of its own")
