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
from ..model.kinds import PREFIX
from ..model.objects import Labels, Namespace, Ref, is_object_name
from ..model.obstacle import NOT_COVERED, Obstacle
from ..model.rule import KeepApart, PodSelector, Rule, RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, Workload, bare_workload
from ..rules.compile import Compiled, compile_rule
from ..rules.members import GroupSelectorBuilder, expressions_of, resolve, targets_of
from ..rules.ownership import OwnedRule
from ..rules.ownership_index import OwnershipIndex
from ..rules.stored_rules import stored_options
from ..rules.term_slots import TemplateTerm
from ..view.view import view_of


@dataclass(frozen=True)
class NewMember:
    """The objects of a kind that a rule chooses, by `names`, or by the `labels` of their templates. Each of them gets
    the `terms`, and its annotation `stored` beside their fingerprints. `allowed` are the findings that the rule
    allows."""

    rule: RuleId
    kind: Kind
    terms: tuple[TemplateTerm, ...]
    stored: OwnedRule
    names: tuple[str, ...] = ()
    labels: Labels | None = None
    allowed: frozenset[str] = frozenset()

    def meets(self, other: NewMember) -> bool:
        """Whether one object may be of both."""
        by_names = self.labels is None and other.labels is None
        apart = by_names and {*self.names}.isdisjoint(other.names)
        return self.kind is other.kind and not apart


class NewMembers(t.NamedTuple):
    """`members` of the rules that a policy can write; of each other rule, why it cannot."""

    members: tuple[NewMember, ...]
    not_covered: t.Mapping[RuleId, Obstacle]


def new_members(rules: t.Sequence[Rule], snapshot: Snapshot) -> NewMembers:
    """What the rules write to new objects of their own namespace. Rules that name their workloads by name alone, and
    rest, have no new ones."""
    named = [(rule, _references(rule)) for rule in rules if not rule.everywhere]
    few, more = (_compiled(named, snapshot, stand_ins) for stand_ins in (("1",), ("2", "3")))
    covered = {rule: x for rule, x in few.items() if x is not None and x == more[rule]}
    not_covered = {rule.id: _why_not_covered(rule) for rule, _x in named if rule.id not in covered}
    return NewMembers(tuple(x for members in covered.values() for x in members), not_covered)


def _why_not_covered(rule: Rule) -> Obstacle:
    advice = "Choose all of its workloads by the same labels, or set its option label."
    if any(KINDS[x.kind].revision_label for x in rule.workloads):
        several = [len(x.names) for x in rule.workloads] != [1]
        advice = "Set its option label."
        if several and isinstance(rule.rule_type, KeepApart):
            advice = "No policy has keep_apart of Deployments: use spread with the option label."
    return Obstacle(
        NOT_COVERED,
        f"rule {rule.id.name} writes terms that depend on the names, selectors or number of its workloads",
        advice=advice,
    )


def stand_ins_of_names(rules: t.Iterable[Rule], snapshot: Snapshot) -> tuple[Workload, ...]:
    """Stand-ins for the workloads that the rules name, and that do not exist, but can."""
    references = (x for rule in rules for x in _references(rule))
    return tuple(x for x in _missing(references, (), snapshot) if is_object_name(x.ref.name))


class _Reference(t.NamedTuple):
    """Workloads that a rule names, and what the annotation of each has of the rule beside the terms."""

    selector: WorkloadSelector
    stored: OwnedRule


def _references(rule: Rule) -> list[_Reference]:
    """What names the workload counts before labels that choose it, and both before a target, which has labels of the
    rule alone."""
    namespace = rule.id.namespace
    stored = OwnedRule((), stored_options(rule), rule.enabled)
    workloads = [
        _Reference(x, replace(stored, chosen=tuple(sorted((x.labels or {}).items()))))
        for x in rule.workloads
        if x.namespace == namespace
    ]
    targets = [
        _Reference(target, OwnedRule())
        for _option, target in targets_of(rule)
        if not isinstance(target, PodSelector) and target.namespace == namespace
    ]
    return [*sorted(workloads, key=lambda x: x.selector.labels is not None), *targets]


