# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and pods of the model as the JSON that the plain reference of the filters reads."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Placement,
    Pod,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
)

JSON = t.Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_manifest(node: Node) -> JSON:
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {},
        "status": {"allocatable": {name: str(n) for name, n in node.allocatable.items()}},
    }


def pod_manifest(pod: Pod) -> JSON:
    """A pod that asks for no resources, with its required terms."""
    placement = pod.placement
    spec: JSON = {"containers": [], "affinity": _affinity(placement)}
    spec["topologySpreadConstraints"] = list(map(_spread, placement.spread))
    if pod.node_name:
        spec["nodeName"] = pod.node_name
    metadata = {"namespace": pod.namespace, "name": pod.name, "labels": dict(pod.labels)}
    return {"metadata": metadata, "spec": spec, "status": {"phase": pod.phase}}


def _affinity(placement: Placement) -> JSON:
    found: JSON = {
        "podAffinity": {REQUIRED: list(map(_term, placement.affinity))},
        "podAntiAffinity": {REQUIRED: list(map(_term, placement.anti_affinity))},
    }
    if placement.node_terms is not None:
        terms = [{"matchExpressions": _expressions(x.expressions)} for x in placement.node_terms]
        found["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    return found


def _term(term: PodTerm) -> JSON:
    return {"topologyKey": term.topology_key, "labelSelector": _selector(term.selector)}


def _spread(constraint: SpreadConstraint) -> JSON:
    return {
        "topologyKey": constraint.topology_key,
        "maxSkew": constraint.max_skew,
        "whenUnsatisfiable": constraint.when_unsatisfiable,
        "labelSelector": _selector(constraint.selector),
    }


def _selector(selector: Selector | None) -> JSON:
    return selector and {"matchExpressions": _expressions(selector.requirements)}


def _expressions(listed: t.Iterable[Requirement]) -> list[JSON]:
    return [{"key": x.key, "operator": x.operator, "values": list(x.values)} for x in listed]
