# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which writes fulfill a request, and which findings prevent them?

Membership is exact: a workload that a rule no longer names loses the terms of the rule, in every
namespace that was read. `RecomputeRules` makes a write again for an object that changed since the
snapshot.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..kinds.registry import KINDS, RULE_KINDS
from ..model.findings import Finding, InputError, InvalidInput, sentences
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.obstacle import NO_POLICY, Obstacle
from ..model.rule import Rule, RuleId, WorkloadSelector
from ..model.snapshot import Snapshot, Workload
from ..model.write import Write
from ..view.view import ClusterView, view_of
from .change import (
    WorkloadChange,
    change_of,
    copied_rules,
    copy_of_another,
    labels_of_terms,
)
from .checks import how_to_accept, is_refused, of_rule, unchecked, unknown_rules
from .compile import Compiled, compile_rule
from .draft import RequestedRules
from .labels_first import label_needs
from .members import GroupSelectorBuilder, resolve
from .merge import merge
from .ownership import OwnedRule, Ownership, UnreadableAnnotation, invalid_rules_annotation
from .ownership_index import OwnershipIndex
from .policy_plan import POLICY
from .pools import pool_faults
from .record import change_of_request, is_begun
from .rules_plan import ExtraFindings, RulesPlan, plan_of_changes
from .rules_request import RulesRequest, is_missing, option_faults
from .similar import SelectablePods
from .stored_rules import StoredRules, stored_options, with_members
from .term_slots import TemplateTerm, digest
from .write import labels_of

Listed = dict[RuleId, "tuple[TemplateTerm, ...] | None"]


def requested_rules(
    request: RulesRequest,
    compiled: t.Sequence[Compiled],
    view: ClusterView,
    ownerships: OwnershipIndex,
    faults: list[InputError],
    findings: list[Finding],
) -> dict[Ref, RequestedRules]:
    """The requested rules of each workload that the request is about, changed or not."""
    prune = (request.namespace, request.rule_set) if request.prune else None
    where = {rule.id: rule.where for rule in reversed(request.rules)}
    change = change_of_request(
        f"{request.namespace}/{request.rule_set}",
        _digest(request, compiled),
        (
            x
            for ref, x in view.snapshot.workloads_by_ref.items()
            if ref.namespace == request.namespace
        ),
        request.at,
    )
    requested: dict[Ref, RequestedRules] = {}
    for ref, workload in sorted(view.snapshot.workloads_by_ref.items()):
        if ref.kind not in RULE_KINDS:
            continue
        members = {x.rule.id: x.terms[ref] for x in compiled if ref in x.terms}
        if ref in ownerships.unreadable:
            error = ownerships.unreadable[ref]
            faults += [InputError(where[rule], str(error)) for rule in members]
            findings += [] if members else [invalid_rules_annotation(ref, error)]
            continue
        listed = _listed(request, members, workload, ownerships)
        ownership = ownerships.ownership(workload)
        pruned = ownership.of_set(*prune) if prune else ()
        if ownership.uid != workload.uid:
            findings += _of_copy(request, members, workload, ownership)
            if not members:
                continue
        if listed or pruned:
            requested[ref] = RequestedRules(
                listed,
                change,
                prune,
                request.adopt,
                request.adopt and request.adopt_similar,
                stored={
                    x.rule.id: _stored(x.rule, workload, ownership)
                    for x in compiled
                    if ref in x.member_refs
                },
            )
    added = {ref: dict(labels_of_terms(x)) for ref, x in requested.items()}
    pods = SelectablePods(view, added)
    return {ref: replace(x, pods=pods) for ref, x in requested.items()}


def _digest(request: RulesRequest, compiled: t.Sequence[Compiled]) -> str:
    """The same for a request that is made again, about the same workloads."""
    members = {x.rule.id: sorted(map(str, x.terms)) for x in compiled}
    rules = [
        [repr(replace(rule, index=0, allow_findings=frozenset())), members.get(rule.id, [])]
        for rule in sorted(request.rules, key=lambda rule: rule.id)
    ]
    options = [request.state, request.prune, request.adopt, request.adopt_similar]
    return digest([options, rules], 12)


def _listed(
    request: RulesRequest,
    members: t.Mapping[RuleId, tuple[TemplateTerm, ...]],
    workload: Workload,
    ownerships: OwnershipIndex,
) -> Listed:
    listed: Listed = dict(members)
    carried = ownerships.ownership(workload).rules
    for rule in request.rules:
        if rule.id in members or rule.id not in carried:
            continue
        absent = request.state == "absent"
        if not absent or rule.everywhere or is_named(rule.workloads, workload):
            listed[rule.id] = None
    return listed


