# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the collection's playbooks on a sandbox, as a job template would, and checks what follows."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import time
import typing as t
from dataclasses import dataclass

import ansible_runner
import yaml

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

    def printed(self, task: str, host: str = "localhost") -> list[str]:
        """The lines of a host below the banner of a task."""
        lines, banner = [], ""
        for event in self.events:
            if event["event"] == "playbook_on_task_start":
                banner = event["event_data"]["task"]
            elif event["event"] == "verbose" and banner == task:
                lines += event["stdout"].splitlines()
        prefix = f"[{host}] "
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]

    def failure(self) -> list[str]:
        """The lines of the last task that failed."""
        failed = [e["event_data"] for e in self.events if e["event"] == "runner_on_failed"]
        return self.printed(failed[-1]["task"], failed[-1]["host"])


class Stage:
    """A sandbox on which playbooks run, each as an identity; and how many of the runs changed something."""

    def __init__(
        self, sandbox: Sandbox, namespace: str, *, quiet: bool = False, timeout: float = TIMEOUT
    ) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self.quiet = quiet
        self.timeout = timeout
        self.plays = 0

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
        timeout: int = 600,
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
                timeout=timeout,
                cancel_callback=cancel,
            )
            changed = sum((run.stats or {}).get("changed", {}).values())
            self.plays += bool(changed) and not check
            output = run.stdout.read()
            if run.rc and (self.quiet or quiet):
                print(output)  # which pytest shows with a step that fails
            return PlayResult(run.rc, changed, output, tuple(run.events))

    def play_twice(
        self, playbook: str, variables: t.Mapping[str, t.Any], *, identity: str
    ) -> PlayResult:
        """Run a playbook, wait for rest, run it again: the second run must change nothing, with no
        write in the API server's audit log."""
        first = self.play(playbook, variables, identity=identity)
        check(first.rc == 0, f"playbook {playbook} ended with rc {first.rc}")
        self.play_again(playbook, variables, identity=identity)
        return first

    def play_again(self, playbook: str, variables: t.Mapping[str, t.Any], *, identity: str) -> None:
        """Run a playbook that must change nothing, with no write in the API server's audit log."""
        mark = self.sandbox.audit.mark()
        again = self.play(playbook, variables, identity=identity, quiet=True)
        check(again.rc == 0, f"second run of {playbook} ended with rc {again.rc}")
        check(again.changed == 0, f"second run of {playbook} changed {again.changed} task(s)")
        writes = self.sandbox.audit.writes(since=mark)
        check(not writes, f"second run of {playbook} wrote: {writes}")
        self.say("  ok: a second run changes nothing; the audit log holds no write")

    def play_refused(
        self, playbook: str, variables: t.Mapping[str, t.Any], *texts: str, identity: str
    ) -> PlayResult:
        """Run a playbook that has to fail, with these texts and without a write."""
        mark = self.sandbox.audit.mark()
        result = self.play(playbook, variables, identity=identity)
        check(result.rc != 0, f"playbook {playbook} was not refused")
        for text in texts:
            check(text in result.stdout, f"the refusal does not say: {text}")
        writes = self.sandbox.audit.writes(since=mark)
        check(not writes, f"playbook {playbook} was refused and wrote: {writes}")
        return result

    def until(self, seen: t.Callable[[], t.Any], expected: t.Any, what: str) -> None:
        """Wait until `seen()` equals `expected`; StepFailed with what was seen otherwise."""
        deadline = time.monotonic() + self.timeout
        while (value := seen()) != expected:
            if time.monotonic() > deadline:
                raise StepFailed(f"{what}: expected {expected}, saw {value}")
            time.sleep(0.2)
        self.say(f"  ok: {what}")


class System(t.Protocol):
    """The module `steps` of a demo. It may have `beside(sandbox)`, a context manager with what its system runs
    beside a control plane; a TIMEOUT in place of that of this file; and PUBLISHED, what the published text takes."""

    CLUSTER: str
    NAMESPACE: str
    COLUMNS: dict[str, str]
    STEPS: tuple[Step, ...]


class Step(t.Protocol):
    """A step with its proof, that others than a demo can run, too."""

    __name__: str

    def __call__(self, stage: Stage) -> None:
        raise NotImplementedError


@contextlib.contextmanager
def opened(system: System, *, quiet: bool = False) -> t.Iterator[Stage]:
    """A sandbox with the cluster of a system, and what the system runs beside it."""
    beside = getattr(system, "beside", lambda sandbox: contextlib.nullcontext())
    with Sandbox.start(system.CLUSTER) as sandbox, beside(sandbox):
        timeout = getattr(system, "TIMEOUT", TIMEOUT)
        yield Stage(sandbox, system.NAMESPACE, quiet=quiet, timeout=timeout)


_Function = t.TypeVar("_Function", bound=t.Callable[..., None])


def proves(*criteria: str) -> t.Callable[[_Function], _Function]:
    """Names the published criteria that a step proves."""

    def mark(step: _Function) -> _Function:
        step.proves = criteria  # type: ignore[attr-defined]
        return step

    return mark


def beyond(step: _Function) -> _Function:
    """Marks a step that the published text does not have, so that it is not compared with the text."""
    step.beyond = True  # type: ignore[attr-defined]
    return step


def is_beyond(step: Step) -> bool:
    return bool(getattr(step, "beyond", False))


def named(step: Step) -> str:
    """A step for a reader: the criteria that it proves, and what it does."""
    text = step.__name__.replace("_", " ")
    criteria = getattr(step, "proves", ())
    return f"{', '.join(criteria)}: {text}" if criteria else text


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
