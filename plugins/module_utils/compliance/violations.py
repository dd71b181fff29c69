# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does an instance violate a required constraint on its node? `violations` is the only definition.

Judge, planner and forecast call it. The verdict that is reported (`compliance/evaluate`) differs in two
cases: a rule that a node term bypasses is violated on any node, and a violation is unknown if a pod that
could not be read may satisfy the rule. RuleAttribution returns the rules that own a violated constraint,
MissingData the lists that a verdict depends on and that could not be read. A problem of a node that
violates no constraint (a cordon, a taint, too little room) is a risk.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kinds.registry import KINDS
from ..kinds.vmi import VMIS
from ..kubevirt.labels import adds_node_key
from ..model.kinds import RULES
from ..model.objects import (
    Labels,
    Node,
    Placement,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    SpreadConstraint,
)
from ..model.snapshot import Instance, Unreadable, Workload
from ..model.topology import Topology
from ..model.verdict import Risk
from ..scheduler.framework import NODE_AFFINITY, Code, FilterReason, FilterStatus, pod_key
from ..scheduler.labels import matches_node
from ..scheduler.nodes import NodeSet
from ..view.view import ClusterView
from . import terms as wording
from .declared import Declared, ForeignNodeTerms, NodeRule
from .instances import DeclaredInstance, InstanceReader
from .terms import Term, TermKind, pod_term, spread_term, terms_of

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

RISKS: t.Mapping[str, str] = {
    "cordoned": "cordoned",
    "taint": "taint",
    "ports": "ports",
    "resources": "resources",
    "too-many-pods": "too_many_pods",
    "node-name": "node_name",
}
"""Kinds of filter reasons that violate no constraint, to kinds of risks."""


def violations(
    pod: Pod, declared: Declared | None, node: Node, failures: t.Iterable[FilterStatus]
) -> tuple[FilterStatus, ...]:
    """The required constraints that an instance violates on `node`; empty if it obeys them all.

    `pod` is the instance's pod as its workload declares it. `declared` is None for an instance
    without a readable workload. `failures` are the filters that refuse `pod` on `node` when the index
    is asked without the instance itself (Index.failures_in_place).

    Left out are risks, and the anti-affinity of pods in other namespaces: otherwise the tenants there
    could cause moves here. Node affinity counts only if the node lacks something that KubeVirt does not
    add by itself. Node terms are OR-ed, so a foreign term can admit a node that a rule forbids: that
    violates the rule although no filter refuses the node.
    """
    violated = []
    node_affinity = False
    for failure in failures:
        if failure.plugin == NODE_AFFINITY:
            placement = declared.placement if declared is not None else pod.placement
            if all(reason.kind == "node-affinity" for reason in failure.reasons) and matches_node(
                _without_platform(placement), node
            ):
                continue
            node_affinity = True
        reasons = tuple(
            reason
            for reason in failure.reasons
            if reason.kind not in RISKS and not is_of_other_namespace(pod, reason)
        )
        if reasons:
            violated.append(replace(failure, reasons=reasons))
    if not node_affinity and (unmet := unmet_rules(declared, node)):
        unmet_reasons = (
            FilterReason("node-affinity", f"{_node_text(x.unmet_by(node), node)} (rule {x.rule})")
            for x in unmet
        )
        violated.append(FilterStatus(NODE_AFFINITY, Code.UNRESOLVABLE, tuple(unmet_reasons)))
    return tuple(violated)


def is_of_other_namespace(pod: Pod, reason: FilterReason) -> bool:
    """Whether the reason is the anti-affinity of a pod in another namespace."""
    return (
        reason.kind == "existing-anti"
        and reason.counterpart is not None
        and reason.counterpart.namespace != pod.namespace
    )


def can_be_bypassed(pod: Pod, workload: Workload | None) -> bool:
    """Whether the instance may violate a rule on a node that no filter refuses: only if its workload has
    rules and several OR-ed node terms, one of which may lack a rule's expression."""
    terms = pod.placement.node_terms
    return (
        terms is not None
        and len(terms) > 1
        and workload is not None
        and (RULES in workload.annotations)
    )


