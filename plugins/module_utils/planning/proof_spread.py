# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many members of a spread constraint its domains can take in the end, at most.

Pure. Counts of members that have a place only grow. So whoever came last into a domain was within
the skew of the smallest count, and that was no larger than it is in the end: but for pods that end
and still stood then. Of n members that come after such pods, n - k of these stand at most when the
k-th has its place.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..scheduling.node_table import NodeSet
from ..scheduling.spread import Constraint, SpreadCount
from ..verdicts.healing import Member
from ..verdicts.healing import assign as divide
from .fill import Filling

Count = t.Mapping[str, int]
_NONE: t.Final[Count] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """The seekers (by number) of one constraint. `allowed` are the domains open to each. By domain
    that counts: `fixed` are pods that stay, `own` those that members come after, `others` further
    ones that end."""

    constraint: Constraint
    members: tuple[int, ...]
    allowed: tuple[frozenset[str], ...]
    fixed: Count
    own: Count = field(default_factory=dict)
    others: Count = field(default_factory=dict)

    @property
    def room(self) -> tuple[str, ...]:
        """The domains that some member could use."""
        return tuple(sorted(frozenset().union(*self.allowed)))

    @property
    def most(self) -> int:
        """More members than that never have a place."""
        count = len(self.members)
        if self._fits(count):
            return count
        if len(set(self.allowed)) > 1:
            return count - 1
        return next((most for most in range(count - 1, 0, -1) if self._fits(most)), 0)

    def _fits(self, count: int) -> bool:
        """Whether so many members may have places in the end, as far as this can tell."""
        held = len(self.fixed) < self.constraint.min_domains
        total = count + sum(self.fixed.values())
        top = 0 if held else total // len(self.fixed)
        standing = () if held else tuple({*self.own, *self.others})
        return any(
            self._divides(count, minimum, smallest, held)
            for minimum in range(top, -1, -1)
            for smallest in ("", *standing)
        )

    def _divides(self, count: int, minimum: int, smallest: str, held: bool) -> bool:
        """Whether members can be divided so that in the end no domain holds fewer than `minimum`,
        or just `smallest` does so many, and none that took one was too far above what was smallest
        then. `held`: the smallest counts as zero whatever it is."""
        if smallest and self.fixed[smallest] > minimum:
            return False
        low = 0 if held else minimum
        cap = minimum + self.constraint.max_skew + self.others.get(smallest, 0)
        own = self.own.get(smallest, 0)
        bounds: dict[t.Hashable, tuple[int, int]] = {}
        for name, fixed in self.fixed.items():
            most = self._most(cap - fixed, own, 0)
            if name == smallest:
                most = low - fixed
            bounds[name] = max(0, low - fixed), max(0, most)
        if any(most < least for least, most in bounds.values()):
            return False
        seekers = [Member(None, where) for where in self.allowed[:count]]
        return self._one_by_one(cap, own, smallest, bounds) >= count and bool(
            divide(seekers, bounds)
        )

    def _one_by_one(
        self,
        cap: int,
        own: int,
        smallest: str,
        bounds: t.Mapping[t.Hashable, tuple[int, int]],
    ) -> int:
        """How many can have places when the domains are filled one after the other, the fullest
        first: the later, the fewer pods stand."""
        total = bounds[smallest][1] if smallest else 0
        placed = 0
        for name in sorted(self.room, key=lambda each: -self.fixed.get(each, 0)):
            if name in self.fixed and name != smallest:
                placed += self._most(cap - self.fixed[name], own, placed)
        return total + placed

    def _most(self, above: int, own: int, placed: int) -> int:
        """How many a domain may take in a row that is `above` below its bound, when `own` pods raise
        that as long as they stand, and so many members have places already."""
        left = len(self.members) - placed
        return max(0, above, min(above + own, (above + left) // 2))


def crowds(
    filling: Filling, reach: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[Crowd]:
    """The members among `numbers` of each constraint of which it can be told what counts."""
    groups: dict[t.Hashable, tuple[Constraint, SpreadCount, list[int]]] = {}
    for n in numbers:
        candidate = filling.candidate(n)
        for constraint in candidate.constraints:
            tally = constraint.tally
            if tally is not None and constraint.match in candidate.matches:
                same = (id(tally), constraint.max_skew, constraint.min_domains)
                groups.setdefault(same, (constraint, tally, []))[2].append(n)
    selected, leaving = _selected(filling)
    for constraint, tally, members in groups.values():
        match = id(constraint.match)
        if match not in leaving and selected[match] <= set(members):
            yield _crowd(filling, reach, constraint, tally, members)


def _selected(filling: Filling) -> tuple[dict[int, set[int]], set[int]]:
    """Which seekers each Match selects, and the Matches that select a source: where another seeker
    is selected, or a source leaves, the counts of a spread are not the members' own."""
    selected: dict[int, set[int]] = defaultdict(set)
    leaving: set[int] = set()
    index = filling.index
    for n, seeker in enumerate(filling.seekers):
        for match in filling.candidate(n).matches:
            selected[id(match)].add(n)
        if seeker.source is not None and seeker.source in index:
            leaving.update(map(id, index.candidate(index.pod(seeker.source)).matches))
    return selected, leaving


def _crowd(
    filling: Filling,
    reach: t.Sequence[NodeSet],
    constraint: Constraint,
    tally: SpreadCount,
    members: list[int],
) -> Crowd:
    table, index = filling.table, filling.index
    domains = table.domains(constraint.key)
    counting = [name for name, nodes in domains.items() if nodes & tally.eligible.nodes]
    known = set(members)
    own: dict[str, int] = defaultdict(int)
    others: dict[str, int] = defaultdict(int)
    for leaver in filling.leavers:
        stands, n = leaver.forms[0], table.numbers[leaver.node]
        if stands is None or stands.terminating or not tally.eligible.flags[n]:
            continue
        if constraint.match in index.candidate(stands).matches:
            counted = own if leaver.seeker in known else others
            counted[table.labels[n][constraint.key]] += 1
    return Crowd(
        constraint,
        tuple(members),
        tuple(
            frozenset(name for name, nodes in domains.items() if nodes & reach[n]) for n in members
        ),
        {name: tally.counts.get(name, 0) for name in counting},
        own,
        others,
    )
