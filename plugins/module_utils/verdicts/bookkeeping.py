# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is known of the rules of one instance, written into a ledger.

Most instances have nothing wrong with them, and what they carry is carried by thousands: for those
the verdicts are worked out once and shared.
"""

from __future__ import annotations

import typing as t

from ..model.objects import PodTerm
from ..model.platform import Platform
from ..model.topology import Topology
from ..model.verdict import RuleVerdict
from ..scheduling import scores
from ..scheduling.index import Index
from . import wording
from .attribution import Break
from .blind import Blind
from .cases import Case
from .declared import RuleTerms
from .effective import Gap
from .ledger import Ledger, Line
from .terms import (
    Kind,
    Term,
    added_by_platform,
    pod_term,
    spread_term,
    terms_of,
    without_platform,
)
from .when import takes_effect

_PREFERRED_KINDS: t.Mapping[str, Kind] = {
    "node-affinity": Kind.PREFERRED_NODE_AFFINITY,
    "affinity": Kind.PREFERRED_AFFINITY,
    "anti": Kind.PREFERRED_ANTI_AFFINITY,
    "skew": Kind.PREFERRED_SPREAD,
}
_DOUBTFUL = (Kind.AFFINITY, Kind.SPREAD)
"""What seems broken may hold, if a pod that counts could not be read."""


class Bookkeeping:
    """Makes ledgers; the index must be that of the declared world."""

    def __init__(self, index: Index, topology: Topology, blind: Blind, platform: Platform) -> None:
        self._index = index
        self._platform = platform
        self._topology = topology
        self._blind = blind
        self._plain: dict[int, tuple[t.Any, tuple[RuleVerdict, ...]]] = {}

    def ledger(self, case: Case, breaks: t.Sequence[Break]) -> Ledger | tuple[RuleVerdict, ...]:
        """The ledger of a case, or at once the verdicts of one with nothing wrong."""
        unmet = self._unmet(case)
        if not breaks and not unmet and case.gap is None and not self._blind:
            return self._plain_verdicts(case)
        ledger = self._carried(case)
        for broken in breaks:
            self._write_break(ledger, broken)
        for term, preference in unmet:
            line = self._line(ledger, case, term)
            line.unmet.append(f"not met: {wording.describe(term, self._topology)}")
            line.better = scores.better_nodes(
                self._index, case.as_declared, preference, without=case.key
            )
        if case.gap is not None:
            self._write_gap(ledger, case, case.gap)
        if self._blind:
            self._write_blind(ledger, case)
        return ledger

    def _plain_verdicts(self, case: Case) -> tuple[RuleVerdict, ...]:
        shared: t.Any = case.declared
        if shared is None or not (shared.rules or shared.damaged):
            shared = case.declared.placement if case.declared else case.pod.placement
        found = self._plain.get(id(shared))
        if found is None:
            found = shared, self._carried(case).verdicts()
            self._plain[id(shared)] = found
        return found[1]

    def _carried(self, case: Case) -> Ledger:
        """A line for each rule and each foreign term that the instance is under, and what is wrong
        with them whatever the node."""
        ledger = Ledger()
        declared = case.declared
        if declared is not None and declared.damaged:
            ledger.line("", declared.damaged).blind = declared.damaged
        for rule in declared.rules if declared is not None else ():
            line = ledger.line(rule.rule)
            if rule.gone:
                line.missing.append("a term that it wrote is gone: write the rules again")
            if rule.nodes is not None and rule.nodes.bypasses:
                line.bypassed.append(_bypass(rule))
        for term in self._foreign_terms(case):
            ledger.line("", self._described(case, term))
        return ledger

    def _foreign_terms(self, case: Case) -> list[Term]:
        """Terms that no rule owns. Tolerations are none of them: they only permit."""
        declared = case.declared
        if declared is None:
            terms: t.Iterable[Term] = terms_of(case.pod.placement, case.pod.labels)
            owners: t.Mapping[Term, tuple[str, ...]] = {}
            nodes_are_foreign = True
        else:
            terms, owners = declared.terms, declared.owners
            nodes_are_foreign = declared.foreign.terms is not None
        found = [
            term
            for term in terms
            if term not in owners
            and term.kind is not Kind.TOLERATION
            and not added_by_platform(term)
            and (term.kind is not Kind.NODE_AFFINITY or nodes_are_foreign)
        ]
        return sorted(found, key=lambda term: self._described(case, term))

    def _described(self, case: Case, term: Term) -> str:
        """A term in words; without what the platform adds where it is read from the pod itself."""
        said = term if case.declared is not None else without_platform(term)
        return wording.describe(said, self._topology)

    def _line(self, ledger: Ledger, case: Case, term: Term) -> Line:
        """The line of a term's first rule, or of the term itself."""
        owners = case.declared.owners.get(term, ()) if case.declared is not None else ()
        if owners:
            return ledger.line(owners[0])
        return ledger.line("", self._described(case, term))

    def _write_break(self, ledger: Ledger, broken: Break) -> None:
        for rule in broken.rules:
            self._write_broken(ledger.line(rule), broken)
        if not broken.rules:
            said = wording.describe(broken.term, self._topology) if broken.term else ""
            self._write_broken(ledger.line("", said), broken)

    def _write_broken(self, line: Line, broken: Break) -> None:
        if broken.reason not in line.broken:
            line.broken.append(broken.reason)
        if broken.term is not None and broken.term.kind in _DOUBTFUL:
            line.doubtful = True

    def _unmet(self, case: Case) -> list[tuple[Term, scores.Preference]]:
        said = case.as_declared.placement
        if not (
            said.preferred_node_terms
            or said.preferred_affinity
            or said.preferred_anti_affinity
            or said.spread
        ):
            return []
        found = scores.unmet(self._index, case.as_declared, case.node, without=case.key)
        return [(self._preferred(case, each), each) for each in found]

    def _preferred(self, case: Case, preference: scores.Preference) -> Term:
        labels = case.as_declared.labels
        kind = _PREFERRED_KINDS[preference.kind]
        if kind is Kind.PREFERRED_SPREAD:
            return spread_term(t.cast(t.Any, preference.term), labels)
        if isinstance(preference.term, PodTerm):
            value = pod_term(preference.term, labels)
            return Term(kind, value, preference.term, preference.weight)
        return next(
            term
            for term in terms_of(case.as_declared.placement, labels)
            if term.kind is kind
            and term.said == preference.term
            and term.weight == preference.weight
        )

    def _write_gap(self, ledger: Ledger, case: Case, gap: Gap) -> None:
        where = _where(case, gap)
        for term in gap.missing:
            self._write_missing(ledger, case, term, where)
        for key in gap.labels:
            said = f"label {key} of the template is not on the running pod"
            names = [
                rule.rule
                for rule in (case.declared.rules if case.declared is not None else ())
                if any(key == own for own, _value in rule.labels)
            ]
            for name in names or [""]:
                effect = takes_effect(case, None, self._platform)
                ledger.line(name, "" if name else said).lacks(said, effect)
        for term in gap.stale:
            said = wording.describe(without_platform(term), self._topology)
            note = f"the running pod was scheduled with {said}, which is no longer declared"
            effect = takes_effect(case, term, self._platform)
            ledger.line("", note).lacks(note, effect)

    def _write_missing(self, ledger: Ledger, case: Case, term: Term, where: str) -> None:
        if term.kind is Kind.NODE_AFFINITY and case.declared is not None:
            lines = [
                ledger.line(rule.rule)
                for rule in case.declared.rules
                if rule.nodes is not None and _lacks(case, rule)
            ]
            if case.declared.foreign.terms is not None or not lines:
                lines.append(ledger.line("", wording.describe(term, self._topology)))
        else:
            lines = [self._line(ledger, case, term)]
        for line in lines:
            line.lacks(where, takes_effect(case, term, self._platform))

    def _write_blind(self, ledger: Ledger, case: Case) -> None:
        declared = case.declared
        namespace = case.pod.namespace
        owned = declared.owners if declared is not None else {}
        for term in (*owned, *self._foreign_terms(case)):
            gap = self._blind.of_term(term, namespace)
            if gap is not None:
                self._line(ledger, case, term).blind = str(gap)
        for gap in (
            self._blind.of_workload(case),
            self._blind.of_volumes(case),
            self._blind.of_symmetry(),
        ):
            if gap is not None:
                ledger.line("", str(gap)).blind = str(gap)


def _bypass(rule: RuleTerms) -> str:
    numbers = rule.nodes.bypasses if rule.nodes is not None else ()
    terms = ", ".join(f"nodeSelectorTerms[{number}]" for number in numbers)
    return f"{terms} lacks the rule's expression, and node terms are OR-ed: nothing enforces it"


def _lacks(case: Case, rule: RuleTerms) -> bool:
    """Whether the running pod's required node terms lack an expression of a rule."""
    wanted = {*rule.nodes.term.expressions, *rule.nodes.term.fields} if rule.nodes else set()
    running = case.pod.placement.node_terms or ()
    if rule.nodes is not None and rule.nodes.any_of:
        return True
    return not running or any(not wanted <= {*term.expressions, *term.fields} for term in running)


def _where(case: Case, gap: Gap) -> str:
    if case.instance.vmi is None:
        return "the running pod was scheduled without it"
    if gap.reached:
        return "on the VirtualMachineInstance, but its running pod was scheduled without it"
    return "on the workload, but neither on the VirtualMachineInstance nor on its running pod"
