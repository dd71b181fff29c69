# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How was a rule declared that workloads carry?

The annotation of each of its workloads has type and options, with full label keys. A tenant can write it, so it is read
as the option `rules` is, and believed only where it compiles to the terms that the annotation names beside it.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.kinds import RULE_KINDS, VIRTUAL_MACHINE
from ..model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    RawTerms,
    Rule,
    RuleId,
    RunOn,
    Spread,
    Target,
    WorkloadSelector,
)
from ..model.snapshot import Snapshot, Workload
from ..model.topology import Topology
from ..view.view import view_of
from .compile import compile_rule
from .members import GroupSelectorBuilder, resolve
from .ownership import MOST_DECLARED, Fingerprint, LabelsOfRule, canonical_json
from .ownership_index import OwnershipIndex
from .parse import read_rules
from .rules_request import RulesRequest

Declaration = dict[str, JSON]

_FULL_KEYS = Topology({})


def stored_options(rule: Rule) -> str | None:
    """Type and options of a rule as an annotation has them; None where they are too long for it."""
    text = canonical_json(options_of(rule, _FULL_KEYS))
    return text if len(text) <= MOST_DECLARED else None


def options_of(rule: Rule, topology: Topology) -> Declaration:
    """Type, preference and label of a rule, as the option `rules` takes them."""
    options: Declaration = {}
    if rule.rule_type is not None:
        options[rule.type_name] = _type_options(rule, topology)
    if rule.preferred:
        options["preferred"] = True
        if rule.weight != 100:
            options["weight"] = rule.weight
    if rule.label is not None:
        options["label"] = dict([rule.label])
    return options


def _type_options(rule: Rule, topology: Topology) -> JSON:
    rule_type, namespace = rule.rule_type, rule.id.namespace
    if isinstance(rule_type, RawTerms):
        return rule_type.fields
    if isinstance(rule_type, (RunOn, Avoid)):
        return {
            topology.name_of(key): values[0] if len(values) == 1 else list(values)
            for key, values in rule_type.nodes
        }
    more: Declaration = {}
    if isinstance(rule_type, KeepApart):
        more = _targets(rule_type.targets, "from", namespace)
    elif isinstance(rule_type, KeepTogether) and rule_type.target is not None:
        more = _targets([rule_type.target], "with", namespace)
    elif isinstance(rule_type, Spread) and rule_type.max_skew != 1:
        more = {"max_skew": rule_type.max_skew}
    key = topology.name_of(t.cast("KeepApart | KeepTogether | Spread", rule_type).topology_key)
    return {"topology_key": key, **more} if more else key


def _targets(targets: t.Iterable[Target], option: str, namespace: str) -> Declaration:
    """The targets by their options, in their order: workloads, then pods."""
    options: dict[str, list[JSON]] = {}
    for target in targets:
        if isinstance(target, PodSelector):
            own = target.namespaces == (namespace,)
            where = {} if own else {"namespaces": list(target.namespaces)}
            options.setdefault("pods", []).append({"labels": dict(target.labels), **where})
            continue
        other: Declaration = (
            {} if target.namespace == namespace else {"namespace": target.namespace}
        )
        selector = {**_kind(target.kind), **other, **_chosen(target.names, target.labels)}
        # VMs that are given by name become the first target.
        first = option not in options
        plain = first and {*selector} == {"names"} and len(target.names) == 1
        options.setdefault(option, []).append(target.names[0] if plain else selector)
    return {name: values[0] if len(values) == 1 else values for name, values in options.items()}


def _chosen(names: t.Sequence[str], labels: t.Mapping[str, str] | None) -> Declaration:
    return {"names": list(names)} if labels is None else {"labels": dict(labels)}


def _kind(kind: str) -> Declaration:
    return {} if kind == VIRTUAL_MACHINE.name else {"kind": kind}


def _label_keys(options: Declaration) -> t.Iterator[str]:
    """The label keys of stored options: a key without a prefix is no name of a topology key there."""
    for value in options.values():
        if isinstance(value, dict):
            yield from (key for key in (*value, value.get("topology_key")) if isinstance(key, str))
        elif isinstance(value, str):
            yield value