def good_nodes(
    index: Index, pod: Pod, declared: Declared | None, workload: Workload | None
) -> NodeSet:
    """The nodes where an instance would violate nothing, and has room. `pod` is the instance's pod as its
    workload declares it; where it runs, it does not count."""
    nodes = index.feasible_set(pod, without=pod_key(pod))
    if nodes and can_be_bypassed(pod, workload):
        nodes &= index.table.where(not unmet_rules(declared, node) for node in index.nodes)
    return nodes


def unmet_rules(declared: Declared | None, node: Node) -> list[NodeRule]:
    """The rules whose node requirements `node` does not satisfy."""
    rules = declared.rules if declared is not None else ()
    return [rule.nodes for rule in rules if rule.nodes is not None and rule.nodes.unmet_by(node)]


def bypassed_rules(declared: Declared | None, node: Node) -> list[NodeRule]:
    """The rules whose node requirements `node` does not satisfy, although a node term of the workload
    admits the node: the scheduler may place a pod there."""
    unmet = unmet_rules(declared, node)
    if not unmet or declared is None:
        return []
    return unmet if matches_node(_without_platform(declared.placement), node) else []


def bypass_text(rule: NodeRule) -> str:
    """What bypasses a rule's node requirements."""
    if not rule.bypasses:
        return (
            "a node selector term without the rule's expressions admits the node, and node"
            " selector terms are OR-ed: the scheduler may ignore the rule"
        )
    terms = ", ".join(f"nodeSelectorTerms[{number}]" for number in rule.bypasses)
    return f"{terms} lacks the rule's expression, and node selector terms are OR-ed: the scheduler may ignore the rule"


def _without_platform(placement: Placement) -> Placement:
    """The node requirements of a placement that KubeVirt does not add by itself."""
    pairs = tuple(pair for pair in placement.node_selector if not adds_node_key(pair[0]))
    terms = placement.node_terms
    if terms is not None and any(adds_node_key(e.key) for term in terms for e in term.expressions):
        kept = [
            replace(
                term, expressions=tuple(e for e in term.expressions if not adds_node_key(e.key))
            )
            for term in terms
        ]
        matches_any_node = any(
            not (short.expressions or short.fields) and term.expressions
            for short, term in zip(kept, terms, strict=True)
        )
        terms = None if matches_any_node else tuple(kept)
    return Placement(node_selector=pairs, node_terms=terms)


