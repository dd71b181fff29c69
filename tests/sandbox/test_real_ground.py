# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad ground for real nodes: one line for each thing that is missing, and nothing left."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import types
import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox, binaries, cluster_file, layout, processes, releases
from sandbox import __main__ as command
from sandbox.cluster_file import ClusterFileError
from sandbox.real_nodes import control_groups, debian, ground, network, power, programs
from sandbox.real_nodes.control_groups import Hierarchy
from sandbox.real_nodes.ground import GIB, TO_BUILD, TO_RUN, Ground
from sandbox.real_nodes.node import Node, NodeError
from tests.real.conftest import TALLY, Tally, pytest_sessionfinish

#: until the network is there or its process has ended; then what this namespace has of bridges, with and without it
WAIT = """until [ -s "$5" ] || ! kill -0 $pid; do sleep 0.05; done; test -s "$5"
ip -brief link show type bridge | xargs
kill $pid; wait $pid || true
ip -brief link show type bridge | xargs"""
CACHE, SANDBOXES = Path("/cache"), Path("/sandboxes")
GOOD = Ground(
    system="Linux",
    machine="x86_64",
    user=0,
    is_built=False,
    programs={*TO_RUN, *TO_BUILD},
    debian="",
    lacking_controllers=(),
    read_only_groups="",
    trial="",
    cache=CACHE,
    cache_free=10 * GIB,
    sandboxes=SANDBOXES,
    sandboxes_free=10 * GIB,
    one_disk=False,
    memory=8 * GIB,
    inotify=(10, 128),
)


def test_good_ground_lacks_nothing() -> None:
    assert ground.lacking(GOOD) == []


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"system": "Darwin", "machine": "arm64", "user": 501},
            "real nodes need Linux on x86_64: this is Darwin on arm64; use simulated nodes here",
        ),
        (
            {"user": 1000, "programs": ()},
            "real nodes need root, for namespaces: this is user 1000; run it again as root",
        ),
        (
            {"programs": {*TO_RUN, *TO_BUILD} - {"ip"}},
            "real nodes need the program ip: it is not in PATH; install the package iproute2",
        ),
        (
            {"programs": {*TO_RUN, *TO_BUILD} - {"apt-get"}},
            "real nodes need the program apt-get: it is not in PATH; install the package apt",
        ),
        (
            {"debian": "Ubuntu 24.04 LTS"},
            "real nodes need packages of Debian: this is Ubuntu 24.04 LTS; set VIRT_PLACEMENT_DEBIAN_MIRROR to the "
            "address of a mirror",
        ),
        (
            {"lacking_controllers": ("memory", "pids")},
            "real nodes need control groups: no controller memory, pids is mounted; mount it below /sys/fs/cgroup",
        ),
        (
            {"read_only_groups": "/sys/fs/cgroup/x: Read-only file system"},
            "real nodes need control groups of their own: /sys/fs/cgroup/x: Read-only file system; let this container "
            "write them, or run outside of it",
        ),
        (
            {"trial": "unshare: unshare failed: Operation not permitted"},
            "real nodes need namespaces, overlayfs, bridge and veth: a trial ended with 'unshare: unshare failed: "
            "Operation not permitted'; load the kernel's module, or run outside of this container",
        ),
        (
            {"cache_free": GIB},
            "3 real nodes need 3.0 GiB of disk below /cache: 1.0 GiB are free; make room there",
        ),
        (
            {"sandboxes_free": GIB},
            "3 real nodes need 5.5 GiB of disk below /sandboxes: 1.0 GiB are free; make room there",
        ),
        (
            {"memory": GIB},
            "3 real nodes need 4.5 GiB of memory: 1.0 GiB are available; end other programs, or start fewer nodes",
        ),
        (
            {"inotify": (100, 128)},
            "3 real nodes need 64 instances of inotify: 100 of 128 are in use; end other sandboxes, or raise "
            "fs.inotify.max_user_instances",
        ),
    ],
)
def test_each_thing_that_is_missing_is_one_line(facts: dict[str, t.Any], line: str) -> None:
    assert ground.lacking(dataclasses.replace(GOOD, **facts)) == [line]


