# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""InterPodAffinity: do the pod and the placed pods satisfy the required terms of each other?

The terms are the pod's affinity and anti-affinity, and the anti-affinity of placed pods.

Source: scheduler plugin interpodaffinity. A negative namespaceSelector of the incoming pod is read
as documented, not as Kubernetes from 1.34 on evaluates it (kubernetes issue 141526).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.objects import Labels, Placement, PodTerm, Ref
from ..model.topology import HOSTNAME
from .framework import INTER_POD_AFFINITY, Code, FilterReason, FilterStatus, PodInfo
from .labels import is_readable_selector
from .nodes import NodeSet, NodeTable
from .selector_index import Counts, ExistingTerms, Part, SelectorCount, SelectorIndex


class RequiredAffinity:
    """All required affinity terms of a pod: another pod must match all of them to count for any.

    `selector_count` None: a term selects nothing, so no pod ever counts.
    """

    __slots__ = ("counts_by_key", "differs_in", "members", "selector_count", "terms")

    def __init__(
        self, terms: tuple[PodTerm, ...], selector_count: SelectorCount | None, differs_in: str
    ) -> None:
        self.terms = terms
        self.selector_count = selector_count
        self.members: t.AbstractSet[PodInfo] = (
            frozenset() if selector_count is None else selector_count.members
        )
        self.differs_in = differs_in
        self.counts_by_key: tuple[tuple[str, Counts], ...] = tuple(
            (key, {} if selector_count is None else selector_count.by_domain(key))
            for key in dict.fromkeys(term.topology_key for term in terms)
        )


class AntiAffinityTerm(t.NamedTuple):
    """One required anti-affinity term of a pod."""

    key: str
    counts: Counts
    differs_in: str
    selector_count: SelectorCount
    term: PodTerm


@dataclass(eq=False, repr=False, slots=True)
class AffinityTerms:
    """The pod terms of a placement in one namespace, with the counters that they read.

    `unreadable`: a term that cannot be parsed; the scheduler then rejects every node. `existing`:
    the counters of terms to which a pod belongs while it is placed. `existing_sources`: those of
    required anti-affinity, each with its first term and the number of that.
    """

    unreadable: PodTerm | None = None
    affinity: RequiredAffinity | None = None
    anti_affinity: tuple[AntiAffinityTerm, ...] = ()
    existing: tuple[ExistingTerms, ...] = ()
    existing_sources: t.Mapping[ExistingTerms, tuple[int, PodTerm]] = field(default_factory=dict)


_NO_TERMS: t.Final = AffinityTerms()


def affinity_terms(placement: Placement, namespace: str, selectors: SelectorIndex) -> AffinityTerms:
    """The AffinityTerms of a placement in a namespace. A field with a term that cannot be parsed counts as
    empty. A required affinity term also draws pods near, with weight 1
    (InterPodAffinityArgs.hardPodAffinityWeight); terms that push them away have negative weights."""
    fields = [
        tuple((1, term) for term in placement.affinity),
        tuple((0, term) for term in placement.anti_affinity),
        placement.preferred_affinity,
        tuple((-weight, term) for weight, term in placement.preferred_anti_affinity),
    ]
    if not any(fields):
        return _NO_TERMS
    unreadable = [next((x for _w, x in terms if not _is_readable(x)), None) for terms in fields]
    affinity, anti_affinity, near, apart = (
        terms if bad is None else () for terms, bad in zip(fields, unreadable, strict=True)
    )
    existing_sources: dict[ExistingTerms, tuple[int, PodTerm]] = {}
    for number, (weight, term) in enumerate(anti_affinity):
        existing = _existing_terms(term, namespace, selectors, weight)
        if existing is not None:
            existing_sources.setdefault(existing, (number, term))
    required = None
    if affinity:
        required = _required_affinity([term for _w, term in affinity], namespace, selectors)
    own_terms = []
    for _weight, term in anti_affinity:
        part = selectors.part_for_incoming(term, namespace)
        if part is not None:
            count, key = selectors.selector_count([part]), term.topology_key
            own_terms.append(
                AntiAffinityTerm(key, count.by_domain(key), term.differs_in, count, term)
            )
    scored = [_existing_terms(term, namespace, selectors, weight) for weight, term in affinity]
    scored += [
        _existing_terms(term, namespace, selectors, weight, preferred=True)
        for weight, term in (*near, *apart)
        if weight
    ]
    return AffinityTerms(
        next(filter(None, unreadable), None),
        required,
        tuple(own_terms),
        (*existing_sources, *filter(None, scored)),
        existing_sources,
    )


