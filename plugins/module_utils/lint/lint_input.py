# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a check know: workloads with their terms, and as much of a cluster as could be read?

None stands for "not known" everywhere here: without a cluster nodes are unknown, which is not
the same as a cluster without nodes. `Population` finds the workloads and pods that a term selects
with the scheduler's selector index.
"""

from __future__ import annotations

import math
import operator
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from ..compliance.declared import Declared, DeclaredReader
from ..compliance.terms import Term, TermSet, requirement
from ..kinds.deployment import POD_TEMPLATE_HASH
from ..kubevirt.expansion import KnownTypes
from ..kubevirt.labels import LAUNCHER_LABEL, VM_HOSTNAME, VMI_ID, hostname, vmi_id
from ..model.budget import BudgetSpec
from ..model.findings import Finding, Severity
from ..model.json_pointer import JSON, Pointer
from ..model.objects import (
    Labels,
    Namespace,
    Node,
    NodeTerm,
    Placement,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
    is_object_name,
    next_number,
)
from ..model.placement_manifests import CREATED_BY, with_own_labels
from ..model.rule import RuleId
from ..model.snapshot import Platform, Snapshot, Vmi, Workload
from ..model.topology import Topology
from ..rules.record import rules_left_by_undo
from ..scheduler.framework import PlacementInfo, PodInfo
from ..scheduler.inter_pod_affinity import AffinityTerms
from ..scheduler.labels import matches
from ..scheduler.node_affinity import nodes_of_placement
from ..scheduler.node_state import TRANSIENT_TAINTS, UNSCHEDULABLE_TAINT, TaintToleration
from ..scheduler.nodes import NodeTable
from ..scheduler.selector_index import SelectorCount, SelectorIndex
from ..view.view import ClusterView, view_of
from .next_vmi import NextPods

LabelPairs = tuple[tuple[str, str], ...]
_Member = t.TypeVar("_Member")
_NO_TERMS = PlacementInfo(Placement(), 0, 0, AffinityTerms())


class Selected(t.Sequence[_Member]):
    """What terms select: one object for all terms of a population with one result, and equal to no other, so that it
    is a key of caches."""

    def __init__(self, members: tuple[_Member, ...] = ()) -> None:
        self._members = members

    def __iter__(self) -> t.Iterator[_Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, place: t.Any) -> t.Any:
        return self._members[place]


class Population(t.Generic[_Member]):
    """Members with namespace and labels. `namespaces` None: their labels are not known. `counted` makes
    of the members that a term selects those that count."""

    def __init__(
        self,
        entries: t.Iterable[tuple[str, Labels, _Member]],
        namespaces: t.Iterable[Namespace] | None,
        counted: t.Callable[[tuple[_Member, ...]], tuple[_Member, ...]] = tuple,
    ) -> None:
        self._namespaces_known = namespaces is not None
        self._counted = counted
        self._selectors = SelectorIndex(namespaces or ())
        self._members: list[_Member] = []
        for namespace, labels, member in entries:
            pod = Pod(namespace, "", labels=labels)
            self._selectors.add(PodInfo("", pod, _NO_TERMS, node=len(self._members)))
            self._members.append(member)
        self._known: dict[SelectorCount | None, Selected[_Member]] = {None: Selected()}

    def selected(self, term: PodTerm, owner: str) -> Selected[_Member] | None:
        """The members that a term of a pod in namespace `owner` selects. None: that depends on
        labels of namespaces that are not known."""
        part = self._selectors.part_for_placed(term, owner)
        if part is None:
            return self._known[None]
        chosen = term.namespace_selector
        if chosen is not None and chosen.requirements and not self._namespaces_known:
            return None
        count = self._selectors.selector_count([part])
        if count not in self._known:
            numbers = sorted(pod_info.node for pod_info in count.members)
            members = tuple(self._members[number] for number in numbers)
            self._known[count] = Selected(self._counted(members))
        return self._known[count]


ANY_VALUE = "?"
"""Value of a label whose key alone is known before a pod exists."""


@dataclass(frozen=True, slots=True)
class LintedWorkload:
    """A workload, VMI or pod with terms. `labels` are those of its pods; `replicas` its number of
    replicas, None if unknown. `workload` is None for a stand-in of a rule, and for a VMI or pod.
    `spec` is the spec of its pods' template, None for a stand-in. `owned`: the controller of the pod
    or VMI may be a subject, too."""

    ref: Ref
    declared: Declared
    labels: Labels
    is_vm: bool
    replicas: int | None = None
    workload: Workload | None = None
    vmis: tuple[Vmi, ...] = ()
    spec: t.Mapping[str, JSON] | None = None
    owned: bool = False
    source: tuple[t.Mapping[str, JSON], Pointer] | None = None
    """The manifest of an object that is no workload, and where its template is."""
    number: int = field(default_factory=next_number, init=False, compare=False, repr=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its terms in an order that does not change."""
        return self.declared.term_set.ordered

    def owner(self, term: Term) -> str:
        """The first rule that owns a term, as `rule_set/name`, or "" for a term of no rule."""
        owners = self.declared.owners.get(term, ())
        return RuleId.parse(owners[0]).in_namespace if owners else ""

    def owner_of_requirement(self, part: Requirement) -> str:
        """The first rule that requires `part` of nodes, in whatever order its values are, as
        `rule_set/name`, or "" for a part of no rule."""
        asked = requirement(part)
        rules = self.node_rules()
        return next((name for name, parts in rules if asked in map(requirement, parts)), "")

    def node_rules(self) -> t.Iterator[tuple[str, tuple[Requirement, ...]]]:
        """The rules with requirements on nodes, as `rule_set/name`, and the requirements."""
        for rule in self.declared.rules:
            if rule.nodes is not None and rule.nodes.requires_nodes:
                pairs = [Requirement(key, "In", (value,)) for key, value in rule.nodes.pairs]
                terms = (rule.nodes.term, *rule.nodes.any_of)
                parts = [part for term in terms for part in term.expressions]
                yield RuleId.parse(rule.rule).in_namespace, (*pairs, *parts)

    def finding(
        self,
        term: Term | None,
        name: str,
        severity: Severity,
        why: str,
        advice: str,
        part: Requirement | None = None,
        named: tuple[Ref, ...] = (),
    ) -> Finding:
        """A finding about one of its terms, about a `part` of a node term, or (None) about what it
        requires of nodes. `named`: the objects that `why` names, as this workload."""
        first_node_rule = next((name for name, _parts in self.node_rules()), "")
        rule = self.owner(term) if term is not None else first_node_rule
        if not rule and part is not None:
            rule = self.owner_of_requirement(part)
        return Finding(
            name, severity, why, advice, (self.ref,), rule.rpartition("/")[2], named=named
        )


