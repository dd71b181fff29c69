# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant with every right in one namespace, against rules and a rollout of another namespace, with the rights
of mover."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import AdminApi, ApiFailure, Sandbox, objects
from sandbox.identities import IDENTITIES
from tests.conftest import RunModule
from tests.modules.rules_task import RulesTask
from tests.shop import HOSTNAME, Object, Shop, forget_runs
from tests.terms import pair_on_one_node

PREFIX = "placement.virt/"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BOMB = "[" * 100_000


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: RunModule) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "shop"), run_module)
    forget_runs(six.api)


class Tenant:
    """The identity `nobody`, with every right in a namespace of its own."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.api: AdminApi = sandbox.api_as("nobody")
        self.namespace = namespace
        group = {"apiGroup": "rbac.authorization.k8s.io"}
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        sandbox.api.create(
            RBAC.format(namespace, "roles"), {"metadata": {"name": "all"}, "rules": [rule]}
        )
        sandbox.api.create(
            RBAC.format(namespace, "rolebindings"),
            {
                "metadata": {"name": "all"},
                "roleRef": {**group, "kind": "Role", "name": "all"},
                "subjects": [{**group, "kind": "User", "name": IDENTITIES["nobody"].username}],
            },
        )

    def create(self, item: Object, **metadata: t.Any) -> Object:
        item["metadata"] |= metadata
        return self.api.create(self.api.collection_of(item), item)

    def pod(self, name: str, labels: Object, spec: Object, **metadata: t.Any) -> None:
        pod = objects.pod(name, self.namespace, labels=labels)
        pod["spec"] |= spec
        self.create(pod, **metadata)

    def attack(self, victims: t.Mapping[str, Object], node: str) -> None:
        """`victims` are VMIs of others by name, all on `node`."""
        rules = {f"{PREFIX}rules": BOMB, f"{PREFIX}undo": '{"version":1e999}'}
        for name in victims:  # the names of the others
            self.create(objects.virtual_machine(name, self.namespace), annotations=rules)
        self.api.wait_list(  # KubeVirt refuses the migration of a VMI that is not there
            self.api.path("VirtualMachineInstance", self.namespace),
            lambda vmis: (
                len(vmis) == len(victims)
                and all((vmi.get("status") or {}).get("phase") == "Running" for vmi in vmis)
            ),
            60,
        )
        for name, vmi in victims.items():
            owner: Object = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
            owner |= {"name": name, "uid": vmi["metadata"]["uid"], "controller": True}
            self.pod(
                f"virt-launcher-{name}",
                {
                    "kubevirt.io": "virt-launcher",
                    "kubevirt.io/created-by": vmi["metadata"]["uid"],
                    "vmi.kubevirt.io/id": name,
                    "vm.kubevirt.io/name": name,
                },
                {"nodeName": "w6", "affinity": against(vmi["metadata"]["namespace"], 0)},
                ownerReferences=[owner],
                finalizers=["example.com/never"],
            )
            migration = objects.migration(name, self.namespace, name=f"placement-r0-{name}-1")
            self.create(migration, labels={f"{PREFIX}run": "r0"}, finalizers=["example.com/never"])
        namespace = next(iter(victims.values()))["metadata"]["namespace"]
        terms = {"nodeName": node, "affinity": against(namespace, 200)}
        self.pod("terms", {"app": "terms"}, terms)


def release(api: AdminApi, namespace: str) -> None:
    """Takes the finalizers away, so that the namespace can go."""
    for kind in ("Pod", "VirtualMachineInstanceMigration"):
        for item in api.list(api.path(kind, namespace)):
            path = api.path(kind, namespace, item["metadata"]["name"])
            if item["metadata"].get("finalizers"):
                api.patch(path, {"metadata": {"finalizers": None}})


def against(namespace: str, number: int) -> Object:
    """Anti-affinity over hosts to every pod of a namespace: terms of which no two are equal."""
    expressions = [{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(number)]
    terms = [
        {
            "topologyKey": HOSTNAME,
            "namespaces": [namespace],
            "labelSelector": {"matchExpressions": [expression]},
        }
        for expression in expressions
    ]
    return {"podAntiAffinity": {REQUIRED: terms}}


def verdicts(shop: Shop, run_module: RunModule) -> list[t.Any]:
    options = {"kubeconfig": str(shop.sandbox.kubeconfig("reader")), "details": "all"}
    result = run_module(placement_info.main, options)
    assert not result.get("failed"), result.get("msg")
    return [
        (entry["instance"], entry["verdict"], [rule["verdict"] for rule in entry["rules"]])
        for entry in result["instances"]
        if entry["instance"]["namespace"] == shop.namespace
    ]


def test_a_tenant_stops_steers_and_widens_no_job_for_another_namespace(
    shop: Shop, namespace: t.Any, run_module: RunModule
) -> None:
    names = pair_on_one_node(shop)
    shop.start(objects.virtual_machine("alone", shop.namespace), nodes=["w1"])
    before = verdicts(shop, run_module)
    tenant = Tenant(shop.sandbox, namespace(shop.sandbox, "tenant"))
    with pytest.raises(ApiFailure):
        tenant.api.patch(
            shop.path("VirtualMachine", names[0]), {"metadata": {"labels": {"a": "b"}}}
        )
    try:
        tenant.attack(shop.instances(), "w1")
        assert verdicts(shop, run_module) == before
        mark = shop.sandbox.audit.mark()

        written = RulesTask(shop.sandbox, run_module, shop.namespace)(
            {"name": "apart", "workloads": names, "keep_apart": "zone"},
            {"name": "group", "workloads": names, "label": {"group.example/x": "y"}},
        )
        assert not written.get("failed"), written.get("msg")
        assert written["changed"]
        result = shop.roll()

        assert not result.get("failed"), result.get("msg")
        assert [(move["name"] in names, move["state"]) for move in result["moves"]] == [
            (True, "moved")
        ]
        assert shop.nodes()["alone"] == "w1"
        assert len({shop.zone(shop.nodes()[name]) for name in names}) == 2
        outside = [
            (event.verb, event.resource, event.namespace, event.name)
            for event in shop.sandbox.audit.writes(since=mark)
            if event.namespace != shop.namespace and event.resource != "leases"
        ]
        assert outside == []
    finally:
        release(shop.api, tenant.namespace)
