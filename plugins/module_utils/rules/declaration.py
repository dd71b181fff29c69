# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How would a rule that workloads carry be written in the option `rules`?

The annotation of a workload has fingerprints of terms, and not the rule as it was declared. So declarations that could
be meant are made from the terms, the shortest first, and the first of them that compiles to exactly these terms, on
exactly these workloads, is the answer. A rule may be declared otherwise than it was, as by names where it was by
labels: written to the cluster as it is, it changes nothing.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import VM_HOSTNAME, VMI_ID, hostname, vmi_id
from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.kinds import GROUP, RULE_KINDS, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.rule import RuleId
from ..model.snapshot import Snapshot, Workload
from ..model.topology import Topology
from ..view.view import ClusterView
from .compile import compile_rule
from .members import GroupSelectorBuilder, own_selector, resolve
from .ownership import Fingerprint, Ownership
from .ownership_index import OwnershipIndex
from .parse import read_rules
from .term_slots import (
    IN_NODE_TERM,
    LISTS,
    MAPS,
    NODE_TERMS,
    POD_TERMS,
    WEIGHTED_POD_TERMS,
    TermLocation,
    terms_of,
)

Declaration = dict[str, JSON]
Effects = frozenset[tuple[TermLocation, str]]

_NODE_RULES = {"In": "run_on", "NotIn": "avoid"}
_POD_RULES = {
    TermLocation.ANTI_AFFINITY: "keep_apart",
    TermLocation.PREFERRED_ANTI_AFFINITY: "keep_apart",
    TermLocation.AFFINITY: "keep_together",
    TermLocation.PREFERRED_AFFINITY: "keep_together",
}
_TRIES = 16
"""Declarations that are tried for one rule; each is compiled."""


@dataclass(frozen=True)
class _Carried:
    """A rule as its workloads carry it. `effects`: of all its terms and labels, by workload. `terms`: those of a
    workload that has some, without labels. `labels`: what it puts on workloads."""

    rule: RuleId
    members: tuple[Workload, ...]
    effects: t.Mapping[Ref, Effects]
    terms: tuple[tuple[TermLocation, JSON], ...]
    labels: tuple[tuple[str, str], ...]

    @property
    def locations(self) -> frozenset[TermLocation]:
        return frozenset(location for location, _value in self.terms)


