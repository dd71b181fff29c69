# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""capi_hosts_info against a cluster with the kinds of Cluster API, as the identity that is shipped for it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import capi_hosts_info
from sandbox import Sandbox, objects
from tests.conftest import RunModule, error_messages

JSON = t.Any
NAMESPACE = "capi-hosts"
HOST_KEY = "node.cluster.x-k8s.io/esxi-host"
KINDS = {
    "Machine": ("cluster.x-k8s.io", "machines"),
    "VSphereVM": ("infrastructure.cluster.x-k8s.io", "vspherevms"),
    "VSphereCluster": ("infrastructure.cluster.x-k8s.io", "vsphereclusters"),
}


def definition(kind: str) -> JSON:
    group, plural = KINDS[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _created(sandbox: Sandbox, kind: str, name: str, **parts: JSON) -> None:
    group, plural = KINDS[kind]
    metadata = {"name": name, "namespace": NAMESPACE, **parts.pop("metadata", {})}
    path = f"/apis/{group}/v1beta1/namespaces/{NAMESPACE}/{plural}"
    body = {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": metadata, **parts}
    sandbox.api.create(path, body)


@pytest.fixture
def ask(small: Sandbox, run_module: RunModule) -> t.Iterator[t.Callable[..., JSON]]:
    def run(**options: t.Any) -> JSON:
        params = {"kubeconfig": str(small.kubeconfig("capi-reader")), "cluster": "prod", **options}
        return run_module(capi_hosts_info.main, params)

    small.api.create(small.api.path("Namespace"), {"metadata": {"name": NAMESPACE}})
    yield run
    for group, plural in KINDS.values():
        path = small.api.path("CustomResourceDefinition", name=f"{plural}.{group}")
        small.api.delete(path)
        small.api.wait_gone(path)
    small.api.delete(small.api.path("Namespace", name=NAMESPACE))


def test_management_cluster_is_read_with_its_own_rights(small: Sandbox, ask: t.Any) -> None:
    missing = ask()
    for kind in KINDS:
        small.api.define(definition(kind))
    for name, host in (("a", "esx-1"), ("b", "esx-1"), ("c", "fe80::1%vmk0")):
        labels = {
            "cluster.x-k8s.io/control-plane": "",
            "cluster.x-k8s.io/control-plane-name": "prod-cp",
        }
        reference = {"kind": "VSphereMachine", "name": name}
        _created(
            small,
            "Machine",
            name,
            metadata={"labels": labels},
            spec={"clusterName": "prod", "infrastructureRef": reference},
            status={"nodeRef": {"name": f"node-{name}"}},
        )
        _created(small, "VSphereVM", name, status={"host": host})
    _created(small, "VSphereCluster", "prod", spec={}, status={"vCenterVersion": "8.0.2"})
    controller = objects.deployment("capv-controller-manager", NAMESPACE, replicas=0)
    small.api.create(small.api.path("Deployment", NAMESPACE), controller)

    result = ask()
    wrong = ask(cluster="prd")
    guests = ask(source="kubevirt", cluster="guest1")

    (text,) = error_messages(missing)
    assert "does not serve machines.cluster.x-k8s.io, so Cluster API is not installed" in text
    assert result["node_labels"] == {
        "node-a": {HOST_KEY: "esx-1"},
        "node-b": {HOST_KEY: "esx-1"},
        "node-c": {HOST_KEY: "fe80--1.ipv6-literal"},
    }
    assert [x["name"] for x in result["findings"]] == ["nodes_share_host"]
    assert result["anti_affinity"] == "disabled"
    assert (result["ok"], result["changed"]) == (True, False)
    assert error_messages(wrong) == [
        "cluster: no machine belongs to a cluster 'prd'; did you mean 'prod'?"
    ]
    assert error_messages(guests) == ["cluster: no machine belongs to a cluster 'guest1'"]
