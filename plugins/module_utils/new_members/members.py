# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do the rules of a set write to objects that are created later?

Rules are compiled for stand-ins: workloads with the names that no workload has yet, and with the labels by which rules
choose. They are compiled twice: with one stand-in for each choice by labels, and with two of other names. What depends
on the name, the selector or the number of such workloads differs, and no policy can write it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kinds.kind import Kind
from ..kinds.registry import KINDS
from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.kinds import PREFIX
from ..model.objects import Labels, Ref, is_object_name
from ..model.obstacle import NOT_COVERED, Obstacle
from ..model.rule import PodSelector, Rule, RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, Workload
from ..rules.compile import Compiled, compile_rule
from ..rules.members import GroupSelectorBuilder, resolve, targets_of
from ..rules.ownership import OwnedRule
from ..rules.ownership_index import OwnershipIndex
from ..rules.stored_rules import stored_options
from ..rules.term_slots import TemplateTerm
from ..view.view import view_of

Terms = tuple[TemplateTerm, ...]


@dataclass(frozen=True)
class NewMember:
    """The objects of a kind that a rule chooses, by `names`, or by the `labels` of their templates. Each of them gets
    the `terms`, and its annotation `stored` beside their fingerprints. `allowed` are the findings that the rule
    allows."""

    rule: RuleId
    kind: Kind
    terms: Terms
    stored: OwnedRule
    names: tuple[str, ...] = ()
    labels: Labels | None = None
    allowed: frozenset[str] = frozenset()


class NewMembers(t.NamedTuple):
    """`members` of the rules that a policy can write; of each other rule, why it cannot."""

    members: tuple[NewMember, ...]
    not_covered: t.Mapping[RuleId, Obstacle]


def new_members(rules: t.Sequence[Rule], snapshot: Snapshot) -> NewMembers:
    """What the rules write to new objects of their own namespace. Rules that name their workloads by name alone, and
    rest, have no new ones."""
    named = [rule for rule in rules if not rule.everywhere]
    references = {rule.id: _references(rule) for rule in named}
    few, more = (
        _terms(named, references, snapshot, stand_ins) for stand_ins in (("1",), ("2", "3"))
    )
    members: list[NewMember] = []
    not_covered: dict[RuleId, Obstacle] = {}
    for rule in named:
        if few[rule.id] is None or few[rule.id] != more[rule.id]:
            not_covered[rule.id] = _not_covered(rule)
            continue
        members += _members(rule, few[rule.id] or [])
    return NewMembers(tuple(members), not_covered)


def stand_ins_of_names(rules: t.Iterable[Rule], snapshot: Snapshot) -> tuple[Workload, ...]:
    """Stand-ins of the workloads that the rules name, and that do not exist, but can."""
    named = (x.selector for rule in rules for x in _references(rule) if x.selector.labels is None)
    names = {(selector.kind, name): selector for selector in named for name in selector.names}
    stand_ins = (
        stand_in(selector, name, {})
        for (_kind, name), selector in names.items()
        if is_object_name(name)
    )
    return tuple(x for x in stand_ins if x.ref not in snapshot.workloads_by_ref)


def _not_covered(rule: Rule) -> Obstacle:
    return Obstacle(
        NOT_COVERED,
        f"rule {rule.id.name} writes terms that depend on the names, selectors or number of its workloads",
        advice="Choose all of its workloads by the same labels, or set its option label.",
    )


class _Reference(t.NamedTuple):
    """Workloads that a rule names. `is_target`: beside its own."""

    selector: WorkloadSelector
    is_target: bool


def _references(rule: Rule) -> list[_Reference]:
    """What names the workload counts before labels that choose it, and both before a target."""
    own = rule.id.namespace
    workloads = [_Reference(x, False) for x in rule.workloads if x.namespace == own]
    targets = [
        _Reference(target, True)
        for _option, target in targets_of(rule)
        if not isinstance(target, PodSelector) and target.namespace == own
    ]
    return [*sorted(workloads, key=lambda x: x.selector.labels is not None), *targets]


TermsOfNames = list[tuple[_Reference, t.Mapping[str, Terms]]]
"""The terms of the workloads of each reference, by name; those of a choice by labels have the name ""."""


