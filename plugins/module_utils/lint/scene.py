# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lint looks at: carriers of terms, and as much of a cluster around them as is known.

None stands for "not known" everywhere here: without a cluster there are no nodes to ask, and that
is not the same as a cluster without nodes.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ..model.finding import Finding, Severity
from ..model.objects import (
    Labels,
    Namespace,
    Node,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    SpreadConstraint,
)
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.rule import RuleId
from ..model.snapshot import MachineInstance, Unreadable, Workload
from ..model.topology import Topology
from ..rules.compile import POD_TEMPLATE_HASH
from ..rules.machine_labels import HOSTNAME as GUEST_HOSTNAME
from ..rules.machine_labels import MACHINE_ID, hostname, machine_id
from ..scheduling.node_sets import nodes_of_placement
from ..scheduling.node_table import NodeTable
from ..scheduling.tolerations import Tolerating
from ..verdicts.declared import Declared, Reader
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Kind, Term, requirements_of, selecting_keys
from .population import Population

ANY_VALUE = "?"
"""Value of a label of which only the key is known before a pod exists."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A carrier of terms. `labels` are those that its pods carry; `copies` how many there are to
    be, None where that is not known. `workload` is None for a rule that was not looked up, and for
    what is no workload. `spec` is what its pods are made from, None for a rule. `owned` is a pod that
    somebody makes who may be a subject, too."""

    ref: Ref
    declared: Declared
    labels: Labels
    virtual: bool
    copies: int | None = None
    workload: Workload | None = None
    machines: tuple[MachineInstance, ...] = ()
    spec: t.Mapping[str, JSON] | None = None
    owned: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its terms in an order that does not change."""
        return _ordered(self.declared.terms)

    def rule(self, term: Term) -> str:
        """The name of the first rule that owns a term; empty where none does."""
        owners = self.declared.owners.get(term, ())
        return RuleId.parse(owners[0]).name if owners else ""

    def node_rule(self) -> str:
        """The name of the first rule that requires something of nodes; empty where none does."""
        return next((name for name, _parts in self.node_rules()), "")

    def node_rules(self) -> t.Iterator[tuple[str, tuple[Requirement, ...]]]:
        """The names of the rules that require something of nodes, and what: of rules that stand in
        a template, and of those that are looked at by themselves."""
        for rule in self.declared.rules:
            if rule.nodes is not None and rule.nodes.asks:
                pairs = [Requirement(key, "In", (value,)) for key, value in rule.nodes.pairs]
                terms = (rule.nodes.term, *rule.nodes.any_of)
                parts = [part for term in terms for part in term.expressions]
                yield RuleId.parse(rule.rule).name, (*pairs, *parts)
        for term, owners in () if self.declared.rules else self.declared.owners.items():
            if term.kind in (Kind.NODE_SELECTOR, Kind.NODE_AFFINITY):
                yield RuleId.parse(owners[0]).name, requirements_of(term)

    def finding(
        self, term: Term | None, name: str, severity: Severity, why: str, advice: str
    ) -> Finding:
        """A finding about one of its terms, or (None) about what it requires of nodes."""
        rule = self.rule(term) if term is not None else self.node_rule()
        return Finding(name, severity, why, advice, (self.ref,), rule)


@dataclass(frozen=True)
class Scene:
    subjects: tuple[Subject, ...]
    topology: Topology
    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    namespaces: tuple[Namespace, ...] | None = None
    platform: Platform | None = None
    all_subjects: tuple[Subject, ...] = ()
    """Those of `subjects`, and others that are not looked at but may be selected."""
    unreadable: tuple[Unreadable, ...] = field(default=())

    @cached_property
    def table(self) -> NodeTable:
        return NodeTable(self.nodes or ())

    @cached_property
    def _keys(self) -> frozenset[str]:
        return selecting_keys(subject.declared.placement for subject in self.everybody)

    @property
    def everybody(self) -> tuple[Subject, ...]:
        return self.all_subjects or self.subjects

    @cached_property
    def _carriers(self) -> Population[Subject]:
        entries = ((s.ref.namespace, s.labels, s) for s in self.everybody)
        return Population(entries, self.namespaces, self._keys)

    @cached_property
    def _running(self) -> Population[Pod]:
        alive = (pod for pod in self.pods or () if not pod.finished)
        entries = ((pod.namespace, pod.labels, pod) for pod in alive)
        return Population(entries, self.namespaces, self._keys)

    def selected(self, subject: Subject, term: Term) -> tuple[Subject, ...] | None:
        """The carriers whose pods a term selects; None where namespaces would have to be known."""
        return self._carriers.selected(_chosen(term), subject.ref.namespace)

    def selects_somebody(self, subject: Subject, term: Term) -> bool | None:
        """Whether any carrier's pod or any pod there is is selected; None where nobody knows."""
        carriers = self.selected(subject, term)
        if carriers is None or carriers:
            return None if carriers is None else True
        if self.pods is None:
            return None
        return bool(self._running.selected(_chosen(term), subject.ref.namespace))

    def running(self, subject: Subject, term: Term) -> tuple[Pod, ...] | None:
        """The pods that a term selects; None where pods, or namespaces, would have to be known."""
        if self.pods is None:
            return None
        return self._running.selected(_chosen(term), subject.ref.namespace)

    def selects_itself(self, subject: Subject, term: Term) -> bool:
        """Whether a term of a subject selects the subject's own pods."""
        found = self.selected(subject, term)
        return found is not None and any(other.ref == subject.ref for other in found)

    def eligible(self, subject: Subject) -> int:
        """The nodes that take the subject's pods by its node terms and tolerations, as a set of
        the table; cordons pass, so they do not count."""
        return self._eligible.of(subject)

    @cached_property
    def _eligible(self) -> _Eligible:
        return _Eligible(self.table)

    def carried_keys(self) -> frozenset[str]:
        """The label keys that some node has."""
        return self._carried

    @cached_property
    def _carried(self) -> frozenset[str]:
        return frozenset(key for node in self.nodes or () for key in node.labels)


