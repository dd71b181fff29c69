# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs follow which VM, so that affinity rules hold and each VM can still migrate?

DRS keeps all VMs of affinity rules that share VMs on one host. With terms that require each other, no VM could leave
the node first. So one VM of each such group has no term, and the others follow it: each a VM of its own rule, so that
a rule is violated by its own VMs alone.
"""

from __future__ import annotations

import heapq
import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..model.findings import InputError
from .export import DrsRule, SourceVm


@dataclass(frozen=True, slots=True)
class FollowedRule:
    """The VMs of one affinity rule that follow `leader` by it. There are none where other rules keep its VMs together
    already: `kept_by` has their names, if they are enabled like this one. `leaders`: the leader, and the VMs that it
    follows itself by other rules, up to the one that follows none. `led`: VMs of a disabled rule and the VM that its
    group follows by enabled rules, which stands for each here."""

    leaders: tuple[SourceVm, ...]
    followers: tuple[SourceVm, ...]
    kept_by: tuple[str, ...] = ()
    led: tuple[tuple[SourceVm, SourceVm], ...] = ()

    @property
    def leader(self) -> SourceVm:
        return self.leaders[0]


Members = t.Mapping[str, tuple[SourceVm, ...]]
"""By the place of a rule in the export: its VMs that are on the cluster, at least two."""


def follow(
    rules: t.Sequence[DrsRule],
    members: Members,
    leaders: t.Sequence[str],
    faults: list[InputError],
    hosted: t.Mapping[str, int],
) -> dict[str, FollowedRule]:
    """By the place of each affinity rule. A cycle of rules, and two leaders in one group, are faults. `hosted`: by the
    key of a VM with a rule of hosts, how much that binds it."""
    followed: dict[str, FollowedRule] = {}
    for group in affinity_groups(rules, members, faults):
        followed.update(
            _from_leader(group, members, _leader(group, members, leaders, faults, hosted))
        )
    return followed


def _from_leader(
    group: t.Sequence[DrsRule], members: Members, leader: SourceVm
) -> t.Iterator[tuple[str, FollowedRule]]:
    """The next rule is the first of the export that has a VM beside the leader already; its others follow that VM."""
    rules_of: dict[str, list[int]] = defaultdict(list)
    for number, rule in enumerate(group):
        for vm in members[rule.where]:
            rules_of[vm.key].append(number)
    added_by = {leader.key: ""}
    leaders: dict[str, tuple[SourceVm, ...]] = {leader.key: (leader,)}
    """By the key of a VM beside the leader: itself and the VMs that it follows, the first added first."""
    ahead = list(rules_of[leader.key])
    seen = set(ahead)
    while ahead:
        rule = group[heapq.heappop(ahead)]
        vms = members[rule.where]
        followers = tuple(vm for vm in vms if vm.key not in added_by)
        kept_by = () if followers else dict.fromkeys(added_by[vm.key] for vm in vms)
        members_beside = [vm.key for vm in vms if vm.key in leaders]
        followed = min((leaders[key] for key in members_beside), key=len)
        yield rule.where, FollowedRule(followed, followers, tuple(filter(None, kept_by)))
        added_by.update({vm.key: rule.name for vm in followers})
        leaders.update({vm.key: (vm, *followed) for vm in followers})
        reached = {number for vm in followers for number in rules_of[vm.key]} - seen
        seen |= reached
        for number in reached:
            heapq.heappush(ahead, number)


def follow_at_rest(
    rules: t.Sequence[DrsRule],
    members: Members,
    followed: t.Iterable[FollowedRule],
    leaders: t.Sequence[str],
    hosted: t.Mapping[str, int],
) -> dict[str, FollowedRule]:
    """What disabled rules become, by their place. They do not change what enabled ones become: a VM that follows
    another one by these has its leader here in its place. VMs follow in one order, so that no rules that are enabled
    later require each other."""
    leader_of = {vm.key: x.leaders[-1] for x in followed for vm in (*x.leaders, *x.followers)}
    moved = {
        rule.where: {vm.key: leader_of.get(vm.key, vm) for vm in members[rule.where]}
        for rule in rules
    }
    order: dict[str, tuple[bool, bool, int, int]] = {}
    for vm in (vm for of_rule in moved.values() for vm in of_rule.values()):
        rank = (not _is_named(vm, leaders), vm.key not in leader_of, -hosted.get(vm.key, 0))
        order.setdefault(vm.key, (*rank, len(order)))
    at_rest = {}
    for rule in rules:
        first, *others = sorted(set(moved[rule.where].values()), key=lambda vm: order[vm.key])
        led = [(vm, moved[rule.where][vm.key]) for vm in members[rule.where]]
        at_rest[rule.where] = FollowedRule(
            (first,), tuple(others), led=tuple(pair for pair in led if pair[0] != pair[1])
        )
    return at_rest


def affinity_groups(
    rules: t.Sequence[DrsRule], members: Members, faults: list[InputError]
) -> list[list[DrsRule]]:
    """Rules that share VMs, directly or through others, in the order of the export. One whose VMs are all together by
    those before it is a fault, unless some of its VMs are missing here."""
    root: dict[str, str] = {}

    def find(key: str) -> str:
        while root.setdefault(key, key) != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    for index, rule in enumerate(rules):
        vms = members[rule.where]
        first, *others = (find(vm.key) for vm in vms)
        if len(vms) == len(rule.vms) and all(key == first for key in others):
            earlier = [x for x in rules[:index] if find(members[x.where][0].key) == first]
            faults.append(_cycle(rule, vms, earlier))
        for key in others:
            root[find(key)] = find(first)
    groups: dict[str, list[DrsRule]] = defaultdict(list)
    for rule in rules:
        groups[find(members[rule.where][0].key)].append(rule)
    return list(groups.values())


def _cycle(rule: DrsRule, vms: t.Sequence[SourceVm], earlier: t.Sequence[DrsRule]) -> InputError:
    return InputError(
        str(rule),
        f"its VMs {' and '.join(map(str, vms))} are kept together already by"
        f" {', '.join(repr(x.name) for x in earlier)}: a cycle of affinity. It adds nothing to these rules: leave one"
        " of them out with skip_rules",
    )


def _is_named(vm: SourceVm, leaders: t.Sequence[str]) -> bool:
    return vm.name in leaders or vm.moref in leaders


def _leader(
    group: t.Sequence[DrsRule],
    members: Members,
    leaders: t.Sequence[str],
    faults: list[InputError],
    hosted: t.Mapping[str, int],
) -> SourceVm:
    """The VM of the option `leaders`, else one with a rule of hosts, since the others can follow it there and it cannot
    follow them. Of several the one that most rules of the group name, the first of them."""
    vms = [vm for rule in group for vm in members[rule.where]]
    named = {vm.key: vm for vm in vms if _is_named(vm, leaders)}
    if len(named) > 1:
        faults.append(
            InputError(
                "leaders",
                f"has {' and '.join(map(str, named.values()))}, which affinity rules keep together: name one of"
                " them",
            )
        )
    counts = Counter(vm.key for vm in vms)
    first = max(vms, key=lambda vm: (hosted.get(vm.key, 0), counts[vm.key]))
    return next(iter(named.values()), first)
