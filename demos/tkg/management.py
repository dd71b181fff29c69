# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of Cluster API and of its provider for vSphere in a management cluster. The kinds are defined by hand, with
any fields; no controller of Cluster API runs."""

from __future__ import annotations

import typing as t

from sandbox import objects
from sandbox.definitions import Definition, define

if t.TYPE_CHECKING:
    from sandbox import Sandbox

CLUSTER = "shop"
MACHINE = Definition("cluster.x-k8s.io", "v1beta1", "machines", "Machine")
VM = Definition("infrastructure.cluster.x-k8s.io", "v1beta1", "vspherevms", "VSphereVM")
CONFIGURATION = Definition(
    "infrastructure.cluster.x-k8s.io", "v1beta1", "vsphereclusters", "VSphereCluster"
)
CONTROL_PLANE, WORKERS = "shop-cp", "shop-md-0"
_VSPHERE = "capv-controller-manager"

Object = dict[str, t.Any]


def create(management: Sandbox, hosts: t.Mapping[str, str]) -> None:
    """A cluster that is half configured: the feature gate is off, and one group has no cluster module. `hosts`: those
    of the nodes' VMs."""
    define(management.api, MACHINE, VM, CONFIGURATION)
    for name, image in ((_VSPHERE, "capv:v1.12.0"), ("capi-controller-manager", "capi:v1.9.5")):
        controller = objects.deployment(name, replicas=0)
        container = controller["spec"]["template"]["spec"]["containers"][0]
        container["name"], container["image"] = "manager", f"registry.invalid/{image}"
        container["args"] = ["--feature-gates=NodeAntiAffinity=false"]
        management.api.apply(controller)
    module = {"controlPlane": True, "targetObjectName": CONTROL_PLANE, "moduleUUID": "52a8"}
    _create(management, CONFIGURATION, CLUSTER, {}, {"clusterModules": [module]})
    _report(management, CONFIGURATION, CLUSTER, {"vCenterVersion": "8.0.2"})
    for node, host in hosts.items():
        _create_machine(management, node, host)


def enable_anti_affinity(management: Sandbox) -> None:
    """The gate is on, as after an upgrade of the provider with its variable."""
    change = {"op": "replace", "path": "/spec/template/spec/containers/0/args/0"}
    body = [{**change, "value": "--feature-gates=NodeAntiAffinity=true"}]
    management.api.patch(management.api.path("Deployment", "default", _VSPHERE), body, "json")


def _create_machine(management: Sandbox, node: str, host: str) -> None:
    """The Machine of a node, and its VSphereVM of the same name."""
    group = {"cluster.x-k8s.io/deployment-name": WORKERS}
    if node.startswith(CONTROL_PLANE):
        named = {"cluster.x-k8s.io/control-plane-name": CONTROL_PLANE}
        group = {"cluster.x-k8s.io/control-plane": "", **named}
    labels = {"cluster.x-k8s.io/cluster-name": CLUSTER, **group}
    reference = {"kind": "VSphereMachine", "name": node}
    spec = {"clusterName": CLUSTER, "infrastructureRef": reference}
    _create(management, MACHINE, node, labels, spec)
    refer(management, node, node)
    _create(management, VM, node, labels, {})
    move(management, node, host)


def refer(management: Sandbox, machine: str, node: str | None) -> None:
    """The Machine has this node, or none yet."""
    reference = {"kind": "Node", "name": node} if node else None
    _report(management, MACHINE, machine, {"nodeRef": reference})


def move(management: Sandbox, node: str, host: str) -> None:
    """The VM of a node is on this host now."""
    _report(management, VM, node, {"host": host})


def _create(management: Sandbox, of: Definition, name: str, labels: Object, spec: Object) -> None:
    made = {
        "apiVersion": f"{of.group}/{of.version}",
        "kind": of.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    management.api.create(of.collection(), made)


def _report(management: Sandbox, of: Definition, name: str, status: Object) -> None:
    management.api.patch(f"{of.collection()}/{name}/status", {"status": status})
