# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What flows read is enough: on random clusters their answers are those of a reading of everything.

The clusters have three namespaces, rules that reach from one into another, volumes that are bound to a
zone, migrations in flight, and pods that have finished.
"""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ReadScope,
    read_snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.flows import forecast as forecast_flow
from ansible_collections.virt.placement.plugins.module_utils.flows import rules as flow
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import RULE_KINDS
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import (
    lint,
    lint_of_writes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.planning.moves_needed import (
    moves_needed,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from tests.bench.generator import HOSTNAME, REQUIRED, ZONE, generate
from tests.bench.machines import machine
from tests.support.api_server import ApiServer, status

JSON = t.Any
NAMESPACES = ("a", "b", "c")
KUBEVIRT = "/apis/kubevirt.io/v1"
PODS, CLAIMS, VOLUMES = (
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
)
EVERYTHING = ReadScope(pods="all", quotas=True)


def cluster_of(lists: t.Mapping[str, t.Iterable[JSON]]) -> ApiServer:
    server = ApiServer()
    for folder, items in lists.items():
        server.store(folder, *items)
    server.store("/api/v1/namespaces", {"metadata": {"name": "kube-system", "uid": "uid"}})
    return server


def read(server: ApiServer, scope: ReadScope) -> Snapshot:
    return read_snapshot(server.client(), scope)


def forbid(server: ApiServer, *lists: str) -> None:
    for folder in lists:
        server.add_fault("GET", folder.rpartition("/")[2], status(403, "Forbidden"))


def random_lists(chance: random.Random) -> dict[str, list[JSON]]:
    """Nodes, VMs with their pods, claims, volumes and migrations."""
    made = generate(
        chance.randint(4, 8),
        chance.randint(6, 18),
        chance.randint(2, 5),
        seed=chance.randrange(9999),
    )
    for node in made.nodes:
        node["metadata"]["labels"][ZONE] = chance.choice("xyz")
        node["status"]["allocatable"]["cpu"] = chance.choice(["1", "128"])
    across = chance.random() < 0.6
    namespaces: dict[str, str] = {}
    for pod in made.pods:
        group = pod["metadata"]["labels"]["group"]
        pod["metadata"]["namespace"] = namespaces.setdefault(group, chance.choice(NAMESPACES))
    for group in namespaces if across else ():
        if chance.random() < 0.6:
            _reach_across(
                chance, [x for x in made.pods if x["metadata"]["labels"]["group"] == group]
            )
    pods = made.pods
    for pod in pods:
        if chance.random() < 0.2:
            pod["spec"]["nodeName"] = chance.choice(made.nodes)["metadata"]["name"]
    vms, vmis = map(list, zip(*map(machine, pods), strict=True))
    claims, volumes = _volumes(chance, pods)
    migrations = [_migrating(chance, pods, vmi) for vmi in vmis if chance.random() < 0.2]
    finished = [_finished(chance, pod) for pod in pods if chance.random() < 0.5]
    names = [{"metadata": {"name": x, "labels": {"team": chance.choice("pq")}}} for x in NAMESPACES]
    return {
        "/api/v1/nodes": made.nodes,
        "/api/v1/namespaces": names,
        PODS: pods + finished,
        CLAIMS: claims,
        VOLUMES: volumes,
        f"{KUBEVIRT}/virtualmachines": vms,
        f"{KUBEVIRT}/virtualmachineinstances": vmis,
        f"{KUBEVIRT}/virtualmachineinstancemigrations": migrations,
        f"{KUBEVIRT}/kubevirts": [
            {"metadata": {"name": "kubevirt"}, "status": {"observedKubeVirtVersion": "v1.8.4"}}
        ],
    }


def _reach_across(chance: random.Random, pods: list[JSON]) -> None:
    """A pod affinity or anti-affinity of a group to pods of other namespaces."""
    where: JSON = chance.choice(
        [
            {"namespaces": chance.sample(NAMESPACES, 2)},
            {"namespaceSelector": {"matchLabels": {"team": chance.choice("pq")}}},
            {"namespaceSelector": {}},
        ]
    )
    label = chance.choice([("tier", "gold"), ("tier", "silver"), ("kubevirt.io", "virt-launcher")])
    term = {
        "labelSelector": {"matchLabels": dict([label])},
        "topologyKey": chance.choice([ZONE, HOSTNAME]),
    }
    field = chance.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    for pod in pods:
        pod["spec"]["affinity"].setdefault(field, {}).setdefault(REQUIRED, []).append(
            {**term, **where}
        )


def _volumes(chance: random.Random, pods: list[JSON]) -> tuple[list[JSON], list[JSON]]:
    claims, volumes = [], []
    for number, pod in enumerate(pods):
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"]["volumes"]:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and chance.random() < 0.7:
                zone = {"key": ZONE, "operator": "In", "values": [chance.choice("xyz")]}
                terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
                reference = {"namespace": namespace, "name": claim}
                claims.append({"metadata": dict(reference), "spec": {"volumeName": f"pv{number}"}})
                spec = {"claimRef": reference, "nodeAffinity": terms}
                status = {"phase": "Bound"}
                volumes.append(
                    {"metadata": {"name": f"pv{number}"}, "spec": spec, "status": status}
                )
    return claims, volumes


def _migrating(chance: random.Random, pods: list[JSON], vmi: JSON) -> JSON:
    """A migration of the VMI: finished, or with a target pod on another node."""
    name, namespace = vmi["metadata"]["name"], vmi["metadata"]["namespace"]
    source = next(
        x for x in pods if x["metadata"]["ownerReferences"][0]["uid"] == vmi["metadata"]["uid"]
    )
    phase = chance.choice(["Succeeded", "Running"])
    if phase == "Running":
        node = chance.choice(pods)["spec"]["nodeName"]
        metadata = {**source["metadata"], "name": f"target-{name}", "uid": f"target-{name}"}
        pods.append({**source, "metadata": metadata, "spec": {**source["spec"], "nodeName": node}})
    where = {"name": f"move-{name}", "namespace": namespace, "uid": f"move-{name}"}
    return {"metadata": where, "spec": {"vmiName": name}, "status": {"phase": phase}}


def _finished(chance: random.Random, pod: JSON) -> JSON:
    """An earlier pod of the same VMI, or a Job's."""
    metadata = {
        **pod["metadata"],
        "name": f"old-{pod['metadata']['name']}",
        "uid": f"old-{pod['metadata']['uid']}",
    }
    if chance.random() < 0.3:
        del metadata["ownerReferences"]
    phase = chance.choice(["Succeeded", "Failed"])
    return {**pod, "metadata": metadata, "status": {**pod["status"], "phase": phase}}


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_and_findings_are_those_of_a_reading_of_everything(seed: int) -> None:
    chance = random.Random(seed)
    server = cluster_of(random_lists(chance))
    namespaces = tuple(chance.sample(NAMESPACES, chance.randint(1, 2)))
    narrow = read(server, ReadScope(namespaces, migrations="", volumes="claimed"))
    wide = read(server, replace(EVERYTHING, namespaces=namespaces))
    options: dict[str, t.Any] = {"namespaces": namespaces, "topology": Topology.of()}
    verdicts, expected = (
        judge(snapshot, details=True, count_moves=moves_needed, **options)
        for snapshot in (narrow, wide)
    )
    assert verdicts == expected
    assert lint(narrow, **options) == lint(wide, **options)