def _node_text(missing: t.Iterable[Requirement], node: Node) -> str:
    return (
        f"node {node.name} does not satisfy {' and '.join(map(wording.requirement_text, missing))}"
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated term of an instance. `rules` (namespace/set/name) is empty if no rule owns it.
    `owner` is the instance that has the term: another one if its anti-affinity keeps this one out.
    """

    rules: tuple[str, ...]
    reason: str
    term: Term | None = None
    owner: DeclaredInstance | None = None


class RuleAttribution:
    """Adds to each violation the rules that own its term. `of_pod` returns the instance of any pod, since the
    pod that causes a violation may have the term."""

    def __init__(
        self,
        topology: Topology,
        nodes: t.Mapping[str, Node],
        of_pod: t.Callable[[Ref], DeclaredInstance | None],
    ) -> None:
        self._topology = topology
        self._nodes = nodes
        self._of_pod = of_pod
        self._described: dict[str, set[str]] = {}

    def attribute(
        self, instance: DeclaredInstance, node_name: str, failures: t.Sequence[FilterStatus]
    ) -> list[Violation]:
        """The violations of an instance on a node, each with its rules."""
        node = self._nodes[node_name]
        attributed = []
        for status in violations(instance.judged_pod, instance.declared, node, failures):
            if status.plugin == NODE_AFFINITY:
                attributed += self._node_violations(instance, node, status)
            else:
                attributed += [self._violation(instance, node, reason) for reason in status.reasons]
        return attributed

    def risks(self, instance: DeclaredInstance, failures: t.Iterable[FilterStatus]) -> list[Risk]:
        """The reasons of filters that violate no constraint."""
        ref, node = instance.instance.ref, instance.node
        reasons = [reason for failure in failures for reason in failure.reasons]
        risks = [Risk(ref, node, RISKS[x.kind], x.text) for x in reasons if x.kind in RISKS]
        pod = instance.judged_pod
        others = [x.text for x in reasons if is_of_other_namespace(pod, x)]
        if others:
            more = f", and {len(others) - 1} more terms" if len(others) > 1 else ""
            risks.append(Risk(ref, node, "other_namespace", f"{others[0]}{more}"))
        if any(failure.plugin == NODE_AFFINITY for failure in failures):
            required = ForeignNodeTerms(pod.placement.node_selector, pod.placement.node_terms)
            missing = required.unmet_by(self._nodes[node])
            parts = [part for part in missing if adds_node_key(part.key)]
            if parts:
                detail = _node_text(parts, self._nodes[node])
                risks.append(Risk(ref, node, "not_schedulable_for_kubevirt", detail))
        return risks

    def _node_violations(
        self, instance: DeclaredInstance, node: Node, status: FilterStatus
    ) -> list[Violation]:
        """The rules that the node does not satisfy, and the node requirements that no rule owns."""
        violated = [
            Violation((rule.rule,), _node_text(rule.unmet_by(node), node))
            for rule in unmet_rules(instance.declared, node)
        ]
        if instance.declared is not None:
            foreign = instance.declared.foreign
        else:
            placement = instance.judged_pod.placement
            foreign = ForeignNodeTerms(placement.node_selector, placement.node_terms)
        parts = [part for part in foreign.unmet_by(node) if not adds_node_key(part.key)]
        remaining = [reason for reason in status.reasons if reason.kind != "node-affinity"]
        if parts:
            violated.append(Violation((), _node_text(parts, node)))
        elif remaining or not violated:
            violated += [Violation((), reason.text) for reason in remaining or status.reasons]
        return violated

    def _violation(self, instance: DeclaredInstance, node: Node, reason: FilterReason) -> Violation:
        owner: DeclaredInstance | None = instance
        if reason.kind == "existing-anti":
            owner = self._of_pod(reason.counterpart) if reason.counterpart else None
        labels = owner.judged_pod.labels if owner is not None else {}
        rules = owning_rules(reason, owner.declared, labels) if owner is not None else ()
        term = _term_of(reason, labels)
        return Violation(rules, self._reason(instance, node, reason, term), term, owner)

    def _reason(
        self, instance: DeclaredInstance, node: Node, reason: FilterReason, term: Term | None
    ) -> str:
        """The violated term, the topology domain and the other pod, in words."""
        if term is None:
            return reason.text
        description = wording.describe(term, self._topology)
        domain = node.labels.get(reason.topology_key)
        over = self._topology.name_of(reason.topology_key)
        if reason.kind in ("anti", "existing-anti"):
            counterpart = self._of_pod(reason.counterpart) if reason.counterpart else None
            name = str(counterpart.instance.ref) if counterpart is not None else reason.named
            foreign = reason.kind == "existing-anti" and description not in self._descriptions(
                instance
            )
            of_counterpart = f" of {name}" if foreign else ""
            return f"{name} is in the same {over} {domain!r} ({description}{of_counterpart})"
        if domain is None:
            return f"node {node.name} has no label {reason.topology_key} ({description})"
        if reason.kind == "affinity":
            return f"no pod that matches its pod affinity is in {over} {domain!r} ({description})"
        return f"{reason.text} ({description})"

    def _descriptions(self, instance: DeclaredInstance) -> set[str]:
        """The terms of an instance in words. Two instances with the same term both violate it."""
        described = self._described.get(instance.key)
        if described is None:
            pod = instance.judged_pod
            described = self._described[instance.key] = {
                wording.describe(term, self._topology)
                for term in terms_of(pod.placement, pod.labels)
            }
        return described


def risks_of_node(instance: DeclaredInstance, node: Node) -> list[Risk]:
    """Risks that no filter reports."""
    ref = instance.instance.ref
    risks = []
    if not node.ready:
        risks.append(Risk(ref, node.name, "not_ready", f"node {node.name} is not Ready"))
    anti_affinity = instance.judged_pod.placement.anti_affinity
    for key in dict.fromkeys(term.topology_key for term in anti_affinity):
        if key not in node.labels:
            detail = f"node {node.name} has no label {key}, so anti-affinity has no effect there"
            risks.append(Risk(ref, node.name, "unknown_domain", detail))
    return risks


def owning_rules(
    reason: FilterReason, declared: Declared | None, labels: Labels
) -> tuple[str, ...]:
    """The rules (namespace/set/name) that own the term of a reason. `declared` and `labels` are those of the instance
    that has the term."""
    term = _term_of(reason, labels)
    return declared.owners.get(term, ()) if term is not None and declared is not None else ()


class TermOwners:
    """The rules that own a term of a pod, whatever it is a pod of."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def of_other(self, reason: FilterReason) -> tuple[str, ...]:
        """The rules (namespace/set/name) of the other pod whose anti-affinity is the reason."""
        if reason.kind != "existing-anti" or reason.counterpart is None:
            return ()
        return self.of(reason.counterpart, reason)

    def of(self, pod: Ref, reason: FilterReason) -> tuple[str, ...]:
        """The rules that own the term of a reason, which is a term of this pod."""
        owner = self.instance_of(pod)
        return owning_rules(reason, owner.declared, owner.pod.labels) if owner is not None else ()

    def instance_of(self, pod: Ref) -> DeclaredInstance | None:
        """The instance of a pod, with what its workload declares."""
        instance = self._view.instances_by_pod.get(pod)
        if instance is None or instance.pod is None:
            return None
        return self._view.snapshot.derived(InstanceReader).read(instance, instance.pod)


def _term_of(reason: FilterReason, labels: Labels) -> Term | None:
    if isinstance(reason.term, SpreadConstraint):
        return spread_term(reason.term, labels)
    if isinstance(reason.term, PodTerm):
        kind = TermKind.AFFINITY if reason.kind == "affinity" else TermKind.ANTI_AFFINITY
        return Term(kind, pod_term(reason.term, labels), reason.term)
    return None


class MissingData:
    """The lists that could not be read; false if all could. Each method returns the gap that makes a verdict
    unknown, or None."""

    def __init__(self, unreadable: t.Iterable[Unreadable]) -> None:
        self._gaps: dict[str, list[Unreadable]] = {}
        for gap in unreadable:
            self._gaps.setdefault(gap.resource.partition(".")[0], []).append(gap)

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def gap(self, resource: str, namespaces: t.Collection[str] | None = None) -> Unreadable | None:
        """A gap in `resource`, in one of `namespaces` or (None) in any."""
        for gap in self._gaps.get(resource, ()):
            if namespaces is None or not gap.namespace or gap.namespace in namespaces:
                return gap
        return None

    def of_term(self, term: Term, namespace: str) -> Unreadable | None:
        """For a term of a pod in `namespace`: nodes, pods, and labels of namespaces."""
        source = term.source
        if isinstance(source, SpreadConstraint):
            return self.gap("nodes") or self.gap("pods", (namespace,))
        if isinstance(source, PodTerm):
            return self.gap("nodes") or self._of_pod_term(source, namespace)
        return self.gap("nodes")

    def of_workload(self, instance: DeclaredInstance) -> Unreadable | None:
        """For the workload of an instance, and what it declares."""
        namespace = (instance.instance.ref.namespace,)
        if instance.declared is not None:
            return None
        if instance.instance.vmi is None and instance.instance.ref.kind != "Pod":
            return self.gap(VMIS, namespace)
        workload = instance.instance.workload
        if workload is not None and workload.kind in KINDS:
            return self.gap(KINDS[workload.kind].plural, namespace)
        return self.gap("replicasets", namespace)

    def of_waiting(self, instance: Instance) -> Unreadable | None:
        """For an instance that seems to have no pod or no node."""
        if instance.pod is None:
            return self.gap("pods", (instance.ref.namespace,))
        return self.gap("nodes")

    def _of_pod_term(self, term: PodTerm, namespace: str) -> Unreadable | None:
        namespaces = term.namespace_selector
        if namespaces is None:
            return self.gap("pods", term.namespaces or (namespace,))
        if namespaces.requirements and (gap := self.gap("namespaces")) is not None:
            return gap
        return self.gap("pods")
