# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the running pod carry what its workload declares, and if not, what differs?

EvaluatedInstance has both for a placed instance: its running pod, and the pod as declared.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass
from functools import cached_property

from ..kubevirt.labels import (
    adds_node_key,
    adds_toleration,
    carried_labels,
    cluster_node_selector,
)
from ..kubevirt.next_pod import pod_as_declared
from ..model.json_pointer import JSON
from ..model.objects import (
    Labels,
    NodeTerm,
    Placement,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    Selector,
    SpreadConstraint,
)
from ..model.placement_manifests import (
    CREATED_BY,
    PREFERRED,
    REQUIRED,
    selector_from_json,
    spread_from_json,
)
from ..model.snapshot import Instance, Platform, Snapshot, Vmi, Workload
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..view.view import ClusterView
from .declared import Declared, DeclaredReader
from .terms import Term, TermKind, added_by_platform, pod_terms_of, selecting_keys, terms_of

Object = t.Mapping[str, JSON]
_NONE: t.Final[Object] = {}

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

    def __init__(self, snapshot: Snapshot, reader: DeclaredReader) -> None:
        self._snapshot = snapshot
        self._reader = reader
        self._templates = TemplateMatcher(snapshot.platform)
        self._own_keys: dict[int, tuple[Placement, tuple[str, ...]]] = {}
        self._terms: dict[t.Hashable, frozenset[Term]] = {}
        self._alike: set[t.Hashable] = set()

    def is_plainly_enforced(self, workload: Workload, pod: Pod) -> bool:
        """Whether `pod` was made from just the template of its workload: then nothing drifted. A no
        is no answer."""
        return self._templates.matches(workload.template, pod)

    def drift(self, workload: Workload, pod: Pod, vmi: Vmi | None) -> Drift | None:
        """What differs; None where all that is declared is enforced."""
        declared = self._reader.declared(workload)
        labels = self._missing_labels(declared.labels, pod.labels)
        identity = self._identity(pod)
        pair = id(declared.placement), identity
        if not labels and (pair in self._alike or self.is_plainly_enforced(workload, pod)):
            self._alike.add(pair)
            return None
        running = self._running_terms(pod, identity)
        missing = declared.terms - running
        stale = self._stale(declared, running, vmi, workload)
        if missing or stale or labels:
            reached = vmi is not None and self._reached(missing, stale, labels, vmi)
            return Drift(missing, stale, labels, reached)
        self._alike.add(pair)
        return None

    @cached_property
    def _selecting(self) -> frozenset[str]:
        """The label keys that some term selects pods by. Another label that a pod lacks changes
        nothing about where anything may run."""
        placements = {id(pod.placement): pod.placement for pod in self._snapshot.pods}
        for workload in self._snapshot.workloads:
            placement = self._reader.declared(workload).placement
            placements[id(placement)] = placement
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
        entry = self._own_keys.get(id(placement))
        if entry is None:
            entry = self._own_keys[id(placement)] = placement, _own_keys(placement)
        return id(placement), tuple(pod.labels.get(key) for key in entry[1])

    def _running_terms(self, pod: Pod, identity: t.Hashable) -> frozenset[Term]:
        terms = self._terms.get(identity)
        if terms is None:
            terms = self._terms[identity] = frozenset(terms_of(pod.placement, pod.labels))
        return terms

    def _stale(
        self,
        declared: Declared,
        running: frozenset[Term],
        vmi: Vmi | None,
        workload: Workload,
    ) -> frozenset[Term]:
        """Only for VMIs: admission may add anything to other pods, and their controllers replace
        them on their own."""
        extra = frozenset(
            x
            for x in running - declared.terms
            if not added_by_platform(x) and not _is_narrowed(x, declared.terms)
        )
        if not extra or vmi is None:
            return frozenset()
        kept = self._reader.placement(vmi.spec)[1].terms
        own_keys = "instancetype" not in (workload.manifest.get("spec") or {})
        return frozenset(
            x for x in extra if x.kind not in _FROM_INSTANCE or (own_keys and x in kept)
        )

    def _reached(
        self,
        missing: frozenset[Term],
        stale: frozenset[Term],
        labels: tuple[str, ...],
        vmi: Vmi,
    ) -> bool:
        vmi_terms = self._reader.placement(vmi.spec)[1].terms
        return (
            missing <= vmi_terms
            and not stale & vmi_terms
            and all(key in vmi.labels for key in labels)
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

    The template is compared as JSON: of a hundred thousand templates none is parsed.
    """

    def __init__(self, platform: Platform) -> None:
        self._selects_nodes = bool(cluster_node_selector(platform))
        """Pods that were made before the cluster selected nodes have their template, and not its selector."""
        self._same: dict[int, tuple[Placement, _Fields]] = {}
        self._carried: set[str] = set()
        """Labels that a successor carries whether or not its template names them."""
        self._node_keys: dict[str, bool] = {}

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
        return self._same_placement(spec, pod.placement)

    def _same_placement(self, spec: Object, placement: Placement) -> bool:
        get = spec.get
        fields: _Fields = (
            get("affinity"),
            get("nodeSelector"),
            get("tolerations"),
            get("topologySpreadConstraints"),
        )
        entry = self._same.get(id(placement))
        if entry is not None and entry[1] == fields:
            return True
        if not self._compare(fields, placement):
            return False
        self._same[id(placement)] = placement, fields
        return True

    def _compare(self, fields: _Fields, running: Placement) -> bool:
        affinity, selector, tolerations, spread = fields
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

    def _same_nodes(self, declared: Object | None, running: tuple[NodeTerm, ...] | None) -> bool:
        """One term at most, equal but for the expressions that KubeVirt adds."""
        if running is None:
            return declared is None
        if len(running) != 1 or running[0].fields:
            return False
        own = [
            expression for expression in running[0].expressions if not self._adds(expression.key)
        ]
        if declared is None:
            return not own
        terms: t.Sequence[Object] = declared.get("nodeSelectorTerms") or ()
        if len(terms) != 1 or terms[0].get("matchFields"):
            return False
        listed = terms[0].get("matchExpressions") or ()
        return len(own) == len(listed) > 0 and all(map(_same_requirement, listed, own))

    def _adds(self, key: str) -> bool:
        """Whether the platform makes pods ask for this node label."""
        adds = self._node_keys.get(key)
        if adds is None:
            adds = self._node_keys[key] = adds_node_key(key)
        return adds


def _same_affinity(declared: Object, running: Placement) -> bool:
    near = declared.get("podAffinity") or _NONE
    apart = declared.get("podAntiAffinity") or _NONE
    return (
        _same_terms(near.get(REQUIRED) or (), running.affinity)
        and _same_terms(apart.get(REQUIRED) or (), running.anti_affinity)
        and _same_weighted(near.get(PREFERRED) or (), running.preferred_affinity)
        and _same_weighted(apart.get(PREFERRED) or (), running.preferred_anti_affinity)
    )


def _same_spread(declared: t.Sequence[Object], running: tuple[SpreadConstraint, ...]) -> bool:
    if not declared and not running:
        return True
    return len(declared) == len(running) and all(
        not there.match_label_keys and spread_from_json(here) == there
        for here, there in zip(declared, running, strict=True)
    )


def _same_requirement(declared: Object, running: Requirement) -> bool:
    return (
        declared.get("key") == running.key
        and declared.get("operator") == running.operator
        and tuple(declared.get("values") or ()) == running.values
    )


def _same_terms(declared: t.Sequence[Object], running: tuple[PodTerm, ...]) -> bool:
    if not declared and not running:
        return True
    return len(declared) == len(running) and all(map(_same_term, declared, running))


def _same_weighted(declared: t.Sequence[Object], running: tuple[tuple[int, PodTerm], ...]) -> bool:
    if not declared and not running:
        return True
    return len(declared) == len(running) and all(
        here.get("weight", 0) == weight and _same_term(here.get("podAffinityTerm") or _NONE, term)
        for here, (weight, term) in zip(declared, running, strict=True)
    )


def _same_term(declared: Object, running: PodTerm) -> bool:
    """`running` may have the pod's own created-by taken out (see PodTerm.differs_in) or merged in."""
    mismatched = tuple(declared.get("mismatchLabelKeys") or ())
    return (
        declared.get("topologyKey") == running.topology_key
        and not declared.get("matchLabelKeys")
        and not running.match_label_keys
        and not declared.get("namespaceSelector")
        and running.namespace_selector is None
        and tuple(declared.get("namespaces") or ()) == running.namespaces
        and mismatched == running.mismatch_label_keys
        and mismatched == ((running.differs_in,) if running.differs_in else ())
        and running.differs_in in ("", CREATED_BY)
        and _same_selector(declared.get("labelSelector"), running.selector)
    )


def _same_selector(declared: Object | None, running: Selector | None) -> bool:
    if declared is None or running is None:
        return declared is None and running is None
    if declared.get("matchLabels"):
        return selector_from_json(declared) == running
    listed = declared.get("matchExpressions") or ()
    return len(listed) == len(running.requirements) and all(
        map(_same_requirement, listed, running.requirements)
    )


@dataclass(frozen=True, slots=True)
class EvaluatedInstance:
    """`pod` is the running pod. `declared_pod` is the pod that would be in its place if what is
    declared were enforced; it is `pod` itself where that is so."""

    instance: Instance
    pod: Pod
    declared_pod: Pod
    workload: Workload | None = None
    declared: Declared | None = None
    drift: Drift | None = None

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def node(self) -> str:
        return self.pod.node_name


@dataclass(frozen=True)
class EvaluatedInstances:
    """`placed` run on a node. `waiting` do not: unbound pods, VMIs without a pod. `targets` are pods
    that a live migration makes beside the one that the guest runs in, or has left behind."""

    placed: tuple[EvaluatedInstance, ...]
    waiting: tuple[Instance, ...]
    targets: tuple[tuple[Instance, Pod], ...]
    reader: DeclaredReader


def evaluated_instances(
    view: ClusterView, reader: DeclaredReader | None = None
) -> EvaluatedInstances:
    """All instances of a cluster. `reader` is one of its snapshot."""
    reader = reader or DeclaredReader(view.snapshot)
    comparison = DriftComparison(view.snapshot, reader)
    placed, waiting = [], []
    for instance in view.instances:
        pod = instance.pod
        if pod is None or pod.node_name not in view.nodes:
            waiting.append(instance)
        else:
            workload = view.workload_of(instance)
            placed.append(_evaluated(instance, pod, workload, comparison, reader))
    return EvaluatedInstances(tuple(placed), tuple(waiting), _targets(view), reader)


def _evaluated(
    instance: Instance,
    pod: Pod,
    workload: Workload | None,
    comparison: DriftComparison,
    reader: DeclaredReader,
) -> EvaluatedInstance:
    if workload is None:
        return EvaluatedInstance(instance, pod, pod)
    declared = reader.declared(workload)
    drift = comparison.drift(workload, pod, instance.vmi)
    if drift is None:
        return EvaluatedInstance(instance, pod, pod, workload, declared)
    declared_pod = pod_as_declared(pod, instance.vmi, declared.placement, declared.labels)
    return EvaluatedInstance(instance, pod, declared_pod, workload, declared, drift)


def _targets(view: ClusterView) -> tuple[tuple[Instance, Pod], ...]:
    launchers = view.launcher_pods
    return tuple(
        (instance, pod)
        for instance in view.instances
        if instance.vmi is not None and len(launchers.get(instance.uid, ())) > 1
        for pod in launchers[instance.uid]
        if instance.pod is not None and pod is not instance.pod
    )


@contextlib.contextmanager
def declared_cluster(index: Index, instances: EvaluatedInstances) -> t.Iterator[None]:
    """While it lasts, every instance is on its node as its workload declares it. Pods that
    migrations make and leave behind are not there: an instance does not compete with itself, and
    violates nothing where it no longer runs."""
    with contextlib.ExitStack() as reverts:
        for _instance, pod in instances.targets:
            if pod_key(pod) in index:
                node = index.node_of(pod_key(pod))
                reverts.callback(index.place, index.remove(pod_key(pod)), node)
        for instance in instances.placed:
            if instance.declared_pod is not instance.pod:
                reverts.callback(index.place, index.remove(instance.key), instance.node)
                index.place(instance.declared_pod, instance.node)
                reverts.callback(index.remove, instance.key)
        yield


def by_pod(instances: t.Iterable[EvaluatedInstance]) -> dict[Ref, EvaluatedInstance]:
    """Instances by the reference of their pod."""
    return {instance.pod.ref: instance for instance in instances}
