# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A case's objects as the engine takes them.

The engine has the scheduler's default configuration. What a case configures otherwise is written into its
pods here, as the scheduler would read them.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Placement,
    Pod,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
)
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    placement_from_spec,
    spread_from_json,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import HOSTNAME, ZONE
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import (
    Code,
    FilterReason,
    FilterStatus,
    PodInfo,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_affinity import (
    NodeAffinity,
    nodes_of_terms,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import (
    NodeSet,
    NodeTable,
)

Case = t.Mapping[str, t.Any]

ENFORCED = "scheduler-enforced"
"""The term of a reason that comes from the scheduler's configuration."""

SYSTEM_CONSTRAINTS = (
    SpreadConstraint(HOSTNAME, 3, "ScheduleAnyway"),
    SpreadConstraint(ZONE, 5, "ScheduleAnyway"),
)
"""PodTopologySpreadArgs with defaultingType System."""


def build_index(case: Case) -> Index:
    """The cluster of a case, with the scheduler configuration that it names."""
    pods = [pod_from_manifest(manifest) for manifest in case.get("pods", ())]
    index = Index(
        map(node_from_manifest, case["nodes"]),
        [_configured(pod, case) for pod in pods],
        map(namespace_from_manifest, case.get("namespaces", ())),
    )
    added = _added_affinity(case)
    if added is not None and added.node_terms is not None:
        enforced = _EnforcedNodeAffinity(index.table, added)
        index._filters = tuple(enforced if f.name == enforced.name else f for f in index._filters)
    return index


def incoming(manifest: t.Mapping[str, t.Any], case: Case) -> Pod:
    """The pod to be placed. A node name in its spec pins it: it does not say that it runs there."""
    pod = pod_from_manifest(manifest)
    pod = dataclasses.replace(pod, node_name="", required_node_name=pod.node_name)
    return _configured(pod, case)


def has_system_constraints(pod: Pod) -> bool:
    """Whether a pod has the scheduler's own default constraints: a node needs not carry all their keys."""
    return [
        (constraint.topology_key, constraint.max_skew, constraint.when_unsatisfiable)
        for constraint in pod.placement.spread
    ] == [(x.topology_key, x.max_skew, x.when_unsatisfiable) for x in SYSTEM_CONSTRAINTS]


def _configured(pod: Pod, case: Case) -> Pod:
    """A pod with what the scheduler's configuration adds to it or leaves out of it."""
    args, placement = case.get("args", {}), pod.placement
    spread = placement.spread or _default_constraints(pod, case)
    affinity, preferred = placement.affinity, placement.preferred_affinity
    weight = args.get("hardPodAffinityWeight", 1)
    if pod.node_name and weight != 1:
        preferred = (*preferred, *((weight, term) for term in affinity if weight))
        affinity = ()
    tolerations = placement.tolerations
    if case.get("featureGates", {}).get("TaintTolerationComparisonOperators"):
        tolerations = tuple(_without_comparison(tolerations, case))
    added = _added_affinity(case)
    preferred_nodes = placement.preferred_node_terms
    if added is not None:
        preferred_nodes = (*preferred_nodes, *added.preferred_node_terms)
    placement = dataclasses.replace(
        placement,
        spread=spread,
        affinity=affinity,
        preferred_affinity=preferred,
        preferred_node_terms=preferred_nodes,
        tolerations=tolerations,
    )
    requests = {name: n for name, n in pod.requests.items() if not _is_ignored(name, args)}
    return dataclasses.replace(pod, placement=placement, requests=requests)


def _default_constraints(pod: Pod, case: Case) -> tuple[SpreadConstraint, ...]:
    """The cluster's default constraints of a pod: the scheduler takes the selector from the Services
    that match it (component-helpers, DefaultSelector)."""
    args, pairs = case.get("args", {}), dict[str, str]()
    for service in case.get("services", ()):
        selector = (service.get("spec") or {}).get("selector") or {}
        same_namespace = (service["metadata"].get("namespace") or "") == pod.namespace
        if same_namespace and selector.items() <= dict(pod.labels).items():
            pairs.update(selector)
    if not pairs:
        return ()
    selector = Selector(tuple(Requirement(key, "In", (pairs[key],)) for key in sorted(pairs)))
    constraints: t.Iterable[SpreadConstraint] = SYSTEM_CONSTRAINTS
    if "defaultConstraints" in args or args.get("defaultingType") == "List":
        constraints = map(spread_from_json, args.get("defaultConstraints") or ())
    return tuple(dataclasses.replace(constraint, selector=selector) for constraint in constraints)


def _is_ignored(resource: str, args: Case) -> bool:
    if resource in ("cpu", "memory", "ephemeral-storage"):
        return False
    group, slash, _rest = resource.partition("/")
    extended = bool(slash) and "kubernetes.io/" not in resource
    in_group = extended and group in args.get("ignoredResourceGroups", ())
    return in_group or resource in args.get("ignoredResources", ())


def _without_comparison(tolerations: t.Iterable[Toleration], case: Case) -> t.Iterator[Toleration]:
    """A toleration with the operator Gt or Lt as equal ones, one for each taint that it covers."""
    nodes: list[Node] = [node_from_manifest(manifest) for manifest in case["nodes"]]
    for toleration in tolerations:
        if toleration.operator not in ("Gt", "Lt"):
            yield toleration
            continue
        for taint in {taint for node in nodes for taint in node.taints}:
            if compares(toleration.operator, taint.value, toleration.value):
                yield dataclasses.replace(toleration, operator="Equal", value=taint.value)


def compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Gt: the taint's number is above the toleration's; Lt: below. Both must be canonical."""
    taint, bound = _canonical_integer(taint_value), _canonical_integer(toleration_value)
    if taint is None or bound is None or operator not in ("Gt", "Lt"):
        return False
    return taint > bound if operator == "Gt" else taint < bound


def _canonical_integer(text: str) -> int | None:
    number = int(text) if re.fullmatch("0|-?[1-9][0-9]{0,18}", text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _added_affinity(case: Case) -> Placement | None:
    """NodeAffinityArgs.addedAffinity: node terms and preferred node terms."""
    added = case.get("args", {}).get("addedAffinity")
    return added and placement_from_spec({"affinity": {"nodeAffinity": added}})


class _EnforcedNodeAffinity(NodeAffinity):
    """The filter with the node terms of the scheduler's configuration."""

    def __init__(self, table: NodeTable, added: Placement) -> None:
        super().__init__(table)
        self._enforced = nodes_of_terms(added.node_terms or (), table)

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        return super().nodes(pod_info) & self._enforced

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        failure = super().failure(pod_info, n)
        if failure is not None and failure.reasons[0].kind == "name-conflict":
            return failure
        if self._enforced >> n & 1:
            return failure
        reason = FilterReason(
            "node-affinity", "the scheduler's configuration adds node terms", ENFORCED
        )
        return FilterStatus(self.name, Code.UNRESOLVABLE, (reason,))
