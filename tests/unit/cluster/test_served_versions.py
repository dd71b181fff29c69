# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists are read in a version that the server serves. What no version serves is empty, not unreadable.

The discovery documents are those of kube-apiserver 1.36 with the definitions of KubeVirt; before 1.7 the
definition of VirtualMachinePool has the version v1alpha1 alone.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ServerFault,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.following import (
    FollowedCluster,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ReadScope,
    read_more,
    read_snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.kinds.pool import POOL
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from tests.support.api_server import ApiServer

JSON = t.Any
GROUP = "pool.kubevirt.io"
WEB = {
    "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "7"},
    "spec": {
        "replicas": 2,
        "virtualMachineTemplate": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
    },
}


def serving(*versions: str, pools: bool = True) -> ApiServer:
    """A server with kubevirt.io/v1, and the pools of `versions`."""
    server = ApiServer()
    server.served = {"kubevirt.io": ("v1", "v1alpha3"), GROUP: versions}
    status = {"observedKubeVirtVersion": "v1.6.2"}
    kubevirt = {"metadata": {"name": "kubevirt"}, "spec": {}, "status": status}
    server.store("/apis/kubevirt.io/v1/kubevirts", kubevirt)
    server.store("/api/v1/namespaces", {"metadata": {"name": "kube-system", "uid": "uid"}})
    server.store("/api/v1/nodes", {"metadata": {"name": "n1", "uid": "n1"}})
    for version in versions if pools else ():
        server.store(f"/apis/{GROUP}/{version}/virtualmachinepools", WEB)
    if not pools:
        server.add_fault("GET", "virtualmachinepools", 404)
    return server


def paths(server: ApiServer) -> list[str]:
    return [request.path for request in server.seen]


def read(server: ApiServer, scope: ReadScope | None = None) -> Snapshot:
    return read_snapshot(server.client(), scope)


def follow(server: ApiServer) -> Snapshot:
    return FollowedCluster(server.client()).snapshot(ReadScope())


READINGS = pytest.mark.parametrize("reading", [read, follow])


@READINGS
@pytest.mark.parametrize(
    ("versions", "version"),
    [
        (("v1beta1", "v1alpha1"), "v1beta1"),
        (("v1beta1",), "v1beta1"),
        (("v1alpha1",), "v1alpha1"),
        (("v1", "v1alpha1"), "v1alpha1"),
    ],
)
def test_pools_are_read_in_the_newest_version_that_is_served(
    reading: t.Callable[[ApiServer], Snapshot], versions: tuple[str, ...], version: str
) -> None:
    server = serving(*versions)
    snapshot = reading(server)
    assert [workload.ref for workload in snapshot.workloads] == [
        Ref("VirtualMachinePool", "shop", "web")
    ]
    assert snapshot.workloads[0].template["spec"] == {"nodeSelector": {"a": "b"}}
    assert snapshot.unreadable == ()
    assert paths(server).count(f"/apis/{GROUP}/{version}/virtualmachinepools") == 1
    assert paths(server).count("/apis") == (0 if version == "v1beta1" else 1)


@READINGS
@pytest.mark.parametrize(
    "server",
    [serving(), serving("v1beta1", pools=False), serving("v1alpha1", pools=False)],
    ids=["no such group", "group without the kind", "old group without the kind"],
)
def test_kind_that_no_version_serves_has_no_objects(
    reading: t.Callable[[ApiServer], Snapshot], server: ApiServer
) -> None:
    snapshot = reading(server)
    assert (snapshot.workloads, snapshot.unreadable) == ((), ())


@READINGS
def test_kind_that_is_served_in_an_unknown_version_alone_is_unreadable(
    reading: t.Callable[[ApiServer], Snapshot],
) -> None:
    (gap,) = reading(serving("v1")).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server serves pool.kubevirt.io in v1 only, and"
        " this release of virt.placement reads v1beta1 and v1alpha1: install a release that reads v1"
    )


@READINGS
def test_without_discovery_it_is_unknown_whether_there_are_pools(
    reading: t.Callable[[ApiServer], Snapshot],
) -> None:
    server = serving("v1alpha1")
    server.add_fault("GET", "/apis", 403)
    (gap,) = reading(server).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server does not serve pool.kubevirt.io/v1beta1,"
        " and this identity may not read at /apis which versions it serves: bind the ClusterRole"
        " system:discovery to it"
    )


@READINGS
def test_discovery_that_does_not_exist_is_no_proof_that_there_are_no_pools(
    reading: t.Callable[[ApiServer], Snapshot],
) -> None:
    server = serving("v1alpha1")
    server.add_fault("GET", "/apis", 404)
    (gap,) = reading(server).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server does not serve pool.kubevirt.io/v1beta1,"
        " and /apis, which names the versions that it serves, was not found: check that host is the address of an API"
        " server, and that nothing in between hides this path"
    )


def test_answer_of_discovery_without_groups_is_no_proof_that_there_are_no_pools() -> None:
    server = serving("v1alpha1")
    server.objects["/apis"] = {}
    (gap,) = read(server).unreadable
    assert "the answer of /apis, which names the versions that it serves, has no groups" in str(gap)


def test_error_of_discovery_is_an_error_of_the_reading() -> None:
    server = serving("v1alpha1")
    server.add_fault("GET", "/apis", 500)
    with pytest.raises(ServerFault):
        read(server)


def test_cluster_without_kubevirt_is_asked_once_what_it_serves() -> None:
    server = serving()
    server.served["kubevirt.io"] = ()
    snapshot = read(server)
    assert (snapshot.platform.kubevirt, snapshot.unreadable) == (None, ())
    assert paths(server).count("/apis") == 1


def test_lists_of_one_namespace_and_later_lists_have_the_served_version_too() -> None:
    server = serving("v1alpha1")
    scope = ReadScope(("shop",), ("VirtualMachinePool",), migrations="")
    snapshot = read(server, scope)
    assert f"/apis/{GROUP}/v1alpha1/namespaces/shop/virtualmachinepools" in paths(server)
    assert len(snapshot.workloads) == 1
    wider = ReadScope(("shop",), ("VirtualMachinePool",), migrations="all")
    more = read_more(server.client(), snapshot, scope, wider)
    assert more.workloads == snapshot.workloads


def test_change_of_an_object_is_awaited_in_the_served_version() -> None:
    server = serving("v1alpha1")
    cluster = FollowedCluster(server.client())
    cluster.snapshot(ReadScope())
    cluster.catch_up([(POOL.path("shop", "web"), "")])
    objects = [path for path in paths(server) if path.endswith("/web")]
    assert objects == [f"/apis/{GROUP}/v1alpha1/namespaces/shop/virtualmachinepools/web"]
