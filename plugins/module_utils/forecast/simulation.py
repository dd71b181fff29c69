# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens when pending pods are placed one after the other, on an index that is reverted afterwards?

Any pod that waits may be placed next, on any node that the filters let it use then. A placement
sequence ends when no waiting pod has an open node. A live migration removes its source once the
target is placed.

Pods that end are gone from the start, or leave one by one while `ended_present` lasts: a drain evicts
pod by pod, and a replacement is placed while the next evicted pod still runs. A pod that is still
there closes nodes to others, so it may as well be gone at once, with two exceptions: a spread
constraint counts it, and affinity to it opens nodes. Only pods that one of these concerns leave one
by one; `TermIndex` finds them.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from ..kinds.kind import RolloutRoom
from ..kinds.registry import kind_of
from ..kubevirt.instances import replaced_once_gone
from ..model.objects import Owner, Pod, Ref
from ..model.snapshot import Vmi
from ..scheduler.framework import PodInfo, pod_key
from ..scheduler.index import Index
from ..scheduler.nodes import NodeSet
from ..scheduler.pod_topology_spread import SpreadCount
from ..scheduler.selector_index import SelectorCount

Reason = t.Literal["start", "recreate", "migrate", "surge", "replace"]
"""Why a pod needs a node. start: no pod with a node was before it. recreate: the pod that it replaces ends
first. migrate: the target of a live migration, whose source leaves once the target has a node. surge: a
rollout adds it and ends the replaced pod after it. replace: a rollout ends the replaced pod just before."""

WITH_SOURCE: t.Final = ("migrate", "surge", "replace")
"""Reasons under which the replaced pod is on its node until the new one is placed."""
ROLLOUT: t.Final = ("surge", "replace")


@dataclass(frozen=True, slots=True, eq=False)
class PendingPod:
    """A pod that needs a node. `replaces` is the pod that it takes the place of, as it is on its node;
    None where there is none. `required` is false for a pod that waits anyway: it takes part, but the
    answer is not about it. `workload` and `vmi` are those of its instance, `room` that of its rollout."""

    pod: Pod
    replaces: Pod | None = None
    reason: Reason = "start"
    required: bool = True
    workload: Ref | None = None
    vmi: Vmi | None = None
    room: RolloutRoom | None = None

    @property
    def source(self) -> str | None:
        """Key of the pod that leaves its node when this one is placed."""
        return pod_key(self.replaces) if self.replaces and self.reason in WITH_SOURCE else None

    @property
    def leaves_before(self) -> str | None:
        """Key of the pod that has left when this one looks for a node."""
        return pod_key(self.replaces) if self.replaces and self.reason == "replace" else None

    @property
    def follows(self) -> str | None:
        """Key of the pod that has to end before this one is created."""
        return pod_key(self.replaces) if self.replaces and self.reason == "recreate" else None

    @property
    def in_rollout(self) -> bool:
        """Whether a workload rollout replaces a pod by this one: a running pod, or one that waits."""
        waits = self.reason == "start" and self.replaces is not None
        return waits or self.reason in ROLLOUT

    @property
    def instance(self) -> Ref:
        """The VirtualMachineInstance of a launcher pod, any other pod itself."""
        return self.pod.instance

    @property
    def subject(self) -> str:
        """What a reason is about: the instance, or the workload of one whose name is not known yet."""
        workload, instance = self.workload, self.instance
        kind = kind_of(workload.kind if workload is not None else "")
        if workload in (None, instance) or kind.keeps_names or self.reason == "migrate":
            return str(instance)
        return f"the next {'VM' if kind.virtual_machines else 'pod'} of {workload}"

    @property
    def uid(self) -> str:
        """Of the VMI of a launcher pod; the key of any other pod."""
        return self.pod.vmi_uid or pod_key(self.pod)

    @property
    def name(self) -> str:
        """What messages call the instance: for a pod, the pod that it replaces."""
        instance = self.instance
        if self.replaces is None or instance.is_vmi:
            return instance.name
        return self.replaces.name


