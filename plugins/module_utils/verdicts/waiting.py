# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why something has no node yet: what each node's filters refuse, as the engine sees it.

Never read from events or conditions: their texts change between releases.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..model.objects import Pod, PodTerm, Ref
from ..model.topology import Topology
from ..model.verdict import Pending
from ..scheduling.failure import Failure, Reason
from ..scheduling.index import Index
from . import wording
from .blind import Blind
from .cases import Cases

DEFAULT_SCHEDULER = "default-scheduler"


class Waiting:
    """Explains pods without a node. What is asked of many pods alike is worked out once: make
    another one when the index has changed."""

    def __init__(self, index: Index, topology: Topology) -> None:
        self._index = index
        self._topology = topology
        self._reasons: dict[t.Hashable, str] = {}

    def reason(self, pod: Pod) -> str:
        """Why a pod waits, as things stand."""
        if pod.node_name:
            return f"its node {pod.node_name} is not there"
        identity = (
            pod.namespace,
            id(pod.placement),
            id(pod.requests),
            frozenset(map(id, self._index.matching.selecting(pod.namespace, pod.labels))),
            pod.claims,
            pod.host_ports,
            pod.scheduler_name,
        )
        if identity not in self._reasons:
            self._reasons[identity] = self._explain(pod)
        return self._reasons[identity]

    def _explain(self, pod: Pod) -> str:
        open_to = self._index.feasible(pod)
        if open_to:
            by = "" if pod.scheduler_name == DEFAULT_SCHEDULER else f" ({pod.scheduler_name})"
            return f"the scheduler{by} has not placed it yet; it fits {wording.listed(open_to)}"
        total = len(self._index.nodes)
        counted = Counter(
            self._words(self._index.failures(pod, node.name)) for node in self._index.nodes
        )
        # Of as many nodes first those that least stands against: they come nearest to be open.
        in_turn = sorted(counted.items(), key=lambda found: (-found[1], len(found[0])))
        parts = [f"{count} {' and '.join(words)}" for words, count in in_turn]
        return f"none of {total} nodes is open to it: {'; '.join(parts)}" if total else "no nodes"

    def _words(self, failures: tuple[Failure, ...]) -> tuple[str, ...]:
        """All that stands against one node."""
        return tuple(
            dict.fromkeys(
                self._reason(reason) for failure in failures for reason in failure.reported
            )
        )

    def _reason(self, reason: Reason) -> str:
        over = self._topology.name_of(reason.topology_key) if reason.topology_key else ""
        words: dict[str, str] = {
            "cordoned": "cordoned",
            "taint": f"with a taint that it does not tolerate ({getattr(reason.term, 'key', '')})",
            "node-affinity": "not among the nodes that its node terms allow",
            "enforced-node-affinity": "not among the nodes that the scheduler's profile allows",
            "name-conflict": "not named by every one of its node terms",
            "node-name": "not the node that it names",
            "ports": "with its host port taken",
            "resources": f"with too little {reason.term}",
            "too-many-pods": "with no place for another pod",
            "volume": "out of reach of its volume",
            "missing-label": f"without a label for {over}",
            "skew": f"in a {over} that is too full for its spread",
            "affinity": f"in no {over} with a pod that it must be near",
            "anti": f"in a {over} with a pod that it keeps away from ({self._term(reason)})",
            "existing-anti": f"in a {over} with a pod that keeps it away ({reason.counterpart})",
            "invalid": "refused, since a selector of it cannot be parsed",
        }
        return words.get(reason.kind, reason.text)

    def _term(self, reason: Reason) -> str:
        return wording.pods_of(reason.term) if isinstance(reason.term, PodTerm) else ""


def pending_of(
    cases: Cases,
    waiting: Waiting,
    blind: Blind,
    wanted: t.Callable[[Ref | None, Ref], bool],
) -> tuple[Pending, ...]:
    """Every instance without a node, and every migration whose target has none. What only seems
    to have none, since pods or nodes could not be read, is not among them."""
    found = [
        Pending(
            instance.ref,
            instance.workload,
            "no pod of it is there yet" if instance.pod is None else waiting.reason(instance.pod),
        )
        for instance in cases.waiting
        if wanted(instance.workload, instance.ref) and blind.of_waiting(instance) is None
    ]
    found += [
        Pending(instance.ref, instance.workload, f"migration target: {waiting.reason(pod)}")
        for instance, pod in cases.targets
        if not (pod.node_name or pod.terminating) and wanted(instance.workload, instance.ref)
    ]
    return tuple(found)
