# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power supply of a node: boots it when the file ``power`` says on, and ends all of it when it says off.

A boot has new namespaces, empty control groups and a new bootID, and the disk of the boot before. What was done is in
the file ``state``: ``on 2`` after the second boot, ``off 2`` when nothing of it runs.

Standard library only, since it runs as a program:
``power.py DIRECTORY NODE NUMBER GROUPS NETWORK PROGRAMS IMAGES ROOT KEYS``.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

if __package__:
    from . import control_groups, network
else:  # as a program, whose folder is not on the path: -I
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import control_groups  # type: ignore[import-not-found,no-redef]
    import network  # type: ignore[import-not-found,no-redef]

ON, OFF = "on", "off"
BOOT = Path(__file__).resolve().parent / "machine" / "boot.sh"
_PR_SET_PDEATHSIG = 1
_NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup")
_libc = ctypes.CDLL(None)


class Supply:
    """The power of one node; `boots` counts its boots."""

    def __init__(self, directory: Path, node: str, number: int, groups: str) -> None:
        self.directory, self.node, self.number, self.groups = directory, node, number, groups
        self.boots = 0

    def wanted(self) -> str:
        """What the file `power` says."""
        return (self.directory / "power").read_text().strip()

    def report(self, state: str) -> None:
        """Replace the file `state`."""
        fresh = self.directory / "state.new"
        fresh.write_text(f"{state} {self.boots}")
        fresh.replace(self.directory / "state")

    def boot(self, *files: str) -> subprocess.Popen[bytes]:
        """Start the first process of the node, in groups and namespaces of its own."""
        self.boots += 1
        groups = control_groups.make(self.groups, self.node)

        def prepare() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            control_groups.join(groups)

        hierarchies = [
            "v2" if hierarchy.version == 2 else ",".join(hierarchy.controllers)
            for hierarchy in control_groups.hierarchies()
        ]
        addresses = [network.node_address(self.number), network.pod_range(self.number)]
        others = [n for n in range(1, network.MOST_NODES + 1) if n != self.number]
        routes = [f"{network.pod_range(n)}:{network.node_address(n)}" for n in others]
        environment = {
            "NODE": self.node,
            "NUMBER": str(self.number),
            "DIRECTORY": str(self.directory),
            "ADDRESS": addresses[0],
            "PODS": addresses[1],
            "GATEWAY": network.ADDRESS,
            "BRIDGE": network.BRIDGE,
            "ROUTES": " ".join(routes),
            "HIERARCHIES": " ".join(hierarchies),
            **dict(zip(("NETWORK", "PROGRAMS", "IMAGES", "ROOT", "KEYS"), files, strict=True)),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        command = ["unshare", *_NAMESPACES, "--fork", "--kill-child=KILL", "bash", str(BOOT)]
        machine = subprocess.Popen(command, env=environment, preexec_fn=prepare)
        while not (self.directory / "pid").exists() and machine.poll() is None:
            time.sleep(0.02)
        if machine.poll() is None:
            control_groups.step_aside(self.groups, machine.pid)
        return machine

    def cut(self, machine: subprocess.Popen[bytes]) -> None:
        """End the node at once, as a loss of power does; returns when its last process has ended."""
        machine.kill()
        machine.wait()
        control_groups.remove(self.groups, self.node)
        (self.directory / "pid").unlink(missing_ok=True)
        self.report(OFF)


def main(arguments: list[str]) -> t.NoReturn:
    directory, node, number, groups, *files = arguments
    supply = Supply(Path(directory), node, int(number), groups)
    machine: subprocess.Popen[bytes] | None = None
    while True:
        wanted = supply.wanted()
        if machine is None and wanted == ON:
            machine = supply.boot(*files)
            supply.report(ON)
        elif machine is not None and wanted == OFF:
            supply.cut(machine)
            machine = None
        elif machine is not None and machine.poll() is not None:
            sys.exit(f"{node} ended by itself with exit code {machine.returncode}")
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