def test_what_builds_is_needed_until_all_is_built() -> None:
    built = dataclasses.replace(GOOD, is_built=True, programs={*TO_RUN}, cache_free=0)
    assert ground.lacking(built) == []


def test_one_disk_for_both_must_hold_both() -> None:
    shared = dataclasses.replace(GOOD, one_disk=True, cache_free=6 * GIB, sandboxes_free=6 * GIB)
    assert ground.lacking(shared) == [
        "3 real nodes need 8.5 GiB of disk below /cache and /sandboxes: 6.0 GiB are free; make room there"
    ]
    assert ground.lacking(dataclasses.replace(shared, is_built=True)) == []


def test_more_nodes_need_more() -> None:
    small = dataclasses.replace(GOOD, sandboxes_free=12 * GIB)
    assert ground.lacking(small, 6) == []
    assert ground.lacking(small, 9) == [
        "9 real nodes need 14.5 GiB of disk below /sandboxes: 12.0 GiB are free; make room there",
        "9 real nodes need 10.5 GiB of memory: 8.0 GiB are available; end other programs, or start fewer nodes",
        "9 real nodes need 160 instances of inotify: 10 of 128 are in use; end other sandboxes, or raise "
        "fs.inotify.max_user_instances",
    ]


def test_inotify_of_other_users_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for process in ("7", "8"):
        (tmp_path / process / "fd").mkdir(parents=True)
        (tmp_path / process / "fd" / "3").symlink_to("anon_inode:inotify")
        (tmp_path / process / "fd" / "4").symlink_to("/dev/null")
    assert ground._inotify(tmp_path)[0] == 2
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert ground._inotify(tmp_path)[0] == 0


