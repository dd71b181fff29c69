# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole tasks against an API server in this process: a drain that continues, requests that are refused."""

from __future__ import annotations

import contextlib
import copy
import datetime
import itertools
import json
import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import transport
from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
    RetryPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Unreachable,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.node_maintenance import entries
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MAINTENANCE
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves import step, watch
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from tests.fuzz import checks, cluster
from tests.support.api_server import Reply, Request, answer, status
from tests.support.modules import run
from tests.unit.maintenance.test_kills import Killed, KubeVirt, maintain, three_zones

Object = dict[str, t.Any]
MARK = "placement.virt/maintenance"
VMIS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
FIRST_MIGRATION = 8
"""The write of a drain that makes its first migration: what comes before cordons the node."""


def at(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def begun(server: KubeVirt, node: str = "w1", **options: t.Any) -> None:
    """A drain whose job is killed when its node is cordoned."""
    server.kill_at, server.after = FIRST_MIGRATION, True
    with contextlib.suppress(Killed):
        maintain(server, "drained", node, **options)
    server.dead = False
    assert '"draining"' in server.objects[at(node)]["metadata"]["annotations"][MARK]


def lose_quorum(server: KubeVirt) -> None:
    for name in ("w1", "w3", "w5"):
        server.objects[at(name)]["metadata"]["labels"][CONTROL_PLANE] = ""
    not_ready = [{"type": "Ready", "status": "False"}]
    server._change(at("w3"), "status", {"conditions": not_ready})


@pytest.mark.parametrize("ended", [False, True], ids=["draining", "drained"])
def test_drain_that_continues_is_refused_without_quorum(ended: bool) -> None:
    server = three_zones()
    if ended:
        maintain(server, "drained", "w1")
    else:
        begun(server)
    lose_quorum(server)
    before = len(server.writes)

    asked = {"nodes": ["w1"], "state": "drained"}
    for drained in (
        run("node_maintenance", server, asked, check=True),
        maintain(server, "drained", "w1"),
    ):
        assert [error["object"] for error in drained["errors"]] == ["control_plane_quorum"]
    assert len(server.writes) == before

    allowed = maintain(server, "drained", "w1", allow_findings=["control_plane_quorum"])
    assert not allowed.get("failed"), allowed["msg"]


def test_drain_that_continues_is_not_refused_for_its_vms() -> None:
    """The drain says at its end which of them stay."""
    server = three_zones()
    begun(server)
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    server._change(f"{VMIS}/w1-3", "status", {"conditions": [condition]})

    drained = maintain(server, "drained", "w1")
    assert drained["msg"].startswith("not drained: VirtualMachine shop/w1-3 on w1: ")
    vmis = server.of("virtualmachineinstances")
    assert [name for name, x in vmis.items() if x["status"]["nodeName"] == "w1"] == ["w1-3"]


def test_node_that_is_assumed_in_service_and_has_a_damaged_mark_is_an_error() -> None:
    server = three_zones()
    server.objects[at("w2")]["metadata"]["annotations"] = {MARK: "{"}
    asked = {"nodes": ["w1"], "state": "drained", "assume_in_service": ["w2"]}
    drained = run("node_maintenance", server, asked, check=True)
    assert drained["msg"].startswith(f"Node w2: annotation {MARK} is damaged ")


def uncordon(server: KubeVirt) -> None:
    """By another client: the mark stays."""
    server.objects[at("w1")]["spec"] = {}


def test_drain_of_a_node_that_was_uncordoned_since_is_refused_as_a_new_one() -> None:
    server = three_zones()
    begun(server)
    uncordon(server)
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    server._change(f"{VMIS}/w1-3", "status", {"conditions": [condition]})
    before = len(server.writes)

    drained = maintain(server, "drained", "w1")
    assert [error["object"] for error in drained["errors"]] == ["not_migratable"]
    assert drained["msg"].endswith(" No node was cordoned.")
    assert len(server.writes) == before


def test_node_that_was_uncordoned_since_waits_for_the_window() -> None:
    server = three_zones()
    maintain(server, "drained", "w1")
    uncordon(server)
    before = len(server.writes)

    now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
    window = {"start": f"{now + hour:%H:%M}", "end": f"{now + 2 * hour:%H:%M}"}
    drained = maintain(server, "drained", "w1", window=window)
    assert drained["stop_reason"].startswith("outside of the window from ")
    assert len(server.writes) == before


def patches(server: KubeVirt) -> int:
    return server.writes.count(("PATCH", at("w1")))


def back(server: KubeVirt) -> str:
    """Why w1 cannot be put in service after its work, which includes a reboot; empty if it is."""
    result = maintain(server, "in_service", "w1", reboot_expected=True, run_timeout=1)
    return str(result.get("msg", ""))


def test_reboot_for_an_earlier_job_does_not_prove_the_reboot_for_the_next_one() -> None:
    """The first job is killed before it puts the node in service. The tasks of the second one only ask for a reboot."""
    server = three_zones()
    maintain(server, "drained", "w1")
    server.reboot("w1")
    before = patches(server)

    checked = run("node_maintenance", server, {"nodes": ["w1"], "state": "drained"}, check=True)
    assert checked["changed"] and [write["name"] for write in checked["writes"]] == ["w1"]
    assert patches(server) == before

    drained = maintain(server, "drained", "w1")
    assert drained["changed"] and [write["name"] for write in drained["writes"]] == ["w1"]
    assert drained["progress"] == ["node w1: drained before, and rebooted since"]
    assert "was not rebooted (bootID is still " in back(server)

    writes = len(server.writes)
    assert not maintain(server, "drained", "w1")["changed"]
    assert (patches(server), len(server.writes)) == (before + 1, writes)

    server.reboot("w1")
    assert not back(server)


def test_crash_during_the_drain_does_not_prove_the_reboot() -> None:
    server = three_zones()
    begun(server)
    server.reboot("w1")
    maintain(server, "drained", "w1")
    assert "was not rebooted (bootID is still " in back(server)


def test_node_that_is_put_in_service_when_its_reboot_is_noted_is_named() -> None:
    server = three_zones()
    maintain(server, "drained", "w1")
    server.reboot("w1")
    meddle(server, "drained", late=False)
    drained = maintain(server, "drained", "w1")
    assert "Node w1: was put in service, or taken by another run" in drained["msg"]
    assert server.objects[at("w1")]["spec"] == {}


def with_restarts() -> KubeVirt:
    """It restarts VMs at once. The new pods find no node."""
    server = three_zones()

    def restart(request: Request) -> None:
        name = request.path.split("/")[-2]
        vmi = copy.deepcopy(server.objects[f"{VMIS}/{name}"])
        vmi["metadata"]["uid"] += "+"
        vmi["metadata"]["labels"].pop("kubevirt.io/nodeName")
        server.objects[f"{VMIS}/{name}"] = {**vmi, "status": {"phase": "Scheduling"}}
        for path, pod in server.objects.items():
            if path.split("/")[-2] == "pods" and pod["metadata"]["name"].endswith(f"{name}-x1"):
                pod["metadata"]["uid"] += "+"
                pod["metadata"]["labels"]["kubevirt.io/created-by"] = vmi["metadata"]["uid"]
                pod["metadata"]["ownerReferences"][0]["uid"] = vmi["metadata"]["uid"]
                del pod["spec"]["nodeName"]
                condition = {"type": "PodScheduled", "status": "False", "message": "0/6 nodes"}
                pod["status"] = {"phase": "Pending", "conditions": [condition]}

    server.add_fault("PUT", "restart", restart, late=True, dry_runs=True)
    return server


def test_vm_that_was_restarted_and_stays_pending_is_a_failure() -> None:
    server = with_restarts()
    options = {"vm_policy": "restart", "allow_findings": ["pending_changes"], "move_timeout": 1}
    drained = maintain(server, "drained", "w1", **options)
    assert drained["msg"].startswith("not running after the drain: VirtualMachine shop/w1-0: ")
    assert (
        "VirtualMachineInstance shop/w1-3 is Pending: the scheduler finds no node: 0/6 nodes."
        " The cordon of w1" in drained["msg"]
    )
    assert [node["state"] for node in drained["nodes"]] == ["draining"]


def run_again(server: KubeVirt, name: str) -> None:
    """The VM is Ready on w2."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    server._change(f"{VMIS}/{name}", "status", {**ready, "nodeName": "w2"})
    (path,) = [x for x in server.objects if x.endswith(f"/pods/virt-launcher-{name}-x1")]
    server.objects[path]["spec"]["nodeName"] = "w2"
    server.objects[path]["status"] = ready


def halt(server: KubeVirt, name: str) -> None:
    """The owner has stopped the VM."""
    path = f"{VMIS}/{name}"
    server.objects[path.replace("instances", "s")]["spec"]["runStrategy"] = "Halted"
    del server.objects[path]


def test_each_run_names_the_vms_that_an_earlier_one_has_left_down() -> None:
    server = with_restarts()
    options = {"vm_policy": "restart", "allow_findings": ["pending_changes"], "move_timeout": 1}
    first = maintain(server, "drained", "w1", **options)
    run_again(server, "w1-0")
    halt(server, "w1-1")

    second = maintain(server, "drained", "w1", **options)
    assert "VirtualMachine shop/w1-0" in first["msg"]
    assert second["msg"].startswith(
        "not running after the drain: VirtualMachine shop/w1-2: not done"
    )
    assert "; VirtualMachine shop/w1-3: not done within 1 s: " in second["msg"]
    assert [node["state"] for node in second["nodes"]] == ["draining"]

    run_again(server, "w1-2")
    run_again(server, "w1-3")
    third = maintain(server, "drained", "w1", **options)
    assert not third.get("failed"), third["msg"]
    assert '"down"' not in server.objects[at("w1")]["metadata"]["annotations"][MARK]


def test_mark_of_a_node_names_only_the_vms_that_left_that_node() -> None:
    server = with_restarts()
    options = {"vm_policy": "restart", "allow_findings": ["pending_changes"], "move_timeout": 1}
    options |= {"nodes": ["w1", "w3"], "max_nodes": 2}
    server.objects[at("w3")]["metadata"]["labels"][cluster.ZONE] = "a"
    drained = maintain(server, "drained", "", **options)
    assert "VirtualMachine shop/w1-0: " in drained["msg"]
    assert "VirtualMachine shop/w3-0: " in drained["msg"]
    for name in ("w1", "w3"):
        mark = json.loads(server.objects[at(name)]["metadata"]["annotations"][MARK])
        assert {key.split("/")[2][:2] for key in mark["down"]} == {name}


def test_vm_that_stays_pending_is_no_failure_where_no_place_is_allowed() -> None:
    allowed = {"allow_findings": ["pending_changes", "no_place"], "move_timeout": 1}
    server = with_restarts()
    drained = maintain(server, "drained", "w1", vm_policy="restart", **allowed)
    assert not drained.get("failed"), drained["msg"]
    assert [node["state"] for node in drained["nodes"]] == ["drained"]
    assert any("VirtualMachineInstance shop/w1-3 is Pending" in x for x in drained["progress"])


def with_refused_migration(code: int, message: str) -> KubeVirt:
    """It does not migrate a fifth VM on w1, as of a policy that came after the preflight."""
    server = three_zones()
    fifth = copy.deepcopy(list(cluster._virtual_machine("shop", "w1-4", "w1")))
    server.objects |= {cluster.path_of(item): item for item in fifth}
    refusal = status(code, message=message)
    server.add_fault("POST", MIGRATIONS, refusal, having="'vmiName': 'w1-4'")
    return server


MIGRATIONS = "virtualmachineinstancemigrations"
QUOTA = 'migrations "x" is forbidden: exceeded quota: none'


@pytest.mark.parametrize(("code", "message"), [(422, "not this one"), (403, QUOTA)])
def test_drain_that_allows_failures_is_not_done_while_a_migration_is_refused(
    code: int, message: str
) -> None:
    server = with_refused_migration(code, message)
    drained = maintain(server, "drained", "w1", failures_allowed=100)
    assert drained["msg"].startswith("not drained: VirtualMachine shop/w1-4 on w1: its migration")
    assert message in drained["msg"]
    vmis = server.of("virtualmachineinstances")
    assert [name for name, x in vmis.items() if x["status"]["nodeName"] == "w1"] == ["w1-4"]


@pytest.mark.parametrize(("code", "message"), [(422, "not this one"), (403, QUOTA)])
def test_vm_whose_migration_is_refused_is_not_restarted_instead(code: int, message: str) -> None:
    """By a policy that came after the preflight: who forbids the migration does not want downtime in its place."""
    server = with_refused_migration(code, message)
    drained = maintain(
        server, "drained", "w1", vm_policy=["migrate", "restart"], failures_allowed=100
    )
    assert message in drained["msg"]
    assert "restart" not in {move["method"] for move in drained["moves"]}
    assert not any("does not leave by migrate any more" in line for line in server.progress)


TERMINATES = "unable to create new content in namespace shop because it is being terminated"


def terminate(server: KubeVirt, until: int = -1) -> list[Request]:
    """The namespace is being deleted: it takes nothing new, and w1-0 ends later than the others would leave. Returns
    the requests that are refused."""
    refusals: list[Request] = []
    causes = {"causes": [{"reason": "NamespaceTerminating"}]}

    def refuse(request: Request) -> Reply:
        refusals.append(request)
        if len(refusals) == until:
            halt(server, "w1-0")
            del server.objects["/api/v1/namespaces/shop/pods/virt-launcher-w1-0-x1"]
        return status(403, message=TERMINATES, details=causes)

    server.add_fault("POST", MIGRATIONS, refuse, having="'vmiName': 'w1-0'", dry_runs=True)
    return refusals


def test_vm_whose_namespace_is_being_deleted_is_waited_for() -> None:
    server = three_zones()
    refusals = terminate(server, until=5)
    drained = maintain(server, "drained", "w1")
    assert not drained.get("failed"), drained["msg"]
    assert len(refusals) == 5
    assert [node["state"] for node in drained["nodes"]] == ["drained"]


def test_drain_that_is_over_names_the_namespace_that_is_being_deleted() -> None:
    server = three_zones()
    terminate(server)
    drained = maintain(server, "drained", "w1", run_timeout=60, move_timeout=50)
    assert TERMINATES in drained["msg"]


def test_drain_goes_on_beside_an_instance_with_full_annotations() -> None:
    """A killed run has left the recreation of its VMI in the journal."""
    server = three_zones()
    server.add_fault("PATCH", "virtualmachineinstances/w1-0", 422)
    vmi = server.objects[f"{VMIS}/w1-0"]["metadata"]
    move = MoveRecord(
        Ref("VirtualMachineInstance", "shop", "w1-0"),
        vmi["uid"],
        Ref("VirtualMachine", "shop", "w1-0"),
        Method.RECREATE,
        "w1",
        1,
        3.0,
    )
    journal = RunJournal("r0123456789", "0123456789abcdef", 12.5).begin(move, [vmi["uid"]])
    lease = server.objects[f"{checks.LEASE}/virt-placement"]["metadata"]
    lease["annotations"] = {"placement.virt/journal": journals.write(journal)}

    drained = maintain(server, "drained", "w1")
    assert not drained.get("failed"), drained["msg"]
    assert not [
        name
        for name, x in server.of("virtualmachineinstances").items()
        if x["status"]["nodeName"] == "w1"
    ]


def drained_nodes(*names: str) -> KubeVirt:
    """A server with these nodes drained."""
    server = three_zones()
    drained = maintain(server, "drained", "", nodes=[*names], max_nodes=len(names))
    assert not drained.get("failed"), drained["msg"]
    return server


TWO: t.Final = {"nodes": ["w1", "w2"], "max_nodes": 2}


def test_cordon_of_the_second_node_that_is_refused_says_what_was_done() -> None:
    server = three_zones()
    server.add_fault("PATCH", "nodes/w2", 403)
    drained = maintain(server, "drained", "", **TWO)
    assert "cannot patch nodes w2: 403" in drained["msg"]
    assert drained["msg"].endswith(
        ". The cordon of w1 stays: remove the cause and run again, or undo it with state in_service and no change_id"
    )
    assert [node["state"] for node in drained["nodes"]] == ["draining", "in_service"]
    assert drained["changed"]


def test_refusal_names_the_nodes_that_an_earlier_run_has_cordoned() -> None:
    server = three_zones()
    server.add_fault("PATCH", "nodes/w2", 403)
    maintain(server, "drained", "", **TWO)
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    server._change(f"{VMIS}/w1-3", "status", {"conditions": [condition]})

    drained = maintain(server, "drained", "", **TWO)
    assert [error["object"] for error in drained["errors"]] == ["not_migratable"]
    assert "No node was cordoned" not in drained["msg"]
    assert "The cordon of w1 stays: remove the cause and run again" in drained["msg"]


def test_node_that_could_not_be_uncordoned_beside_one_that_was() -> None:
    server = drained_nodes("w1", "w2")
    server.add_fault("PATCH", "nodes/w2", 403)
    back = maintain(server, "in_service", "", **TWO)
    assert "cannot patch nodes w2: 403" in back["msg"]
    assert [write["name"] for write in back["writes"]] == ["w1"]
    assert back["progress"] == ["node w1: in service"]
    assert [node["state"] for node in back["nodes"]] == ["in_service", "drained"]
    assert back["changed"]


def test_boot_id_that_could_not_be_written_beside_one_that_was() -> None:
    server = drained_nodes("w1", "w2")
    server.add_fault("PATCH", "nodes/w2", 403)
    for name in ("w1", "w2"):
        server.reboot(name)
    drained = maintain(server, "drained", "", **TWO)
    assert "cannot patch nodes w2: 403" in drained["msg"]
    assert ". The cordon of w1, w2 stays: remove the cause and run again, or " in drained["msg"]
    assert [write["name"] for write in drained["writes"]] == ["w1"]
    assert drained["progress"] == ["node w1: drained before, and rebooted since"]
    assert [node["boot_id"] for node in drained["nodes"]] == ["boot-w1+", "boot-w2+"]
    assert drained["changed"]


NO_NODE = (
    "nodes: there is no node {} (if it was in maintenance and another client deleted it, run again with state"
    " in_service when it is back)"
)
GONE = "node w2 does not exist: its Node object was deleted in its maintenance, and none has registered since"


@pytest.mark.parametrize(
    ("name", "check", "named"),
    [
        ("w2", True, GONE),
        ("w2", False, f"not back within 1 s (run_timeout): waiting: {GONE}"),
        ("w5", True, NO_NODE.format("'w5'")),
        ("w5", False, NO_NODE.format("'w5'")),
        ("w1-", True, NO_NODE.format("'w1-'; did you mean 'w1'?")),
        ("w1-", False, NO_NODE.format("'w1-'; did you mean 'w1'?")),
    ],
)
def test_nodes_are_put_in_service_beside_one_that_does_not_exist(
    name: str, check: bool, named: str
) -> None:
    """w2 was drained. The Lease has forgotten w5, if it ever was."""
    server = drained_nodes("w1", "w2")
    del server.objects[at("w2")], server.objects[at("w5")]
    asked = {"nodes": ["w1", name], "run_timeout": 1}
    if check:
        back = run("node_maintenance", server, {**asked, "state": "in_service"}, check=True)
    else:
        back = maintain(server, "in_service", "", **asked)
    assert back["msg"] == named
    assert back["gone"] == (["w2"] if name == "w2" else [])
    if check or name != "w2":  # else an earlier step has written
        assert [write["name"] for write in back["writes"]] == ["w1"]
    assert [node["name"] for node in back["nodes"]] == ["w1"]
    assert back["changed"] and back["finished"]
    assert ("unschedulable" in server.objects[at("w1")]["spec"]) is check


@pytest.mark.parametrize("check", [True, False], ids=["check", "run"])
def test_nodes_that_may_not_be_read_are_not_taken_for_gone(check: bool) -> None:
    server = three_zones()
    server.add_fault("GET", "/api/v1/nodes", 403)
    back = run("node_maintenance", server, {"nodes": ["w1"], "state": "in_service"}, check=check)
    assert back["failed"]
    assert back["msg"].startswith("not permitted: cannot list nodes: grant this identity the Clus")
    assert "there is no node" not in back["msg"]


@pytest.mark.parametrize("state", ["in_service", "drained"])
def test_list_of_nodes_that_is_empty_is_no_missing_right(state: str) -> None:
    server = three_zones()
    for path in [path for path, x in server.objects.items() if x.get("kind") == "Node"]:
        del server.objects[path]
    back = run("node_maintenance", server, {"nodes": ["w1"], "state": state})
    assert back["failed"]
    assert back["msg"].startswith("not readable: cannot list nodes: the list is empty")
    assert {error["type"] for error in back["errors"]} == {"input"}


def test_node_that_does_not_exist_is_named_beside_one_that_is_not_back() -> None:
    server = drained_nodes("w1", "w2")
    del server.objects[at("w2")]
    server._change(at("w1"), "status", {"conditions": [{"type": "Ready", "status": "False"}]})
    back = maintain(server, "in_service", "", nodes=["w1", "w2", "w9"], run_timeout=1)
    assert "not back within 1 s (run_timeout): waiting: node w1 is not Ready" in back["msg"]
    assert "waiting: node w2 does not exist: its Node object was deleted" in back["msg"]
    assert "there is no node 'w9'" in back["msg"]
    assert back["gone"] == ["w2"]


def test_what_was_undone_is_returned_beside_what_could_not_be() -> None:
    server = drained_nodes("w1")
    for name in ("w3-0", "w3-1"):
        vmi = server.objects[f"{VMIS}/{name}"]
        vmi["metadata"]["labels"]["kubevirt.io/nodeName"] = "w1"
        server._change(f"{VMIS}/{name}", "status", {"evacuationNodeName": "w1"})
    server.add_fault("PUT", "w3-1/evacuate/cancel", 403)
    back = maintain(server, "in_service", "w1")
    assert "shop/w3-1 could not be undone" in back["msg"]
    assert back["progress"] == ["node w1: evacuation of VMI shop/w3-0 canceled"]
    assert back["changed"]


@pytest.mark.parametrize("fails", [("PUT", "evacuate/cancel"), ("DELETE", "w1-0-drain")])
def test_undo_waits_for_an_api_server_that_fails_at_first(fails: tuple[str, str]) -> None:
    server = drained_nodes("w1")
    server.add_fault(*fails, 503)
    vmi = server.objects[f"{VMIS}/w1-0"]
    vmi["metadata"]["labels"]["kubevirt.io/nodeName"] = "w1"
    server._change(f"{VMIS}/w1-0", "status", {"nodeName": "w1", "evacuationNodeName": "w1"})
    path = f"{VMIS.replace('instances', 'instancemigrations')}/w1-0-drain"
    server.objects[path] = {
        "metadata": {
            "name": "w1-0-drain",
            "namespace": "shop",
            "uid": "m",
            "labels": {"placement.virt/run": "r1"},
        },
        "spec": {"vmiName": "w1-0"},
    }
    impatient(server, answers_from=3)
    back = maintain(server, "in_service", "w1")
    assert not back.get("failed"), back["msg"]
    assert path not in server.objects
    assert "unschedulable" not in server.objects[at("w1")]["spec"]


def impatient(server: KubeVirt, *, answers_from: int = 1000) -> list[ApiClient]:
    """The clients of the steps to come, which repeat no request. The server refuses nothing from this one
    on."""
    connect, steps = server.client, list[ApiClient]()

    def client() -> ApiClient:
        steps.append(connect())
        steps[-1].policy = RetryPolicy(patience=0, first_contact=0)
        if len(steps) >= answers_from:
            server.faults.clear()
        return steps[-1]

    server.client = client  # type: ignore[method-assign]
    return steps


def test_in_service_waits_for_an_api_server_that_fails_at_first() -> None:
    server = drained_nodes("w1")
    server.add_fault("GET", "/api/v1/nodes", 503)
    steps = impatient(server, answers_from=2)
    back = maintain(server, "in_service", "w1")
    assert not back.get("failed"), back["msg"]
    assert back["progress"] == ["node w1: in service"]
    assert len(steps) == 2


def test_drain_waits_for_an_api_server_that_does_not_answer_for_some_steps() -> None:
    begun_with: list[int] = []

    def go_down(_request: Request) -> None:
        begun_with.append(len(steps))
        for verb in ("GET", "POST", "PATCH"):
            server.add_fault(verb, "", 503)

    server = three_zones()
    server.add_fault("POST", MIGRATIONS, go_down, 1, late=True)
    steps = impatient(server, answers_from=6)
    drained = maintain(server, "drained", "w1", run_timeout=1000)
    assert not drained.get("failed"), drained["msg"]
    assert [node["state"] for node in drained["nodes"]] == ["drained"]
    assert begun_with and begun_with[0] < 6 <= len(steps)


def test_in_service_without_an_answer_ends_at_run_timeout() -> None:
    server = drained_nodes("w1")
    server.add_fault("GET", "/api/v1/nodes", 503)
    impatient(server)
    back = maintain(server, "in_service", "w1", run_timeout=1)
    assert "not back within 1 s (run_timeout): waiting for the API server: " in back["msg"]


def test_rights_are_checked_once_the_api_server_answers() -> None:
    server = drained_nodes("w1")
    server.add_fault("GET", "/api/v1/nodes", 503)
    steps = impatient(server, answers_from=2)
    maintain(server, "in_service", "w1")
    assert steps[-1].counts.by_verb["create"] == 2, "an access review and an Event"


@pytest.mark.parametrize("there", [True, False], ids=["marked", "gone"])
def test_vm_that_stays_marked_for_evacuation_is_named(there: bool) -> None:
    """An older virt-api does not serve the subresource."""
    server = drained_nodes("w1")
    path = f"{VMIS}/w3-0"
    server.objects[path]["metadata"]["labels"]["kubevirt.io/nodeName"] = "w1"
    server._change(path, "status", {"evacuationNodeName": "w1"})
    server.add_fault("PUT", "evacuate/cancel", 404)
    if not there:
        server.add_fault("GET", "virtualmachineinstances/w3-0", 404)
    back = maintain(server, "in_service", "w1")
    assert not back.get("failed"), back["msg"]
    named = [
        line for line in back["progress"] if "VMI shop/w3-0 stays marked for evacuation" in line
    ]
    assert len(named) == there


def test_node_that_was_replaced_in_its_maintenance_is_named_before_another_zone_is_drained() -> (
    None
):
    """The new Node object has no mark, and is not Ready yet."""
    server = drained_nodes("w1")
    node = copy.deepcopy(server.objects[at("w1")])
    node["metadata"] |= {"annotations": {}, "uid": "new"}
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    server.objects[at("w1")] = {**node, "spec": {}}
    asked = {"nodes": ["w3"], "state": "drained"}
    findings = run("node_maintenance", server, asked, check=True)["findings"]
    (finding,) = [x for x in findings if x["name"] == "other_zone_not_ready"]
    assert finding["objects"] == ["Node w1"]


def test_node_that_is_not_ready_after_its_zone_was_done_is_a_warning_in_the_next_zone() -> None:
    server = drained_nodes("w1")
    maintain(server, "in_service", "w1")
    server._change(at("w1"), "status", {"conditions": [{"type": "Ready", "status": "False"}]})
    begins = run("node_maintenance", server, {"nodes": ["w3"], "state": "drained"})
    assert not begins.get("failed"), begins["msg"]
    (warning,) = [line for line in begins["progress"] if line.startswith("warning: ")]
    assert warning == (
        "warning: other_zone_not_ready: Nodes of other zones are not Ready: w1 (a). With node w3, nodes of more than"
        " one zone would be out of service. Bring them back first, unless they are down for good."
    )


def test_other_nodes_are_named_when_one_is_deleted_in_its_maintenance() -> None:
    class Loses(KubeVirt):
        def _proceed(self) -> None:
            super()._proceed()
            if self.objects[at("w1")]["spec"].get("unschedulable"):
                self.objects.pop(at("w2"), None)

    drained = maintain(Loses(three_zones().objects), "drained", "", **TWO)
    assert "Node w2: was deleted during its maintenance" in drained["msg"]
    assert "The cordon of w1 stays: remove the cause and run again" in drained["msg"]


LEASE = f"{checks.LEASE}/virt-placement"
STAYS = ". The cordon of w1 stays: remove the cause and run again, or undo it with state in_service and no change_id"


class FailsMidway(KubeVirt):
    """As `fault` says, once the drain has made its first migration."""

    fault, has_begun = "", False

    def serve(self, request: Request) -> Reply:
        method, path = request.method, request.path
        if self.has_begun and self.fault == "no answer":
            return status(503, message="no etcd")
        if self.has_begun and self.fault == "refused connection":
            raise Unreachable(ApiRequest(method, path), "connection refused")
        if method == "DELETE" and self.fault == "no cancellation":
            return answer(self.objects[path])
        reply = super().serve(request)
        begins = path.endswith("migrations") and method == "POST" and not request.dry_run
        if begins and not self.has_begun:
            self.has_begun = True
            if self.fault == "another run":
                lease = copy.deepcopy(self.objects[LEASE])
                lease["spec"] |= {"holderIdentity": "r9", "leaseTransitions": 99}
                self.objects[LEASE] = lease
        return reply

    def _proceed(self) -> None:
        """No migration ends; where the fault is no cancellation, that of w1-0 alone; all where there is none."""
        if not self.fault:
            super()._proceed()
        if self.fault == "no cancellation":
            stuck = {path for path in self.made if self.objects[path]["spec"]["vmiName"] == "w1-0"}
            self.made = {path: made for path, made in self.made.items() if path not in stuck}
            super()._proceed()


@pytest.mark.parametrize(
    ("fault", "message", "timeout"),
    [
        ("another run", "is held by r9 now", 3600),
        ("no answer", "no answer for 70 s: ", 3600),
        ("no answer", "not done within 60 s (run_timeout): ", 60),
        ("no cancellation", "1 canceled migration did not end: ", 3600),
        ("no end", "not done within 60 s (run_timeout). ", 60),
    ],
)
def test_drain_that_fails_midway_names_the_nodes_that_stay_cordoned(
    fault: str, message: str, timeout: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "STEP_SECONDS", 0.1)
    monkeypatch.setattr(step, "PATIENCE", 70.0)
    server = FailsMidway(three_zones().objects)
    server.fault = fault
    impatient(server)
    drained = maintain(server, "drained", "w1", run_timeout=timeout, move_timeout=30)
    assert message in drained["msg"]
    assert drained["msg"].endswith(STAYS)
    assert drained["msg"].count(STAYS) == 1


@pytest.mark.parametrize("comes_back", [False, True], ids=["stays away", "comes back"])
def test_server_that_is_away_is_named_once_with_since_when_and_what_goes_on(
    comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module runs where no line is read before a step has ended, as on another host."""
    monkeypatch.setattr(watch, "STEP_SECONDS", 0.05)  # also the longest patience with a request
    monkeypatch.setattr(transport, "NOTED_AFTER", 0.0)
    monkeypatch.setattr(step, "PATIENCE", 70.0)
    server = FailsMidway(three_zones().objects)
    server.fault = "refused connection"
    connect, steps = server.client, list[ApiClient]()

    def client() -> ApiClient:
        steps.append(connect())
        if server.has_begun and comes_back and len(steps) > 3:
            server.fault = ""
        return steps[-1]

    monkeypatch.setattr(server, "client", client)
    drained = maintain(server, "drained", "w1")

    about = [line for line in server.progress if "the API server" in line]
    assert re.match(
        r"no answer from the API server since \d\d:\d\d:\d\d \S+: .*connection refused.*; trying again$",
        about[0],
    )
    if comes_back:
        assert [line.partition(", which was away")[0] for line in about[1:]] == ["the API server"]
        assert not drained.get("failed"), drained["msg"]
        return
    assert len(about) == 1
    message = drained["msg"]
    assert message.startswith("no answer for 70 s: ")
    assert "raise timeout" not in message
    assert "; when it answers, launch the same job again: it continues" in message
    assert "; the next maintenance continues the moves in flight: " in message
    assert "shop/w1-0 (migrate)" in message
    goes_on = {entry["reason"].partition(", ")[0] for entry in drained["skipped_instances"]}
    assert "goes on without this task" in goes_on
    assert goes_on <= {"goes on without this task", "may have begun"}


def test_drain_that_cannot_begin_names_the_nodes_that_an_earlier_run_has_cordoned() -> None:
    server = three_zones()
    begun(server)
    server.objects[at("w3")]["metadata"]["annotations"] = {MARK: "of another run"}
    drained = maintain(server, "drained", "w1")
    assert "would be in maintenance in 2 topology domains" in drained["msg"]
    assert drained["msg"].endswith(STAYS)


def test_undo_waits_until_the_run_that_drains_has_ended() -> None:
    server = three_zones()
    begun(server)
    first = run("node_maintenance", server, {"nodes": ["w1"], "state": "in_service"})
    (waiting,) = first["progress"]
    assert waiting.startswith("waiting up to 20 s to see whether run ") and not first["changed"]
    assert server.objects[at("w1")]["spec"]["unschedulable"] is True

    back = maintain(server, "in_service", "w1")
    assert not back.get("failed"), back["msg"]
    assert server.objects[LEASE]["metadata"]["annotations"]["placement.virt/journal"] == ""


def with_renewals() -> KubeVirt:
    """The run that has the Lease renews it."""
    server = three_zones()
    looks = itertools.count()

    def renew(_request: Request) -> None:
        lease = copy.deepcopy(server.objects[LEASE])
        if lease["spec"].get("holderIdentity"):
            lease["spec"]["renewTime"] = f"2026-11-22T19:00:00.{next(looks):06}Z"
        server.objects[LEASE] = lease

    server.add_fault("GET", LEASE, renew)
    return server


def test_drain_that_waits_for_another_run_names_its_nodes() -> None:
    server = with_renewals()
    server.objects[LEASE]["spec"] |= {"holderIdentity": "r9", "leaseTransitions": 99}
    before = len(server.writes)
    drained = maintain(server, "drained", "", **TWO)
    assert "is held by run r9, which is running" in drained["msg"]
    assert drained["msg"].endswith(": wait until it ends. Not begun: w1, w2")
    assert len(server.writes) == before


def test_drain_whose_time_is_over_before_it_has_the_lease_names_its_nodes() -> None:
    server = three_zones()
    server.objects[LEASE]["spec"] |= {"holderIdentity": "r9", "leaseTransitions": 99}
    drained = maintain(server, "drained", "", **TWO, run_timeout=10)
    assert drained["msg"].startswith("not done within 10 s (run_timeout): waiting up to 20 s")
    assert drained["msg"].endswith(". Not begun: w1, w2")


def test_node_of_a_drain_that_is_running_is_not_put_in_service() -> None:
    server = with_renewals()
    begun(server)
    before = len(server.writes)
    back = maintain(server, "in_service", "w1")
    assert "moves instances away from w1 and is running: end it first" in back["msg"]
    assert len(server.writes) == before
    assert server.objects[at("w1")]["spec"]["unschedulable"] is True


def migration(server: KubeVirt, vm: str, phase: str, **metadata: t.Any) -> str:
    """A migration of the VM that is there already; its name."""
    name = f"of-{vm}"
    path = f"{VMIS.replace('instances', 'instancemigrations')}/{name}"
    server.objects[path] = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name, "namespace": "shop", "uid": name, **metadata},
        "spec": {"vmiName": vm},
        "status": {"phase": phase},
    }
    return name