@dataclass(frozen=True, slots=True, eq=False)
class TerminatingPod:
    """A pod that ends in `phases`: what is left of it on its node, one after the other. A spread
    constraint does not count a terminating pod, affinity does. None: nothing is left.

    `successor` is the number of the pending pod that comes after it. That pod is created when this one
    terminates, or, if `late`, in the last phase. `is_source`: the successor exists from the start, as
    the target of a live migration, and this pod goes when the successor has a node. `counted`: it still
    runs in its first phase; others may terminate in it.
    """

    key: str
    node: str
    phases: tuple[Pod | None, ...]
    successor: int | None = None
    late: bool = False
    is_source: bool = False
    counted: bool = False

    @property
    def last(self) -> int:
        return len(self.phases) - 1

    @property
    def owner(self) -> Owner | None:
        return self.phases[0].owner if self.phases[0] is not None else None

    def successor_exists(self, phase: int) -> bool:
        """Whether the successor has been created when this much is left of the pod."""
        pod = self.phases[phase]
        ends = pod is not None and pod.terminating and not self.late
        return self.is_source or phase == self.last or ends


class TermIndex:
    """Which placed pods the required affinity and the spread constraints of some pods select."""

    def __init__(self, index: Index, pod_infos: t.Iterable[PodInfo]) -> None:
        self._index = index
        self._affinity: set[SelectorCount] = set()
        self._spread: set[tuple[SelectorCount, SpreadCount]] = set()
        for pod_info in pod_infos:
            together = pod_info.placement_info.affinity_terms.affinity
            if together is not None and together.selector_count is not None:
                self._affinity.add(together.selector_count)
            for constraint in pod_info.constraints:
                if constraint.selector_count is not None and constraint.spread_count is not None:
                    self._spread.add((constraint.selector_count, constraint.spread_count))

    def __bool__(self) -> bool:
        return bool(self._affinity or self._spread)

    def ended(self, pod: Pod, successor: int | None) -> TerminatingPod | None:
        """A pod that ends, None where no term selects it. The index has it in its last phase, or not
        at all."""
        key = pod_key(pod)
        left = self._index.pod(key) if key in self._index else None
        counted, near = self._selected(pod, pod.node_name)
        phases: list[Pod | None] = [pod] if counted else []
        if near and left is None:
            phases.append(replace(pod, terminating=True))
        phases.append(left)
        if len(phases) == 1:
            return None
        late = successor is not None and replaced_once_gone(pod)
        return TerminatingPod(key, pod.node_name, tuple(phases), successor, late, counted=counted)

    def source(self, key: str, successor: int) -> TerminatingPod | None:
        """A pod that goes when its successor is placed, None where no term selects it. The source of a
        live migration has ended then, any other pod terminates."""
        pod, node = self._index.pod(key), self._index.node_of(key)
        counted, near = self._selected(pod, node)
        if not counted and not near:
            return None
        lingers = counted and near and not pod.vmi_uid
        between = (replace(pod, terminating=True),) if lingers else ()
        phases = (pod, *between, None)
        return TerminatingPod(key, node, phases, successor, is_source=True, counted=counted)

    def selects(self, pod: Pod) -> bool:
        """Whether affinity is to a pod, or a spread constraint counts it somewhere."""
        matches = set(self._index.pod_info(pod).selected_by)
        counting = {match for match, _tally in self._spread}
        return not matches.isdisjoint(self._affinity | counting)

    def has_affinity_to(self, pods: t.Iterable[Pod]) -> bool:
        """Whether affinity is to one of these placed pods."""
        return any(self._selected(pod, pod.node_name)[1] for pod in pods)

    def _selected(self, pod: Pod, node: str) -> tuple[bool, bool]:
        """Whether a spread constraint counts a pod on a node, and whether affinity is to it."""
        matches = set(self._index.pod_info(pod).selected_by)
        n = self._index.table.numbers[node]
        counted = not pod.terminating and any(
            match in matches and tally.eligible.flags[n] for match, tally in self._spread
        )
        return counted, not self._affinity.isdisjoint(matches)