V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / {unified} rw,relatime - cgroup2 cgroup2 rw
"""


CONTROLLERS = """\
#subsys_name	hierarchy	num_cgroups	enabled
cpu	2	7	1
cpuacct	2	7	1
memory	3	9	1
"""


def test_hierarchies_of_version_1_come_before_an_empty_one_of_version_2(tmp_path: Path) -> None:
    found = control_groups.hierarchies(V1.format(unified=tmp_path), CONTROLLERS)
    assert [hierarchy.controllers for hierarchy in found] == [
        ("cpu", "cpuacct"),
        ("memory",),
        ("name=systemd",),
    ]
    assert {hierarchy.version for hierarchy in found} == {1}
    assert control_groups.lacking(found) == ["cpuset", "pids"]


def test_host_with_version_2_alone_has_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    line = V1.splitlines()[-1].format(unified=tmp_path)
    found = control_groups.hierarchies(line)
    assert found == [Hierarchy(tmp_path, 2, ("cpuset", "cpu", "io", "memory", "pids"))]
    assert control_groups.lacking(found) == []


def test_kernel_without_version_1_has_no_table_of_its_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(file: Path, *_: object, **__: object) -> str:
        raise FileNotFoundError(file)

    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    line = V1.splitlines()[-1].format(unified=tmp_path)
    with monkeypatch.context() as context:
        context.setattr(Path, "read_text", read)
        table = control_groups.first_controllers()
    assert [found.version for found in control_groups.hierarchies(line, table)] == [2]


def test_options_of_a_mount_are_no_controllers() -> None:
    lines = [
        "32 31 0:29 / /x/cpu rw - cgroup cgroup rw,seclabel,cpu,cpuacct",
        "40 31 0:37 / /x/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd",
    ]
    found = control_groups.hierarchies("\n".join(lines), CONTROLLERS)
    assert [hierarchy.controllers for hierarchy in found] == [
        ("cpu", "cpuacct"),
        ("name=systemd",),
    ]


def test_named_hierarchy_of_version_1_alone_does_not_hide_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    lines = V1.format(unified=tmp_path).splitlines()[-2:]
    (found,) = control_groups.hierarchies("\n".join(lines), CONTROLLERS)
    assert (found.version, found.path) == (2, tmp_path)


def groups_in(folder: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    mounted = [Hierarchy(folder, version, ("cpu", "cpuset", "memory", "pids"))]
    monkeypatch.setattr(control_groups, "hierarchies", lambda: mounted)
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_groups_of_ended_sandboxes_are_swept_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups_in(tmp_path, monkeypatch, 1)
    ended, running, elsewhere = (control_groups.name_of(pid, 1) for pid in (7, 8, 9))
    others = {running, elsewhere, "virt-placement-trial-7", "user.slice"}
    for name in (f"{ended}/w1/kubepods", f"{running}/w1", f"{elsewhere}/w1", *others):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    # the kernel names a process of another PID namespace so
    (tmp_path / elsewhere / "w1" / "cgroup.procs").write_text("0\n")

    def is_alive(pid: int, _started: int) -> bool:
        return pid == 8

    with monkeypatch.context() as user:
        user.setattr(os, "geteuid", lambda: 1000)
        assert control_groups.sweep(is_alive) == []
    assert control_groups.sweep(is_alive) == [ended]
    assert {path.name for path in tmp_path.iterdir()} == others


def test_group_that_cannot_be_removed_is_tried_again_only_while_it_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups_in(tmp_path, monkeypatch, 1)
    (tmp_path / "sandbox").mkdir()
    tries: list[str] = []

    def refuse(folder: str) -> None:
        tries.append(folder)
        number = errno.EBUSY if len(tries) < 3 else errno.EROFS
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(control_groups.GroupError, match="sandbox cannot be removed: Read-only"):
        control_groups.remove("sandbox")
    assert len(tries) == 3


class Kernel:
    """Version 2 of control groups, as far as a sandbox uses it: `enabled` of each group, and the controllers of the
    root that other groups use."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *enabled: str) -> None:
        self.root, self.in_use = root, set[str]()
        self.enabled: dict[Path, set[str]] = {root: {*enabled}}
        groups_in(root, monkeypatch, 2)
        monkeypatch.setattr(control_groups, "_write", self.write)
        read = Path.read_text
        monkeypatch.setattr(
            Path,
            "read_text",
            lambda file: (
                " ".join(self.enabled.get(file.parent, ()))
                if file.name == "cgroup.subtree_control"
                else read(file)
            ),
        )

    def write(self, file: Path, text: str) -> None:
        assert file.parent.is_dir()
        if file.name != "cgroup.subtree_control":
            return
        enabled = self.enabled.setdefault(file.parent, set())
        for word in text.split():
            if word[0] == "+":
                assert file.parent == self.root or word[1:] in self.enabled[self.root]
                enabled.add(word[1:])
            elif word[1:] in self.in_use:
                raise OSError(errno.EBUSY, "Device or resource busy", str(file))
            else:
                enabled.discard(word[1:])


def test_what_sandboxes_add_to_the_root_the_last_one_takes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(tmp_path, monkeypatch, "memory", "io")
    first, second = control_groups.name_of(7, 1), control_groups.name_of(8, 1)
    control_groups.make(first, "w1")
    control_groups.make(second, "w1")
    assert kernel.enabled[tmp_path] == {"memory", "io", "cpu", "cpuset", "pids"}
    assert kernel.enabled[tmp_path / first] == {"cpu", "cpuset", "memory", "pids"}

    control_groups.remove(first, "w1")
    control_groups.remove(first)
    assert kernel.enabled[tmp_path] == {"memory", "io", "cpu", "cpuset", "pids"}
    assert control_groups.sweep(lambda pid, started: False) == [second]
    assert kernel.enabled[tmp_path] == {"memory", "io"}
    assert [*tmp_path.iterdir()] == []


