# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of nodes: one subtree of each hierarchy for a sandbox, and one group in it for each node.

A subtree is named after the process that holds the sandbox, so that what a killed one left can be told from what is in
use. Version 1 has a hierarchy for each controller, version 2 one for all; a host may mount both, and then the
controllers are those of version 1.

Groups have the controllers that a kubelet needs. Of version 2 the root may give its groups fewer: what a sandbox adds
there has a group of its own that names it, and the last sandbox takes it away again.

Standard library only, since it also runs as a program: ``control_groups.py remove NAME``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import sys
import time
import typing as t
from pathlib import Path

PREFIX = "virt-placement"
MEMORY = 4 << 30
"""Bytes that a node has at most, with its guests."""

_NAME = re.compile(rf"{PREFIX}-(\d+)-(\d+)")
_ADDED = f"{PREFIX}-added-"
_V1, _V2 = "cgroup", "cgroup2"
_NEEDED: t.Final = ("cpu", "cpuset", "memory", "pids")
_TIMEOUT = 300.0


class GroupError(RuntimeError):
    """A control group cannot be made or removed."""


class Hierarchy(t.NamedTuple):
    """`controllers` as they are named at a mount: `cpu,cpuacct`, `name=systemd`; of version 2 all of them."""

    path: Path
    version: int
    controllers: tuple[str, ...]


def hierarchies(mountinfo: str | None = None, controllers: str | None = None) -> list[Hierarchy]:
    """Those of version 1 where controllers are there, else the one of version 2 (proc_pid_mountinfo(5)). `controllers`
    is the text of /proc/cgroups, which tells a controller from an option of the mount."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    table = first_controllers() if controllers is None else controllers
    known = {line.split()[0] for line in table.splitlines() if not line.startswith("#")}
    found: dict[tuple[str, ...], Hierarchy] = {}
    unified = []
    for line in text.splitlines():
        fields = line.split()
        kind, _source, options = fields[fields.index("-") + 1 :][:3]
        path = Path(fields[4])
        if kind == _V1:
            words = options.split(",")
            names = tuple(word for word in words if word in known or word.startswith("name="))
            found.setdefault(names, Hierarchy(path, 1, names))
        elif kind == _V2:
            unified.append(path)
    if not unified or any(name in known for names in found for name in names):
        return list(found.values())
    file = unified[0] / "cgroup.controllers"
    present = tuple(file.read_text().split()) if file.exists() else ()
    return [Hierarchy(unified[0], 2, present)]


def first_controllers() -> str:
    """/proc/cgroups, the controllers of version 1: a kernel without these may have no such file."""
    try:
        return Path("/proc/cgroups").read_text()
    except FileNotFoundError:
        return ""


def lacking(mounted: t.Iterable[Hierarchy]) -> list[str]:
    """The controllers that a kubelet needs and that no hierarchy has."""
    present = {name for hierarchy in mounted for name in hierarchy.controllers}
    return sorted({*_NEEDED} - present)


def name_of(pid: int, started: int) -> str:
    """The subtree of the sandbox that this process holds."""
    return f"{PREFIX}-{pid}-{started}"


def make(name: str, node: str) -> list[Path]:
    """The groups of a node, empty, with its share of memory."""
    return [_make_in(hierarchy, name, node) for hierarchy in hierarchies()]


def _make_in(hierarchy: Hierarchy, name: str, node: str) -> Path:
    top = hierarchy.path / name
    group = top / node
    if hierarchy.version == 2:
        with _locked(hierarchy.path):
            _enable_in_root(hierarchy.path)
            top.mkdir(exist_ok=True)
            _enable(top, _NEEDED)
        group.mkdir(exist_ok=True)
        _write(group / "memory.max", str(MEMORY))
        return group
    group.mkdir(parents=True, exist_ok=True)
    if "cpuset" in hierarchy.controllers:  # of version 1: a new group has no processors
        for child in (top, group):
            for file in ("cpuset.cpus", "cpuset.mems"):
                _write(child / file, (child.parent / file).read_text())
    if "memory" in hierarchy.controllers:
        _write(group / "memory.limit_in_bytes", str(MEMORY))
    return group


@contextlib.contextmanager
def _locked(root: Path) -> t.Iterator[None]:
    """One sandbox at a time changes the controllers of the root."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _enable_in_root(root: Path) -> None:
    enabled = (root / "cgroup.subtree_control").read_text().split()
    for name in _NEEDED:
        if name not in enabled:
            (root / f"{_ADDED}{name}").mkdir(exist_ok=True)
            _enable(root, [name])


def _enable(group: Path, controllers: t.Iterable[str]) -> None:
    """Let groups below have these controllers."""
    _write(group / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))


def _write(file: Path, text: str) -> None:
    """An error names the file, which that of a write does not."""
    try:
        file.write_text(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None


def _take_back(root: Path) -> None:
    """Remove from the root of version 2 what sandboxes have added, after the last of them. A controller that the kernel
    keeps is in use by groups of others meanwhile, and theirs."""
    with _locked(root):
        if any(_NAME.fullmatch(path.name) for path in root.glob(f"{PREFIX}-*")):
            return
        for added in root.glob(f"{_ADDED}*"):
            try:
                _write(root / "cgroup.subtree_control", f"-{added.name[len(_ADDED) :]}")
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
            added.rmdir()


def join(groups: t.Iterable[Path]) -> None:
    """Move this process into groups."""
    for group in groups:
        (group / "cgroup.procs").write_text("0")


def step_aside(name: str, pid: int) -> None:
    """Move a process that is outside of the node out of the node's group. In version 2 a group that has processes can
    give no controllers to groups below, which the kubelet needs; the node's namespace begins at its group all the same.
    """
    for hierarchy in hierarchies():
        if hierarchy.version == 2:
            aside = hierarchy.path / name / "outside"
            aside.mkdir(exist_ok=True)
            (aside / "cgroup.procs").write_text(str(pid))


def remove(name: str, node: str = "") -> None:
    """Remove the groups of a node, or the whole subtree; waits until the last process of them has ended."""
    for hierarchy in hierarchies():
        _remove_tree(hierarchy.path / name / node)
        if hierarchy.version == 2 and not node:
            _take_back(hierarchy.path)


def _remove_tree(top: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    for folder, _names, _files in sorted(os.walk(top), reverse=True):
        while True:
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise GroupError(f"{folder} cannot be removed: {error.strerror}") from None
                time.sleep(0.05)


def sweep(alive: t.Callable[[int, int], bool]) -> list[str]:
    """Remove the subtrees of sandboxes whose process has ended; returns their names. One with processes stays: they are
    ending, or their sandbox is in another PID namespace, where its process has another number."""
    if os.geteuid():
        return []
    names = {
        path.name for hierarchy in hierarchies() for path in hierarchy.path.glob(f"{PREFIX}-*")
    }
    ended = []
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match and not alive(int(match[1]), int(match[2])) and not _has_processes(name):
            with contextlib.suppress(GroupError):
                remove(name)
                ended.append(name)
    return ended


def _has_processes(name: str) -> bool:
    for hierarchy in hierarchies():
        for file in (hierarchy.path / name).rglob("cgroup.procs"):
            with contextlib.suppress(FileNotFoundError):
                if file.read_text().strip():
                    return True
    return False


if __name__ == "__main__":
    if sys.argv[1] == "remove":
        remove(sys.argv[2])
