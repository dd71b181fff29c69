# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis strategies for small random clusters with many constraints that conflict."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

JSON = t.Any
CREATED_BY = "kubevirt.io/created-by"
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES: list[tuple[str, dict[str, str]]] = [
    ("blue", {"team": "t1", "env": "prod"}),
    ("green", {"team": "t2"}),
    ("plain", {}),
]
MISSING_NAMESPACE = "missing"
"""A namespace that has pods and no object."""

namespaces = st.sampled_from(["blue", "blue", "green", "plain", MISSING_NAMESPACE])
topology_keys = st.sampled_from([ZONE, ZONE, RACK, HOST])
pod_labels = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "db"])},
    optional={"tier": st.sampled_from(["gold", "iron"]), "rev": st.sampled_from(["1", "2"])},
)


def _up_to(count: int, strategy: st.SearchStrategy[t.Any]) -> st.SearchStrategy[list[t.Any]]:
    return st.lists(strategy, min_size=0, max_size=count)


def _expression(
    values_by_key: dict[str, list[str]], operators: list[str]
) -> st.SearchStrategy[JSON]:
    def build(key: str, operator: str, values: list[str]) -> JSON:
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            values = values[:1]
        return {"key": key, "operator": operator, "values": values}

    return st.sampled_from(sorted(values_by_key)).flatmap(
        lambda key: st.builds(
            build,
            st.just(key),
            st.sampled_from(operators),
            st.lists(st.sampled_from(values_by_key[key]), min_size=1, max_size=2),
        )
    )


pod_expressions = _expression(
    {"app": ["web", "db"], "tier": ["gold", "iron"], "rev": ["1", "2"]},
    ["In", "In", "NotIn", "Exists", "DoesNotExist"],
)
_NODE_VALUES = {
    ZONE: ["a", "b"],
    "disk": ["ssd", "hdd"],
    "gen": ["1", "2", "07", "x"],
    HOST: ["n0", "n1"],
}
_SET_OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"]
node_expressions = _expression(_NODE_VALUES, [*_SET_OPERATORS, "Gt", "Lt"])
some_selectors = st.one_of(
    st.just({}),
    st.builds(lambda labels: {"matchLabels": labels}, pod_labels),
    st.builds(
        lambda expressions: {"matchExpressions": expressions}, st.lists(pod_expressions, max_size=2)
    ),
)
selectors = st.one_of(st.none(), some_selectors)
namespace_selectors = st.one_of(
    st.none(),
    st.none(),
    st.just({}),
    _expression({"team": ["t1", "t2"], "env": ["prod"]}, _SET_OPERATORS).map(
        lambda expression: {"matchExpressions": [expression]}
    ),
)


@st.composite
def pod_term(draw: st.DrawFn, created_by: str) -> JSON:
    """A term of a pod with this label created-by. Some terms do not select the pod itself, as the API server
    writes them for mismatchLabelKeys."""
    term: JSON = {"topologyKey": draw(topology_keys)}
    selector = draw(selectors)
    if selector is not None:
        term["labelSelector"] = dict(selector)
        if draw(st.booleans()):
            excluded = {"key": CREATED_BY, "operator": "NotIn", "values": [created_by]}
            expressions = [*selector.get("matchExpressions", []), excluded]
            term["labelSelector"]["matchExpressions"] = expressions
            term["mismatchLabelKeys"] = [CREATED_BY]
    namespace_selector = draw(namespace_selectors)
    if namespace_selector is not None:
        term["namespaceSelector"] = namespace_selector
    if draw(st.booleans()):
        term["namespaces"] = draw(_up_to(2, namespaces))
    return term


spread_constraints = st.fixed_dictionaries(
    {
        "topologyKey": topology_keys,
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    },
    optional={
        "labelSelector": some_selectors,
        "minDomains": st.integers(1, 4),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "matchLabelKeys": st.lists(st.sampled_from(["rev", "tier"]), min_size=1, max_size=2),
    },
)
taints = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["gpu", "old", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    },
    optional={"value": st.just("y")},
)
tolerations = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={
        "key": st.sampled_from(["gpu", "old", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        "value": st.just("y"),
    },
)
name_fields = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1", "n2"]),
)
node_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": _up_to(2, node_expressions),
        "matchFields": _up_to(2, name_fields),
    },
)
node_preferences = st.fixed_dictionaries(
    {
        "weight": st.integers(1, 100),
        "preference": st.fixed_dictionaries(
            {},
            optional={
                "matchExpressions": _up_to(2, _expression(_NODE_VALUES, _SET_OPERATORS)),
                "matchFields": _up_to(2, name_fields),
            },
        ),
    }
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["250m", "1", "2500m"]),
        "memory": st.sampled_from(["1Gi", "512Mi", "3Gi"]),
        "example.com/card": st.sampled_from(["0", "1"]),
    },
)
host_ports = st.fixed_dictionaries(
    {"hostPort": st.sampled_from([80, 81])},
    optional={"protocol": st.just("UDP"), "hostIP": st.sampled_from(["10.0.0.1", "10.0.0.2"])},
)


