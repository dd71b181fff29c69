# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance drains nodes, step by step in this process, on a real control plane.

Where each requirement of a maintenance has its test, in `tests`, beside those here:

| requirement | test |
|---|---|
| survives 5xx, resets, a leader change; a frozen run moves nothing | faults/test_maintenance.py |
| resume and rollback after SIGKILL at a write | faults/test_maintenance.py, unit/maintenance/test_kills.py |
| invariants I1 to I8, see witness.py | faults/test_maintenance.py, unit/maintenance/test_kills.py |
| goes on where a write is answered with 500 | unit/maintenance/test_kills.py |
| waits for an API server; what an undo deletes | unit/maintenance/test_tasks.py |
| VMs that are not running after an earlier run | unit/maintenance/test_tasks.py |
| slow node | `test_drain_of_a_slow_node_succeeds`; three zones of slow nodes: faults/test_maintenance.py |
| waits for a 429 in one run | `test_eviction_that_is_refused_twice_is_made_in_the_same_run` |
| stops when the cordon fails | `test_cordon_that_is_refused_ends_the_drain` |
| each pod filter; a bare pod with emptyDir | unit/maintenance/test_pods.py |
| drained after two readings without pods; volumes | unit/maintenance/test_drain.py |
| replaced nodes; limits under the Lease | unit/maintenance/test_drain.py |
| an evicted pod that never leaves is an error | `test_evicted_pod_that_never_leaves_is_a_failure_that_names_it` |
| budgets, capacity, quotas, quorum, other automation | unit/maintenance/test_preflight.py |
| the preflight sends dry-run evictions | `test_pod_of_two_pdbs_is_a_failure_that_names_it`, unit/maintenance |
| what each 429 means, Retry-After | unit/moves/test_send.py, unit/moves/test_reconcile.py |
| evictions name the UID | unit/moves/test_state_machines.py, and witness.py in the fault sweeps |
| when a node is back: Ready, virt-handler, KVM, a new bootID | unit/maintenance/test_in_service.py |
| cordons of others, evacuations, max_nodes, one zone, window, Events | test_node_maintenance.py |
| two VMs apart on two nodes, a pair on one node | test_node_maintenance_preflight.py |
| one VM a zone, the only node of a rack | test_node_maintenance_preflight.py |
| two VMs in one zone, one that would be unschedulable; refused without a write | test_node_maintenance_preflight.py |
| the target of `with` is migrated first | `test_target_of_with_is_migrated_before_its_followers` |
| the article, steps B1 to B9 | demos/kubevirt, run by jobs/test_article.py |
| five whole jobs at once | integration/test_maintenance_at_once.py |
| uncordoned in its drain | `test_uncordoned_midway_is_a_failure_that_names_the_node` |
| uncordoned since its drain; before its tasks | test_node_maintenance.py; integration/test_maintenance.py |
| not back, not rebooted | test_node_maintenance.py |
| briefly NotReady | `test_drain_continues_after_node_is_briefly_not_ready` |
| deleted or replaced midway | `test_node_that_is_deleted_midway_is_named`, unit/maintenance/test_tasks.py |
| gates, canary, window, VMs move back, verdict, canceled and launched again | integration/test_maintenance.py |
| each message of the runbook | unit/maintenance/test_runbook.py |
| beside kubectl and kubernetes.core | bench/drain.py |
"""

from __future__ import annotations

import contextlib
import datetime
import re
import threading
import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox, drain, node_faults, objects
from sandbox.fault_proxy import Rule, status
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, pods_on, vms
from tests.shop import HOSTNAME, PATIENCE
from tests.terms import apart_over, pair_on_one_node
from tests.witness import watching

MIGRATIONS = ("create", "virtualmachineinstancemigrations")
EVICTION = ("create", "pods/eviction")
SECONDS = "sandbox.virt/migration-seconds"
SLOW = {SECONDS: "8"}
STUCK = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "drain"), run_module) as shop:
        yield shop


@pytest.mark.tour
def test_vms_are_migrated_and_pods_evicted(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", "b", "c"), nodes=["w2"])
    shop.start(objects.deployment("web", shop.namespace, replicas=2), nodes=["w2"])
    shop.start(objects.daemon_set("agent", shop.namespace))
    before = shop.uids()
    mark = shop.sandbox.audit.mark()

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert [name.rpartition("-")[0] for name in pods_on(shop, "w2")] == ["agent"]
    assert shop.uids() == before
    assert shop.cordoned("w2")
    mark_on_node = shop.mark("w2")
    assert mark_on_node is not None and mark_on_node["phase"] == "drained"
    assert sorted(move["method"] for move in result["moves"]) == ["evict"] * 2 + ["migrate"] * 3
    assert {move["state"] for move in result["moves"]} == {"moved"}
    disruptions = shop.disruptions(mark)
    assert disruptions.count(("create", "virtualmachineinstancemigrations")) == 3
    assert disruptions.count(("create", "pods/eviction")) == 2
    assert any(": 0 of 5 still on the node" in line for line in result["progress"])
    assert shop.lease()["spec"]["holderIdentity"] == ""

    mark = shop.sandbox.audit.mark()
    again = shop.maintain("drained", "w2")
    assert (again["changed"], again["moves"]) == (False, [])
    assert shop.sandbox.audit.writes(since=mark) == []


def target_with_followers(shop: Maintenance, *followers: str) -> None:
    """The VM db on w2, and VMs that must be on its node."""
    shop.start(*vms(shop, "db", cpu="100m"), nodes=["w2"])
    near = {
        "labelSelector": {"matchLabels": {"vmi.kubevirt.io/id": "db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    shop.start(*vms(shop, *followers, cpu="100m", placement={"affinity": together}))
    assert set(shop.nodes().values()) == {"w2"}


def test_target_of_with_is_migrated_before_its_followers(shop: Maintenance) -> None:
    target_with_followers(shop, "app1", "app2")
    before = shop.uids()
    for name in ("w3", "w4", "w5", "w6"):
        drain.cordon(shop.sandbox, name)

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert result["moves"][0]["name"] == "db"
    assert {move["state"] for move in result["moves"]} == {"moved"}
    assert shop.nodes() == {"db": "w1", "app1": "w1", "app2": "w1"}
    assert shop.uids() == before
    by_vmi = {x["spec"]["vmiName"]: x for x in migrations(shop)}
    assert len(by_vmi) == len(migrations(shop)) == 3
    assert {x["status"]["phase"] for x in by_vmi.values()} == {"Succeeded"}
    target_ended = ended(by_vmi["db"])
    assert all(target_ended <= created(by_vmi[name]) for name in ("app1", "app2"))
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2")
    assert set(shop.nodes().values()) == {"w1"}


@pytest.mark.parametrize("strategy", ["None", "LiveMigrateIfPossible", "LiveMigrate"])
@pytest.mark.tour
def test_vm_with_eviction_strategy_is_migrated(shop: Maintenance, strategy: str) -> None:
    shop.start(*vms(shop, "a", placement={"evictionStrategy": strategy}), nodes=["w2"])
    before = shop.uids()
    mark = shop.sandbox.audit.mark()

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert shop.uids() == before
    assert shop.disruptions(mark) == [MIGRATIONS]


def test_drain_with_unmigratable_vm_is_refused_and_writes_nothing(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", annotations=STUCK), nodes=["w2"])
    mark = shop.sandbox.audit.mark()

    result = shop.maintain("drained", "w2")

    assert result["failed"]
    assert result["msg"].startswith("not_migratable: ")
    assert "DisksNotLiveMigratable" in result["msg"]
    assert [error["type"] for error in result["errors"]] == ["finding"]
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.sandbox.audit.writes(since=mark) == []


@pytest.mark.parametrize("policy", ["restart", "stop"])
@pytest.mark.tour
def test_vm_leaves_by_the_method_in_its_label(shop: Maintenance, policy: str) -> None:
    (stuck,) = vms(shop, "a", annotations=STUCK)
    stuck["metadata"]["labels"] = {"placement.virt/vm-policy": policy}
    shop.start(stuck, *vms(shop, "b"), nodes=["w2"])

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    methods = {move["name"]: (move["method"], move["state"]) for move in result["moves"]}
    assert methods == {"a": (policy, "moved"), "b": ("migrate", "moved")}
    assert pods_on(shop, "w2") == []
    assert sorted(shop.instances()) == (["a", "b"] if policy == "restart" else ["b"])


def test_drain_waits_for_pdb_and_names_it(shop: Maintenance) -> None:
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    labels = {"app": "web"}
    shop.add_budget("web", labels, maxUnavailable=0)
    allowed = ["pdb_impossible", "pdb_blocks"]

    result = shop.maintain("drained", "w2", run_timeout=15, allow_findings=allowed)

    assert result["failed"]
    assert "not done within 15 s" in result["msg"]
    assert "PodDisruptionBudget web" in result["msg"] or "budget web" in result["msg"]
    assert "The cordon of w2 stays" in result["msg"]
    assert any("waiting: Pod " in line and "web" in line for line in result["progress"])
    mark = shop.mark("w2")
    assert mark is not None and mark["phase"] == "draining"
    shop.change_budget("web", maxUnavailable=1)

    result = shop.maintain("drained", "w2", allow_findings=allowed)

    assert not result.get("failed"), result.get("msg")
    assert [move["method"] for move in result["moves"]] == ["evict"]
    assert pods_on(shop, "w2") == []


def test_pods_that_come_back_to_the_node_are_left_there_and_named(shop: Maintenance) -> None:
    """One tolerates the cordon, and the scheduler places each next pod on the node again. The template of the other
    names the node, so that no scheduler sees its pods, and they are not evicted at all."""
    on_w2 = {"nodeSelector": {HOSTNAME: "w2"}, "tolerations": [{"operator": "Exists"}]}
    shop.start(
        objects.deployment("sticky", shop.namespace, replicas=1, placement=on_w2),
        objects.deployment("named", shop.namespace, replicas=1, placement={"nodeName": "w2"}),
        *vms(shop, "a"),
    )
    mark = shop.sandbox.audit.mark()

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    writes = shop.sandbox.audit.writes(since=mark)
    evicted = [x.name.partition("-")[0] for x in writes if x.subresource == "eviction"]
    assert evicted == ["sticky"] * 3
    assert sorted(name.partition("-")[0] for name in pods_on(shop, "w2")) == ["named", "sticky"]
    left = {item["name"]: item["reason"] for item in result["skipped_instances"]}
    assert left["sticky"].startswith(
        "it came back to node w2 3 times, since it tolerates the cordon"
    )
    assert left["named"].startswith(
        f"the template of Deployment {shop.namespace}/named names node w2"
    )
    lines = [
        x for x in result["progress"] if "is left on node w2: it" in x or "w2: the template" in x
    ]
    assert len([x for x in lines if not x.startswith("warning: ")]) == 2
    found = {finding["name"] for finding in result["findings"]}
    assert {"tolerates_cordon", "names_node"} <= found
    (drained,) = result["nodes"]
    assert drained["state"] == "drained"
    mark = shop.sandbox.audit.mark()
    assert not shop.maintain("drained", "w2")["changed"]
    assert shop.sandbox.audit.writes(since=mark) == [], "they are left by a second run, too"


def test_eviction_that_is_refused_twice_is_made_in_the_same_run(shop: Maintenance) -> None:
    """kubernetes.core's drain fails at the first refusal."""
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    full = status(429, message="Cannot evict pod", retry_after=1)
    after_preflight = Rule("POST", "/eviction", full, nth=range(2, 4))
    with shop.sandbox.fault_proxy([after_preflight]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = shop.maintain("drained", "w2", kubeconfig=kubeconfig)
        answers = [seen.status for seen in proxy.requests if "/eviction" in seen.path]

    assert not result.get("failed"), result.get("msg")
    assert answers == [201, 429, 429, 201]
    assert any("waiting: Pod " in line and "Cannot evict" in line for line in result["progress"])
    assert pods_on(shop, "w2") == []


def test_evicted_pod_that_never_leaves_is_a_failure_that_names_it(shop: Maintenance) -> None:
    """kubernetes.core's drain reports success in this case, with a warning."""
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    (name,) = pods_on(shop, "w2")
    pod = shop.path("Pod", name)
    shop.api.patch(pod, {"metadata": {"finalizers": ["example.com/hold"]}})
    mark = shop.sandbox.audit.mark()
    try:
        result = shop.maintain("drained", "w2", run_timeout=15)
    finally:
        shop.api.patch(pod, {"metadata": {"finalizers": None}})

    assert result["failed"]
    assert result["msg"].startswith(
        f"not done within 15 s (run_timeout). Pod {shop.namespace}/{name} "
    )
    assert "has not terminated yet" in result["msg"]
    assert shop.disruptions(mark) == [EVICTION]
    assert not shop.maintain("drained", "w2").get("failed")


def test_pod_of_two_pdbs_is_a_failure_that_names_it(shop: Maintenance) -> None:
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    for name in ("one", "two"):
        shop.add_budget(name, {"app": "web"}, maxUnavailable=1)

    mark = shop.sandbox.audit.mark()
    for check in (True, False):
        refused = shop.maintain("drained", "w2", check=check)
        assert refused["failed"] and refused["msg"].startswith("pdb_impossible: ")
    assert shop.sandbox.audit.writes(since=mark) == []
    result = shop.maintain("drained", "w2", allow_findings=["pdb_impossible", "eviction_fails"])

    assert result["failed"]
    assert "Deployment" in result["msg"] and "its eviction failed" in result["msg"]
    assert [move["state"] for move in result["moves"]] == ["failed"]
    assert "more than one PodDisruptionBudget" in result["moves"][0]["reason"]


def test_bare_pod_is_refused_unless_allowed(shop: Maintenance) -> None:
    bare = objects.pod("lonely", shop.namespace)
    shop.start({**bare, "spec": {**bare["spec"]}}, nodes=["w2"])

    refused = shop.maintain("drained", "w2")
    assert refused["failed"] and refused["msg"].startswith("bare_pod: ")
    assert not shop.cordoned("w2")
    result = shop.maintain("drained", "w2", allow_findings=["bare_pod"])

    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, "w2") == []


