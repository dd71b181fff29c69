# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine lacks for real nodes: one line for each thing, with what to do."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import re
import shutil
import subprocess
import tempfile
import typing as t
from pathlib import Path

from .. import layout, processes
from ..binaries import cache_root
from . import control_groups, debian, images, programs

#: program to the package of Debian that has it
TO_RUN: t.Final = {
    "bash": "bash",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
#: and what else is needed until the files of nodes are built
TO_BUILD: t.Final = {
    "apt-get": "apt",
    "cc": "gcc",
    "dpkg-deb": "dpkg",
    "perl": "perl",
    "tar": "tar",
}
GIB: t.Final = 1 << 30
BUILT_SIZE = 3 * GIB
"""What the cache must have free until the files of nodes are built."""

NODE_SIZE, CONTROL_PLANE_SIZE = 3 * GIB // 2, GIB
"""Disk of a node and of the control plane, which both keep all in the folder of the sandbox."""

NODE_MEMORY, CONTROL_PLANE_MEMORY = GIB, 3 * GIB // 2
"""Memory of a node with a few guests of 128 MiB, and of the control plane."""

NODE_INOTIFY, CONTROL_PLANE_INOTIFY = 16, 16
"""What the parts of a node and of the control plane watch files with: instances of inotify, which a user has few of."""

#: what a node and the bridge do; it ends with the first command that fails
_TRIAL = """set -e
mount -t overlay overlay -o lowerdir="$1/low",upperdir="$1/up",workdir="$1/work" "$1/root"
ip link add br-trial type bridge
ip link add trial0 type veth peer name trial1
mount -t proc proc "$1/low"
"""


class GroundError(RuntimeError):
    """Real nodes cannot run here; the message has a line for each thing that is missing."""


@dataclasses.dataclass(frozen=True)
class Ground:
    """What matters of a machine. Sizes are in bytes, `inotify` are instances in use and allowed, and `trial` is the
    error of a trial node, empty where it works. `debian` is empty where packages are Debian's, else what this machine
    is. `one_disk`: the cache and the sandboxes are on the same."""

    system: str
    machine: str
    user: int
    is_built: bool
    programs: t.Collection[str]
    debian: str
    lacking_controllers: t.Sequence[str]
    read_only_groups: str
    trial: str
    cache: Path
    cache_free: int
    sandboxes: Path
    sandboxes_free: int
    one_disk: bool
    memory: int
    inotify: tuple[int, int]


def lacking(ground: Ground, nodes: int = 3) -> list[str]:
    """What is missing, a line each; what cannot be tried before something else is there is left out."""
    if (ground.system, ground.machine) != ("Linux", "x86_64"):
        return [
            f"real nodes need Linux on x86_64: this is {ground.system} on {ground.machine}; use simulated nodes here"
        ]
    if ground.user:
        return [
            f"real nodes need root, for namespaces: this is user {ground.user}; run it again as root"
        ]
    return [*_missing_programs(ground), *_missing_kernel(ground), *_missing_room(ground, nodes)]


def _missing_programs(ground: Ground) -> t.Iterator[str]:
    needed = TO_RUN if ground.is_built else {**TO_RUN, **TO_BUILD}
    for program, package in needed.items():
        if program not in ground.programs:
            yield f"real nodes need the program {program}: it is not in PATH; install the package {package}"
    if ground.debian and not ground.is_built:
        yield (
            f"real nodes need packages of Debian: this is {ground.debian}; set {debian.MIRROR} to the address of a "
            "mirror"
        )


def _missing_kernel(ground: Ground) -> t.Iterator[str]:
    if ground.lacking_controllers:
        names = ", ".join(ground.lacking_controllers)
        yield f"real nodes need control groups: no controller {names} is mounted; mount it below /sys/fs/cgroup"
    elif ground.read_only_groups:
        yield (
            f"real nodes need control groups of their own: {ground.read_only_groups}; let this container write them, "
            "or run outside of it"
        )
    if ground.trial and not {*TO_RUN} - {*ground.programs}:
        yield (
            f"real nodes need namespaces, overlayfs, bridge and veth: a trial ended with '{ground.trial}'; "
            "load the kernel's module, or run outside of this container"
        )


def _missing_room(ground: Ground, nodes: int) -> t.Iterator[str]:
    yield from _missing_disk(ground, nodes)
    memory = CONTROL_PLANE_MEMORY + nodes * NODE_MEMORY
    if ground.memory < memory:
        yield (
            f"{nodes} real nodes need {_gib(memory)} of memory: {_gib(ground.memory)} are available; end other "
            "programs, or start fewer nodes"
        )
    used, allowed = ground.inotify
    needed = CONTROL_PLANE_INOTIFY + nodes * NODE_INOTIFY
    if allowed - used < needed:
        yield (
            f"{nodes} real nodes need {needed} instances of inotify: {used} of {allowed} are in use; end other "
            "sandboxes, or raise fs.inotify.max_user_instances"
        )


def _missing_disk(ground: Ground, nodes: int) -> t.Iterator[str]:
    built = 0 if ground.is_built else BUILT_SIZE
    sandboxes = CONTROL_PLANE_SIZE + nodes * NODE_SIZE
    wanted = (
        [(f"{ground.cache} and {ground.sandboxes}", built + sandboxes, ground.sandboxes_free)]
        if built and ground.one_disk
        else [
            (f"{ground.cache}", built, ground.cache_free),
            (f"{ground.sandboxes}", sandboxes, ground.sandboxes_free),
        ]
    )
    for folder, size, free in wanted:
        if free < size:
            yield (
                f"{nodes} real nodes need {_gib(size)} of disk below {folder}: {_gib(free)} are free; make room there"
            )


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def check(nodes: int = 3) -> None:
    """GroundError with all that is missing here."""
    if lines := lacking(survey(), nodes):
        raise GroundError("\n".join(lines))


def survey() -> Ground:
    """The facts of this machine. A trial node is made and ends, and leaves nothing."""
    is_root = platform.system() == "Linux" and os.geteuid() == 0
    mounted = control_groups.hierarchies() if is_root else []
    cache, sandboxes = _existing(cache_root()), _existing(layout.root())
    places = (programs.target(), debian.target(), images.target())
    return Ground(
        system=platform.system(),
        machine=platform.machine(),
        user=os.geteuid(),
        is_built=all(place.is_dir() for place in places),
        programs={name for name in {**TO_RUN, **TO_BUILD} if shutil.which(name)},
        debian=_other_system(),
        lacking_controllers=control_groups.lacking(mounted) if is_root else (),
        read_only_groups=_try_groups() if is_root else "",
        trial=_try_namespaces(sandboxes) if is_root else "",
        cache=cache,
        cache_free=shutil.disk_usage(cache).free,
        sandboxes=sandboxes,
        sandboxes_free=shutil.disk_usage(sandboxes).free,
        one_disk=cache.stat().st_dev == sandboxes.stat().st_dev,
        memory=_available_memory(),
        inotify=_inotify() if is_root else (0, 0),
    )


def _existing(folder: Path) -> Path:
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _other_system() -> str:
    """What this machine is, where neither it nor a mirror has packages of Debian."""
    if os.environ.get(debian.MIRROR):
        return ""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return "a system without /etc/os-release"
    return "" if system["ID"] == "debian" else system["PRETTY_NAME"]


def _try_groups() -> str:
    """Why the groups of a node cannot be made, empty where they can."""
    own = processes.record(os.getpid())
    assert own is not None
    name = control_groups.name_of(own["pid"], own["started"])
    try:
        control_groups.make(name, "trial")
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    finally:
        with contextlib.suppress(OSError, control_groups.GroupError):
            control_groups.remove(name)
    return ""


def _try_namespaces(folder: Path) -> str:
    """The error of a trial in namespaces of its own, empty where it works."""
    if not {"unshare", "ip", "mount"} <= {name for name in TO_RUN if shutil.which(name)}:
        return ""
    with tempfile.TemporaryDirectory(prefix="trial-", dir=folder) as scratch:
        for name in ("low", "up", "work", "root"):
            Path(scratch, name).mkdir()
        namespaces = ["--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--fork"]
        command = ["unshare", *namespaces, "sh", "-c", _TRIAL, "trial", scratch]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[0] if done.returncode else ""


def _inotify(processes_of: Path = Path("/proc")) -> tuple[int, int]:
    """The instances that processes of this user use, and how many a user may have."""
    used = 0
    for process in processes_of.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.geteuid():
                used += sum(_is_inotify(file) for file in (process / "fd").iterdir())
    return used, int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())


def _is_inotify(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor) == "anon_inode:inotify"
    except OSError:
        return False


def _available_memory() -> int:
    match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return int(match[1]) * 1024 if match else 0
