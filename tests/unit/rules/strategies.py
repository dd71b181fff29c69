# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement fields as anybody may have left them, and terms as rules may ask for them."""

from __future__ import annotations

import json
import typing as t

from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    PREFERRED,
    REQUIRED,
)
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    TemplateTerm,
    TermLocation,
    pair,
)

JSON = t.Any
KEYS = ("zone.example/z", "node", "class")
VALUES = ("a", "b", "c")


def optional(**fields: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    """A map in which each field may be missing."""
    return st.fixed_dictionaries({}, optional=fields)


expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
    }
)
name_fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from(("w1", "w2")), min_size=1, max_size=1),
    }
)
selectors = st.one_of(
    st.just({}),
    st.builds(lambda e: {"matchExpressions": e}, st.lists(expressions, max_size=2)),
    st.builds(lambda k, v: {"matchLabels": {k: v}}, st.sampled_from(KEYS), st.sampled_from(VALUES)),
)
pod_terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(KEYS), "labelSelector": selectors},
    optional={
        "namespaces": st.lists(st.sampled_from(("x", "y")), max_size=2, unique=True),
        "mismatchLabelKeys": st.just(["kubevirt.io/created-by"]),
    },
)
node_terms = optional(
    matchExpressions=st.lists(expressions, max_size=2),
    matchFields=st.lists(name_fields, max_size=1),
)
weights = st.integers(1, 100)
weighted_pod_terms = st.fixed_dictionaries({"weight": weights, "podAffinityTerm": pod_terms})
weighted_node_terms = st.fixed_dictionaries({"weight": weights, "preference": node_terms})
spreads = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": st.sampled_from(KEYS),
        "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": selectors,
    }
)
tolerations = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "operator": st.just("Exists")},
    optional={"effect": st.sampled_from(("NoSchedule", "NoExecute"))},
)


def _says(term: JSON) -> str:
    """What tells node terms apart: two that say the same stand for one."""
    return json.dumps({key: value for key, value in term.items() if value}, sort_keys=True)


def _of_pods() -> st.SearchStrategy[JSON]:
    return optional(
        **{
            REQUIRED: st.lists(pod_terms, max_size=2),
            PREFERRED: st.lists(weighted_pod_terms, max_size=2),
        }
    )


affinities = optional(
    nodeAffinity=optional(
        **{
            REQUIRED: optional(nodeSelectorTerms=st.lists(node_terms, max_size=3, unique_by=_says)),
            PREFERRED: st.lists(weighted_node_terms, max_size=2),
        }
    ),
    podAffinity=_of_pods(),
    podAntiAffinity=_of_pods(),
)


def _one_of_each_pair(constraint: JSON) -> tuple[str, str]:
    return constraint["topologyKey"], constraint["whenUnsatisfiable"]


label_maps = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(VALUES), max_size=2)
templates = st.fixed_dictionaries(
    {
        "spec": optional(
            affinity=affinities,
            nodeSelector=st.dictionaries(
                st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2
            ),
            tolerations=st.lists(tolerations, max_size=2),
            topologySpreadConstraints=st.lists(spreads, max_size=2, unique_by=_one_of_each_pair),
        )
    },
    optional={"metadata": optional(labels=label_maps)},
)

compiled_terms = st.one_of(
    st.builds(TemplateTerm, st.just(TermLocation.NODE_EXPRESSION), expressions),
    st.builds(TemplateTerm, st.just(TermLocation.NODE_FIELD), name_fields),
    st.builds(TemplateTerm, st.just(TermLocation.PREFERRED_NODE), weighted_node_terms),
    st.builds(TemplateTerm, st.just(TermLocation.AFFINITY), pod_terms),
    st.builds(TemplateTerm, st.just(TermLocation.ANTI_AFFINITY), pod_terms),
    st.builds(TemplateTerm, st.just(TermLocation.PREFERRED_AFFINITY), weighted_pod_terms),
    st.builds(TemplateTerm, st.just(TermLocation.PREFERRED_ANTI_AFFINITY), weighted_pod_terms),
    st.builds(TemplateTerm, st.just(TermLocation.SPREAD), spreads),
    st.builds(TemplateTerm, st.just(TermLocation.TOLERATION), tolerations),
    st.builds(
        pair, st.just(TermLocation.LABEL), st.sampled_from(("app", "mine")), st.sampled_from(VALUES)
    ),
    st.builds(
        pair, st.just(TermLocation.NODE_SELECTOR), st.sampled_from(KEYS), st.sampled_from(VALUES)
    ),
)
or_terms = st.lists(
    node_terms.filter(lambda term: any(term.values())), min_size=2, max_size=2, unique_by=_says
).map(lambda terms: tuple(TemplateTerm(TermLocation.NODE_TERM, term) for term in terms))

rule_ids = st.sampled_from([RuleId("shop", "default", name) for name in ("one", "two", "three")])
term_lists = st.one_of(st.lists(compiled_terms, max_size=3).map(tuple), or_terms)
rule_maps = st.dictionaries(rule_ids, term_lists, min_size=1, max_size=3)