def test_cordon_that_is_refused_ends_the_drain(shop: Maintenance) -> None:
    """An admission webhook may refuse what RBAC allows. kubectl drain goes on then."""
    shop.start(*vms(shop, "a"), nodes=["w2"])
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule("PATCH", "/nodes/w2", status(403))]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = shop.maintain("drained", "w2", kubeconfig=kubeconfig)

    assert result["failed"]
    assert "Node w2" in result["msg"]
    assert shop.disruptions(mark) == []
    assert shop.nodes() == {"a": "w2"}
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_uncordoned_midway_is_a_failure_that_names_the_node(shop: Maintenance) -> None:
    """A second drain starts over and succeeds."""
    shop.start(*vms(shop, "a", annotations=SLOW), nodes=["w2"])
    before = shop.uids()

    def migrating() -> bool:
        return bool(shop.api.list(shop.path("VirtualMachineInstanceMigration")))

    with shop.meanwhile(until=migrating, do=lambda: drain.uncordon(shop.sandbox, "w2")):
        result = shop.maintain("drained", "w2")

    assert result["failed"]
    assert result["msg"].startswith("Node w2: was uncordoned during its maintenance")
    assert not shop.cordoned("w2")
    assert shop.lease()["spec"]["holderIdentity"] == ""
    result = shop.maintain("drained", "w2")
    assert not result.get("failed"), result.get("msg")
    assert shop.cordoned("w2")
    assert pods_on(shop, "w2") == []
    assert shop.uids() == before
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2") and shop.mark("w2") is None