def _compiled(
    named: t.Sequence[tuple[Rule, t.Sequence[_Reference]]],
    snapshot: Snapshot,
    stand_ins: t.Sequence[str],
) -> dict[RuleId, list[NewMember] | None]:
    """The new members of each rule, with these stand-ins for each choice by labels. None where workloads that the rule
    names cannot be read, or its terms select by what a new workload need not have. Its own namespace may be created
    later, too."""
    missing = _missing((x for _rule, listed in named for x in listed), stand_ins, snapshot)
    own = {rule.id.namespace for rule, _listed in named} - snapshot.namespaces_by_name.keys()
    namespaces = (*snapshot.namespaces, *map(Namespace, sorted(own)))
    workloads = (*snapshot.workloads, *missing)
    view = view_of(replace(snapshot, workloads=workloads, namespaces=namespaces))
    selectors = GroupSelectorBuilder(view, OwnershipIndex.of(view).ownership)
    members: dict[RuleId, list[NewMember] | None] = {}
    for rule, references in named:
        faults: list[InputError] = []
        compiled = compile_rule(resolve(rule, view, faults), selectors)
        unknown = faults or _selects_by_own(compiled, references)
        members[rule.id] = None if unknown else _members(compiled, references, stand_ins)
    return members


def _selects_by_own(compiled: Compiled, references: t.Iterable[_Reference]) -> bool:
    """Whether a selector of a term is made of those of workloads, or a label of ours stands for them: such a workload
    does not exist yet, or may be created again with another selector."""
    label = compiled.rule.label
    by_labels = [expressions_of(x.labels) for x, _stored in references if x.labels is not None]
    return any(
        selection.expressions not in by_labels
        for selection in compiled.selections
        if label is None or selection.label != label
        if any(member.kind.selected for member in selection.members)
    )


def _members(
    compiled: Compiled, references: t.Iterable[_Reference], stand_ins: t.Sequence[str]
) -> list[NewMember]:
    """The new members of one rule: names with the same terms are together, as are stand-ins."""
    rule = compiled.rule
    alike: dict[str, tuple[NewMember, list[str]]] = {}
    for selector, stored in references:
        for ref in _refs(selector, stand_ins):
            if ref in compiled.terms:
                member = NewMember(
                    rule.id,
                    KINDS[ref.kind],
                    compiled.terms[ref],
                    stored,
                    labels=selector.labels,
                    allowed=rule.allow_findings,
                )
                alike.setdefault(str(member), (member, []))[1].append(ref.name)
    return [
        replace(member, names=tuple(names) if member.labels is None else ())
        for member, names in alike.values()
    ]


def _missing(
    references: t.Iterable[_Reference], stand_ins: t.Sequence[str], snapshot: Snapshot
) -> list[Workload]:
    """Stand-ins for what the references name and does not exist."""
    labels = {ref: x.labels or {} for x, _stored in references for ref in _refs(x, stand_ins)}
    return [
        stand_in(ref, own) for ref, own in labels.items() if ref not in snapshot.workloads_by_ref
    ]


def _refs(selector: WorkloadSelector, stand_ins: t.Sequence[str]) -> list[Ref]:
    """The workloads of the names; for labels, one for each of the stand-ins."""
    names: t.Iterable[str] = selector.names
    if selector.labels is not None:
        pairs = (f"{key}={value}" for key, value in sorted(selector.labels.items()))
        label = " ".join(("stand-in", *pairs))
        names = (f"{label} {number}" for number in stand_ins)  # no object can have such a name
    return [Ref(selector.kind, selector.namespace, name) for name in names]


def stand_in(ref: Ref, labels: Labels) -> Workload:
    """A workload with these labels, and a selector of its own."""
    own = {f"{PREFIX}stand-in": ref.name} if KINDS[ref.kind].selected else None
    return bare_workload(ref, f"stand-in-{ref.kind}-{ref.name}", labels, own)