class DeclarationReader:
    """Reads rules of one snapshot."""

    def __init__(self, snapshot: Snapshot, topology: Topology) -> None:
        self._view = ClusterView(snapshot)
        self._topology = topology
        self._ownerships = OwnershipIndex.of(self._view)
        self._selectors = GroupSelectorBuilder(self._view, self._ownerships.ownership)
        self._by_namespace: dict[str, list[Workload]] = {}
        for ref, workload in sorted(self._view.workloads.items()):
            if ref.kind in RULE_KINDS:
                self._by_namespace.setdefault(ref.namespace, []).append(workload)
        self._carriers: dict[RuleId, list[Workload]] = {}
        for ref, ownership in sorted(self._ownerships.owned.items()):
            workload = self._view.workloads[ref]
            for rule in ownership.rules if ownership.uid == workload.uid else ():
                if rule.namespace == ref.namespace:
                    self._carriers.setdefault(rule, []).append(workload)

    def declaration(self, rule: RuleId) -> Declaration | None:
        """The rule as the module `rules` takes it. None where no declaration is exact: terms of it were removed, it
        rests, its workloads have different terms, or an option that leaves no trace is needed."""
        carriers = self._carriers.get(rule, ())
        owned = self._ownerships.owned
        if not carriers or any(rule in owned[workload.ref].resting for workload in carriers):
            return None
        carried = _carried(rule, carriers, owned)
        tries = itertools.islice(self._candidates(carried), _TRIES)
        return next((made for made in tries if self._is_exact(made, carried)), None)

    def type_name(self, rule: RuleId) -> str:
        """The type of a rule that workloads carry: as it was written where the rule rests, else by its terms."""
        carriers, owned = self._carriers[rule], self._ownerships.owned
        kept = (owned[workload.ref].resting.get(rule) for workload in carriers)
        if resting := next(filter(None, kept), ""):
            return resting
        carried = _carried(rule, carriers, owned)
        return next(iter(next(self._types(carried))), "label")

    @property
    def rules(self) -> t.Collection[RuleId]:
        """The rules that workloads carry."""
        return self._carriers.keys()

    def carriers(self, rule: RuleId) -> tuple[Ref, ...]:
        """The workloads that carry a rule."""
        return tuple(workload.ref for workload in self._carriers.get(rule, ()))

    def _candidates(self, carried: _Carried) -> t.Iterator[Declaration]:
        label = {"label": dict(carried.labels)} if carried.labels else {}
        labels = [{}, label] if label else [{}]
        for type_options in self._types(carried):
            for workloads in _references(carried.members, carried.terms):
                for more in labels:
                    if type_options or more:
                        named = {"name": carried.rule.name, "workloads": workloads}
                        yield {**named, **type_options, **more}

    def _types(self, carried: _Carried) -> t.Iterator[Declaration]:
        """The options of the rule type, with those about preference."""
        locations, values = carried.locations, [value for _location, value in carried.terms]
        if not carried.terms:
            yield {}
            return
        if len(locations) == 1:
            (location,) = locations
            if location is TermLocation.NODE_EXPRESSION:
                yield from self._node_rule(values)
            elif location is TermLocation.PREFERRED_NODE and len(values) == 1:
                expressions = values[0]["preference"].get("matchExpressions") or []
                preferred = _preferred(values[0]["weight"])
                yield from ({**made, **preferred} for made in self._node_rule(expressions))
            elif location in POD_TERMS:
                yield from self._pod_rule(_POD_RULES[location], values, carried)
            elif location in WEIGHTED_POD_TERMS and len({value["weight"] for value in values}) == 1:
                inner = [value["podAffinityTerm"] for value in values]
                preferred = _preferred(values[0]["weight"])
                rules = self._pod_rule(_POD_RULES[location], inner, carried)
                yield from ({**made, **preferred} for made in rules)
            elif location is TermLocation.SPREAD and len(values) == 1:
                yield self._spread(values[0])
        yield {"terms": _as_fields(carried.terms)}

    def _node_rule(self, expressions: t.Sequence[JSON]) -> t.Iterator[Declaration]:
        operators = {expression["operator"] for expression in expressions}
        name = _NODE_RULES.get(operators.pop()) if len(operators) == 1 else None
        if name and all(x.get("values") for x in expressions):
            yield {
                name: {
                    self._topology.name_of(x["key"]): x["values"][0]
                    if len(x["values"]) == 1
                    else x["values"]
                    for x in expressions
                }
            }

    def _pod_rule(
        self, name: str, terms: t.Sequence[JSON], carried: _Carried
    ) -> t.Iterator[Declaration]:
        keys = {term["topologyKey"] for term in terms}
        if len(keys) > 1:
            return
        key = self._topology.name_of(keys.pop())
        yield {name: key}
        if name == "keep_together":
            if len(terms) == 1:
                for option, target in self._targets(terms[0], carried, "with"):
                    yield {name: {"topology_key": key, option: target}}
            return
        for targets in itertools.product(*(self._targets(x, carried, "from") for x in terms)):
            options: dict[str, list[JSON]] = {}
            for option, target in targets:
                options.setdefault(option, []).append(target)
            flat = {
                option: values[0] if len(values) == 1 else values
                for option, values in options.items()
            }
            yield {name: {"topology_key": key, **flat}}

    def _spread(self, value: JSON) -> Declaration:
        key = self._topology.name_of(value["topologyKey"])
        skew = value["maxSkew"]
        preferred = value["whenUnsatisfiable"] == "ScheduleAnyway"
        return {
            "spread": key if skew == 1 else {"topology_key": key, "max_skew": skew},
            **({"preferred": True} if preferred else {}),
        }

    def _targets(self, term: JSON, carried: _Carried, option: str) -> list[tuple[str, JSON]]:
        """What a term about pods may be about, as the option of workloads or that of pods."""
        namespaces = term.get("namespaces") or [carried.rule.namespace]
        expressions = (term.get("labelSelector") or {}).get("matchExpressions") or []
        if len(namespaces) > 1 or not expressions:
            return []
        namespace = namespaces[0]
        there = self._by_namespace.get(namespace, ())
        chosen = [workload for workload in there if _is_selected(workload, expressions)]
        own = namespace == carried.rule.namespace
        where: Declaration = {} if own else {"namespace": namespace}
        targets: list[tuple[str, JSON]] = []
        for kind in dict.fromkeys(workload.ref.kind for workload in chosen):
            names = [workload.ref.name for workload in chosen if workload.ref.kind == kind]
            if kind == VIRTUAL_MACHINE.name and own and len(names) == 1:
                targets.append((option, names[0]))
            else:
                targets.append((option, {**_kind(kind), **where, "names": names}))
        labels = _plain_labels(expressions)
        if labels:
            alike = [x.ref.kind for x in there if labels.items() <= x.template_labels.items()]
            for kind in dict.fromkeys(alike):
                targets.append((option, {**_kind(kind), **where, "labels": labels}))
            pods = {"labels": labels} if own else {"labels": labels, "namespaces": [namespace]}
            targets.append(("pods", pods))
        return targets

    def _is_exact(self, declaration: Declaration, carried: _Carried) -> bool:
        faults: list[InputError] = []
        rule = carried.rule
        parsed = read_rules(
            [declaration],
            namespace=rule.namespace,
            rule_set=rule.rule_set,
            topology=self._topology,
        )
        if parsed.faults or not parsed.rules:
            return False
        resolved = resolve(parsed.rules[0], self._view, faults)
        compiled = compile_rule(resolved, self._selectors)
        effects = {
            ref: frozenset(Fingerprint.of(term.location, term.value).effect for term in terms)
            for ref, terms in compiled.terms.items()
            if ref.namespace == rule.namespace  # others get a label of it at most
        }
        return not faults and effects == carried.effects