def test_foreign_evacuation_is_waited_for(shop: Maintenance) -> None:
    shop.start(
        *vms(shop, "a", "b", placement={"evictionStrategy": "LiveMigrate"}, annotations=SLOW),
        nodes=["w2"],
    )
    mark = shop.sandbox.audit.mark()
    foreign = threading.Thread(target=drain.drain, args=(shop.sandbox, "w2"))
    foreign.start()
    try:
        shop.api.wait_list(
            shop.path("VirtualMachineInstance"),
            lambda vmis: any(x["status"].get("evacuationNodeName") for x in vmis),
        )
        result = shop.maintain("drained", "w2")
    finally:
        foreign.join()

    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, "w2") == []
    assert shop.disruptions(mark).count(MIGRATIONS) <= 1
    shop.maintain("in_service", "w2")
    assert shop.cordoned("w2"), "the cordon of the foreign drain stays"


def test_foreign_drain_of_a_target_with_followers_stops_no_vm(shop: Maintenance) -> None:
    """KubeVirt may start the followers first. Their migrations wait for the target's, which exceeds
    the limit of migrations."""
    target_with_followers(shop, "app1", "app2", "app3")
    before = shop.uids()

    def drain_by_another() -> None:
        with contextlib.suppress(TimeoutError):
            drain.drain(shop.sandbox, "w2", timeout=15)

    foreign = threading.Thread(target=drain_by_another)
    foreign.start()
    try:
        result = shop.maintain("drained", "w2", run_timeout=20)
    finally:
        foreign.join()

    assert shop.uids() == before
    on_w2 = [name for name, node in shop.nodes().items() if node == "w2"]
    if result.get("failed"):
        assert "not done within 20 s" in result["msg"]
        assert all(f"{shop.namespace}/{name} on w2" in result["msg"] for name in on_w2)
    else:
        assert on_w2 == []


ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def attach(shop: Maintenance) -> None:
    """Attach a volume to w2."""
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "attached"},
        "spec": {
            "attacher": "csi.example.com",
            "nodeName": "w2",
            "source": {"persistentVolumeName": "data"},
        },
    }
    shop.api.create(ATTACHMENTS, attachment)


