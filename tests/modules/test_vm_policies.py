# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How VMs leave a node in a drain: lists of policies, controllers of their own, and labels that keep them. Also what
a drain says of pods that cannot leave."""

from __future__ import annotations

import contextlib
import datetime
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, objects
from sandbox.fault_proxy import Rule, status
from tests.maintenance import Maintenance, maintenance, pods_on, vms
from tests.shop import HOSTNAME, Object

STUCK = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
POLICY = "placement.virt/vm-policy"
DO_NOT_MOVE = "placement.virt/do-not-move"
EVICTION = ("create", "pods/eviction")


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "policies"), run_module) as shop:
        yield shop


def pinned(shop: Maintenance, name: str) -> Object:
    (vm,) = vms(shop, name, placement={"nodeSelector": {HOSTNAME: "w1"}})
    return vm


def labelled(vm: Object, **labels: str) -> Object:
    names = {"policy": POLICY, "stays": DO_NOT_MOVE}
    vm["metadata"]["labels"] = {names[key]: value for key, value in labels.items()}
    return vm


def refused(shop: Maintenance, *nodes: str, **options: t.Any) -> str:
    """The message of a drain that is refused without a write."""
    mark = shop.sandbox.audit.mark()
    result = shop.maintain("drained", *nodes, **options)
    assert result.get("failed"), result
    assert shop.sandbox.audit.writes(since=mark) == []
    return t.cast(str, result["msg"])


def methods(result: Object) -> dict[str, str]:
    assert {move["state"] for move in result["moves"]} <= {"moved", "planned"}, result["moves"]
    return {move["name"]: move["method"] for move in result["moves"]}


def fallbacks(result: Object) -> list[str]:
    return sorted(x["why"] for x in result["findings"] if x["name"] == "policy_fallback")


def test_vms_that_a_drain_stops_are_started_once_when_their_node_is_in_service(
    shop: Maintenance,
) -> None:
    """Also where the job is killed after the node was uncordoned, and before they were started. A VM that is started
    meanwhile is not started again, and each keeps its run strategy."""
    strategies = {"a": "Always", "b": "Manual", "c": "RerunOnFailure"}
    shop.start(*vms(shop, *strategies, annotations=STUCK), nodes=["w2"])
    for name, strategy in strategies.items():
        shop.api.patch(shop.path("VirtualMachine", name), {"spec": {"runStrategy": strategy}})
    result = shop.maintain("drained", "w2", vm_policy=["migrate", "stop_and_start"])
    assert not result.get("failed"), result.get("msg")
    assert methods(result) == dict.fromkeys("abc", "stop") and shop.instances() == {}
    waiting = {x["name"]: x["run_strategy"] for x in result["nodes"][0]["starts_again"]}
    assert (waiting, result["nodes"][0]["stopped"]) == (strategies, [])

    planned = shop.maintain("in_service", "w2", check=True)
    assert sorted(x["name"] for x in planned["started"]) == ["a", "b", "c"]
    for code in (403, 409):  # 409: as where a VM is changed at the same moment
        with shop.sandbox.fault_proxy([Rule("PUT", "/start", status(code))]) as proxy:
            kubeconfig = str(proxy.kubeconfig(shop.identity))
            failed = shop.maintain("in_service", "w2", kubeconfig=kubeconfig)
        assert failed.get("failed") and not shop.cordoned("w2"), failed["progress"]
        assert failed["msg"].count("could not be started again") == 3
    subresources = f"/apis/subresources.kubevirt.io/v1/namespaces/{shop.namespace}"
    shop.api.put(f"{subresources}/virtualmachines/c/start", {})
    shop.wait_ready(1)
    result = shop.maintain("in_service", "w2")
    assert not result.get("failed"), result.get("msg")
    assert sorted(x["name"] for x in result["started"]) == ["a", "b"]
    shop.wait_ready(3)
    specs = shop.api.list(shop.path("VirtualMachine"))
    assert {x["metadata"]["name"]: x["spec"]["runStrategy"] for x in specs} == strategies
    assert (result["nodes"][0]["starts_again"], result["nodes"][0]["stopped"]) == ([], [])
    mark = shop.sandbox.audit.mark()
    assert shop.maintain("in_service", "w2")["started"] == []
    assert shop.sandbox.audit.writes(since=mark) == []


def test_field_22_vms_that_are_pinned_by_hostname(shop: Maintenance) -> None:
    names = {"key": HOSTNAME, "operator": "In", "values": ["w1", "w9"]}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [names]}]
        }
    }
    (mirror,) = vms(shop, "mirror", placement={"affinity": {"nodeAffinity": required}})
    shop.start(pinned(shop, "ledger"), mirror, *vms(shop, "free"), nodes=["w1"])
    message = refused(shop, "w1")

    assert f"({HOSTNAME}=w1)" in message, message
    assert f"({HOSTNAME} In (w1, w9))" in message, message
    assert "2 of 3 instances of node w1 would have no node" in message
    assert f"set the label {POLICY} of the VM to stop" in message
    assert "or vm_policy to [migrate, stop_and_start]" in message
    assert "or vm_policy to [migrate, restart, stop_and_start]" in refused(
        shop, "w1", vm_policy=["migrate", "restart"]
    )

    options: Object = {"vm_policy": ["migrate", "stop"]}
    check = shop.maintain("drained", "w1", check=True, **options)
    assert methods(check) == {"ledger": "stop", "mirror": "stop", "free": "migrate"}
    assert "not migrate: 0/6 nodes are available" in check["moves"][-1]["reason"]
    result = shop.maintain("drained", "w1", **options)

    assert not result.get("failed"), result.get("msg")
    assert methods(result) == {"ledger": "stop", "mirror": "stop", "free": "migrate"}
    assert [x.partition(" leaves by vm_policy stop: ")[1] for x in fallbacks(result)] == [
        " leaves by vm_policy stop: "
    ] * 2
    assert pods_on(shop, "w1") == []
    assert list(shop.instances()) == ["free"]


def test_what_cannot_migrate_is_restarted(shop: Maintenance) -> None:
    shop.start(*vms(shop, "stuck", annotations=STUCK), *vms(shop, "free"), nodes=["w1"])
    before = {name: vmi["metadata"]["uid"] for name, vmi in shop.instances().items()}

    result = shop.maintain("drained", "w1", vm_policy=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert methods(result) == {"stuck": "restart", "free": "migrate"}
    assert any("policy_fallback" in line for line in result["progress"])
    after = {name: vmi["metadata"]["uid"] for name, vmi in shop.instances().items()}
    assert after["free"] == before["free"] and after["stuck"] != before["stuck"]
    assert "w1" not in shop.nodes().values()


def test_label_may_have_several_policies(shop: Maintenance) -> None:
    (stuck,) = vms(shop, "stuck", annotations=STUCK)
    shop.start(labelled(stuck, policy="migrate.stop"), *vms(shop, "free"), nodes=["w1"])

    result = shop.maintain("drained", "w1")

    assert not result.get("failed"), result.get("msg")
    assert methods(result) == {"stuck": "stop", "free": "migrate"}


def test_vm_whose_migrations_fail_leaves_by_its_next_policy(shop: Maintenance) -> None:
    failing = {"sandbox.virt/migration-fails": "9"}
    shop.start(*vms(shop, "failing", annotations=failing), nodes=["w1"])
    before = shop.uids()

    result = shop.maintain("drained", "w1", vm_policy=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    ended = [(move["method"], move["state"]) for move in result["moves"]]
    assert ended == [("migrate", "failed")] * 3 + [("restart", "moved")]
    passed = "does not leave by migrate any more, since its migration failed 3 times"
    assert any(passed in line for line in result["progress"])
    assert shop.uids() != before and shop.nodes()["failing"] != "w1"


@pytest.mark.parametrize("moves", [True, False])
def test_vm_with_strategy_external_is_handed_to_its_controller(
    shop: Maintenance, moves: bool
) -> None:
    """The controller of this test migrates the VM, or does nothing."""
    external = vms(shop, "own", placement={"evictionStrategy": "External"})
    shop.start(*external, *vms(shop, "free"), nodes=["w1"])
    before, mark = shop.uids(), shop.sandbox.audit.mark()

    def marked() -> bool:
        return bool(shop.instances()["own"]["status"].get("evacuationNodeName") == "w1")

    def migrate() -> None:
        if not moves:
            return
        migration = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": "by-its-controller", "namespace": shop.namespace},
            "spec": {"vmiName": "own"},
        }
        shop.api.create(shop.path("VirtualMachineInstanceMigration"), migration)

    options: Object = {"vm_policy": ["evict", "migrate"]} | ({} if moves else {"run_timeout": 25})
    with shop.meanwhile(until=marked, do=migrate):
        result = shop.maintain("drained", "w1", **options)

    assert EVICTION in shop.disruptions(mark)
    assert shop.uids() == before
    if moves:
        assert not result.get("failed"), result.get("msg")
        assert methods(result) == {"own": "evict", "free": "migrate"}
        assert pods_on(shop, "w1") == []
        (move,) = [x for x in result["moves"] if x["name"] == "own"]
        assert move["to_node"] == shop.nodes()["own"]
        return
    assert "not done within 25 s" in result["msg"]
    assert "waits for the controller of its eviction strategy External" in result["msg"]
    assert shop.nodes()["own"] == "w1"
    assert not shop.maintain("in_service", "w1").get("failed")
    assert not marked(), "the undo cancels the evacuation"


def test_evict_is_refused_for_vms_with_other_strategies(shop: Maintenance) -> None:
    shop.start(*vms(shop, "own", placement={"evictionStrategy": "None"}), nodes=["w1"])

    message = refused(shop, "w1", vm_policy=["evict"])

    assert message.startswith("not_evictable: ")
    assert "its eviction strategy is None, and vm_policy evict is for External" in message


def test_vm_that_must_not_move_refuses_a_drain(shop: Maintenance) -> None:
    (kept,) = vms(shop, "kept")
    shop.start(labelled(kept, stays="true"), nodes=["w1"])

    message = refused(shop, "w1")

    assert message.startswith("do_not_move: ")
    assert f"VirtualMachineInstance {shop.namespace}/kept on node w1 cannot leave" in message
    assert DO_NOT_MOVE in message and f"set the label {POLICY} of the VM" in message
    seen = shop.task(placement_info.main, "reader", namespaces=[shop.namespace])
    assert [(x["name"], x["node"]) for x in seen["do_not_move"]] == [("kept", "w1")]
    assert f"do not move: VirtualMachineInstance {shop.namespace}/kept on w1" in seen["table"]
    path = shop.path("VirtualMachine", "kept")
    shop.api.patch(path, {"metadata": {"labels": {POLICY: "migrate"}}})

    result = shop.maintain("drained", "w1")

    assert not result.get("failed"), result.get("msg")
    assert methods(result) == {"kept": "migrate"}


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (["migrat"], "vm_policy: 'migrat' is not a policy; did you mean 'migrate'?"),
        (["explode"], "known are migrate, restart, stop, stop_and_start, evict, refuse"),
        (["stop", "refuse"], "vm_policy: 'refuse' must be alone"),
        ([], "vm_policy: must name a policy"),
    ],
)
def test_bad_list_is_refused(shop: Maintenance, policy: list[str], error: str) -> None:
    assert error in refused(shop, "w1", vm_policy=policy)


def test_field_24_pods_that_are_not_ready_behind_a_budget(shop: Maintenance) -> None:
    """With AlwaysAllow the eviction API evicts such a pod."""
    shop.start(objects.deployment("web", shop.namespace, replicas=2))
    shop.add_budget("web", {"app": "web"}, maxUnavailable=1)
    pods = shop.api.list(shop.path("Pod"))
    for pod in pods:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        unready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": now}
        path = f"{shop.path('Pod', pod['metadata']['name'])}/status"
        shop.api.patch(path, {"status": {"conditions": [unready]}})
    shop.wait_counted("web")
    node = pods[0]["spec"]["nodeName"]

    result = shop.maintain("drained", node, run_timeout=20)

    assert "pdb_blocks" in [x["name"] for x in result["findings"]], result
    (finding,) = [x for x in result["findings"] if x["name"] == "pdb_blocks"]
    assert "0 of 2 pods are healthy, 1 must be. Not Ready: " in finding["why"]
    assert all(f"Pod {shop.namespace}/{pod['metadata']['name']}" in finding["why"] for pod in pods)
    assert "unhealthyPodEvictionPolicy: AlwaysAllow" in finding["advice"]
    assert "not done within 20 s" in result["msg"]
    assert result["msg"].count("The disruption budget web needs 1 healthy pods") == 1
    assert result["msg"].count(f"on {node}: ") == 1
    shop.change_budget("web", unhealthyPodEvictionPolicy="AlwaysAllow")
    result = shop.maintain("drained", node)
    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, node) == []


@contextlib.contextmanager
def denied(shop: Maintenance, resource: str, message: str) -> t.Iterator[None]:
    """An admission policy of the cluster that refuses to create this resource in the namespace."""
    plural, _dot, api_group = resource.partition(".")
    name = f"no-{plural.replace('/', '-')}-{shop.namespace}"
    group = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [api_group],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [plural],
    }
    spec: Object = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}},
        },
        "validations": [{"expression": "false", "message": message}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    base = f"/apis/{group}/validatingadmissionpolic"
    made = {f"{base}ies": ("", spec), f"{base}ybindings": ("Binding", binding)}
    for path, (kind, content) in made.items():
        shop.api.create(
            path,
            {
                "apiVersion": group,
                "kind": f"ValidatingAdmissionPolicy{kind}",
                "metadata": {"name": name},
                "spec": content,
            },
        )
    try:
        yield
    finally:
        for path in made:
            shop.api.delete(f"{path}/{name}")


def wait_denied(shop: Maintenance, path: str, trial: Object, while_there: str) -> None:
    """Until a policy denies to create `trial`: it takes effect a moment after it was written."""

    def denies(_object: Object) -> bool:
        try:
            shop.api.create(path, trial)
        except Exception as error:
            return "denied request" in str(error)
        return False

    shop.api.wait(denies, while_there)


def test_answer_of_an_admission_policy_is_shown_whole(shop: Maintenance) -> None:
    message = (
        f"{'Pods of this namespace hold the only copy of their data. ' * 8}Call the data team."
    )
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w1"])
    (pod,) = shop.api.list(shop.path("Pod"))
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod["metadata"]["name"], "namespace": shop.namespace},
        "deleteOptions": {"dryRun": ["All"]},
    }

    with denied(shop, "pods/eviction", message):
        path = shop.path("Pod", pod["metadata"]["name"])
        wait_denied(shop, f"{path}/eviction", eviction, path)
        said = refused(shop, "w1")

    assert said.startswith("eviction_fails: ")
    assert message in said
    assert "Grant" not in said and "grant" not in said


def test_migration_that_a_policy_denies_is_not_replaced_by_a_restart(shop: Maintenance) -> None:
    """A freeze of migrations must not become downtime."""
    shop.start(*vms(shop, "kept"), nodes=["w1"])
    before = shop.uids()
    trial = objects.migration("kept", shop.namespace, name="trial")
    trials = f"{shop.path('VirtualMachineInstanceMigration')}?dryRun=All"
    with denied(
        shop, "virtualmachineinstancemigrations.kubevirt.io", "Frozen until Monday: ask the owners."
    ):
        wait_denied(shop, trials, trial, shop.path("VirtualMachineInstance", "kept"))
        mark = shop.sandbox.audit.mark()
        before_cordon = refused(shop, "w1", vm_policy=["migrate", "restart"])
        assert shop.sandbox.audit.writes(since=mark) == []
        result = shop.maintain(
            "drained",
            "w1",
            vm_policy=["migrate", "restart"],
            allow_findings=["migration_refused"],
        )

    assert before_cordon.startswith("migration_refused: ")
    assert "/kept on node w1: " in before_cordon
    assert "Frozen until Monday: ask the owners." in before_cordon
    assert before_cordon.endswith("No node was cordoned.")
    assert result["failed"]
    assert "Frozen until Monday" in result["msg"], result["msg"]
    assert {move["method"] for move in result["moves"]} == {"migrate"}
    assert shop.uids() == before
