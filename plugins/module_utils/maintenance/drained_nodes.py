# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes were in maintenance when their Node objects were deleted, and with which marks?

A host that is installed anew registers a new Node object of its name, which has neither our mark nor our labels. So the
marks of nodes that are drained are also in an annotation of the Lease, until the nodes are in service. A node that the
annotation has no room for is in service without them, as before.
"""

from __future__ import annotations

import datetime
import json
import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..api.errors import TestFailed
from ..cluster import lease
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import DRAINED, MOVED_AWAY, NODE_LABELS
from ..model.objects import Node
from ..model.rendering import listed
from ..model.topology import Topology
from . import mark as marks
from .mark import DamagedMark, Mark, is_marked, mark_of

LIMIT = 32 * 1024
"""The most characters of the annotation: all annotations of the Lease have 256 KiB, most of it for the journal."""

KEPT = datetime.timedelta(days=30)
"""How long a node is waited for, from the first drain that finds its Node object missing. After that it is gone for
good: it neither counts as out of service, nor gives what it had to a new node of its name."""

_TIME = "%Y-%m-%dT%H:%M:%SZ"

_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """`labels` say where the node is (topology), or were set by node_labels. `missing`: since when no Node object of
    its name exists, as a drain has found."""

    uid: str
    mark: Mark
    labels: t.Mapping[str, str]
    missing: datetime.datetime | None = None

    @classmethod
    def of(cls, node: Node, mark: Mark, topology: Topology) -> DrainedNode:
        try:
            ours = read_annotation(node.annotations.get(NODE_LABELS) or "{}")
        except DamagedAnnotation:
            ours = {}
        keys = {*topology.keys.values(), *ours}
        labels = {key: node.labels[key] for key in sorted(keys) if key in node.labels}
        return cls(node.uid, replace(mark, down={}, returned={}), labels)

    def is_awaited(self, now: datetime.datetime) -> bool:
        return self.missing is None or now - self.missing < KEPT

    def is_of_maintenance(self, other: DrainedNode) -> bool:
        """Whether both are of one Node object, drained by one run."""
        return (self.uid, self.mark.run) == (other.uid, other.mark.run)

    def is_replaced_by(self, node: Node) -> bool:
        """Whether `node`, of the same name, is a new object that has taken over nothing of this one yet."""
        return node.uid != self.uid and mark_of(node) is None and MOVED_AWAY not in node.annotations

    def lost_labels(self, node: Node) -> list[str]:
        """Which labels the new object lacks, or has with another value, in words."""
        return [
            f"{key}={node.labels[key]}, which was {value}"
            if key in node.labels
            else f"no {key}, which was {value}"
            for key, value in self.labels.items()
            if node.labels.get(key) != value
        ]


DrainedNodes = dict[str, DrainedNode]
"""By name."""


def decode(text: str) -> DrainedNodes:
    """Raises InvalidInput for anything but what `encode` writes."""
    try:
        return {name: _decoded(entry) for name, entry in read_annotation(text or "{}").items()}
    except (DamagedAnnotation, DamagedMark) as error:
        raise InvalidInput(
            [
                InputError(
                    f"{lease.NAME}, annotation {DRAINED}",
                    f"is damaged ({error}): remove it. What was moved away from Node objects that were deleted in their"
                    " maintenance is then not known",
                )
            ]
        ) from error


def _decoded(entry: JSON) -> DrainedNode:
    if not isinstance(entry, dict) or set(entry) - {"missing"} != {"uid", "mark", "labels"}:
        raise DamagedMark("an entry is no map of uid, mark and labels")
    uid, mark, labels, missing = (entry.get(name, "") for name in _FIELDS)
    texts = [uid, mark, missing, *labels.values()] if isinstance(labels, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise DamagedMark("a field has the wrong type")
    return DrainedNode(uid, marks.decode(mark), labels, _decoded_time(missing))


_FIELDS = ("uid", "mark", "labels", "missing")


def _decoded_time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(f"{text}+0000", f"{_TIME}%z") if text else None
    except ValueError as error:
        raise DamagedMark("missing is no time") from error


def fitted(nodes: DrainedNodes) -> DrainedNodes:
    """What LIMIT has room for. Where it needs that, only with the VMs that are started again, and without the last
    nodes by name."""
    if len(encode(nodes)) > LIMIT:
        nodes = {name: replace(node, mark=_short(node.mark)) for name, node in nodes.items()}
    while len(encode(nodes)) > LIMIT:
        nodes = dict(sorted(nodes.items())[:-1])
    return nodes


def encode(nodes: DrainedNodes) -> str:
    """Empty for no nodes."""
    body = {
        name: {
            "uid": node.uid,
            "mark": marks.encode(node.mark),
            "labels": dict(node.labels),
            **({"missing": node.missing.strftime(_TIME)} if node.missing else {}),
        }
        for name, node in sorted(nodes.items())
    }
    return json.dumps(body, separators=(",", ":")) if body else ""


def _short(mark: Mark) -> Mark:
    away = {name: text for name, text in mark.away.items() if name in mark.starts}
    return replace(mark, away=away)


def read(api: ApiClient) -> DrainedNodes:
    """Empty where there is no Lease, or it may not be read."""
    reading = lease.read_if_allowed(api)
    return decode(reading.drained) if reading is not None else {}


def deleted(nodes: DrainedNodes, there: t.Container[str]) -> DrainedNodes:
    """Those of which no Node object exists, and which are waited for. `there` are the names of all Node objects."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        name: node for name, node in nodes.items() if name not in there and node.is_awaited(now)
    }