def _carried(
    rule: RuleId, carriers: t.Sequence[Workload], owned: t.Mapping[Ref, Ownership]
) -> _Carried:
    effects = {
        workload.ref: frozenset(x.effect for x in owned[workload.ref].rules[rule])
        for workload in carriers
    }
    members = [
        workload
        for workload in carriers
        if any(location is not TermLocation.LABEL for location, _text in effects[workload.ref])
    ]
    members = members or list(carriers)
    template, ours = members[0].template, effects[members[0].ref]
    nodes = [(TermLocation.NODE_TERM, term) for term in NODE_TERMS.read(template, None) or ()]
    present = {
        Fingerprint.of(location, value).effect: (location, value)
        for location, value in (*terms_of(template), *nodes)
    }
    labels = MAPS[TermLocation.LABEL].read(template, None) or {}
    return _Carried(
        rule,
        tuple(members),
        effects,
        tuple(term for effect, term in present.items() if effect in ours),
        tuple(
            (key, value)
            for key, value in sorted(labels.items())
            if not key.startswith(GROUP)
            and Fingerprint.of(TermLocation.LABEL, {"key": key, "value": value}).effect in ours
        ),
    )


def _references(
    members: t.Sequence[Workload], terms: t.Iterable[tuple[TermLocation, JSON]]
) -> t.Iterator[list[JSON]]:
    """The workloads by name, and by the labels that a term of the group selects."""
    by_kind: dict[str, list[str]] = {}
    for workload in members:
        by_kind.setdefault(workload.ref.kind, []).append(workload.ref.name)
    names: list[JSON] = []
    for kind, listed in by_kind.items():
        if kind == VIRTUAL_MACHINE.name:
            names += listed
        else:
            names.append({"kind": kind, "names": listed})
    yield names
    for _location, value in terms:
        term = value.get("podAffinityTerm", value)
        selector = term.get("labelSelector") or {}
        if labels := _plain_labels(selector.get("matchExpressions") or []):
            yield [{**_kind(kind), "labels": labels} for kind in by_kind]
            return


def _is_selected(workload: Workload, expressions: t.Sequence[JSON]) -> bool:
    """Whether a selector of ours was made for the workload."""
    if tuple(expressions) == own_selector(workload):
        return True
    (first, *more) = expressions
    if more:
        return False
    values = first.get("values") or ()
    if workload.ref.kind == VIRTUAL_MACHINE.name and first["key"] in (VMI_ID, VM_HOSTNAME):
        made = vmi_id(workload.ref.name) if first["key"] == VMI_ID else hostname(workload)
        return made in values
    return first["key"].startswith(GROUP) and first["key"] in workload.template_labels


def _plain_labels(expressions: t.Sequence[JSON]) -> dict[str, str]:
    """The labels of a selector that asks for one value of each; none for another one, or for names of ours."""
    plain = all(
        x["operator"] == "In"
        and len(x.get("values") or ()) == 1
        and x["key"] not in (VMI_ID, VM_HOSTNAME)
        and not x["key"].startswith(GROUP)
        for x in expressions
    )
    return {x["key"]: x["values"][0] for x in expressions} if plain else {}


def _kind(kind: str) -> Declaration:
    return {} if kind == VIRTUAL_MACHINE.name else {"kind": kind}


def _preferred(weight: int) -> Declaration:
    return {"preferred": True, **({"weight": weight} if weight != 100 else {})}


def _as_fields(terms: t.Iterable[tuple[TermLocation, JSON]]) -> dict[str, JSON]:
    """The terms as placement fields of a pod."""
    fields: dict[str, JSON] = {}
    expressions: dict[TermLocation, list[JSON]] = {}
    for location, value in terms:
        if location is TermLocation.NODE_SELECTOR:
            fields.setdefault("nodeSelector", {})[value["key"]] = value["value"]
        elif location is TermLocation.NODE_TERM:
            _list_at(fields, NODE_TERMS.parts[1:]).append(value)
        elif location in LISTS:
            _list_at(fields, LISTS[location].parts[1:]).append(value)
        else:
            expressions.setdefault(location, []).append(value)
    if expressions:
        term = {IN_NODE_TERM[location]: listed for location, listed in expressions.items()}
        _list_at(fields, NODE_TERMS.parts[1:]).append(term)
    return fields


def _list_at(fields: dict[str, JSON], parts: t.Sequence[str]) -> list[JSON]:
    here: JSON = fields
    for part in parts[:-1]:
        here = here.setdefault(part, {})
    return t.cast("list[JSON]", here.setdefault(parts[-1], []))
