# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms of others mean the same as the terms of a rule, though they are not equal?

Such a term is in the same place of the template (required or preferred; affinity, anti-affinity or spread) as
the rule's, over the same topology key and about the same namespaces. Its selector is missing, so that it
selects no pod, or it selects the pods that the rule's selects. matchLabelKeys, mismatchLabelKeys,
nodeTaintsPolicy and the weight may differ: they are what a rule does better.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from functools import cached_property

from ..kubevirt.labels import LAUNCHER_LABEL, VM_HOSTNAME, VMI_ID, hostname, vmi_id
from ..model.json_pointer import JSON
from ..model.objects import Labels, Ref
from ..model.placement_manifests import selector_from_json
from ..model.snapshot import Workload
from ..scheduler.labels import matches
from ..view.view import ClusterView
from .term_slots import (
    POD_TERMS,
    REVISION_KEYS,
    WEIGHTED_POD_TERMS,
    TemplateTerm,
    TermLocation,
    canonical_text,
)

_UNIONS = (TermLocation.ANTI_AFFINITY, TermLocation.PREFERRED_ANTI_AFFINITY)
"""Several anti-affinity terms exclude what any of them selects; of affinity terms each one binds."""

_SPREAD_DEFAULTS = {"minDomains": 1, "nodeAffinityPolicy": "Honor"}

Pods = frozenset[object]


class SelectablePods:
    """The pods of a cluster with the labels that they have once the labels of rules are written; for a workload
    without a pod, the labels of the next one. `added` are the labels of rules by workload."""

    def __init__(self, view: ClusterView, added: t.Mapping[Ref, Labels]) -> None:
        self._view = view
        self._added = added
        self._selected: dict[tuple[str, str], Pods | None] = {}

    def selected(self, namespace: str, selector: JSON) -> Pods | None:
        """The pods of a namespace that a labelSelector selects; None where pods could not be read."""
        if self._view.snapshot.why_unreadable("pods", namespace) is not None:
            return None
        key = namespace, canonical_text(selector)
        if key not in self._selected:
            parsed = selector_from_json(selector)
            chosen = (pod for pod, labels in self._labels[namespace] if matches(parsed, labels))
            self._selected[key] = frozenset(chosen)
        return self._selected[key]

    @cached_property
    def _labels(self) -> t.Mapping[str, t.Sequence[tuple[object, Labels]]]:
        labels: dict[str, list[tuple[object, Labels]]] = defaultdict(list)
        added: dict[str, Labels] = {}
        for ref, workload in self._view.snapshot.workloads_by_ref.items():
            if workload.pool is not None:  # its pods are those of the pool
                continue
            own = self._added.get(ref, {})
            pods = self._view.pods_of(workload)
            added |= {pod.uid: own for pod in pods}
            if not pods:
                labels[ref.namespace].append((ref, {**_next_labels(workload), **own}))
        for namespace, pods in self._view.pods_by_namespace.items():
            labels[namespace] += [
                (pod.uid, {**pod.labels, **added.get(pod.uid, {})})
                for pod in pods
                if not pod.terminating
            ]
        return labels


def _next_labels(workload: Workload) -> Labels:
    """The labels of the next pod that selectors of rules name (KubeVirt: services/template.go, podLabels)."""
    if not workload.kind.run_strategy:
        return workload.template_labels
    key, value = LAUNCHER_LABEL
    of_kubevirt = {key: value, VMI_ID: vmi_id(workload.ref.name), VM_HOSTNAME: hostname(workload)}
    return {**workload.template_labels, **of_kubevirt}


class _ComparedTerm(t.NamedTuple):
    """A term as it is compared. `place` must be equal; `scope` are the namespaces, None for a namespaceSelector."""

    place: str
    scope: tuple[str, ...] | None
    selector: JSON
    keys: bool

    @property
    def selects_nothing(self) -> bool:
        return self.selector is None

    def pods(self, pods: SelectablePods) -> Pods | None:
        """The pods that it selects, whatever its keys leave out; None where that is not known."""
        if self.selects_nothing:
            return frozenset()
        if self.scope is None:
            return None
        of_namespaces = [pods.selected(namespace, self.selector) for namespace in self.scope]
        if any(selected is None for selected in of_namespaces):
            return None
        return frozenset().union(*filter(None, of_namespaces))


def _compared(entry: TemplateTerm, namespace: str) -> _ComparedTerm | None:
    """None for a term of another kind, or one that is damaged."""
    location, term = entry.location, entry.value
    if location in WEIGHTED_POD_TERMS:
        term = entry.value.get("podAffinityTerm")
    elif location not in POD_TERMS and location is not TermLocation.SPREAD:
        return None
    if not isinstance(term, dict):
        return None
    rest = {k: v for k, v in term.items() if k not in (*REVISION_KEYS, "labelSelector")}
    if location is TermLocation.SPREAD:
        rest = {**_SPREAD_DEFAULTS, **{k: v for k, v in rest.items() if k != "nodeTaintsPolicy"}}
        scope: tuple[str, ...] | None = (namespace,)
    else:
        named = rest.pop("namespaces", None) or []
        by_labels = rest.get("namespaceSelector") is not None
        scope = None if by_labels else tuple(sorted(set(named or [namespace])))
        rest["namespaces"] = sorted(set(named)) if by_labels else list(scope or ())
    keys = any(term.get(key) for key in REVISION_KEYS)
    return _ComparedTerm(
        canonical_text([str(location), rest]), scope, term.get("labelSelector"), keys
    )


def have_one_place(one: TemplateTerm, other: TemplateTerm, namespace: str) -> bool:
    """Whether two terms are in the same place of a template, over the same topology key and about the same
    namespaces, whatever they select."""
    terms = [_compared(term, namespace) for term in (one, other)]
    return None not in terms and len({term.place for term in terms if term is not None}) == 1


def is_similar(
    entry: TemplateTerm,
    rule: t.Iterable[TemplateTerm],
    namespace: str,
    pods: SelectablePods,
) -> bool:
    """Whether a term of a template means the same as a term of a rule, or as its anti-affinity terms together.
    `rule` are all terms of the rule for a workload of `namespace`."""
    term = _compared(entry, namespace)
    if term is None:
        return False
    own = [
        parsed
        for other in rule
        if other.location is entry.location
        and (parsed := _compared(other, namespace)) is not None
        and parsed.place == term.place
    ]
    if not own or term.selects_nothing:
        return bool(own)
    if any(canonical_text(x.selector) == canonical_text(term.selector) for x in own):
        return True
    selected = term.pods(pods)
    if not selected:
        return False
    chosen = [x.pods(pods) for x in own]
    known = [x for x in chosen if x is not None]
    together = len(known) == len(chosen) and entry.location in _UNIONS
    return selected in known or (together and selected == frozenset().union(*known))


def select_the_same(
    entries: t.Iterable[TemplateTerm], namespace: str, pods: SelectablePods
) -> bool:
    """Whether all these terms select the same pods, and at least one. A term with keys that leave pods out is taken
    for another."""
    terms = [_compared(entry, namespace) for entry in entries]
    if any(term is None or term.keys for term in terms):
        return False
    selected = {term.pods(pods) for term in terms if term is not None}
    return len(selected) == 1 and bool(selected.pop())