def _stored(rule: Rule, workload: Workload, ownership: Ownership) -> OwnedRule:
    """What the annotation of a member gets of the rule, beside its terms. A rule that is named alone keeps its own."""
    if rule.is_named_alone:
        return replace(ownership.rules[rule.id], enabled=False)
    naming = [x for x in rule.workloads if is_named([x], workload)]
    by_name = not naming or any(x.labels is None for x in naming)
    chosen = () if by_name else tuple(sorted((naming[0].labels or {}).items()))
    return OwnedRule((), stored_options(rule), rule.enabled, chosen)


def is_named(references: t.Iterable[WorkloadSelector], workload: Workload) -> bool:
    """Whether one of the references leads to the workload."""
    ref = workload.ref
    for reference in references:
        if (reference.kind, reference.namespace) != (ref.kind, ref.namespace):
            continue
        if reference.labels is None and ref.name in reference.names:
            return True
        labels = dict(workload.template_labels).items()
        if reference.labels is not None and reference.labels.items() <= labels:
            return True
    return False


def _of_copy(
    request: RulesRequest,
    members: t.Mapping[RuleId, tuple[TemplateTerm, ...]],
    workload: Workload,
    ownership: Ownership,
) -> list[Finding]:
    if members:
        return copy_of_another(workload, ownership, members)
    of_set = ownership.of_set(request.namespace, request.rule_set)
    listed = {rule.id for rule in request.rules}
    concerned = [rule for rule in of_set if request.prune or rule in listed]
    return copied_rules(workload, ownership, concerned)


def unread_workloads(
    request: RulesRequest, view: ClusterView, faults: list[InputError], findings: list[Finding]
) -> None:
    """A kind that cannot be listed may hide workloads that carry the rules. That is an error if a
    rule is to be removed from all of them, and a warning otherwise."""
    for kind in RULE_KINDS:
        gap = view.snapshot.why_unreadable(KINDS[kind].plural, request.namespace)
        if gap is None:
            continue
        if request.prune or request.state == "absent":
            faults.append(InputError("state" if request.state == "absent" else "prune", str(gap)))
        elif request.rules:
            findings.append(unchecked(gap, "Whether other workloads still have the rules"))


class RecomputeRules:
    """Calling it gives the write for a freshly read manifest, None where nothing is left to do.

    The requested rules stay as they were planned; the template and its ownership are read anew.
    Raises InvalidInput where the terms conflict with those that are there now, UnreadableAnnotation
    where our annotation is damaged.
    """

    def __init__(
        self,
        requested: t.Mapping[Ref, RequestedRules],
        changes: t.Iterable[WorkloadChange],
        rules: t.Sequence[Rule],
    ) -> None:
        self._requested = requested
        self._relabels = {
            relabel.target: relabel for change in changes for relabel in change.relabels
        }
        self._rules = rules

    def __call__(self, write: Write, manifest: JSON) -> Write | None:
        if write.target in self._relabels:
            return self._relabels[write.target].again(write, labels_of(manifest))
        workload = Workload(write.target, manifest["metadata"]["uid"], manifest)
        merged = merge(workload, self._requested[write.target])
        faults = [
            InputError(f"{write.target}, rule {finding.rule}", f"{finding.name}: {finding.why}")
            for finding in merged.findings
            if is_refused(finding, self._rules)
        ]
        if faults:
            raise InvalidInput(faults)
        return merged.write


