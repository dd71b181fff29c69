# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things are in the directory of one sandbox, and where its processes listen."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import hashlib
import json
import os
import random
import socket
import tempfile
from pathlib import Path

from . import installation, releases
from .pace import FAST
from .releases import Release

HOST = "127.0.0.1"
_STATE_FILE = "sandbox.json"
_PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kwok", "virt-api", "virt-controller")
# below the ports that the kernel hands out, so that no passing connection sits on one
_PORT_RANGE = range(20000, 32000)


def holds_sandbox(directory: Path) -> bool:
    """Whether a sandbox was made in this directory, running or not."""
    return (directory / _STATE_FILE).is_file()


class NoSandbox(LookupError):
    """There is no sandbox in this directory."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Paths and ports of one sandbox, which releases it runs, and how fast its nodes are."""

    directory: Path
    cluster: str
    ports: dict[str, int]
    programs: Path
    release: Release
    pace: str = FAST

    @classmethod
    def create(
        cls, directory: Path, cluster: str, programs: Path, release: Release, pace: str = FAST
    ) -> Layout:
        """Prepare an empty directory and choose free ports."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / "log").mkdir()
        layout = cls(directory, cluster, _free_ports(), programs, release, pace)
        state = {
            "cluster": cluster,
            "ports": layout.ports,
            "programs": str(programs),
            "release": release.name,
            "pace": pace,
        }
        (directory / _STATE_FILE).write_text(json.dumps(state))
        return layout

    @classmethod
    def read(cls, directory: Path) -> Layout:
        """The layout of a sandbox that was started in this directory."""
        try:
            state = json.loads((directory / _STATE_FILE).read_text())
        except FileNotFoundError:
            raise NoSandbox(f"no sandbox in {directory}") from None
        release = releases.find(state["release"])
        programs = Path(state["programs"])
        return cls(
            directory, state["cluster"], state["ports"], programs, release, state.get("pace", FAST)
        )

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return f"https://{HOST}:{self.ports['kube-apiserver']}"

    @property
    def pki(self) -> Path:
        """Folder of keys and certificates."""
        return self.directory / "pki"

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that signed the servers' certificates."""
        return self.pki / "ca.crt"

    @property
    def audit_log(self) -> Path:
        """Audit log of the API server, one JSON event a line."""
        return self.directory / "log" / "audit.jsonl"

    def kubeconfig(self, identity: str) -> Path:
        """Kubeconfig file of an identity."""
        return self.directory / f"{identity}.kubeconfig"

    def log(self, process: str) -> Path:
        """Output of a process."""
        return self.directory / "log" / f"{process}.log"


def root() -> Path:
    """Folder that holds the directories of all sandboxes for which none was named."""
    return Path(tempfile.gettempdir()) / f"virt-placement-sandbox-{getpass.getuser()}"


def directory_of_owner(cluster: str, owner: Path | None = None) -> Path:
    """The directory of a sandbox that one command starts and another ends. Two checkouts have two, so that neither
    ends the other's; likewise two working directories where the package is installed."""
    return root() / f"{cluster}-{_digest(owner)}"


def directories_of_owner(owner: Path | None = None) -> list[Path]:
    """The directories of all such sandboxes, running or not."""
    found = root().glob(f"*-{_digest(owner)}")
    return sorted(directory for directory in found if holds_sandbox(directory))


def _digest(owner: Path | None) -> str:
    path = os.fsencode(owner or installation.owner())
    return hashlib.sha256(path).hexdigest()[:8]


def own_directory(cluster: str) -> Path:
    """A directory that no other sandbox uses."""
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{cluster}-{os.getpid()}-", dir=root()))


def _free_ports() -> dict[str, int]:
    found: dict[str, int] = {}
    taken = _ports_of_others()
    for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found[_PORTS[len(found)]] = port
        if len(found) == len(_PORTS):
            return found
    raise OSError(f"no {len(_PORTS)} free ports in {_PORT_RANGE}")


def _ports_of_others() -> set[int]:
    """Ports that other sandboxes chose, which some of their processes may still be about to take."""
    ports: set[int] = set()
    for file in root().glob(f"*/{_STATE_FILE}"):
        with contextlib.suppress(FileNotFoundError, ValueError):  # just made, or just gone
            ports.update(json.loads(file.read_text())["ports"].values())
    return ports
