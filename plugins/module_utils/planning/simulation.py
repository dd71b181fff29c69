# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the cluster look like after some moves?

ClusterSimulation holds the cluster twice: as it runs and as it is declared. Whether a node is open
depends on the running terms of the instances that have not moved. Whether an instance must move
depends on what all workloads declare. A move changes both; `revert` takes back the last one, so that
several plans can be tried. If everything runs as declared, one index is both.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

from ..compliance.declared import NodeRule
from ..compliance.instances import DeclaredInstance
from ..compliance.pending import no_good_node
from ..compliance.violations import (
    RuleAttribution,
    TermOwners,
    bypassed_rules,
    can_be_bypassed,
    good_nodes,
    violations,
)
from ..kubevirt.instances import InFlight
from ..kubevirt.labels import carried_labels
from ..model.gc import collector_paused
from ..model.objects import Node, Pod
from ..model.obstacle import NO_NODE, Obstacle
from ..model.placement_manifests import CREATED_BY
from ..model.plan import Method, Uid
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.topology import HOSTNAME, Topology
from ..scheduler.framework import FilterStatus
from ..scheduler.nodes import NodeSet, NodeTable
from ..view.view import view_of
from .dependencies import Dependencies

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

FailuresByPod = t.Mapping[str, tuple[FilterStatus, ...]]

MAX_LEAVING = 8
"""Leaving pods that each question sets aside. With more of them the declared cluster gets an index
of its own."""


@dataclass(frozen=True, slots=True)
class VerifiedIndex:
    """The index of a snapshot, and by pod key what the filters say against a placed pod on its node
    (Index.failures_in_place). `failures` is None if that was not asked; a plan needs it for its
    candidates only."""

    index: Index
    failures: FailuresByPod | None

    @classmethod
    def of(cls, snapshot: Snapshot, candidates: t.Iterable[DeclaredInstance]) -> VerifiedIndex:
        """What plans for `candidates` begin with. If one of them does not run as declared, the
        declared cluster has another index, and nothing is verified here."""
        with collector_paused():
            index = view_of(snapshot).new_index()
            failures: dict[str, tuple[FilterStatus, ...]] = {}
            for instance in candidates:
                if instance.declared_pod is not instance.pod:
                    return cls(index, None)
                key = instance.pod.uid
                if key in index and (refused := index.failures_in_place(key)):
                    failures[key] = refused
            return cls(index, failures)


PreferencePenalties = t.Sequence[tuple[int, NodeSet]]
"""Weights of preferences, each with the nodes that do not meet it."""


class NodeRanking:
    """Which nodes is the scheduler likely to prefer? First come those that leave the least unmet preferences,
    then the emptier ones, then the names. Nodes are kept in sets by how many pods they hold, so that the first
    few of any set are found without sorting all. `loads`: how many pods each node of the table holds."""

    def __init__(self, table: NodeTable, loads: t.Sequence[int]) -> None:
        self._table = table
        self.loads = list(loads)
        numbers: dict[int, list[int]] = defaultdict(list)
        for n, load in enumerate(loads):
            numbers[load].append(n)
        self._levels = {load: table.set_of(listed) for load, listed in numbers.items()}
        self._in_order = list(table.names) == sorted(table.names)

    def record_move(self, source: int, target: int) -> None:
        """A pod has moved from node number `source` to `target`."""
        for n, change in ((source, -1), (target, 1)):
            before = self.loads[n]
            after = self.loads[n] = before + change
            left = self._levels[before] & ~(1 << n)
            if left:
                self._levels[before] = left
            else:
                del self._levels[before]
            self._levels[after] = self._levels.get(after, 0) | 1 << n

    def first(self, nodes: NodeSet, penalties: PreferencePenalties, limit: int) -> tuple[str, ...]:
        """The names of the first few of some nodes."""
        names: list[str] = []
        for _cost, part in _by_penalty(nodes, penalties):
            for load in sorted(self._levels):
                level = part & self._levels[load]
                if level:
                    left = limit - len(names)
                    if self._in_order:
                        names += self._table.first_names(level, left)
                    else:
                        names += sorted(self._table.names_of(level))[:left]
                    if len(names) >= limit:
                        return tuple(names)
        return tuple(names)


