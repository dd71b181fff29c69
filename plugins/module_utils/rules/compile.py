# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms does each rule type compile to?

| rule type     | required                                          | preferred                  |
|---------------|---------------------------------------------------|----------------------------|
| run_on        | `key In [...]` in every required node term        | one term with all keys     |
| avoid         | `key NotIn [...]` likewise                        | likewise                   |
| keep_apart    | a podAntiAffinity term over the group, or one for | weighted                   |
|               | each target and namespace                         |                            |
| keep_together | one podAffinity term                              | weighted                   |
| spread        | DoNotSchedule, nodeTaintsPolicy Honor             | ScheduleAnyway             |

A keep_apart term must not count an instance's own old pod. For a VM it has mismatchLabelKeys with
`kubevirt.io/created-by`, which differs between VMs: the source pod of a migration does not exclude the
target from its domain. For a Deployment it has matchLabelKeys with the revision: old pods of a workload
rollout do not exclude new ones. The spread of one Deployment has them, too, so that it counts one revision.
A StatefulSet needs neither: a replica is created only once its old pod is gone, and its pods of both
revisions have to keep apart from each other.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import MISMATCH_SINCE
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.placement_manifests import CREATED_BY
from ..model.rule import Avoid, KeepApart, KeepTogether, RawTerms, Rule, RunOn, Spread
from ..model.snapshot import SPREAD_KEYS_SINCE, TAINTS_POLICY_SINCE, Workload
from ..scheduler.labels import matches
from .members import GroupSelectorBuilder, Members, Resolved, Selection
from .term_slots import TemplateTerm, TermLocation, pair


@dataclass(frozen=True)
class Compiled:
    """The terms of one rule. `terms` are those of each workload that gets any, `selections` the selectors in
    them, `lacking` the fields that were left out because the server does not know them."""

    rule: Rule
    workloads: tuple[Workload, ...]
    terms: t.Mapping[Ref, tuple[TemplateTerm, ...]]
    selections: tuple[Selection, ...] = ()
    lacking: tuple[str, ...] = ()

    @functools.cached_property
    def member_refs(self) -> frozenset[Ref]:
        """Its workloads, without those of others that get a label of it alone."""
        return frozenset(workload.ref for workload in self.workloads)


def compile_rule(resolved: Resolved, selectors: GroupSelectorBuilder) -> Compiled:
    """The terms of one rule, for every workload that gets a term or a label. A rule that rests has none."""
    if not resolved.rule.enabled:
        members = resolved.members.workloads
        return Compiled(resolved.rule, members, {workload.ref: () for workload in members})
    compiler = _Compiler(resolved, selectors)
    terms = {workload.ref: compiler.terms_for(workload) for workload in resolved.members.workloads}
    for selection in compiler.selections.values():
        if selection.label is None:
            continue
        label = pair(TermLocation.LABEL, *selection.label)
        for workload in selection.members:
            present = terms.get(workload.ref, ())
            terms[workload.ref] = present if label in present else (*present, label)
    return Compiled(
        resolved.rule,
        resolved.members.workloads,
        terms,
        tuple(compiler.selections.values()),
        tuple(sorted(compiler.lacking)),
    )


