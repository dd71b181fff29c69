# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known about each rule of one instance, and the verdicts that follow from it.

Most instances satisfy all rules and have the same terms as thousands of others: these share verdicts
that are computed once.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.virtual_machine import VIRTUAL_MACHINE
from ..kubevirt.moving import (
    MIGRATION,
    RECREATION,
    RESTART,
    most_disruptive,
    pinned,
)
from ..model.obstacle import Obstacle
from ..model.topology import Topology
from ..model.verdict import RuleVerdict, Verdict
from ..scheduler.index import Index
from . import terms as wording
from .declared import RuleTerms
from .drift import Drift
from .instances import DeclaredInstance
from .terms import (
    Term,
    TermKind,
    added_by_platform,
    terms_of,
    without_platform,
)
from .tied import tied
from .unmet import unmet_preferences
from .violations import MissingData, Violation, bypass_text

"""How the reason begins of an instance that runs without a rule."""

_WHEN: t.Mapping[str, str] = {
    MIGRATION: "enforced from the next migration",
    RESTART: "enforced from the next restart",
    RECREATION: "enforced when the instance is recreated",
}
_MOVES: t.Mapping[str, str] = {
    MIGRATION: "a rollout moves it",
    RESTART: "a rollout with allow: [restart] moves it",
    RECREATION: "a rollout with allow: [recreate] moves it",
}
_UNTIL: t.Mapping[str, str] = {
    MIGRATION: "it ends with the next migration",
    RESTART: "it ends with the next restart",
    RECREATION: "it ends when the instance is recreated",
}


@dataclass
class RuleResult:
    """One rule, or one term that no rule owns (then `description` names the term)."""

    rule: str
    description: str = ""
    violated: list[str] = field(default_factory=list)
    bypassed: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """What the running pod lacks of the rule: the rule is not enforced."""
    unreadable: str = ""
    doubtful: bool = False
    """A pod that could not be read may satisfy the rule."""
    better: tuple[str, ...] = ()
    takes_effect: str = ""
    constraint_removed: bool = False
    stale: bool = False
    """The term is not declared any more, and the running pod still has it."""

    def add_missing(self, note: str, takes_effect: str) -> None:
        """The rule is not enforced until what `takes_effect` names has happened."""
        self.missing.append(note)
        self.takes_effect = most_disruptive((self.takes_effect, takes_effect))

    def verdict(self) -> RuleVerdict:
        """The worst that is known. A certain violation outranks unknown."""
        return replace(
            self._verdict(),
            takes_effect=self.takes_effect,
            constraint_removed=self.constraint_removed,
        )

    def _verdict(self) -> RuleVerdict:
        enforced = not self.missing
        placed = Verdict.PREFERENCE_NOT_MET if self.unmet else Verdict.SATISFIED
        notes = (*self.violated, *self.bypassed, *self.unmet)
        reason = self._reason(*notes)
        if self.violated and not (self.unreadable and self.doubtful):
            reason = self._reason(*notes, violated=True)
            return RuleVerdict(self.rule, Verdict.VIOLATED, reason, self.better, enforced)
        if self.bypassed:
            return RuleVerdict(self.rule, Verdict.VIOLATED, reason, (), enforced, placed)
        if self.unreadable:
            reason = self._reason(self.unreadable)
            return RuleVerdict(self.rule, Verdict.UNKNOWN, reason, (), enforced)
        if self.missing:
            where = "placed correctly, " if placed is Verdict.SATISFIED else ""
            cause = "" if where else reason
            if not self.stale:
                reason = f"{where}rule not enforced yet: {reason}"
            return RuleVerdict(
                self.rule,
                Verdict.NOT_ENFORCED,
                reason,
                self.better,
                enforced,
                placed,
                cause=cause,
            )
        return RuleVerdict(self.rule, placed, reason, self.better)

    def _reason(self, *notes: str, violated: bool = False) -> str:
        """Each note once, then what is missing and when the rule takes effect."""
        effect = (_UNTIL if self.stale else _WHEN).get(self.takes_effect, "")
        if effect and violated and not self.stale:
            moves = _MOVES.get(self.takes_effect, "")
            effect = moves if self.better else "no available node satisfies its rules now"
        description = "" if _not_met(self.description) in notes else self.description
        parts = (description, *notes, *self.missing, effect)
        return "; ".join(dict.fromkeys(filter(None, parts)))


def _not_met(preference: str) -> str:
    return f"{preference} is not met"


