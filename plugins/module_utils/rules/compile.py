# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From rules to terms, one row a verb.

| verb          | required                                          | preferred                  |
|---------------|---------------------------------------------------|----------------------------|
| run_on        | `key In [...]` in every required node term        | one term with all keys     |
| avoid         | `key NotIn [...]` likewise                        | likewise                   |
| keep_apart    | a podAntiAffinity term over the group, or one for | weighted                   |
|               | each target and namespace                         |                            |
| keep_together | one podAffinity term                              | weighted                   |
| spread        | DoNotSchedule, nodeTaintsPolicy Honor             | ScheduleAnyway             |

Among themselves, virtual machines differ in `kubevirt.io/created-by` (mismatchLabelKeys): a
migration's own source pod does not keep the target out of its domain. Pods of a Deployment have
their revision in common (matchLabelKeys): its old and new pods do not keep each other out.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.rule import Avoid, KeepApart, KeepTogether, Rule, RunOn, SpreadOver, Terms
from ..model.snapshot import Workload
from ..scheduling.selectors import matches
from .group_selector import Chooser, Selection, label_term
from .inventory import CREATED_BY
from .machine_labels import release
from .members import Members, Resolved
from .raw_terms import compile_terms
from .slots import CompiledTerm, Slot

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods: their revision (apps/v1 Deployment)."""

MISMATCH_SINCE = (1, 3)
"""First KubeVirt whose templates have mismatchLabelKeys in pod terms."""

TAINTS_POLICY_SINCE = (1, 26)
"""First Kubernetes in which nodeTaintsPolicy is on by default."""


@dataclass(frozen=True)
class Compiled:
    """`terms` of each workload that is to carry some; `selections` are what they rest on, and
    `lacking` the fields that the server does not know, so that they were left out."""

    rule: Rule
    carriers: tuple[Workload, ...]
    terms: t.Mapping[Ref, tuple[CompiledTerm, ...]]
    selections: tuple[Selection, ...] = ()
    lacking: tuple[str, ...] = ()


def compile_rule(resolved: Resolved, chooser: Chooser, platform: Platform) -> Compiled:
    """The terms of one rule, for every workload that gets one or a label."""
    compiler = _Compiler(resolved, chooser, platform)
    terms = {workload.ref: compiler.terms_for(workload) for workload in resolved.carriers.workloads}
    labelled: dict[Ref, tuple[CompiledTerm, ...]] = {}
    for selection in compiler.used:
        for workload in selection.members if selection.label else ():
            term = label_term(t.cast("tuple[str, str]", selection.label))
            if term not in labelled.get(workload.ref, ()):
                labelled[workload.ref] = (*labelled.get(workload.ref, ()), term)
    refs = {**terms, **labelled}
    return Compiled(
        resolved.rule,
        resolved.carriers.workloads,
        {ref: (*terms.get(ref, ()), *labelled.get(ref, ())) for ref in refs},
        tuple(compiler.used),
        tuple(sorted(compiler.lacking)),
    )


class _Compiler:
    """Compiles one rule; remembers which selections it used and what the server lacks."""

    def __init__(self, resolved: Resolved, chooser: Chooser, platform: Platform) -> None:
        self._rule = resolved.rule
        self._resolved = resolved
        self._chooser = chooser
        self._platform = platform
        self._selections: dict[str, Selection] = {}
        self.used: list[Selection] = []
        self.lacking: set[str] = set()
        if self._rule.label is not None and resolved.carriers.workloads:
            self._group()

    def terms_for(self, carrier: Workload) -> tuple[CompiledTerm, ...]:
        verb = self._rule.verb
        if isinstance(verb, RunOn):
            return self._nodes(verb.nodes, "In")
        if isinstance(verb, Avoid):
            return self._nodes(verb.nodes, "NotIn")
        if isinstance(verb, KeepApart):
            return tuple(self._apart(verb, carrier))
        if isinstance(verb, KeepTogether):
            selection = self._target(0) if verb.target is not None else self._group()
            return (self._pod_term(Slot.AFFINITY, verb.over, selection),)
        if isinstance(verb, SpreadOver):
            return (self._spread(verb),)
        return compile_terms(verb.fields) if isinstance(verb, Terms) else ()

    def _nodes(
        self, nodes: t.Sequence[tuple[str, tuple[str, ...]]], operator: str
    ) -> tuple[CompiledTerm, ...]:
        expressions = [
            {"key": key, "operator": operator, "values": list(values)} for key, values in nodes
        ]
        if not self._rule.preferred:
            return tuple(CompiledTerm(Slot.NODE_EXPRESSION, each) for each in expressions)
        preference = {"matchExpressions": expressions}
        value = {"weight": self._rule.weight, "preference": preference}
        return (CompiledTerm(Slot.PREFERRED_NODE, value),)

    def _apart(self, verb: KeepApart, carrier: Workload) -> t.Iterator[CompiledTerm]:
        if verb.others:
            for number in range(len(self._resolved.targets)):
                selection = self._target(number)
                keys = self._own_pods_aside(carrier, verb) if _itself(selection, carrier) else {}
                yield self._pod_term(Slot.ANTI_AFFINITY, verb.over, selection, keys)
            return
        members = self._resolved.carriers.workloads
        alone = carrier.kind.virtual_machines or verb.strict or len(members) == 1
        keys = self._own_pods_aside(carrier, verb)
        selection = self._group() if alone else self._one(carrier)
        yield self._pod_term(Slot.ANTI_AFFINITY, verb.over, selection, keys)
        if alone:
            return
        # A term with matchLabelKeys sees no pod but those of its own revision, so a Deployment
        # among others needs terms for the others.
        others = [other for other in members if other.ref != carrier.ref]
        machines = tuple(other for other in others if _is_machine(other))
        for other in others:
            if not _is_machine(other):
                yield self._pod_term(Slot.ANTI_AFFINITY, verb.over, self._one(other))
        if machines:
            selection = self._choose("machines", Members(machines))
            yield self._pod_term(Slot.ANTI_AFFINITY, verb.over, selection)

    def _own_pods_aside(self, carrier: Workload, verb: KeepApart) -> dict[str, JSON]:
        """What keeps an instance from standing in its own way while it is replaced."""
        if carrier.kind.virtual_machines:
            version = self._platform.kubevirt
            known = version == "" or release(version) >= MISMATCH_SINCE
            if known and self._platform.merges_match_label_keys:
                return {"mismatchLabelKeys": [CREATED_BY]}
            self.lacking.add("mismatchLabelKeys")
        elif not verb.strict:
            if self._platform.merges_match_label_keys:
                return {"matchLabelKeys": [POD_TEMPLATE_HASH]}
            self.lacking.add("matchLabelKeys")
        return {}

    def _pod_term(
        self, slot: Slot, over: str, selection: Selection, keys: t.Mapping[str, JSON] | None = None
    ) -> CompiledTerm:
        term: dict[str, JSON] = {
            "labelSelector": selection.json,
            "topologyKey": over,
            **(keys or {}),
        }
        if selection.namespace != self._rule.id.namespace:
            term["namespaces"] = [selection.namespace]
        if not self._rule.preferred:
            return CompiledTerm(slot, term)
        value = {"weight": self._rule.weight, "podAffinityTerm": term}
        return CompiledTerm(_PREFERRED[slot], value)

    def _spread(self, verb: SpreadOver) -> CompiledTerm:
        value: dict[str, JSON] = {
            "maxSkew": verb.max_skew,
            "topologyKey": verb.over,
            "whenUnsatisfiable": "ScheduleAnyway" if self._rule.preferred else "DoNotSchedule",
            "labelSelector": self._group().json,
        }
        if self._platform.kubernetes >= TAINTS_POLICY_SINCE:
            value["nodeTaintsPolicy"] = "Honor"
        else:
            self.lacking.add("nodeTaintsPolicy")
        return CompiledTerm(Slot.SPREAD, value)

    def _group(self) -> Selection:
        return self._remember("group", lambda: self._chooser.group(self._resolved))

    def _target(self, number: int) -> Selection:
        role = f"target{number}"
        found = self._resolved.targets[number]
        return self._remember(role, lambda: self._chooser.target(found, self._rule.id, role))

    def _one(self, workload: Workload) -> Selection:
        """One replica set or Deployment of the group alone."""
        return self._choose(str(workload.ref), Members((workload,)))

    def _choose(self, role: str, members: Members) -> Selection:
        rule = self._rule.id
        return self._remember(role, lambda: self._chooser.of(members, rule, role, rule.namespace))

    def _remember(self, role: str, choose: t.Callable[[], Selection]) -> Selection:
        if role not in self._selections:
            self._selections[role] = choose()
            self.used.append(self._selections[role])
        return self._selections[role]


_PREFERRED: t.Mapping[Slot, Slot] = {
    Slot.AFFINITY: Slot.PREFERRED_AFFINITY,
    Slot.ANTI_AFFINITY: Slot.PREFERRED_ANTI_AFFINITY,
}


def _is_machine(workload: Workload) -> bool:
    return workload.ref.kind == VIRTUAL_MACHINE.name


def _itself(selection: Selection, carrier: Workload) -> bool:
    """Whether a target's selector also selects the carrier's own pods."""
    if selection.namespace != carrier.ref.namespace:
        return False
    return carrier.ref in {member.ref for member in selection.members} or matches(
        selection.selector(), carrier.template_labels
    )
