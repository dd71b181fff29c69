# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matcher cases: single comparisons, as the libraries under the scheduler make them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Placement,
    Taint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    placement_from_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import (
    is_readable_term,
    matches_node,
    matches_terms,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_state import (
    SCHEDULING_EFFECTS,
    tolerates,
    untolerated,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.preferences import (
    scored_terms,
)

from .scorers import node_affinity_scores
from .world import Case, compares

EVERY_EFFECT = SCHEDULING_EFFECTS | {"PreferNoSchedule", ""}


def matcher(case: Case) -> t.Iterator[str]:
    """One comparison and, where the case says so, whether the rule can be parsed."""
    if "parseError" in case and case["parseError"] == _is_readable(case):
        yield f"parse error: expected {case['parseError']}, got the opposite"
    if case["kind"] == "preferredTermsScore" and case["parseError"]:
        return
    got = _MATCHERS[case["kind"]](case)
    if got != case["want"]:
        yield f"{case['kind']}: expected {case['want']}, got {got}"


def _is_readable(case: Case) -> bool:
    if "terms" in case:
        preferred = scored_terms(_preferred(case).preferred_node_terms)
        return all(is_readable_term(term) for _weight, term in preferred)
    return all(map(is_readable_term, _required(case).node_terms or ()))


def _node_selector_match(case: Case) -> bool:
    terms = _required(case).node_terms or ()
    return "node" in case and matches_terms(terms, _node(case))


def _pod_matches_node(case: Case) -> bool:
    return matches_node(placement_from_spec(case["pod"]["spec"]), _node(case))


def _preferred_terms_score(case: Case) -> int:
    scores = node_affinity_scores(_preferred(case), [_node(case)])
    return scores[0] if scores else -1


def _tolerates_taint(case: Case) -> bool:
    (toleration,) = placement_from_spec({"tolerations": [case["toleration"]]}).tolerations
    taint = _taint(case["taint"])
    if not case["comparisonOperatorsGate"] or toleration.operator not in ("Gt", "Lt"):
        return tolerates(toleration, taint)
    equal = dataclasses.replace(toleration, operator="Equal", value=taint.value)
    return tolerates(equal, taint) and compares(toleration.operator, taint.value, toleration.value)


def _taints_tolerated(case: Case) -> bool:
    tolerations = placement_from_spec({"tolerations": case["tolerations"]}).tolerations
    taints = map(_taint, case["taints"])
    return not any(untolerated(taints, tolerations, effects=EVERY_EFFECT))


def _compare_numeric(case: Case) -> bool:
    return compares(case["operator"], case["taintValue"], case["tolerationValue"])


_MATCHERS: t.Mapping[str, t.Callable[[Case], object]] = {
    "nodeSelectorMatch": _node_selector_match,
    "podMatchesNode": _pod_matches_node,
    "preferredTermsScore": _preferred_terms_score,
    "toleratesTaint": _tolerates_taint,
    "taintsTolerated": _taints_tolerated,
    "compareNumeric": _compare_numeric,
}
KINDS = frozenset(_MATCHERS)


def _required(case: Case) -> Placement:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": case.get("nodeSelector")}
    return placement_from_spec({"affinity": {"nodeAffinity": required}})


def _preferred(case: Case) -> Placement:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": case["terms"]}
    return placement_from_spec({"affinity": {"nodeAffinity": preferred}})


def _node(case: Case) -> Node:
    return node_from_manifest(case["node"])


def _taint(taint: Case) -> Taint:
    return Taint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))