def test_controller_that_others_use_meanwhile_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(tmp_path, monkeypatch, "memory")
    control_groups.make(control_groups.name_of(7, 1), "w1")
    kernel.in_use = {"cpuset"}
    control_groups.remove(control_groups.name_of(7, 1))
    assert kernel.enabled[tmp_path] == {"memory", "cpuset"}
    assert [*tmp_path.iterdir()] == []


def test_trial_names_the_group_that_cannot_give_controllers_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the root of its control groups has processes: it can give no controllers to groups below."""
    kernel = Kernel(tmp_path, monkeypatch)

    def refuse(file: Path, text: str) -> None:
        if "+" in text:
            raise OSError(errno.EBUSY, "Device or resource busy", str(file))
        kernel.write(file, text)

    monkeypatch.setattr(control_groups, "_write", refuse)
    assert ground._try_groups() == f"{tmp_path}/cgroup.subtree_control: Device or resource busy"
    assert [*tmp_path.iterdir()] == []


def test_error_of_a_write_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"/cpuset\.cpus'$"):
        control_groups._write(tmp_path / "none" / "cpuset.cpus", "0-1")
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'$"):
        control_groups._write(Path("/dev/full"), "0-1")


def test_command_runs_on_the_node_whose_process_was_recorded_and_on_no_other(
    tmp_path: Path,
) -> None:
    own = processes.record(os.getpid())
    assert own is not None
    node = Node("w1", tmp_path)
    with pytest.raises(NodeError, match="w1 does not run"):
        node.entry()
    (tmp_path / "pid").write_text(f"{own['pid']} {own['started']}\n")
    assert node.entry()[:2] == ["nsenter", f"--target={own['pid']}"]
    (tmp_path / "pid").write_text(f"{own['pid']} {own['started'] - 1}\n")
    with pytest.raises(NodeError, match="w1 does not run"):
        node.run("true")


def test_command_on_a_node_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "entry", lambda node: ["env"])
    with pytest.raises(NodeError, match=r"w1: sleep 60 has not ended after 0\.1 s"):
        Node("w1", tmp_path).run("sleep", "60", timeout=0.1)


def test_boot_records_what_identifies_its_process() -> None:
    """As processes.record() reads it: the 22nd field of /proc/PID/stat."""
    lines = power.BOOT.read_text().splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("read -r -a stat"))
    script = "\n".join(lines[first : first + 2]).replace("pid.new", "pid")
    folder = {"DIRECTORY": "/dev/fd/1"}
    script = script.replace(' > "$DIRECTORY/pid"', "")
    shell = subprocess.Popen(
        ["bash", "-c", f"{script}\nread -r _"],
        env={**os.environ, **folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout is not None
    pid, started = map(int, shell.stdout.readline().split())
    recorded = processes.record(shell.pid)
    shell.communicate("end\n")
    assert recorded == {"pid": pid, "started": started}


@pytest.mark.parametrize(
    ("text", "cluster"), [("real", "3-real-nodes-0-zones"), ("real:2", "2-real-nodes-0-zones")]
)
def test_option_names_real_nodes(text: str, cluster: str) -> None:
    number, real = command._nodes(text)
    assert cluster_file.numbered(number, 0, real=real) == cluster


@pytest.mark.parametrize("text", ["real:", "real:x", "fake:2", "-1"])
def test_option_refuses_other_kinds_of_nodes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="neither a number nor `real`"):
        command._nodes(text)


def test_real_nodes_have_labels_and_taints_and_nothing_that_a_kubelet_reports() -> None:
    cluster = cluster_file.load("3-real-nodes-3-zones")
    assert cluster.real
    assert [dict(node.labels) for node in cluster.nodes] == [
        {"topology.kubernetes.io/zone": f"zone{number}"} for number in (1, 2, 3)
    ]
    assert {tuple(node.allocatable) for node in cluster.nodes} == {()}
    assert cluster.configuration["developerConfiguration"] == {"useEmulation": True}
    content = {"real": True, "nodes": [{"name": "w1", "allocatable": {"cpu": "1"}}]}
    with pytest.raises(ClusterFileError, match=r"x: real node: unknown \['allocatable'\]"):
        cluster_file.parse("x", content)


def test_ten_real_nodes_are_refused() -> None:
    with pytest.raises(ClusterFileError, match="10 real nodes: at most 9 run here"):
        cluster_file.numbered(10, 0, real=True)
    content = {"real": True, "nodes": [{"prefix": "w", "count": 9}, {"name": "x"}]}
    with pytest.raises(ClusterFileError, match="10 real nodes: at most 9 run here"):
        cluster_file.parse("x", content)


@pytest.mark.parametrize("names", [["a23456789012345b"], ["br-nodes"], ["lo"], ["W1"], ["a", "a"]])
def test_real_node_cannot_have_the_name_of_no_or_of_another_interface(names: list[str]) -> None:
    content = {"real": True, "nodes": [{"name": name} for name in names]}
    with pytest.raises(ClusterFileError, match=f"x: a real node cannot be called '{names[-1]}'"):
        cluster_file.parse("x", content)


def test_longest_name_of_a_real_node() -> None:
    name = "a" * 15
    assert cluster_file.parse("x", {"real": True, "nodes": [{"name": name}]}).nodes[0].name == name


@pytest.mark.parametrize("part", ["kubevirt", "controllers"])
def test_real_nodes_need_all_of_the_control_plane(part: str) -> None:
    with pytest.raises(ClusterFileError, match="x: real nodes need kubevirt and controllers"):
        cluster_file.parse("x", {"real": True, part: False, "nodes": [{"name": "w1"}]})


def test_real_node_reboots_by_its_power(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    monkeypatch.setattr(Node, "power_off", lambda node: done.append((node.name, "off")))
    monkeypatch.setattr(Node, "power_on", lambda node: done.append((node.name, "on")))
    sandbox = Sandbox.__new__(Sandbox)
    sandbox.cluster = cluster_file.load("3-real-nodes-3-zones")
    nodes = {"w2": Node("w2", Path("/nowhere"))}
    sandbox.__dict__["real_nodes"] = nodes
    sandbox.node_reboot("w2")
    assert done == [("w2", "off"), ("w2", "on")]


@pytest.mark.parametrize(("lost", "status"), [(0, 0), (1, pytest.ExitCode.TESTS_FAILED)])
def test_lost_tick_fails_the_session(lost: int, status: int) -> None:
    tally = Tally()
    tally.lost = lost
    config = types.SimpleNamespace(stash={TALLY: tally})
    session = types.SimpleNamespace(config=config, exitstatus=0)
    pytest_sessionfinish(t.cast("pytest.Session", session))
    assert session.exitstatus == status


def test_build_holds_its_lock_until_its_commands_have_ended(cache: Path, tmp_path: Path) -> None:
    """A command of a build goes on where the process that began it was killed."""
    child: list[int] = []

    def make(folder: Path, say: t.Callable[[str], None]) -> None:
        command = ["sh", "-c", "sleep 60 > /dev/null 2>&1 & echo $!"]
        child.append(int(binaries.run_build(command).stdout))

    binaries.built(cache / "one", make, lambda line: None)
    with (cache / "one.lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(child[0], signal.SIGKILL)
    assert binaries._locks == set()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIRT_PLACEMENT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What `up --nodes real` prints, where it fails."""
    monkeypatch.setattr("sys.argv", ["sandbox", "up", "--nodes", "real"])
    assert command.main() == 1
    return capsys.readouterr().err


