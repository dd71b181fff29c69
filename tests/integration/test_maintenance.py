# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook maintenance: nodes of two zones are drained, rebooted and put in service, and VMs return home."""

from __future__ import annotations

import json
import sys
import typing as t
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml

from demos.stage import Stage
from sandbox import Sandbox, drain, objects
from tests.controller import PROJECT
from tests.maintenance import MARK
from tests.shop import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "serviced"
HOME = "example.com/home"
VMS = {"a1": "w1", "a2": "w1", "c1": "w3"}
Object = dict[str, t.Any]


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    """VMs that prefer the nodes on which they run."""
    with Sandbox.start("six") as sandbox:
        sandbox.api.create(sandbox.api.path("Namespace"), {"metadata": {"name": NAMESPACE}})
        stage = Stage(sandbox, NAMESPACE, quiet=True)
        for node in ("w1", "w3"):
            labels = {"metadata": {"labels": {HOME: node}}}
            sandbox.api.patch(f"/api/v1/nodes/{node}", labels)
        for name in VMS:
            sandbox.api.apply(objects.virtual_machine(name, NAMESPACE, run_strategy="Halted"))
        rules = [
            {
                "name": f"home-{name}",
                "workloads": [name],
                "run_on": {HOME: node},
                "preferred": True,
                "weight": 100,
            }
            for name, node in VMS.items()
        ]
        wanted = {"placement_apply_namespace": NAMESPACE, "placement_apply_rules": rules}
        result = stage.play("apply", wanted, identity="mover")
        assert result.rc == 0, result.stdout
        for name, node in VMS.items():
            start_on(stage, name, node)
        assert places(stage) == VMS
        yield stage


def start_on(stage: Stage, name: str, node: str) -> None:
    """A VM that is stopped, or a new one."""
    api = stage.sandbox.api
    others = [f"w{n}" for n in range(1, 7) if f"w{n}" != node]
    path = api.path("VirtualMachine", NAMESPACE, name)
    if api.find(path) is None:
        api.apply(objects.virtual_machine(name, NAMESPACE, run_strategy="Halted"))
    running = api.path("VirtualMachineInstance", NAMESPACE, name)
    with drain.cordoned(stage.sandbox, others):
        api.patch(path, {"spec": {"runStrategy": "Always"}})
        api.wait(lambda vmi: vmi["status"]["phase"] == "Running", running, PATIENCE)


@pytest.fixture
def reboot(stage: Stage, tmp_path: Path) -> Path:
    """The user's tasks: they reboot the node and note that nothing else is on it."""
    command = [sys.executable, "-m", "sandbox", "reboot", "--dir", str(stage.sandbox.directory)]
    tasks = [
        {
            "name": "Reboot the node",
            "ansible.builtin.command": {
                "argv": [*command, "{{ placement_maintenance_node }}"],
                "chdir": str(CHECKOUT),
            },
            "changed_when": True,
        }
    ]
    path = tmp_path / "reboot.yml"
    path.write_text(yaml.safe_dump(tasks))
    return path


def vmis(stage: Stage) -> dict[str, Object]:
    found = stage.sandbox.api.list(stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE))
    return {vmi["metadata"]["name"]: vmi for vmi in found}


def places(stage: Stage) -> dict[str, str]:
    return {name: vmi["status"].get("nodeName", "") for name, vmi in vmis(stage).items()}


def uids(stage: Stage) -> dict[str, str]:
    return {name: vmi["metadata"]["uid"] for name, vmi in vmis(stage).items()}


def node(stage: Stage, name: str) -> Object:
    return stage.sandbox.api.get(f"/api/v1/nodes/{name}")


def boot(stage: Stage, name: str) -> str:
    return str(node(stage, name)["status"]["nodeInfo"]["bootID"])


def in_service(stage: Stage, name: str) -> bool:
    seen = node(stage, name)
    marked = MARK in (seen["metadata"].get("annotations") or {})
    return not seen["spec"].get("unschedulable") and not marked


