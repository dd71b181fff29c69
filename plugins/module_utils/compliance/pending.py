# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why does a pod have no node? The answer is worded as kube-scheduler words it.

The answer comes from our own filters: they name the term and the pod behind each reason. Where they find a node,
or where kube-scheduler gave a reason that they do not know, its own words are the answer: the condition PodScheduled
of the pod. Wording: kubernetes pkg/scheduler/framework/types.go (FitError) and the ErrReason constants of
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..kubevirt.labels import adds_anti_affinity, adds_node_key, of_kubevirt
from ..model.objects import NodeTerm, Pod, PodTerm, Ref, Requirement, Taint
from ..model.obstacle import NO_NODE, Obstacle
from ..model.rendering import listed
from ..model.snapshot import Instance, Workload
from ..model.topology import Topology
from ..model.verdict import Pending
from ..scheduler.framework import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    FilterReason,
    FilterStatus,
    PodInfo,
    ReasonKind,
    without_preemption,
)
from ..scheduler.nodes import NodeSet
from . import terms as wording
from .instances import JudgedInstances
from .obstacles import REMEMBERED, Obstacles, Refusals, lacks_least
from .violations import MissingData, TermOwners

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

DEFAULT_SCHEDULER = "default-scheduler"

_TEXTS: t.Mapping[ReasonKind, str] = {
    "node-name": "node(s) didn't match the requested node name",
    "cordoned": "node(s) were unschedulable",
    "taint": "node(s) had untolerated taint",
    "node-affinity": "node(s) didn't match Pod's node affinity/selector",
    "name-conflict": "pod affinity terms conflict",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "resources": "Insufficient",
    "too-many-pods": "Too many pods",
    "exclusive-claim": (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
        " another pod"
    ),
    "volume-limit": "node(s) exceed max volume count",
    "volume": "node(s) didn't match PersistentVolume's node affinity",
    "missing-label": (
        "node(s) didn't match pod topology spread constraints (missing required label)"
    ),
    "skew": "node(s) didn't match pod topology spread constraints",
    "affinity": "node(s) didn't match pod affinity rules",
    "anti": "node(s) didn't match pod anti-affinity rules",
    "existing-anti": "node(s) didn't satisfy existing pods anti-affinity rules",
}
"""Texts of kube-scheduler by the kind of our reason; others have none there. They are only shown."""

FILTER_TEXTS: t.Mapping[str, str] = {
    NODE_NAME: _TEXTS["node-name"],
    NODE_UNSCHEDULABLE: _TEXTS["cordoned"],
    TAINT_TOLERATION: "node(s) had untolerated taint(s)",
    NODE_AFFINITY: _TEXTS["node-affinity"],
    NODE_PORTS: _TEXTS["ports"],
    NODE_RESOURCES_FIT: "Insufficient resources",
    VOLUME_RESTRICTIONS: _TEXTS["exclusive-claim"],
    NODE_VOLUME_LIMITS: _TEXTS["volume-limit"],
    VOLUME_BINDING: _TEXTS["volume"],
    POD_TOPOLOGY_SPREAD: _TEXTS["skew"],
    INTER_POD_AFFINITY: "node(s) didn't match pod affinity/anti-affinity rules",
}
"""What to say of a node that a filter (framework.ORDER) refuses, where its reason is not known."""


_KNOWN = tuple(
    dict.fromkeys((*_TEXTS.values(), *(FILTER_TEXTS[name] for name in (TAINT_TOLERATION,))))
)


def no_node_text(total: int, counts: t.Mapping[str, int]) -> str:
    """`0/6 nodes are available: 5 node(s) were unschedulable, 1 Insufficient memory`.

    `counts`: how many of the `total` nodes each text is about. The largest count comes first, then
    the shortest text: least has to change on those nodes.
    """
    if not total:
        return "no nodes available to schedule pods"
    ordered = sorted(counts.items(), key=lambda item: (-item[1], len(item[0])))
    parts = ", ".join(f"{count} {text}" for text, count in ordered)
    return f"0/{total} nodes are available: {parts}"


def filter_text(plugin: str, pod: Pod) -> str:
    """What to say of nodes that a filter refuses for a pod, where the reason of each is not asked for. Node affinity
    and selector are named: they are the same for all nodes."""
    text, placement = FILTER_TEXTS[plugin], pod.placement
    if plugin != NODE_AFFINITY:
        return text
    pairs = [Requirement(key, "In", (value,)) for key, value in placement.node_selector]
    required = [_label(pair) for pair in pairs if not adds_node_key(pair.key)]
    if terms := placement.node_terms:
        more = f" or {len(terms) - ALTERNATIVES} more" if len(terms) > ALTERNATIVES else ""
        required.append(" or ".join(map(_required, terms[:ALTERNATIVES])) + more)
    return f"{text} ({' and '.join(required)})" if required else text


ALTERNATIVES = 3
"""OR-ed node terms that are named at most."""

EXACT = 16
"""Nodes that one filter refuses, up to which each is asked for its reason."""