def selected_by_terms(index: Index, declared: t.Iterable[Pod], pods: t.Iterable[Pod]) -> bool:
    """Whether an affinity or a spread that is declared for one of these selects one of `pods`: its
    coming or going may then close nodes, open some, or violate the rule."""
    terms = TermIndex(index, map(index.pod_info, declared))
    return bool(terms) and any(terms.selects(pod) for pod in pods)


PlacementSequence = tuple[tuple[int, str], ...]
"""(number of the pending pod, node) in the order of the placements. Where ended pods are there at
first, the steps in which they leave are among these, each without a node: see
PlacementSimulation.step."""


@dataclass(frozen=True, slots=True)
class _Placed:
    number: int
    node: str
    source: Pod | None
    source_node: str


class _RolloutRooms:
    """Does a controller create one more pod of its rollout now? Old pods that stand take the room of new ones
    (kubernetes pkg/controller/deployment, rolling.go and recreate.go, 1.36): those that leave one by one, known by
    their number among `terminating`, and those that wait and end once they have run, by theirs in `pending`."""

    def __init__(
        self, pending: t.Sequence[PendingPod], terminating: t.Sequence[TerminatingPod]
    ) -> None:
        new = [(x, old) for x in pending if x.room is not None and (old := x.replaces) is not None]
        by_old = {pod_key(old): x for x, old in new}
        by_owner: dict[Owner | None, PendingPod] = {old.owner: x for x, old in new if old.owner}
        self._terminating = terminating
        self._leaving = {
            m: found
            for m, pod in enumerate(terminating)
            if (found := by_old.get(pod.key) or (pod.successor is None and by_owner.get(pod.owner)))
        }
        self._waiting = {
            n: by_old[key] for n, x in enumerate(pending) if (key := pod_key(x.pod)) in by_old
        }
        self._taken: Counter[Ref | None] = Counter()
        self._taking: set[int] = set()

    def leave(self, m: int, phase: int, *, successor_waits: bool) -> None:
        """A terminating pod is in this phase. The source of a pod without a node takes the room that this one needs."""
        if m not in self._leaving:
            return
        new, pod = self._leaving[m], self._terminating[m]
        takes = pod.counted and phase == 0 and not (pod.is_source and successor_waits)
        if new.room is not None and new.room.stops_first:
            takes = phase < pod.last
        self._taken[new.workload] += takes - (m in self._taking)
        (self._taking.add if takes else self._taking.discard)(m)

    def place(self, number: int, by: int = 1) -> None:
        """A pending pod has a node, or (`by` -1) none any more."""
        if number in self._waiting:
            self._taken[self._waiting[number].workload] += by

    def is_created(self, pending: PendingPod, missing: int) -> bool:
        """Whether there is room for a pod. `missing`: so many new pods of its rollout that replace waiting ones have
        no node."""
        room, taken = pending.room, self._taken[pending.workload]
        if room is None or not taken:
            return True
        return not room.stops_first and taken < room.surge + room.unavailable + missing


