# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says while it goes on: one line for each thing that changed.

Pure.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Ref
from ..model.plan import Left, Move, Plan
from ..model.snapshot import Snapshot
from ..movement.entry import Ended, Entry, Outcome

_PAST = {"migrate": "migrated", "restart": "restarted", "recreate": "recreated"}
_NOW = {"migrate": "migrating", "restart": "restarting", "recreate": "recreating"}


class Places:
    """Nodes as people name them: with the domain that they are in."""

    def __init__(self, labels: t.Mapping[str, Labels], zone_key: str) -> None:
        self._labels = labels
        self._zone_key = zone_key

    @classmethod
    def of(cls, snapshot: Snapshot, zone_key: str) -> Places:
        return cls({node.name: node.labels for node in snapshot.nodes}, zone_key)

    def domain(self, node: str) -> str:
        return self._labels.get(node, {}).get(self._zone_key, "")

    def named(self, node: str) -> str:
        zone = self.domain(node)
        return f"{node} ({zone})" if zone else node or "no node"


def planned(run: str, plan: Plan) -> str:
    if not plan.left:
        return f"run {run}: {_count(len(plan.moves), 'move')} planned"
    return f"run {run}: {_count(len(plan.moves), 'move')} planned, {len(plan.left)} left behind"


def whole(run: str, plan: Plan) -> list[str]:
    """The plan, and each that it leaves."""
    return [planned(run, plan), *map(left_behind, plan.left)]


def began(number: int, total: int, move: Move, places: Places) -> str:
    return f"[{number}/{total}] {_NOW[str(move.method)]} {_course(move, places)}"


def foretold(moves: t.Sequence[Move], places: Places) -> list[str]:
    """What check mode says of each move."""
    return [
        f"[{number}/{len(moves)}] would {move.method} {_course(move, places)}"
        for number, move in enumerate(moves, 1)
    ]


def _course(move: Move, places: Places) -> str:
    targets = _some([places.named(node) for node in move.targets])
    where = f" from {places.named(move.source)}" if move.source else ""
    name = short(move.workload, move.instance)
    return f"{name}{where}, open: {targets}; {move.reason}"


def ended(number: int, total: int, entry: Entry, end: Ended, seconds: float, places: Places) -> str:
    name = short(entry.workload, entry.instance)
    if end.outcome is Outcome.MOVED:
        verb = _PAST[str(entry.method)]
        way = f"{places.named(entry.source)} -> {places.named(end.node)}"
        return f"[{number}/{total}] {name} {verb}: {way} in {seconds:.0f} s"
    if end.outcome is Outcome.GONE:
        return f"[{number}/{total}] {name}: {end.reason}"
    return f"[{number}/{total}] {name} FAILED to {entry.method}: {end.reason} ({seconds:.0f} s)"


def not_now(name: str, reason: str) -> str:
    return f"{name} is not moved for now: {reason}"


def needless(names: t.Sequence[str]) -> str:
    return f"{_some(names)} {'needs' if len(names) == 1 else 'need'} no move any more"


def gone(names: t.Sequence[str]) -> str:
    return f"{_some(names)} {'is' if len(names) == 1 else 'are'} not there any more"


def recounted(before: int, now: int) -> str:
    return f"{_count(now, 'move')} in all now, {before} before"


def forgotten(workloads: t.Sequence[str], *, check: bool) -> list[str]:
    """One line for all whose terms are in effect, so that nothing is kept to go back by."""
    if not workloads:
        return []
    ways = "way back" if len(workloads) == 1 else f"{len(workloads)} ways back"
    would_be = "would be " if check else ""
    return [f"{ways} {would_be}forgotten, what is declared is in effect: {_some(workloads)}"]


def left_behind(left: Left) -> str:
    ref = left.workload or left.instance
    return f"left: {short(ref, left.instance)} on {left.node or 'no node'}: {left.reason}"


def standing(found: t.Iterable[tuple[str, str]]) -> list[str]:
    """One line for what takes effect at a next migration, one for restart and recreation, of
    (name, what it takes)."""
    by_need: dict[str, list[str]] = {}
    for name, need in found:
        by_need.setdefault(need, []).append(name)
    return [
        f"{names[0]} stands well; takes effect at its next {need}"
        if len(names) == 1
        else f"{len(names)} instances stand well; takes effect at the next {need} of each:"
        f" {_some(names)}"
        for need, names in sorted(by_need.items())
    ]


def short(workload: Ref, instance: Ref) -> str:
    """The workload, and the instance where its name says more."""
    if workload.name == instance.name:
        return str(workload)
    return f"{workload} ({instance.name})"


def _some(names: t.Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
