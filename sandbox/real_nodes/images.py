# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of pods, packed here as OCI archives that containerd imports on each node."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import tarfile
import typing as t
from pathlib import Path, PurePosixPath

from ..binaries import Say, built, cache_root
from . import debian, programs
from .debian import Debian

GUEST = Path(__file__).parent / "guest" / "init.sh"
#: struct vfs_cap_data: revision 2, effective, and cap_net_bind_service (10) permitted
_NET_BIND_SERVICE = "\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
_OCI = "application/vnd.oci.image"
_QEMU = 107
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: folders of Debian that are there already
_OF_DEBIAN = ("etc", "usr", "usr/bin", "usr/libexec", "usr/sbin", "var")


@dataclasses.dataclass(frozen=True)
class File:
    """A file of an image, or a link where `link` names its target. `capability` is that of security.capability."""

    content: bytes = b""
    mode: int = 0o755
    owner: int = 0
    link: str = ""
    capability: str = ""


Files = t.Mapping[str, File]


def target() -> Path:
    """Where they belong; the name follows from what they are made from."""
    digest = hashlib.sha256(f"{programs.target().name} {debian.target().name}".encode())
    for file in (Path(__file__), GUEST):
        digest.update(file.read_bytes())
    return cache_root() / f"node-images-{digest.hexdigest()[:16]}"


def build(system: Debian, binaries: Path, say: Say) -> Path:
    """Pack what is missing; seconds."""

    def pack(folder: Path, _say: Say) -> None:
        box = (system.root / "usr/bin/busybox").read_bytes()
        entry = ["/pause"]
        _pack(folder, "pause", {"pause": _program(binaries, "pause")}, entrypoint=entry)
        # what any workload may run: a shell and sleep
        links = {f"bin/{name}": File(link="busybox") for name in ("sh", "sleep")}
        _pack(folder, "busybox", {"bin/busybox": File(box), **links})
        _pack(folder, "disk", {"disk/disk.img": File(bytes(8 << 20), 0o644, _QEMU)})
        boot = {"vmlinuz": system.kernel.read_bytes(), "initrd.gz": _guest(box)}
        kernel = {f"boot/{name}": File(content, 0o644, _QEMU) for name, content in boot.items()}
        _pack(folder, "guest", kernel)
        launcher = ["/usr/bin/virt-launcher"]
        _pack(folder, "virt-launcher", _launcher(binaries), base=system.tar, entrypoint=launcher)

    return built(target(), pack, say, "the images of real nodes")


def _launcher(binaries: Path) -> Files:
    """What KubeVirt's own image has over its Debian (cmd/virt-launcher/BUILD.bazel)."""
    names = (
        "container-disk",
        "node-labeller.sh",
        "virt-freezer",
        "virt-launcher",
        "virt-probe",
        "virt-tail",
    )
    monitor = dataclasses.replace(
        _program(binaries, "virt-launcher-monitor"), capability=_NET_BIND_SERVICE
    )
    users = f"root:x:0:0:root:/root:/bin/bash\n{debian.QEMU_USER}\n"
    groups = f"root:x:0:\n{debian.QEMU_GROUP}\n"
    hook = dataclasses.replace(_program(binaries, "qemu-hook"), owner=_QEMU)
    return {
        **{f"usr/bin/{name}": _program(binaries, name) for name in names},
        "usr/bin/virt-launcher-monitor": monitor,
        "usr/sbin/virtqemud": File(debian.VIRTQEMUD.read_bytes()),
        "usr/libexec/virtqemud": File(link="../sbin/libvirtd"),
        "var/run": File(link="../run"),
        "etc/libvirt/qemu.conf": File((binaries / "qemu.conf").read_bytes(), 0o644),
        "etc/libvirt/virtqemud.conf": File((binaries / "virtqemud.conf").read_bytes(), 0o644),
        "etc/libvirt/hooks/qemu": hook,
        "etc/passwd": File(users.encode(), 0o644),
        "etc/group": File(groups.encode(), 0o644),
    }


def _program(binaries: Path, name: str) -> File:
    return File((binaries / name).read_bytes())


def _guest(busybox: bytes) -> bytes:
    """The guest's root file system: cpio's format newc (the kernel's Documentation/driver-api/early-userspace)."""
    entries = {
        "dev": (0o040755, b""),
        "proc": (0o040755, b""),
        "bin": (0o040755, b""),
        "bin/busybox": (0o100755, busybox),
        "bin/sh": (0o120777, b"busybox"),
        "init": (0o100755, GUEST.read_bytes()),
        "TRAILER!!!": (0, b""),
    }
    archive = bytearray()
    for number, (name, (mode, content)) in enumerate(entries.items(), 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        archive += bytes(-len(archive) % 4) + content
        archive += bytes(-len(archive) % 4)
    return gzip.compress(bytes(archive), 6, mtime=0)


def _pack(
    folder: Path,
    name: str,
    files: Files,
    *,
    base: Path | None = None,
    entrypoint: t.Sequence[str] = (),
) -> None:
    """Write an image layout (opencontainers/image-spec, image-layout.md) as one archive."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, t.Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {
            "mediaType": f"{_OCI}.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    contents = [*([base.read_bytes()] if base else []), _layer(files)]
    layers = [blob(content, "layer.v1.tar") for content in contents]
    config = {"Env": [_PATH], **({"Entrypoint": [*entrypoint]} if entrypoint else {})}
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": blob(json.dumps(image).encode(), "config.v1+json"),
        "layers": layers,
    }
    top = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    top["annotations"] = {"io.containerd.image.name": f"docker.io/library/{name}:latest"}
    index = {"schemaVersion": 2, "manifests": [top]}
    members = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
    }
    with tarfile.open(folder / f"{name}.tar", "w") as archive:
        for path, content in members.items():
            _add(archive, path, File(content, 0o644))


def _layer(files: Files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folders = {str(parent) for path in files for parent in PurePosixPath(path).parents}
        for path in sorted(folders - {".", *_OF_DEBIAN}):
            folder = tarfile.TarInfo(path)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for path, file in files.items():
            _add(archive, path, file)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, file: File) -> None:
    info = tarfile.TarInfo(path)
    if file.link:
        info.type, info.linkname = tarfile.SYMTYPE, file.link
    info.size, info.mode = len(file.content), file.mode
    info.uid = info.gid = file.owner
    if file.capability:
        info.pax_headers = {"SCHILY.xattr.security.capability": file.capability}
    archive.addfile(info, io.BytesIO(file.content))