def uids_by_name(shop: Maintenance) -> dict[str, str]:
    return {name: vmi["metadata"]["uid"] for name, vmi in shop.instances().items()}


@pytest.mark.sweep
def test_drain_of_a_slow_node_succeeds(shop: Maintenance) -> None:
    """Migrations that take longer than a Lease and several steps last, a guest that uses most of its 60 s to shut
    down, and a volume that is detached when all have left."""
    shop.start(*vms(shop, "a", "b", "c", annotations={SECONDS: "25"}), nodes=["w2"])
    (stuck,) = vms(
        shop,
        "stuck",
        annotations={**STUCK, "sandbox.virt/shutdown-seconds": "40"},
        placement={"terminationGracePeriodSeconds": 60},
    )
    stuck["metadata"]["labels"] = {"placement.virt/vm-policy": "restart"}
    shop.start(stuck, nodes=["w2"])
    before = uids_by_name(shop)
    attach(shop)
    mark = shop.sandbox.audit.mark()

    with shop.meanwhile(
        until=lambda: pods_on(shop, "w2") == [],
        do=lambda: shop.api.delete(f"{ATTACHMENTS}/attached"),
    ):
        result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    after = uids_by_name(shop)
    assert {name for name in before if after[name] != before[name]} == {"stuck"}
    assert sorted(shop.disruptions(mark)) == [MIGRATIONS] * 3 + [
        ("update", "virtualmachines/restart")
    ]
    assert {move["state"] for move in result["moves"]} == {"moved"}
    assert pods_on(shop, "w2") == []
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_volume_that_is_attached_is_waited_for(shop: Maintenance) -> None:
    attach(shop)
    try:
        result = shop.maintain("drained", "w2", run_timeout=15)
    finally:
        shop.api.delete(f"{ATTACHMENTS}/attached")

    assert result["failed"]
    assert "volumes are still attached: data to w2" in result["msg"]
    assert not shop.maintain("drained", "w2").get("failed")


