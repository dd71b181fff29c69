# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two readings of one cluster that moves are tried out on, one as it runs, one as it is declared.

Whether a place is open is asked of the first: who has not moved still runs under his old terms.
Whether somebody must move is asked of the second: there all have what their workloads declare. A
move changes both; `undo` takes the last one back, so that several plans can be tried. Where all that
is declared is in effect, one index is both.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, replace

from ..model.collector import collector_paused
from ..model.objects import Pod
from ..model.plan import Method
from ..model.snapshot import Snapshot
from ..model.topology import HOSTNAME
from ..scheduling.failure import Failure
from ..scheduling.index import Index
from ..scheduling.node_table import NodeSet
from ..scheduling.node_terms import matches_node
from ..scheduling.options import NODE_AFFINITY
from ..verdicts.attribution import HAZARDS
from ..verdicts.platform_terms import CREATED_BY, carried_labels
from .candidates import Candidate
from .links import Links
from .ranking import Ranking
from .transit import Transit, transit

Uid = str
Failures = t.Mapping[str, tuple[Failure, ...]]

GONE_AT_MOST = 8
"""Pods on their way out that a question may set aside each time; with more of them the declared
cluster gets an index of its own."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The index of a snapshot, and why its placed pods might not come back to their nodes (see
    Index.verify), by key; None where nobody has asked. A plan only looks for its candidates."""

    index: Index
    failures: Failures | None

    @classmethod
    def of(cls, snapshot: Snapshot, candidates: t.Iterable[Candidate]) -> Verified:
        """What plans for `candidates` begin with. What is declared and not in effect is judged in
        another world than what runs, so that then nothing is verified here."""
        with collector_paused():
            index = index_of(snapshot, snapshot.pods)
            failures: dict[str, tuple[Failure, ...]] = {}
            for found in candidates:
                if found.wanted is not found.pod:
                    return cls(index, None)
                key = found.pod.uid
                if key in index and (refused := index.verify(key)):
                    failures[key] = refused
            return cls(index, failures)


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
        gone: tuple[str, ...] = (),
        failures: Failures | None = None,
    ) -> None:
        self._strict = strict
        self._gone = gone
        self._known_failures = failures
        self.running = running
        self.declared = declared
        self.table = running.table
        self.candidates = {
            found.uid: found for found in candidates if found.node in self.table.numbers
        }
        self.node_of = {uid: found.node for uid, found in self.candidates.items()}
        self._uids = {found.pod.uid: uid for uid, found in self.candidates.items()}
        self.ranking = Ranking(self.table, running.loads())
        self._pods: dict[Uid, Pod] = {}
        self._done: list[Done] = []
        self._links: Links | None = None
        self._broken: dict[Uid, tuple[Failure, ...]] = {}

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        candidates: t.Sequence[Candidate],
        *,
        strict: bool = False,
        on_the_way: Transit | None = None,
        verified: Verified | None = None,
    ) -> World:
        """The world of a snapshot in which `candidates` may be moved.

        `on_the_way`: see transit. An index that is handed in is given back as it was once all moves
        are taken back.
        """
        leaving = (on_the_way or transit(snapshot)).pods
        leaving = leaving.difference(found.pod.uid for found in candidates) if leaving else leaving
        running = index_of(snapshot, snapshot.pods) if verified is None else verified.index
        gone = tuple(uid for uid in leaving if uid in running)
        failures: Failures | None = None
        declared = running
        if len(gone) > GONE_AT_MOST or any(x.wanted is not x.pod for x in candidates):
            wanted = {found.pod.uid: found.wanted for found in candidates}
            staying = (pod for pod in snapshot.pods if pod.uid not in leaving)
            declared = index_of(snapshot, (wanted.get(pod.uid, pod) for pod in staying))
            gone = ()
        elif verified is not None:
            failures = verified.failures
        return cls(running, declared, candidates, strict=strict, gone=gone, failures=failures)

    @property
    def links(self) -> Links:
        """The links among the candidates, as they are declared."""
        if self._links is None:
            every = self.candidates
            pods = ((uid, found.wanted) for uid, found in every.items())
            self._links = Links.of(self.declared, self._uids, lambda uid: every[uid].pod.uid, pods)
        return self._links

    def violators(self) -> list[Uid]:
        """The candidates that break a rule, in their order."""
        known = self._known_failures
        if known is None:
            return [uid for uid in self.candidates if self.broken(uid)]
        suspects = {self._uids[key] for key in known if key in self._uids}
        for key in self._gone:
            suspects |= self.links.around(self.running.placed(key))
        return [uid for uid in self.candidates if uid in suspects and self.broken(uid)]

    def failures(self, uid: Uid, node: str | None = None) -> tuple[Failure, ...]:
        """Why the instance may not be on `node` (where it is) when all have what is declared."""
        found = self.candidates[uid]
        with self._aside():
            if node is None:
                return self.declared.verify(found.pod.uid)
            return self.declared.failures(found.wanted, node, without=found.pod.uid)

    def broken(self, uid: Uid) -> tuple[Failure, ...]:
        """The rules that the instance breaks where it is, as far as they are declared. A node that
        KubeVirt takes for unschedulable, that is cordoned, tainted or full breaks no rule."""
        if self._strict:
            return self.failures(uid)
        known = self._broken.get(uid)
        if known is None:
            known = self._broken[uid] = self._breaks(uid)
        return known

    def _breaks(self, uid: Uid) -> tuple[Failure, ...]:
        if self._known_failures is None or self._done or self._gone:
            failures = self.failures(uid)
        else:
            failures = self._known_failures.get(self.candidates[uid].pod.uid, ())
        if not failures:
            return failures
        found = self.candidates[uid]
        node = self.table.nodes[self.table.numbers[self.node_of[uid]]]
        rules = (_without_hazards(failure) for failure in failures)
        return tuple(
            failure
            for failure in rules
            if failure.reasons
            and not (failure.plugin == NODE_AFFINITY and matches_node(found.asked, node))
        )

    def open_set(self, uid: Uid, method: Method) -> NodeSet:
        """The nodes that the scheduler could choose for this move now."""
        found = self.candidates[uid]
        if method is Method.MIGRATE:
            here = 1 << self.table.numbers[self.node_of[uid]]
            return self._open_to_target(found) & ~here
        key = found.pod.uid
        if found.wanted is found.pod:
            with self.running.without(key):
                return self.running.feasible_set(self.running.placed(key))
        return self.running.open_nodes(found.probe(method), without=key)

    def good_set(self, uid: Uid) -> NodeSet:
        """The nodes where the instance would break no rule, and has room."""
        found = self.candidates[uid]
        with self._aside():
            return self.declared.open_nodes(found.wanted, without=found.pod.uid)

    def open_to(self, uid: Uid, method: Method) -> tuple[str, ...]:
        """The names of `open_set`."""
        return self.table.names_of(self.open_set(uid, method))

    @property
    def tried(self) -> int:
        """How many moves could be taken back."""
        return len(self._done)

    def move(self, uid: Uid, node: str) -> None:
        found = self.candidates[uid]
        key, source = found.pod.uid, self.node_of[uid]
        before = self._pods.get(uid, found.pod)
        self._done.append(Done(uid, before, found.wanted, source))
        if self.declared is self.running:
            self.running.move(key, node)
        else:
            moved = replace(found.wanted, node_name=node)
            self._put(key, moved, moved, node)
            self._pods[uid] = moved
        self._settle(uid, node)

    def undo(self) -> None:
        last = self._done.pop()
        key = self.candidates[last.uid].pod.uid
        if self.declared is self.running:
            self.running.move(key, last.node)
        else:
            self._put(key, last.before, last.declared_before, last.node)
            self._pods[last.uid] = last.before
        self._settle(last.uid, last.node)

    @contextlib.contextmanager
    def without(self, uids: t.Collection[Uid]) -> t.Iterator[None]:
        """The declared cluster as it would be without these instances."""
        keys = [self.candidates[uid].pod.uid for uid in uids]
        with self.declared.without(*keys):
            yield

    def declared_places(self, uid: Uid) -> tuple[str, ...]:
        """The nodes that pass all filters for an instance that is nowhere, as all are declared."""
        probe = self.candidates[uid].probe(Method.RECREATE)
        with self._aside():
            return self.table.names_of(self.declared.open_nodes(probe))

    def _aside(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, the declared cluster is without the pods that are about to be gone."""
        return self.declared.without(*self._gone) if self._gone else contextlib.nullcontext()

    def _put(self, key: str, running: Pod, declared: Pod, node: str) -> None:
        self.running.take_out(key)
        self.declared.take_out(key)
        self.running.place(running, node)
        self.declared.place(declared, node)

    def _settle(self, uid: Uid, node: str) -> None:
        numbers = self.table.numbers
        self.ranking.moved(numbers[self.node_of[uid]], numbers[node])
        self.node_of[uid] = node
        if self._broken:  # a rule can only be broken or healed by those that it concerns
            self._broken.pop(uid, None)
            for other in self.links.linked(uid):
                self._broken.pop(other, None)

    def _open_to_target(self, found: Candidate) -> NodeSet:
        """Where the target of a migration could be. Where that is a pod just like the source it is
        not made: the source is asked about, beside itself, and may not be on a node with it."""
        vmi = found.instance.vmi
        if found.wanted is not found.pod or vmi is None:
            return self.running.open_nodes(self._target(found))
        source = self.running.placed(found.pod.uid)
        labels = {**carried_labels(found.pod.labels), **vmi.labels}
        matching = self.running.matching
        matching.find(source)
        alike = source.matches == matching.selecting(found.pod.namespace, labels)
        if not alike or not labels.get(CREATED_BY) == found.pod.labels.get(CREATED_BY) == vmi.uid:
            return self.running.open_nodes(self._target(found))
        machine = matching.sharing(CREATED_BY, vmi.uid)
        taken = {each.node_labels[HOSTNAME] for each in machine if HOSTNAME in each.node_labels}
        return self.running.feasible_set(source) & ~self.table.in_domains(HOSTNAME, taken)

    def _target(self, found: Candidate) -> Pod:
        if found.target is None:
            raise AssertionError(f"{found.instance.ref} is not migrated: it has no target pod")
        return found.target


def _without_hazards(failure: Failure) -> Failure:
    return replace(failure, reasons=tuple(x for x in failure.reasons if x.kind not in HAZARDS))


def index_of(snapshot: Snapshot, pods: t.Iterable[Pod]) -> Index:
    """The index of a snapshot with these pods."""
    return Index.build(snapshot.nodes, pods, snapshot.namespaces, claim_terms=snapshot.claim_terms)
