# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why does a pending pod have no node: the filter, and the pod and the rule behind it; proofs in words.

Filters are asked in the scheduler's order. The one that takes the last nodes away is named; a few of
those nodes say which pods and which terms it refers to.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..compliance.obstacles import Obstacles, blocked_by, lacks_least, own_pod
from ..compliance.pending import FILTER_TEXTS, filter_text, no_node_text, reason_text
from ..model.objects import Ref
from ..model.rendering import listed, plural
from ..model.snapshot import Instance
from ..model.topology import Topology
from ..scheduler.framework import NODE_RESOURCES_FIT, ORDER, FilterReason
from ..view.view import ClusterView
from .infeasibility import Proof
from .simulation import PendingPod, PlacementSimulation

ASKED = 8
"""Nodes that are asked for their reasons."""

NO_NODE = "NoNode"
"""Stands for a filter where no node is left at all."""

EVICTION = "Eviction"
"""Stands for a filter where an instance may not leave its node in the first place."""


@dataclass(frozen=True, slots=True)
class BlockedPod:
    """`pod` is the pod that the filter refers to on the most nodes, `others` the number of other pods that it
    refers to. `rules` (namespace/set/name) own the terms. `own`: the pod is the instance's own, which
    terminates on its failed node."""

    instance: Ref
    filter: str
    reason: str
    pod: Ref | None = None
    rules: tuple[str, ...] = ()
    own: bool = False
    others: int = 0
    blocker: str = ""
    """What `pod` is the pod of, as users name it: `VM shop/web-b`."""
    lacks: bool = False
    """`reason` says what the node lacks that lacks the least: `node w3 lacks 12.0 GiB memory`."""

    @property
    def message(self) -> str:
        """What blocks it, in a sentence."""
        if self.lacks:
            return f"{self.reason} for {self.instance.name}"
        blockers = []
        if self.pod is not None:
            pod = f"pod {self.pod.namespace}/{self.pod.name}"
            blockers = [own_pod(self.pod) if self.own else self.blocker or pod]
        blocking = blocked_by(blockers, self.rules, self.others)
        if not blocking:
            return f"{self.instance.name}: {self.reason}"
        why = "" if blockers else f": {self.reason}"
        return f"{self.instance.name} is blocked by {blocking}{why}"


class Blocking:
    """Answers for the pending pods of one cluster."""

    def __init__(self, view: ClusterView, topology: Topology) -> None:
        self._view = view
        self._topology = topology
        self._obstacles = Obstacles(view)
        self._planned: dict[Ref, Ref] = {}
        """Pods that do not exist yet, to those that they replace."""

    def of(
        self,
        simulation: PlacementSimulation,
        evicted: t.Mapping[int, Instance],
    ) -> t.Iterator[BlockedPod]:
        """What leaves each of these pending pods without a node now, where it has none. `evicted` maps
        their numbers to the instances that they belong to."""
        self._planned = {
            pending.pod.ref: pending.replaces.ref
            for pending in simulation.pending
            if pending.replaces is not None and not pending.pod.uid
        }
        for number, instance in evicted.items():
            if number in simulation.waiting:
                blocked = self._blocked(simulation, number, instance)
                if blocked is not None:
                    yield blocked

    def _blocked(
        self, simulation: PlacementSimulation, number: int, instance: Instance
    ) -> BlockedPod | None:
        pending, index = simulation.pending[number], simulation.index
        left = simulation.table.all & ~simulation.closed(pending.pod)
        if not left:
            return BlockedPod(instance.ref, NO_NODE, "there is no other node")
        with index.without(pending.leaves_before):
            for plugin in ORDER:
                kept = left & index.nodes_passing(simulation.pod_info(number), {plugin})
                if kept:
                    left = kept
                    continue
                reasons: Counter[FilterReason] = Counter()
                nodes: dict[FilterReason, str] = {}
                for node in simulation.table.first_names(left, ASKED):
                    for failure in index.failures(pending.pod, node, plugins={plugin}):
                        reasons.update(failure.reported)
                        nodes.update((x, node) for x in failure.reported if x not in nodes)
                blocked = self._by_filter(instance, plugin, reasons, nodes)
                if plugin == NODE_RESOURCES_FIT:
                    names = simulation.table.names_of(left)
                    if lacks := lacks_least(index, names, pending.pod):
                        return replace(blocked, reason=lacks, lacks=True)
                return blocked
        return None

    def _by_filter(
        self,
        instance: Instance,
        plugin: str,
        reasons: Counter[FilterReason],
        nodes: t.Mapping[FilterReason, str],
    ) -> BlockedPod:
        if not reasons:
            return BlockedPod(instance.ref, plugin, "the feasible nodes are needed for other pods")
        left_over = instance.pod.ref if instance.pod is not None else None
        named = [reason for reason in reasons if reason.counterpart is not None]
        own = [reason for reason in named if reason.counterpart == left_over]
        by_count = sorted(reasons, key=lambda x: (reasons[x], x.text), reverse=True)
        blocking = [x for x in by_count if x in (own or named)] or by_count[:1]
        pods = dict.fromkeys(map(self._blocker, blocking))
        rules = dict.fromkeys(rule for x in blocking for rule in self._rules(instance, x, nodes[x]))
        return BlockedPod(
            instance.ref,
            plugin,
            reason_text(blocking[0], self._topology),
            next(iter(pods)),
            tuple(rules),
            bool(own),
            len(pods) - 1,
            self._named(next(iter(pods))),
        )

    def _named(self, pod: Ref | None) -> str:
        """What a pod is the pod of, as users name it."""
        instance = self._view.instances_by_pod.get(pod) if pod is not None else None
        if instance is None or instance.vmi is None:
            return ""
        return f"VM {instance.ref.namespace}/{instance.ref.name}"

    def _blocker(self, reason: FilterReason) -> Ref | None:
        """The pod that a reason refers to, or the one that it will replace."""
        pod = reason.counterpart
        return self._planned.get(pod, pod) if pod is not None else None

    def _rules(self, instance: Instance, reason: FilterReason, node: str) -> tuple[str, ...]:
        """The rules that own what the filter checked: of the instance, or of the pod that has the term."""
        if instance.pod is None:
            return ()
        labels, reason = instance.pod.labels, replace(reason, counterpart=self._blocker(reason))
        return self._obstacles.rules(
            instance.workload, labels, reason, self._view.snapshot.nodes_by_name.get(node)
        )


