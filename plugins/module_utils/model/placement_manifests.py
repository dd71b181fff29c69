# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement fields of a pod spec as JSON, turned into a Placement."""

from __future__ import annotations

import dataclasses
import typing as t

from .json_pointer import Object
from .objects import (
    Labels,
    NodeTerm,
    Placement,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

CREATED_BY = "kubevirt.io/created-by"
"""The label of launcher pods with the VMI's uid, which differs from VM to VM."""


def selector_from_json(selector: Object | None) -> Selector | None:
    """A label selector; matchLabels come first, ordered by key. None stays None: it selects
    nothing, where an empty selector selects everything."""
    if selector is None:
        return None
    pairs = sorted((selector.get("matchLabels") or {}).items())
    return Selector(
        (
            *(Requirement(key, "In", (value,)) for key, value in pairs),
            *_requirements(selector.get("matchExpressions")),
        )
    )


def node_term_from_json(term: Object) -> NodeTerm:
    """One entry of nodeSelectorTerms, or the `preference` of a preferred one."""
    return NodeTerm(
        _requirements(term.get("matchExpressions")), _requirements(term.get("matchFields"))
    )


def placement_from_spec(spec: Object) -> Placement:
    """The placement fields of a pod spec (or of a VMI spec), read as they stand: matchLabelKeys
    and mismatchLabelKeys are not merged into the selectors."""
    return _placement(spec, pod_term_from_json)


def placement_of_owner(spec: Object, own: str) -> tuple[Placement, int]:
    """The placement of a stored pod whose created-by is `own`, with the requirements that only
    leave the pod itself out taken from the selectors: see PodTerm.differs_in. The second value is
    how many such requirements there were."""
    removed = 0

    def pod_term(term: Object) -> PodTerm:
        nonlocal removed
        parsed = _without_own(pod_term_from_json(term), own)
        removed += bool(parsed.differs_in)
        return parsed

    return _placement(spec, pod_term), removed


def spread_from_json(constraint: Object) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=constraint.get("topologyKey") or "",
        max_skew=constraint.get("maxSkew", 0),
        when_unsatisfiable=constraint.get("whenUnsatisfiable") or "",
        selector=selector_from_json(constraint.get("labelSelector")),
        match_label_keys=tuple(constraint.get("matchLabelKeys") or ()),
        min_domains=constraint.get("minDomains"),
        node_affinity_policy=constraint.get("nodeAffinityPolicy") or "Honor",
        node_taints_policy=constraint.get("nodeTaintsPolicy") or "Ignore",
    )


def merge_match_label_keys(placement: Placement, labels: Labels) -> Placement:
    """What the API server stores when a pod with these labels is created with `placement`.

    Each key of matchLabelKeys that the pod has becomes `key In [own value]` of the selector, each
    of mismatchLabelKeys `key NotIn [own value]` (Kubernetes 1.31 for pod terms, 1.34 for spread).
    Doing it twice changes nothing.
    """
    return dataclasses.replace(
        placement,
        affinity=tuple(with_own_labels(term, labels) for term in placement.affinity),
        anti_affinity=tuple(with_own_labels(term, labels) for term in placement.anti_affinity),
        preferred_affinity=_merged_weighted(placement.preferred_affinity, labels),
        preferred_anti_affinity=_merged_weighted(placement.preferred_anti_affinity, labels),
        spread=tuple(
            dataclasses.replace(x, selector=with_own_values(x.selector, x.match_label_keys, labels))
            for x in placement.spread
        ),
    )


def pod_term_from_json(term: Object) -> PodTerm:
    """One required pod affinity or anti-affinity term, or the `podAffinityTerm` of another."""
    return PodTerm(
        topology_key=term.get("topologyKey") or "",
        selector=selector_from_json(term.get("labelSelector")),
        namespaces=tuple(term.get("namespaces") or ()),
        namespace_selector=selector_from_json(term.get("namespaceSelector")),
        match_label_keys=tuple(term.get("matchLabelKeys") or ()),
        mismatch_label_keys=tuple(term.get("mismatchLabelKeys") or ()),
    )


