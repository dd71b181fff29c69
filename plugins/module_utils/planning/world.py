# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two readings of one cluster that moves are tried out on, one as it runs, one as it is declared.

Whether a place is open is asked of the first: who has not moved still runs under his old terms.
Whether somebody must move is asked of the second: there all have what their workloads declare. A
move changes both; `undo` takes the last one back, so that several plans can be tried.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..model.objects import Pod
from ..model.plan import Method
from ..model.snapshot import Snapshot
from ..scheduling.failure import Failure
from ..scheduling.index import Index
from ..scheduling.node_terms import matches_node
from ..scheduling.options import NODE_AFFINITY
from ..verdicts.attribution import HAZARDS
from .candidates import Candidate
from .transit import transit

Uid = str


@dataclass(frozen=True, slots=True)
class Done:
    """A move that was tried: enough to take it back."""

    uid: Uid
    before: Pod
    declared_before: Pod
    node: str


class World:
    """`running` and `declared` hold the same pods on the same nodes, but for those that are about
    to be gone: they stand in the way, and break nothing (see transit). `strict`: what is true of a
    node but breaks no rule (a cordon, a taint, too little room) counts as broken, too."""

    def __init__(
        self,
        running: Index,
        declared: Index,
        candidates: t.Iterable[Candidate],
        *,
        strict: bool = False,
    ) -> None:
        self._strict = strict
        self._nodes = {node.name: node for node in running.nodes}
        self.running = running
        self.declared = declared
        self.candidates = {found.uid: found for found in candidates}
        self.node_of = {uid: found.node for uid, found in self.candidates.items()}
        self.labels = {node.name: node.labels for node in running.nodes}
        self.load = Counter(pod.node_name for pod in running.pods)
        self._pods = {uid: found.pod for uid, found in self.candidates.items()}
        self._done: list[Done] = []

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        candidates: t.Sequence[Candidate],
        *,
        namespaces: t.Collection[str] = (),
        strict: bool = False,
    ) -> World:
        """The world of a snapshot in which `candidates` may be moved. `namespaces`: see transit."""
        as_declared = {found.pod.uid: found.wanted for found in candidates}
        leaving = transit(snapshot, namespaces).pods - as_declared.keys()
        staying = (pod for pod in snapshot.pods if pod.uid not in leaving)
        pods = tuple(as_declared.get(pod.uid, pod) for pod in staying)
        return cls(
            _index(snapshot, snapshot.pods),
            _index(snapshot, pods),
            (found for found in candidates if found.node),
            strict=strict,
        )

    def failures(self, uid: Uid, node: str | None = None) -> tuple[Failure, ...]:
        """Why the instance may not be on `node` (where it is) when all have what is declared."""
        found = self.candidates[uid]
        where = self.node_of[uid] if node is None else node
        return self.declared.failures(found.wanted, where, without=found.pod.uid)

    def broken(self, uid: Uid) -> tuple[Failure, ...]:
        """The rules that the instance breaks where it is, as far as they are declared. A node that
        KubeVirt takes for unschedulable, that is cordoned, tainted or full breaks no rule."""
        failures = self.failures(uid)
        if self._strict or not failures:
            return failures
        found = self.candidates[uid]
        node = self._nodes[self.node_of[uid]]
        rules = (_without_hazards(failure) for failure in failures)
        return tuple(
            failure
            for failure in rules
            if failure.reasons
            and not (failure.plugin == NODE_AFFINITY and matches_node(found.asked, node))
        )

    def open_to(self, uid: Uid, method: Method) -> tuple[str, ...]:
        """The nodes that the scheduler could choose for this move now."""
        found = self.candidates[uid]
        if method is Method.MIGRATE:
            here = frozenset({self.node_of[uid]})
            return self.running.feasible(self._target(found), exclude=here)
        return self.running.feasible(found.probe(method), without=found.pod.uid)

    def good(self, uid: Uid, nodes: t.Iterable[str]) -> tuple[str, ...]:
        """Those of `nodes` where the instance would break no rule."""
        found = self.candidates[uid]
        passing = set(self.declared.feasible(found.wanted, without=found.pod.uid))
        return tuple(node for node in nodes if node in passing)

    @property
    def tried(self) -> int:
        """How many moves could be taken back."""
        return len(self._done)

    def move(self, uid: Uid, node: str) -> None:
        found = self.candidates[uid]
        key = found.pod.uid
        self._done.append(Done(uid, self._pods[uid], found.wanted, self.node_of[uid]))
        self.running.take_out(key)
        self.declared.take_out(key)
        moved = replace(found.wanted, node_name=node)
        self.running.place(moved, node)
        self.declared.place(moved, node)
        self._settle(uid, moved, node)

    def undo(self) -> None:
        last = self._done.pop()
        key = self.candidates[last.uid].pod.uid
        self.running.take_out(key)
        self.declared.take_out(key)
        self.running.place(last.before, last.node)
        self.declared.place(last.declared_before, last.node)
        self._settle(last.uid, last.before, last.node)

    @contextlib.contextmanager
    def without(self, uids: t.Collection[Uid]) -> t.Iterator[None]:
        """The declared cluster as it would be without these instances."""
        gone = [(self.candidates[uid], self.node_of[uid]) for uid in uids]
        for found, _node in gone:
            self.declared.take_out(found.pod.uid)
        try:
            yield
        finally:
            for found, node in gone:
                self.declared.place(replace(found.wanted, node_name=node), node)

    def declared_places(self, uid: Uid) -> tuple[str, ...]:
        """The nodes that pass all filters for an instance that is nowhere, as all are declared."""
        return self.declared.feasible(self.candidates[uid].probe(Method.RECREATE))

    def _settle(self, uid: Uid, pod: Pod, node: str) -> None:
        self.load[self.node_of[uid]] -= 1
        self.load[node] += 1
        self.node_of[uid] = node
        self._pods[uid] = pod

    def _target(self, found: Candidate) -> Pod:
        if found.target is None:
            raise AssertionError(f"{found.instance.ref} is not migrated: it has no target pod")
        return found.target


def _without_hazards(failure: Failure) -> Failure:
    return replace(failure, reasons=tuple(x for x in failure.reasons if x.kind not in HAZARDS))


def _index(snapshot: Snapshot, pods: t.Iterable[Pod]) -> Index:
    return Index.build(snapshot.nodes, pods, snapshot.namespaces, claim_terms=snapshot.claim_terms)