def plan_rules(
    snapshot: Snapshot, request: RulesRequest, *, extra_findings: ExtraFindings | None = None
) -> RulesPlan:
    """What the request changes. Raises InvalidInput with every error of the request, and with the
    findings that refuse rules without an error."""
    view = view_of(snapshot)
    ownerships = OwnershipIndex.of(view)
    faults = [*request.faults, *option_faults(request, view)]
    findings: list[Finding] = []
    request = with_members(request, StoredRules(ownerships, view.snapshot), faults)
    compiled = _compile(request, view, ownerships, faults, findings)
    requested = requested_rules(request, compiled, view, ownerships, faults, findings)
    unread_workloads(request, view, faults, findings)
    of_policy = {*request.policies.removed, *request.policies.covered}
    if request.state == "absent":
        ids = dict.fromkeys(
            (x.id for x in request.rules if x.id not in of_policy), frozenset[Ref]()
        )
        findings += unknown_rules(ids, ownerships.carriers, "removed")
    elif not request.prune:
        disabled = {
            x.rule.id: frozenset(x.terms)
            for x in compiled
            if not x.rule.enabled and x.rule.id not in of_policy
        }
        findings += unknown_rules(disabled, ownerships.carriers, "disabled")
    changes = _changes(request, requested, view, faults)
    changed = [change for change in changes if change.stages]
    plan = plan_of_changes(
        view,
        request,
        changes,
        findings,
        label_needs(compiled, changed),
        RecomputeRules(requested, changed, request.rules),
        extra_findings,
    )
    if faults:
        raise InvalidInput(_every_fault(faults, plan.refused, request.rules))
    made = next((x.change for x in requested.values()), None)
    if expected := request.policies.expected_refs:
        plan = plan.without(expected)
        requested = {ref: x for ref, x in requested.items() if ref not in expected}
    return replace(
        plan,
        requested=requested,
        about=len(requested),
        members=frozenset(ref for ref, rules in requested.items() if rules.carries),
        change=made,
        continues=made is not None and is_begun(made, view.snapshot.workloads_by_ref.values()),
    )


def _changes(
    request: RulesRequest,
    requested: t.Mapping[Ref, RequestedRules],
    view: ClusterView,
    faults: list[InputError],
) -> list[WorkloadChange]:
    """The change of each workload; a damaged undo record is a fault."""
    where = {rule.id: rule.where for rule in request.rules}
    changes = []
    for ref, rules_of_workload in requested.items():
        try:
            changes.append(change_of(view.snapshot.workloads_by_ref[ref], rules_of_workload, view))
        except UnreadableAnnotation as error:
            places = [where[rule] for rule in rules_of_workload.listed if rule in where]
            faults += [InputError(place, str(error)) for place in places or ["prune"]]
    return changes


def _compile(
    request: RulesRequest,
    view: ClusterView,
    ownerships: OwnershipIndex,
    faults: list[InputError],
    findings: list[Finding],
) -> list[Compiled]:
    """The terms of each rule. Rules that are to be absent have none; their workloads need not exist."""
    if request.state == "absent" or is_missing(request.namespace, view):
        return []
    for rule in request.broken:
        resolve(rule, view, faults, str(_why_not_later(request, rule) or ""))
    selectors = GroupSelectorBuilder(view, ownerships.ownership)
    resolved = [
        resolve(rule, view, faults, str(_why_not_later(request, rule) or ""))
        for rule in request.rules
    ]
    for members in resolved:
        faults += pool_faults(members.rule, members.members.workloads, view)
    compiled = [compile_rule(x, selectors) for x in resolved]
    for members, terms in zip(resolved, compiled, strict=True):
        if members.rule.enabled:
            findings += of_rule(members, terms, view, later=_why_not_later(request, members.rule))
    return compiled


def _why_not_later(request: RulesRequest, rule: Rule) -> Obstacle | None:
    """Why workloads that are created later do not get a rule, with what helps. None where a policy gives it to them."""
    advice = "Set it to policy, or take them out of the rule."
    why: Obstacle | None = Obstacle(NO_POLICY, "new_members is not policy", advice=advice)
    if request.new_members == POLICY:
        why = request.policies.not_covered.get(rule.id)
    begin = "Workloads that are created later cannot have the rule"
    return why and replace(why, text=f"{begin}: {why}. {why.advice}")


def _every_fault(
    faults: t.Sequence[InputError], refused: t.Sequence[Finding], rules: t.Sequence[Rule]
) -> list[InputError]:
    """The faults, equal ones once, and the findings that refuse rules without a fault, in the order of
    the rules. A finding about a rule with a fault may come from that fault."""
    faulty = {_index(fault) for fault in faults}
    where = {rule.id.name: rule.where for rule in rules if rule.index not in faulty}
    sound = [finding for finding in refused if finding.rule in where]
    refusals = [
        InputError(where[finding.rule], f"{sentence}{how_to_accept(finding)}", "finding")
        for finding, sentence in sentences(sound)
    ]
    places: dict[str, dict[str, None]] = {}
    for fault in sorted(faults, key=_index):
        places.setdefault(fault.message, {})[fault.where] = None
    merged = [InputError("; ".join(places[message]), message) for message in places]
    return sorted([*merged, *refusals], key=_index)


def _index(fault: InputError) -> int:
    """The number of the rule; -1 for an option of the task."""
    match = _INDEX.match(fault.where)
    return int(match[1]) if match else -1


_INDEX = re.compile(r"rules\[(\d+)\]")