def test_check_mode_shows_the_moves_and_writes_nothing(stage: Stage, reboot: Path) -> None:
    wanted = {"placement_maintenance_nodes": ["w1"], "placement_maintenance_tasks": str(reboot)}
    mark = stage.sandbox.audit.mark()
    before = boot(stage, "w1")

    result = stage.play(str(PROJECT / "maintenance.yml"), wanted, identity="maintainer", check=True)

    assert result.rc == 0, result.stdout
    assert "would migrate VirtualMachine" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
    assert boot(stage, "w1") == before


def test_check_mode_of_an_interrupted_maintenance_passes(stage: Stage) -> None:
    enter = {"placement_maintenance_nodes": ["w3"], "placement_maintenance_state": "drained"}
    result = stage.play("maintenance", enter, identity="maintainer")
    assert result.rc == 0, result.stdout

    both = {"placement_maintenance_nodes": ["w3", "w4"]}
    checked = stage.play("maintenance", both, identity="maintainer", check=True)

    enter["placement_maintenance_state"] = "in_service"
    undone = stage.play("maintenance", enter, identity="maintainer-mover")
    assert undone.rc == 0, undone.stdout
    assert places(stage) == VMS
    assert checked.rc == 0, checked.stdout


def closed_window() -> dict[str, str]:
    now, hour = datetime.now(timezone.utc), timedelta(hours=1)
    return {"start": f"{now + hour:%H:%M}", "end": f"{now + 2 * hour:%H:%M}"}


def test_nothing_is_done_outside_of_the_window(stage: Stage, tmp_path: Path) -> None:
    """No work, no gate, and no move."""
    work = tmp_path / "work.yml"
    work.write_text(yaml.safe_dump([{"ansible.builtin.fail": {"msg": "the node runs VMs"}}]))
    wanted = {
        "placement_maintenance_nodes": ["w1", "w3"],
        "placement_maintenance_window": closed_window(),
        "placement_maintenance_change_id": "CHG-8",
        "placement_maintenance_tasks": str(work),
        "placement_maintenance_gate_tasks": str(work),
        "placement_maintenance_reboot_expected": True,
    }
    mark = stage.sandbox.audit.mark()

    result = stage.play("maintenance", wanted, identity="maintainer-mover")

    assert result.rc == 0, result.stdout
    assert "w1: not begun, outside of the window from" in result.stdout
    assert "w3: not begun, outside of the window from" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


@pytest.mark.usefixtures("own_process")
@pytest.mark.tour
def test_nodes_of_two_zones_are_rebooted_and_vms_return_home(
    stage: Stage, reboot: Path, tmp_path: Path
) -> None:
    """A survey gives text. The job is canceled when w3 is cordoned, and launched again.

    The canceled job never reboots w3: its tasks wait until the job has ended."""
    ended = tmp_path / "ended"
    waiting = tmp_path / "waiting.yml"
    wait = {
        "name": "Wait to be canceled",
        "ansible.builtin.wait_for": {"path": str(ended), "timeout": 120},
        "when": "placement_maintenance_node == 'w3'",
    }
    waiting.write_text(yaml.safe_dump([wait, *yaml.safe_load(reboot.read_text())]))
    gate = tmp_path / "gate.yml"
    gate.write_text(yaml.safe_dump([{"ansible.builtin.debug": {"msg": "the gate is open"}}]))
    wanted = {
        "placement_maintenance_nodes": "[w1, w3]",
        "placement_maintenance_reason": "firmware",
        "placement_maintenance_change_id": "CHG0042",
        "placement_maintenance_tasks": str(reboot),
        "placement_maintenance_gate_tasks": str(gate),
        "placement_maintenance_reboot_expected": "true",
        "placement_maintenance_topology": "",
    }
    boots, before = {name: boot(stage, name) for name in ("w1", "w3")}, uids(stage)

    def second_zone_is_begun() -> bool:
        return bool(node(stage, "w3")["spec"].get("unschedulable"))

    canceled = stage.play(
        "maintenance",
        {**wanted, "placement_maintenance_tasks": str(waiting)},
        identity="maintainer-mover",
        cancel=second_zone_is_begun,
    )
    ended.touch()
    assert canceled.rc != 0, canceled.stdout
    assert canceled.stdout.count("the gate is open") == 1
    assert in_service(stage, "w1") and not in_service(stage, "w3")
    assert boot(stage, "w3") == boots["w3"]
    first = boot(stage, "w1")
    assert first != boots["w1"]
    result = stage.play("maintenance", wanted, identity="maintainer-mover")

    assert result.rc == 0, result.stdout
    assert boot(stage, "w1") == first, "a node that was serviced is not serviced again"
    assert boot(stage, "w3") != boots["w3"]
    assert in_service(stage, "w1") and in_service(stage, "w3")
    assert uids(stage) == before
    assert places(stage) == VMS
    (stats,) = [
        event["event_data"]["artifact_data"]
        for event in result.events
        if event["event"] == "playbook_on_stats"
    ]
    assert stats["placement_maintenance"] == {"localhost": {"w1": "skipped", "w3": "serviced"}}
    assert stats["placement_summary"]["localhost"]["violated"] == 0
    assert "Verification passed" in " ".join(result.printed("Return home and verify"))
    mark = stage.sandbox.audit.mark()
    again = stage.play("maintenance", wanted, identity="maintainer-mover")
    assert (again.rc, again.changed) == (0, 0), again.stdout
    assert again.stdout.count("the gate is open") == 1
    outside = {**wanted, "placement_maintenance_window": closed_window()}
    closed = stage.play("maintenance", outside, identity="maintainer-mover")
    assert (closed.rc, closed.changed) == (0, 0), closed.stdout
    assert "outside of the window from" in closed.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


