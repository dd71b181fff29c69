# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves after which the members of one group obey its rule.

A member may stay in the domain `stays` at no cost, or move into any domain of `allowed` for one
move. Nothing but the group's own rule couples the members here: what else stands in a domain's way
(node rules, taints, resources, other groups) is what keeps it out of `allowed`. None as
an answer: no arrangement obeys the rule.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from .flow import Network

Domain = t.Hashable
Bounds = tuple[int, int]
"""The fewest and the most members that a domain takes."""


@dataclass(frozen=True, slots=True)
class Member:
    """`stays` is the domain where it may remain as it is (None: it must leave its node);
    `allowed` are those that it may move into."""

    stays: Domain | None
    allowed: frozenset[Domain]

    def may_be_in(self, domain: Domain) -> bool:
        return domain == self.stays or domain in self.allowed


@dataclass(frozen=True, slots=True)
class Healing:
    """`moves` members move; `domains` holds one domain per member, in the order given."""

    moves: int
    domains: tuple[Domain, ...]


def assign(members: t.Sequence[Member], bounds: t.Mapping[Domain, Bounds]) -> Healing | None:
    """Every member into a domain, each domain within its bounds, as few moves as can be.

    A domain without bounds takes any number. Members that are alike, and domains that are alike to
    all members, are one node of the network, so that a group of a thousand costs as much as ten.
    """
    if any(high < low for low, high in bounds.values()):
        return None
    classes = _alike(members)
    groups = _merge_domains(classes, bounds)
    counts = _solve(classes, groups, bounds, len(members))
    if counts is None:
        return None
    domains = _deal(classes, groups, counts, len(members))
    moves = sum(member.stays != domain for member, domain in zip(members, domains, strict=True))
    return Healing(moves, domains)


def keep_apart(members: t.Sequence[Member], domains: t.Collection[Domain]) -> Healing | None:
    """At most one member in each of `domains`; any number elsewhere (nodes that lack the key)."""
    return assign(members, dict.fromkeys(domains, (0, 1)))


def spread_evenly(
    members: t.Sequence[Member],
    domains: t.Collection[Domain],
    max_skew: int,
    *,
    min_domains: int = 1,
    others: t.Mapping[t.Any, int] | None = None,
) -> Healing | None:
    """Counts of `domains` at most `max_skew` above the smallest one.

    `others` are matching pods that do not take part. With fewer domains than `min_domains` the
    smallest count is taken as zero (Kubernetes: minDomains).
    """
    if not domains:
        return None
    fixed = others or {}
    total = len(members) + sum(fixed.get(domain, 0) for domain in domains)
    floor = total // len(domains) if len(domains) >= min_domains else 0
    best: Healing | None = None
    for minimum in range(floor, -1, -1):
        low = minimum if len(domains) >= min_domains else 0
        bounds = {
            domain: (max(0, low - fixed.get(domain, 0)), minimum + max_skew - fixed.get(domain, 0))
            for domain in domains
        }
        found = assign(members, bounds)
        if found is not None and (best is None or found.moves < best.moves):
            best = found
    return best


def keep_together(members: t.Sequence[Member], domains: t.Collection[Domain]) -> Healing | None:
    """All members in one of `domains`."""
    best: Healing | None = None
    for domain in domains:
        if all(member.may_be_in(domain) for member in members):
            moves = sum(member.stays != domain for member in members)
            if best is None or moves < best.moves:
                best = Healing(moves, (domain,) * len(members))
    return best


def keep_from(
    repelling: t.Sequence[Member],
    repelled: t.Sequence[Member],
    domains: t.Collection[Domain],
    both: t.Sequence[Member] = (),
) -> int:
    """No member of `repelling` in a domain with one of `repelled`. Those of `both` repel all others
    and one another; each of the first two groups may share a domain with itself.

    In each domain the largest side stays. That is the least that can do; where those that leave
    compete for the last free domains it takes more.
    """
    sides = [Counter(member.stays for member in side) for side in (repelling, repelled, both)]
    moves = sum(side[None] for side in sides)
    for domain in domains:
        here = [side[domain] for side in sides]
        moves += sum(here) - max(here[0], here[1], min(here[2], 1))
    return moves


def _alike(members: t.Sequence[Member]) -> dict[Member, list[int]]:
    classes: dict[Member, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        classes[member].append(index)
    return classes


def _merge_domains(
    classes: t.Iterable[Member], bounds: t.Mapping[Domain, Bounds]
) -> list[list[Domain]]:
    """Domains that no class tells apart, and whose bounds are equal, together."""
    homes = {member.stays for member in classes if member.stays is not None}
    wanted = list(dict.fromkeys(member.allowed for member in classes))
    groups: dict[t.Hashable, list[Domain]] = defaultdict(list)
    for domain in dict.fromkeys((*bounds, *homes, *(d for allowed in wanted for d in allowed))):
        home = domain if domain in homes else None
        groups[(home, tuple(domain in a for a in wanted), bounds.get(domain))].append(domain)
    return list(groups.values())


def _solve(
    classes: t.Mapping[Member, list[int]],
    groups: t.Sequence[t.Sequence[Domain]],
    bounds: t.Mapping[Domain, Bounds],
    total: int,
) -> dict[tuple[Member, int], int] | None:
    """How many of each class go into each group of domains."""
    source, sink, first_class = 0, 1, 2
    first_group = first_class + len(classes)
    network = Network(first_group + len(groups))
    arcs: dict[tuple[Member, int], int] = {}
    for number, (member, indices) in enumerate(classes.items()):
        network.arc(source, first_class + number, len(indices))
        for place, group in enumerate(groups):
            if member.may_be_in(group[0]):
                cost = int(group[0] != member.stays)
                tail, head = first_class + number, first_group + place
                arcs[member, place] = network.arc(tail, head, len(indices), cost)
    must: list[tuple[int, int]] = []
    for place, group in enumerate(groups):
        low, high = bounds.get(group[0], (0, total))
        # Filling a lower bound is worth more than all moves together.
        arc = network.arc(first_group + place, sink, low * len(group), -total - 1)
        must.append((arc, low * len(group)))
        network.arc(first_group + place, sink, (high - low) * len(group))
    if network.send(source, sink) < total:
        return None
    if any(network.flow(arc) < amount for arc, amount in must):
        return None
    return {key: network.flow(arc) for key, arc in arcs.items()}


def _deal(
    classes: t.Mapping[Member, list[int]],
    groups: t.Sequence[t.Sequence[Domain]],
    counts: t.Mapping[tuple[Member, int], int],
    total: int,
) -> tuple[Domain, ...]:
    """One domain per member. Domains of a group are filled evenly: they have equal bounds."""
    waiting = {member: list(indices) for member, indices in classes.items()}
    dealt: list[Domain] = [None] * total
    for place, group in enumerate(groups):
        members = [
            waiting[m].pop() for (m, p), n in counts.items() if p == place for _each in range(n)
        ]
        for turn, index in enumerate(members):
            dealt[index] = group[turn % len(group)]
    return tuple(dealt)
