# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role placement_maintenance does after a job that ended early, and outside of its window."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from tests.outputs import kept, what_matters
from tests.unit.action.plays import (
    PLAY,
    RunPlaybook,
    Task,
    doubled_collection,
    played,
    run_playbook,
    warm,
)

CHECKOUT = Path(__file__).resolve().parents[3]
DOUBLE = Path(__file__).with_name("maintenance_double.py")
SINCE = "2026-11-22T19:00:00Z"
GATE = "the gate is closed"
ERRORS = "lookup('virt.placement.role_options', 'placement_maintenance').errors"
CHECK = {
    "ansible.builtin.assert": {"that": f"{ERRORS} | length == 0", "fail_msg": f"{{{{ {ERRORS} }}}}"}
}
VERIFY = {"ansible.builtin.debug": {"msg": "{{ __placement_verify_options }}"}}
Node = dict[str, t.Any]


def node(name: str, zone: str, **values: t.Any) -> Node:
    return {
        "name": name,
        "zone": zone,
        "since": None,
        "ours": False,
        "unschedulable": False,
        "change_id": None,
        "ready": True,
        "moved_away": [vm(f"of-{name}")],
        "stopped": [],
        "serviced_at": None,
        **values,
    }


def vm(name: str) -> dict[str, str]:
    return {"kind": "VirtualMachine", "namespace": "shop", "name": name}


def done(name: str, zone: str) -> Node:
    return node(name, zone, change_id="CHG1")


def drained(name: str, zone: str, *, unschedulable: bool = True) -> Node:
    return node(name, zone, since=SINCE, ours=True, unschedulable=unschedulable)


class Played(t.NamedTuple):
    """A play that has ended: the tasks of modules that it ran, its output, and the nodes."""

    calls: list[str]
    output: str
    failed: bool
    nodes: dict[str, Node]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[RunPlaybook]:
    """ansible-playbook with a collection that has this role, and actions that play its modules."""
    home = tmp_path_factory.mktemp("maintenance")
    played_modules = (
        "capacity_info node_maintenance placement_info rollout rules_info topology_info"
    )
    collections = doubled_collection(home, DOUBLE, played_modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections))
        yield from warm(home)


class Folder(t.NamedTuple):
    """Where the play of a test is, and what runs it."""

    path: Path
    run: RunPlaybook

    def __truediv__(self, name: str) -> Path:
        return self.path / name


@pytest.fixture
def folder(tmp_path: Path, run: RunPlaybook) -> Folder:
    (tmp_path / "gate.yml").write_text(json.dumps([{"ansible.builtin.fail": {"msg": GATE}}]))
    return Folder(tmp_path, run)


def maintained(
    folder: Folder,
    nodes: list[Node],
    *uses: dict[str, t.Any],
    window_open: bool = True,
    room: t.Mapping[str, str] | None = None,
    gone: t.Sequence[str] = (),
    check: bool = False,
    verbosity: str = "-v",
    **task: t.Any,
) -> Played:
    """The role, once for each of `uses`, with these variables without their prefix; a window is open, or not. `task`:
    keywords of the task that includes it."""
    file = folder / "cluster.json"
    by_name = {node["name"]: node for node in nodes}
    begun = {"nodes": by_name, "window_open": window_open, "room": room or {}}
    begun |= {"calls": [], "quiet": [], "gone": list(gone)}
    file.write_text(json.dumps(begun))
    tasks: list[Task] = []
    now = datetime.datetime.now(datetime.timezone.utc)
    hours = (-3, 3) if window_open else (3, 6)
    ends = [f"{now + datetime.timedelta(hours=x):%H:%M}" for x in hours]
    for use in uses:
        variables = {"nodes": list(by_name), **use}
        if "window" in use:
            variables["window"] = dict(zip(("start", "end"), ends, strict=True))
        given = {f"placement_maintenance_{name}": value for name, value in variables.items()}
        role = {"name": "virt.placement.placement_maintenance", "rolespec_validate": False}
        names = {**given, "played_cluster": str(file)}
        tasks.append({"ansible.builtin.include_role": role, "vars": names, **task})
    ended = played(folder.path, tasks, "--check" if check else verbosity, folder.run)
    after = json.loads(file.read_text())
    return Played(
        after["calls"], ended.stdout + ended.stderr, ended.returncode != 0, after["nodes"]
    )


