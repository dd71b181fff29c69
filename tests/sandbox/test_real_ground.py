# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad ground for real nodes: one line for each thing that is missing, and nothing left."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import os
import typing as t
from pathlib import Path

import pytest

from sandbox import __main__ as command
from sandbox import binaries, cluster_file, layout, releases
from sandbox.cluster_file import ClusterFileError
from sandbox.real_nodes import control_groups, debian, ground, programs
from sandbox.real_nodes.control_groups import Hierarchy
from sandbox.real_nodes.ground import GIB, TO_BUILD, TO_RUN, Ground

CACHE, SANDBOXES = Path("/cache"), Path("/sandboxes")
GOOD = Ground(
    system="Linux",
    machine="x86_64",
    user=0,
    is_built=False,
    programs={*TO_RUN, *TO_BUILD},
    lacking_controllers=(),
    read_only_groups="",
    trial="",
    cache=CACHE,
    cache_free=10 * GIB,
    sandboxes=SANDBOXES,
    sandboxes_free=10 * GIB,
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
            "real nodes need 3.0 GiB of disk below /cache: 1.0 GiB are free; make room there",
        ),
        (
            {"sandboxes_free": GIB},
            "real nodes need 5.5 GiB of disk below /sandboxes: 1.0 GiB are free; make room there",
        ),
        (
            {"memory": GIB},
            "real nodes need 4.0 GiB of memory: 1.0 GiB are available; end other programs",
        ),
        (
            {"inotify": (100, 128)},
            "real nodes need 64 instances of inotify: 100 of 128 are in use; end other sandboxes, or raise "
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
    shared = dataclasses.replace(GOOD, sandboxes=CACHE, cache_free=6 * GIB, sandboxes_free=6 * GIB)
    assert ground.lacking(shared) == [
        "real nodes need 8.5 GiB of disk below /cache: 6.0 GiB are free; make room there"
    ]


V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / {unified} rw,relatime - cgroup2 cgroup2 rw
"""


def test_hierarchies_of_version_1_come_before_an_empty_one_of_version_2(tmp_path: Path) -> None:
    found = control_groups.hierarchies(V1.format(unified=tmp_path))
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


def test_groups_of_ended_sandboxes_are_swept_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        control_groups, "hierarchies", lambda: [Hierarchy(tmp_path, 1, ("memory",))]
    )
    ended, running = control_groups.name_of(7, 1), control_groups.name_of(8, 2)
    for name in (f"{ended}/w1/kubepods", f"{running}/w1", "virt-placement-trial-7", "user.slice"):
        (tmp_path / name).mkdir(parents=True)
    assert control_groups.sweep(lambda pid, _started: pid == 8) == [ended]
    assert {path.name for path in tmp_path.iterdir()} == {
        running,
        "virt-placement-trial-7",
        "user.slice",
    }


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