def no_good_node(
    index: Index, pod_info: PodInfo, topology: Topology, owners: TermOwners, source: NodeSet = 0
) -> Obstacle:
    """Why no node is right for a pod. As kube-scheduler counts, a node counts for the first filter that
    refuses it. Nodes that pass all filters would violate a rule, or are the `source` of a migration. `owners`: the
    rules of other pods."""
    left, counts = index.table.all, Counter[str]()
    for plugin in FILTER_TEXTS:
        text = filter_text(plugin, pod_info.pod)
        kept = left & index.nodes_passing(pod_info, {plugin})
        refused = left & ~kept
        if refused.bit_count() > EXACT:
            counts[text] += refused.bit_count()
        else:
            for node in index.table.names_of(refused):
                failures = index.failures(pod_info.pod, node, plugins={plugin})
                counts.update(_node_texts(failures[:1], topology, owners) or (text,))
        left = kept
    if left & source:
        counts["node(s) were the source of the migration"] += (left & source).bit_count()
    if left & ~source:
        counts["node(s) would violate a rule"] += (left & ~source).bit_count()
    return Obstacle(NO_NODE, no_node_text(index.table.all.bit_count(), counts))


def why_not_on_node(
    failures: t.Iterable[FilterStatus], node: str, topology: Topology
) -> t.Iterator[tuple[FilterReason, str]]:
    """What each filter that refuses one node says of it, in kube-scheduler's words."""
    for failure in failures:
        for reason in failure.reported:
            cordoned = reason.kind == "cordoned"
            yield reason, f"{node} is cordoned" if cordoned else reason_text(reason, topology)


def _node_texts(
    failures: t.Iterable[FilterStatus], topology: Topology, owners: TermOwners
) -> tuple[str, ...]:
    texts = (text for failure in failures for text in _failure_texts(failure, topology, owners))
    return tuple(dict.fromkeys(texts))


def _failure_texts(
    failure: FilterStatus, topology: Topology, owners: TermOwners
) -> t.Iterator[str]:
    """Node terms are OR-ed: a node is refused since it matches none of them."""
    terms = [x.term for x in failure.reasons if isinstance(x.term, NodeTerm)]
    if len(terms) == len(failure.reasons) > 1:
        named = " or ".join(map(_required, terms[:ALTERNATIVES]))
        more = f" or {len(terms) - ALTERNATIVES} more" if len(terms) > ALTERNATIVES else ""
        yield f"{_TEXTS['node-affinity']} ({named}{more})"
        return
    for reason in failure.reported:
        yield reason_text(reason, topology, owners.of_other(reason))


def reason_text(reason: FilterReason, topology: Topology, rules: t.Sequence[str] = ()) -> str:
    """One reason in kube-scheduler's words, with the term or the pod behind it. `rules` are those that own a term of
    another pod."""
    text = _TEXTS.get(reason.kind, reason.text)
    if reason.kind == "node-affinity" and reason.term is not None:
        return f"{text} ({_required(reason.term)})"
    over = topology.name_of(reason.topology_key) if reason.topology_key else ""
    if isinstance(reason.term, Taint):
        return f"{text} {{{reason.term.key}: {reason.term.value}}}"
    if reason.kind == "resources":
        return f"{text} {reason.term}"
    if reason.kind == "existing-anti":
        selected = f" to {wording.pods_of(reason.term)}" if isinstance(reason.term, PodTerm) else ""
        by = f" by rule {' and '.join(rules)}" if rules else ""
        return f"{text} ({reason.named} has anti-affinity{selected} over {over}{by})"
    if isinstance(reason.term, PodTerm) and adds_anti_affinity(reason.term):
        return f"{text} (its own node, which a migration has to leave)"
    if isinstance(reason.term, PodTerm):
        return f"{text} ({wording.pods_of(reason.term)} over {over})"
    return f"{text} ({over})" if over else text


_AVAILABLE = "nodes are available: "


def has_unknown_reason(message: str) -> bool:
    """Whether a message of kube-scheduler has a reason that is none of the filters that are modeled."""
    _count, found, listed_reasons = without_preemption(message).rstrip(".").partition(_AVAILABLE)
    reasons = (text.lstrip("0123456789 ") for text in listed_reasons.split(", "))
    return not found or not all(text.startswith(_KNOWN) for text in reasons)


def why_no_pod(instance: Instance) -> Obstacle:
    """Why an instance has no pod, as far as its VMI says."""
    why = instance.vmi.unsynchronized if instance.vmi is not None else ""
    return Obstacle(
        "in_progress", f"it has no pod yet: {why}" if why else "it has no pod yet", True
    )


def lacking_instances(workloads: t.Iterable[Workload]) -> t.Iterator[tuple[Instance, Pending]]:
    """The workloads that have fewer instances than they want, since the API server refuses them: one entry for
    each, in place of the instances that do not exist."""
    for workload in workloads:
        refused, ref = workload.refusal, workload.ref
        lacking, wanted = workload.missing
        one_vm = workload.replicas is None and not wanted
        if refused is None or (one_vm and workload.run_strategy in ("", "Halted")):
            continue
        missing = f"; {lacking} of {wanted} do not exist" if lacking else ""
        does = f"the API server refuses its pods{missing}"
        reason = f"{'KubeVirt does not start it' if one_vm else does}: {refused}"
        yield Instance(ref, workload.uid, ref, None), Pending(ref, ref, reason)