class PlacementSimulation:
    """The pending pods of one index. `closed` gives nodes that are lost to a pod though the index does
    not know it: so one index serves many drills. `ended` are pods that end, on their nodes; the index
    has what is left of them in the end."""

    def __init__(
        self,
        index: Index,
        pending: t.Iterable[PendingPod],
        closed: t.Callable[[Pod], NodeSet] | None = None,
        ended: t.Iterable[Pod] = (),
    ) -> None:
        self.index = index
        self.table = index.table
        self.pending = tuple(pending)
        self.waiting = set(range(len(self.pending)))
        self._replaces_waiting = {
            n for n, x in enumerate(self.pending) if x.in_rollout and x.reason == "start"
        }
        self.closed = closed or (lambda _pod: 0)
        terms = TermIndex(index, [index.pod_info(pending.pod) for pending in self.pending])
        self.terminating = self._find_terminating(terms, ended)
        self._phase = [0 if x.is_source else x.last for x in self.terminating]
        self._predecessor = {
            x.successor: m for m, x in enumerate(self.terminating) if x.successor is not None
        }
        self.affinity_to_replaced = terms.has_affinity_to(
            index.pod(key)
            for pending in self.pending
            if (key := pending.leaves_before) is not None and key in index
        )
        """Affinity is to pods that leave before their successors are placed: while they terminate they
        open nodes that no sequence shows."""
        self._rooms = _RolloutRooms(self.pending, self.terminating)
        self._ended_present = False
        self._done: list[_Placed | int] = []

    @property
    def required(self) -> int:
        """How many of the pending pods are required."""
        return sum(1 for pending in self.pending if pending.required)

    @cached_property
    def kinds(self) -> list[int]:
        """A number for each pending pod, equal for those that are interchangeable."""
        numbers: dict[t.Hashable, int] = {}
        kinds = (self._kind_of(number) for number in range(len(self.pending)))
        return [numbers.setdefault(kind, len(numbers)) for kind in kinds]

    @property
    def sequence(self) -> PlacementSequence:
        """The steps so far."""
        count = len(self.pending)
        return tuple(
            (count + step, "") if isinstance(step, int) else (step.number, step.node)
            for step in self._done
        )

    def pod_info(self, number: int) -> PodInfo:
        return self.index.pod_info(self.pending[number].pod)

    def open_nodes(self, number: int) -> NodeSet:
        """Where a pending pod could be placed now."""
        m = self._predecessor.get(number)
        if m is not None and not self.terminating[m].successor_exists(self._phase[m]):
            return 0
        pending = self.pending[number]
        return self.feasible_nodes(number) if self._is_created(pending) else 0

    def _is_created(self, pending: PendingPod) -> bool:
        """Whether a controller may have created a pod of its rollout. It ends no running pod, whichever new pod
        has a node, while so many wait that replace waiting ones: as many as may be unavailable, or one where none
        may. And it needs room for one more."""
        first = (self.pending[number] for number in self._replaces_waiting & self.waiting)
        missing = sum(1 for other in first if other.workload == pending.workload)
        most = max(1, pending.room.unavailable if pending.room else 0)
        ends_none = pending.reason in ROLLOUT and missing >= most
        return not ends_none and self._rooms.is_created(pending, missing)

    def feasible_nodes(self, number: int) -> NodeSet:
        """The nodes that the filters leave to a pending pod now, whether or not it exists."""
        pending = self.pending[number]
        nodes = self.index.feasible_set(pending.pod, without=pending.leaves_before)
        return nodes & ~self.closed(pending.pod)

    @contextlib.contextmanager
    def ended_present(self) -> t.Iterator[None]:
        """While it lasts, pods that end are there until each one leaves. For a simulation in which
        nothing was placed yet; it is left so."""
        ending = [m for m, pod in enumerate(self.terminating) if not pod.is_source]
        self._ended_present = True
        for m in ending:
            self._set_phase(m, 0)
        try:
            yield
        finally:
            self.revert_all()
            for m in ending:
                self._set_phase(m, self.terminating[m].last)
            self._ended_present = False

    @contextlib.contextmanager
    def ready_for(self, sequence: PlacementSequence) -> t.Iterator[None]:
        """While it lasts, the steps of a sequence may be made, from the first on."""
        leaving = any(not node for _n, node in sequence)
        with self.ended_present() if leaving else contextlib.nullcontext():
            try:
                yield
            finally:
                self.revert_all()

    @contextlib.contextmanager
    def played(self, sequence: PlacementSequence) -> t.Iterator[None]:
        """While it lasts, all steps of a sequence are made."""
        with self.ready_for(sequence):
            for number, node in sequence:
                self.step(number, node)
            yield

    def can_advance(self, m: int) -> bool:
        """Whether a terminating pod could enter its next phase now."""
        pod = self.terminating[m]
        waits = pod.is_source and pod.successor in self.waiting
        return self._ended_present and self._phase[m] < pod.last and not waits

    def step(self, number: int, node: str) -> None:
        if node:
            self.place(number, node)
        else:
            self.advance(number - len(self.pending))

    def place(self, number: int, node: str) -> None:
        pending = self.pending[number]
        source, source_node = None, ""
        stays = self._ended_present and number in self._predecessor
        if (key := pending.source) is not None and key in self.index and not stays:
            source_node = self.index.node_of(key)
            source = self.index.remove(key)
        self.index.place(pending.pod, node)
        self.waiting.discard(number)
        self._count_room(number, 1)
        self._done.append(_Placed(number, node, source, source_node))

    def advance(self, m: int) -> None:
        """A terminating pod enters its next phase."""
        self._set_phase(m, self._phase[m] + 1)
        self._done.append(m)

    def revert(self) -> None:
        """Take the last step back."""
        last = self._done.pop()
        if isinstance(last, int):
            self._set_phase(last, self._phase[last] - 1)
            return
        self.index.remove(pod_key(self.pending[last.number].pod))
        if last.source is not None:
            self.index.place(last.source, last.source_node)
        self.waiting.add(last.number)
        self._count_room(last.number, -1)

    def revert_all(self) -> None:
        while self._done:
            self.revert()

    def state(self) -> t.Hashable:
        """What the steps so far amount to, whichever pod of a kind is where."""
        kinds, phase = self.kinds, self._phase
        placed = {step.number: step.node for step in self._done if isinstance(step, _Placed)}
        states = [
            (
                kinds[n],
                placed.get(n, ""),
                phase[self._predecessor[n]] if n in self._predecessor else 0,
            )
            for n in {*placed, *self._predecessor}
        ]
        unreplaced = tuple(
            phase[m] for m, pod in enumerate(self.terminating) if pod.successor is None
        )
        return tuple(sorted(states)), unreplaced

    def next_pods(self) -> list[int]:
        """One waiting pod of each kind and state."""
        first: dict[tuple[int, int], int] = {}
        for number in sorted(self.waiting):
            m = self._predecessor.get(number)
            phase = self._phase[m] if m is not None else 0
            first.setdefault((self.kinds[number], phase), number)
        return list(first.values())

    def _find_terminating(
        self, terms: TermIndex, ended: t.Iterable[Pod]
    ) -> tuple[TerminatingPod, ...]:
        if not terms:
            return ()
        successors = {key: n for n, x in enumerate(self.pending) if (key := x.follows) is not None}
        placed = (pod for pod in ended if pod.node_name in self.table.numbers)
        terminating = [terms.ended(pod, successors.get(pod_key(pod))) for pod in placed]
        for n, pending in enumerate(self.pending):
            if (key := pending.source) and pending.leaves_before is None and key in self.index:
                terminating.append(terms.source(key, n))
        return tuple(pod for pod in terminating if pod is not None)

    def _set_phase(self, m: int, phase: int) -> None:
        """Put a terminating pod into another of its phases."""
        terminating = self.terminating[m]
        if terminating.key in self.index:
            self.index.remove(terminating.key)
        left = terminating.phases[phase]
        if left is not None:
            self.index.place(left, terminating.node)
        self._phase[m] = phase
        self._rooms.leave(m, phase, successor_waits=terminating.successor in self.waiting)

    def _count_room(self, number: int, placed: int) -> None:
        """Count the old pods that take room, after a pending pod got a node (`placed` 1) or lost it (-1)."""
        self._rooms.place(number, placed)
        m = self._predecessor.get(number)
        if m is not None and self._ended_present:
            self._rooms.leave(m, self._phase[m], successor_waits=placed < 0)

    def _kind_of(self, number: int) -> t.Hashable:
        pending, m = self.pending[number], self._predecessor.get(number)
        before: t.Hashable = pending.source
        if m is not None and not self.terminating[m].is_source:
            pod = self.terminating[m]
            phases = (None if left is None else self._pod_kind(left) for left in pod.phases)
            before = (pod.node, pod.late, *phases)
        return (self._pod_kind(pending.pod), pending.required, before)

    def _pod_kind(self, pod: Pod) -> t.Hashable:
        """What matters of a pod: its terms, its requests, and what selects it. VMs carry labels of
        their own, which tell them apart only where some term selects them."""
        return (
            pod.namespace,
            pod.placement,
            frozenset(pod.requests.items()),
            frozenset(self.index.pod_info(pod).selected_by),
            pod.host_ports,
            pod.claims,
            pod.required_node_name,
            pod.terminating,
        )