def test_plan_of_two_zones_is_approved_and_carried_out(
    stage: Stage, reboot: Path, tmp_path: Path
) -> None:
    """VMs of w1 may go to w3, and leave it again. Another VM on w3 makes the plan stale before w1 is cordoned."""
    path = tmp_path / "plan.json"
    tasks = {
        "placement_maintenance_plan_file": str(path),
        "placement_maintenance_tasks": str(reboot),
        "placement_maintenance_change_id": "CHG-plan",
    }
    wanted = {**tasks, "placement_maintenance_nodes": ["w1", "w3"]}
    checked = stage.play("maintenance", wanted, identity="maintainer", check=True)
    assert checked.rc == 0, checked.stdout
    plan = json.loads(path.read_text())
    assert f"plan: {path} (checksum {plan['checksum'][:12]})" in checked.stdout
    leaving = {(move["name"], move["from_node"], move["method"]) for move in plan["moves"]}
    assert leaving == {(name, node, "migrate") for name, node in VMS.items()}
    (stats,) = [
        event["event_data"]["artifact_data"]
        for event in checked.events
        if event["event"] == "playbook_on_stats"
    ]
    assert stats["placement_maintenance_plan"] == {"localhost": plan}

    start_on(stage, "late", "w3")
    mark = stage.sandbox.audit.mark()
    refused = stage.play("maintenance", tasks, identity="maintainer-mover")
    assert refused.rc != 0
    text = f"VirtualMachine {NAMESPACE}/late on node w3: it is not among the moves of the plan"
    assert text in refused.stdout
    others = {**tasks, "placement_maintenance_nodes": ["w1"]}
    fewer = stage.play("maintenance", others, identity="maintainer-mover")
    assert "without these nodes of the plan: w3" in fewer.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
    stage.sandbox.api.delete(stage.sandbox.api.path("VirtualMachine", NAMESPACE, "late"))
    running = stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE, "late")
    stage.sandbox.api.wait_gone(running)

    before, boots = uids(stage), {name: boot(stage, name) for name in ("w1", "w3")}
    published = {**tasks, "placement_maintenance_plan": {"localhost": plan}}
    del published["placement_maintenance_plan_file"]
    done = stage.play("maintenance", published, identity="maintainer-mover")
    assert done.rc == 0, done.stdout
    assert "service w1, w3" in done.stdout and "by the plan of the job before" in done.stdout
    assert all(boot(stage, name) != boots[name] for name in boots)
    assert uids(stage) == before and places(stage) == VMS
    again = stage.play("maintenance", tasks, identity="maintainer-mover")
    assert (again.rc, again.changed) == (0, 0), again.stdout


