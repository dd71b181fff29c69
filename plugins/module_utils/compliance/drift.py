# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the running pod carry what its workload declares, and if not, what differs?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ..kubevirt.labels import (
    adds_node_key,
    adds_toleration,
    carried_labels,
    cluster_node_selector,
    vm_spec,
)
from ..model.json_pointer import JSON, Object
from ..model.objects import (
    Labels,
    NodeTerm,
    Placement,
    Pod,
    PodTerm,
)
from ..model.placement_manifests import CREATED_BY, placement_from_spec
from ..model.snapshot import Platform, Snapshot, Vmi, Workload
from .declared import Declared, DeclaredReader
from .terms import Term, TermKind, added_by_platform, pod_terms_of, selecting_keys, terms_of

_Fields = tuple[JSON, JSON, JSON, JSON]
"""The placement fields of a spec: affinity, nodeSelector, tolerations, topologySpreadConstraints."""

_FROM_INSTANCE = (TermKind.NODE_SELECTOR, TermKind.TOLERATION)
"""Kinds that a migration (addedNodeSelector) or admission may add to a pod for its lifetime."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What is declared and not enforced (`missing`, `labels`), and what is enforced and no longer
    declared (`stale`). `reached`: the VMI has what the template has, so its next pod will, too."""

    missing: frozenset[Term] = frozenset()
    stale: frozenset[Term] = frozenset()
    labels: tuple[str, ...] = ()
    reached: bool = False