class InterPodAffinity:
    """The filter. It reports affinity, then anti-affinity, then anti-affinity of placed pods."""

    name = INTER_POD_AFFINITY

    def __init__(self, table: NodeTable, selectors: SelectorIndex) -> None:
        self._table = table
        self._selectors = selectors

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        reasons = self._reasons(pod_info, n)
        if not reasons:
            return None
        resolvable = reasons[0].kind in ("anti", "existing-anti")
        code = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
        return FilterStatus(self.name, code, tuple(reasons))

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        terms = pod_info.placement_info.affinity_terms
        if terms.unreadable is not None:
            return 0
        table = self._table
        nodes = table.all
        if terms.affinity is not None:
            nodes = self._near(pod_info, terms.affinity)
        for term in terms.anti_affinity:
            domains = [d for d in term.counts if self._is_matched(pod_info, term, d)]
            nodes &= ~table.in_domains(term.key, domains)
        for selector_count in pod_info.selected_by:
            for existing in selector_count.anti_affinity:
                domains = [d for d in existing.counts if self._is_repelled(pod_info, existing, d)]
                nodes &= ~table.in_domains(existing.key, domains)
        return nodes

    def _is_near(self, pod_info: PodInfo, affinity: RequiredAffinity, labels: Labels) -> bool:
        near = True
        for key, counts in affinity.counts_by_key:
            domain = labels.get(key)
            if domain is None:
                return False
            if domain not in counts or not self._any_differs(
                pod_info, affinity.differs_in, key, domain, counts, affinity.members
            ):
                near = False
        return near or self._may_be_first(pod_info, affinity)

    def _near(self, pod_info: PodInfo, affinity: RequiredAffinity) -> NodeSet:
        table = self._table
        nodes = table.all
        for key, _counts in affinity.counts_by_key:
            nodes &= table.with_key(key)
        if self._may_be_first(pod_info, affinity):
            return nodes
        for key, counts in affinity.counts_by_key:
            domains = [
                d
                for d in counts
                if self._any_differs(
                    pod_info, affinity.differs_in, key, d, counts, affinity.members
                )
            ]
            nodes &= table.in_domains(key, domains)
        return nodes

    def _may_be_first(self, pod_info: PodInfo, affinity: RequiredAffinity) -> bool:
        """Whether no pod counts in any domain of the keys, and the pod matches all its own terms."""
        return (
            not affinity.differs_in
            and affinity.selector_count in pod_info.selected_by
            and not any(counts for _key, counts in affinity.counts_by_key)
        )

    def _any_differs(
        self,
        pod_info: PodInfo,
        label: str,
        key: str,
        domain: str,
        counts: Counts,
        members: t.AbstractSet[PodInfo],
    ) -> bool:
        """Whether one of the members in a domain (there is at least one) has another value of
        the label than the pod. Without a label, or if the pod has no value, all differ."""
        value = pod_info.pod.labels.get(label) if label else None
        if value is None:
            return True
        same = self._selectors.with_label(label, value) & members
        return counts[domain] > sum(pod.node_labels.get(key) == domain for pod in same)

    def _is_matched(self, pod_info: PodInfo, term: AntiAffinityTerm, domain: str) -> bool:
        """Whether the pod's term matches a placed pod of the domain."""
        return domain in term.counts and self._any_differs(
            pod_info, term.differs_in, term.key, domain, term.counts, term.selector_count.members
        )

    def _is_repelled(self, pod_info: PodInfo, terms: ExistingTerms, domain: str) -> bool:
        """Whether the term of a placed pod of the domain matches the pod."""
        return domain in terms.counts and self._any_differs(
            pod_info, terms.differs_in, terms.key, domain, terms.counts, terms.owners
        )

    def _reasons(self, pod_info: PodInfo, n: int) -> list[FilterReason]:
        """Empty where the node passes; the first reason is the one that the scheduler reports."""
        terms = pod_info.placement_info.affinity_terms
        labels = self._table.labels[n]
        if terms.unreadable is not None:
            text = "a selector of the pod's own terms cannot be parsed"
            return [FilterReason("invalid", text, terms.unreadable)]
        reasons: list[FilterReason] = []
        affinity = terms.affinity
        if affinity is not None and not self._is_near(pod_info, affinity, labels):
            reasons.extend(self._distances(pod_info, affinity, n))
        for term in terms.anti_affinity:
            domain = labels.get(term.key)
            if domain is not None and self._is_matched(pod_info, term, domain):
                reasons.append(self._conflict(pod_info, term, domain))
        existing_reasons: list[tuple[Ref, str, int, FilterReason]] = []
        for selector_count in pod_info.selected_by:
            for existing in selector_count.anti_affinity:
                domain = labels.get(existing.key)
                if domain is not None and self._is_repelled(pod_info, existing, domain):
                    existing_reasons.append(self._repulsion(pod_info, existing, domain))
        existing_reasons.sort()  # the order of selected_by depends on earlier calls
        return reasons + [reason for *_order, reason in existing_reasons]

    def _distances(
        self, pod_info: PodInfo, affinity: RequiredAffinity, n: int
    ) -> t.Iterator[FilterReason]:
        node = self._table.nodes[n]
        counts_by_key = dict(affinity.counts_by_key)
        for term in affinity.terms:
            key = term.topology_key
            domain = node.labels.get(key)
            counts = counts_by_key[key]
            if domain is None:
                text = f"node {node.name} has no label {key}, so no pod affinity matches there"
            elif domain in counts and self._any_differs(
                pod_info, affinity.differs_in, key, domain, counts, affinity.members
            ):
                continue
            else:
                text = f"no pod that matches its pod affinity is {_place(key, domain)}"
            yield FilterReason("affinity", text, term, key)

    def _conflict(self, pod_info: PodInfo, term: AntiAffinityTerm, domain: str) -> FilterReason:
        """A term of the pod matches placed pods of the domain: the reason names the first of them."""
        members = term.selector_count.in_domain(term.key, domain)
        first, more = self._first(pod_info, members, term.differs_in)
        where = _place(term.key, domain)
        named = first.pod.named
        text = f"{named} {where} matches the anti-affinity term{more}"
        return FilterReason("anti", text, term.term, term.key, first.pod.ref, named)

    def _repulsion(
        self, pod_info: PodInfo, terms: ExistingTerms, domain: str
    ) -> tuple[Ref, str, int, FilterReason]:
        """The term of placed pods of the domain matches the pod: the reason names the first of them, after
        what reasons are sorted by."""
        first, more = self._first(pod_info, terms.in_domain(domain), terms.differs_in)
        ref = first.pod.ref
        number, term = first.placement_info.affinity_terms.existing_sources[terms]
        where = _place(terms.key, domain)
        named = first.pod.named
        text = f"{named} {where} has an anti-affinity term that matches this pod{more}"
        return ref, text, number, FilterReason("existing-anti", text, term, terms.key, ref, named)

    def _first(
        self, pod_info: PodInfo, members: t.Iterable[PodInfo], differs_in: str
    ) -> tuple[PodInfo, str]:
        """The first of the members that differ from the pod in a label, those of its namespace before
        others; and how many more there are, in words."""
        namespace, own = pod_info.pod.namespace, pod_info.pod.labels.get(differs_in)
        conflicting = [
            placed
            for placed in members
            if not (differs_in and own is not None and placed.pod.labels.get(differs_in) == own)
        ]
        if len(conflicting) == 1:
            return conflicting[0], ""
        first = min(
            conflicting,
            key=lambda placed: (
                placed.pod.namespace != namespace,
                placed.pod.namespace,
                placed.pod.name,
                placed.key,
            ),
        )
        return first, f" (and {len(conflicting) - 1} more)"


def _is_readable(term: PodTerm) -> bool:
    return is_readable_selector(term.selector) and is_readable_selector(term.namespace_selector)


def _required_affinity(
    terms: t.Sequence[PodTerm], namespace: str, selectors: SelectorIndex
) -> RequiredAffinity:
    parts = [selectors.part_for_incoming(term, namespace) for term in terms]
    readable: list[Part] = [part for part in parts if part is not None]
    match = selectors.selector_count(readable) if len(readable) == len(parts) else None
    differs_in = next((term.differs_in for term in terms if term.differs_in), "")
    return RequiredAffinity(tuple(terms), match, differs_in)


def _existing_terms(
    term: PodTerm,
    namespace: str,
    selectors: SelectorIndex,
    weight: int,
    *,
    preferred: bool = False,
) -> ExistingTerms | None:
    part = selectors.part_for_placed(term, namespace)
    if part is None:
        return None
    count = selectors.selector_count([part])
    return selectors.existing_terms(
        count, term.topology_key, term.differs_in, weight, preferred=preferred
    )


def _place(key: str, domain: str) -> str:
    return f"on node '{domain}'" if key == HOSTNAME else f"in {key} '{domain}'"