def of_each_rule(finding: Finding, owners: t.Iterable[str]) -> t.Iterator[Finding]:
    """The finding for each of these rules (`rule_set/name`), so that whichever of them is written is
    refused; as it is where there is none."""
    names = dict.fromkeys(owner.rpartition("/")[2] for owner in owners if owner)
    for name in names or (finding.rule,):
        yield replace(finding, rule=name)


def without_node_terms(subject: LintedWorkload) -> LintedWorkload:
    """The workload without the node selector and the required node affinity of its template."""
    placement = replace(subject.declared.placement, node_selector=(), node_terms=None)
    return replace(subject, declared=replace(subject.declared, placement=placement))


def _largest_forms(subjects: tuple[LintedWorkload, ...]) -> tuple[LintedWorkload, ...]:
    """Of several manifests of one workload that with the most replicas. Those with a placeholder as name, or with a
    generated one, are workloads of their own."""
    forms = defaultdict[t.Hashable, list[LintedWorkload]](list)
    for subject in subjects:
        forms[subject.ref if is_object_name(subject.ref.name) else subject.number].append(subject)
    return tuple(max(each, key=_replicas) for each in forms.values())


def _replicas(subject: LintedWorkload) -> float:
    return math.inf if subject.replicas is None else subject.replicas


@dataclass(frozen=True)
class LintInput:
    subjects: tuple[LintedWorkload, ...]
    topology: Topology
    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    namespaces: tuple[Namespace, ...] | None = None
    platform: Platform | None = None
    claim_terms: t.Mapping[tuple[str, str], tuple[NodeTerm, ...]] = field(default_factory=dict)
    """(namespace, claim) to the required node terms of the PersistentVolume bound to it."""
    access_modes: t.Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """(namespace, claim) to the access modes of the PersistentVolume bound to it, or of the claim."""
    budgets: tuple[BudgetSpec, ...] = ()
    """Disruption budgets in files."""
    all_subjects: tuple[LintedWorkload, ...] = ()
    """Those of `subjects`, and others that are not checked but may be selected."""
    view: ClusterView | None = None
    """The cluster that the pods are of."""
    cluster: Snapshot | None = None
    """The cluster on which the subjects are, or would be; None without one."""
    types: KnownTypes = field(default_factory=KnownTypes.of)
    """Instance types and preferences in files, and instance types of the cluster."""
    _selected: dict[t.Hashable, Selected[LintedWorkload] | None] = field(
        default_factory=dict, init=False
    )
    """The results of `selected` by the number of the term, and what it depends on beside that."""
    _scheduled: dict[int, Placement] = field(default_factory=dict, init=False)
    """The results of `scheduled` by the number of the subject."""
    _selected_refs: dict[t.Hashable, frozenset[Ref]] = field(default_factory=dict, init=False)
    """The results of `selected_refs` by what is selected."""
    _eligible: dict[t.Hashable, int] = field(default_factory=dict, init=False)
    """The results of `eligible` by node terms and tolerations."""
    _domains: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict, init=False)
    """The results of `_domains_of` by nodes and label key."""
    _eligible_of: dict[t.Hashable, int] = field(default_factory=dict, init=False)
    """The nodes that take pods of any of the workloads that a term selects, by these."""

    @cached_property
    def table(self) -> NodeTable:
        return NodeTable(self.nodes or ())

    def with_types(self, others: KnownTypes) -> LintInput:
        """With instance types and preferences beside those that are known already, whose node selectors the workloads
        declare then."""
        changed = replace(self, types=self.types.beside(others))
        return replace(
            changed,
            subjects=tuple(map(changed.typed, self.subjects)),
            all_subjects=tuple(map(changed.typed, self.all_subjects)),
        )

    def typed(self, subject: LintedWorkload) -> LintedWorkload:
        """The subject with the node selector of its instance type. One that was read from a cluster has it already."""
        vmi = self.next_pods.vmi(subject)
        if vmi is None or not vmi.instance_type:
            return subject
        declared, own = subject.declared, dict(subject.declared.placement.node_selector)
        selector = vmi.spec.get("nodeSelector") or {}
        added = tuple(pair for pair in selector.items() if pair[0] not in own)
        if not added:
            return subject
        placement = replace(declared.placement, node_selector=(*own.items(), *added))
        foreign = replace(declared.foreign, pairs=(*declared.foreign.pairs, *added))
        terms = TermSet(placement, declared.labels)
        return replace(
            subject,
            declared=replace(declared, placement=placement, foreign=foreign, term_set=terms),
        )

    @cached_property
    def next_pods(self) -> NextPods:
        """What the next pods of VMs ask of nodes."""
        labels = [node.labels for node in self.nodes or ()]
        return NextPods(self.types, labels, self.platform, self.cluster)

    def scheduled(self, subject: LintedWorkload, declared: Placement | None = None) -> Placement:
        """The placement of the subject's next pods. `declared`: instead of what it declares."""
        if not subject.is_vm or subject.spec is None:
            return declared or subject.declared.placement
        if declared is not None:
            return self.next_pods.placement(subject, declared)
        if subject.number not in self._scheduled:
            self._scheduled[subject.number] = self.next_pods.placement(
                subject, subject.declared.placement
            )
        return self._scheduled[subject.number]

    @cached_property
    def lasting(self) -> LintInput:
        """The same with nodes that are neither cordoned nor in trouble."""
        nodes = (
            replace(
                node, taints=tuple(x for x in node.taints if not x.key.startswith(TRANSIENT_TAINTS))
            )
            for node in self.nodes or ()
        )
        return replace(self, nodes=tuple(nodes))

    @cached_property
    def by_ref(self) -> dict[Ref, LintedWorkload]:
        """All subjects by kind, namespace and name."""
        return {subject.ref: subject for subject in self.all_subjects}

    @cached_property
    def forms(self) -> t.Mapping[Ref, t.Sequence[LintedWorkload]]:
        """The manifests of each workload: a repository may have one for each environment."""
        forms = defaultdict[Ref, list[LintedWorkload]](list)
        for subject in self.all_subjects:
            forms[subject.ref].append(subject)
        return forms

    @cached_property
    def rules_left_by_undo(self) -> frozenset[str]:
        """Rules that only workloads have which an undo left as they are: no others are to have them."""
        carried = defaultdict[str, set[Ref]](set)
        for subject in self.all_subjects:
            for rule in (*subject.declared.resting, *(x.rule for x in subject.declared.rules)):
                carried[rule].add(subject.ref)
        return rules_left_by_undo(filter(None, (x.workload for x in self.all_subjects)), carried)

    @cached_property
    def _workloads(self) -> Population[LintedWorkload]:
        entries = ((s.ref.namespace, s.labels, s) for s in self.all_subjects)
        return Population(entries, self.namespaces, _largest_forms)

    @cached_property
    def _running(self) -> Population[Pod]:
        entries = ((x.namespace, x.labels, x) for x in self.pods or () if not x.finished)
        return Population(entries, self.namespaces)

    def over(self, term: Term) -> str:
        """The name of the topology key of a pod term or a spread constraint."""
        return self.topology.name_of(term.source.topology_key)

    def selected(
        self, subject: LintedWorkload, term: Term, labels: LabelPairs | None = None
    ) -> Selected[LintedWorkload] | None:
        """The workloads whose pods a term selects; None if namespaces would have to be known. `labels` are the
        values of matchLabelKeys and mismatchLabelKeys (None: the subject's own)."""
        labels = _labels_of_keys(subject, term) if labels is None else labels
        namespace = subject.ref.namespace
        known = term.number, namespace, labels
        if known not in self._selected:
            self._selected[known] = self._workloads.selected(_pod_term(term, labels), namespace)
        return self._selected[known]

    def selected_by(self, selector: Selector | None, namespace: str) -> t.Sequence[LintedWorkload]:
        """The workloads of a namespace whose pods a selector selects."""
        return self._workloads.selected(PodTerm("", selector), namespace) or ()

    def selected_refs(self, subject: LintedWorkload, term: Term) -> frozenset[Ref]:
        """The references of the workloads whose pods a term selects; one set for all terms with one result."""
        selected = self.selected(subject, term) or ()
        if selected not in self._selected_refs:
            refs = frozenset(workload.ref for workload in selected)
            self._selected_refs[selected] = self._selected_refs.setdefault(refs, refs)
        return self._selected_refs[selected]

    def selects_any_workload(self, subject: LintedWorkload, term: Term) -> bool | None:
        """As `selects_any_pod`, of the pods that workloads will have."""
        selected = self.selected(subject, term, ())
        return None if selected is None else bool(selected)

    def selects_any_pod(self, subject: LintedWorkload, term: Term) -> bool | None:
        """Whether the term selects the pod of any workload, or any existing pod, whatever its matchLabelKeys
        and mismatchLabelKeys are; None if unknown."""
        of_workloads = self.selects_any_workload(subject, term)
        if of_workloads is not False or self.pods is None:
            return of_workloads or None
        return bool(self._running.selected(_pod_term(term, ()), subject.ref.namespace))

    def running(self, subject: LintedWorkload, term: Term) -> Selected[Pod] | None:
        """The pods that a term selects; None if pods or namespaces would have to be known."""
        if self.pods is None:
            return None
        return self._running.selected(pod_term_of(subject, term), subject.ref.namespace)

    def workload_of(self, pod: Pod) -> Ref | None:
        """The workload whose instance a running pod is; None if it is of none, or that is not known."""
        instance = self.view.instances_by_pod.get(pod.ref) if self.view is not None else None
        return instance.workload if instance is not None else None

    def selects_itself(self, subject: LintedWorkload, term: Term) -> bool:
        """Whether a term of a subject selects the subject's own pods, and not only those of another form of it."""
        return subject.ref in self.selected_refs(subject, term) and matches(
            pod_term_of(subject, term).selector, subject.labels
        )

    def eligible(self, subject: LintedWorkload) -> int:
        """The nodes that take the subject's pods by its node terms and tolerations, as a set of
        the table; cordons pass, so they do not count."""
        placement = self.scheduled(subject)
        if unknown := self.unknown_keys:
            placement = without_requirements(placement, lambda x: x.key in unknown)
        key = (placement.node_selector, placement.node_terms, placement.tolerations)
        if key not in self._eligible:
            self._eligible[key] = nodes_of_placement(placement, self.table) & self.tolerated(
                subject
            )
        return self._eligible[key]

    def tolerated(self, subject: LintedWorkload) -> int:
        """The nodes whose taints the subject's pods tolerate, as a set of the table."""
        return self._taints.tolerated_nodes(subject.declared.placement.tolerations)

    def cordoned(self, subject: LintedWorkload) -> int:
        """The nodes that do not take the subject's pods only because they are cordoned, as a set of
        the table."""
        placement = self.scheduled(subject)
        by_cordon = Toleration(UNSCHEDULABLE_TAINT.key, "Exists")
        takes = self._taints.tolerated_nodes((*placement.tolerations, by_cordon))
        takes &= nodes_of_placement(placement, self.table) & self.table.cordoned
        return takes & ~self.eligible(subject)

    @cached_property
    def _taints(self) -> TaintToleration:
        return TaintToleration(self.table)

    def eligible_domains(self, subject: LintedWorkload, key: str) -> dict[str, int]:
        """The domains of a key with a node that takes the subject's pods, and how many such nodes
        there are. One answer serves all subjects with the same nodes."""
        return self._domains_of(self.eligible(subject), key)

    def shared_domains(self, subject: LintedWorkload, term: Term, key: str) -> t.Collection[str]:
        """The domains of a key that take the subject's pods, or pods of a workload that the term selects."""
        selected = self.selected(subject, term) or ()
        if selected not in self._eligible_of:
            self._eligible_of[selected] = reduce(operator.or_, map(self.eligible, selected), 0)
        return self._domains_of(self._eligible_of[selected] | self.eligible(subject), key)

    def _domains_of(self, nodes: int, key: str) -> dict[str, int]:
        """The domains of a key with any of these nodes, and with how many of them."""
        if (nodes, key) not in self._domains:
            self._domains[nodes, key] = {
                name: count
                for name, members in self.table.domains(key).items()
                if (count := (members & nodes).bit_count())
            }
        return self._domains[nodes, key]

    @cached_property
    def carried_keys(self) -> frozenset[str]:
        """The label keys that some node has."""
        return frozenset(key for node in self.nodes or () for key in node.labels)

    @cached_property
    def unknown_keys(self) -> frozenset[str]:
        """The label keys that the kubelet gives to each node (pkg/kubelet/kubelet_node_status.go), and that no Node
        manifest has: nothing is known of their values."""
        of_manifests = self.nodes and self.cluster is None
        return _OF_KUBELET - self.carried_keys if of_manifests else frozenset()


