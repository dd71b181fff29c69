# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodDisruptionBudgets stand against each restart, stop, recreation and eviction, on a real control plane."""

from __future__ import annotations

import threading
import time
import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import connection
from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ReadScope,
    read_snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.disruption import (
    Allowance,
    Budgets,
)
from sandbox import Sandbox, objects
from sandbox.admin_api import ApiFailure
from tests.maintenance import Maintenance, maintenance, pods_on
from tests.shop import Object

TILL = {"example.com/till": "a"}
RESTART = ("update", "virtualmachines/restart")
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": TILL},
        }
    ]
}


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "budgets"), run_module) as shop:
        yield shop


def healthy(shop: Maintenance, name: str) -> int:
    """The healthy pods of a budget, as the disruption controller has counted them last."""
    status = shop.api.get(shop.path("PodDisruptionBudget", name))["status"]
    return t.cast(int, status["currentHealthy"])


def tills(shop: Maintenance, *, number: int = 2, **options: t.Any) -> list[str]:
    names = [f"till-{each}" for each in range(number)]
    machines = [objects.virtual_machine(x, shop.namespace, labels=TILL, **options) for x in names]
    shop.start(*machines)
    return names


def answer_no_more(shop: Maintenance, pod: str) -> None:
    """A pod that is not Ready. KWOK would report one with the status False as Ready again."""
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    shop.api.patch(f"{shop.path('Pod', pod)}/status", {"status": status}, "strategic")


class FewestHealthy:
    """The fewest healthy pods of a budget while the block goes on."""

    def __init__(self, shop: Maintenance, name: str) -> None:
        self._read = lambda: healthy(shop, name)
        self.seen: list[int] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ends.wait(0.05):
            self.seen.append(self._read())

    def __enter__(self) -> FewestHealthy:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join()