def test_check_mode_names_the_moves_and_makes_none(shop: Maintenance) -> None:
    pair_on_one_node(shop)
    node = next(iter(shop.nodes().values()))
    mark = shop.sandbox.audit.mark()

    planned = shop.maintain("drained", node, check=True, diff=True)

    assert not planned.get("failed"), planned.get("msg")
    assert planned["changed"] is True
    assert {move["state"] for move in planned["moves"]} == {"planned"}
    assert all(move["to_node"] not in (None, node) for move in planned["moves"])
    lines = [line for line in planned["progress"] if "would migrate" in line]
    assert len(lines) == len(planned["moves"])
    assert all("; available: " in line for line in lines)
    assert planned["diff"][0]["after"] == {"cordoned": True, "maintenance": "drained"}
    assert shop.sandbox.audit.writes(since=mark) == []
    assert not shop.cordoned(node)


def test_two_nodes_of_a_zone_are_drained_at_once(shop: Maintenance) -> None:
    zone = shop.zone("w1")
    nodes = [name for name in ("w1", "w2", "w3", "w4", "w5", "w6") if shop.zone(name) == zone]
    shop.start(*vms(shop, "a", "b", "c", "d"), nodes=nodes)
    before = shop.uids()

    result = shop.maintain("drained", topology={"zone": zone}, max_nodes=len(nodes))

    assert not result.get("failed"), result.get("msg")
    assert shop.uids() == before
    assert [pods_on(shop, node) for node in nodes] == [[] for _node in nodes]
    assert [node["state"] for node in result["nodes"]] == ["drained"] * len(nodes)
    result = shop.maintain("in_service", topology={"zone": zone})
    assert [node["state"] for node in result["nodes"]] == ["in_service"] * len(nodes)


