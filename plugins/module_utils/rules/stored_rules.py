# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How was a rule declared that workloads carry, or that a policy for new members has?

The annotation of each of its workloads has type and options, with full label keys. A tenant can write it, so it is read
as the option `rules` is. Nothing is concluded from terms.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.registry import DEFAULT_KIND
from ..model.findings import InputError
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    RawTerms,
    Rule,
    RuleId,
    RuleType,
    RunOn,
    Spread,
    Target,
    WorkloadSelector,
)
from ..model.snapshot import Snapshot, Unreadable
from ..model.topology import Topology
from .ownership import LabelsOfRule, OwnedRule
from .ownership_index import OwnershipIndex
from .parse import read_rules
from .rules_request import RulesRequest
from .term_slots import canonical_json

Declaration = dict[str, JSON]

_FULL_KEYS = Topology({})


def stored_options(rule: Rule) -> str:
    """Type and options of a rule as an annotation has them."""
    return canonical_json(options_of(rule, _FULL_KEYS))


def options_of(rule: Rule, topology: Topology) -> Declaration:
    """Type, preference and label of a rule, as the option `rules` takes them."""
    options: Declaration = {}
    if rule.rule_type is not None:
        options[rule.type_name] = _type_options(rule.rule_type, rule.id.namespace, topology)
    if rule.preferred:
        options["preferred"] = True
        if rule.weight != 100:
            options["weight"] = rule.weight
    if rule.label is not None:
        options["label"] = dict([rule.label])
    return options


def _type_options(rule_type: RuleType, namespace: str, topology: Topology) -> JSON:
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
    key = topology.name_of(rule_type.topology_key)
    return {"topology_key": key, **more} if more else key


def _targets(targets: t.Iterable[Target], option: str, namespace: str) -> Declaration:
    """The targets by their options, in their order: workloads, then pods."""
    options: dict[str, list[JSON]] = {}
    for target in targets:
        if isinstance(target, PodSelector):
            own = target.namespaces == (namespace,)
            where = {} if own else {"namespaces": list(target.namespaces)}
            options.setdefault("pods", []).append(
                {"labels": dict(sorted(target.labels.items())), **where}
            )
            continue
        other: Declaration = (
            {} if target.namespace == namespace else {"namespace": target.namespace}
        )
        selector = {**_kind(target.kind), **other, **target.chosen_by}
        # VMs that are given by name become the first target.
        first = option not in options
        plain = first and {*selector} == {"names"} and len(target.names) == 1
        options.setdefault(option, []).append(target.names[0] if plain else selector)
    return {name: values[0] if len(values) == 1 else values for name, values in options.items()}


def _kind(kind: str) -> Declaration:
    return {} if kind == DEFAULT_KIND else {"kind": kind}


def label_keys(options: Declaration) -> t.Iterator[str]:
    """The label keys of stored options: a key without a prefix is no name of a topology key there."""
    for value in options.values():
        if isinstance(value, dict):
            yield from (key for key in (*value, value.get("topology_key")) if isinstance(key, str))
        elif isinstance(value, str):
            yield value


def declared(rule: Rule, topology: Topology) -> Declaration | None:
    """A rule as the module `rules` takes it. None where that takes a key of it for another one: a key without a prefix
    may be the name of another key."""
    options = options_of(rule, _FULL_KEYS)
    keys = label_keys({k: x for k, x in options.items() if k not in ("label", "terms")})
    if any(topology.name_of(x) == x != topology.keys.get(x, x) for x in keys):
        return None
    more: Declaration = {} if rule.enabled else {"enabled": False}
    if rule.allow_findings:
        more["allow_findings"] = sorted(rule.allow_findings)
    beside: Declaration = {"name": rule.id.name, "workloads": _references(rule.workloads)}
    return {**beside, **options_of(rule, topology), **more}


@dataclass(frozen=True)
class Coverage:
    """What policies give to workloads that are created later. `how` says of a rule how these get it; `rules` are those
    of the policies, though no workload may have them; `unreadable` the policies whose rules cannot be read."""

    how: t.Callable[[RuleId], str]
    rules: t.Mapping[RuleId, Rule] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()