def with_own_values(
    selector: Selector | None, keys: tuple[str, ...], labels: Labels
) -> Selector | None:
    """The selector with `key In [own value]` for each of `keys` that `labels` have."""
    if selector is None or not keys:
        return selector
    own = (Requirement(key, "In", (labels[key],)) for key in keys if key in labels)
    listed = selector.requirements
    return Selector(listed + tuple(requirement for requirement in own if requirement not in listed))


def with_own_labels(term: PodTerm, labels: Labels) -> PodTerm:
    """The term as the API server stores it for a pod with these labels."""
    keys = (*term.match_label_keys, *term.mismatch_label_keys)
    if term.selector is None or not keys:
        return term
    listed = list(term.selector.requirements)
    own = [
        *(Requirement(k, "In", (labels[k],)) for k in term.match_label_keys if k in labels),
        *(Requirement(k, "NotIn", (labels[k],)) for k in term.mismatch_label_keys if k in labels),
    ]
    listed += [
        requirement
        for requirement in own
        if requirement not in listed
        and not (requirement.operator == "NotIn" and requirement.key == term.differs_in)
    ]
    merged = dataclasses.replace(term, selector=Selector(tuple(listed)))
    return _without_own(merged, labels[CREATED_BY]) if CREATED_BY in labels else merged


def _placement(spec: Object, pod_term: t.Callable[[Object], PodTerm]) -> Placement:
    affinity: Object = spec.get("affinity") or {}
    nodes: Object = affinity.get("nodeAffinity") or {}
    required = nodes.get(REQUIRED)
    affine: Object = affinity.get("podAffinity") or {}
    anti: Object = affinity.get("podAntiAffinity") or {}
    return Placement(
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        node_terms=None
        if required is None
        else tuple(map(node_term_from_json, required.get("nodeSelectorTerms") or ())),
        preferred_node_terms=tuple(
            (entry.get("weight", 0), node_term_from_json(entry.get("preference") or {}))
            for entry in nodes.get(PREFERRED) or ()
        ),
        affinity=tuple(map(pod_term, affine.get(REQUIRED) or ())),
        anti_affinity=tuple(map(pod_term, anti.get(REQUIRED) or ())),
        preferred_affinity=_weighted(affine, pod_term),
        preferred_anti_affinity=_weighted(anti, pod_term),
        spread=tuple(map(spread_from_json, spec.get("topologySpreadConstraints") or ())),
        tolerations=tuple(map(_toleration, spec.get("tolerations") or ())),
    )


def _requirements(listed: t.Iterable[Object] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            requirement.get("key") or "",
            requirement.get("operator") or "",
            tuple(requirement.get("values") or ()),
        )
        for requirement in listed or ()
    )


def _weighted(
    affinity: Object, pod_term: t.Callable[[Object], PodTerm]
) -> tuple[tuple[int, PodTerm], ...]:
    return tuple(
        (entry.get("weight", 0), pod_term(entry.get("podAffinityTerm") or {}))
        for entry in affinity.get(PREFERRED) or ()
    )


def _toleration(toleration: Object) -> Toleration:
    return Toleration(
        key=toleration.get("key") or "",
        operator=toleration.get("operator") or "Equal",
        value=toleration.get("value") or "",
        effect=toleration.get("effect") or "",
        seconds=toleration.get("tolerationSeconds"),
    )


def _merged_weighted(
    terms: tuple[tuple[int, PodTerm], ...], labels: Labels
) -> tuple[tuple[int, PodTerm], ...]:
    return tuple((weight, with_own_labels(term, labels)) for weight, term in terms)


def _without_own(term: PodTerm, own: str) -> PodTerm:
    if term.selector is None or term.differs_in:
        return term
    differs = Requirement(CREATED_BY, "NotIn", (own,))
    kept = tuple(x for x in term.selector.requirements if x != differs)
    if len(kept) == len(term.selector.requirements):
        return term
    return dataclasses.replace(term, selector=Selector(kept), differs_in=CREATED_BY)
