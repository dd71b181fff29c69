# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A quick look whether a running pod says just what its template says: then its successor would, too.

Pure. The template is compared as JSON, so that of a hundred thousand templates none is parsed. Yes is
certain, no means that somebody has to look closely (verdicts.effective).
"""

from __future__ import annotations

import typing as t

from ..model.objects import (
    NodeTerm,
    Placement,
    Pod,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
)
from ..model.placement_manifest import PREFERRED, REQUIRED, selector_from_json, spread_from_json
from ..model.pointer import JSON
from ..verdicts.platform_terms import CREATED_BY, adds_node_key, adds_toleration, carried_labels

Object = t.Mapping[str, JSON]
_NONE: t.Final[Object] = {}

_Said = tuple[JSON, JSON, JSON, JSON]
"""The placement fields of a spec: affinity, nodeSelector, tolerations, topologySpreadConstraints."""


class QuickLook:
    """Answers for many pods; what is alike is compared once."""

    def __init__(self) -> None:
        self._same: dict[int, tuple[Placement, _Said]] = {}
        self._carried: set[str] = set()
        """Labels that a successor carries whether or not its template names them."""
        self._node_keys: dict[str, bool] = {}

    def says_the_same(self, template: Object, pod: Pod) -> bool:
        """Whether `pod` was made from just this template, as far as the scheduler can tell."""
        try:
            labels, spec = template["metadata"]["labels"], template["spec"]
        except (KeyError, TypeError):
            return False
        running = pod.labels
        if not labels or not spec or not labels.items() <= running.items():
            return False
        carried = self._carried
        for name in running:
            if name not in carried and name not in labels:
                if not carried_labels({name: ""}):
                    return False
                carried.add(name)
        return self._says(spec, pod.placement)

    def _says(self, spec: Object, placement: Placement) -> bool:
        get = spec.get
        said: _Said = (
            get("affinity"),
            get("nodeSelector"),
            get("tolerations"),
            get("topologySpreadConstraints"),
        )
        known = self._same.get(id(placement))
        if known is not None and known[1] == said:
            return True
        if not self._compare(said, placement):
            return False
        self._same[id(placement)] = placement, said
        return True

    def _compare(self, said: _Said, running: Placement) -> bool:
        affinity, selector, tolerations, spread = said
        if selector or tolerations or running.preferred_node_terms:
            return False
        for key, _value in running.node_selector:
            if not self._adds(key):
                return False
        for toleration in running.tolerations:
            if not adds_toleration(toleration):
                return False
        nodes = (affinity or _NONE).get("nodeAffinity") or _NONE
        return (
            not nodes.get(PREFERRED)
            and self._same_nodes(nodes.get(REQUIRED), running.node_terms)
            and _same_affinity(affinity or _NONE, running)
            and _same_spread(spread or (), running.spread)
        )

    def _same_nodes(self, said: Object | None, running: tuple[NodeTerm, ...] | None) -> bool:
        """One term at most, equal but for the expressions that KubeVirt adds."""
        if running is None:
            return said is None
        if len(running) != 1 or running[0].fields:
            return False
        own = [each for each in running[0].expressions if not self._adds(each.key)]
        if said is None:
            return not own
        terms: t.Sequence[Object] = said.get("nodeSelectorTerms") or ()
        if len(terms) != 1 or terms[0].get("matchFields"):
            return False
        listed = terms[0].get("matchExpressions") or ()
        return len(own) == len(listed) > 0 and all(map(_same_requirement, listed, own))

    def _adds(self, key: str) -> bool:
        """Whether pods ask for this label of nodes without being told."""
        found = self._node_keys.get(key)
        if found is None:
            found = self._node_keys[key] = adds_node_key(key)
        return found


def _same_affinity(said: Object, running: Placement) -> bool:
    near = said.get("podAffinity") or _NONE
    apart = said.get("podAntiAffinity") or _NONE
    return (
        _same_terms(near.get(REQUIRED) or (), running.affinity)
        and _same_terms(apart.get(REQUIRED) or (), running.anti_affinity)
        and _same_weighted(near.get(PREFERRED) or (), running.preferred_affinity)
        and _same_weighted(apart.get(PREFERRED) or (), running.preferred_anti_affinity)
    )


def _same_spread(said: t.Sequence[Object], running: tuple[SpreadConstraint, ...]) -> bool:
    if not said and not running:
        return True
    return len(said) == len(running) and all(
        not there.match_label_keys and spread_from_json(here) == there
        for here, there in zip(said, running, strict=True)
    )


def _same_requirement(said: Object, running: Requirement) -> bool:
    return (
        said.get("key") == running.key
        and said.get("operator") == running.operator
        and tuple(said.get("values") or ()) == running.values
    )


def _same_terms(said: t.Sequence[Object], running: tuple[PodTerm, ...]) -> bool:
    if not said and not running:
        return True
    return len(said) == len(running) and all(map(_same_term, said, running))


def _same_weighted(said: t.Sequence[Object], running: tuple[tuple[int, PodTerm], ...]) -> bool:
    if not said and not running:
        return True
    return len(said) == len(running) and all(
        here.get("weight", 0) == weight and _same_term(here.get("podAffinityTerm") or _NONE, term)
        for here, (weight, term) in zip(said, running, strict=True)
    )


def _same_term(said: Object, running: PodTerm) -> bool:
    """`running` may have the pod's own created-by taken out (see PodTerm.differs_in) or merged in."""
    mismatched = tuple(said.get("mismatchLabelKeys") or ())
    return (
        said.get("topologyKey") == running.topology_key
        and not said.get("matchLabelKeys")
        and not running.match_label_keys
        and not said.get("namespaceSelector")
        and running.namespace_selector is None
        and tuple(said.get("namespaces") or ()) == running.namespaces
        and mismatched == running.mismatch_label_keys
        and mismatched == ((running.differs_in,) if running.differs_in else ())
        and running.differs_in in ("", CREATED_BY)
        and _same_selector(said.get("labelSelector"), running.selector)
    )


def _same_selector(said: Object | None, running: Selector | None) -> bool:
    if said is None or running is None:
        return said is None and running is None
    if said.get("matchLabels"):
        return selector_from_json(said) == running
    listed = said.get("matchExpressions") or ()
    return len(listed) == len(running.requirements) and all(
        map(_same_requirement, listed, running.requirements)
    )
