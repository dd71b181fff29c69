# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of nodes: one subtree of each hierarchy for a sandbox, and one group in it for each node.

A subtree is named after the process that holds the sandbox, so that what a killed one left can be told from what is in
use. Version 1 has a hierarchy for each controller, version 2 one for all; a host may mount both, and then the
controllers are those of version 1.

Standard library only, since it also runs as a program: ``control_groups.py remove NAME``.
"""

from __future__ import annotations

import contextlib
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
_V1, _V2 = "cgroup", "cgroup2"
_NEEDED: t.Final = ("cpu", "cpuset", "memory", "pids")
_TIMEOUT = 20.0


class GroupError(RuntimeError):
    """A control group cannot be made or removed."""


class Hierarchy(t.NamedTuple):
    """`controllers` as they are named at a mount: `cpu,cpuacct`, `name=systemd`; of version 2 all of them."""

    path: Path
    version: int
    controllers: tuple[str, ...]


def hierarchies(mountinfo: str | None = None) -> list[Hierarchy]:
    """Those of version 1 where controllers are there, else the one of version 2 (proc_pid_mountinfo(5))."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    found: dict[tuple[str, ...], Hierarchy] = {}
    unified = []
    for line in text.splitlines():
        fields = line.split()
        kind, _source, options = fields[fields.index("-") + 1 :][:3]
        path = Path(fields[4])
        if kind == _V1:
            names = tuple(name for name in options.split(",") if name not in ("rw", "ro", "xattr"))
            found.setdefault(names, Hierarchy(path, 1, names))
        elif kind == _V2:
            unified.append(path)
    if found or not unified:
        return list(found.values())
    file = unified[0] / "cgroup.controllers"
    controllers = tuple(file.read_text().split()) if file.exists() else ()
    return [Hierarchy(unified[0], 2, controllers)]


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
        _delegate(hierarchy.path)
        top.mkdir(exist_ok=True)
        _delegate(top)
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(MEMORY))
        return group
    group.mkdir(parents=True, exist_ok=True)
    if "cpuset" in hierarchy.controllers:  # of version 1: a new group has no processors
        for child in (top, group):
            for file in ("cpuset.cpus", "cpuset.mems"):
                (child / file).write_text((child.parent / file).read_text())
    if "memory" in hierarchy.controllers:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
    return group


def _delegate(group: Path) -> None:
    """Let groups below have all controllers that this one has."""
    present = (group / "cgroup.controllers").read_text().split()
    enabled = (group / "cgroup.subtree_control").read_text().split()
    if missing := [name for name in present if name not in enabled]:
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))


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
                if time.monotonic() > deadline:
                    raise GroupError(f"{folder} cannot be removed: {error.strerror}") from None
                time.sleep(0.05)


def sweep(alive: t.Callable[[int, int], bool]) -> list[str]:
    """Remove the subtrees of sandboxes whose process has ended; returns their names."""
    names = {
        path.name for hierarchy in hierarchies() for path in hierarchy.path.glob(f"{PREFIX}-*")
    }
    ended = []
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match and not alive(int(match[1]), int(match[2])):
            with contextlib.suppress(GroupError):
                remove(name)
                ended.append(name)
    return ended


if __name__ == "__main__":
    if sys.argv[1] == "remove":
        remove(sys.argv[2])
