# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One real node: its power, its services, and commands on it."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import time
import typing as t
from pathlib import Path

from ..processes import is_running
from .power import OFF, ON

Service = t.Literal["containerd", "kubelet", "virt-handler"]
_NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd")
_PATH = "/opt/real/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT = 300.0


class NodeError(RuntimeError):
    """A node did not do what was asked; the message names it and its log."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A node by the folder of its disk, its power and its state."""

    name: str
    directory: Path

    def power_off(self) -> None:
        """A loss of power: all processes of the node end at once. Its disk stays."""
        self._set_power(OFF)

    def power_on(self) -> None:
        """A boot with a new bootID, by the disk as it was; returns when its first process runs."""
        self._set_power(ON)

    def is_on(self) -> bool:
        """Whether the node is booted."""
        return self._state().startswith(ON)

    def stop(self, *services: Service) -> None:
        """Kill services, which do not start again; pods and guests of the node go on."""
        for service in services:
            killed = f'touch /run/real/{service}.stopped; kill -9 "$(cat /run/real/{service}.pid)"'
            self.run("sh", "-c", killed)

    def start(self, *services: Service) -> None:
        """Let stopped services start, which takes a second."""
        self.run("rm", "-f", *(f"/run/real/{service}.stopped" for service in services))

    @contextlib.contextmanager
    def slow_network(self, megabits: int) -> t.Iterator[None]:
        """The node sends no faster meanwhile: a migration from it takes as long as its memory needs."""
        limit = ["rate", f"{megabits}mbit", "burst", "64kb", "latency", "400ms"]
        self.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        try:
            yield
        finally:
            self.run("tc", "qdisc", "delete", "dev", "eth0", "root")

    def run(self, *command: str, timeout: float = _TIMEOUT) -> str:
        """What a command on the node prints; NodeError where it fails, or has not ended in time."""
        try:
            done = subprocess.run(
                [*self.entry(), *command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise NodeError(
                f"{self.name}: {' '.join(command)} has not ended after {timeout:g} s"
            ) from None
        if done.returncode:
            raise NodeError(f"{self.name}: {' '.join(command)}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def entry(self) -> list[str]:
        """The words that run a command on the node when they stand before it; NodeError where it does not run: its
        process ID may be that of any other process by now."""
        file = self.directory / "pid"
        pid, started = map(int, file.read_text().split()) if file.exists() else (0, 0)
        if not is_running(pid, started):
            raise NodeError(
                f"{self.name} does not run: no command can run on it; power it on first"
            )
        return ["nsenter", f"--target={pid}", *_NAMESPACES, "env", "-i", f"PATH={_PATH}"]

    def log(self, service: Service) -> Path:
        """What a service printed, boot after boot."""
        return self.directory / "upper" / "var" / "log" / f"{service}.log"

    def _state(self) -> str:
        file = self.directory / "state"
        return file.read_text() if file.exists() else OFF

    def _set_power(self, wanted: str) -> None:
        (self.directory / "power").write_text(wanted)
        deadline = time.monotonic() + _TIMEOUT
        while not self._state().startswith(wanted):
            if time.monotonic() > deadline:
                raise NodeError(f"{self.name} is not {wanted} after {_TIMEOUT:g} s")
            time.sleep(0.05)