@pytest.mark.parametrize("seed", SEEDS)
def test_forecast_is_that_of_a_reading_of_everything(seed: int) -> None:
    chance = random.Random(seed)
    server = cluster_of(random_lists(chance))
    lost = chance.choice(server.items("/api/v1/nodes"))["metadata"]["name"]
    forecasts = [
        forecast(what_if(read(server, scope), lost_nodes=frozenset({lost}), event="drain"))
        for scope in (forecast_flow.forecast_scope(None), replace(EVERYTHING, kinds=RULE_KINDS))
    ]
    assert forecasts[0] == forecasts[1]


def _random_rules(chance: random.Random, server: ApiServer) -> tuple[str, list[JSON]]:
    """The namespace of some VMs, and rules about them."""
    vms = server.items(f"{KUBEVIRT}/virtualmachines")
    namespace = chance.choice(vms)["metadata"]["namespace"]
    names = [x["metadata"]["name"] for x in vms if x["metadata"]["namespace"] == namespace]
    other = chance.choice(NAMESPACES)
    pods = {"labels": {"tier": chance.choice(["gold", "silver"])}, "namespaces": [other]}
    anywhere = {
        "labelSelector": {"matchLabels": {"tier": "gold"}},
        "topologyKey": ZONE,
        "namespaceSelector": {},
    }
    rule_types: list[JSON] = [
        {"keep_apart": "zone"},
        {"keep_apart": {"topology_key": "node", "pods": pods}},
        {"run_on": {"zone": chance.choice("xyz")}},
        {"avoid": {"zone": chance.choice("xyz")}},
        {"spread": {"topology_key": "zone", "max_skew": 1}},
        {"terms": {"affinity": {"podAntiAffinity": {REQUIRED: [anywhere]}}}},
    ]
    members = chance.sample(names, min(len(names), 3))
    chosen = chance.sample(rule_types, chance.randint(1, 2))
    return namespace, [
        {"name": f"r{number}", "workloads": members, **rule} for number, rule in enumerate(chosen)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_writes_are_those_of_a_reading_of_everything(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    server = cluster_of(random_lists(chance))
    topology = Topology.of()
    namespace, rules = _random_rules(chance, server)
    parsed = read_rules(rules, namespace=namespace, rule_set="s", topology=topology)
    assert not parsed.faults
    request = RulesRequest(namespace, "s", parsed.rules)

    def outcome() -> object:
        try:
            made = flow.write_rules(
                server.client(),
                request,
                check=True,
                extra_findings=lint_of_writes(topology),
            )
        except InvalidInput as error:
            return error.errors
        return made.workloads(), made.plan.findings, made.plan.refused, made.errors

    narrow = outcome()
    monkeypatch.setattr(
        flow,
        "scope_of",
        lambda _request: replace(EVERYTHING, kinds=RULE_KINDS, namespaces=(namespace,)),
    )
    assert narrow == outcome()


@pytest.mark.parametrize("seed", SEEDS)
def test_forecast_of_rules_is_that_of_a_reading_of_everything(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    server = cluster_of(random_lists(chance))
    namespace, rules = _random_rules(chance, server)

    def result() -> dict[str, t.Any]:
        return forecast_of_rules(server, namespace, rules)

    narrow = result()
    everything = replace(EVERYTHING, kinds=RULE_KINDS, namespaces=(namespace,))
    monkeypatch.setattr(forecast_flow, "_scope", lambda _request, _rules: everything)
    assert narrow == result()


def forecast_of_rules(server: ApiServer, namespace: str, rules: list[JSON]) -> dict[str, t.Any]:
    options = {
        "namespace": namespace,
        "rule_set": "default",
        "rules": rules,
        "state": "present",
        "prune": False,
        "adopt": "false",
        "scale": None,
        "unavailable": None,
        "event": "drain",
        "scope": "violated",
        "assume_node_labels": {},
        "topology_keys": {},
        "cluster_uid": None,
    }
    module = SimpleNamespace(params=options, warn=lambda _text: None)
    return forecast_flow.run(t.cast(t.Any, module), server.client())


def _written(server: ApiServer, rules: list[JSON], namespace: str = "a") -> None:
    parsed = read_rules(rules, namespace=namespace, rule_set="s", topology=Topology.of())
    request = RulesRequest(namespace, "s", parsed.rules)
    flow.write_rules(server.client(), request, check=True)


def _two_vms(**template: JSON) -> ApiServer:
    """Two VMs in namespace a with a claim each, of which the first has more in its template."""
    lists = random_lists(random.Random(1))
    reference = {
        "namespace": "a",
        "name": f"{lists[PODS][0]['metadata']['ownerReferences'][0]['name']}-root",
    }
    lists[CLAIMS] = [{"metadata": reference, "spec": {"volumeName": "pv"}}]
    for volume in lists[VOLUMES][:1]:
        volume["metadata"]["name"] = "pv"
        volume["spec"]["claimRef"] = reference
    for path in (f"{KUBEVIRT}/virtualmachines", f"{KUBEVIRT}/virtualmachineinstances", PODS):
        lists[path] = lists[path][:2]
        for number, item in enumerate(lists[path]):
            item["metadata"] |= {"name": f"vm{number}", "namespace": "a"}
    first = lists[f"{KUBEVIRT}/virtualmachines"][0]
    first["spec"]["template"]["spec"] |= template
    return cluster_of(lists)


APART: JSON = {"name": "r", "workloads": ["vm0", "vm1"], "keep_apart": "node"}


def test_rules_read_labels_of_pods_of_their_namespace_and_no_volumes() -> None:
    server = _two_vms()
    _written(server, [APART])
    assert [x.path for x in server.seen if x.path.endswith("/pods")] == [
        "/api/v1/namespaces/a/pods"
    ]
    (pods,) = (x for x in server.seen if x.path.endswith("/pods"))
    assert "PartialObject" in pods.headers["Accept"]
    paths = {x.path for x in server.seen}
    assert not paths & {VOLUMES, f"{KUBEVIRT}/virtualmachineinstancemigrations"}


def test_rules_read_all_pods_where_a_template_selects_some_of_another_namespace() -> None:
    term = {"labelSelector": {}, "topologyKey": ZONE, "namespaces": ["b"]}
    server = _two_vms(affinity={"podAffinity": {REQUIRED: [term]}})
    _written(server, [APART])
    assert [x.path for x in server.seen if x.path.endswith("/pods")] == [
        "/api/v1/namespaces/a/pods",
        PODS,
    ]


def test_all_volumes_are_read_where_claims_cannot_be() -> None:
    server = _two_vms()
    expected = read(server, ReadScope(("a",), migrations="", volumes="claimed")).claim_terms
    assert [x.query["fieldSelector"] for x in server.seen if x.path == VOLUMES] == [
        "metadata.name=pv"
    ]
    forbid(server, CLAIMS)
    snapshot = read(server, ReadScope(("a",), migrations="", volumes="claimed"))
    assert len(expected) == 1
    assert expected.items() <= snapshot.claim_terms.items()
    assert snapshot.unreadable == ()
    forbid(server, VOLUMES)
    (gap,) = read(server, ReadScope(("a",), migrations="", volumes="claimed")).unreadable
    assert gap.resource == "persistentvolumes"


@pytest.mark.parametrize("kind", ["VirtualMachineInstance", "ReplicaSet", "VirtualMachine"])
def test_nothing_is_owned_by_an_object_of_another_namespace(kind: str) -> None:
    """A tenant may write any owner reference, such as one that names an object of another."""
    server = cluster_of(random_lists(random.Random(7)))
    vmis = server.items(f"{KUBEVIRT}/virtualmachineinstances")
    deployment = {"kind": "Deployment", "name": "cache", "uid": "cache", "controller": True}
    metadata = {"name": "cache-1", "namespace": "a", "uid": "cache-1"}
    replica_set = {"metadata": {**metadata, "ownerReferences": [deployment]}}
    server.store("/apis/apps/v1/replicasets", replica_set)
    owner = {
        "VirtualMachineInstance": vmis[0],
        "ReplicaSet": replica_set,
        "VirtualMachine": server.items(f"{KUBEVIRT}/virtualmachines")[0],
    }[kind]["metadata"]
    namespace = next(x for x in NAMESPACES if x != owner["namespace"])
    evil = {
        "name": owner["name"],
        "namespace": namespace,
        "uid": "evil",
        "ownerReferences": [
            {"kind": kind, "name": owner["name"], "uid": owner["uid"], "controller": True}
        ],
    }
    before = read(server, EVERYTHING)
    if kind == "VirtualMachine":
        server.store(f"{KUBEVIRT}/virtualmachineinstances", {**vmis[0], "metadata": evil})
    else:
        spec = {"nodeSelector": {"no": "node"}, "containers": [{"name": "c"}]}
        pod = {"metadata": evil, "spec": spec, "status": {"phase": "Pending"}}
        server.store(PODS, pod)

    after = read(server, EVERYTHING)

    owners = {x.uid: x.owner for x in after.pods} | {x.uid: x.owner for x in after.vmis}
    assert owners["evil"] is None
    assert after.pods[: len(before.pods)] == before.pods
    assert after.vmis[: len(before.vmis)] == before.vmis