@pytest.mark.parametrize("foreign", [False, True], ids=["own-cordon", "foreign-cordon"])
def test_undo_deletes_the_pending_migrations_of_the_drain_alone(foreign: bool) -> None:
    server = three_zones()
    if foreign:
        server.objects[at("w1")]["spec"]["unschedulable"] = True
    maintain(server, "cordoned", "w1")
    ours = {"labels": {"placement.virt/run": "r1"}}
    evacuation = {"annotations": {"kubevirt.io/evacuationMigration": "w1"}}
    copying = migration(server, "w1-0", "Running", **ours)
    of_others = migration(server, "w1-1", "Pending")
    migration(server, "w1-2", "Pending", **ours)
    evacuates = migration(server, "w1-3", "Scheduling", **evacuation)
    back = maintain(server, "in_service", "w1")
    assert not back.get("failed"), back["msg"]
    kept = {copying, of_others, *([evacuates] if foreign else [])}
    assert set(server.of("virtualmachineinstancemigrations")) == kept


def meddle(server: KubeVirt, text: str, *, late: bool, **annotations: str) -> None:
    """Another client writes these annotations and no cordon at each write of w1 that has the text."""

    def write(_request: Request) -> None:
        server.objects[at("w1")]["metadata"]["annotations"] = dict(annotations)
        server.objects[at("w1")]["spec"] = {}

    server.add_fault("PATCH", at("w1"), write, having=text, late=late)