class RuleResults(dict[tuple[str, str], RuleResult]):
    """The results of one instance, by rule or by the description of a foreign term."""

    def of(self, rule: str, description: str = "") -> RuleResult:
        """The result of a rule or foreign term; the first call creates it."""
        if (rule, description) not in self:
            self[rule, description] = RuleResult(rule, description)
        return self[rule, description]

    def verdicts(self) -> tuple[RuleVerdict, ...]:
        """Rules by name, then what no rule owns."""
        verdicts = [result.verdict() for result in self.values()]
        return tuple(sorted(verdicts, key=lambda v: (not v.rule, v.rule, v.reason)))


_DOUBTFUL = (TermKind.AFFINITY, TermKind.SPREAD)
"""Kinds of terms that a pod which could not be read may satisfy."""


class RuleEvaluator:
    """Makes the results of instances. The index must hold the cluster as declared."""

    def __init__(self, index: Index, topology: Topology, missing: MissingData) -> None:
        self._index = index
        self._topology = topology
        self._missing = missing
        self._plain: dict[int, tuple[RuleVerdict, ...]] = {}

    def results(
        self, instance: DeclaredInstance, violations: t.Sequence[Violation]
    ) -> RuleResults | tuple[RuleVerdict, ...]:
        """The results of an instance; for one that satisfies all rules its verdicts, which are shared."""
        unmet = unmet_preferences(self._index, instance.judged_pod, instance.node)
        if not violations and not unmet and instance.drift is None and not self._missing:
            return self._plain_verdicts(instance)
        results = self._applicable(instance)
        for violation in violations:
            self._add_violation(results, instance, violation)
        for preference in unmet:
            result = self._result(results, instance, preference.term)
            result.unmet.append(_not_met(wording.describe(preference.term, self._topology)))
            result.better = preference.better
        if instance.drift is not None:
            self._add_drift(results, instance, instance.drift)
        if self._missing:
            self._add_unreadable(results, instance)
        return results

    def _plain_verdicts(self, instance: DeclaredInstance) -> tuple[RuleVerdict, ...]:
        declared = instance.declared
        if declared is None:
            number = instance.pod.placement.number
        else:
            with_rules = declared.rules or declared.damaged
            number = declared.number if with_rules else declared.placement.number
        verdicts = self._plain.get(number)
        if verdicts is None:
            verdicts = self._plain[number] = self._applicable(instance).verdicts()
        return verdicts

    def _applicable(self, instance: DeclaredInstance) -> RuleResults:
        """A result for each rule and each foreign term of the instance, with the problems that do not
        depend on its node."""
        results = RuleResults()
        declared = instance.declared
        if declared is not None and declared.damaged:
            results.of("", declared.damaged).unreadable = declared.damaged
        for rule in declared.rules if declared is not None else ():
            result = results.of(rule.rule)
            if rule.removed:
                result.constraint_removed = True
                result.missing.append(
                    "a constraint of the rule was removed from the workload: run virt.placement.rules again"
                )
            if rule.nodes is not None and rule.nodes.bypasses:
                result.bypassed.append(bypass_text(rule.nodes))
        for term in self._foreign_terms(instance):
            results.of("", self._described(instance, term))
        return results

    def _foreign_terms(self, instance: DeclaredInstance) -> list[Term]:
        """Terms that no rule owns. Tolerations are none of them: they only permit."""
        declared = instance.declared
        if declared is None:
            terms: t.Iterable[Term] = terms_of(instance.pod.placement, instance.pod.labels)
            owners: t.Mapping[Term, tuple[str, ...]] = {}
            nodes_are_foreign = True
        else:
            terms, owners = declared.terms, declared.owners
            nodes_are_foreign = declared.foreign.terms is not None
        foreign = [
            term
            for term in terms
            if term not in owners
            and term.kind is not TermKind.TOLERATION
            and not added_by_platform(term)
            and (term.kind is not TermKind.NODE_AFFINITY or nodes_are_foreign)
        ]
        return sorted(foreign, key=lambda term: self._described(instance, term))

    def _described(self, instance: DeclaredInstance, term: Term) -> str:
        """A term in words as the workload declares it: in the running pod the values of matchLabelKeys are in
        its selector. Without what the platform adds if it is read from the pod itself."""
        if instance.declared is None:
            return wording.describe(without_platform(term), self._topology)
        declared = next((x for x in instance.declared.terms if x == term), term)
        return wording.describe(declared, self._topology)

    def _result(self, results: RuleResults, instance: DeclaredInstance, term: Term) -> RuleResult:
        """The result of a term's first rule, or of the term itself."""
        owners = instance.declared.owners.get(term, ()) if instance.declared is not None else ()
        if owners:
            return results.of(owners[0])
        return results.of("", self._described(instance, term))

    def _add_violation(
        self, results: RuleResults, instance: DeclaredInstance, violation: Violation
    ) -> None:
        term = violation.term
        violated = [results.of(rule) for rule in violation.rules]
        if not violated:
            violated = [results.of("", self._described(instance, term) if term else "")]
        for result in violated:
            if violation.reason not in result.violated:
                result.violated.append(violation.reason)
            if term is not None and term.kind in _DOUBTFUL:
                result.doubtful = True

    def _add_drift(self, results: RuleResults, instance: DeclaredInstance, drift: Drift) -> None:
        effect = self._takes_effect(instance) if drift.missing or drift.stale else ""
        self._add_missing_terms(results, instance, drift, effect)
        label_effect = self._takes_effect(instance, drift.labels) if drift.labels else ""
        for key in drift.labels:
            note = f"label {key} of the template is not on the running pod"
            names = [
                rule.rule
                for rule in (instance.declared.rules if instance.declared is not None else ())
                if any(key == label for label, _value in rule.labels)
            ]
            for name in names or [""]:
                results.of(name, "" if name else note).add_missing(note, label_effect)
        for term in drift.stale:
            description = wording.describe(without_platform(term), self._topology)
            note = f"removed, and still in effect: {description}"
            result = results.of("", note)
            result.stale = True
            result.add_missing(note, effect)
        if (obstacle := self._why_no_migration(instance)) is not None:
            for result in results.values():
                if result.missing and result.takes_effect:
                    result.missing.append(obstacle.text)

    def _why_no_migration(self, instance: DeclaredInstance) -> Obstacle | None:
        """Why what the workload declares allows no live migration."""
        if instance.declared is None or instance.instance.vmi is None:
            return None
        if instance.pinned:
            return pinned(instance.node)
        return tied(self._index, instance.judged_pod)

    def _takes_effect(self, instance: DeclaredInstance, labels: t.Collection[str] = ()) -> str:
        return instance.effect(labels, stays=self._why_no_migration(instance) is not None)

    def _add_missing_terms(
        self, results: RuleResults, instance: DeclaredInstance, drift: Drift, effect: str
    ) -> None:
        where = _where(instance, drift)
        lacking: list[RuleResult] = []
        nodes: list[Term] = []
        if instance.declared is not None:
            nodes = [term for term in drift.missing if term.kind is TermKind.NODE_AFFINITY]
        if nodes and instance.declared is not None:
            lacking = [
                results.of(rule.rule)
                for rule in instance.declared.rules
                if rule.nodes is not None and _lacks(instance, rule)
            ]
            if instance.declared.foreign.terms is not None or not lacking:
                lacking += [
                    results.of("", wording.describe(term, self._topology)) for term in nodes
                ]
        lacking += [
            self._result(results, instance, term) for term in drift.missing.difference(nodes)
        ]
        for result in lacking:
            result.add_missing(where, effect)

    def _add_unreadable(self, results: RuleResults, instance: DeclaredInstance) -> None:
        declared = instance.declared
        namespace = instance.pod.namespace
        owned = declared.owners if declared is not None else {}
        terms = (*owned, *self._foreign_terms(instance))
        of_term = self._missing.of_term
        # One pod has to match all affinity terms, so what is unknown of one is unknown of each.
        gaps = (of_term(x, namespace) for x in terms if x.kind is TermKind.AFFINITY)
        of_affinity = next(filter(None, gaps), None)
        for term in terms:
            unreadable = of_affinity if term.kind is TermKind.AFFINITY else of_term(term, namespace)
            if unreadable is not None:
                self._result(results, instance, term).unreadable = str(unreadable)
        # A pod in any namespace may have an anti-affinity term that selects this one.
        gap = self._missing.gap
        for unreadable in (
            self._missing.of_workload(instance),
            gap("persistentvolumes") if instance.pod.claims else None,
            gap("nodes") or gap("pods") or gap("namespaces"),
        ):
            if unreadable is not None:
                results.of("", str(unreadable)).unreadable = str(unreadable)


def _lacks(instance: DeclaredInstance, rule: RuleTerms) -> bool:
    """Whether a required node term of the running pod lacks an expression of the rule."""
    required = {*rule.nodes.term.expressions, *rule.nodes.term.fields} if rule.nodes else set()
    running = instance.pod.placement.node_terms or ()
    if rule.nodes is not None and rule.nodes.any_of:
        return True
    return not running or any(not required <= {*term.expressions, *term.fields} for term in running)


def _where(instance: DeclaredInstance, drift: Drift) -> str:
    if instance.instance.vmi is None or drift.reached:
        return "the pod is older than the rule"
    kind = VIRTUAL_MACHINE if instance.workload is None else instance.workload.kind
    name = "VM" if kind.run_strategy else kind.name
    return f"set on the {name}, not yet on the running VMI"
