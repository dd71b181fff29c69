# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machines behind the launcher pods of a generated cluster, and machines that have come
to be out of place: their nodes were relabelled, or somebody moved them past the rule.
"""

from __future__ import annotations

import itertools
import typing as t

from .generator import CREATED_BY, JSON, REQUIRED, ZONE

VIRTUAL_MACHINE = "VirtualMachine"
_OWN_LABELS = ("app", "group", "team", "tier")


def displaced(pods: t.Iterable[JSON], nodes: t.Sequence[JSON], every: int) -> t.Iterator[JSON]:
    """The pods, of which the last of one group in `every` stands where a rule of its group forbids
    it. Groups without a required rule are passed over, and so are most of one machine."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    by_group = itertools.groupby(pods, key=lambda pod: str(pod["metadata"]["labels"]["group"]))
    for number, (_group, listed) in enumerate(by_group):
        members = list(listed)
        node = wrong_node(members, labels) if number % every == 0 else None
        if node is not None:
            members[-1]["spec"]["nodeName"] = node
            members[-1]["metadata"]["labels"]["kubevirt.io/nodeName"] = node
        yield from members


def wrong_node(members: t.Sequence[JSON], nodes: t.Mapping[str, t.Mapping[str, str]]) -> str | None:
    """A node on which the last of a group breaks its rule."""
    spec, first = members[-1]["spec"], members[0]["spec"]["nodeName"]
    affinity = spec["affinity"]
    if _node_terms(affinity):
        return next(name for name, labels in nodes.items() if "performance" not in labels)
    if len(members) == 1:
        return None
    if REQUIRED in affinity.get("podAntiAffinity", {}) or "topologySpreadConstraints" in spec:
        return str(first)
    if REQUIRED in affinity.get("podAffinity", {}):
        zone = nodes[first][ZONE]
        return next(name for name, labels in nodes.items() if labels[ZONE] != zone)
    return None


def machine(pod: JSON) -> tuple[JSON, JSON]:
    """The VirtualMachine and the VirtualMachineInstance of a launcher pod; all that is declared is
    in effect."""
    metadata, owner = pod["metadata"], pod["metadata"]["ownerReferences"][0]
    labels = {name: metadata["labels"][name] for name in _OWN_LABELS}
    where = {"name": owner["name"], "namespace": metadata["namespace"]}
    uid = f"vm-{owner['uid']}"
    vm = {
        "metadata": {**where, "uid": uid, "labels": labels, "resourceVersion": "1"},
        "spec": {
            "runStrategy": "Always",
            "template": {"metadata": {"labels": labels}, "spec": _spec(pod, owner["uid"])},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "created": True},
    }
    reference = {"kind": VIRTUAL_MACHINE, "name": owner["name"], "uid": uid, "controller": True}
    vmi = {
        "metadata": {
            **where,
            "uid": owner["uid"],
            "labels": {**labels, "kubevirt.io/nodeName": pod["spec"]["nodeName"]},
            "ownerReferences": [{**reference, "apiVersion": "kubevirt.io/v1"}],
        },
        "spec": _spec(pod, owner["uid"]),
        "status": {
            "activePods": {metadata["uid"]: pod["spec"]["nodeName"]},
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "LiveMigratable", "status": "True"},
            ],
            "nodeName": pod["spec"]["nodeName"],
            "phase": "Running",
        },
    }
    return vm, vmi


def _spec(pod: JSON, own: str) -> JSON:
    """What a template says of what the pod says: without what KubeVirt and the API server add."""
    spec = pod["spec"]
    affinity: JSON = {}
    if _node_terms(spec["affinity"]):
        terms = [{"matchExpressions": _node_terms(spec["affinity"])}]
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    for field in ("podAffinity", "podAntiAffinity"):
        for strength, listed in spec["affinity"].get(field, {}).items():
            affinity[field] = {strength: [_unresolved(each, own) for each in listed]}
    kept: JSON = {"affinity": affinity} if affinity else {}
    if "topologySpreadConstraints" in spec:
        kept["topologySpreadConstraints"] = [{**x} for x in spec["topologySpreadConstraints"]]
    return {
        **kept,
        "domain": {
            "cpu": {"cores": 2, "sockets": 1, "threads": 1},
            "devices": {"disks": [{"name": "rootdisk", "disk": {"bus": "virtio"}}]},
            "memory": {"guest": "4Gi"},
        },
        "evictionStrategy": "LiveMigrate",
        "networks": [{"name": "default", "pod": {}}],
        "terminationGracePeriodSeconds": 180,
        "volumes": [x for x in spec["volumes"] if x["name"] == "rootdisk"],
    }


def _node_terms(affinity: JSON) -> list[JSON]:
    """The expressions about nodes that are the user's own."""
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [each for each in terms[0]["matchExpressions"] if "kubevirt.io" not in each["key"]]


def _unresolved(term: JSON, own: str) -> JSON:
    """A pod term before the API server has merged the pod's own created-by into it."""
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _unresolved(term["podAffinityTerm"], own)}
    selector = term["labelSelector"]
    if "matchExpressions" not in selector:
        return {**term}
    mine = {"key": CREATED_BY, "operator": "NotIn", "values": [own]}
    kept = [each for each in selector["matchExpressions"] if each != mine]
    return {**term, "labelSelector": {"matchExpressions": kept}}