def _container(requested: JSON, ports: list[JSON], **fields: str) -> JSON:
    return {"name": "c", "resources": {"requests": requested}, "ports": ports, **fields}


@st.composite
def pod(draw: st.DrawFn, name: str, nodes: list[str] | None = None) -> JSON:
    """A pod with this name, on one of `nodes`; pending without `nodes`."""
    rare = st.integers(0, 3).map(lambda n: n == 0)
    created_by = draw(st.sampled_from([f"u-{name}", "u-shared"]))
    labels = {**draw(pod_labels), CREATED_BY: created_by}
    if draw(rare):
        del labels[CREATED_BY]
    spec: JSON = {"containers": [_container(draw(requests), [])]}
    if draw(rare):
        spec["containers"][0]["ports"] = draw(_up_to(2, host_ports))
    if draw(rare):
        spec["initContainers"] = [
            _container(draw(requests), []),
            _container(draw(requests), draw(_up_to(1, host_ports)), restartPolicy="Always"),
        ]
    if draw(rare):
        spec["overhead"] = {"cpu": "100m"}
    affinity: JSON = {}
    if draw(rare):
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": draw(_up_to(2, node_terms))}}
    if draw(rare):
        affinity.setdefault("nodeAffinity", {})[PREFERRED] = draw(_up_to(2, node_preferences))
    for field in ("podAffinity", "podAntiAffinity"):
        if draw(st.booleans()):
            affinity[field] = {REQUIRED: draw(_up_to(2, pod_term(created_by)))}
        if draw(rare):
            weighted = st.fixed_dictionaries(
                {"weight": st.integers(1, 100), "podAffinityTerm": pod_term(created_by)}
            )
            affinity.setdefault(field, {})[PREFERRED] = draw(_up_to(2, weighted))
    if affinity:
        spec["affinity"] = affinity
    if draw(rare):
        spec["nodeSelector"] = draw(st.sampled_from([{"disk": "ssd"}, {ZONE: "a"}, {}]))
    if draw(st.booleans()):
        spec["topologySpreadConstraints"] = draw(_up_to(2, spread_constraints))
    spec["tolerations"] = draw(_up_to(2, tolerations))
    metadata = {"name": name, "namespace": draw(namespaces), "labels": labels}
    if nodes is not None:
        spec["nodeName"] = draw(st.sampled_from(nodes))
        if draw(rare):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": spec}


@st.composite
def node(draw: st.DrawFn, name: str) -> JSON:
    labels = draw(
        st.fixed_dictionaries(
            {},
            optional={
                ZONE: st.sampled_from(["a", "b", "c"]),
                RACK: st.sampled_from(["", "r1"]),
                "disk": st.sampled_from(["ssd", "hdd"]),
                "gen": st.sampled_from(["1", "2", "10", "x"]),
                HOST: st.just(name),
            },
        )
    )
    spec: JSON = {"taints": draw(_up_to(1, taints))}
    if draw(st.integers(0, 5)) == 0:
        spec["unschedulable"] = True
    allocatable = {"cpu": draw(st.sampled_from(["2", "4"])), "memory": "4Gi"}
    allocatable["pods"] = draw(st.sampled_from(["2", "9"]))
    if draw(st.booleans()):
        allocatable["example.com/card"] = "1"
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


class Cluster(t.NamedTuple):
    nodes: list[JSON]
    pods: list[JSON]
    namespaces: list[JSON]


@st.composite
def clusters(draw: st.DrawFn, max_pods: int = 6) -> Cluster:
    names = [f"n{n}" for n in range(draw(st.integers(1, 4)))]
    return Cluster(
        [draw(node(name)) for name in names],
        [draw(pod(f"p{n}", names)) for n in range(draw(st.integers(0, max_pods)))],
        [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES],
    )