def counted(blocked: t.Sequence[BlockedPod]) -> str:
    """The first, and how many more."""
    more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
    return f"{blocked[0].message}{more}" if blocked else ""


def filter_summary(simulation: PlacementSimulation, number: int) -> str:
    """A pending pod without a node, as kube-scheduler words it: how many nodes each filter takes of
    those that the filters before it leave. A handful of set operations, where the reasons of each node
    would cost as much as there are nodes."""
    pod_info = simulation.pod_info(number)
    left = simulation.table.all & ~simulation.closed(pod_info.pod)
    total, counts = left.bit_count(), {}
    for plugin in FILTER_TEXTS:
        kept = left & simulation.index.nodes_passing(pod_info, {plugin})
        if kept != left:
            counts[filter_text(plugin, pod_info.pod)] = (left ^ kept).bit_count()
        left = kept
    return no_node_text(total, counts)


class ProofWords:
    """Proofs about pending pods as sentences. `why_no_node` says why the pod of a number has none."""

    def __init__(
        self,
        topology: Topology,
        pending: t.Sequence[PendingPod],
        why_no_node: t.Callable[[int], str],
    ) -> None:
        self._topology = topology
        self._pending = pending
        self._why_no_node = why_no_node

    def text(self, proof: Proof) -> str:
        words = {
            "no_node": self._no_node,
            "apart": self._apart,
            "resources": self._resources,
        }
        return words[proof.kind](proof)

    def _no_node(self, proof: Proof) -> str:
        (number,) = proof.pods
        return f"{self._noun(proof)} {self._pending[number].name}: {self._why_no_node(number)}"

    def _apart(self, proof: Proof) -> str:
        name, count = self._topology.name_of(proof.key), len(proof.pods)
        own = name in ("region", "zone", "node")  # other names have no plural that is known
        domains = f"{name}s" if own else f"domains of {name}"
        needed = f"a {name} of its own" if count == 1 else f"{count} different {domains}"
        feasible = f"only {len(proof.room)} ({listed(proof.room)})" if proof.room else "none"
        return (
            f"{self._pods(proof)} {_verb(proof, 'need')} {needed} (anti-affinity), and {feasible}"
            f" {'are' if len(proof.room) > 1 else 'is'} feasible"
        )

    def _resources(self, proof: Proof) -> str:
        scarce = "pod slots" if proof.key == "pods" else proof.key
        return (
            f"{self._pods(proof)} {_verb(proof, 'need')} more {scarce} than is free:"
            f" {plural(len(proof.room), 'feasible node')} ({listed(proof.room)})"
            f" {'has' if len(proof.room) == 1 else 'have'} capacity for {proof.places} of them"
        )

    def _pods(self, proof: Proof) -> str:
        names = [self._pending[number].name for number in proof.pods]
        if len(names) == 1:
            return f"{self._noun(proof)} {names[0]}"
        return f"{len(names)} {self._noun(proof)}s ({listed(names)})"

    def _noun(self, proof: Proof) -> str:
        return "VM" if all(self._pending[n].vmi for n in proof.pods) else "pod"


def _verb(proof: Proof, plural_form: str) -> str:
    if len(proof.pods) > 1:
        return plural_form
    return "has" if plural_form == "have" else f"{plural_form}s"