def replaced(api: ApiClient, nodes: t.Iterable[Node]) -> dict[str, Mark]:
    """The marks of Node objects that were deleted, by the names of those of `nodes` that took their places."""
    drained = read(api)
    return {
        node.name: known.mark
        for node in nodes
        if (known := drained.get(node.name)) is not None and known.is_replaced_by(node)
    }


def note(
    api: ApiClient, nodes: t.Iterable[Node], all_nodes: t.Iterable[Node], topology: Topology
) -> list[str]:
    """Write the marks of these nodes beside those of others, of which only those are kept that are in maintenance, or
    whose Node objects were deleted in it. Returns warnings about those that are gone for good."""
    noted = {
        node.name: DrainedNode.of(node, mark, topology)
        for node in nodes
        if (mark := mark_of(node)) is not None
    }
    by_name = {node.name: node for node in all_nodes}
    now = datetime.datetime.now(datetime.timezone.utc)
    gone: DrainedNodes = {}

    def changed(known: DrainedNodes) -> DrainedNodes:
        in_service = {
            name
            for name, drained in known.items()
            if name in by_name and drained.uid == by_name[name].uid and not is_marked(by_name[name])
        }
        others = {
            name: replace(drained, missing=None if name in by_name else drained.missing or now)
            for name, drained in known.items()
            if name not in noted and name not in in_service
        }
        gone.clear()
        gone.update({name: node for name, node in others.items() if not node.is_awaited(now)})
        return {**{name: node for name, node in others.items() if name not in gone}, **noted}

    lines = _about_room(*_change(api, changed))
    return [*(_about_gone(name, node) for name, node in sorted(gone.items())), *lines]


def _about_gone(name: str, drained: DrainedNode) -> str:
    stopped = listed(drained.mark.starts)
    start = f". Start these VMs yourself, if they are not started: {stopped}" if stopped else ""
    return (
        f"warning: node {name}, which was deleted in its maintenance, does not exist since {drained.missing:%Y-%m-%d}:"
        f" it is not waited for any more, after {KEPT.days} days{start}"
    )


def _about_room(wanted: DrainedNodes, written: DrainedNodes) -> list[str]:
    """Warnings about what LIMIT had no room for."""
    left_out = sorted(wanted.keys() - written.keys())
    short = sorted(name for name in written if written[name].mark.away != wanted[name].mark.away)
    room = f"warning: {lease.NAME}, annotation {DRAINED}, has no room for"
    lines = []
    if left_out:
        lines.append(
            f"{room} the nodes {', '.join(left_out)}. If one is installed anew in its maintenance, it is not marked as"
            " serviced, and its stopped VMs are not started again"
        )
    if short:
        lines.append(
            f"{room} all that was moved away from the nodes {', '.join(short)}. If one is installed anew in its"
            " maintenance, these VMs do not return home"
        )
    return lines


def forget(api: ApiClient, in_service: DrainedNodes) -> None:
    """Nodes that are in service, as they were read: another job may have drained one of them since."""
    _change(
        api,
        lambda known: {
            name: node
            for name, node in known.items()
            if name not in in_service or not node.is_of_maintenance(in_service[name])
        },
    )


def _change(
    api: ApiClient, changed: t.Callable[[DrainedNodes], DrainedNodes]
) -> tuple[DrainedNodes, DrainedNodes]:
    """The nodes that `changed` has returned, and those of them that the annotation has room for."""
    attempt = 0
    while True:
        attempt += 1
        reading = lease.read(api)
        wanted = changed(decode(reading.drained))
        written = fitted(wanted)
        text = encode(written)
        if text == reading.drained or not reading.exists:
            return wanted, written
        try:
            lease.write_drained(api, reading, text)
        except TestFailed:  # another job has put a node in service, or drained one
            if attempt == _ATTEMPTS:
                raise
            api.pause(attempt)
        else:
            return wanted, written
