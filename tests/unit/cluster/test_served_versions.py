# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists are read in a version that the server serves. What no version serves is empty, not unreadable.

The discovery documents are those of kube-apiserver 1.36 with the definitions of KubeVirt; before 1.7 the
definition of VirtualMachinePool has the version v1alpha1 alone.
"""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiError,
    ApiRequest,
    Forbidden,
    NotFound,
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
from ansible_collections.virt.placement.plugins.module_utils.model.json_text import ListPage
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot

JSON = t.Any
GROUP = "pool.kubevirt.io"
WEB = {
    "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "7"},
    "spec": {
        "replicas": 2,
        "virtualMachineTemplate": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
    },
}


def _document(served: t.Mapping[str, t.Sequence[str]]) -> JSON:
    groups = []
    for group, versions in served.items():
        listed = [
            {"groupVersion": f"{group}/{version}", "version": version} for version in versions
        ]
        groups.append({"name": group, "versions": listed, "preferredVersion": listed[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


class Server:
    """Serves kubevirt.io/v1, and the pools of `versions`; every other list is empty."""

    host = "https://server"

    def __init__(self, *versions: str, pools: bool = True, **more: t.Sequence[str]) -> None:
        self.versions = versions
        self.pools = pools
        self.served: dict[str, t.Sequence[str]] = {"kubevirt.io": ("v1", "v1alpha3"), **more}
        if versions:
            self.served[GROUP] = versions
        self.discovery: type[ApiError] | None = None
        self.asked: list[str] = []

    def get_page(self, path: str, params: JSON, *, accept: str = "") -> ListPage:
        return ListPage(json.dumps(self.get(path, accept=accept)).encode())

    def get(self, path: str, *, accept: str = "") -> JSON:
        self.asked.append(path)
        if path == "/apis":
            if self.discovery is not None:
                raise self.discovery(ApiRequest("GET", path), status=403)
            return _document(self.served)
        if path.startswith(f"/apis/{GROUP}/"):
            version = path.split("/")[3]
            if version not in self.versions or not self.pools:
                raise NotFound(ApiRequest("GET", path), status=404)
            if path.endswith("/web"):
                return WEB
            return {"items": [WEB], "metadata": {"resourceVersion": "9"}}
        if path == "/api/v1/namespaces/kube-system":
            return {"metadata": {"uid": "uid"}}
        if path.endswith("/kubevirts"):
            status = {"observedKubeVirtVersion": "v1.6.2"}
            kubevirt = {"metadata": {"name": "kubevirt"}, "spec": {}, "status": status}
            return {"items": [kubevirt], "metadata": {}}
        if path == "/api/v1/nodes":
            node = {"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "9"}}
            return {"items": [node], "metadata": {"resourceVersion": "9"}}
        return {"items": [], "metadata": {"resourceVersion": "9"}}

    def read(self, scope: ReadScope | None = None) -> Snapshot:
        return read_snapshot(t.cast(ApiClient, self), scope)

    def follow(self) -> Snapshot:
        return FollowedCluster(t.cast(ApiClient, self)).snapshot(ReadScope())


READINGS = pytest.mark.parametrize("reading", [Server.read, Server.follow])


@READINGS
@pytest.mark.parametrize(
    ("versions", "read"),
    [
        (("v1beta1", "v1alpha1"), "v1beta1"),
        (("v1beta1",), "v1beta1"),
        (("v1alpha1",), "v1alpha1"),
        (("v1", "v1alpha1"), "v1alpha1"),
    ],
)
def test_pools_are_read_in_the_newest_version_that_is_served(
    reading: t.Callable[[Server], Snapshot], versions: tuple[str, ...], read: str
) -> None:
    server = Server(*versions)
    snapshot = reading(server)
    assert [workload.ref for workload in snapshot.workloads] == [
        Ref("VirtualMachinePool", "shop", "web")
    ]
    assert snapshot.workloads[0].template["spec"] == {"nodeSelector": {"a": "b"}}
    assert snapshot.unreadable == ()
    assert server.asked.count(f"/apis/{GROUP}/{read}/virtualmachinepools") == 1
    assert server.asked.count("/apis") == (0 if read == "v1beta1" else 1)


@READINGS
@pytest.mark.parametrize(
    "server",
    [Server(), Server("v1beta1", pools=False), Server("v1alpha1", pools=False)],
    ids=["no such group", "group without the kind", "old group without the kind"],
)
def test_kind_that_no_version_serves_has_no_objects(
    reading: t.Callable[[Server], Snapshot], server: Server
) -> None:
    snapshot = reading(server)
    assert (snapshot.workloads, snapshot.unreadable) == ((), ())


@READINGS
def test_kind_that_is_served_in_an_unknown_version_alone_is_unreadable(
    reading: t.Callable[[Server], Snapshot],
) -> None:
    (gap,) = reading(Server("v1")).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server serves pool.kubevirt.io in v1 only, and"
        " this release of virt.placement reads v1beta1 and v1alpha1: install a release that reads v1"
    )


@READINGS
def test_without_discovery_it_is_unknown_whether_there_are_pools(
    reading: t.Callable[[Server], Snapshot],
) -> None:
    server = Server("v1alpha1")
    server.discovery = Forbidden
    (gap,) = reading(server).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server does not serve pool.kubevirt.io/v1beta1,"
        " and this identity may not read at /apis which versions it serves: bind the ClusterRole"
        " system:discovery to it"
    )


@READINGS
def test_discovery_that_does_not_exist_is_no_proof_that_there_are_no_pools(
    reading: t.Callable[[Server], Snapshot],
) -> None:
    server = Server("v1alpha1")
    server.discovery = NotFound
    (gap,) = reading(server).unreadable
    assert str(gap) == (
        "cannot list virtualmachinepools in all namespaces: the server does not serve pool.kubevirt.io/v1beta1,"
        " and /apis, which names the versions that it serves, was not found: check that host is the address of an API"
        " server, and that nothing in between hides this path"
    )


def test_answer_of_discovery_without_groups_is_no_proof_that_there_are_no_pools() -> None:
    class Proxy(Server):
        def get(self, path: str, *, accept: str = "") -> JSON:
            return {} if path == "/apis" else super().get(path, accept=accept)

    (gap,) = Proxy("v1alpha1").read().unreadable
    assert "the answer of /apis, which names the versions that it serves, has no groups" in str(gap)


def test_error_of_discovery_is_an_error_of_the_reading() -> None:
    server = Server("v1alpha1")
    server.discovery = ServerFault
    with pytest.raises(ServerFault):
        server.read()


def test_cluster_without_kubevirt_is_asked_once_what_it_serves() -> None:
    class WithoutKubeVirt(Server):
        def get(self, path: str, *, accept: str = "") -> JSON:
            if path.startswith("/apis/kubevirt.io/"):
                raise NotFound(ApiRequest("GET", path), status=404)
            return super().get(path, accept=accept)

    server = WithoutKubeVirt()
    del server.served["kubevirt.io"]
    snapshot = server.read()
    assert (snapshot.platform.kubevirt, snapshot.unreadable) == (None, ())
    assert server.asked.count("/apis") == 1


def test_lists_of_one_namespace_and_later_lists_have_the_served_version_too() -> None:
    server = Server("v1alpha1")
    scope = ReadScope(("shop",), ("VirtualMachinePool",), migrations="")
    snapshot = server.read(scope)
    assert f"/apis/{GROUP}/v1alpha1/namespaces/shop/virtualmachinepools" in server.asked
    assert len(snapshot.workloads) == 1
    wider = ReadScope(("shop",), ("VirtualMachinePool",), migrations="all")
    more = read_more(t.cast(ApiClient, server), snapshot, scope, wider)
    assert more.workloads == snapshot.workloads


def test_change_of_an_object_is_awaited_in_the_served_version() -> None:
    server = Server("v1alpha1")
    cluster = FollowedCluster(t.cast(ApiClient, server))
    cluster.snapshot(ReadScope())
    cluster.catch_up([(POOL.path("shop", "web"), "")])
    objects = [path for path in server.asked if path.endswith("/web")]
    assert objects == [f"/apis/{GROUP}/v1alpha1/namespaces/shop/virtualmachinepools/web"]