class DeclarationReader:
    """Reads rules of one snapshot."""

    def __init__(self, snapshot: Snapshot, topology: Topology) -> None:
        self._view = view_of(snapshot)
        self._topology = topology
        self._ownerships = OwnershipIndex.of(self._view)
        self._selectors = GroupSelectorBuilder(self._view, self._ownerships.ownership)
        self.carriers: dict[RuleId, list[Workload]] = {}
        """The workloads that carry each rule."""
        for ref, ownership in sorted(self._ownerships.owned.items()):
            workload = self._view.snapshot.workloads_by_ref[ref]
            known = ref.kind in RULE_KINDS and ownership.uid == workload.uid
            for rule in ownership.rules if known else ():
                if rule.namespace == ref.namespace:
                    self.carriers.setdefault(rule, []).append(workload)

    def declaration(self, rule: RuleId) -> Declaration | None:
        """The rule as the module `rules` takes it. None where its workloads disagree, as after an interrupted change,
        or where their terms are not those that the stored options compile to."""
        parsed = self._parsed(rule)
        if parsed is None or (parsed.enabled and not self._is_exact(parsed)):
            return None
        return {
            "name": rule.name,
            "workloads": self._references(rule),
            **options_of(parsed, self._topology),
            **({} if parsed.enabled else {"enabled": False}),
        }

    def type_name(self, rule: RuleId) -> str | None:
        """The type of a rule that workloads carry; None where they do not have one valid one."""
        for workload in self.carriers.get(rule, ()):
            if resting := self._ownerships.owned[workload.ref].resting.get(rule):
                return resting
        parsed = self._parsed(rule)
        return parsed.type_name if parsed is not None else None

    def _members(self, rule: RuleId) -> list[Workload]:
        """The carriers that the rule is about: they have its options, others get a label of it."""
        owned = self._ownerships.owned
        return [x for x in self.carriers.get(rule, ()) if rule in owned[x.ref].declared]

    def _parsed(self, rule: RuleId) -> Rule | None:
        """The rule by the options that all of its workloads have."""
        owned, members = self._ownerships.owned, self._members(rule)
        stored = {(owned[x.ref].declared[rule], rule not in owned[x.ref].resting) for x in members}
        if len(stored) != 1:
            return None
        ((text, enabled),) = stored
        content = json.loads(text)
        options: Declaration = {
            **content,
            "name": rule.name,
            "workloads": self._references(rule),
            "enabled": enabled,
        }
        parsed = read_rules(
            [options],
            namespace=rule.namespace,
            rule_set=rule.rule_set,
            topology=Topology({key: key for key in _label_keys(content)}),
        )
        return parsed.rules[0] if parsed.rules and not parsed.faults else None

    def _references(self, rule: RuleId) -> list[JSON]:
        """The workloads of the rule, by labels where these chose them."""
        groups: dict[tuple[str, LabelsOfRule | None], list[str]] = {}
        for workload in self._members(rule):
            labels = self._ownerships.owned[workload.ref].chosen.get(rule)
            groups.setdefault((workload.ref.kind, labels), []).append(workload.ref.name)
        references: list[JSON] = []
        for (kind, labels), names in groups.items():
            if labels is None and kind == VIRTUAL_MACHINE.name:
                references += names
            else:
                chosen = None if labels is None else dict(labels)
                references.append({**_kind(kind), **_chosen(names, chosen)})
        return references

    def _is_exact(self, rule: Rule) -> bool:
        """Whether it compiles to the terms that its workloads carry."""
        faults: list[InputError] = []
        compiled = compile_rule(resolve(rule, self._view, faults), self._selectors)
        owned = self._ownerships.owned
        return not faults and all(
            {x.effect for x in owned[workload.ref].rules[rule.id]}
            == {
                Fingerprint.of(term.location, term.value).effect
                for term in compiled.terms.get(workload.ref, ())
            }
            for workload in self.carriers[rule.id]
        )


def with_carriers(
    request: RulesRequest, snapshot: Snapshot, faults: list[InputError]
) -> tuple[RulesRequest, t.Mapping[RuleId, str]]:
    """The request in which rules that rest, and are named alone, have the workloads that carry them, and the types of
    these rules. One that no workload carries is a fault."""
    alone = [rule for rule in request.rules if rule.is_named_alone]
    if request.state != "present" or not alone:
        return request, {}
    reader = DeclarationReader(snapshot, Topology.of())
    named: dict[RuleId, Rule] = {}
    types: dict[RuleId, str] = {}
    for rule in alone:
        by_kind: dict[str, list[str]] = {}
        for workload in reader.carriers.get(rule.id, ()):
            by_kind.setdefault(workload.ref.kind, []).append(workload.ref.name)
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
    known = [x.name for x in reader.carriers if (x.namespace, x.rule_set) == ours]
    return InputError(
        rule.where,
        f"no workload of namespace {rule.id.namespace!r} has this rule of rule set"
        f" {rule.id.rule_set!r}. A rule that is new and rests needs its type and workloads"
        f"{nearest(rule.id.name, known)}",
    )