def test_work_that_fails_ends_before_the_next_nodes(stage: Stage, tmp_path: Path) -> None:
    """The canary is serviced alone, although two nodes of a zone may be at a time."""
    work = tmp_path / "work.yml"
    work.write_text(yaml.safe_dump([{"ansible.builtin.fail": {"msg": "no firmware"}}]))
    wanted = {
        "placement_maintenance_nodes": ["w1", "w2", "w3"],
        "placement_maintenance_max_nodes": 2,
        "placement_maintenance_canary": 1,
        "placement_maintenance_tasks": str(work),
    }

    result = stage.play("maintenance", wanted, identity="maintainer-mover")

    assert result.rc != 0
    assert "no firmware" in result.stdout
    assert "The cordon of w1 stays: launch this job again to continue" in result.stdout
    names = ("w1", "w2", "w3")
    assert [in_service(stage, name) for name in names] == [False, True, True]
    undo = {"placement_maintenance_nodes": ["w1"], "placement_maintenance_state": "in_service"}
    result = stage.play("maintenance", undo, identity="maintainer-mover")
    assert result.rc == 0, result.stdout
    assert all(in_service(stage, name) for name in names)
    assert places(stage) == VMS


def test_node_that_is_uncordoned_before_its_tasks_is_named(stage: Stage, tmp_path: Path) -> None:
    """Both nodes are drained. Another client uncordons w2 while the tasks run for w1."""
    uncordoned = tmp_path / "uncordoned"
    work = tmp_path / "work.yml"
    wait = {"ansible.builtin.wait_for": {"path": str(uncordoned), "timeout": 120}}
    say = {"ansible.builtin.debug": {"msg": "at work on {{ placement_maintenance_node }}"}}
    work.write_text(yaml.safe_dump([wait, say]))
    selected = {"placement_maintenance_nodes": ["w1", "w2"], "placement_maintenance_max_nodes": 2}

    def uncordon() -> bool:
        text = (node(stage, "w2")["metadata"].get("annotations") or {}).get(MARK, "")
        if '"drained"' in text and not uncordoned.exists():
            drain.uncordon(stage.sandbox, "w2")
            uncordoned.touch()
        return False

    tasks = {**selected, "placement_maintenance_tasks": str(work)}
    result = stage.play("maintenance", tasks, identity="maintainer-mover", cancel=uncordon)

    assert result.rc != 0
    assert "Node w2 is not drained any more: another client has uncordoned it" in result.stdout
    assert "at work on w1" in result.stdout and "at work on w2" not in result.stdout
    undo = {**selected, "placement_maintenance_state": "in_service"}
    result = stage.play("maintenance", undo, identity="maintainer-mover")
    assert result.rc == 0, result.stdout
    assert "node w2: in service; another client had uncordoned it" in result.stdout
    assert in_service(stage, "w1") and in_service(stage, "w2")
    assert places(stage) == VMS


def test_gate_that_fails_ends_before_the_next_nodes(stage: Stage, tmp_path: Path) -> None:
    gate = tmp_path / "gate.yml"
    gate.write_text(yaml.safe_dump([{"ansible.builtin.fail": {"msg": "storage is degraded"}}]))
    wanted = {
        "placement_maintenance_nodes": ["w2", "w4"],
        "placement_maintenance_gate_tasks": str(gate),
        "placement_maintenance_return_home": "none",
    }
    mark = stage.sandbox.audit.mark()

    result = stage.play("maintenance", wanted, identity="maintainer")

    assert result.rc != 0
    assert "storage is degraded" in result.stdout
    patched = [x.name for x in stage.sandbox.audit.writes(since=mark) if x.resource == "nodes"]
    assert set(patched) == {"w2"}
    assert in_service(stage, "w2") and in_service(stage, "w4")