def test_answer_is_that_of_the_eviction_api(shop: Maintenance) -> None:
    """Each budget is over pods of its own Deployment; `none` has no budget, and `two` has two."""
    budgets: dict[str, Object] = {
        "allows": {"minAvailable": 1},
        "full": {"minAvailable": 2},
        "zero": {"maxUnavailable": 0},
        "two": {"maxUnavailable": 2},
        "unready": {"maxUnavailable": 1},
        "always": {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "enough": {"minAvailable": 0},
    }
    not_ready = ("unready", "always", "enough")
    names = (*budgets, "none")
    shop.start(*(objects.deployment(name, shop.namespace, replicas=2) for name in names))
    pods = shop.api.list(shop.path("Pod"))
    for pod in pods:
        if pod["metadata"]["labels"]["app"] in not_ready:
            answer_no_more(shop, pod["metadata"]["name"])
    for name, spec in budgets.items():
        shop.add_budget(name, {"app": name}, **spec)
    shop.add_budget("two-more", {"app": "two"}, maxUnavailable=2)

    answers = {}
    for pod in pods:
        name, metadata = pod["metadata"]["labels"]["app"], pod["metadata"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": shop.namespace, "name": metadata["name"]},
            "deleteOptions": {"dryRun": ["All"]},
        }
        path = f"{shop.path('Pod', metadata['name'])}/eviction?dryRun=All"
        answers[name] = evicts(shop, path, eviction)
    unset: dict[str, t.Any] = dict.fromkeys(connection.auth_argument_spec())
    params = {**unset, "timeout": 60, "kubeconfig": str(shop.sandbox.kubeconfig("reader"))}
    api = connection.connect(types.SimpleNamespace(params=params))
    snapshot = read_snapshot(api, ReadScope((shop.namespace,), budgets=True))
    ours = {
        pod.labels["app"]: Budgets(snapshot).disruption(pod)
        for pod in snapshot.pods
        if pod.namespace == shop.namespace
    }

    assert {name: bool(answer) for name, answer in ours.items()} == answers
    never = {name for name, answer in ours.items() if answer.allowance is Allowance.NEVER}
    assert never == {"full", "zero", "two"}


def evicts(shop: Maintenance, path: str, eviction: Object) -> bool:
    """Whether the API server would evict the pod."""
    try:
        shop.api.create(path, eviction)
    except ApiFailure as error:
        if error.status not in (429, 500):
            raise
        return False
    return True


def test_field_21_rollout_skips_restarts_that_a_budget_never_allows(shop: Maintenance) -> None:
    for name in tills(shop):
        shop.patch_template("VirtualMachine", name, SPREAD)
    shop.add_budget("tills", TILL, minAvailable=2)
    mark = shop.sandbox.audit.mark()

    for check in (True, False):
        result = shop.roll(scope="not_enforced", allow=["restart"], check=check)

        assert not result.get("failed"), result.get("msg")
        names = sorted(skipped["name"] for skipped in result["skipped_instances"])
        assert names == ["till-0", "till-1"]
        for skipped in result["skipped_instances"]:
            why = f"PodDisruptionBudget {shop.namespace}/tills never allows a disruption"
            assert why in skipped["reason"]
            assert "2 of 2 pods are healthy, 2 must be" in skipped["reason"]
    assert shop.disruptions(mark) == []


def test_field_21_live_migration_needs_no_budget(shop: Maintenance) -> None:
    tills(shop)
    shop.add_budget("tills", TILL, minAvailable=2)

    result = shop.roll(scope="all", allow=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert {(move["method"], move["state"]) for move in result["moves"]} == {("migrate", "moved")}


@pytest.mark.parametrize("min_available", [1, 2])
def test_rollout_restarts_no_more_vms_at_a_time_than_a_budget_allows(
    shop: Maintenance, min_available: int
) -> None:
    slow = {"sandbox.virt/shutdown-seconds": "5"}  # long enough to be seen
    names = tills(shop, number=3, annotations=slow)
    shop.add_budget("tills", TILL, minAvailable=min_available)
    before = shop.uids()

    with FewestHealthy(shop, "tills") as counted:
        result = shop.roll(scope="all", allow=["restart"], max_unavailable=3)

    assert not result.get("failed"), result.get("msg")
    assert sorted(move["name"] for move in result["moves"]) == names
    assert not before & shop.uids()
    assert min(counted.seen) == min_available


def test_rollout_waits_for_a_budget_and_names_it(shop: Maintenance) -> None:
    """Another pod of the budget is not Ready for a while."""
    tills(shop)
    shop.start(objects.deployment("other", shop.namespace, replicas=1, labels=TILL))
    (other,) = shop.api.list(shop.path("Pod"), labelSelector="!kubevirt.io")
    answer_no_more(shop, other["metadata"]["name"])
    shop.add_budget("tills", TILL, minAvailable=2)
    mark = shop.sandbox.audit.mark()
    vms = [{"kind": "VirtualMachine", "name": name} for name in ("till-0", "till-1")]
    asked: Object = {"scope": "all", "allow": ["restart"], "workloads": vms}

    result = shop.roll(**asked, run_timeout=15)

    assert result["failed"]
    why = f"PodDisruptionBudget {shop.namespace}/tills allows no disruption now"
    assert why in result["msg"]
    assert any(line.startswith("waiting: ") and why in line for line in result["progress"])
    assert shop.disruptions(mark) == []

    shop.change_budget("tills", minAvailable=1)
    result = shop.roll(**asked)

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]


def test_rollout_deletes_no_vmi_that_a_budget_protects(shop: Maintenance) -> None:
    slow = {"sandbox.virt/shutdown-seconds": "5"}  # long enough to be seen
    made = objects.replica_set("set", shop.namespace, replicas=2, labels=TILL, annotations=slow)
    shop.start(made)
    shop.add_budget("set", TILL, minAvailable=2)
    before = shop.uids()

    result = shop.roll(scope="all", allow=["recreate"])

    assert f"PodDisruptionBudget {shop.namespace}/set" in str(result["skipped_instances"])
    assert shop.uids() == before
    shop.change_budget("set", minAvailable=1)
    with FewestHealthy(shop, "set") as counted:
        result = shop.roll(scope="all", allow=["recreate"], max_unavailable=2)
    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]
    assert min(counted.seen) == 1


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_field_21_drain_refuses_what_a_budget_never_allows(shop: Maintenance, policy: str) -> None:
    names = [f"till-{each}" for each in range(2)]
    machines = [objects.virtual_machine(x, shop.namespace, labels=TILL) for x in names]
    shop.start(*machines, nodes=["w2"])
    shop.add_budget("tills", TILL, minAvailable=2)
    mark = shop.sandbox.audit.mark()

    for check in (True, False):
        refused = shop.maintain("drained", "w2", vm_policy=policy, check=check)

        assert refused["failed"]
        assert refused["msg"].startswith("pdb_impossible: ")
        assert f"PodDisruptionBudget {shop.namespace}/tills never allows" in refused["msg"]
        assert "a live migration needs no budget" in refused["msg"]
    assert shop.sandbox.audit.writes(since=mark) == []

    shop.api.patch(shop.path("PodDisruptionBudget", "tills"), {"spec": {"minAvailable": 1}})
    if policy == "stop":
        return
    with FewestHealthy(shop, "tills") as counted:
        result = shop.maintain("drained", "w2", vm_policy=policy)
    assert not result.get("failed"), result.get("msg")
    assert {(x["method"], x["state"]) for x in result["moves"]} == {("restart", "moved")}
    assert min(counted.seen) == 1
    assert pods_on(shop, "w2") == []