class DriftComparison:
    """Compares the running pods of a snapshot with what their workloads declare.

    It is a subset test, since KubeVirt and admission add terms of their own (kubevirt.labels).
    Template, VMI and running pod are compared: KubeVirt keeps the spec of a VMI and of a pod as it
    was made, but for the fields that it updates live. What is alike is compared once.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods, self._workloads = snapshot.pods, snapshot.workloads
        self._reader = snapshot.derived(DeclaredReader)
        self._own_keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[t.Hashable, frozenset[Term]] = {}
        self._alike: set[t.Hashable] = set()

    def drift(self, workload: Workload, pod: Pod, vmi: Vmi | None) -> Drift | None:
        """What differs; None where all that is declared is enforced."""
        declared = self._reader.declared(workload)
        labels = self._missing_labels(declared.labels, pod.labels)
        identity = self._identity(pod)
        pair = declared.placement.number, identity
        if not labels and pair in self._alike:
            return None
        running = self._terms.get(identity)
        if running is None:
            running = self._terms[identity] = frozenset(terms_of(pod.placement, pod.labels))
        missing, extra = declared.terms - running, _undeclared(declared, running)
        stale = self._stale(extra, vmi, workload)
        if not (missing or stale or labels):
            if not extra:  # else it depends on the VMI what is stale
                self._alike.add(pair)
            return None
        reached = False
        if vmi is not None:
            of_vmi = self._reader.placement(vmi.spec)[1].terms
            labeled = all(vmi.labels.get(key) == declared.labels[key] for key in labels)
            reached = missing <= of_vmi and not stale & of_vmi and labeled
        return Drift(missing, stale, labels, reached)

    @cached_property
    def _selecting(self) -> frozenset[str]:
        """The label keys that some term selects pods by. Another label that a pod lacks changes
        nothing about where anything may run."""
        placements = {pod.placement.number: pod.placement for pod in self._pods}
        for workload in self._workloads:
            placement = self._reader.declared(workload).placement
            placements[placement.number] = placement
        return selecting_keys(placements.values())

    def _missing_labels(self, declared: Labels, running: Labels) -> tuple[str, ...]:
        if declared.items() <= running.items():
            return ()
        return tuple(
            key
            for key, value in declared.items()
            if running.get(key) != value and key in self._selecting
        )

    def _identity(self, pod: Pod) -> t.Hashable:
        """Equal for pods with equal terms: they share one placement object, and its matchLabelKeys
        resolve to the same values."""
        placement = pod.placement
        keys = self._own_keys.get(placement.number)
        if keys is None:
            keys = self._own_keys[placement.number] = _own_keys(placement)
        return placement.number, tuple(pod.labels.get(key) for key in keys)

    def _stale(
        self, extra: frozenset[Term], vmi: Vmi | None, workload: Workload
    ) -> frozenset[Term]:
        """Only for VMIs: admission may add anything to other pods, and their controllers replace
        them on their own."""
        if not extra or vmi is None:
            return frozenset()
        kept = self._reader.placement(vmi.spec)[1].terms
        own_keys = "instancetype" not in vm_spec(workload)
        return frozenset(
            x for x in extra if x.kind not in _FROM_INSTANCE or (own_keys and x in kept)
        )


def _undeclared(declared: Declared, running: frozenset[Term]) -> frozenset[Term]:
    """The terms of a running pod that neither its workload declares nor the platform adds."""
    return frozenset(
        x
        for x in running - declared.terms
        if not added_by_platform(x) and not _is_narrowed(x, declared.terms)
    )


def _is_narrowed(running: Term, declared: t.Iterable[Term]) -> bool:
    """Whether the declared node affinity requires all that the running one does, and more: another
    rule was added, and none was removed."""
    if running.kind is not TermKind.NODE_AFFINITY:
        return False
    before = _alternatives(running)
    return any(
        all(
            any(expressions >= fewer and fields >= fewer_fields for fewer, fewer_fields in before)
            for expressions, fields in _alternatives(term)
        )
        for term in declared
        if term.kind is TermKind.NODE_AFFINITY
    )


_Alternative = tuple[frozenset[t.Hashable], frozenset[t.Hashable]]


def _alternatives(affinity: Term) -> frozenset[_Alternative]:
    """The OR-ed terms of a required node affinity, as their expressions and fields."""
    return t.cast("frozenset[_Alternative]", affinity.value)


def _own_keys(placement: Placement) -> tuple[str, ...]:
    """Keys whose value differs from pod to pod. Created-by is not among them: a placement holds it
    outside of the selector (PodTerm.differs_in)."""
    keys = [
        key
        for term in pod_terms_of(placement)
        for key in (*term.match_label_keys, *term.mismatch_label_keys)
    ]
    keys += [key for constraint in placement.spread for key in constraint.match_label_keys]
    return tuple(key for key in dict.fromkeys(keys) if key != CREATED_BY)


class TemplateMatcher:
    """Whether pods were made from exactly the current template, so that their successors are equal.
    True is certain; False leaves it to a closer comparison.

    A template is parsed only if it has other fields than the last one that a placement was compared with.
    """

    def __init__(self, platform: Platform) -> None:
        self._selects_nodes = bool(cluster_node_selector(platform))
        """Pods that were made before the cluster selected nodes have their template, and not its selector."""
        self._same: dict[int, _Fields] = {}
        self._carried: set[str] = set()
        """Labels that a successor carries whether or not its template names them."""

    def matches(self, template: Object, pod: Pod) -> bool:
        """Whether `pod` has the labels and the placement of this template, and else only what the
        platform adds. Never where the cluster selects nodes for its VMs."""
        if self._selects_nodes:
            return False
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
        get, placement = spec.get, pod.placement
        fields: _Fields = (
            get("affinity"),
            get("nodeSelector"),
            get("tolerations"),
            get("topologySpreadConstraints"),
        )
        if self._same.get(placement.number) == fields:
            return True
        if not _is_made_from(fields, placement):
            return False
        self._same[placement.number] = fields
        return True


def _is_made_from(fields: _Fields, running: Placement) -> bool:
    affinity, selector, tolerations, spread = fields
    if selector or tolerations or running.preferred_node_terms:
        return False
    if not all(adds_node_key(key) for key, _value in running.node_selector):
        return False
    if not all(map(adds_toleration, running.tolerations)):
        return False
    node_terms = running.node_terms
    if node_terms is not None:
        if len(node_terms) != 1 or node_terms[0].fields:
            return False
        own = tuple(x for x in node_terms[0].expressions if not adds_node_key(x.key))
        node_terms = (NodeTerm(own),) if own else None
    if any(constraint.match_label_keys for constraint in running.spread) or not all(
        map(_differs_by_created_by, pod_terms_of(running))
    ):
        return False
    declared = {"affinity": affinity, "topologySpreadConstraints": spread}
    return placement_from_spec(declared) == Placement(
        node_terms=node_terms,
        affinity=tuple(map(_as_written, running.affinity)),
        anti_affinity=tuple(map(_as_written, running.anti_affinity)),
        preferred_affinity=tuple((w, _as_written(x)) for w, x in running.preferred_affinity),
        preferred_anti_affinity=tuple(
            (w, _as_written(x)) for w, x in running.preferred_anti_affinity
        ),
        spread=running.spread,
    )


def _differs_by_created_by(term: PodTerm) -> bool:
    """Whether a pod's own labels have changed nothing about a term but its created-by, if that."""
    return (
        not term.match_label_keys
        and term.namespace_selector is None
        and term.differs_in in ("", CREATED_BY)
        and term.mismatch_label_keys == ((term.differs_in,) if term.differs_in else ())
    )


def _as_written(term: PodTerm) -> PodTerm:
    return replace(term, differs_in="") if term.differs_in else term
