# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases about what could come: every choice is tried, with the engine saying what is open.

The searches are exhaustive, so they are for clusters of a handful of nodes only. `PLANNERS` is the
seam for whoever answers the same questions without trying everything: each is asked for every
case, and what it says is compared with the case like the searches' own answers.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

from .world import Case, build_index, incoming

Answer = t.Mapping[str, t.Any]


class Planner(t.Protocol):
    """Answers a case in the words of its `expect`. Keys that it leaves out are not compared;
    None: it cannot say."""

    def __call__(self, case: Case) -> Answer | None:
        raise NotImplementedError


PLANNERS: list[Planner] = []


def place_all(case: Case) -> t.Iterator[str]:
    """preflight-replicas, preflight-list and drill-failures: how many pods find a place if each
    choice is the best, and if each is the worst."""
    pods = pods_to_place(case)
    best, worst = extremes(build_index(case), pods, stop_early="replicas" in case)
    yield from _compare(case["expect"], {"maxPlaced": best, "minPlaced": worst})
    yield from _ask_planners(case)


def plan_moves(case: Case) -> t.Iterator[str]:
    """plan-moves: which assignments obey the new rules, and how few moves lead to one."""
    problem = MoveProblem(case)
    satisfied = problem.satisfying()
    distances = [problem.distance(each) for each in satisfied]
    yield from _compare(
        case["expect"],
        {
            "satisfiableAssignments": len(satisfied),
            "minStaticMoves": min(distances, default=-1),
            "complyNow": problem.complying(),
        },
    )
    for name, stays in (("restart", False), ("liveMigrate", True)):
        fewest = problem.fewest_moves(set(satisfied), source_stays=stays)
        yield from _compare(case["expect"][name], {"minMoves": fewest}, f"{name}.")
    yield from _ask_planners(case)


def pods_to_place(case: Case) -> list[Pod]:
    """The new pods of a case, in order; replicas are copies under names of their own."""
    if "replicas" not in case:
        return [incoming(manifest, case) for manifest in case["newPods"]]
    pod = incoming(case["pod"], case)
    return [
        dataclasses.replace(pod, name=f"{pod.name}-replica-{n}", uid="")
        for n in range(case["replicas"])
    ]


def extremes(index: Index, pods: t.Sequence[Pod], *, stop_early: bool) -> tuple[int, int]:
    """The most and the fewest pods placed, over all choices among the open nodes, in list order.

    A pod without an open node is left Pending; `stop_early`: so are all after it, which are alike.
    """
    kinds: dict[t.Hashable, int] = {}
    alike = [kinds.setdefault(_kind(pod), len(kinds)) for pod in pods]
    known: dict[t.Hashable, tuple[int, int]] = {}

    def explore(n: int, placed: tuple[tuple[int, str], ...]) -> tuple[int, int]:
        if n == len(pods):
            return 0, 0
        state = (n, placed)
        if state not in known:
            open_ = index.feasible_nodes(pods[n])
            if open_:
                known[state] = _best_and_worst(descend(n, name, placed) for name in open_)
            else:
                known[state] = (0, 0) if stop_early else explore(n + 1, placed)
        return known[state]

    def descend(n: int, name: str, placed: tuple[tuple[int, str], ...]) -> tuple[int, int]:
        index.place(pods[n], name)
        best, worst = explore(n + 1, tuple(sorted((*placed, (alike[n], name)))))
        index.remove(f"{pods[n].namespace}/{pods[n].name}")
        return best + 1, worst + 1

    return explore(0, ())


class MoveProblem:
    """Running pods with old rules, and the same pods with new ones."""

    def __init__(self, case: Case) -> None:
        self._index = build_index(case)
        self._new = [incoming(manifest, case) for manifest in case["newPods"]]
        self._old = [pod_from_manifest(manifest) for manifest in case["pods"][: len(self._new)]]
        self._names = [node.name for node in self._index.nodes]
        self._start = tuple(pod.node_name for pod in self._old)

    def distance(self, assignment: tuple[str, ...]) -> int:
        return sum(a != b for a, b in zip(assignment, self._start, strict=True))

    def complying(self) -> list[str]:
        """The pods that may stay where they are once all carry the new rules."""
        self._set(self._start, frozenset(range(len(self._new))))
        return [pod.name for pod in self._new if not self._index.failures_in_place(_key(pod))]

    def satisfying(self) -> list[tuple[str, ...]]:
        """The assignments in which every pod passes, all with the new rules."""
        everyone = frozenset(range(len(self._new)))
        found = []
        for assignment in itertools.product(self._names, repeat=len(self._new)):
            self._set(assignment, everyone)
            if not any(self._index.failures_in_place(_key(pod)) for pod in self._new):
                found.append(assignment)
        return found

    def fewest_moves(self, goals: set[tuple[str, ...]], *, source_stays: bool) -> int:
        """The fewest single moves to a goal, each to a node open at that moment; -1: none leads
        there. A pod that has not moved carries its old rules. `source_stays`: the pod itself is
        still running while its target is chosen, as in a live migration."""
        start: tuple[tuple[str, ...], frozenset[int]] = (self._start, frozenset())
        reached = {start: 0}
        queue = collections.deque([start])
        while queue:
            assignment, moved = queue.popleft()
            if assignment in goals:
                return reached[assignment, moved]
            for n in range(len(self._new)):
                for name in self._targets(assignment, moved, n, source_stays):
                    after = (*assignment[:n], name, *assignment[n + 1 :])
                    state = (after, moved | {n})
                    if state not in reached:
                        reached[state] = reached[assignment, moved] + 1
                        queue.append(state)
        return -1

    def _targets(
        self, assignment: tuple[str, ...], moved: frozenset[int], n: int, source_stays: bool
    ) -> tuple[str, ...]:
        self._set(assignment, moved)
        pod = self._new[n]
        without = None if source_stays else _key(pod)
        return self._index.feasible_nodes(pod, without=without, exclude={assignment[n]})

    def _set(self, assignment: tuple[str, ...], renewed: frozenset[int]) -> None:
        for n, (old, new) in enumerate(zip(self._old, self._new, strict=True)):
            pod = new if n in renewed else old
            key = _key(pod)
            if self._index.pod(key) is not pod:
                self._index.remove(key)
                self._index.place(pod, assignment[n])
            elif self._index.node_of(key) != assignment[n]:
                self._index.move(key, assignment[n])


def _ask_planners(case: Case) -> t.Iterator[str]:
    for planner in PLANNERS:
        answer = planner(case)
        if answer is not None:
            yield from _compare(case["expect"], answer, "planner: ")


def _compare(expected: Case, got: Answer, where: str = "") -> t.Iterator[str]:
    for name, value in got.items():
        if expected[name] != value:
            yield f"{where}{name}: expected {expected[name]}, got {value}"


def _best_and_worst(results: t.Iterable[tuple[int, int]]) -> tuple[int, int]:
    listed = list(results)
    return max(each[0] for each in listed), min(each[1] for each in listed)


def _kind(pod: Pod) -> t.Hashable:
    """Pods of one kind are interchangeable: what they are, but for the name."""
    return (
        pod.namespace,
        tuple(sorted(pod.labels.items())),
        pod.placement,
        tuple(sorted(pod.requests.items())),
        pod.host_ports,
        pod.required_node_name,
    )


def _key(pod: Pod) -> str:
    return pod.uid or f"{pod.namespace}/{pod.name}"
