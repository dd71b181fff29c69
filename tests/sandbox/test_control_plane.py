# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox starts, works, stays apart from others, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
import requests

from sandbox import ApiFailure, Sandbox, layout, objects, processes
from sandbox.namespaces import delete_namespace
from sandbox.nodes import is_ready
from sandbox.pytest_plugin import MakeNamespace

CHECKOUT = Path(__file__).resolve().parents[2]
PLAIN = {
    "supervisor",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
}


def test_article_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with Sandbox.start("article") as sandbox:
        seconds = time.monotonic() - started
        with capsys.disabled():
            print(f"\nsandbox article: up in {seconds:.1f} s")
        assert set(sandbox.running()) == PLAIN | {"virt-api", "virt-controller", "virt-handler"}
        nodes = sandbox.api.list(sandbox.api.path("Node"))
    assert len(nodes) == 7


def test_two_run_side_by_side_and_leave_nothing() -> None:
    with Sandbox.start("plain") as one, Sandbox.start("plain") as two:
        one.api.create("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
        assert one.api.find("/api/v1/namespaces/only-here")
        assert two.api.find("/api/v1/namespaces/only-here") is None
        assert mentioning(one.directory)
        directories = [one.directory, two.directory]
    for directory in directories:
        assert mentioning(directory) == []
        assert not directory.exists()


def test_two_checkouts_have_two_directories(tmp_path: Path) -> None:
    ours = layout.directory_of_owner("plain")
    assert ours == layout.directory_of_owner("plain")
    assert ours != layout.directory_of_owner("plain", tmp_path)
    assert ours != layout.directory_of_owner("small")


def test_everything_ends_with_a_killed_owner() -> None:
    code = (
        "from sandbox import Sandbox; print(Sandbox.start('plain').directory, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout
        directory = Path(owner.stdout.readline().strip())
        assert set(processes.running(directory)) == PLAIN
        owner.kill()
    until(lambda: not mentioning(directory) and not directory.exists())


def test_everything_ends_with_a_killed_supervisor(tmp_path: Path) -> None:
    with Sandbox.start("plain", tmp_path / "it") as sandbox:
        os.kill(pid_file(sandbox.directory)["supervisor"]["pid"], signal.SIGKILL)
        until(lambda: not mentioning(sandbox.directory))


def test_stale_sandbox_is_ended_by_its_pid_file(tmp_path: Path) -> None:
    directory = tmp_path / "it"
    up = command_line("up", "--cluster=plain", f"--dir={directory}")
    assert up.stdout.splitlines()[0] == f"export KUBECONFIG={directory}/admin.kubeconfig"
    stale = pid_file(directory)
    assert set(processes.running(directory)) == PLAIN
    with Sandbox.start("plain", directory) as sandbox:
        assert not any(processes.alive(known) for known in stale["processes"].values())
        assert set(sandbox.running()) == PLAIN
        assert pid_file(directory)["supervisor"] != stale["supervisor"]


def test_command_line_lists_running_processes_and_ends_them(tmp_path: Path) -> None:
    directory = f"--dir={tmp_path / 'it'}"
    command_line("up", "--cluster=plain", directory)
    crashed = pid_file(tmp_path / "it")["processes"]["kwok"]["pid"]
    os.kill(crashed, signal.SIGKILL)
    until(lambda: processes.ended(tmp_path / "it"))
    status = command_line("status", directory)
    assert "kwok ended by itself with exit code -9" in status.stdout
    command_line("down", directory)
    assert mentioning(tmp_path / "it") == []
    assert "nothing runs" in command_line("status", directory, code=1).stdout


def test_a_process_with_a_recycled_id_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        known = processes.record(other.pid)
        assert known
        content: dict[str, t.Any] = {
            "owner": None,
            "supervisor": None,
            "detached": True,
            "ended": {},
        }
        older = {"pid": other.pid, "started": known["started"] - 1}
        file = processes.PidFile(tmp_path)
        file.write({**content, "processes": {"etcd": older}})
        assert processes.end_recorded(tmp_path) == []
        assert other.poll() is None
        file.write({**content, "processes": {"etcd": known}})
        assert processes.end_recorded(tmp_path) == ["etcd"]
        assert other.wait(10) == -signal.SIGKILL


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(FileExistsError, match="no sandbox"):
        Sandbox.start("plain", tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_process_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text("kubevirt: false\nheartbeat_grace: -1\nnodes: [{name: w1}]\n")
    with pytest.raises(processes.ProcessError, match=r"(?s)ended with exit code.*grace|lease"):
        Sandbox.start(bad, tmp_path / "it")
    assert mentioning(tmp_path / "it") == []


def test_plain_serves_no_kubevirt(plain: Sandbox) -> None:
    assert plain.api.find("/apis/kubevirt.io/v1") is None


def test_node_state_is_restored(plain: Sandbox) -> None:
    path = plain.api.path("Node", name="w1")
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    labels = {"topology.kubernetes.io/zone": "elsewhere", "performance": "high"}
    plain.api.patch(
        path, {"metadata": {"labels": labels}, "spec": {"unschedulable": True, "taints": taints}}
    )
    plain.restore_nodes()
    node = plain.api.wait(lambda node: not node["spec"].get("taints"), path)
    assert "performance" not in node["metadata"]["labels"]
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone1"
    assert not node["spec"].get("unschedulable")


def test_audit_log_has_users_and_bodies_with_dry_run(
    plain: Sandbox, namespace: MakeNamespace
) -> None:
    place = namespace(plain)
    pod = objects.pod("web", place)
    plain.api.apply(pod)
    path = plain.api.path_of(pod)
    plain.api.wait(lambda pod: pod["status"]["phase"] == "Running", path)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": place},
        "deleteOptions": {"dryRun": ["All"]},
    }
    plain.api_as("maintainer").create(f"{path}/eviction", eviction)
    entries = [json.loads(line) for line in plain.audit_log.read_text().splitlines()]
    last = entries[-1]
    assert last["user"]["username"] == plain.username("maintainer")
    assert (last["verb"], last["objectRef"]["subresource"]) == ("create", "eviction")
    assert last["requestObject"]["deleteOptions"]["dryRun"] == ["All"]
    assert last["userAgent"]
    users = {entry["user"]["username"] for entry in entries}
    assert not users & {"system:kube-scheduler", "system:kube-controller-manager", "kwok"}


def test_a_vm_runs_migrates_and_restarts(six: Sandbox, namespace: MakeNamespace) -> None:
    api, place = six.api, namespace(six)
    mover = six.api_as("mover")
    api.apply(objects.virtual_machine("db", place))
    path = api.path("VirtualMachineInstance", place, "db")
    first = api.wait(is_running, path)
    migrations = api.path("VirtualMachineInstanceMigration", place)
    migration = objects.migration("db", place, name="move")
    migration["metadata"]["labels"] = {"placement.virt/run": "r1"}
    made = mover.create(migrations, migration)
    api.wait(
        lambda m: m["status"]["phase"] == "Succeeded", f"{migrations}/{made['metadata']['name']}"
    )
    moved = api.get(path)
    assert moved["metadata"]["uid"] == first["metadata"]["uid"]
    assert moved["status"]["nodeName"] != first["status"]["nodeName"]
    mover.put(
        f"/apis/subresources.kubevirt.io/v1/namespaces/{place}/virtualmachines/db/restart", {}
    )
    uid = first["metadata"]["uid"]
    api.wait(lambda i: i["metadata"]["uid"] != uid and is_running(i), path)


@pytest.mark.parametrize(
    "build",
    [
        objects.virtual_machine,
        objects.replica_set,
        objects.pool,
        objects.deployment,
        objects.stateful_set,
        objects.daemon_set,
        objects.pod,
        lambda name: objects.disruption_budget(name, labels={"app": "web"}),
    ],
)
def test_built_objects_are_what_the_api_server_accepts(
    six: Sandbox, build: t.Callable[[str], dict[str, t.Any]]
) -> None:
    made = build("probe")
    six.api.create(f"{six.api.collection_of(made)}?dryRun=All&fieldValidation=Strict", made)


def test_namespace_with_an_instance_on_a_dead_node_is_emptied(
    six: Sandbox, namespace: MakeNamespace
) -> None:
    api, place = six.api, namespace(six)
    api.apply([objects.virtual_machine("db", place), objects.replica_set("rs", place)])
    path = api.path("VirtualMachineInstance", place)
    api.wait_list(path, lambda items: len(items) == 4 and all(map(is_running, items)))
    node = api.get(f"{path}/db")["status"]["nodeName"]
    six.node_down(node)
    try:
        delete_namespace(api, place)
        assert api.list(path) == []
        assert api.list(api.path("Pod", place)) == []
    finally:
        six.node_up(node)


def test_a_pod_is_ready_again_unless_its_node_is_down(
    six: Sandbox, namespace: MakeNamespace
) -> None:
    """The node lifecycle controller marks the pods of a late node as not Ready."""
    api, place = six.api, namespace(six)
    pod = api.path("Pod", place, "late")
    api.apply(objects.pod("late", place))
    node = api.wait(is_ready, pod)["spec"]["nodeName"]
    late = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    api.patch(f"{pod}/status", {"status": {"conditions": [late]}}, "strategic")
    api.wait(is_ready, pod, timeout=20)
    six.node_down(node)
    try:
        time.sleep(5)
        assert not is_ready(api.get(pod))
    finally:
        six.node_up(node)


def test_subresource_rights_are_those_of_virt_api_too(
    six: Sandbox, namespace: MakeNamespace
) -> None:
    """Who may restart may not stop, and may not take back an evacuation."""
    place = namespace(six)
    six.api.apply(objects.virtual_machine("db", place))
    six.api.wait(is_running, six.api.path("VirtualMachineInstance", place, "db"))
    base = f"/apis/subresources.kubevirt.io/v1/namespaces/{place}"
    restart, stop = (f"{base}/virtualmachines/db/{verb}" for verb in ("restart", "stop"))
    cancel = f"{base}/virtualmachineinstances/db/evacuate/cancel"
    six.api_as("mover").put(restart, {})
    for identity, path in (("mover", stop), ("mover", cancel), ("labeler", restart)):
        with pytest.raises(ApiFailure) as refused:
            six.api_as(identity).put(path, {})
        assert refused.value.status == 403


def test_no_token_no_access(plain: Sandbox) -> None:
    answer = requests.get(f"{plain.url}/api/v1/nodes", verify=str(plain.ca_file), timeout=10)
    assert answer.status_code in (401, 403)


def is_running(instance: dict[str, t.Any]) -> bool:
    return bool(instance.get("status", {}).get("phase") == "Running")


def mentioning(directory: Path) -> list[str]:
    """Command lines of all processes of this machine that name the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"{directory}/" in line or f"{directory} " in line:
                found.append(line)
    return found


def pid_file(directory: Path) -> dict[str, t.Any]:
    content = processes.PidFile(directory).read()
    assert content
    return content


def command_line(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return done


def until(holds: t.Callable[[], object], timeout: float = 15) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
