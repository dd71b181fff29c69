# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made of lists and of the KubeVirt object."""

from __future__ import annotations

import typing as t
from concurrent.futures import Future

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import parallel
from ansible_collections.virt.placement.plugins.module_utils.cluster.expanded_templates import (
    with_expanded_templates,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.identity import (
    _kubevirt_fields,
    _release,
    newer_than_tested,
    too_old,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    NODES_ONLY,
    ListQuery,
    ListResult,
    _controller,
    snapshot_of,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import summary
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import relevant_gaps
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    migration_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    NodeTerm,
    Owner,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Platform,
    Snapshot,
    Unreadable,
    Vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.model.storage import (
    BoundVolume,
    volume_of_a_claim,
)
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdicts
from tests.support.api_server import ApiServer, Reply, answer, status

JSON = t.Any


def _metadata(name: str = "db", **more: JSON) -> JSON:
    return {"namespace": "shop", "name": name, "uid": f"uid-{name}", **more}


def _owner(kind: str, name: str, controller: bool) -> JSON:
    api_version = "apps/v1"
    return {
        "kind": kind,
        "name": name,
        "uid": f"uid-{name}",
        "apiVersion": api_version,
        "controller": controller,
    }


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ({"major": "1", "minor": "36"}, (1, 36)),
        ({"major": "1", "minor": "31+"}, (1, 31)),
        ({"major": "", "minor": ""}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_releases(version: JSON, release: tuple[int, int]) -> None:
    assert _release(version) == release


OLD = Platform(api="https://api.example.com:6443", kubernetes=(1, 30), kubevirt="v1.3.1")


def test_server_that_is_too_old_is_refused_with_its_releases_and_what_is_needed() -> None:
    kubernetes, kubevirt = [str(fault) for fault in too_old(OLD)]
    assert kubernetes == (
        "cluster: Kubernetes 1.30 of https://api.example.com:6443 is too old: 1.31 or newer is needed."
        " Nothing was written. Upgrade Kubernetes; docs/compatibility.md has the releases that are supported"
    )
    assert "KubeVirt 1.3 of https://api.example.com:6443 is too old: 1.4 or newer" in kubevirt
    assert not newer_than_tested(OLD)


@pytest.mark.parametrize(
    ("kubernetes", "kubevirt"),
    [
        ((1, 31), "v1.4.0"),
        ((1, 36), "v1.8.4"),
        ((1, 32), "1.4.0-150600.5.15.1"),  # as Harvester names it
        ((1, 31), None),  # not installed
        ((0, 0), ""),  # not readable
        ((1, 31), "devel"),
    ],
)
def test_server_that_is_supported_or_not_known_is_taken(
    kubernetes: tuple[int, int], kubevirt: str | None
) -> None:
    platform = Platform(kubernetes=kubernetes, kubevirt=kubevirt)
    assert not too_old(platform)
    assert not newer_than_tested(platform)


def test_newer_server_gets_one_line() -> None:
    line = newer_than_tested(Platform(kubernetes=(1, 38), kubevirt="v1.9.0"))
    assert line == (
        "Kubernetes 1.38 is newer than 1.36, the newest that is tested;"
        " KubeVirt 1.9 is newer than 1.8, the newest that is tested"
    )


def test_settings_of_kubevirt() -> None:
    assert _kubevirt_fields({}) == {
        "kubevirt": "",
        "configuration": {},
    }
    configuration = {
        "vmRolloutStrategy": "Stage",
        "evictionStrategy": "LiveMigrate",
        "migrations": {"parallelMigrationsPerCluster": 9, "parallelOutboundMigrationsPerNode": 3},
    }
    kubevirt = {
        "spec": {"configuration": configuration},
        "status": {"observedKubeVirtVersion": "v1.8.4"},
    }
    assert Platform(**_kubevirt_fields(kubevirt)) == Platform(
        kubevirt="v1.8.4",
        rollout_strategy="Stage",
        eviction_strategy="LiveMigrate",
        migrations_per_cluster=9,
        migrations_per_node=3,
        configuration=configuration,
    )


def test_a_replica_set_leads_to_the_deployment_that_controls_it() -> None:
    sets = [
        {"metadata": _metadata("a", ownerReferences=[_owner("Deployment", "web", True)])},
        {"metadata": _metadata("b", ownerReferences=[_owner("Deployment", "web", False)])},
        {"metadata": _metadata("c", ownerReferences=[_owner("Rollout", "web", True)])},
        {"metadata": _metadata("d")},
    ]
    deployment = Ref("Deployment", "shop", "web")
    assert list(map(_controller, sets)) == [("uid-a", deployment), None, None, None]


def _volume(phase: str = "Bound", claim: bool = True, affinity: bool = True, **spec: JSON) -> JSON:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec = {"accessModes": ["ReadWriteOnce"], **spec}
    if affinity:
        spec["nodeAffinity"] = {"required": terms}
    if claim:
        spec["claimRef"] = {"namespace": "shop", "name": "data"}
    return {"spec": spec, "status": {"phase": phase}}


def test_a_bound_volume_ties_its_claim_to_nodes() -> None:
    terms = (NodeTerm((Requirement("zone", "In", ("a",)),)),)
    claim, modes = ("shop", "data"), ("ReadWriteOnce",)
    assert volume_of_a_claim(_volume()) == BoundVolume(terms, "", claim, modes)
    of_driver = _volume(affinity=False, csi={"driver": "csi", "volumeHandle": "x"})
    assert volume_of_a_claim(of_driver) == BoundVolume((), "csi", claim, modes)
    in_tree = _volume(affinity=False, vsphereVolume={"volumePath": "[ds] kubevols/x.vmdk"})
    assert volume_of_a_claim(in_tree) == BoundVolume(
        (), "kubernetes.io/vsphereVolume", claim, modes
    )
    for other in (_volume("Released"), _volume(claim=False)):
        assert volume_of_a_claim(other) is None


def test_snapshot_has_node_terms_only_of_volumes_that_some_nodes_cannot_reach() -> None:
    volumes = [volume_of_a_claim(_volume()), volume_of_a_claim(_volume(affinity=False))]
    results = [
        ListResult(ListQuery("volumes", "/"), items=tuple(volumes[number:])) for number in (0, 1)
    ]
    both, free = (snapshot_of(NODES_ONLY, Platform(), (), [result]) for result in results)

    assert free.claim_terms == {}
    assert free.access_modes == both.access_modes == {("shop", "data"): ("ReadWriteOnce",)}


def test_workload_has_its_controller() -> None:
    manifest = {"metadata": _metadata(ownerReferences=[_owner("VirtualMachinePool", "p", True)])}
    workload = workload_from_manifest("VirtualMachine", manifest)
    assert workload.ref == Ref("VirtualMachine", "shop", "db")
    assert workload.owner == Owner("VirtualMachinePool", "p", "uid-p", "apps")
    assert workload.manifest["metadata"] == manifest["metadata"]


def test_an_instance_that_has_just_been_made() -> None:
    assert vmi_from_manifest({"metadata": _metadata()}) == Vmi(
        Ref("VirtualMachineInstance", "shop", "db"), "uid-db", "", "", {}, {}
    )


@pytest.mark.parametrize(
    ("status", "migratable"), [("True", True), ("False", False), ("Unknown", None)]
)
def test_a_running_instance(status: str, migratable: bool | None) -> None:
    manifest = {
        "metadata": _metadata(labels={"a": "b"}, deletionTimestamp="2026-01-01T00:00:00Z"),
        "spec": {"evictionStrategy": "LiveMigrate"},
        "status": {
            "phase": "Running",
            "nodeName": "w1",
            "evacuationNodeName": "w1",
            "activePods": {"pod-uid": "w1"},
            "migrationState": {"completed": True},
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "LiveMigratable", "status": status, "reason": "R", "message": "m"},
            ],
        },
    }
    found = vmi_from_manifest(manifest)
    assert (found.ready, found.live_migratable) == (True, migratable)
    assert found.live_migratable_reason == "R: m"
    assert (found.node_name, found.evacuation_node_name) == ("w1", "w1")
    assert (found.eviction_strategy, found.terminating) == ("LiveMigrate", True)
    assert (found.active_pods, found.migration) == ({"pod-uid": "w1"}, {"completed": True})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_migration_that_has_ended_is_none(phase: str) -> None:
    assert migration_from_manifest({"metadata": _metadata(), "status": {"phase": phase}}) is None


def test_a_migration_that_goes_on() -> None:
    manifest = {"metadata": _metadata("m"), "spec": {"vmiName": "db"}}
    ref = Ref("VirtualMachineInstanceMigration", "shop", "m")
    assert migration_from_manifest(manifest) == Migration(ref, "uid-m", "db", "")


def _expanded(reply: Reply, **spec: JSON) -> tuple[Snapshot, list[str]]:
    vm = {"metadata": _metadata(), "spec": {"template": {"spec": {}}, **spec}}
    workload = workload_from_manifest("VirtualMachine", vm)
    server = ApiServer()
    server.plays(reply)
    snapshot = with_expanded_templates(
        server.client(), Snapshot(workloads=(workload,)), {workload.ref}
    )
    return snapshot, [request.path for request in server.seen]


TYPED = {"instancetype": {"name": "typed"}}
DB = Ref("VirtualMachine", "shop", "db")


def test_halted_vm_with_instance_type_is_expanded_by_the_server() -> None:
    template = {"metadata": {}, "spec": {"nodeSelector": {"disk": "fast"}}}
    snapshot, paths = _expanded(answer({"spec": {"template": template}}), **TYPED)
    assert snapshot.expanded == {DB: template}
    base = "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachines"
    assert paths == [f"{base}/db/expand-spec"]


@pytest.mark.parametrize("asked", [False, True])
def test_running_vm_is_expanded_where_that_is_asked(asked: bool) -> None:
    vm = {"metadata": _metadata(), "spec": {"template": {"spec": {}}, **TYPED}}
    workload = workload_from_manifest("VirtualMachine", vm)
    vmi = vmi_from_manifest({"metadata": _metadata(), "spec": {}, "status": {}})
    template = {"spec": {"domain": {"cpu": {"model": "Haswell"}}}}
    server = ApiServer()
    server.plays(answer({"spec": {"template": template}}))
    snapshot = Snapshot(workloads=(workload,), vmis=(vmi,))

    expanded = with_expanded_templates(
        server.client(), snapshot, {DB}, {DB} if asked else ()
    ).expanded

    assert expanded == ({DB: template} if asked else {})


NETWORKS = {"template": {"spec": {"networks": [{"pod": {}}, {"multus": {"networkName": "br1"}}]}}}


@pytest.mark.parametrize(
    ("annotations", "devices"),
    [({"k8s.v1.cni.cncf.io/resourceName": "example.com/br1"}, ("example.com/br1",)), ({}, ())],
)
def test_halted_vm_on_a_network_requests_what_its_definition_names(
    annotations: dict[str, str], devices: tuple[str, ...]
) -> None:
    snapshot, paths = _expanded(answer({"metadata": {"annotations": annotations}}), **NETWORKS)
    assert snapshot.network_devices == {DB: devices}
    base = "/apis/k8s.cni.cncf.io/v1/namespaces/shop"
    assert paths == [f"{base}/network-attachment-definitions/br1"]


@pytest.mark.parametrize("code", [403, 404])
def test_network_that_cannot_be_read_is_not_known(code: int) -> None:
    snapshot, _paths = _expanded(status(code), **NETWORKS)
    assert (snapshot.network_devices, snapshot.unreadable) == ({}, ())


def test_vm_without_instance_type_is_not_expanded() -> None:
    assert _expanded(answer({}))[1] == []


@pytest.mark.parametrize("code", [403, 500])
def test_vm_that_cannot_be_expanded_is_unreadable(code: int) -> None:
    snapshot, _paths = _expanded(status(code), **TYPED)
    (gap,) = snapshot.unreadable
    assert (snapshot.expanded, gap.namespace) == ({}, "shop")
    assert "in namespace shop" in str(gap)


def test_vm_that_is_gone_meanwhile_is_not_expanded() -> None:
    snapshot, _paths = _expanded(status(404), **TYPED)
    assert (snapshot.expanded, snapshot.unreadable) == ({}, ())


def test_server_that_cannot_expand_leaves_the_instance_type_unknown() -> None:
    """virt-api and the aggregator answer an unknown path with a text and no Status."""
    snapshot, _paths = _expanded(Reply(404, b"404 page not found"), **TYPED)
    (gap,) = snapshot.unreadable
    assert snapshot.expanded == {}
    assert str(gap) == (
        "cannot get instance type and preference of db in namespace shop: the server does not serve the"
        " subresource expand-spec of VMs"
    )


def test_of_managed_fields_a_workload_keeps_the_managers() -> None:
    fields = {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    manifest = {"metadata": _metadata(managedFields=[fields]), "spec": {"runStrategy": "Always"}}
    workload = workload_from_manifest("VirtualMachine", manifest)
    assert workload.manifest["metadata"]["managedFields"] == [{"manager": "argocd-controller"}]
    assert workload.manifest["spec"] == manifest["spec"]


def test_equal_parts_of_many_vms_are_one_object() -> None:
    def vm(name: str) -> JSON:
        domain = {"cpu": {"cores": 2}, "firmware": {"uuid": name}}
        spec = {"domain": domain, "volumes": [{"name": name}]}
        return {"metadata": _metadata(name), "spec": {"template": {"spec": spec}}}

    one, other = (workload_from_manifest("VirtualMachine", vm(name)) for name in "ab")
    assert one.manifest["spec"] == vm("a")["spec"]
    assert other.manifest["spec"] == vm("b")["spec"]
    cpus = [w.template["spec"]["domain"]["cpu"] for w in (one, other)]
    assert cpus[0] is cpus[1]


def test_error_of_a_list_is_raised_and_not_that_another_was_canceled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread may have taken the first list from the queue, and not have begun with it."""

    class Pool:
        def __init__(self, *_given: object) -> None:
            self.submitted = 0

        def __enter__(self) -> object:
            return self

        def __exit__(self, *_given: object) -> None:
            pass

        def submit(self, _read: object) -> Future[None]:
            future: Future[None] = Future()
            if self.submitted:
                future.set_exception(RuntimeError("the list failed"))
            self.submitted += 1
            return future

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Pool)
    with pytest.raises(RuntimeError, match="the list failed"):
        parallel.read_together([lambda: None, lambda: None])


@pytest.mark.parametrize(
    ("items", "refused", "gaps"),
    [((Node("n1"),), False, []), ((), False, ["nodes"]), (None, False, ["nodes"]), ((), True, [])],
)
def test_cluster_without_nodes_is_unknown(
    items: tuple[Node, ...] | None, refused: bool, gaps: list[str]
) -> None:
    """Something in front of the API server may filter the list. A list that is refused is a gap of its own."""
    gap = Unreadable("nodes", "", "list", "refused") if refused else None
    result = ListResult(ListQuery("nodes", "/api/v1/nodes"), items, gap)
    snapshot = snapshot_of(NODES_ONLY, Platform(), (), [result])
    empty = [x for x in snapshot.unreadable if x is not gap]
    assert [x.resource for x in empty] == gaps
    assert not any(x.lacks_right for x in empty)
    assert summary(Verdicts(unreadable=snapshot.unreadable))["unknown"] == len(snapshot.unreadable)
    assert len(relevant_gaps(snapshot)) == len(snapshot.unreadable)
    other = ListResult(ListQuery("quotas", "/api/v1/resourcequotas"), ())
    assert snapshot_of(NODES_ONLY, Platform(), (), [other]).unreadable == ()
