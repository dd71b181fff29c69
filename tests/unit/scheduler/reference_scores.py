# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scores of preferred rules once more, pod by pod and node by node."""

from __future__ import annotations

import math
import typing as t

from .reference import (
    HARD,
    JSON,
    World,
    constraint_matches,
    has_bad_taint,
    is_everything,
    labels_of,
    matches_node,
    namespace_of,
    node_term_matches,
    pod_terms,
    term_matches,
    tolerated,
)

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
Scores = dict[str, int]


def preferred_terms(pod: JSON, field: str) -> list[tuple[int, JSON]]:
    affinity = (pod["spec"].get("affinity") or {}).get(field) or {}
    return [
        (each["weight"], each.get("podAffinityTerm") or each.get("preference") or {})
        for each in affinity.get(PREFERRED) or []
    ]


def node_affinity_scores(world: World, pod: JSON) -> Scores | None:
    """None: nothing is preferred."""
    terms = preferred_terms(pod, "nodeAffinity")
    if not terms:
        return None
    return {
        name: sum(weight for weight, term in terms if node_term_matches(term, node))
        for name, node in world.nodes.items()
    }


def taint_scores(world: World, pod: JSON) -> Scores:
    return {
        name: sum(
            1
            for taint in node["spec"].get("taints") or []
            if taint["effect"] == "PreferNoSchedule" and not tolerated(pod, taint)
        )
        for name, node in world.nodes.items()
    }


def pod_affinity_scores(world: World, pod: JSON) -> Scores | None:
    """None if no pod and no term gives a score."""
    scores = dict.fromkeys(world.nodes, 0)
    any_score = False
    for other in world.pods:
        theirs = labels_of(world.node_of(other))
        for weight, term in _what_counts(world, pod, other):
            key = term["topologyKey"]
            if key not in theirs:
                continue
            any_score = True
            for name, node in world.nodes.items():
                if labels_of(node).get(key) == theirs[key]:
                    scores[name] += weight
    return scores if any_score else None


def _what_counts(world: World, pod: JSON, other: JSON) -> t.Iterator[tuple[int, JSON]]:
    for field, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for weight, term in preferred_terms(pod, field):
            if term_matches(world, term, pod, other, placed=False):
                yield sign * weight, term
        for weight, term in preferred_terms(other, field):
            if term_matches(world, term, other, pod, placed=True):
                yield sign * weight, term
    for term in pod_terms(other, "podAffinity"):
        if term_matches(world, term, other, pod, placed=True):
            yield 1, term


def spread_scores(world: World, pod: JSON, names: list[str]) -> Scores | None:
    """Scores of the nodes that carry all keys; None: there is no soft constraint."""
    listed = pod["spec"].get("topologySpreadConstraints") or []
    soft = [each for each in listed if each["whenUnsatisfiable"] != HARD]
    keys = [each["topologyKey"] for each in soft]
    if not soft:
        return None
    complete = [name for name in names if all(key in labels_of(world.nodes[name]) for key in keys)]
    scores = dict.fromkeys(complete, 0.0)
    for each in soft:
        key = each["topologyKey"]
        domains = {labels_of(world.nodes[name])[key] for name in complete}
        weight = math.log((len(complete) if key == HOST else len(domains)) + 2)
        for name in complete:
            count = _soft_count(world, pod, each, keys, name)
            scores[name] += count * weight + (each["maxSkew"] - 1)
    return {name: math.floor(score + 0.5) for name, score in scores.items()}


def _soft_count(world: World, pod: JSON, constraint: JSON, keys: list[str], name: str) -> int:
    key = constraint["topologyKey"]
    count = 0
    for other in world.pods:
        if not _is_counted(pod, constraint, other):
            continue
        node = world.node_of(other)
        if key == HOST:
            count += node is world.nodes[name]
        elif labels_of(node).get(key) == labels_of(world.nodes[name])[key]:
            count += _is_eligible(pod, constraint, keys, node)
    return count


def _is_counted(pod: JSON, constraint: JSON, other: JSON) -> bool:
    return (
        namespace_of(other) == namespace_of(pod)
        and not other["metadata"].get("deletionTimestamp")
        and not is_everything(constraint, pod)
        and constraint_matches(constraint, pod, labels_of(other))
    )


def _is_eligible(pod: JSON, constraint: JSON, keys: list[str], node: JSON) -> bool:
    if any(key not in labels_of(node) for key in keys):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_node(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or not has_bad_taint(pod, node)
