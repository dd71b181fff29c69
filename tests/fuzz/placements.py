# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement fields of pods: affinity, topology spread constraints, node selectors and tolerations."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from .cluster import HOSTNAME, OTHERS, TENANT, ZONE, Object
from .values import label_keys, label_values, labels, texts

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_expressions = st.builds(
    lambda key, operator, listed: {
        "key": key,
        "operator": operator,
        **(
            {}
            if operator in ("Exists", "DoesNotExist")
            else {"values": listed[:1] if operator in ("Gt", "Lt") else listed}
        ),
    },
    label_keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(label_values, min_size=1, max_size=3),
)
_node_expressions = st.one_of(
    _expressions,
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
        label_keys,
        st.sampled_from(["Gt", "Lt"]),
        label_values,
    ),
)
_selectors: st.SearchStrategy[Object] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": labels,
            "matchExpressions": st.lists(_expressions, max_size=3),
        },
    ),
)
_topology_keys = st.one_of(st.just(ZONE), st.just(HOSTNAME), label_keys)
_own_pod_terms = st.fixed_dictionaries(
    {"topologyKey": _topology_keys, "labelSelector": _selectors},
    optional={
        "matchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
        "mismatchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
    },
)
_pod_terms = st.one_of(
    _own_pod_terms,
    st.builds(
        lambda term, more: {**term, **more},
        _own_pod_terms,
        st.fixed_dictionaries(
            {},
            optional={
                "namespaces": st.sampled_from([[OTHERS], [TENANT, OTHERS], ["gone"], []]),
                "namespaceSelector": _selectors,
            },
        ),
    ),
)


def _required(terms: st.SearchStrategy[t.Any]) -> st.SearchStrategy[Object]:
    many = st.builds(
        lambda listed, times: [
            {**term, "topologyKey": f"k{number}"} if number else term
            for number in range(times)
            for term in listed
        ],
        st.lists(terms, min_size=1, max_size=2),
        st.sampled_from([30, 200]),
    )
    plain = st.lists(terms, max_size=3)
    weighted = st.lists(
        st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms}),
        max_size=3,
    )
    return st.fixed_dictionaries(
        {}, optional={REQUIRED: st.one_of(plain, plain, plain, many), PREFERRED: weighted}
    )


_node_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_node_expressions, max_size=3),
        "matchFields": st.lists(
            st.builds(
                lambda operator, value: {
                    "key": "metadata.name",
                    "operator": operator,
                    "values": [value],
                },
                st.sampled_from(["In", "NotIn"]),
                st.sampled_from(["w1", "w2", "gone"]),
            ),
            max_size=1,
        ),
    },
)
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.builds(
            lambda terms: {"nodeSelectorTerms": terms},
            st.lists(_node_terms, min_size=1, max_size=4),
        ),
        PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _node_terms}),
            max_size=3,
        ),
    },
)
_spread = st.fixed_dictionaries(
    {
        "maxSkew": st.sampled_from([1, 2, 2**31 - 1]),
        "topologyKey": _topology_keys,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    },
    optional={
        "labelSelector": _selectors,
        "minDomains": st.sampled_from([1, 2, 2**31 - 1]),
        "matchLabelKeys": st.lists(label_keys, max_size=2, unique=True),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
_tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": label_keys,
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": label_values,
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    },
)


def _placements(pod_terms: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    affinity = st.fixed_dictionaries(
        {},
        optional={
            "nodeAffinity": _node_affinity,
            "podAffinity": _required(pod_terms),
            "podAntiAffinity": _required(pod_terms),
        },
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "affinity": affinity,
            "topologySpreadConstraints": st.lists(_spread, max_size=3),
            "nodeSelector": labels,
            "tolerations": st.lists(_tolerations, max_size=3),
        },
    )


unvalidated: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(texts, texts, max_size=2),
        "tolerations": st.lists(
            st.fixed_dictionaries({"key": texts}, optional={"operator": st.just("Exists")}),
            max_size=2,
        ),
        "schedulerName": texts,
    },
)
"""What the API server takes in the spec of a VM or VMI, and refuses in that of a pod."""

placements = _placements(_pod_terms)
own_placements = _placements(_own_pod_terms)
"""Without terms about pods of other namespaces."""
