# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian of nodes, launcher pods and guests: made by mmdebstrap from the package source of this machine.

It has libvirt, QEMU, runc, the CNI plugins and a kernel for guests. mmdebstrap itself is taken from the same source
where it is not installed, and nothing is installed on the machine.
"""

from __future__ import annotations

import os
import shutil
import typing as t
from pathlib import Path

from ..binaries import BinariesError, Say, built, cache_root, digest_of, run_build

#: environment variable: the address of a Debian mirror, for a machine whose own packages are not Debian's
MIRROR = "VIRT_PLACEMENT_DEBIAN_MIRROR"
VIRTQEMUD = Path(__file__).parent / "machine" / "virtqemud.sh"

_SUITE = "trixie"
_PACKAGES: t.Final = (
    "busybox-static",
    "containernetworking-plugins",
    "iproute2",
    "libvirt-clients",
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "libvirt-daemon-log",
    "nftables",
    "procps",
    "qemu-system-x86",
    "qemu-utils",
    "runc",
)
_LEFT_OUT: t.Final = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
#: mmdebstrap runs it with the package lists of the new Debian
_DOWNLOAD_KERNEL: t.Final = (
    'export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; cd "$KERNEL_FOLDER" && '
    "apt-get -qq download \"$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \\(linux-image\\)/\\1/p'"
    ' | head -1)"'
)
#: KubeVirt runs QEMU as this user (cmd/virt-launcher/BUILD.bazel)
QEMU_USER: t.Final = "qemu:x:107:107:qemu:/home/qemu:/bin/bash"
QEMU_GROUP: t.Final = "qemu:x:107:"


class Debian(t.NamedTuple):
    """`tar` is the base of images, `root` the same with what a node needs beside it, `kernel` boots guests."""

    tar: Path
    root: Path
    kernel: Path


def target() -> Path:
    """Where it belongs; the name follows from how it is made."""
    files = [Path(__file__), VIRTQEMUD]
    return cache_root() / f"node-debian-{digest_of(files, Path(__file__).parent)}"


def build(say: Say) -> Debian:
    """Make what is missing; a minute the first time."""
    folder = built(target(), _build, say, "the Debian of real nodes")
    return Debian(folder / "debian.tar", folder / "root", folder / "vmlinuz")


def _build(folder: Path, say: Say) -> None:
    say(f"making a Debian ({_SUITE}) with libvirt and QEMU from its packages")
    scratch = folder / "scratch"
    (scratch / "lists" / "partial").mkdir(parents=True)
    (scratch / "cache").mkdir()
    (scratch / "kernel").mkdir()
    mirror = os.environ.get(MIRROR) or _mirror(scratch)
    _bootstrap(scratch, mirror, folder / "debian.tar")
    (package,) = (scratch / "kernel").glob("*.deb")
    _run("dpkg-deb", "-x", package, scratch / "kernel")
    (kernel,) = (scratch / "kernel" / "boot").glob("vmlinuz-*")
    shutil.move(kernel, folder / "vmlinuz")
    _extract(folder / "debian.tar", folder / "root")
    shutil.rmtree(scratch)


def _bootstrap(scratch: Path, mirror: str, tar: Path) -> None:
    own = _mmdebstrap(scratch)
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    _run(
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(_PACKAGES)}",
        *options,
        f"--customize-hook={_DOWNLOAD_KERNEL}",
        _SUITE,
        tar,
        mirror,
        PATH=f"{own}:{os.environ['PATH']}" if own else os.environ["PATH"],
        KERNEL_FOLDER=str(scratch / "kernel"),
        TMPDIR=str(scratch),
    )


def _mirror(scratch: Path) -> str:
    """The address of Debian's packages in the sources of this machine."""
    _apt(scratch, "update")
    wanted = ("Origin: Debian", "Label: Debian", "Created-By: Packages")
    lines = _apt(scratch, "indextargets", "--format", "$(REPO_URI)", *wanted).split()
    if not lines:
        raise BinariesError(f"this machine has no package source of Debian: set {MIRROR}")
    return min(lines)


def _mmdebstrap(scratch: Path) -> Path | None:
    """The folder of mmdebstrap and of the programs that it calls, None where it is installed."""
    if shutil.which("mmdebstrap"):
        return None
    try:
        if not any((scratch / "lists").glob("*_InRelease")):
            _apt(scratch, "update")
        _apt(scratch, "download", "mmdebstrap", "-o", "APT::Sandbox::User=root")
    except BinariesError as error:
        raise BinariesError(f"install mmdebstrap: it is not here, and {error}") from error
    (package,) = scratch.glob("mmdebstrap_*.deb")
    _run("dpkg-deb", "-x", package, scratch / "mmdebstrap")
    return scratch / "mmdebstrap" / "usr" / "bin"


def _apt(scratch: Path, *arguments: str) -> str:
    """apt-get with lists and a cache of its own: those of the machine stay as they are."""
    own = [f"Dir::State::Lists={scratch / 'lists'}", f"Dir::Cache={scratch / 'cache'}"]
    options = [word for setting in own for word in ("-o", setting)]
    return _run("apt-get", "-qq", *options, *arguments, folder=scratch)


def _extract(tar: Path, root: Path) -> None:
    """The file system of a node: KubeVirt's user, and the names by which its parts call each other."""
    root.mkdir()
    _run("tar", "-C", root, "-xf", tar)
    for name, line in (("passwd", QEMU_USER), ("group", QEMU_GROUP)):
        with (root / "etc" / name).open("a") as file:
            file.write(f"{line}\n")
    shutil.copy(VIRTQEMUD, root / "usr/sbin/virtqemud")
    (root / "usr/sbin/virtqemud").chmod(0o755)
    (root / "usr/libexec").mkdir(exist_ok=True)
    (root / "usr/libexec/virtqemud").symlink_to("../sbin/libvirtd")
    (root / "var/run").unlink()
    (root / "var/run").symlink_to("../run")
    (root / "usr/bin/virt-chroot").symlink_to("/opt/real/bin/virt-chroot")


def _run(*command: object, folder: Path | None = None, **variables: str) -> str:
    words = [str(word) for word in command]
    done = run_build(words, folder=folder, LC_ALL="C", **variables)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines()
        errors = [line for line in lines if not line.startswith("W:")]
        raise BinariesError(f"{command[0]} failed: {errors[0] if errors else 'no output'}")
    return done.stdout.decode()
