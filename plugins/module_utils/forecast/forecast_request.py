# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which change do the options of forecast_info and drill_info name: lost nodes and domains, and numbers of replicas?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kinds.registry import KINDS, SCALABLE_KINDS
from ..model.findings import InputError
from ..model.input import InputReader, by_likeness, nearest
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.snapshot import Snapshot
from ..model.topology import Topology, UndeclaredKey
from ..view.label_input import label_key
from .eviction import NodeEvent
from .scaling import Scale

_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """`nodes` and `domains` (label key and values) are unavailable together. `domains_of` holds label
    keys: each of their domains is unavailable in turn."""

    nodes: tuple[str, ...] = ()
    domains: tuple[tuple[str, tuple[str, ...]], ...] = ()
    event: NodeEvent = "drain"
    scale: tuple[Scale, ...] = ()
    domains_of: tuple[str, ...] = ()


def forecast_request(
    *,
    unavailable: JSON,
    event: NodeEvent,
    scale: JSON,
    domains_of: JSON,
    namespace: str,
    topology: Topology,
    faults: list[InputError],
) -> ForecastRequest:
    """The request from the options; what is wrong with them is added to `faults`."""
    reader = _RequestReader(topology, namespace, faults)
    nodes, domains = reader.losses(unavailable or {})
    if domains_of == []:  # nothing that fails has no impact, which would be guaranteed
        faults.append(InputError("domains_of", "is empty: name what may fail, such as node"))
    keys = (reader.key(f"domains_of[{n}]", key) for n, key in enumerate(domains_of or ()))
    scaled = (reader.scale(f"scale[{n}]", item) for n, item in enumerate(scale or ()))
    return ForecastRequest(
        nodes,
        domains,
        event,
        tuple(entry for entry in scaled if entry is not None),
        tuple(dict.fromkeys(key for key in keys if key)),
    )


class _RequestReader:
    def __init__(self, topology: Topology, namespace: str, faults: list[InputError]) -> None:
        self._topology = topology
        self._namespace = namespace
        self._faults = faults

    def losses(
        self, unavailable: t.Mapping[str, JSON]
    ) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
        nodes: tuple[str, ...] = ()
        domains = []
        for name, value in unavailable.items():
            where = f"unavailable.{name}"
            listed = self._texts(where, value)
            if name == _NODES:
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
        return key if label_key(InputReader(where, self._faults), key) else ""

    def scale(self, where: str, item: t.Mapping[str, JSON]) -> Scale | None:
        kind, name, count = item.get("kind"), item.get("name"), item.get("replicas")
        namespace = item.get("namespace")
        before = len(self._faults)
        if namespace is None:
            namespace = self._namespace
            if not namespace:
                self._fault(where, "namespace is required, here or for the task")
        elif not namespace.strip():
            self._fault(where, "namespace must not be empty: omit it")
        if not isinstance(name, str) or not name.strip():
            self._fault(where, f"name must be that of a workload, not {name!r}")
        if kind not in SCALABLE_KINDS:
            hint = nearest(str(kind), SCALABLE_KINDS)
            self._fault(
                where, f"kind must be one of {', '.join(SCALABLE_KINDS)}, not {kind!r}{hint}"
            )
        if not isinstance(count, int) or count < 0:
            self._fault(where, f"replicas must be 0 or more, not {count!r}")
            return None
        if len(self._faults) > before:
            return None
        return Scale(Ref(str(kind), namespace, str(name)), count)

    def _texts(self, where: str, value: JSON) -> tuple[str, ...]:
        listed = value if isinstance(value, list) else [value]
        if not listed:
            self._fault(where, "must not be empty: omit it")
        for text in listed:
            if not isinstance(text, str) or not text:
                self._fault(where, f"must be a name or a list of names, not {text!r}")
                return ()
        return tuple(listed)

    def _fault(self, where: str, message: str) -> None:
        self._faults.append(InputError(where, message))


def unavailable_nodes(
    request: ForecastRequest, snapshot: Snapshot, faults: list[InputError]
) -> frozenset[str]:
    """The nodes that are unavailable. What the cluster does not have is added to `faults`, also for
    `scale` and `domains_of`, but not for kinds that could not be read."""
    unread = {gap.resource.partition(".")[0] for gap in snapshot.unreadable}
    lost = set() if "nodes" in unread else _lost(request, snapshot, faults)
    faults += _scale_faults(request, snapshot, unread)
    return frozenset(lost)


def _lost(request: ForecastRequest, snapshot: Snapshot, faults: list[InputError]) -> set[str]:
    names = snapshot.nodes_by_name
    for name in request.nodes:
        if name not in names:
            faults.append(
                InputError("unavailable.nodes", f"there is no node {name!r}{nearest(name, names)}")
            )
    lost = set(request.nodes)
    for key, values in request.domains:
        domains = {node.labels[key] for node in snapshot.nodes if key in node.labels}
        for value in values:
            if value not in domains:
                similar_values = f"its values are {by_likeness(value, domains)}"
                hint = similar_values if domains else "no node has that label at all"
                faults.append(InputError("unavailable", f"no node has {key}={value}; {hint}"))
        lost |= {node.name for node in snapshot.nodes if node.labels.get(key) in values}
    for key in request.domains_of:
        if not any(key in node.labels for node in snapshot.nodes):
            faults.append(InputError("domains_of", f"no node has the label {key}"))
    return lost


def known_scales(request: ForecastRequest, snapshot: Snapshot) -> tuple[Scale, ...]:
    """The scales of workloads that could be read."""
    return tuple(x for x in request.scale if x.workload in snapshot.workloads_by_ref)


def _scale_faults(
    request: ForecastRequest, snapshot: Snapshot, unread: t.Container[str]
) -> t.Iterator[InputError]:
    workloads, namespaces = snapshot.workloads_by_ref, snapshot.namespaces_by_name
    for number, scale in enumerate(request.scale):
        namespace = scale.workload.namespace
        if namespace not in namespaces and "namespaces" not in unread:
            hint = nearest(namespace, namespaces)
            yield InputError(f"scale[{number}]", f"there is no namespace {namespace!r}{hint}")
        elif scale.workload not in workloads and KINDS[scale.workload.kind].plural not in unread:
            similar = [
                ref.name
                for ref in workloads
                if (ref.kind, ref.namespace) == (scale.workload.kind, scale.workload.namespace)
            ]
            hint = nearest(scale.workload.name, similar)
            yield InputError(f"scale[{number}]", f"there is no {scale.workload}{hint}")
