# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a cluster of an export holds: no rule is lost or twice, and the rules of the result are valid."""

from __future__ import annotations

import typing as t
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.drs.convert import import_cluster
from ansible_collections.virt.placement.plugins.module_utils.drs.export import (
    DrsCluster,
    DrsRule,
    DrsRuleKind,
    SourceVm,
)
from ansible_collections.virt.placement.plugins.module_utils.drs.options import (
    ImportOptions,
    NodesOfGroup,
)
from ansible_collections.virt.placement.plugins.module_utils.drs.report import COLUMNS
from ansible_collections.virt.placement.plugins.module_utils.drs.vm_names import forklift_name
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InputError
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import is_subdomain

VMS = [SourceVm(name, f"vm-{index}") for index, name in enumerate("abcdefgh")]
GROUPS = ("left", "right", "free text: 50 %", "")
NAMESPACES = {vm.name: ("back" if vm.name in "gh" else "shop", vm.name) for vm in VMS}
OPTIONS = ImportOptions(
    namespace="shop",
    vm_names=NAMESPACES,
    host_groups={group: NodesOfGroup(nodes=("w1",)) for group in GROUPS[:3]},
)

members = st.lists(st.sampled_from(VMS), unique=True, max_size=4).map(tuple)
rules = st.builds(
    DrsRule,
    where=st.just(""),
    name=st.text(max_size=70) | st.sampled_from(["a b", "a-b"]),
    kind=st.sampled_from([*DrsRuleKind, None]),
    enabled=st.booleans(),
    mandatory=st.booleans(),
    vms=members,
    vm_group=st.sampled_from(GROUPS),
    affine_host_group=st.sampled_from(GROUPS),
    anti_affine_host_group=st.sampled_from(GROUPS),
)


@st.composite
def clusters(draw: st.DrawFn) -> DrsCluster:
    drawn = draw(st.lists(rules, max_size=8))
    placed = [_at(rule, f"rule[{index}]") for index, rule in enumerate(drawn)]
    return DrsCluster(
        "Production",
        "file",
        True,
        tuple(placed),
        {group: draw(members) for group in GROUPS[:3]},
        dict.fromkeys(GROUPS[:3], ("esx1",)),
    )


def _at(rule: DrsRule, where: str) -> DrsRule:
    fields: dict[str, t.Any] = {name: getattr(rule, name) for name in DrsRule.__slots__}
    return DrsRule(**{**fields, "where": where})


@settings(max_examples=50)
@given(clusters())
def test_each_rule_is_in_exactly_one_column_and_the_result_is_valid(cluster: DrsCluster) -> None:
    faults: list[InputError] = []
    imported = import_cluster(cluster, OPTIONS, faults)

    parts = [part for part in imported.parts if part.kind == "rule"]
    assert [part.where for part in parts] == [rule.where for rule in cluster.rules]
    assert {part.column for part in parts} <= set(COLUMNS)
    for part, rule in zip(parts, cluster.rules, strict=True):
        if rule.kind in (None, DrsRuleKind.DEPENDENCY):
            assert part.column == "no_counterpart"
        if not rule.enabled:  # it is in the rules and rests, or there is nothing to carry over
            assert part.column != "carried_over"
            assert all("rests" in text for text in part.became.split(", ") if ": " in text)
    if faults:  # a cycle of affinity, or a contradiction: nothing is returned
        return
    carried = [part for part in parts if not part.reason]
    made = [(name, rule["name"]) for name, of in imported.rules.items() for rule in of]
    assert len(made) == len(set(made))
    assert Counter(text for part in carried for text in names_in(part.became)) == Counter(
        f"{namespace}/{name}" for namespace, name in made
    )
    for namespace, of_namespace in imported.rules.items():
        parsed = read_rules(
            of_namespace, namespace=namespace, rule_set="drs", topology=Topology.of({})
        )
        assert parsed.faults == ()


@settings(max_examples=100)
@given(st.lists(st.tuples(members.filter(lambda vms: len(vms) > 1), st.booleans()), max_size=8))
def test_followers_are_on_one_node_as_in_the_export_also_once_rules_at_rest_are_enabled(
    drawn: list[tuple[tuple[SourceVm, ...], bool]],
) -> None:
    """And no VM follows itself through others, so that each group has a VM that can leave its node first."""
    together = DrsRuleKind.AFFINITY
    rules = [
        DrsRule(str(n), str(n), together, enabled, vms=vms)
        for n, (vms, enabled) in enumerate(drawn)
    ]
    faults: list[InputError] = []
    exported = {vm.name for rule in rules for vm in rule.vms}
    options = ImportOptions(
        vm_names={name: vm for name, vm in NAMESPACES.items() if name in exported}
    )
    imported = import_cluster(DrsCluster("", "file", True, tuple(rules)), options, faults)
    made = [rule for of in imported.rules.values() for rule in of]

    whole = [frozenset(vm.name for vm in vms) for vms, enabled in drawn if enabled]
    cycles = [n for n, vms in enumerate(whole) if any(vms <= x for x in _groups(whole[:n]))]
    assert len(faults) == len(cycles)
    assert all("a cycle of affinity" in fault.message for fault in faults)
    for at_rest in (False, True):
        edges = [
            (vm, _name(rule["keep_together"]["with"]))
            for rule in made
            if at_rest or rule.get("enabled", True)
            for vm in rule["workloads"]
        ]
        kept = [[vm.name for vm in vms] for vms, enabled in drawn if at_rest or enabled]
        assert _groups(edges) == _groups(kept)
        while edges:  # the followers that nothing follows
            leaders = {leader for _vm, leader in edges}
            rest = [edge for edge in edges if edge[0] in leaders]
            assert len(rest) < len(edges), edges
            edges = rest


def _name(target: str | dict[str, str]) -> str:
    return target if isinstance(target, str) else target["name"]


def _groups(sets: t.Iterable[t.Iterable[str]]) -> set[frozenset[str]]:
    groups: list[frozenset[str]] = []
    for vms in sets:
        joined = [group for group in groups if group & set(vms)]
        groups = [group for group in groups if group not in joined]
        groups.append(frozenset(vms).union(*joined))
    return set(groups)


def names_in(became: str) -> list[str]:
    """Each `namespace/rule` of `shop/one: keep_apart, back/one: keep_apart`."""
    return [text.partition(": ")[0] for text in became.split(", ")]


@settings(max_examples=100)
@given(st.text(max_size=90))
def test_name_that_forklift_gives_is_a_dns_name(name: str) -> None:
    renamed = forklift_name(name)
    assert renamed == "" or (len(renamed) <= 63 and is_subdomain(renamed))
    assert forklift_name(renamed) == renamed


def test_names_are_changed_as_forklift_changes_them() -> None:
    """The cases follow ChangeVmName of kubev2v/forklift (pkg/controller/plan/util)."""
    assert {
        name: forklift_name(name)
        for name in ("WEB_1", "db.Prod", "a + b*c", "-x-.-", "größe", "a__b", "...", "x" * 70)
    } == {
        "WEB_1": "web-1",
        "db.Prod": "db.prod",
        "a + b*c": "a-b-c",
        "-x-.-": "x",
        "größe": "gre",
        "a__b": "a-b",
        "...": "",
        "x" * 70: "x" * 63,
    }