def _terms(
    rules: t.Sequence[Rule],
    references: t.Mapping[RuleId, t.Sequence[_Reference]],
    snapshot: Snapshot,
    stand_ins: t.Sequence[str],
) -> dict[RuleId, TermsOfNames | None]:
    """The terms of each rule, with this many stand-ins for each choice by labels. None where stand-ins of one choice
    get different terms, or workloads that the rule names cannot be read."""
    named = [x.selector for listed in references.values() for x in listed]
    workloads, present = [*snapshot.workloads], {*snapshot.workloads_by_ref}
    for workload in (x for selector in named for x in _stand_ins(selector, stand_ins)):
        if workload.ref not in present:
            present.add(workload.ref)
            workloads.append(workload)
    view = view_of(replace(snapshot, workloads=tuple(workloads)))
    selectors = GroupSelectorBuilder(view, OwnershipIndex.of(view).ownership)
    terms: dict[RuleId, TermsOfNames | None] = {}
    for rule in rules:
        faults: list[InputError] = []
        compiled = compile_rule(resolve(rule, view, faults), selectors)
        found = [_of_reference(x, compiled.terms, stand_ins) for x in references[rule.id]]
        unknown = faults or None in found or _selects_by_own(compiled, references[rule.id])
        terms[rule.id] = None if unknown else t.cast(TermsOfNames, found)
    return terms


def _selects_by_own(compiled: Compiled, references: t.Iterable[_Reference]) -> bool:
    """Whether a selector of a term is made of those of workloads, or a label of ours stands for them: such a workload
    does not exist yet, or may be created again with another selector."""
    rule = compiled.rule
    by_labels = [
        [{"key": key, "operator": "In", "values": [x]} for key, x in sorted(labels.items())]
        for labels in (reference.selector.labels for reference in references)
        if labels is not None
    ]
    return any(
        list(selection.expressions) not in by_labels
        for selection in compiled.selections
        if rule.label is None or selection.label != rule.label
        if any(member.kind.selected for member in selection.members)
    )


def _of_reference(
    reference: _Reference, terms: t.Mapping[Ref, Terms], stand_ins: t.Sequence[str]
) -> tuple[_Reference, dict[str, Terms]] | None:
    selector = reference.selector
    if selector.labels is None:
        refs = (Ref(selector.kind, selector.namespace, name) for name in selector.names)
        return reference, {ref.name: terms[ref] for ref in refs if ref in terms}
    of_stand_ins = [terms.get(x.ref) for x in _stand_ins(selector, stand_ins)]
    if any(x != of_stand_ins[0] for x in of_stand_ins):
        return None
    return reference, {} if of_stand_ins[0] is None else {"": of_stand_ins[0]}


def _stand_ins(selector: WorkloadSelector, names: t.Sequence[str]) -> list[Workload]:
    """Workloads of the names, or as many with the labels as there are `names`."""
    if selector.labels is None:
        return [stand_in(selector, name, {}) for name in selector.names]
    labels = dict(selector.labels)
    # No object can have such a name.
    label = " ".join(("stand-in", *(f"{key}={x}" for key, x in sorted(labels.items()))))
    return [stand_in(selector, f"{label} {name}", labels) for name in names]


def stand_in(selector: WorkloadSelector, name: str, labels: dict[str, str]) -> Workload:
    """A workload with a selector of its own."""
    kind = KINDS[selector.kind]
    own = {f"{PREFIX}stand-in": name} if kind.selected else {}
    manifest: JSON = {"metadata": {"labels": {**labels, **own}}, "spec": {}}
    for part in reversed(kind.template):
        manifest = {part: manifest}
    if kind.selected:
        manifest["spec"]["selector"] = {"matchLabels": own}
    ref = Ref(kind.name, selector.namespace, name)
    metadata = {"name": name, "namespace": selector.namespace, "uid": f"stand-in-{name}"}
    return Workload(ref, f"stand-in-{kind.name}-{name}", {**manifest, "metadata": metadata})


def _members(rule: Rule, terms: TermsOfNames) -> t.Iterator[NewMember]:
    """The new members of one rule: names with the same terms are together. A target has labels of the rule alone."""
    names: dict[str, tuple[NewMember, list[str]]] = {}
    for (selector, is_target), terms_by_name in terms:
        stored = OwnedRule()
        if not is_target:
            chosen = tuple(sorted((selector.labels or {}).items()))
            stored = OwnedRule((), stored_options(rule), rule.enabled, chosen)
        for name, written in terms_by_name.items():
            member = NewMember(
                rule.id,
                KINDS[selector.kind],
                written,
                stored,
                labels=selector.labels,
                allowed=rule.allow_findings,
            )
            names.setdefault(str(member), (member, []))[1].append(name)
    for member, alike in names.values():
        yield replace(member, names=tuple(alike) if member.labels is None else ())
