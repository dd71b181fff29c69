# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a node and of its pods, from pinned Go modules and a little C.

``sandbox/go`` has the pins. The stub in ``sandbox/go/libnbd`` stands for libguestfs.org/libnbd, which no module proxy
serves: virt-launcher reads changed blocks of a backup with it, and nothing else.
"""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

from ..binaries import (
    GO_MODULES,
    BinariesError,
    Say,
    build_programs,
    built,
    cache_root,
    digest_of,
    go_build,
    run_build,
    run_go,
)
from ..releases import DEFAULT

PAUSE = Path(__file__).with_name("pause.c")
_MODULES = ("kubernetes", "containerd", "kubevirt-node", "libnbd")

_CONTAINERD: t.Final = {
    f"github.com/containerd/containerd/v2/cmd/{name}": name
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
}
_KUBEVIRT: t.Final = {
    f"kubevirt.io/kubevirt/cmd/{name}": name
    for name in ("virt-chroot", "virt-freezer", "virt-launcher-monitor", "virt-probe", "virt-tail")
}
#: they have parts in C; libvirt is opened when they run
_KUBEVIRT_C: t.Final = {
    f"kubevirt.io/kubevirt/cmd/{name}": name for name in ("virt-handler", "virt-launcher")
}

#: files of KubeVirt's module that its images hold, by their name here
_SOURCES: t.Final = {
    "node-labeller.sh": "virt-launcher/node-labeller/node-labeller.sh",
    "qemu.conf": "virt-launcher/qemu.conf",
    "virtqemud.conf": "virt-launcher/virtqemud.conf",
    "qemu-hook": "virt-launcher/qemu",
}


def target() -> Path:
    """Where they belong; the name follows from what they are built from."""
    files = [file for module in _MODULES for file in (GO_MODULES / module).glob("go.*")]
    files += [GO_MODULES / "libnbd" / "libnbd.go", PAUSE, Path(__file__)]
    return cache_root() / f"node-programs-{digest_of(files, GO_MODULES.parent)}"


def build(say: Say) -> Path:
    """Build what is missing; minutes the first time."""
    return built(target(), go_build(_build), say, "the programs of real nodes")


def _build(go: Path, folder: Path, say: Say) -> None:
    say("building kubelet (minutes the first time)")
    version = f"-X k8s.io/component-base/version.gitVersion=v{DEFAULT.kubernetes}"
    kubelet = {"k8s.io/kubernetes/cmd/kubelet": "kubelet"}
    build_programs(go, "kubernetes", kubelet, folder, variables=version)
    say(f"building {', '.join(_CONTAINERD.values())}")
    build_programs(go, "containerd", _CONTAINERD, folder)
    say(f"building {', '.join([*_KUBEVIRT.values(), *_KUBEVIRT_C.values()])}")
    build_programs(go, "kubevirt-node", _KUBEVIRT, folder)
    tags = ["-tags", "libvirt_dlopen"]
    build_programs(go, "kubevirt-node", _KUBEVIRT_C, folder, tags, cgo=True)
    listed = run_go(go, "kubevirt-node", ["list", "-m", "-f", "{{.Dir}}", "kubevirt.io/kubevirt"])
    source = Path(listed.decode().strip()) / "cmd"
    for name, path in _SOURCES.items():
        shutil.copyfile(source / path, folder / name)
    _compile(PAUSE, folder / "pause")
    _compile(source / "container-disk-v2alpha" / "main.c", folder / "container-disk")


def _compile(source: Path, program: Path) -> None:
    command = ["cc", "-O2", "-static", "-w", "-o", str(program), str(source)]
    done = run_build(command)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() or ["no output"]
        raise BinariesError(f"cc failed for {source.name}: {lines[0]}")
