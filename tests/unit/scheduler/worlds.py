# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters at random, dense with rules that get in each other's way."""

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
GHOST = "ghost"
"""A namespace that has pods and no object."""

namespaces = st.sampled_from(["blue", "blue", "green", "plain", GHOST])
topology_keys = st.sampled_from([ZONE, ZONE, RACK, HOST])
pod_labels = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "db"])},
    optional={"tier": st.sampled_from(["gold", "iron"]), "rev": st.sampled_from(["1", "2"])},
)


def _some(strategy: st.SearchStrategy[t.Any], most: int) -> st.SearchStrategy[list[t.Any]]:
    return st.lists(strategy, min_size=0, max_size=most)


def _expression(values: dict[str, list[str]], operators: list[str]) -> st.SearchStrategy[JSON]:
    def build(key: str, operator: str, listed: list[str]) -> JSON:
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            listed = listed[:1]
        return {"key": key, "operator": operator, "values": listed}

    return st.sampled_from(sorted(values)).flatmap(
        lambda key: st.builds(
            build,
            st.just(key),
            st.sampled_from(operators),
            st.lists(st.sampled_from(values[key]), min_size=1, max_size=2),
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
    st.builds(lambda listed: {"matchExpressions": listed}, st.lists(pod_expressions, max_size=2)),
)
selectors = st.one_of(st.none(), some_selectors)
namespace_selectors = st.one_of(
    st.none(),
    st.none(),
    st.just({}),
    _expression({"team": ["t1", "t2"], "env": ["prod"]}, _SET_OPERATORS).map(
        lambda each: {"matchExpressions": [each]}
    ),
)


@st.composite
def pod_term(draw: st.DrawFn, own: str) -> JSON:
    """A term of a pod whose created-by is `own`: some leave the pod itself out, as KubeVirt's do."""
    term: JSON = {"topologyKey": draw(topology_keys)}
    selector = draw(selectors)
    if selector is not None:
        term["labelSelector"] = dict(selector)
        if draw(st.booleans()):
            excluded = {"key": CREATED_BY, "operator": "NotIn", "values": [own]}
            listed = [*selector.get("matchExpressions", []), excluded]
            term["labelSelector"]["matchExpressions"] = listed
            term["mismatchLabelKeys"] = [CREATED_BY]
    chosen = draw(namespace_selectors)
    if chosen is not None:
        term["namespaceSelector"] = chosen
    if draw(st.booleans()):
        term["namespaces"] = draw(_some(namespaces, 2))
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
        "matchExpressions": _some(node_expressions, 2),
        "matchFields": _some(name_fields, 2),
    },
)
node_preferences = st.fixed_dictionaries(
    {
        "weight": st.integers(1, 100),
        "preference": st.fixed_dictionaries(
            {},
            optional={
                "matchExpressions": _some(_expression(_NODE_VALUES, _SET_OPERATORS), 2),
                "matchFields": _some(name_fields, 2),
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


def _container(asked: JSON, ports: list[JSON], **more: str) -> JSON:
    return {"name": "c", "resources": {"requests": asked}, "ports": ports, **more}


@st.composite
def pod(draw: st.DrawFn, name: str, nodes: list[str] | None = None) -> JSON:
    """A pod called `name`; placed on one of `nodes` where they are given."""
    rare = st.integers(0, 3).map(lambda n: n == 0)
    own = draw(st.sampled_from([f"u-{name}", "u-shared"]))
    labels = {**draw(pod_labels), CREATED_BY: own}
    if draw(rare):
        del labels[CREATED_BY]
    spec: JSON = {"containers": [_container(draw(requests), [])]}
    if draw(rare):
        spec["containers"][0]["ports"] = draw(_some(host_ports, 2))
    if draw(rare):
        spec["initContainers"] = [
            _container(draw(requests), []),
            _container(draw(requests), draw(_some(host_ports, 1)), restartPolicy="Always"),
        ]
    if draw(rare):
        spec["overhead"] = {"cpu": "100m"}
    affinity: JSON = {}
    if draw(rare):
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": draw(_some(node_terms, 2))}}
    if draw(rare):
        affinity.setdefault("nodeAffinity", {})[PREFERRED] = draw(_some(node_preferences, 2))
    for field in ("podAffinity", "podAntiAffinity"):
        if draw(st.booleans()):
            affinity[field] = {REQUIRED: draw(_some(pod_term(own), 2))}
        if draw(rare):
            weighted = st.fixed_dictionaries(
                {"weight": st.integers(1, 100), "podAffinityTerm": pod_term(own)}
            )
            affinity.setdefault(field, {})[PREFERRED] = draw(_some(weighted, 2))
    if affinity:
        spec["affinity"] = affinity
    if draw(rare):
        spec["nodeSelector"] = draw(st.sampled_from([{"disk": "ssd"}, {ZONE: "a"}, {}]))
    if draw(st.booleans()):
        spec["topologySpreadConstraints"] = draw(_some(spread_constraints, 2))
    spec["tolerations"] = draw(_some(tolerations, 2))
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
    spec: JSON = {"taints": draw(_some(taints, 1))}
    if draw(st.integers(0, 5)) == 0:
        spec["unschedulable"] = True
    amounts = {"cpu": draw(st.sampled_from(["2", "4"])), "memory": "4Gi"}
    amounts["pods"] = draw(st.sampled_from(["2", "9"]))
    if draw(st.booleans()):
        amounts["example.com/card"] = "1"
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts},
    }


class Cluster(t.NamedTuple):
    nodes: list[JSON]
    pods: list[JSON]
    namespaces: list[JSON]


@st.composite
def clusters(draw: st.DrawFn, most_pods: int = 6) -> Cluster:
    names = [f"n{n}" for n in range(draw(st.integers(1, 4)))]
    return Cluster(
        [draw(node(name)) for name in names],
        [draw(pod(f"p{n}", names)) for n in range(draw(st.integers(0, most_pods)))],
        [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES],
    )