def cheaper(nodes: NodeSet, penalties: PreferencePenalties, cost: int) -> NodeSet:
    """The nodes of a set whose penalties add up to less than `cost`."""
    cheap = 0
    for penalty, part in _by_penalty(nodes, penalties):
        if penalty < cost:
            cheap |= part
    return cheap


def _by_penalty(nodes: NodeSet, penalties: PreferencePenalties) -> t.Iterator[tuple[int, NodeSet]]:
    """The nodes in parts with equal penalties, the least first."""
    parts = {0: nodes}
    for weight, unmet in penalties:
        split: dict[int, NodeSet] = defaultdict(int)
        for cost, part in parts.items():
            split[cost] |= part & ~unmet
            split[cost + weight] |= part & unmet
        parts = split
    return ((cost, part) for cost, part in sorted(parts.items()) if part)


class ClusterSimulation:
    """`running` and `declared` hold the same pods on the same nodes, except leaving pods: they take
    room but violate nothing (see in_flight)."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: t.Sequence[DeclaredInstance],
        *,
        on_the_way: InFlight | None = None,
        verified: VerifiedIndex | None = None,
        topology: Topology | None = None,
    ) -> None:
        """The simulation of a snapshot in which `candidates` may move.

        `on_the_way`: see in_flight. The index of `verified` is used as it is: it is unchanged once
        all moves are reverted. `topology` has the names of label keys in texts.
        """
        view = self._view = view_of(snapshot)
        leaving = (on_the_way or view.in_flight).pods
        self.ending_pods = tuple(x for x in snapshot.pods if x.uid in leaving) if leaving else ()
        if leaving:
            leaving = leaving.difference(instance.pod.uid for instance in candidates)
        self._topology = topology or Topology.of()
        self.owners = TermOwners(view)
        self.running = self.declared = view.new_index() if verified is None else verified.index
        self._leaving = tuple(uid for uid in leaving if uid in self.running)
        self._known_failures: FailuresByPod | None = None
        if len(self._leaving) > MAX_LEAVING or any(x.declared_pod is not x.pod for x in candidates):
            declared_pods = {instance.pod.uid: instance.declared_pod for instance in candidates}
            staying = (pod for pod in snapshot.pods if pod.uid not in leaving)
            self.declared = view.new_index(declared_pods.get(pod.uid, pod) for pod in staying)
            self._leaving = ()
        elif verified is not None:
            self._known_failures = verified.failures
        self.table = self.running.table
        self.candidates = {
            instance.uid: instance for instance in candidates if instance.node in self.table.numbers
        }
        self.elsewhere = [x for x in candidates if x.uid not in self.candidates]
        """Those on no node, or on one that does not exist."""
        self.node_of = {uid: instance.node for uid, instance in self.candidates.items()}
        self._uids = {instance.pod.uid: uid for uid, instance in self.candidates.items()}
        self.ranking = NodeRanking(self.table, self.running.pod_counts())
        self._pods: dict[Uid, Pod] = {}
        self._moves: list[tuple[Uid, Pod, str]] = []
        """Each move that `revert` can take back: the pod before it, and its node."""
        self._violations: dict[Uid, tuple[FilterStatus, ...]] = {}

    @cached_property
    def dependencies(self) -> Dependencies:
        """Which candidates depend on each other by their declared terms."""
        pods = ((uid, instance.declared_pod) for uid, instance in self.candidates.items())
        return Dependencies.of(self.declared, self._uids, pods)

    def violating(self) -> list[Uid]:
        """The candidates that violate a constraint, in their order."""
        failures = self._known_failures
        if failures is None:
            return [uid for uid in self.candidates if self.violations(uid)]
        suspects = {self._uids[key] for key in failures if key in self._uids}
        suspects |= {
            uid for uid, x in self.candidates.items() if can_be_bypassed(x.declared_pod, x.workload)
        }
        for key in self._leaving:
            suspects |= self.dependencies.related_to_pod(self.running.placed_info(key))
        return [uid for uid in self.candidates if uid in suspects and self.violations(uid)]

    def failures(self, uid: Uid) -> tuple[FilterStatus, ...]:
        """What the filters say against the instance where it is, as declared."""
        with self._without_leaving():
            return self.declared.failures_in_place(self.candidates[uid].pod.uid)

    def violations(self, uid: Uid) -> tuple[FilterStatus, ...]:
        """What the instance violates where it is, as declared (compliance.violations)."""
        violated = self._violations.get(uid)
        if violated is None:
            instance = self.candidates[uid]
            pod, known = instance.declared_pod, self._known_failures
            if known is None or self._moves or self._leaving:
                failures = self.failures(uid)
            else:
                failures = known.get(instance.pod.uid, ())
            violated = ()
            if failures or can_be_bypassed(pod, instance.workload):
                violated = violations(pod, instance.declared, self._node(uid), failures)
            self._violations[uid] = violated
        return violated

    def violation_texts(self, uid: Uid) -> tuple[str, ...]:
        """What the instance violates where it is, with the rules, in the words of a verdict."""
        if not (violated := self.violations(uid)):
            return ()
        instance, node = self.candidates[uid], self.node_of[uid]
        texts = dict[str, None]()
        for violation in self._attribution.attribute(instance, node, violated):
            rules = f"rule {', '.join(violation.rules)}: " if violation.rules else ""
            texts[f"{rules}{violation.reason}"] = None
        return tuple(texts)

    @cached_property
    def _attribution(self) -> RuleAttribution:
        return RuleAttribution(
            self._topology, self._view.snapshot.nodes_by_name, self.owners.instance_of
        )

    def bypassed(self, uid: Uid) -> list[NodeRule]:
        """The rules that OR-ed node terms let the instance violate where it is. A move does not repair
        them for sure: the scheduler may choose such a node again."""
        instance = self.candidates[uid]
        if not can_be_bypassed(instance.declared_pod, instance.workload):
            return []
        return bypassed_rules(instance.declared, self._node(uid))

    def _node(self, uid: Uid) -> Node:
        return self.table.nodes[self.table.numbers[self.node_of[uid]]]

    def open_set(self, uid: Uid, method: Method) -> NodeSet:
        """The nodes that the scheduler could choose for this move now."""
        instance = self.candidates[uid]
        if method is Method.MIGRATE:
            here = 1 << self.table.numbers[self.node_of[uid]]
            return self._open_to_target(instance) & ~here
        key = instance.pod.uid
        if instance.declared_pod is instance.pod:
            with self.running.without(key):
                return self.running.nodes_passing(self.running.placed_info(key))
        return self.running.feasible_set(instance.next_pod(method), without=key)

    def good_set(self, uid: Uid) -> NodeSet:
        """The nodes where the instance would violate nothing, and has room."""
        instance = self.candidates[uid]
        with self._without_leaving():
            return good_nodes(
                self.declared, instance.declared_pod, instance.declared, instance.workload
            )

    def no_node(self, uid: Uid, method: Method, topology: Topology) -> Obstacle:
        """No node is open for this move and good for the instance, as kube-scheduler words it."""
        instance = self.candidates[uid]
        migrates = method is Method.MIGRATE
        probe = self._target(instance) if migrates else instance.next_pod(method)
        with self.running.without(None if migrates else instance.pod.uid):
            pod_info = self.running.pod_info(probe)
            source = 1 << self.table.numbers[self.node_of[uid]] if migrates else 0
            return no_good_node(self.running, pod_info, topology, self.owners, source)

    def move(self, uid: Uid, node: str) -> None:
        instance = self.candidates[uid]
        key = instance.pod.uid
        self._moves.append((uid, self._pods.get(uid, instance.pod), self.node_of[uid]))
        if self.declared is self.running:
            self.running.move(key, node)
        else:
            moved = replace(instance.declared_pod, node_name=node)
            self._put(key, moved, moved, node)
            self._pods[uid] = moved
        self._record_move(uid, node)

    def revert(self) -> None:
        uid, pod, node = self._moves.pop()
        instance = self.candidates[uid]
        if self.declared is self.running:
            self.running.move(instance.pod.uid, node)
        else:
            self._put(instance.pod.uid, pod, instance.declared_pod, node)
            self._pods[uid] = pod
        self._record_move(uid, node)

    @contextlib.contextmanager
    def without(self, uids: t.Collection[Uid]) -> t.Iterator[None]:
        """The declared cluster as it would be without these instances."""
        keys = [self.candidates[uid].pod.uid for uid in uids]
        with self.declared.without(*keys):
            yield

    @contextlib.contextmanager
    def after_ending(self) -> t.Iterator[None]:
        """Both clusters as they will be once the ending pods are gone."""
        keys = [pod.uid for pod in self.ending_pods]
        with self.running.without(*keys), self.declared.without(*keys):
            yield

    def not_yet(self, why: Obstacle | str, nodes: NodeSet) -> Obstacle:
        """These nodes are closed, and open once the ending pods are gone."""
        names = {*self.table.names_of(nodes)}
        here = [x for x in self.ending_pods if x.node_name in names]
        pods = listed([x.ref for x in here or self.ending_pods])
        text = f"{why}, as long as pods exist that are ending: {pods}"
        return Obstacle(NO_NODE, text, True)

    def nodes_when_away(self, uid: Uid) -> tuple[str, ...]:
        """The nodes that pass all filters for an instance that is away, as declared."""
        probe = self.candidates[uid].next_pod(Method.RECREATE)
        with self._without_leaving():
            return self.table.names_of(self.declared.feasible_set(probe))

    def _without_leaving(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, the declared cluster is without the leaving pods."""
        return self.declared.without(*self._leaving) if self._leaving else contextlib.nullcontext()

    def _put(self, key: str, running: Pod, declared: Pod, node: str) -> None:
        self.running.remove(key)
        self.declared.remove(key)
        self.running.place(running, node)
        self.declared.place(declared, node)

    def _record_move(self, uid: Uid, node: str) -> None:
        numbers = self.table.numbers
        self.ranking.record_move(numbers[self.node_of[uid]], numbers[node])
        self.node_of[uid] = node
        if self._violations:  # a move changes the violations of related instances only
            self._violations.pop(uid, None)
            for related in self.dependencies.related(uid):
                self._violations.pop(related, None)

    def _open_to_target(self, instance: DeclaredInstance) -> NodeSet:
        """Where the target pod of a migration could be. If it is just like the source, the source
        stands for it, on any node but those of its own pods."""
        vmi = instance.instance.vmi
        if instance.declared_pod is not instance.pod or vmi is None:
            return self.running.feasible_set(self._target(instance))
        source = self.running.placed_info(instance.pod.uid)
        labels = {**carried_labels(instance.pod.labels), **vmi.labels}
        matching = self.running.selectors
        matching.update_selected_by(source)
        alike = source.selected_by == matching.selecting(instance.pod.namespace, labels)
        if (
            not alike
            or not labels.get(CREATED_BY) == instance.pod.labels.get(CREATED_BY) == vmi.uid
        ):
            return self.running.feasible_set(self._target(instance))
        pods_of_vmi = matching.with_label(CREATED_BY, vmi.uid)
        taken = {pod.node_labels[HOSTNAME] for pod in pods_of_vmi if HOSTNAME in pod.node_labels}
        return self.running.nodes_passing(source) & ~self.table.in_domains(HOSTNAME, taken)

    def _target(self, instance: DeclaredInstance) -> Pod:
        if instance.migration_target is None:
            raise AssertionError(f"{instance.instance.ref} is not migrated: it has no target pod")
        return instance.migration_target