def statistics(play: Played) -> dict[str, t.Any]:
    """What its tasks have published, where Ansible shows that."""
    text = play.output.rpartition("CUSTOM STATS")[2]
    shown: dict[str, t.Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return shown


def published(play: Played) -> dict[str, t.Any]:
    """The artifact of the maintenance."""
    artifact: dict[str, t.Any] = statistics(play)["placement_job"]["localhost"]["maintenance"]
    return artifact


def gated(folder: Folder, **options: t.Any) -> dict[str, t.Any]:
    return {"change_id": "CHG1", "gate_tasks": str(folder / "gate.yml"), **options}


@pytest.mark.parametrize("left", [[], [node("w3", "b")]], ids=["no node left", "a node left"])
def test_gate_is_checked_again_before_the_nodes_that_are_left(
    folder: Folder, left: list[Node]
) -> None:
    play = maintained(folder, [done("w1", "a"), *left], gated(folder))
    assert play.failed
    assert GATE in play.output
    assert "drained w3" not in play.calls
    assert not [call for call in play.calls if call.startswith("rollout of")]


def test_role_can_be_included_in_a_loop(folder: Folder) -> None:
    """Its variables may have the item, which no loop of the role hides."""
    use = {"nodes": "{{ item.nodes }}", "reason": "{{ item.reason }}"}
    rack = {"nodes": ["w1"], "reason": "firmware"}
    play = maintained(folder, [node("w1", "a")], use, loop=[rack])
    assert not play.failed, play.output
    assert "drained check w1" in play.calls
    assert "already in use" not in play.output


@pytest.mark.parametrize("state", ["serviced", "drained", "in_service"])
def test_gate_is_not_checked_before_a_new_change(folder: Folder, state: str) -> None:
    play = maintained(folder, [node("w1", "a")], gated(folder, state=state))
    assert "drained w1" in play.calls or state == "in_service"
    assert (GATE in play.output) == (state != "drained")


def test_artifact_of_a_job_that_a_task_of_the_user_has_ended(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so at its end alone, and Ansible takes no statistics of a task that fails."""
    monkeypatch.setenv("ANSIBLE_SHOW_CUSTOM_STATS", "1")
    play = maintained(folder, [node("w1", "a")], gated(folder))
    assert play.failed
    assert "Report has failed" not in play.output
    job = published(play)
    assert (job["outcome"], job["nodes"]) == ("failed", {"w1": "serviced"})


def test_gate_may_include_a_role_of_the_collection(folder: Folder) -> None:
    """Each role has a record of its own: the next group of nodes is drained, and VMs return home."""
    role = {"name": "virt.placement.placement_rules", "rolespec_validate": False}
    (folder / "gate.yml").write_text(json.dumps([{"ansible.builtin.include_role": role}]))
    play = maintained(folder, [node("w1", "a"), node("w2", "b")], gated(folder))
    assert not play.failed, play.output
    assert {"drained w1", "drained w2", "in_service w2"} <= {*play.calls}
    assert [call for call in play.calls if call.startswith("rollout of")]


def test_gate_waits_for_the_node_that_an_earlier_job_has_begun(folder: Folder) -> None:
    """That node began after the gate: a gate that needs all nodes would never pass before it is done."""
    play = maintained(folder, [done("w1", "a"), drained("w3", "b")], gated(folder))
    assert play.failed
    assert play.calls[-2:] == ["drained w3", "in_service w3"]
    assert GATE in play.output


@pytest.fixture
def night() -> dict[str, t.Any]:
    """Variables of a job with a window."""
    return {"change_id": "CHG1", "window": {}}


def test_node_outside_of_the_window_is_not_begun_in_the_artifact_and_fails_no_job(
    folder: Folder, night: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is not Ready."""
    monkeypatch.setenv("ANSIBLE_SHOW_CUSTOM_STATS", "1")
    nodes = [node("w1", "a", ready=False), done("w2", "a")]
    play = maintained(folder, nodes, night, window_open=False)
    assert not play.failed, play.output
    states = {"w1": "not_begun", "w2": "skipped"}
    assert statistics(play)["placement_maintenance"] == {"localhost": states}
    assert published(play)["nodes"] == states
    assert "Maintenance: nothing begun, after" in play.output
    assert "launch the same job again for w1 in the window, which opens next on" in play.output
    assert "in_service w1" not in play.calls
    assert not [call for call in play.calls if call.startswith("rollout of")]


def test_findings_refuse_no_job_outside_of_the_window(
    folder: Folder, night: dict[str, t.Any]
) -> None:
    nodes = [drained("w5", "c"), node("w1", "a")]
    night["nodes"] = ["w1"]
    play = maintained(folder, nodes, night, window_open=False)
    assert not play.failed, play.output
    assert maintained(folder, nodes, night).failed


def test_nodes_that_have_begun_are_put_in_service_outside_of_the_window(
    folder: Folder, night: dict[str, t.Any]
) -> None:
    """Alone: a node of their zone that was not begun waits for the window."""
    nodes = [drained("w1", "a"), node("w2", "a"), node("w3", "b")]
    night["max_nodes"] = 2
    play = maintained(folder, nodes, night, window_open=False)
    assert not play.failed, play.output
    changes = {name: node["change_id"] for name, node in play.nodes.items()}
    assert changes == {"w1": "CHG1", "w2": None, "w3": None}
    assert "drained w1" in play.calls
    assert play.calls[-2:] == ["rollout of-w1", "rollout check"]


@pytest.mark.parametrize("window_open", [False, True])
def test_vms_of_serviced_nodes_return_home_in_the_window_alone(
    folder: Folder, night: dict[str, t.Any], window_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_SHOW_CUSTOM_STATS", "1")
    play = maintained(folder, [done("w1", "a")], night, window_open=window_open)
    assert not play.failed, play.output
    assert ("rollout of-w1" in play.calls) == window_open
    skipped, following = (published(play)[part] for part in ("skipped", "next"))
    assert any("no VM is moved home now: outside of" in x for x in skipped) != window_open
    assert (
        any(x.endswith(": it moves VMs home where a rule asks for it") for x in following)
        != window_open
    )
    assert any("in the window, which opens next on" in x for x in following) != window_open


@pytest.mark.parametrize("check", [False, True])
def test_block_of_many_nodes_says_that_no_vm_is_moved_home_outside_of_the_window(
    folder: Folder, night: dict[str, t.Any], check: bool
) -> None:
    nodes = [done(f"w{number}", "a") for number in range(20)]
    play = maintained(folder, nodes, night, window_open=False, check=check)
    assert not play.failed, play.output
    block = play.output.partition("] Maintenance: ")[2].partition("\nok: ")[0]
    assert block.count("no VM is moved home now: outside of the window from") == 1
    assert block.count("in the window, which opens next on") == 1
    assert ("it moves VMs home where" in block) != check
    assert "These would be moved" not in play.output


def test_closed_window_is_not_told_where_the_maintenance_has_moved_no_vm(
    folder: Folder, night: dict[str, t.Any]
) -> None:
    stayed = {**done("w1", "a"), "moved_away": []}
    block = maintained(folder, [stayed], night, window_open=False).output.rpartition(
        "Maintenance: "
    )[2]
    assert "moved home" not in block


@pytest.mark.parametrize(
    ("which", "rollouts"),
    [
        ("moved", ["rollout of-w1,of-w3", "rollout check"]),
        ("namespaces", ["rollout"]),
        ("none", []),
    ],
)
def test_return_home_moves_what_left_the_nodes_also_in_earlier_jobs(
    folder: Folder, which: str, rollouts: list[str]
) -> None:
    """Nodes that the change has not serviced remember workloads of an older maintenance."""
    nodes = [done("w1", "a"), node("w3", "b"), node("w5", "c")]
    use = {"nodes": ["w1", "w3"], "change_id": "CHG1", "return_home": which}
    play = maintained(folder, nodes, use)
    assert not play.failed, play.output
    assert [call for call in play.calls[-2:] if call.startswith("rollout")] == rollouts
    reason = (
        "placement_maintenance_return_home is none"
        if which == "none"
        else "no rule asks for another node"
    )
    assert f"2 stay where they are, since {reason}: shop/of-w1, shop/of-w3" in play.output


def test_check_mode_shows_what_may_return_home(folder: Folder) -> None:
    use = {"nodes": ["w1"], "state": "in_service"}
    play = maintained(folder, [drained("w1", "a")], use, check=True)
    assert not play.failed, play.output
    assert "if they violate a rule or miss a preference: shop/of-w1" in play.output
    assert "rollout" not in " ".join(play.calls)


def test_check_mode_of_a_new_maintenance_names_no_vm_that_an_older_one_has_moved(
    folder: Folder,
) -> None:
    play = maintained(folder, [node("w1", "a"), drained("w2", "a")], {}, check=True)
    assert not play.failed, play.output
    assert "if they violate a rule or miss a preference: shop/of-w2\n" in play.output


def test_check_mode_names_each_drain_that_would_be_refused(folder: Folder) -> None:
    nodes = [
        node("w1", "a", refused="no_place: w1"),
        node("w3", "b"),
        node("w5", "c", refused="w5"),
    ]
    play = maintained(folder, nodes, {}, check=True)
    assert play.failed
    assert "w1: no_place: w1" in play.output and "w5: w5" in play.output
    assert "would be refused: w1, w5" in play.output and "would be serviced: w3" in play.output
    assert "failed   Drain w1: no_place: w1" in play.output
    assert "Drain w1 has failed: see the lines above." in play.output
    assert [call for call in play.calls if call.startswith("drained check")] == [
        "drained check w1",
        "drained check w3",
        "drained check w5",
    ]


@pytest.mark.parametrize(
    ("state", "drains"),
    [("serviced", ["drained check w1", "drained check w3"]), ("in_service", [])],
)
def test_check_mode_asks_once_for_nodes_that_are_in_service(
    folder: Folder, state: str, drains: list[str]
) -> None:
    nodes = [node("w1", "a"), node("w3", "b")]
    play = maintained(folder, nodes, {"state": state}, check=True)
    assert not play.failed, play.output
    assert play.calls == ["in_service check w1,w3", *drains]
    assert ("would be serviced" if drains else "in service already") in play.output


@pytest.mark.parametrize("state", ["serviced", "in_service"])
def test_play_in_check_mode_includes_no_tasks_of_the_user(
    folder: Folder, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the keyword `check_mode`: ansible_check_mode is false then, which has the command line alone."""
    monkeypatch.setitem(PLAY, "check_mode", True)
    tasks = str(folder / "gate.yml")
    play = maintained(folder, [drained("w1", "a")], gated(folder, state=state, tasks=tasks))
    assert not play.failed, play.output
    assert GATE not in play.output
    assert "Maintenance: check mode, nothing was changed" in play.output


def test_reading_of_nodes_does_not_show_what_a_return_to_service_would_do(folder: Folder) -> None:
    """The return itself shows that, and a drain does not do it."""
    play = maintained(folder, [drained("w1", "a")], {"state": "in_service"}, check=True)
    assert not play.failed, play.output
    quiet = json.loads((folder / "cluster.json").read_text())["quiet"]
    assert play.calls[:2] == ["in_service check w1", "in_service check w1"]
    assert quiet == ["in_service check w1"]


def test_drain_that_is_refused_has_begun_no_node(folder: Folder) -> None:
    nodes = [node("w1", "a", refused="no_place: no node for VM a")]
    play = maintained(folder, nodes, {"state": "drained"})
    assert play.failed
    assert "nodes    not begun: w1" in play.output
    assert "failed   Drain w1: no_place: no node for VM a" in play.output
    assert "next     no node was begun: correct the cause" in play.output
    assert "it continues" not in play.output and "to undo it" not in play.output


def test_node_that_is_skipped_is_named_with_the_time_of_its_maintenance(folder: Folder) -> None:
    nodes = [{**done("w1", "a"), "serviced_at": SINCE}, node("w3", "a")]
    play = maintained(folder, nodes, {"change_id": "CHG1"})
    assert not play.failed, play.output
    assert "node w1: skipped, since its change_id is CHG1 already" in play.output
    assert SINCE in play.output


@pytest.mark.parametrize("state", ["serviced", "in_service"])
def test_job_waits_for_a_serviced_node_that_takes_no_pods_yet(folder: Folder, state: str) -> None:
    """The job before was ended after it had uncordoned w1, which still has a startup taint."""
    nodes = [{**done("w1", "a"), "ready": False}, drained("w2", "b")]
    play = maintained(folder, nodes, {"change_id": "CHG1", "state": state})
    assert play.failed
    assert "not back: ['w1']" in play.output
    assert play.calls == ["in_service check w1,w2", "in_service w1"]
    assert play.nodes["w2"]["since"] == SINCE


def test_check_mode_waits_for_no_serviced_node(folder: Folder) -> None:
    nodes = [{**done("w1", "a"), "ready": False}, node("w2", "a")]
    play = maintained(folder, nodes, {"change_id": "CHG1"}, check=True)
    assert not play.failed, play.output
    assert "in_service w1" not in play.calls


def test_second_use_in_a_play_forgets_the_first(folder: Folder, night: dict[str, t.Any]) -> None:
    first, second = {"nodes": ["w1"]}, {**night, "nodes": ["w3"]}
    nodes = [node("w1", "a"), node("w3", "b")]
    play = maintained(folder, nodes, first, second, window_open=False)
    assert not play.failed, play.output
    assert play.calls.count("rollout of-w1") == 1
    assert "rollout of-w3" not in " ".join(play.calls)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "another client's"])
def test_drains_are_checked_unless_a_node_is_still_cordoned(folder: Folder, ours: bool) -> None:
    """A node that was uncordoned begins anew, and is the first: no other zone can be drained while it has a mark."""
    uncordoned = {**drained("w1", "a", unschedulable=False), "ours": ours}
    play = maintained(folder, [node("w3", "b"), uncordoned], {"return_home": "none"})
    assert not play.failed, play.output
    checks = ["in_service check w3,w1", "drained check w1", "drained check w3"]
    assert play.calls == [*checks, "drained w1", "in_service w1", "drained w3", "in_service w3"]


def test_zones_are_taken_in_the_order_of_the_variable(folder: Folder) -> None:
    """The same reading selects the nodes and says what they are."""
    use = {"nodes": [], "topology": {"zone": ["b", "a"]}, "return_home": "none"}
    play = maintained(folder, [node("w1", "a"), node("w3", "b")], use)
    assert not play.failed, play.output
    assert play.calls[0] == "in_service check w3,w1"
    assert [call for call in play.calls if call.startswith("in_service w")] == [
        "in_service w3",
        "in_service w1",
    ]


def test_drains_are_not_checked_where_a_node_is_in_maintenance(folder: Folder) -> None:
    nodes = [node("w3", "b"), drained("w1", "a")]
    play = maintained(folder, nodes, {"return_home": "none"})
    assert not play.failed, play.output
    assert not [call for call in play.calls if call.startswith("drained check")]


def test_node_that_was_uncordoned_before_its_tasks_is_named_and_not_worked_on(
    folder: Folder,
) -> None:
    """Both nodes are drained, then the tasks run for one after the other."""
    work = folder / "work.yml"
    say = {"ansible.builtin.debug": {"msg": "at work on {{ placement_maintenance_node }}"}}
    work.write_text(json.dumps([say]))
    nodes = [node("w1", "a"), node("w2", "a", uncordoned_later=True), node("w3", "b")]
    use = {"tasks": str(work), "max_nodes": 2, "return_home": "none"}
    play = maintained(folder, nodes, use)
    assert play.failed
    assert "Node w2 is not drained any more: another client has uncordoned it, or" in play.output
    assert "at work on w1" in play.output and "at work on w2" not in play.output
    assert "in_service w1,w2" not in play.calls and "drained w3" not in play.calls


def test_nodes_are_put_in_service_beside_one_that_does_not_exist(folder: Folder) -> None:
    nodes, use = [drained("w1", "a"), drained("w3", "b")], {"nodes": ["w1", "w2", "w3"]}
    play = maintained(folder, nodes, {**use, "state": "in_service", "return_home": "none"})
    assert play.failed
    assert "there is no node" in play.output
    assert {"in_service w1", "in_service w3"} <= set(play.calls)
    assert [node["since"] for node in play.nodes.values()] == [None, None]


@pytest.mark.parametrize("use", [{"nodes": ["w1", "w2"]}, {"nodes": ["w2"], "state": "in_service"}])
def test_node_that_does_not_exist_ends_the_job_at_once(
    folder: Folder, use: dict[str, t.Any]
) -> None:
    play = maintained(folder, [node("w1", "a")], use)
    assert play.failed
    assert "there is no node" in play.output
    assert play.calls == [f"in_service check {','.join(use['nodes'])}"]


@pytest.mark.parametrize(
    ("others", "gone"),
    [
        ([node("w2", "b")], ["w1"]),
        ([done("w3", "b"), node("w2", "b")], []),
        ([drained("w2", "b")], []),
    ],
    ids=["drained before", "others are done", "others are drained"],
)
def test_case_71_job_that_continues_takes_the_nodes_that_exist(
    folder: Folder, others: list[Node], gone: list[str]
) -> None:
    """w1 was deleted since the first job began. The list of nodes is as it was."""
    use = {
        "nodes": ["w1", "w2", "w3"][: 1 + len(others)],
        "change_id": "CHG1",
        "return_home": "none",
    }
    play = maintained(folder, others, use, gone=gone)
    assert play.failed
    assert "there is no node ['w1']" in play.output
    assert "in_service w2" in play.calls
    assert {node["change_id"] for node in play.nodes.values()} == {"CHG1"}


def test_node_that_is_deleted_before_its_turn_is_named_and_the_others_are_serviced(
    folder: Folder,
) -> None:
    nodes = [node("w1", "a"), node("w2", "a", deleted_with="w1"), node("w3", "a")]
    play = maintained(folder, nodes, {"return_home": "none"})
    assert play.failed
    assert (
        "Node w2 does not exist any more: another client deleted it before its turn" in play.output
    )
    assert [call for call in play.calls if call.startswith("in_service w")] == [
        "in_service w1",
        "in_service w3",
    ]


def test_nodes_that_may_register_again_are_waited_for_at_the_end(folder: Folder) -> None:
    use = {"nodes": ["w1", "w2"], "state": "in_service", "return_home": "none"}
    play = maintained(folder, [drained("w2", "a")], use, gone=["w1"])
    assert [call for call in play.calls if "check" not in call] == [
        "in_service w2",
        "in_service w1",
    ]
    assert play.failed


UNDO = "To undo, launch it with placement_maintenance_state: in_service and without placement_maintenance_change_id"
"""With an identifier the node would count as serviced, and the next job would skip it."""


def output_of_work(folder: Folder, task: dict[str, t.Any]) -> str:
    work = folder / "user.yml"
    work.write_text(json.dumps([{"name": "Update firmware", **task}]))
    nodes = [node("w1", "a"), node("w2", "a")]
    return maintained(folder, nodes, {"tasks": str(work), "max_nodes": 2}).output


def test_node_is_named_before_the_tasks_run(folder: Folder) -> None:
    output = output_of_work(folder, {"ansible.builtin.debug": {"msg": "work on the node"}})
    before, _message, after = output.partition("work on the node")
    assert "node w1: in maintenance. If this job ends here, launch it again to continue" in before
    assert UNDO in before
    assert after and "stays" not in after


def test_task_that_fails_is_followed_by_the_nodes_that_stay_cordoned(folder: Folder) -> None:
    failing = {"ansible.builtin.fail": {"msg": "secret of the task"}, "no_log": True}
    output = output_of_work(folder, failing)
    last = output.rsplit("TASK [", 1)[1]
    assert "The task Update firmware failed for node w1." in last
    assert "The cordon of w1, w2 stays" in last
    assert UNDO in last
    assert "failed=1" in last
    assert "secret of the task" not in last


def test_output_is_the_same_on_each_release_of_ansible_core(folder: Folder) -> None:
    """Of six nodes, the third one fails: that is told as lines."""
    work = folder / "firmware.yml"
    failing = {"ansible.builtin.fail": {"msg": "no firmware"}}
    third = "placement_maintenance_node == 'w3'"
    work.write_text(json.dumps([{"name": "Update firmware", **failing, "when": third}]))
    nodes = [node(f"w{n}", zone) for n, zone in enumerate("aabbcc", 1)]

    own = folder._replace(run=run_playbook)
    ended = maintained(own, nodes, {"tasks": str(work)}, verbosity="--forks=2")

    lines = what_matters(ended.output, folder=str(folder.path)).splitlines()
    lines = lines[: lines.index("PLAY RECAP")]
    of_test = "included: virt.placement.placement_maintenance"  # not by ansible-core 2.16
    now = "".join(f"{line}\n" for line in lines if not line.startswith(of_test))
    assert now == kept("role_with_six_nodes", now)
    assert now.count("The task Update firmware failed for node w3") == 2  # and in the last block


def asked_of_room(play: Played) -> list[str]:
    return [call for call in play.calls if call.startswith("capacity_info")]


@pytest.mark.parametrize(
    ("room", "refused", "asked"),
    [
        (
            {"w2": "red"},
            "While w2 is drained, the capacity is red, not green (placement_maintenance_keep_room_for). Without this"
            " maintenance it is green.",
            ["capacity_info", "capacity_info w1", "capacity_info w2"],
        ),
        (
            {"": "possible"},
            "Without this maintenance the capacity is possible already, not green",
            ["capacity_info"],
        ),
    ],
    ids=["during", "already"],
)
def test_maintenance_that_would_spend_the_room_for_a_failure_is_refused_before_the_first_cordon(
    folder: Folder, room: dict[str, str], refused: str, asked: list[str]
) -> None:
    nodes = [node("w1", "a"), node("w2", "a")]
    play = maintained(folder, nodes, {"keep_room_for": ["node"]}, room=room)
    assert play.failed
    assert refused in play.output
    assert "Nothing was changed." in play.output
    assert asked_of_room(play) == asked
    assert not [call for call in play.calls if call.startswith("drained w")]


def test_room_is_asked_again_before_each_later_group(folder: Folder) -> None:
    nodes = [node("w1", "a"), node("w2", "a")]
    play = maintained(folder, nodes, {"keep_room_for": ["node"]})
    assert not play.failed
    calls = [call for call in play.calls if call.startswith(("capacity_info", "drained w"))]
    assert calls == [
        "capacity_info",
        "capacity_info w1",
        "capacity_info w2",
        "drained w1",
        "capacity_info w2",
        "drained w2",
    ]


@pytest.mark.parametrize("first", [node, drained], ids=["fresh", "begun"])
def test_room_refuses_no_job_outside_of_the_window(
    folder: Folder, night: dict[str, t.Any], first: t.Callable[..., dict[str, t.Any]]
) -> None:
    """Like findings: it drains no further node then."""
    nodes = [first("w1", "a"), node("w2", "a")]
    room = {"": "red", "w1": "red", "w2": "red"}
    options = {**night, "keep_room_for": ["node"]}
    play = maintained(folder, nodes, options, room=room, window_open=False)
    assert not play.failed, play.output
    assert play.nodes["w2"]["since"] is None
    assert "not green" not in play.output


def test_maintenance_that_was_begun_ends_without_room_and_asks_before_the_next_node(
    folder: Folder,
) -> None:
    nodes = [drained("w1", "a"), node("w2", "a")]
    room = {"": "red", "w1": "red", "w2": "red"}
    play = maintained(folder, nodes, {"keep_room_for": ["node"]}, room=room)
    assert play.failed
    assert "Not cordoned: w2. Launch this job again once there is room, to continue." in play.output
    assert "It is red already without the drain of w2." in play.output
    assert asked_of_room(play) == ["capacity_info", "capacity_info w2", "capacity_info"]
    assert (play.nodes["w1"]["since"], play.nodes["w2"]["since"]) == (None, None)