def test_node_that_is_put_into_maintenance_again_is_named() -> None:
    server = three_zones()
    maintain(server, "cordoned", "w1")
    meddle(server, "remove", late=True, **server.objects[at("w1")]["metadata"]["annotations"])
    back = maintain(server, "in_service", "w1")
    assert back["msg"] == "Node w1: was put into maintenance again"


def test_node_that_another_run_took_meanwhile_stays_cordoned() -> None:
    server = three_zones()
    maintain(server, "cordoned", "w1")
    there = server.objects[at("w1")]
    text = there["metadata"]["annotations"][MAINTENANCE]
    theirs = json.dumps({**json.loads(text), "run": "other", "since": "2026-11-22T20:00:00Z"})
    meddle(server, "remove", late=False, **{MAINTENANCE: theirs})
    back = maintain(server, "in_service", "w1")
    assert back["msg"] == "Node w1: was put into maintenance again"
    assert there["metadata"]["annotations"] == {MAINTENANCE: theirs}


def test_node_that_is_put_in_service_when_its_drain_ends_is_named() -> None:
    server = three_zones()
    meddle(server, "drained", late=False)
    drained = maintain(server, "drained", "w1")
    assert drained["msg"].startswith("Node w1: was put in service meanwhile")
    assert [node["state"] for node in drained["nodes"]] == ["in_service"]


