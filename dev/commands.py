# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the commands of a verb, and print one line with the duration for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


class Command(t.NamedTuple):
    """What to run, in the checkout, and what it is for."""

    name: str
    arguments: t.Sequence[str | Path]
    env: t.Mapping[str, str] | None = None
    folder: Path = CHECKOUT


def print_now(line: str) -> None:
    """A line with its end, or the last one, which may lack it."""
    print(line, end="" if line.endswith("\n") else "\n", flush=True)


class Outcome(t.NamedTuple):
    name: str
    status: int
    seconds: float
    output: str

    @property
    def line(self) -> str:
        verdict = "ok" if self.status == 0 else f"FAILED (exit {self.status})"
        return f"{self.name}: {verdict}, {self.seconds:.0f} s"


def environment(**more: str) -> dict[str, str]:
    """The variables that the Makefile exports, for verbs that are started without it.

    Nothing of ours may reach a cluster that it did not start.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("K8S_AUTH_")}
    build = CHECKOUT / "build"
    env["KUBECONFIG"] = os.devnull
    env["PYTHONUNBUFFERED"] = "1"
    env["ANSIBLE_HOME"] = str(build / "ansible")
    trees = [str(build / name) for name in ("collections", "dependencies", "controller")]
    env["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join(trees)
    env["PATH"] = f"{CHECKOUT / '.venv' / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    return {**env, **more}


def run(command: Command, show: t.Callable[[str], None] = lambda line: None) -> Outcome:
    """Run one command to its end. Its output is kept; `show` gets each line as it comes.

    A process that the command left behind may keep its output open. We do not wait for that.
    """
    if _ending.is_set():
        raise SystemExit(128 + signal.SIGTERM)
    started = time.monotonic()
    process = subprocess.Popen(
        [str(argument) for argument in command.arguments],
        cwd=command.folder,
        env=dict(command.env or environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    _running.append(process)
    lines: list[str] = []

    def read() -> None:
        for line in process.stdout or ():
            lines.append(line)
            show(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    process.wait()
    reader.join(_REST_SECONDS)
    if process.stdout and not reader.is_alive():
        process.stdout.close()
    _running.remove(process)
    return Outcome(command.name, process.returncode, time.monotonic() - started, "".join(lines))


_REST_SECONDS = 5.0
"""In which the last output of a command that ended has to come."""

_running: list[subprocess.Popen[str]] = []
_ending = threading.Event()
"""Set at SIGTERM: what is queued in a pool does not begin."""


def end_with_us() -> None:
    """Let SIGTERM also end the commands that we run. Ctrl-C reaches them anyway."""

    def end(number: int, _frame: object) -> t.NoReturn:
        _ending.set()
        for process in list(_running):
            process.terminate()
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def run_all(
    commands: t.Sequence[Command],
    at_once: int = 2,
    show: t.Callable[[Outcome], bool] = lambda outcome: outcome.status != 0,
) -> list[Outcome]:
    """Run the commands at the same time. Print each as it ends, with its output if `show` selects it."""
    outcomes = []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        for outcome in pool.map(run, commands):
            print(outcome.line, flush=True)
            if show(outcome):
                print(outcome.output.rstrip(), flush=True)
            outcomes.append(outcome)
    return outcomes


def finish(outcomes: t.Sequence[Outcome]) -> int:
    """The last line and the exit code."""
    failed = [outcome.name for outcome in outcomes if outcome.status]
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed", end="")
    print(f": {', '.join(failed)}" if failed else "")
    sys.stdout.flush()
    return 1 if failed else 0