class StoredRules:
    """The rules that the workloads of a snapshot have as their members, and those that only policies have."""

    def __init__(
        self,
        ownerships: OwnershipIndex,
        snapshot: Snapshot,
        of_policies: t.Mapping[RuleId, Rule] | None = None,
    ) -> None:
        self.members: dict[RuleId, dict[Ref, OwnedRule]] = {}
        """What each workload of a rule has of it. Neither copies of a workload are among them, nor workloads that a
        rule only labels."""
        for ref, ownership in sorted(ownerships.owned.items()):
            if ownership.uid == snapshot.workloads_by_ref[ref].uid:
                for rule, owned in ownership.rules.items():
                    if owned.declared:
                        self.members.setdefault(rule, {})[ref] = owned
        self.of_policies = of_policies or {}
        self.without_workload = {
            rule: x for rule, x in self.of_policies.items() if rule not in self.members
        }
        """The rules of policies that no workload has."""

    def type_name(self, rule: RuleId) -> str | None:
        """The option of its type. None where its workloads have several types, as after an interrupted change."""
        if rule in self.without_workload:
            return self.without_workload[rule].type_name
        types = {owned.type_name for owned in self.members.get(rule, {}).values()}
        return types.pop() if len(types) == 1 else None

    def is_preferred(self, rule: RuleId) -> bool:
        """Whether the rule is preferred on one of its workloads, or in its policy."""
        if rule in self.without_workload:
            return self.without_workload[rule].preferred
        return any(x.options().get("preferred") for x in self.members.get(rule, {}).values())

    def rests_in_policy(self, rule: RuleId) -> bool:
        """Whether only a policy has the rule, with `enabled: false`."""
        return rule in self.without_workload and not self.without_workload[rule].enabled

    def declaration(self, rule: RuleId, topology: Topology) -> Declaration | None:
        """The rule as the module `rules` takes it, with the workloads that its policy chooses, unless it has other
        options there. None where neither workload nor policy has it, where its workloads have different options, as
        after an interrupted change, and where the module would refuse these options, or take a key of them for another
        one."""
        members = self.members.get(rule, {})
        stored = {(owned.declared, owned.enabled) for owned in members.values()}
        policy = self.of_policies.get(rule)
        if policy is not None and stored <= {(stored_options(policy), policy.enabled)}:
            others = {ref: x for ref, x in members.items() if not _has_chosen(policy, ref, x)}
            workloads = (*policy.workloads, *_selectors(others))
            return declared(replace(policy, workloads=workloads), topology)
        if len(stored) != 1:
            return None
        ((text, enabled),) = stored
        options: Declaration = json.loads(text)
        beside: Declaration = {"name": rule.name, "workloads": _references(_selectors(members))}
        parsed = read_rules(
            [{**options, **beside}],
            namespace=rule.namespace,
            rule_set=rule.rule_set,
            topology=Topology({key: key for key in label_keys(options)}),
        )
        if parsed.faults:
            return None
        return declared(replace(parsed.rules[0], enabled=enabled), topology)


def _has_chosen(rule: Rule, ref: Ref, owned: OwnedRule) -> bool:
    """Whether the rule names the workload, or has the labels by which that was chosen."""
    return any(
        ref.name in x.names if x.labels is None else tuple(sorted(x.labels.items())) == owned.chosen
        for x in rule.workloads
        if (x.kind, x.namespace) == (ref.kind, ref.namespace)
    )


def _selectors(members: t.Mapping[Ref, OwnedRule]) -> list[WorkloadSelector]:
    """The workloads of a rule, by labels where these chose them."""
    groups: dict[tuple[str, str, LabelsOfRule], list[str]] = {}
    for ref, owned in members.items():
        groups.setdefault((ref.kind, ref.namespace, owned.chosen), []).append(ref.name)
    return [
        WorkloadSelector(kind, namespace, tuple(names), dict(labels) or None)
        for (kind, namespace, labels), names in groups.items()
    ]


def _references(selectors: t.Iterable[WorkloadSelector]) -> list[JSON]:
    references: list[JSON] = []
    for x in selectors:
        if x.labels is None and x.kind == DEFAULT_KIND:
            references += x.names
        else:
            references.append({**_kind(x.kind), **x.chosen_by})
    return references


def with_members(
    request: RulesRequest, rules: StoredRules, faults: list[InputError]
) -> RulesRequest:
    """The request in which rules that are to rest, and are named alone, have the workloads that carry them. One that no
    workload carries is a fault."""
    if request.state != "present":
        return request
    named = list(request.rules)
    for number, rule in enumerate(request.rules):
        if rule.is_named_alone:
            by_kind: dict[str, list[str]] = {}
            for ref in rules.members.get(rule.id, ()):
                by_kind.setdefault(ref.kind, []).append(ref.name)
            of_policy = {*request.policies.covered, *request.policies.removed}
            if not by_kind and rule.id not in of_policy:
                faults.append(_unknown(rule, rules))
            selectors = (
                WorkloadSelector(kind, rule.id.namespace, tuple(names))
                for kind, names in by_kind.items()
            )
            named[number] = replace(rule, workloads=tuple(selectors))
    return replace(request, rules=tuple(named))


def _unknown(rule: Rule, rules: StoredRules) -> InputError:
    ours = rule.id.namespace, rule.id.rule_set
    known = [x.name for x in rules.members if (x.namespace, x.rule_set) == ours]
    return InputError(
        rule.where,
        f"no workload of namespace {rule.id.namespace!r} has this rule of rule set"
        f" {rule.id.rule_set!r}. A rule that is new and rests needs its type and workloads"
        f"{nearest(rule.id.name, known)}",
    )