class _Eligible:
    """Sets of nodes by what a placement asks of them; equal ones are worked out once."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._tolerating = Tolerating(table, comparison=False)
        self._known: dict[t.Hashable, int] = {}

    def of(self, subject: Subject) -> int:
        said = subject.declared.placement
        key = (said.node_selector, said.node_terms, said.tolerations)
        if key not in self._known:
            tolerating = self._tolerating.nodes(said.tolerations)
            self._known[key] = nodes_of_placement(said, self._table) & tolerating
        return self._known[key]


def subject_of(
    workload: Workload, reader: Reader, machines: tuple[MachineInstance, ...] = ()
) -> Subject:
    """A workload as lint sees it."""
    spec = workload.manifest.get("spec") or {}
    copies = 1 if workload.ref.kind == "VirtualMachine" else spec.get("replicas", 1)
    return Subject(
        workload.ref,
        reader.declared(workload),
        pod_labels(workload),
        workload.kind.virtual_machines,
        None if workload.ref.kind == "DaemonSet" else copies,
        workload,
        machines,
        workload.template.get("spec") or {},
    )


def pod_labels(workload: Workload) -> dict[str, str]:
    """The labels of the workload's pods, as far as they are known before there are any."""
    labels = dict(workload.template_labels)
    if not workload.kind.virtual_machines:
        return {**labels, POD_TEMPLATE_HASH: ANY_VALUE}
    own = {"kubevirt.io": "virt-launcher", CREATED_BY: ANY_VALUE}
    if workload.ref.kind == "VirtualMachine":
        own[MACHINE_ID] = machine_id(workload.ref.name)
        own[GUEST_HOSTNAME] = hostname(workload)
    return {**labels, **own}


@functools.lru_cache(maxsize=65536)
def _ordered(terms: frozenset[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: (term.kind, str(term.said))))


def _chosen(term: Term) -> PodTerm:
    """A pod term as it is; a spread constraint as the pod term that selects what it counts."""
    said = term.said
    if isinstance(said, SpreadConstraint):
        return PodTerm(said.topology_key, said.selector)
    return t.cast(PodTerm, said)
