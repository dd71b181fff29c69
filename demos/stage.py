# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the collection's playbooks on a sandbox, as a job template would, and checks what follows."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
import typing as t
from dataclasses import dataclass

import ansible_runner
import yaml

if t.TYPE_CHECKING:
    from sandbox import Sandbox

INVENTORY = "localhost ansible_connection=local"
TIMEOUT = 60
"""Seconds in which the cluster must come to rest after a step."""


class StepFailed(AssertionError):
    """What a step promised does not hold."""


@dataclass(frozen=True)
class PlayResult:
    rc: int
    changed: int
    stdout: str
    events: tuple[dict[str, t.Any], ...]


class Stage:
    """A sandbox with an identity that the playbooks run as."""

    def __init__(self, sandbox: Sandbox, namespace: str, *, quiet: bool = False) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self.quiet = quiet

    def say(self, text: str = "") -> None:
        if not self.quiet:
            print(text, flush=True)

    def play(
        self,
        playbook: str,
        variables: t.Mapping[str, t.Any],
        *,
        identity: str,
        check: bool = False,
        quiet: bool = False,
        inventory: str | dict[str, t.Any] = INVENTORY,
        cancel: t.Callable[[], bool] | None = None,
    ) -> PlayResult:
        """Run `virt.placement.PLAYBOOK`, or a file, with extra vars; the output streams to the
        terminal. The job is canceled as soon as `cancel` is true, as job engines cancel: with SIGKILL."""
        with tempfile.TemporaryDirectory(prefix="virt-placement-play-") as folder:
            run = ansible_runner.run(
                private_data_dir=folder,
                playbook=playbook if playbook.endswith(".yml") else f"virt.placement.{playbook}",
                inventory=inventory,
                extravars=dict(variables),
                cmdline="--check --diff" if check else None,
                envvars={**_environment(), "KUBECONFIG": str(self.sandbox.kubeconfig(identity))},
                quiet=self.quiet or quiet,
                timeout=600,
                cancel_callback=cancel,
            )
            return PlayResult(
                run.rc,
                sum((run.stats or {}).get("changed", {}).values()),
                run.stdout.read(),
                tuple(run.events),
            )

    def play_twice(
        self, playbook: str, variables: t.Mapping[str, t.Any], *, identity: str
    ) -> PlayResult:
        """Run a playbook, wait for rest, run it again: the second run must change nothing, with no
        write in the API server's audit log."""
        first = self.play(playbook, variables, identity=identity)
        check(first.rc == 0, f"playbook {playbook} ended with rc {first.rc}")
        mark = self.sandbox.audit.mark()
        second = self.play(playbook, variables, identity=identity, quiet=True)
        check(second.rc == 0, f"second run of {playbook} ended with rc {second.rc}")
        check(second.changed == 0, f"second run of {playbook} changed {second.changed} task(s)")
        writes = self.sandbox.audit.writes(since=mark)
        check(not writes, f"second run of {playbook} wrote: {writes}")
        self.say("  ok: a second run changes nothing; the audit log holds no write")
        return first

    def until(self, seen: t.Callable[[], t.Any], expected: t.Any, what: str) -> None:
        """Wait until `seen()` equals `expected`; StepFailed with what was seen otherwise."""
        deadline = time.monotonic() + TIMEOUT
        while (value := seen()) != expected:
            if time.monotonic() > deadline:
                raise StepFailed(f"{what}: expected {expected}, saw {value}")
            time.sleep(0.2)
        self.say(f"  ok: {what}")


def rows(output: str) -> int:
    """The rows that an output takes on a terminal of 120 columns."""
    return sum(-(-len(line) // 120) or 1 for line in output.splitlines())


def check(holds: object, message: str) -> None:
    """StepFailed with `message` where `holds` is false."""
    if not holds:
        raise StepFailed(message)


def variables(folder: pathlib.Path, name: str) -> dict[str, t.Any]:
    """Extra vars from a file of a demo."""
    return t.cast("dict[str, t.Any]", yaml.safe_load((folder / name).read_text()))


def _environment() -> dict[str, str]:
    """The caller's environment without anything that points at another cluster."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("K8S_AUTH_")}
    kept.pop("KUBECONFIG", None)
    return {**kept, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "false"}