def test_up_on_bad_ground_says_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert up(monkeypatch, capsys) == (
        "real nodes need root, for namespaces: this is user 1000; run it again as root\n"
    )
    assert not cache.exists()
    assert not layout.directory_of_owner("3-real-nodes-0-zones").exists()


def test_release_without_real_nodes_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(releases.VARIABLE, "1.31+1.4")
    assert up(monkeypatch, capsys) == "RELEASE 1.31+1.4 has no real nodes; 1.36+1.8 has\n"


def test_full_disk_is_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(folder: Path, say: t.Callable[[str], None]) -> None:
        (folder / "debian.tar").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "debian.tar"))

    monkeypatch.setattr(debian, "_build", fill)
    with pytest.raises(binaries.BinariesError) as failure:
        debian.build(lambda line: None)
    scratch = cache / f"{debian.target().name}.new"
    assert str(failure.value) == (
        f"the Debian of real nodes cannot be built: No space left on device: {scratch}/debian.tar"
    )
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_module_that_cannot_be_had_is_one_line_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'k8s.io/kubelet@v0.36.2: not found' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("VIRT_PLACEMENT_GO", str(go))
    with pytest.raises(binaries.BinariesError) as failure:
        programs.build(lambda line: None)
    first = str(failure.value).splitlines()[0]
    assert first.startswith("go build failed in ")
    assert first.endswith(": k8s.io/kubelet@v0.36.2: not found")
    assert [path for path in cache.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("mmdebstrap", "mmdebstrap failed: E: no space left on device"),
        ("dpkg-deb", "dpkg-deb failed: E: no space left on device"),
    ],
)
def test_debian_that_cannot_be_made_is_one_line_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, line: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mmdebstrap", "dpkg-deb"):
        failing = 'echo "W: a warning" >&2; echo "E: no space left on device" >&2; exit 1'
        (folder / name).write_text(
            f"#!/bin/sh\n{failing if name == program else 'touch $KERNEL_FOLDER/linux.deb'}\n"
        )
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv(debian.MIRROR, "http://mirror.example")
    with pytest.raises(binaries.BinariesError) as failure:
        debian.build(lambda line: None)
    assert str(failure.value) == line
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_mmdebstrap_that_cannot_be_had_is_one_line_with_what_to_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "apt-get").write_text(
        "#!/bin/sh\necho 'E: Unable to locate package mmdebstrap' >&2; exit 100\n"
    )
    (folder / "apt-get").chmod(0o755)
    programs_without = tmp_path / "programs"
    programs_without.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = programs_without / program.name
            if program.name not in ("mmdebstrap", "apt-get") and not link.is_symlink():
                link.symlink_to(program)
    monkeypatch.setenv("PATH", f"{folder}:{programs_without}")
    monkeypatch.setenv(debian.MIRROR, "http://mirror.example")
    with pytest.raises(binaries.BinariesError) as failure:
        debian.build(lambda line: None)
    assert str(failure.value).startswith("install mmdebstrap: ")
    assert "E: Unable to locate package mmdebstrap" in str(failure.value)
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_port_that_is_taken_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-I", "-S", network.__file__, str(tmp_path / "network"), str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"port {port} of 127.0.0.1 is taken: Address already in use; start the sandbox again, for other ports\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
def test_bridge_and_address_that_the_machine_has_are_not_in_the_way(tmp_path: Path) -> None:
    """The machine is a network namespace of the test, which has both already. Afterwards it has its own alone."""
    taken = f"ip link add {network.BRIDGE} type bridge; ip address add {network.ADDRESS}/24 dev {network.BRIDGE}"
    command = [sys.executable, "-I", "-S", network.__file__, str(tmp_path / "network"), "16999"]
    outside = [
        "unshare",
        "--net",
        "sh",
        "-ec",
        f'{taken}; ip link set lo up; "$@" & pid=$!; {WAIT}',
    ]
    done = subprocess.run([*outside, "sh", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == after and network.BRIDGE in before
