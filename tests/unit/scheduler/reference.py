# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's filters once more, straight from their rules and without any cleverness.

It works on JSON as the API server returns it, looks at every pod for every question, and shares
nothing with the engine. It is what the engine is compared with, so it must stay simple.
"""

from __future__ import annotations

import fractions
import re
import typing as t

JSON = t.Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HARD = "DoNotSchedule"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
UNSCHEDULABLE = "Unschedulable"
Verdict = tuple[str, frozenset[str]]
"""Code, and the kinds of the reasons that the scheduler reports."""


class World:
    """Nodes, placed pods and namespaces, as JSON."""

    def __init__(self, nodes: list[JSON], pods: list[JSON], namespaces: list[JSON]) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.pods = [pod for pod in pods if pod["spec"].get("nodeName") in self.nodes]
        self.pods = [
            pod
            for pod in self.pods
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        self.namespaces = {each["metadata"]["name"]: labels_of(each) for each in namespaces}

    def without(self, name: str) -> World:
        """The same world, with the pod of this name gone."""
        other = World([], [], [])
        other.nodes, other.namespaces = self.nodes, self.namespaces
        other.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]
        return other

    def node_of(self, pod: JSON) -> JSON:
        return self.nodes[pod["spec"]["nodeName"]]

    def verdicts(self, pod: JSON, node_name: str) -> dict[str, Verdict]:
        """The verdict of each filter that does not pass."""
        node = self.nodes[node_name]
        found = {
            "NodeUnschedulable": cordoned(pod, node),
            "TaintToleration": tainted(pod, node),
            "NodeAffinity": node_affinity(pod, node),
            "NodePorts": ports(self, pod, node),
            "NodeResourcesFit": resources(self, pod, node),
            "PodTopologySpread": spread(self, pod, node),
            "InterPodAffinity": pod_affinity(self, pod, node),
        }
        return {plugin: verdict for plugin, verdict in found.items() if verdict is not None}

    def feasible(self, pod: JSON) -> set[str]:
        return {name for name in self.nodes if not self.verdicts(pod, name)}


def labels_of(thing: JSON) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def namespace_of(pod: JSON) -> str:
    return str(pod["metadata"]["namespace"])


def is_value(text: str) -> bool:
    return len(text) <= 63 and bool(
        re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", text)
    )


def expression_holds(expression: JSON, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    if expression["operator"] == "In":
        return key in labels and labels[key] in values
    if expression["operator"] == "NotIn":
        return key not in labels or labels[key] not in values
    if expression["operator"] == "Exists":
        return key in labels
    if expression["operator"] == "DoesNotExist":
        return key not in labels
    number = re.compile("[+-]?[0-9]+")
    if key not in labels or not number.fullmatch(labels[key]):
        return False
    if expression["operator"] == "Gt":
        return int(labels[key]) > int(values[0])
    return int(labels[key]) < int(values[0])


def selector_matches(selector: JSON, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    pairs = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in pairs.items()) and all(
        expression_holds(each, labels) for each in selector.get("matchExpressions") or []
    )


# ---- nodes ----------------------------------------------------------------------------------


def tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def tolerated(pod: JSON, taint: JSON) -> bool:
    return any(tolerates(each, taint) for each in pod["spec"].get("tolerations") or [])


def cordoned(pod: JSON, node: JSON) -> Verdict | None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if not node["spec"].get("unschedulable") or tolerated(pod, taint):
        return None
    return UNRESOLVABLE, frozenset({"cordoned"})


def has_bad_taint(pod: JSON, node: JSON) -> bool:
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(pod, taint)
        for taint in node["spec"].get("taints") or []
    )


def tainted(pod: JSON, node: JSON) -> Verdict | None:
    return (UNRESOLVABLE, frozenset({"taint"})) if has_bad_taint(pod, node) else None


def node_term_matches(term: JSON, node: JSON) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    for each in expressions:
        values, operator = each.get("values") or [], each["operator"]
        if not all(is_value(value) for value in values):
            return False
        if operator in ("In", "NotIn") and not values:
            return False
        if operator in ("Exists", "DoesNotExist") and values:
            return False
        if operator in ("Gt", "Lt") and not (
            len(values) == 1 and re.fullmatch("[0-9]+", values[0])
        ):
            return False
    if any(len(each["values"]) != 1 for each in fields):
        return False
    name = node["metadata"]["name"]
    return all(expression_holds(each, labels_of(node)) for each in expressions) and all(
        (each["values"][0] == name) == (each["operator"] == "In") for each in fields
    )


def node_terms(pod: JSON) -> JSON:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED)
    return None if required is None else required["nodeSelectorTerms"]


def matches_node(pod: JSON, node: JSON) -> bool:
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels_of(node).get(key) != value for key, value in wanted.items()):
        return False
    terms = node_terms(pod)
    return terms is None or any(node_term_matches(term, node) for term in terms)


def names_conflict(pod: JSON) -> bool:
    union: set[str] = set()
    terms = node_terms(pod)
    for term in terms or []:
        named = [
            set(each["values"])
            for each in term.get("matchFields") or []
            if each["operator"] == "In"
        ]
        if not named:
            return False
        union |= set.intersection(*named)
    return bool(terms) and not union


def node_affinity(pod: JSON, node: JSON) -> Verdict | None:
    if names_conflict(pod):
        return UNRESOLVABLE, frozenset({"name-conflict"})
    if matches_node(pod, node):
        return None
    return UNRESOLVABLE, frozenset({"node-affinity"})


def host_ports(pod: JSON) -> list[tuple[str, str, int]]:
    containers = list(pod["spec"]["containers"])
    containers += [
        each for each in pod["spec"].get("initContainers") or [] if each.get("restartPolicy")
    ]
    return [
        (port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", port["hostPort"])
        for container in containers
        for port in container.get("ports") or []
        if port.get("hostPort")
    ]


def ports(world: World, pod: JSON, node: JSON) -> Verdict | None:
    for other in world.pods:
        if world.node_of(other) is not node:
            continue
        for protocol, address, port in host_ports(pod):
            for taken in host_ports(other):
                same = (taken[0], taken[2]) == (protocol, port)
                if same and ("0.0.0.0" in (taken[1], address) or taken[1] == address):
                    return UNSCHEDULABLE, frozenset({"ports"})
    return None


# ---- resources ------------------------------------------------------------------------------


def quantity(text: str) -> fractions.Fraction:
    suffixes: dict[str, t.Any] = {"m": "1/1000", "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1000}
    for suffix, scale in suffixes.items():
        if text.endswith(suffix):
            return fractions.Fraction(text.removesuffix(suffix)) * fractions.Fraction(scale)
    return fractions.Fraction(text)


def request(pod: JSON, resource: str) -> fractions.Fraction:
    spec = pod["spec"]

    def asked(thing: JSON) -> fractions.Fraction:
        requests = (thing.get("resources") or {}).get("requests") or {}
        return quantity(requests.get(resource, "0"))

    started = fractions.Fraction(0)
    peak = fractions.Fraction(0)
    for each in spec.get("initContainers") or []:
        peak = max(peak, started + asked(each))
        if each.get("restartPolicy") == "Always":
            started += asked(each)
    total = max(peak, started + sum((asked(each) for each in spec["containers"]), started * 0))
    if resource in ("cpu", "memory") and resource in (
        (spec.get("resources") or {}).get("requests") or {}
    ):
        total = asked(spec)
    return total + quantity((spec.get("overhead") or {}).get(resource, "0"))


def resources(world: World, pod: JSON, node: JSON) -> Verdict | None:
    here = [other for other in world.pods if world.node_of(other) is node]
    allocatable = node["status"]["allocatable"]
    short, code = set(), UNSCHEDULABLE
    if len(here) + 1 > int(allocatable.get("pods", "0")):
        short.add("too-many-pods")
    for resource in ("cpu", "memory", "example.com/card"):
        wanted = request(pod, resource)
        limit = quantity(allocatable.get(resource, "0"))
        if wanted and wanted > limit - sum(request(other, resource) for other in here):
            short.add("resources")
            if wanted > limit:
                code = UNRESOLVABLE
    return (code, frozenset(short)) if short else None


# ---- topology spread --------------------------------------------------------------------------


def hard_constraints(pod: JSON) -> list[JSON]:
    listed = pod["spec"].get("topologySpreadConstraints") or []
    return [each for each in listed if each["whenUnsatisfiable"] == HARD]


def constraint_matches(constraint: JSON, owner: JSON, labels: dict[str, str]) -> bool:
    keys = [key for key in constraint.get("matchLabelKeys") or [] if key in labels_of(owner)]
    return selector_matches(constraint.get("labelSelector"), labels) and all(
        labels.get(key) == labels_of(owner)[key] for key in keys
    )


def is_everything(constraint: JSON, owner: JSON) -> bool:
    selector = constraint.get("labelSelector")
    if selector is None or selector.get("matchLabels") or selector.get("matchExpressions"):
        return False
    return not any(key in labels_of(owner) for key in constraint.get("matchLabelKeys") or [])


def spread_domains(world: World, pod: JSON, constraint: JSON) -> dict[str, int]:
    domains: dict[str, int] = {}
    for node in world.nodes.values():
        labels = labels_of(node)
        if any(each["topologyKey"] not in labels for each in hard_constraints(pod)):
            continue
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_node(pod, node):
            continue
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and has_bad_taint(pod, node):
            continue
        counted = [
            other
            for other in world.pods
            if world.node_of(other) is node
            and namespace_of(other) == namespace_of(pod)
            and not other["metadata"].get("deletionTimestamp")
            and not is_everything(constraint, pod)
            and constraint_matches(constraint, pod, labels_of(other))
        ]
        domain = labels[constraint["topologyKey"]]
        domains[domain] = domains.get(domain, 0) + len(counted)
    return domains


def spread(world: World, pod: JSON, node: JSON) -> Verdict | None:
    for constraint in hard_constraints(pod):
        domain = labels_of(node).get(constraint["topologyKey"])
        if domain is None:
            return UNRESOLVABLE, frozenset({"missing-label"})
        domains = spread_domains(world, pod, constraint)
        enough = len(domains) >= (constraint.get("minDomains") or 1)
        minimum = min(domains.values()) if domains and enough else 0
        own = constraint_matches(constraint, pod, labels_of(pod))
        if domains.get(domain, 0) + own - minimum > constraint["maxSkew"]:
            return UNSCHEDULABLE, frozenset({"skew"})
    return None


# ---- pods -------------------------------------------------------------------------------------


def pod_terms(pod: JSON, field: str) -> list[JSON]:
    affinity = (pod["spec"].get("affinity") or {}).get(field) or {}
    return list(affinity.get(REQUIRED) or [])


def term_matches(world: World, term: JSON, owner: JSON, other: JSON, *, placed: bool) -> bool:
    """Whether a term of `owner` matches `other`. `placed`: the owner is a placed pod, and `other`
    the one to be placed; else the other way round."""
    namespace, chosen = namespace_of(other), term.get("namespaceSelector")
    listed = term.get("namespaces") or []
    if not listed and chosen is None:
        in_scope = namespace == namespace_of(owner)
    elif namespace in listed or chosen == {}:
        in_scope = True
    elif not placed and namespace not in world.namespaces:
        in_scope = False
    else:
        in_scope = selector_matches(chosen, world.namespaces.get(namespace, {}))
    return in_scope and selector_matches(term.get("labelSelector"), labels_of(other))


def pod_affinity(world: World, pod: JSON, node: JSON) -> Verdict | None:
    if not is_near(world, pod, node):
        return UNRESOLVABLE, frozenset({"affinity"})
    labels = labels_of(node)
    for other in world.pods:
        theirs = labels_of(world.node_of(other))
        for term in pod_terms(pod, "podAntiAffinity"):
            key = term["topologyKey"]
            near = key in labels and labels[key] == theirs.get(key)
            if near and term_matches(world, term, pod, other, placed=False):
                return UNSCHEDULABLE, frozenset({"anti"})
    for other in world.pods:
        theirs = labels_of(world.node_of(other))
        for term in pod_terms(other, "podAntiAffinity"):
            key = term["topologyKey"]
            near = key in labels and labels[key] == theirs.get(key)
            if near and term_matches(world, term, other, pod, placed=True):
                return UNSCHEDULABLE, frozenset({"existing-anti"})
    return None


def is_near(world: World, pod: JSON, node: JSON) -> bool:
    terms, labels = pod_terms(pod, "podAffinity"), labels_of(node)
    if any(term["topologyKey"] not in labels for term in terms):
        return False
    matching = [
        labels_of(world.node_of(other))
        for other in world.pods
        if all(term_matches(world, term, pod, other, placed=False) for term in terms)
    ]
    keys = {term["topologyKey"] for term in terms}
    if all(any(each.get(key) == labels[key] for each in matching) for key in keys):
        return True
    nobody = not any(key in each for each in matching for key in keys)
    return nobody and all(term_matches(world, term, pod, pod, placed=False) for term in terms)