def _required(term: object) -> str:
    """The node labels that a node selector or a node term requires."""
    if isinstance(term, Requirement):
        return _label(term)
    if not isinstance(term, NodeTerm):
        return str(term)
    parts = (*term.expressions, *term.fields)
    declared = [x for x in parts if not (x.operator == "DoesNotExist" and of_kubevirt(x.key))]
    return " and ".join(map(_label, declared or parts)) or "an empty term"


def _label(requirement: Requirement) -> str:
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={requirement.values[0]}"
    return wording.requirement_text(requirement)


class PendingReasons:
    """Answers for the pods of one index. Pods that are alike are explained once, so the answers
    hold only as long as the index does not change."""

    def __init__(self, index: Index, topology: Topology, obstacles: Obstacles) -> None:
        self._index = index
        self._topology = topology
        self._obstacles = obstacles
        self._reasons: dict[t.Hashable, tuple[str, Refusals]] = {}

    def reason(self, pod: Pod, workload: Ref | None = None) -> str:
        """The answer of kube-scheduler for `pod`, an instance of `workload` without a node, and what is behind it."""
        text, refusals = self._explained(pod)
        behind = self._obstacles.text(pod, workload, refusals)
        return f"{text}; {behind}" if behind else text

    def _explained(self, pod: Pod) -> tuple[str, Refusals]:
        if pod.node_name:
            return f"its node {pod.node_name} does not exist", Refusals()
        if pod.gated:
            return "scheduling is blocked due to non-empty scheduling gates", Refusals()
        identity = (
            pod.namespace,
            pod.placement.number,
            frozenset(pod.requests.items()),
            frozenset(self._index.selectors.selecting(pod.namespace, pod.labels)),
            pod.claims,
            pod.host_ports,
            pod.scheduler_name,
            pod.unscheduled,
        )
        if identity not in self._reasons:
            feasible = self._index.feasible_nodes(pod)
            unknown = bool(feasible) or (
                has_unknown_reason(pod.unscheduled) and not self._index.volumes.refusal(pod)
            )
            by = "" if pod.scheduler_name == DEFAULT_SCHEDULER else f" ({pod.scheduler_name})"
            if pod.unscheduled and unknown:
                answer = f"the scheduler{by} refused it: {without_preemption(pod.unscheduled)}"
                self._reasons[identity] = answer, Refusals()
                return self._reasons[identity]
            unbound = f"the scheduler{by} has not bound it yet; feasible nodes: {listed(feasible)}"
            self._reasons[identity] = (unbound, Refusals()) if feasible else self._no_node(pod)
        return self._reasons[identity]

    def _no_node(self, pod: Pod) -> tuple[str, Refusals]:
        """As in kube-scheduler, a node counts for the first filter that refuses it: the control plane is one
        number, whatever else keeps a pod off it. It counts for each resource that is short."""
        total, counts = len(self._index.nodes), Counter[str]()
        if refusal := self._index.volumes.refusal(pod):
            return f"0/{total} nodes are available: {refusal}", Refusals()
        reasons, short = dict[FilterReason, str](), list[str]()
        for node in self._index.nodes:
            first = self._index.failures(pod, node.name)[:1]
            counts.update(_node_texts(first, self._topology, self._obstacles.owners))
            for failure in first:
                if failure.plugin == NODE_RESOURCES_FIT:
                    short.append(node.name)
                elif len(reasons) < REMEMBERED:
                    reasons.update((x, node.name) for x in failure.reported if x not in reasons)
        refusals = Refusals(tuple(reasons.items()), lacks_least(self._index, short, pod))
        return no_node_text(total, counts), refusals


def pending_of(
    instances: JudgedInstances,
    reasons: PendingReasons,
    missing: MissingData,
    covers: t.Callable[[Ref | None, Ref], bool],
) -> tuple[Pending, ...]:
    """Every instance without a node, and every migration whose target pod has none.

    `covers(workload, instance)` selects them. An instance that only seems to have no node, since
    pods or nodes could not be read, is left out.
    """
    pending = [
        Pending(
            instance.ref,
            instance.workload,
            str(why_no_pod(instance))
            if instance.pod is None
            else reasons.reason(instance.pod, instance.workload),
        )
        for instance in instances.waiting
        if covers(instance.workload, instance.ref) and missing.of_waiting(instance) is None
    ]
    pending += [
        Pending(
            instance.ref,
            instance.workload,
            f"migration target: {reasons.reason(pod, instance.workload)}",
        )
        for instance, pod in instances.targets
        if not (pod.node_name or pod.terminating) and covers(instance.workload, instance.ref)
    ]
    return tuple(pending)