def test_vms_that_are_kept_apart_leave_one_after_the_other(shop: Maintenance) -> None:
    """The drain migrates one VM after the other, although KubeVirt would migrate both at once."""
    names = ("d1", "d2")
    for name, node in zip(names, ("w1", "w2"), strict=True):
        shop.start(
            *vms(shop, name, placement={"affinity": apart_over(HOSTNAME, names)}), nodes=[node]
        )

    with watching(shop.sandbox, shop.namespace) as history:
        result = shop.maintain("drained", "w1", "w2", max_nodes=2)

    assert not result.get("failed"), result.get("msg")
    assert len(migrations(shop)) == 2
    assert history.violated_invariants(max_nodes=2) == []


def test_drain_is_refused_while_another_run_holds_the_lease(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", annotations=SLOW), nodes=["w2"])
    mark = shop.sandbox.audit.mark()
    with shop.another_run("r-other"):
        result = shop.maintain("drained", "w2")

    assert result["failed"]
    assert "is held by run r-other, which is running" in result["msg"]
    assert result["msg"].endswith(". Not begun: w2")
    assert not shop.cordoned("w2")
    assert shop.disruptions(mark) == []


def test_node_that_is_deleted_midway_is_named(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", annotations=SLOW), nodes=["w2"])

    def migrating() -> bool:
        return bool(shop.api.list(shop.path("VirtualMachineInstanceMigration")))

    with (
        shop.recreated_afterwards("w2"),
        shop.meanwhile(until=migrating, do=lambda: shop.api.delete("/api/v1/nodes/w2")),
    ):
        result = shop.maintain("drained", "w2")

    assert result["failed"]
    assert result["msg"].startswith("Node w2: was deleted during its maintenance")
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_drain_continues_after_node_is_briefly_not_ready(shop: Maintenance) -> None:
    """The node is NotReady and Ready again while a VM is migrated."""
    shop.start(*vms(shop, "a", annotations=SLOW), nodes=["w2"])
    before = shop.uids()

    def migrating() -> bool:
        return bool(shop.api.list(shop.path("VirtualMachineInstanceMigration")))

    def flap() -> None:
        node_faults.node_down(shop.api, "w2")
        since = datetime.datetime.now(datetime.timezone.utc)
        try:
            shop.api.wait(lambda _node: shop.nodes_are_read(since), "/api/v1/nodes/w2", PATIENCE)
        finally:
            node_faults.node_up(shop.api, "w2")

    with shop.meanwhile(until=migrating, do=flap):
        result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert "node w2 is not Ready: nothing leaves it" in result["progress"]
    assert shop.uids() == before
    assert pods_on(shop, "w2") == []


def test_five_drains_at_once_move_the_vm_once(shop: Maintenance, tmp_path: Path) -> None:
    shop.start(*vms(shop, "a", annotations=SLOW), nodes=["w2"])
    before = shop.uids()
    mark = shop.sandbox.audit.mark()
    jobs = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        job = Job(shop, folder, "node_maintenance", shop.identity)
        jobs.append(job.start(nodes=["w2"], state="drained"))
    ended = [(job.rest(), job.returncode) for job in jobs]

    assert any(code == 0 for _output, code in ended), ended
    for output, code in ended:
        assert code == 0 or re.search(r"is held by run .* w2", output), output
    assert shop.disruptions(mark, refused=False) == [MIGRATIONS]
    assert shop.uids() == before
    mark_on_node = shop.mark("w2")
    assert mark_on_node is not None and mark_on_node["phase"] == "drained"
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.tour
def test_drain_uses_all_parallel_migrations(shop: Maintenance) -> None:
    """Two migrations away from a node at a time: eleven VMs need six rounds."""
    names = [f"vm{number}" for number in range(11)]
    shop.start(*vms(shop, *names, cpu="100m", annotations={SECONDS: "4"}), nodes=["w2"])
    before = shop.uids()

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert shop.uids() == before
    times = [(created(migration), ended(migration)) for migration in shop.ended_migrations()]
    assert len(times) == 11
    seconds = sorted(end - begin for begin, end in times)[5]
    total_seconds = max(end for _begin, end in times) - min(begin for begin, _end in times)
    assert total_seconds <= 3 * 6 * seconds, (total_seconds, seconds)
    start_times = [begin for begin, _end in times]
    assert max(sum(b <= at < e for b, e in times) for at in start_times) <= 2
    overlaps = [sum(b < end and begin < e for b, e in times) for begin, end in times]
    assert overlaps.count(1) <= 1, "of eleven VMs one migrates alone"


def migrations(shop: Maintenance) -> list[dict[str, t.Any]]:
    return shop.api.list(shop.path("VirtualMachineInstanceMigration"))


def created(migration: dict[str, t.Any]) -> float:
    return _time(migration["metadata"]["creationTimestamp"])


def ended(migration: dict[str, t.Any]) -> float:
    return _time(migration["status"]["migrationState"]["endTimestamp"])


def _time(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_task_prints_how_many_are_left(shop: Maintenance, tmp_path: Path) -> None:
    shop.start(*vms(shop, "a"), nodes=["w2"])
    job = Job(shop, tmp_path, "node_maintenance", shop.identity)

    code, output = job.run(nodes=["w2"], state="drained", reason="firmware")

    assert code == 0, output
    assert "[lab] node w2: cordoned, to be drained" in output
    assert f"migrating VirtualMachine {shop.namespace}/a from w2 ({shop.zone('w2')})" in output
    assert f"[lab] node w2 ({shop.zone('w2')}): 0 of 1 still on the node" in output
    lines = [line for line in output.splitlines() if line.startswith("[lab] ")]
    assert lines[-1] == "[lab] node w2: drained"
    assert len(set(lines)) == len(lines), "no line is printed twice"
    assert not shop.cordoned("w1")


def test_restart_with_pending_changes_is_refused_unless_allowed(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", annotations=STUCK), nodes=["w2"])
    staged = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}
    shop.api.patch(shop.path("VirtualMachine", "a"), staged)

    refused = shop.maintain("drained", "w2", vm_policy="restart")

    assert refused["failed"] and refused["msg"].startswith("pending_changes: ")
    assert "terminationGracePeriodSeconds" in refused["msg"]
    assert not shop.cordoned("w2")
    allowed = ["pending_changes"]
    result = shop.maintain("drained", "w2", vm_policy="restart", allow_findings=allowed)
    assert [move["method"] for move in result["moves"]] == ["restart"], result.get("msg")
