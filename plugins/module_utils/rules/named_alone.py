# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads and which type has a rule that is to rest, and that a request names alone?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import nearest
from ..model.rule import Rule, RuleId, WorkloadSelector
from ..model.topology import Topology
from ..view.view import ClusterView
from .declaration import DeclarationReader
from .rules_request import RulesRequest


def with_carriers(
    request: RulesRequest, view: ClusterView, faults: list[InputError]
) -> tuple[RulesRequest, t.Mapping[RuleId, str]]:
    """The request in which such rules have the workloads that carry them, and the types of these rules. One that no
    workload carries is a fault."""
    alone = [rule for rule in request.rules if rule.is_named_alone]
    if request.state != "present" or not alone:
        return request, {}
    reader = DeclarationReader(view.snapshot, Topology.of())
    named: dict[RuleId, Rule] = {}
    types: dict[RuleId, str] = {}
    for rule in alone:
        by_kind: dict[str, list[str]] = {}
        for ref in reader.carriers(rule.id):
            by_kind.setdefault(ref.kind, []).append(ref.name)
        if not by_kind:
            faults.append(_unknown(rule, reader))
            continue
        type_name = reader.type_name(rule.id)
        if type_name is None:
            faults.append(
                InputError(
                    rule.where,
                    "its workloads do not have its type, or not the same one: give the rule its type and workloads",
                )
            )
            continue
        types[rule.id] = type_name
        selectors = (
            WorkloadSelector(kind, rule.id.namespace, tuple(names))
            for kind, names in by_kind.items()
        )
        named[rule.id] = replace(rule, workloads=tuple(selectors), everywhere=False)
    rules = tuple(named.get(rule.id, rule) for rule in request.rules)
    return replace(request, rules=rules), types


def _unknown(rule: Rule, reader: DeclarationReader) -> InputError:
    ours = rule.id.namespace, rule.id.rule_set
    known = [x.name for x in reader.rules if (x.namespace, x.rule_set) == ours]
    return InputError(
        rule.where,
        f"no workload of namespace {rule.id.namespace!r} has this rule of rule set"
        f" {rule.id.rule_set!r}. A rule that is new and rests needs its type and workloads"
        f"{nearest(rule.id.name, known)}",
    )
