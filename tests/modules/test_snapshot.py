# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Snapshot of a real cluster: whole, scoped, and honest about what may not be read."""

from __future__ import annotations

import types
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.api import connection
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ReadScope,
    read_snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace


def api_client(sandbox: Sandbox, identity: str = "reader") -> ApiClient:
    unset: dict[str, t.Any] = dict.fromkeys(connection.auth_argument_spec())
    params = {**unset, "timeout": 60, "kubeconfig": str(sandbox.kubeconfig(identity))}
    return connection.connect(types.SimpleNamespace(params=params))


def test_everything_of_a_cluster_with_kubevirt(small: Sandbox, namespace: MakeNamespace) -> None:
    where = namespace(small)
    small.api.apply(
        [
            objects.virtual_machine("db", where),
            objects.replica_set("set", where, replicas=1),
            objects.pool("pool", where, replicas=1),
            objects.deployment("web", where, replicas=2),
        ]
    )
    instance = small.api.path("VirtualMachineInstance", where, "db")
    small.api.wait(lambda vmi: vmi["status"]["phase"] == "Running", instance)
    pods = small.api.path("Pod", where)
    small.api.wait_list(
        pods, lambda items: len(items) == 5 and all(pod["spec"].get("nodeName") for pod in items)
    )
    found = read_snapshot(api_client(small))
    assert not found.unreadable
    assert found.platform.kubevirt == "v1.8.4"
    assert found.platform.kubernetes == (1, 36)
    assert len(found.platform.uid) == 36
    assert len(found.nodes) == 3
    mine = {workload.ref for workload in found.workloads if workload.ref.namespace == where}
    assert mine >= {
        Ref("VirtualMachine", where, "db"),
        Ref("VirtualMachineInstanceReplicaSet", where, "set"),
        Ref("VirtualMachinePool", where, "pool"),
        Ref("Deployment", where, "web"),
    }
    (machine,) = (each for each in found.vmis if each.ref.name == "db")
    (launcher,) = (pod for pod in found.pods if pod.uid in machine.active_pods)
    assert launcher.node_name == machine.node_name
    assert machine.owner is not None
    assert machine.owner.kind == "VirtualMachine"
    web = [pod for pod in found.pods if pod.namespace == where and pod.labels.get("app") == "web"]
    assert {found.controllers[pod.owner.uid] for pod in web if pod.owner} == {
        Ref("Deployment", where, "web")
    }
    assert where in {each.name for each in found.namespaces}

    scoped = read_snapshot(api_client(small), ReadScope(namespaces=("kube-system",)))
    assert not scoped.workloads
    assert not scoped.vmis
    assert {pod.uid for pod in web} <= {pod.uid for pod in scoped.pods}, "pods of all namespaces"


def test_a_cluster_without_kubevirt(plain: Sandbox) -> None:
    found = read_snapshot(api_client(plain))
    assert found.platform.kubevirt is None
    assert not found.unreadable
    assert not found.vmis
    assert len(found.nodes) == 3


def test_without_rights_nothing_is_empty_and_fine(plain: Sandbox) -> None:
    found = read_snapshot(api_client(plain, "nobody"))
    gaps = {(gap.verb, gap.resource) for gap in found.unreadable}
    assert {("list", "pods"), ("list", "nodes"), ("list", "namespaces")} <= gaps
    assert ("get", "namespaces") in gaps
    assert found.platform.kubevirt == "", "whether it is there is not known"
    (pods,) = (gap for gap in found.unreadable if gap.resource == "pods")
    assert str(pods) == (
        "cannot list pods in all namespaces: grant this identity the ClusterRole"
        " virt-placement-reader (rbac/reader.yml); this identity is virt-placement:nobody"
    )