def test_field_21_drain_by_live_migration_needs_no_budget(shop: Maintenance) -> None:
    machines = [objects.virtual_machine(x, shop.namespace, labels=TILL) for x in ("a", "b")]
    shop.start(*machines, nodes=["w2"])
    shop.add_budget("tills", TILL, minAvailable=2)

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert not [x for x in result["findings"] if x["name"].startswith("pdb_")]


CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "instancemanagers.longhorn.io"},
    "spec": {
        "group": "longhorn.io",
        "names": {"kind": "InstanceManager", "plural": "instancemanagers"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def engine(shop: Maintenance) -> t.Iterator[Maintenance]:
    """A storage engine that has a pod on w2, owned by an object of its own, and a budget without an owner."""
    shop.api.define(CRD)
    managers = f"/apis/longhorn.io/v1beta2/namespaces/{shop.namespace}/instancemanagers"
    kind = {"apiVersion": "longhorn.io/v1beta2", "kind": "InstanceManager"}
    manager = shop.api.create(managers, {**kind, "metadata": {"name": "engine-0a"}})
    labels = {"example.com/part": "engine"}
    owner = {**kind, "name": "engine-0a", "uid": manager["metadata"]["uid"], "controller": True}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "engine-0a",
            "namespace": shop.namespace,
            "labels": labels,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "nodeName": "w2",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "engine", "image": "example.invalid/engine"}],
        },
    }
    shop.api.create(shop.api.collection_of(pod), pod)
    shop.wait_ready(1)
    shop.add_budget("engine-0a", labels, minAvailable=1)
    yield shop
    shop.api.delete(shop.api.path("CustomResourceDefinition", name=CRD["metadata"]["name"]))


def test_field_44_drain_waits_until_the_operator_deletes_its_budget(engine: Maintenance) -> None:
    """Here the test is the operator: it deletes the budget 5 s after the cordon."""
    planned = engine.maintain("drained", "w2", check=True)
    assert not planned.get("failed"), planned.get("msg")
    (finding,) = [x for x in planned["findings"] if x["name"].startswith("pdb_")]
    assert (finding["name"], finding["severity"]) == ("pdb_delegated", "info")
    assert "longhorn.io" in finding["why"]
    budget = engine.path("PodDisruptionBudget", "engine-0a")

    def delete() -> None:
        time.sleep(5)
        assert pods_on(engine, "w2") == ["engine-0a"]
        engine.api.delete(budget)

    with engine.meanwhile(until=lambda: engine.cordoned("w2"), do=delete):
        result = engine.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert [(move["method"], move["state"]) for move in result["moves"]] == [("evict", "moved")]
    assert pods_on(engine, "w2") == []


def test_other_budgets_refuse_beside_a_delegated_one(engine: Maintenance) -> None:
    web = objects.deployment("web", engine.namespace, replicas=1)
    engine.start(web, nodes=["w2"])
    engine.add_budget("web", {"app": "web"}, maxUnavailable=0)

    refused = engine.maintain("drained", "w2")
    assert refused["msg"].startswith("pdb_impossible: ")
    assert "engine-0a" not in refused["msg"]
    passed = engine.maintain("drained", "w2", check=True, delegated_budgets=["app=web"])
    assert not passed.get("failed"), passed.get("msg")
    named = {x["name"] for x in passed["findings"] if x["name"].startswith("pdb_")}
    assert named == {"pdb_delegated"}


def test_delegated_budgets_that_are_neither_groups_nor_selectors_are_refused(
    shop: Maintenance,
) -> None:
    mark = shop.sandbox.audit.mark()

    refused = shop.maintain("drained", "w2", delegated_budgets=["longhorn", "a=b,"])

    assert [error["object"] for error in refused["errors"]] == ["delegated_budgets"] * 2
    assert "known without it: ceph.rook.io, kubevirt.io, longhorn.io" in refused["msg"]
    assert shop.sandbox.audit.writes(since=mark) == []