def test_moved_vm_that_violates_a_rule_fails_the_job_at_its_end(
    stage: Stage, tmp_path: Path
) -> None:
    """The tasks for the node write a rule that keeps the VM away from home, to a node that is cordoned."""
    rule = {"name": "moved", "workloads": ["a1"], "run_on": {HOME: "w3"}}
    task = {"namespace": NAMESPACE, "rule_set": "moved", "rules": [rule]}
    work = tmp_path / "work.yml"
    work.write_text(yaml.safe_dump([{"name": "Write a rule", "virt.placement.rules": task}]))
    selected = {"placement_maintenance_nodes": ["w1"], "placement_maintenance_tasks": str(work)}
    drain.cordon(stage.sandbox, "w3")
    try:
        result = stage.play("maintenance", selected, identity="maintainer-mover")
    finally:
        drain.uncordon(stage.sandbox, "w3")
        remove = {
            "placement_apply_namespace": NAMESPACE,
            "placement_apply_rule_set": "moved",
            "placement_apply_prune": True,
            "placement_apply_rules": [],
        }
        removed = stage.play("apply", remove, identity="mover")
        home = {
            "placement_rollout_namespaces": [NAMESPACE],
            "placement_rollout_scope": "preference_not_met",
        }
        returned = stage.play("rollout", home, identity="mover")

    assert removed.rc == 0, removed.stdout
    assert returned.rc == 0, returned.stdout
    assert result.rc != 0
    assert "Verification failed: 1 violated." in result.stdout
    assert f"VirtualMachineInstance {NAMESPACE}/a1 on" in result.stdout
    assert in_service(stage, "w1"), "the maintenance itself was done"
    assert places(stage) == VMS


@pytest.mark.usefixtures("own_process")
def test_enter_and_exit_maintenance_mode(stage: Stage) -> None:
    selected = {
        "placement_maintenance_topology": {"zone": "zone1"},
        "placement_maintenance_max_nodes": 2,
    }
    change = {"placement_maintenance_change_id": "CHG-7"}
    drained = {**selected, "placement_maintenance_state": "drained"}

    result = stage.play("maintenance", drained, identity="maintainer")
    assert result.rc == 0, result.stdout
    mark = stage.sandbox.audit.mark()
    result = stage.play("maintenance", drained, identity="maintainer")
    assert (result.rc, result.changed) == (0, 0), result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
    assert not in_service(stage, "w1") and not in_service(stage, "w2")
    assert set(places(stage).values()) & {"w1", "w2"} == set()
    stage.play_twice(
        "maintenance",
        {**selected, **change, "placement_maintenance_state": "in_service"},
        identity="maintainer-mover",
    )
    assert in_service(stage, "w1") and in_service(stage, "w2")
    assert places(stage) == VMS

    mark = stage.sandbox.audit.mark()
    result = stage.play("maintenance", {**selected, **change}, identity="maintainer-mover")
    assert (result.rc, result.changed) == (0, 0), result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "Give placement_maintenance_nodes, a list of names"),
        (
            {
                "placement_maintenance_nodes": ["w1"],
                "placement_maintenance_topology": {"zone": "zone1"},
            },
            "Give placement_maintenance_nodes, a list of names",
        ),
        (
            {"placement_maintenance_topology": {"zone": ["zone1", "zone9"]}},
            "no node has the label topology.kubernetes.io/zone=zone9",
        ),
        ({"placement_maintenance_nodes": ["w9"]}, "there is no node 'w9'"),
        (
            {
                "placement_maintenance_nodes": ["w1", "w2"],
                "placement_maintenance_state": "drained",
            },
            "max_nodes: allows 1 node in maintenance at the same time, and with this task it would be 2",
        ),
        (
            {"placement_maintenance_node": ["w9"], "placement_maintenance_nodez": []},
            "unknown variable",
        ),
    ],
)
def test_bad_selection_is_refused(stage: Stage, wanted: Object, message: str) -> None:
    mark = stage.sandbox.audit.mark()

    result = stage.play("maintenance", wanted, identity="maintainer-mover")

    assert result.rc != 0
    assert message in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