_OF_KUBELET = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})


def without_requirements(
    placement: Placement, is_left_out: t.Callable[[Requirement], bool]
) -> Placement:
    """The placement without some requirements on nodes. If no node satisfies it, none satisfies the whole one."""
    selector = tuple(
        pair
        for pair in placement.node_selector
        if not is_left_out(Requirement(pair[0], "In", (pair[1],)))
    )
    terms = placement.node_terms or ()
    left = tuple(
        replace(x, expressions=tuple(part for part in x.expressions if not is_left_out(part)))
        for x in terms
    )
    is_open = any(
        x != y and not (x.expressions or x.fields) for x, y in zip(left, terms, strict=True)
    )
    node_terms = None if is_open or placement.node_terms is None else left
    return replace(placement, node_selector=selector, node_terms=node_terms)


def linted_workload(
    workload: Workload, reader: DeclaredReader, vmis: tuple[Vmi, ...] = ()
) -> LintedWorkload:
    """A workload as lint sees it."""
    replicas = 1 if workload.kind.run_strategy else workload.replicas
    return LintedWorkload(
        workload.ref,
        reader.declared(workload),
        pod_labels(workload),
        workload.runs_vms,
        replicas,
        workload,
        vmis,
        workload.template.get("spec") or {},
    )


def pod_labels(workload: Workload) -> dict[str, str]:
    """The labels of the workload's pods that are known before any pod exists."""
    labels = dict(workload.template_labels)
    if not workload.runs_vms:
        return {**labels, POD_TEMPLATE_HASH: ANY_VALUE}
    own = dict([LAUNCHER_LABEL, (CREATED_BY, ANY_VALUE)])
    if workload.kind.run_strategy:
        own[VMI_ID] = vmi_id(workload.ref.name)
        own[VM_HOSTNAME] = hostname(workload)
    return {**labels, **own}


