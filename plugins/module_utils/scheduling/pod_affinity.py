# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""InterPodAffinity: required affinity and anti-affinity to other pods, and theirs to this one.

Source: scheduler plugin interpodaffinity. A negative namespaceSelector of the incoming pod is read
as documented, not as Kubernetes 1.34 and 1.35 evaluate it (kubernetes issue 141526).
"""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Placement, PodTerm
from .candidate import Candidate
from .failure import Code, Failure, Kind, Reason
from .matching import Counts, Match, Matching, Owners, Part
from .node_table import NodeSet, NodeTable
from .options import INTER_POD_AFFINITY
from .selectors import is_readable_selector


class Together:
    """All required affinity terms of a pod: one pod must match all of them to count for any.

    `match` None: a term selects nothing, so nothing ever counts.
    """

    __slots__ = ("counted", "differs_in", "match", "terms")

    def __init__(self, terms: tuple[PodTerm, ...], match: Match | None, differs_in: str) -> None:
        self.terms = terms
        self.match = match
        self.differs_in = differs_in
        self.counted: tuple[tuple[str, Counts], ...] = tuple(
            (key, {} if match is None else match.by_domain(key))
            for key in dict.fromkeys(term.topology_key for term in terms)
        )


class Apart(t.NamedTuple):
    """One required anti-affinity term of a pod."""

    key: str
    counts: Counts
    differs_in: str
    match: Match
    term: PodTerm


class PodRules:
    """What the pod terms of a placement mean in one namespace.

    `problem`: a selector cannot be parsed, and the scheduler refuses the pod on every node.
    `owners`: what the pod's terms are to others while it is placed; `sources` the term behind each
    that is a required anti-affinity.
    """

    __slots__ = ("apart", "owners", "problem", "sources", "together")

    def __init__(
        self,
        problem: PodTerm | None,
        together: Together | None,
        apart: tuple[Apart, ...],
        owners: tuple[Owners, ...],
        sources: tuple[tuple[Owners, PodTerm], ...],
    ) -> None:
        self.problem = problem
        self.together = together
        self.apart = apart
        self.owners = owners
        self.sources = sources


def read_rules(
    placement: Placement, namespace: str, matching: Matching, hard_weight: int
) -> PodRules:
    """Look the pod terms of a placement up. `hard_weight`: what each required affinity term of a
    placed pod adds to the score of a pod that it matches."""
    lists = _readable_lists(placement)
    problem = next((each for terms in lists.values() for each in terms.unreadable), None)
    if problem is not None or any(lists.values()):
        required, apart = lists["affinity"].required, lists["anti"].required
        together = _read_together(required, namespace, matching) if required else None
        sources = tuple(
            (owned, term)
            for term in apart
            if (owned := _owners(term, namespace, matching, 0)) is not None
        )
        return PodRules(
            problem,
            together,
            tuple(_read_apart(apart, namespace, matching)),
            (
                *dict.fromkeys(owned for owned, _term in sources),
                *_scored(lists, namespace, matching, hard_weight),
            ),
            sources,
        )
    return NO_RULES


class _Terms(t.NamedTuple):
    """Terms of one field of the affinity. A list with one that cannot be read counts as empty."""

    weighted: tuple[tuple[int, PodTerm], ...]
    unreadable: tuple[PodTerm, ...]

    @property
    def required(self) -> tuple[PodTerm, ...]:
        return tuple(term for _weight, term in self.weighted)

    def __bool__(self) -> bool:
        return bool(self.weighted)


def _readable_lists(placement: Placement) -> dict[str, _Terms]:
    return {
        "affinity": _readable((0, term) for term in placement.affinity),
        "anti": _readable((0, term) for term in placement.anti_affinity),
        "preferred": _readable(placement.preferred_affinity),
        "preferred-anti": _readable(placement.preferred_anti_affinity),
    }


def _readable(terms: t.Iterable[tuple[int, PodTerm]]) -> _Terms:
    listed = tuple(terms)
    bad = tuple(
        term
        for _weight, term in listed
        if not is_readable_selector(term.selector)
        or not is_readable_selector(term.namespace_selector)
    )
    return _Terms(() if bad else listed, bad)


def _read_together(terms: tuple[PodTerm, ...], namespace: str, matching: Matching) -> Together:
    parts = [matching.part_for_incoming(term, namespace) for term in terms]
    known: list[Part] = [part for part in parts if part is not None]
    match = matching.match(known) if len(known) == len(parts) else None
    differs_in = next((term.differs_in for term in terms if term.differs_in), "")
    return Together(terms, match, differs_in)


def _read_apart(
    terms: tuple[PodTerm, ...], namespace: str, matching: Matching
) -> t.Iterator[Apart]:
    for term in terms:
        part = matching.part_for_incoming(term, namespace)
        if part is not None:
            match = matching.match([part])
            key = term.topology_key
            yield Apart(key, match.by_domain(key), term.differs_in, match, term)


def _owners(term: PodTerm, namespace: str, matching: Matching, weight: int) -> Owners | None:
    part = matching.part_for_placed(term, namespace)
    if part is None:
        return None
    return matching.owners(matching.match([part]), term.topology_key, term.differs_in, weight)


def _scored(
    lists: dict[str, _Terms], namespace: str, matching: Matching, hard_weight: int
) -> t.Iterator[Owners]:
    weighted = [
        *((hard_weight, term) for term in lists["affinity"].required),
        *lists["preferred"].weighted,
        *((-weight, term) for weight, term in lists["preferred-anti"].weighted),
    ]
    for weight, term in weighted:
        if weight:
            owned = _owners(term, namespace, matching, weight)
            if owned is not None:
                yield owned


NO_RULES: t.Final = PodRules(None, None, (), (), ())


class InterPodAffinity:
    """The filter. It reports affinity before anti-affinity before others' anti-affinity."""

    name = INTER_POD_AFFINITY

    def __init__(self, table: NodeTable, matching: Matching) -> None:
        self._table = table
        self._matching = matching

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        rules = candidate.spec.rules
        labels = self._table.labels[n]
        together = rules.together
        if together is not None and not self._is_near(candidate, together, labels):
            return self._failure(candidate, n)
        for rule in rules.apart:
            domain = labels.get(rule.key)
            if domain in rule.counts and self._meets(candidate, rule, domain):
                return self._failure(candidate, n)
        for match in candidate.matches:
            for owners in match.owners:
                domain = labels.get(owners.key)
                if domain in owners.counts and self._is_met(candidate, owners, domain):
                    return self._failure(candidate, n)
        return None if rules.problem is None else self._failure(candidate, n)

    def nodes(self, candidate: Candidate) -> NodeSet:
        rules = candidate.spec.rules
        if rules.problem is not None:
            return 0
        table = self._table
        found = table.all
        if rules.together is not None:
            found = self._near(candidate, rules.together)
        for rule in rules.apart:
            closed = [d for d in rule.counts if self._meets(candidate, rule, d)]
            found &= ~table.in_domains(rule.key, closed)
        for match in candidate.matches:
            for owners in match.owners:
                closed = [d for d in owners.counts if self._is_met(candidate, owners, d)]
                found &= ~table.in_domains(owners.key, closed)
        return found

    def selects_itself(self, candidate: Candidate, together: Together) -> bool:
        """Whether a pod matches all its own affinity terms."""
        return not together.differs_in and together.match in candidate.matches

    def _is_near(self, candidate: Candidate, together: Together, labels: Labels) -> bool:
        near = True
        for key, counts in together.counted:
            domain = labels.get(key)
            if domain is None:
                return False
            if domain not in counts or not self._others(candidate, together, counts, key, domain):
                near = False
        return near or self._may_be_first(candidate, together)

    def _near(self, candidate: Candidate, together: Together) -> NodeSet:
        table = self._table
        found = table.all
        for key, _counts in together.counted:
            found &= table.carrying(key)
        if self._may_be_first(candidate, together):
            return found
        for key, counts in together.counted:
            open_ = [d for d in counts if self._others(candidate, together, counts, key, d)]
            found &= table.in_domains(key, open_)
        return found

    def _may_be_first(self, candidate: Candidate, together: Together) -> bool:
        """No pod counts in any domain of any of the keys, and the pod matches all its terms."""
        return self.selects_itself(candidate, together) and not any(
            counts for _key, counts in together.counted
        )

    def _others(
        self, candidate: Candidate, together: Together, counts: Counts, key: str, domain: str
    ) -> bool:
        if not together.differs_in or together.match is None:
            return True
        same = self._sharing(candidate, together.differs_in, key, domain)
        return counts[domain] > sum(each in together.match.members for each in same)

    def _meets(self, candidate: Candidate, rule: Apart, domain: str) -> bool:
        """Whether a pod that the term matches is in a domain; one at least is selected there."""
        if not rule.differs_in:
            return True
        same = self._sharing(candidate, rule.differs_in, rule.key, domain)
        return rule.counts[domain] > sum(each in rule.match.members for each in same)

    def _is_met(self, candidate: Candidate, owners: Owners, domain: str) -> bool:
        """Whether an owner in a domain has a term that matches the pod; one at least is there."""
        if not owners.differs_in:
            return True
        same = self._sharing(candidate, owners.differs_in, owners.key, domain)
        return owners.counts[domain] > sum(each in owners.members for each in same)

    def _sharing(
        self, candidate: Candidate, label: str, key: str, domain: str
    ) -> t.Iterator[Candidate]:
        """The placed pods of a domain whose `label` has the value of the candidate's."""
        value = candidate.pod.labels.get(label)
        if value is None:
            return iter(())
        return (
            each
            for each in self._matching.sharing(label, value)
            if each.node_labels.get(key) == domain
        )

    def _failure(self, candidate: Candidate, n: int) -> Failure:
        reasons = list(self._reasons(candidate, n))
        resolvable = reasons[0].kind in ("anti", "existing-anti")
        code = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
        return Failure(self.name, code, tuple(reasons))

    def _reasons(self, candidate: Candidate, n: int) -> t.Iterator[Reason]:
        rules = candidate.spec.rules
        labels = self._table.labels[n]
        if rules.problem is not None:
            yield Reason(
                "invalid", "a selector of the pod's own terms cannot be parsed", rules.problem
            )
            return
        together = rules.together
        if together is not None and not self._is_near(candidate, together, labels):
            yield from self._distances(candidate, together, n)
        for rule in rules.apart:
            domain = labels.get(rule.key)
            if domain in rule.counts and self._meets(candidate, rule, domain):
                yield self._conflict("anti", candidate, rule, domain, rule.term)
        theirs = list(self._conflicts_of_others(candidate, labels))
        if len(theirs) > 1:  # the order in which they are found comes of what was asked before
            theirs.sort(key=lambda each: (each.counterpart, each.text, repr(each.term)))
        yield from theirs

    def _conflicts_of_others(self, candidate: Candidate, labels: Labels) -> t.Iterator[Reason]:
        for match in candidate.matches:
            for owners in match.owners:
                domain = labels.get(owners.key)
                if domain in owners.counts and self._is_met(candidate, owners, domain):
                    yield self._conflict("existing-anti", candidate, owners, domain)

    def _distances(self, candidate: Candidate, together: Together, n: int) -> t.Iterator[Reason]:
        node = self._table.nodes[n]
        for term in together.terms:
            key = term.topology_key
            domain = node.labels.get(key)
            counts = dict(together.counted)[key]
            if domain is None:
                text = f"node {node.name} has no label {key}, so it is near nothing"
            elif domain in counts and self._others(candidate, together, counts, key, domain):
                continue
            else:
                text = f"no pod that the affinity terms match is in {key} '{domain}'"
            yield Reason("affinity", text, term, key)

    def _conflict(
        self,
        kind: Kind,
        candidate: Candidate,
        rule: Apart | Owners,
        domain: str,
        term: PodTerm | None = None,
    ) -> Reason:
        if isinstance(rule, Apart):
            members = rule.match.in_domain(rule.key, domain)
        else:
            members = rule.in_domain(domain)
        label, own = rule.differs_in, candidate.pod.labels.get(rule.differs_in)
        others = [
            each
            for each in members
            if not (label and own is not None and each.pod.labels.get(label) == own)
        ]
        first = min(others, key=lambda each: (each.pod.namespace, each.pod.name, each.key))
        if term is None:
            term = next(term for owned, term in first.spec.rules.sources if owned is rule)
        where = f"in {rule.key} '{domain}'"
        if kind == "anti":
            text = f"{first.pod.ref} {where} matches the anti-affinity term"
        else:
            text = f"{first.pod.ref} {where} has an anti-affinity term that matches this pod"
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        return Reason(kind, text + more, term, rule.key, first.pod.ref)
