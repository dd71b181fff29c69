# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules of an export can no placement satisfy together? Only those that are enabled and required."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.rendering import listed
from .export import DrsRule, DrsRuleKind, SourceVm
from .followers import Members, affinity_groups
from .host_groups import HostGroups

_MENDED = "or mend it in the source and export again"


@dataclass(frozen=True, slots=True)
class _Binding:
    """What one rule asks of the node of one VM: one of `nodes`, or none of them."""

    rule: DrsRule
    vm: SourceVm
    nodes: frozenset[str]
    is_on: bool

    def __str__(self) -> str:
        side = "on" if self.is_on else "off"
        return f"{self.rule.name!r} keeps {self.vm} {side} {listed(sorted(self.nodes))}"


def contradictions(
    rules: t.Sequence[DrsRule], members: Members, hosts: HostGroups
) -> t.Iterator[InputError]:
    """One error for each contradiction of these rules, which are enabled."""
    affinity = affinity_groups([x for x in rules if x.kind is DrsRuleKind.AFFINITY], members, [])
    group_of = {
        vm.key: number
        for number, group in enumerate(affinity)
        for rule in group
        for vm in members[rule.where]
    }
    for rule in rules:
        if rule.kind is DrsRuleKind.ANTI_AFFINITY:
            yield from _apart_and_together(rule, members[rule.where], group_of)
    bindings: dict[int | str, list[_Binding]] = defaultdict(list)
    for binding in _bindings(rules, members, hosts):
        bindings[group_of.get(binding.vm.key, binding.vm.key)].append(binding)
    for number, of_group in bindings.items():
        if _has_no_node(of_group, hosts.all_nodes):
            together = affinity[number] if isinstance(number, int) else []
            yield _without_node(_least(of_group, hosts.all_nodes), together)


def _apart_and_together(
    rule: DrsRule, vms: t.Iterable[SourceVm], group_of: t.Mapping[str, int]
) -> t.Iterator[InputError]:
    first: dict[int, SourceVm] = {}
    for vm in vms:
        number = group_of.get(vm.key)
        if number is None:
            continue
        if number in first:
            yield InputError(
                str(rule),
                f"keeps {first[number]} and {vm} apart, which affinity rules keep together: no placement"
                " satisfies both. Leave one of the rules out with skip_rules",
            )
        first.setdefault(number, vm)


def _bindings(
    rules: t.Iterable[DrsRule], members: Members, hosts: HostGroups
) -> t.Iterator[_Binding]:
    for rule in rules:
        if rule.kind is not DrsRuleKind.VM_HOST or not rule.mandatory:
            continue
        for group, is_on in ((rule.affine_host_group, True), (rule.anti_affine_host_group, False)):
            nodes = hosts.nodes(group) if group else None
            if nodes:
                for vm in members[rule.where]:
                    yield _Binding(rule, vm, nodes, is_on)


def _has_no_node(bindings: t.Iterable[_Binding], all_nodes: frozenset[str]) -> bool:
    """`all_nodes`: empty where they are not known."""
    on = [binding.nodes for binding in bindings if binding.is_on] or [all_nodes]
    off = [binding.nodes for binding in bindings if not binding.is_on]
    allowed = frozenset.intersection(*on)
    return bool(on[0]) and not allowed.difference(*off)


def _least(bindings: t.Sequence[_Binding], all_nodes: frozenset[str]) -> list[_Binding]:
    """The bindings without those that the contradiction does not need."""
    least = list(bindings)
    for binding in bindings:
        others = [x for x in least if x is not binding]
        if _has_no_node(others, all_nodes):
            least = others
    return least


def _without_node(bindings: t.Sequence[_Binding], affinity: t.Sequence[DrsRule]) -> InputError:
    first = bindings[0].rule
    vms = list(dict.fromkeys(str(binding.vm) for binding in bindings))
    others = [binding.rule for binding in bindings[1:]]
    kept = ""
    if len(vms) > 1:
        others += affinity
        kept = f"affinity keeps {listed(vms)} on one node, "
    names = list(dict.fromkeys(x.name for x in others if x is not first))
    together = f" together with rule {', rule '.join(map(repr, names))}" if names else ""
    advice = (
        "Leave one of these rules out with skip_rules" if names else "Leave it out with skip_rules"
    )
    return InputError(
        str(first),
        f"no node satisfies it{together}: {kept}{', '.join(map(str, bindings))}. {advice}, {_MENDED}",
    )