@pytest.mark.parametrize("second", ["w2", "w3"], ids=["same-zone", "other-zone"])
def test_check_mode_counts_a_node_as_in_service_after_its_service(second: str) -> None:
    """An interrupted maintenance: w1 is drained, and the job in check mode services it, then the second node."""
    server = three_zones()
    maintain(server, "drained", "w1")
    asked = {"nodes": [second], "state": "drained"}
    limited = run("node_maintenance", server, asked, check=True)
    assert "at the same time" in limited["msg"]

    checked = run("node_maintenance", server, {**asked, "assume_in_service": ["w1"]}, check=True)
    assert not checked.get("failed"), checked["msg"]
    assert {move["from_node"] for move in checked["moves"]} == {second}
    assert any("w1" in line.partition("; available: ")[2] for line in checked["progress"])


def test_nodes_are_assumed_in_service_in_check_mode_only() -> None:
    server = three_zones()
    asked = {"nodes": ["w2"], "state": "drained", "assume_in_service": ["w1"]}
    drained = run("node_maintenance", server, asked)
    assert drained["msg"].startswith("assume_in_service: is for check mode only")


@pytest.mark.parametrize("state", ["drained", "in_service"])
@pytest.mark.parametrize("check", [False, True])
def test_outcome_says_what_became_of_vms_that_a_maintenance_stops(state: str, check: bool) -> None:
    """What a drain has stopped for good is started by the user, once the node is in service: the second one is not back
    yet. In check mode it still has to be, and the mark has what would be started."""
    names = {"kind": "VirtualMachine", "namespace": "shop"}
    batch, night, old, away = ({**names, "name": x, "run_strategy": "Always"} for x in "abcd")
    nodes: list[dict[str, t.Any]] = [
        {"since": None, "stopped": [batch], "starts_again": [night]},
        {
            "since": "2026-11-29T10:00:00Z",
            "stopped": [away],
            "starts_again": [old] if check else [],
        },
    ]
    off = "shop/a (run strategy Always before)" if state == "in_service" else ""
    off += ", shop/d (run strategy Always before)" if off and check else ""
    unknown = Finding("place_unknown", "warning", "It is unknown.", "Set the label.")
    made = entries(state, nodes, [old], [unknown], [], check=check)["outcome"]
    texts = {x["code"]: f"{x['text']}: {', '.join(x['objects'])}" for x in made["done"]}
    assert texts == {
        "started": f"{'would be ' if check else ''}started again: shop/c",
        "stopped": "stopped until the node is in service: shop/b",
        **({"not_started": f"stopped, and not started again: {off}"} if off else {}),
    }
    steps = ["before you launch it: It is unknown. Set the label."] if check else []
    steps += ["virtctl start a -n shop"] if off and not check else []
    assert [x["text"] for x in made["next"]] == steps
