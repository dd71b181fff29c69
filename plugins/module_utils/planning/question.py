# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a forecast is asked: what is lost, scaled or drilled, checked against the cluster.

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault
from ..model.kinds import KINDS
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.snapshot import Snapshot
from ..model.topology import Topology, UndeclaredKey
from ..rules.label_input import label_key
from ..rules.values import Notes, by_likeness, nearest
from .displaced import Cause
from .what_if import SCALABLE, Scale

NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Question:
    """`nodes` and `domains` (label key and values) are lost together. `drill` holds label keys:
    each of their domains is lost by itself."""

    nodes: tuple[str, ...] = ()
    domains: tuple[tuple[str, tuple[str, ...]], ...] = ()
    cause: Cause = "drain"
    scale: tuple[Scale, ...] = ()
    drill: tuple[str, ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether workloads of any namespace may have to move."""
        return bool(self.nodes or self.domains or self.drill)


def question_of(
    *,
    without: JSON,
    cause: Cause,
    scale: JSON,
    drill: JSON,
    namespace: str,
    topology: Topology,
    faults: list[Fault],
) -> Question:
    """The question as the options put it; what is wrong with them is added to `faults`."""
    reading = _Reading(topology, namespace, faults)
    nodes, domains = reading.losses(without or {})
    keys = (reading.key(f"drill[{n}]", key) for n, key in enumerate(drill or ()))
    scaled = (reading.scaled(f"scale[{n}]", item) for n, item in enumerate(scale or ()))
    found = Question(
        nodes,
        domains,
        cause,
        tuple(each for each in scaled if each is not None),
        tuple(dict.fromkeys(key for key in keys if key)),
    )
    if found.drill and (found.nodes or found.domains):
        faults.append(Fault("drill", "cannot stand beside without: it loses domains by itself"))
    return found


class _Reading:
    def __init__(self, topology: Topology, namespace: str, faults: list[Fault]) -> None:
        self._topology = topology
        self._namespace = namespace
        self._faults = faults

    def losses(
        self, without: t.Mapping[str, JSON]
    ) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
        nodes: tuple[str, ...] = ()
        domains = []
        for name, value in without.items():
            where = f"without.{name}"
            listed = self._texts(where, value)
            if name == NODES:
                nodes = listed
                continue
            key = self.key(where, name)
            if key and listed:
                domains.append((key, listed))
        return nodes, tuple(domains)

    def key(self, where: str, name: JSON) -> str:
        if not isinstance(name, str) or not name:
            self._fault(where, f"must be the name of a topology key, not {name!r}")
            return ""
        try:
            key = self._topology.resolve(name)
        except UndeclaredKey as error:
            self._fault(where, str(error))
            return ""
        return key if label_key(Notes(where, self._faults), key) else ""

    def scaled(self, where: str, item: t.Mapping[str, JSON]) -> Scale | None:
        kind, name, count = item.get("kind"), item.get("name"), item.get("replicas")
        namespace = item.get("namespace")
        before = len(self._faults)
        if namespace is None:
            namespace = self._namespace
            if not namespace:
                self._fault(where, "has no namespace, and the task names none")
        elif not namespace.strip():
            self._fault(where, "namespace must not be empty; leave it out")
        if not isinstance(name, str) or not name.strip():
            self._fault(where, f"name must be that of a workload, not {name!r}")
        if kind not in SCALABLE:
            hint = nearest(str(kind), SCALABLE)
            self._fault(where, f"kind must be one of {', '.join(SCALABLE)}, not {kind!r}{hint}")
        if not isinstance(count, int) or count < 0:
            self._fault(where, f"replicas must be 0 or more, not {count!r}")
            return None
        if len(self._faults) > before:
            return None
        return Scale(Ref(str(kind), namespace, str(name)), count)

    def _texts(self, where: str, value: JSON) -> tuple[str, ...]:
        listed = value if isinstance(value, list) else [value]
        if not listed:
            self._fault(where, "is an empty list: leave it out, or name what is lost")
        for each in listed:
            if not isinstance(each, str) or not each:
                self._fault(where, f"must be a name or a list of names, not {each!r}")
                return ()
        return tuple(listed)

    def _fault(self, where: str, message: str) -> None:
        self._faults.append(Fault(where, message))


def lost_nodes(question: Question, snapshot: Snapshot, faults: list[Fault]) -> frozenset[str]:
    """The nodes that a question loses. What the cluster does not have is added to `faults`, in
    `scale` and `drill` too; nothing is said of what could not be read."""
    unread = {gap.resource.partition(".")[0] for gap in snapshot.unreadable}
    lost = set() if "nodes" in unread else _lost(question, snapshot, faults)
    faults += _scale_faults(question, snapshot, unread)
    return frozenset(lost)


def _lost(question: Question, snapshot: Snapshot, faults: list[Fault]) -> set[str]:
    names = {node.name for node in snapshot.nodes}
    for name in question.nodes:
        if name not in names:
            faults.append(
                Fault("without.nodes", f"there is no node {name!r}{nearest(name, names)}")
            )
    lost = set(question.nodes)
    for key, values in question.domains:
        domains = {node.labels[key] for node in snapshot.nodes if key in node.labels}
        for value in values:
            if value not in domains:
                seen = f"its values are {by_likeness(value, domains)}"
                hint = seen if domains else "no node has that label at all"
                faults.append(Fault("without", f"no node has {key}={value}; {hint}"))
        lost |= {node.name for node in snapshot.nodes if node.labels.get(key) in values}
    for key in question.drill:
        if not any(key in node.labels for node in snapshot.nodes):
            faults.append(Fault("drill", f"no node has the label {key}"))
    return lost


def known_scales(question: Question, snapshot: Snapshot) -> tuple[Scale, ...]:
    """What is scaled of what could be read."""
    known = {workload.ref for workload in snapshot.workloads}
    return tuple(each for each in question.scale if each.workload in known)


def _scale_faults(
    question: Question, snapshot: Snapshot, unread: t.Container[str]
) -> t.Iterator[Fault]:
    known = {workload.ref for workload in snapshot.workloads}
    namespaces = {found.name for found in snapshot.namespaces}
    for number, each in enumerate(question.scale):
        namespace = each.workload.namespace
        if namespace not in namespaces and "namespaces" not in unread:
            hint = nearest(namespace, namespaces)
            yield Fault(f"scale[{number}]", f"there is no namespace {namespace!r}{hint}")
        elif each.workload not in known and KINDS[each.workload.kind].plural not in unread:
            same = [
                ref.name
                for ref in known
                if (ref.kind, ref.namespace) == (each.workload.kind, each.workload.namespace)
            ]
            hint = nearest(each.workload.name, same)
            yield Fault(f"scale[{number}]", f"there is no {each.workload}{hint}")