def pod_term_of(subject: LintedWorkload, term: Term) -> PodTerm:
    """A pod term, or a spread constraint as the pod term that selects what it counts, with the subject's own
    values of matchLabelKeys and mismatchLabelKeys that are known before a pod exists."""
    return _pod_term(term, _labels_of_keys(subject, term))


def _labels_of_keys(subject: LintedWorkload, term: Term) -> LabelPairs:
    keys = (*term.source.match_label_keys, *getattr(term.source, "mismatch_label_keys", ()))
    values = ((key, subject.labels.get(key, ANY_VALUE)) for key in keys)
    return tuple((key, value) for key, value in values if value != ANY_VALUE)


def _pod_term(term: Term, labels: LabelPairs) -> PodTerm:
    source: PodTerm | SpreadConstraint = term.source
    if isinstance(source, SpreadConstraint):
        source = PodTerm(
            source.topology_key, source.selector, match_label_keys=source.match_label_keys
        )
    return with_own_labels(source, dict(labels)) if labels else source


def lint_input_of(
    snapshot: Snapshot,
    topology: Topology,
    *,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
) -> LintInput:
    """The workloads of a snapshot with their VMIs; VMIs of a pool belong to the pool."""
    view = view_of(snapshot)
    declared = snapshot.derived(DeclaredReader)
    all_subjects = tuple(
        linted_workload(workload, declared, tuple(view.vmis_of(workload)))
        for workload in snapshot.workloads
        if workload.pool is None
    )
    chosen = None if workloads is None else frozenset(workloads)
    unread = {gap.resource.partition(".")[0] for gap in snapshot.unreadable}
    return LintInput(
        subjects=tuple(
            subject
            for subject in all_subjects
            if (chosen is None or subject.ref in chosen)
            and (namespaces is None or subject.ref.namespace in namespaces)
        ),
        topology=topology,
        nodes=None if "nodes" in unread else snapshot.nodes,
        pods=None if "pods" in unread else snapshot.pods,
        namespaces=None if "namespaces" in unread else snapshot.namespaces,
        platform=snapshot.platform,
        claim_terms=snapshot.claim_terms,
        access_modes=snapshot.access_modes,
        all_subjects=all_subjects,
        view=view,
        cluster=snapshot,
    )
