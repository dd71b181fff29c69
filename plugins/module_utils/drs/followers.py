# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs follow which VM, so that affinity rules hold and each VM can still migrate?

DRS keeps all VMs of affinity rules that share VMs on one host. With terms that require each other, no VM could leave
the node first. So one VM of each such group has no term, and the others follow it.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..model.findings import InputError
from .export import DrsRule, SourceVm


@dataclass(frozen=True, slots=True)
class FollowedRule:
    """The VMs of one affinity rule that follow `leader` by it."""

    leader: SourceVm
    followers: tuple[SourceVm, ...]


Members = t.Mapping[str, tuple[SourceVm, ...]]
"""By the place of a rule in the export: its VMs that are on the cluster, at least two."""


def follow(
    rules: t.Sequence[DrsRule],
    members: Members,
    leaders: t.Sequence[str],
    faults: list[InputError],
) -> dict[str, FollowedRule]:
    """By the place of each affinity rule. A cycle of rules, and two leaders in one group, are faults."""
    groups = _groups(rules, members, faults)
    followed: dict[str, FollowedRule] = {}
    for group in groups:
        leader = _leader(group, members, leaders, faults)
        placed = {leader.key}
        ahead = list(group)
        while ahead:
            rule = next(x for x in ahead if any(vm.key in placed for vm in members[x.where]))
            ahead.remove(rule)
            followers = tuple(vm for vm in members[rule.where] if vm.key not in placed)
            placed |= {vm.key for vm in followers}
            followed[rule.where] = FollowedRule(leader, followers)
    return followed


def follow_at_rest(
    rule: DrsRule,
    members: Members,
    followed: t.Iterable[FollowedRule],
    leaders: t.Sequence[str],
) -> FollowedRule:
    """What a disabled rule becomes: its VMs follow the leader that one of them has by enabled rules already. It must
    not change what those become. No followers: enabled rules keep its VMs together anyway."""
    leader_of = {vm.key: x.leader for x in followed for vm in (x.leader, *x.followers)}
    vms = members[rule.where]
    leader = next((leader_of[vm.key] for vm in vms if vm.key in leader_of), None)
    if leader is None:
        leader = _leader([rule], members, leaders, [])
    return FollowedRule(leader, tuple(vm for vm in vms if leader_of.get(vm.key, vm) != leader))


def kept_together(rules: t.Sequence[DrsRule], members: Members) -> dict[str, int]:
    """By the key of a VM: the number of its group of VMs that affinity rules keep on one host."""
    group_of: dict[str, int] = {}
    for number, group in enumerate(_groups(rules, members, [])):
        group_of.update({vm.key: number for rule in group for vm in members[rule.where]})
    return group_of


def _groups(
    rules: t.Sequence[DrsRule], members: Members, faults: list[InputError]
) -> list[list[DrsRule]]:
    """Rules that share VMs, directly or through others, in the order of the export."""
    root: dict[str, str] = {}

    def find(key: str) -> str:
        while root.setdefault(key, key) != key:
            key = root[key]
        return key

    earlier: list[DrsRule] = []
    for rule in rules:
        roots = [find(vm.key) for vm in members[rule.where]]
        shared = [key for key, count in Counter(roots).items() if count > 1]
        if shared:
            faults.append(_cycle(rule, shared[0], earlier, members, find))
        for key in roots:
            root[find(key)] = find(roots[0])
        earlier.append(rule)
    groups: dict[str, list[DrsRule]] = defaultdict(list)
    for rule in rules:
        groups[find(members[rule.where][0].key)].append(rule)
    return list(groups.values())


def _cycle(
    rule: DrsRule,
    shared: str,
    earlier: t.Sequence[DrsRule],
    members: Members,
    find: t.Callable[[str], str],
) -> InputError:
    twice = [str(vm) for vm in members[rule.where] if find(vm.key) == shared]
    others = [x.name for x in earlier if find(members[x.where][0].key) == shared]
    return InputError(
        str(rule),
        f"its VMs {' and '.join(twice)} are kept together already by {', '.join(map(repr, others))}: a cycle of"
        f" affinity. It adds nothing to these rules: leave one of them out with skip_rules",
    )


def _leader(
    group: t.Sequence[DrsRule],
    members: Members,
    leaders: t.Sequence[str],
    faults: list[InputError],
) -> SourceVm:
    """The VM of the option `leaders`, else the VM that most rules of the group name, the first of them."""
    vms = [vm for rule in group for vm in members[rule.where]]
    named = {vm.key: vm for vm in vms if vm.name in leaders or vm.moref in leaders}
    if len(named) > 1:
        faults.append(
            InputError(
                "leaders",
                f"has {' and '.join(map(str, named.values()))}, which affinity rules keep together: name one of"
                " them",
            )
        )
    counts = Counter(vm.key for vm in vms)
    most = max(counts.values())
    return next(iter(named.values()), next(vm for vm in vms if counts[vm.key] == most))