class _Compiler:
    """Compiles one rule; `selections` are those that its terms have, by their role, `lacking` the fields that
    the server lacks."""

    def __init__(self, resolved: Resolved, selectors: GroupSelectorBuilder) -> None:
        self._rule = resolved.rule
        self._resolved = resolved
        self._selectors = selectors
        self._platform = selectors.view.snapshot.platform
        self.selections: dict[str, Selection] = {}
        self.lacking: set[str] = set()
        if self._rule.label is not None and resolved.members.workloads:
            self._group()

    def terms_for(self, workload: Workload) -> tuple[TemplateTerm, ...]:
        rule_type = self._rule.rule_type
        if isinstance(rule_type, RunOn):
            return self._nodes(rule_type.nodes, "In")
        if isinstance(rule_type, Avoid):
            return self._nodes(rule_type.nodes, "NotIn")
        if isinstance(rule_type, KeepApart):
            return tuple(self._apart(rule_type, workload))
        if isinstance(rule_type, KeepTogether):
            selection = self._target(0) if rule_type.target is not None else self._group()
            return (self._pod_term(TermLocation.AFFINITY, rule_type.topology_key, selection),)
        if isinstance(rule_type, Spread):
            return (self._spread(rule_type),)
        if isinstance(rule_type, RawTerms):
            from .raw_terms import compile_terms

            return compile_terms(rule_type.fields)
        if rule_type is None:  # the rule sets a label only
            return ()
        raise AssertionError(f"{type(rule_type).__name__} compiles to nothing: add it to terms_for")

    def _nodes(
        self, nodes: t.Sequence[tuple[str, tuple[str, ...]]], operator: str
    ) -> tuple[TemplateTerm, ...]:
        expressions = [
            {"key": key, "operator": operator, "values": list(values)} for key, values in nodes
        ]
        if not self._rule.preferred:
            return tuple(
                TemplateTerm(TermLocation.NODE_EXPRESSION, expression) for expression in expressions
            )
        preference = {"matchExpressions": expressions}
        value = {"weight": self._rule.weight, "preference": preference}
        return (TemplateTerm(TermLocation.PREFERRED_NODE, value),)

    def _apart(self, rule_type: KeepApart, workload: Workload) -> t.Iterator[TemplateTerm]:
        if rule_type.targets:
            for number in range(len(self._resolved.targets)):
                selection = self._target(number)
                keys = self._keys_without_own_pods(workload) if _itself(selection, workload) else {}
                yield self._pod_term(
                    TermLocation.ANTI_AFFINITY, rule_type.topology_key, selection, keys
                )
            return
        members = self._resolved.members.workloads
        one_term = not workload.kind.revision_label or len(members) == 1
        keys = self._keys_without_own_pods(workload)
        selection = self._group() if one_term else self._one(workload)
        yield self._pod_term(TermLocation.ANTI_AFFINITY, rule_type.topology_key, selection, keys)
        if one_term:
            return
        # A term with matchLabelKeys selects only pods of its own revision, so a Deployment
        # needs further terms for the other members.
        vms = tuple(peer for peer in members if peer.kind.run_strategy)
        for peer in [x for x in members if not (x.kind.run_strategy or x.ref == workload.ref)]:
            yield self._pod_term(
                TermLocation.ANTI_AFFINITY, rule_type.topology_key, self._one(peer)
            )
        if vms:
            selection = self._choose("vms", Members(vms))
            yield self._pod_term(TermLocation.ANTI_AFFINITY, rule_type.topology_key, selection)

    def _keys_without_own_pods(self, workload: Workload) -> dict[str, JSON]:
        """Label keys that exclude an instance's own pods while it is replaced."""
        if workload.runs_vms:
            platform = self._platform
            supported = platform.kubevirt == "" or platform.kubevirt_release >= MISMATCH_SINCE
            if supported and self._platform.merges_match_label_keys:
                return {"mismatchLabelKeys": [CREATED_BY]}
            self.lacking.add("mismatchLabelKeys")
            return {}
        if not (revision := workload.kind.revision_label):
            return {}
        if self._platform.merges_match_label_keys:
            return {"matchLabelKeys": [revision]}
        self.lacking.add("matchLabelKeys")
        return {}

    def _pod_term(
        self,
        location: TermLocation,
        over: str,
        selection: Selection,
        keys: t.Mapping[str, JSON] | None = None,
    ) -> TemplateTerm:
        term: dict[str, JSON] = {
            "labelSelector": selection.json,
            "topologyKey": over,
            **(keys or {}),
        }
        if selection.namespace != self._rule.id.namespace:
            term["namespaces"] = [selection.namespace]
        if not self._rule.preferred:
            return TemplateTerm(location, term)
        value = {"weight": self._rule.weight, "podAffinityTerm": term}
        return TemplateTerm(_PREFERRED[location], value)

    def _spread(self, rule_type: Spread) -> TemplateTerm:
        value: dict[str, JSON] = {
            "maxSkew": rule_type.max_skew,
            "topologyKey": rule_type.topology_key,
            "whenUnsatisfiable": "ScheduleAnyway" if self._rule.preferred else "DoNotSchedule",
            "labelSelector": self._group().json,
        }
        if self._platform.kubernetes >= TAINTS_POLICY_SINCE:
            value["nodeTaintsPolicy"] = "Honor"
        else:
            self.lacking.add("nodeTaintsPolicy")
        labels = [member.kind.revision_label for member in self._resolved.members.workloads]
        revision = labels[0] if len(labels) == 1 and self._rule.label is None else ""
        if revision and self._platform.kubernetes >= SPREAD_KEYS_SINCE:
            value["matchLabelKeys"] = [revision]
        return TemplateTerm(TermLocation.SPREAD, value)

    def _group(self) -> Selection:
        return self._remember("group", lambda: self._selectors.group(self._resolved))

    def _target(self, number: int) -> Selection:
        role = f"target{number}"
        target = self._resolved.targets[number]
        return self._remember(role, lambda: self._selectors.target(target, self._rule.id, role))

    def _one(self, workload: Workload) -> Selection:
        """One workload of the group alone that is no VM."""
        return self._choose(str(workload.ref), Members((workload,)))

    def _choose(self, role: str, members: Members) -> Selection:
        rule = self._rule.id
        return self._remember(role, lambda: self._selectors.of(members, rule, role, rule.namespace))

    def _remember(self, role: str, choose: t.Callable[[], Selection]) -> Selection:
        if role not in self.selections:
            self.selections[role] = choose()
        return self.selections[role]


_PREFERRED: t.Mapping[TermLocation, TermLocation] = {
    TermLocation.AFFINITY: TermLocation.PREFERRED_AFFINITY,
    TermLocation.ANTI_AFFINITY: TermLocation.PREFERRED_ANTI_AFFINITY,
}


def _itself(selection: Selection, workload: Workload) -> bool:
    """Whether a target's selector also selects the workload's own pods."""
    if selection.namespace != workload.ref.namespace:
        return False
    return workload.ref in {member.ref for member in selection.members} or matches(
        selection.selector(), workload.template_labels
    )
