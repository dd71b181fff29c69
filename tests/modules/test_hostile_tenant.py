# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant with every right in one namespace, against rules and a rollout of another namespace with the rights
of mover, and against a drain of its node with the rights of maintainer."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import AdminApi, ApiFailure, Sandbox, drain, objects
from sandbox.audit import AuditEvent, Mark
from sandbox.identities import IDENTITIES
from tests.conftest import RunModule
from tests.maintenance import Maintenance, maintenance, pods_on, vms
from tests.modules.rules_task import RulesTask
from tests.shop import HOSTNAME, Object, Shop, forget_runs
from tests.terms import pair_on_one_node

PREFIX = "placement.virt/"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BOMB = "[" * 100_000
ALL_ANNOTATIONS = 256 * 1024
"""Bytes of keys and values (apimachinery, `ValidateAnnotationsSize`)."""


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
        self.wait_running(len(victims))  # else KubeVirt refuses their migration
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

    def wait_running(self, count: int) -> None:
        self.api.wait_list(
            self.api.path("VirtualMachineInstance", self.namespace),
            lambda vmis: (
                len(vmis) == count
                and all((vmi.get("status") or {}).get("phase") == "Running" for vmi in vmis)
            ),
            60,
        )

    def resist(self, node: str) -> None:
        """A VM that may not migrate for want of quota, one with another past, and pods that never end."""
        count = len(self.api.list(self.api.path("VirtualMachineInstance", self.namespace)))
        self.create(objects.virtual_machine("limited", self.namespace))
        past = objects.virtual_machine("past", self.namespace)
        self.create(past, labels={f"{PREFIX}vm-policy": "restart"})
        self.wait_running(count + 2)
        self.rewrite_revision("past")
        for number, (kind, name) in enumerate((("My_Widget", "a/b"), ("a/b", "x y"))):
            owner = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "none"}
            key = "example.com/full"
            self.pod(
                f"odd{number}",
                {"app": "odd"},
                {"nodeName": node},
                ownerReferences=[{**owner, "controller": True}],
                finalizers=["example.com/never"],
                annotations={key: "x" * (ALL_ANNOTATIONS - len(key))},
            )

    def rewrite_revision(self, vm: str) -> None:
        """What the VM was when its VMI started is a text now."""
        path = self.api.path("VirtualMachineInstance", self.namespace, vm)
        name = self.api.get(path)["status"]["virtualMachineRevisionName"]
        revisions = f"/apis/apps/v1/namespaces/{self.namespace}/controllerrevisions"
        self.api.delete(f"{revisions}/{name}")
        revision: Object = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1}
        revision |= {"metadata": {"name": name}, "data": {"spec": "text"}}
        self.api.create(revisions, revision)

    def limit_migrations(self) -> None:
        """To those that there are."""
        counted = "count/virtualmachineinstancemigrations.kubevirt.io"
        path = self.api.path("ResourceQuota", self.namespace)
        used = len(self.api.list(self.api.path("VirtualMachineInstanceMigration", self.namespace)))
        quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
        self.api.create(path, {**quota, "spec": {"hard": {counted: str(used)}}})
        self.api.wait(
            lambda quota: (quota.get("status") or {}).get("used", {}).get(counted) == str(used),
            f"{path}/few",
        )


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


def only_on(sandbox: Sandbox, node: str) -> contextlib.AbstractContextManager[None]:
    """What starts meanwhile runs on this node."""
    others = [x["metadata"]["name"] for x in sandbox.api.list("/api/v1/nodes")]
    others.remove(node)
    return drain.cordoned(sandbox, others)


Names = set[tuple[str, str]]
"""Namespaces and names."""


def on_node(shop: Maintenance, node: str) -> Names:
    """The pods and VMIs of a node."""
    pods = shop.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    vmis = shop.api.list("/apis/kubevirt.io/v1/virtualmachineinstances")
    vmis = [vmi for vmi in vmis if vmi["status"].get("nodeName") == node]
    return {(x["metadata"]["namespace"], x["metadata"]["name"]) for x in (*pods, *vmis)}


def outside(shop: Maintenance, inside: Names, since: Mark) -> list[AuditEvent]:
    """Writes that are neither about w1 nor about what ran on it, beside the Lease and Events. Of the
    migrations that were refused all are those of one VM."""
    vmi_of: dict[tuple[str, str], str] = {
        (x["metadata"]["namespace"], x["metadata"]["name"]): x["spec"]["vmiName"]
        for x in shop.api.list("/apis/kubevirt.io/v1/virtualmachineinstancemigrations")
    }

    def is_about(event: AuditEvent) -> str:
        if event.resource == "virtualmachineinstancemigrations":
            return vmi_of.get((event.namespace, event.name), "limited")
        return event.name

    return [
        event
        for event in shop.sandbox.audit.writes(since=since)
        if event.resource not in ("leases", "events")
        and (event.resource, event.name) != ("nodes", "w1")
        and (event.namespace, is_about(event)) not in inside
    ]


def test_a_tenant_keeps_its_own_pods_alone_on_a_drained_node(
    six: Sandbox, namespace: t.Any, run_module: RunModule
) -> None:
    """The first task is killed after a step. The next one takes over, and ends when its time is over."""
    tenant = Tenant(six, namespace(six, "tenant"))
    with maintenance(six, namespace(six, "shop"), run_module) as shop:
        try:
            web = objects.deployment("web", shop.namespace, replicas=1)
            shop.start(*vms(shop, "a", "b"), web, nodes=["w1"])
            with only_on(six, "w1"):
                tenant.attack(shop.instances(), "w1")
                tenant.resist("w1")
            tenant.limit_migrations()
            before, inside = shop.uids(), on_node(shop, "w1")
            mark = six.audit.mark()
            allowed = ["bare_pod", "pending_changes"]
            options: Object = {"allow_findings": allowed, "run_timeout": 60}

            refused = shop.maintain("drained", "w1", **options)
            unwritten = six.audit.writes(since=mark)
            options["allow_findings"] = [*allowed, "migration_refused"]
            first = shop.maintain_one_step("drained", "w1", **options)
            result = shop.maintain("drained", "w1", **options)

            assert "migration_refused: The API server refuses" in refused["msg"], refused["msg"]
            assert f"VirtualMachineInstance {tenant.namespace}/limited on node w1" in refused["msg"]
            assert "exceeded quota: few" in refused["msg"]
            assert unwritten == []
            assert result["msg"].startswith("not done within 60 s"), result["msg"]
            for name in ("odd0", "odd1", "limited"):
                assert f" {tenant.namespace}/{name} on w1: " in result["msg"]
            assert shop.namespace not in result["msg"]
            moves = [*first["moves"], *result["moves"]]
            limited = [move["reason"] for move in moves if move["name"] == "limited"]
            assert limited and all("exceeded quota: few" in reason for reason in limited)
            assert any("continuing run" in line for line in result["progress"])
            assert shop.uids() == before and "w1" not in shop.nodes().values()
            left = {name.rpartition("-")[0] or name for name in pods_on(shop, "w1")}
            assert left == {"odd0", "odd1", "virt-launcher-limited"}
            assert outside(shop, inside, mark) == []
        finally:
            release(shop.api, tenant.namespace)
