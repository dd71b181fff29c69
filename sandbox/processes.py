# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that cannot outlive their owner.

Each sandbox has one supervisor, a small process that starts all others on request and is their
parent. Its standard input is a pipe from the owner: when the owner stops the sandbox, or dies in
whatever way, the pipe closes and the supervisor ends everything. The kernel ends the rest should
the supervisor itself be killed (PR_SET_PDEATHSIG). A detached supervisor lives on without its owner.

Every process is a session of its own and is written down in ``pids.json`` with its start time, so
that a process which merely got a recycled id is never touched.

What a Deployment or a DaemonSet would start again after its end is started again here, by the
supervisor, which writes a line to its log. ``end`` keeps a process from that until ``start_again``.

Run as a program (the supervisor) this file needs the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

PID_FILE = "pids.json"
_PR_SET_PDEATHSIG = 1
_END_TIMEOUT = 20.0
_CLEAN_TIMEOUT = 300.0
"""A supervisor that ends has control groups and the disks of real nodes to remove."""
_KEPT_ENDED = "kept-ended"

_FIRST_PAUSE = 1.0
"""Seconds after which a process is started again. They double with each end, up to the last pause."""
_LAST_PAUSE = 30.0
_HEALTHY_AFTER = 60.0
"""Seconds after which a process that was started again counts as a working one."""


class ProcessError(RuntimeError):
    """A process could not be started, ended too early, or could not be ended."""


class Record(t.TypedDict):
    """One process: its id and when it started, in clock ticks since boot."""

    pid: int
    started: int


def record(pid: int) -> Record | None:
    """What identifies the process that has this id now; None when there is none (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name (field 2) may hold blanks and brackets: count from its last bracket (proc(5))
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else {"pid": pid, "started": int(fields[19])}


def alive(known: Record | None) -> bool:
    """Whether exactly this process still runs."""
    return known is not None and record(known["pid"]) == known


def is_running(pid: int, started: int) -> bool:
    """Whether the process that had this id at that start still runs."""
    return alive({"pid": pid, "started": started})


class Supervisor:
    """The owner's end: starts processes through the supervisor of a directory."""

    def __init__(self, directory: Path, *, detached: bool = False, discard: bool = False) -> None:
        """Start the supervisor; ``discard`` makes it remove the directory at the end."""
        self.directory = directory
        self._lock = threading.Lock()
        flags = [name for name, on in (("--detached", detached), ("--discard", discard)) if on]
        # its own log: an inherited one would keep the pipe of our caller open
        with (directory / "log" / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(directory), str(os.getpid()), *flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def start(
        self,
        name: str,
        arguments: t.Sequence[object],
        *,
        again: bool = False,
        **environment: str,
    ) -> int:
        """Start a process and return its id. Its output goes to ``log/<name>.log``. With ``again``
        it is started again whenever it ends by itself."""
        request = {
            "name": name,
            "again": again,
            "arguments": [str(argument) for argument in arguments],
            "environment": {**os.environ, **environment},
        }
        return int(self._ask(name, request)["pid"])

    def at_end(self, arguments: t.Sequence[object]) -> None:
        """Run a command after the end of all processes, also where the owner has ended."""
        self._ask("at_end", {"at_end": [str(argument) for argument in arguments]})

    def _ask(self, name: str, request: dict[str, t.Any]) -> dict[str, t.Any]:
        assert self._process.stdin and self._process.stdout
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
                answer = json.loads(self._process.stdout.readline() or '{"error": "it ended"}')
            except BrokenPipeError:
                answer = {"error": "it ended"}
        if "error" in answer:
            raise ProcessError(f"supervisor of {self.directory}: {name}: {answer['error']}")
        return t.cast("dict[str, t.Any]", answer)

    def stop(self) -> None:
        """End everything and wait until it is gone."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        # a detached supervisor does not end with its input
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(_CLEAN_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_TIMEOUT)
        self._process.stdout.close()
        end_recorded(self.directory)

    def release(self) -> None:
        """Let go of a detached supervisor: it and its processes go on."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()


class PidFile:
    """The record of a sandbox's processes, written by the supervisor alone."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / PID_FILE

    def read(self) -> dict[str, t.Any] | None:
        """``{supervisor, owner, processes: {name: record}, ended: {name: exit code},
        started_again: {name: [times, last exit code]}}`` or None."""
        try:
            return t.cast("dict[str, t.Any]", json.loads(self.path.read_text()))
        except FileNotFoundError:
            return None

    def write(self, content: dict[str, t.Any]) -> None:
        """Replace the record as a whole."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(content, indent=1))
        fresh.replace(self.path)


def running(directory: Path) -> list[str]:
    """Names of the recorded processes of this directory that still run."""
    content = PidFile(directory).read() or {}
    known = {"supervisor": content.get("supervisor"), **content.get("processes", {})}
    return [name for name, entry in known.items() if alive(entry)]


def ended(directory: Path) -> dict[str, int]:
    """Exit codes of the processes of this directory that ended by themselves."""
    return dict((PidFile(directory).read() or {}).get("ended", {}))


def started_again(directory: Path) -> dict[str, tuple[int, int]]:
    """How often processes of this directory were started again, and their last exit codes."""
    known = (PidFile(directory).read() or {}).get("started_again", {})
    return {name: (times, code) for name, (times, code) in known.items()}


def end(directory: Path, name: str) -> None:
    """End a process and keep it ended: it is not started again."""
    _kept_ended(directory, name).touch()
    known = (PidFile(directory).read() or {})["processes"][name]
    if alive(known):
        _signal(known, signal.SIGKILL, group=True)
    if _await_end([known], _END_TIMEOUT):
        raise ProcessError(f"{directory}: {name} does not end")


def start_again(directory: Path, name: str) -> None:
    """Let the supervisor start what was ended by ``end``."""
    _kept_ended(directory, name).unlink(missing_ok=True)
    content = PidFile(directory).read() or {}
    if alive(content.get("supervisor")):  # wakes it up
        _signal(content["supervisor"], signal.SIGCHLD, group=False)


def _kept_ended(directory: Path, name: str) -> Path:
    return directory / f"{name}.{_KEPT_ENDED}"


def abandoned(directory: Path) -> bool:
    """Whether a sandbox is here whose owner has ended, and which was to end with it."""
    content = PidFile(directory).read()
    return content is not None and not content["detached"] and not alive(content["owner"])


def end_recorded(directory: Path) -> list[str]:
    """End what the pid file of this directory names and still runs; returns the names."""
    content = PidFile(directory).read()
    if content is None:
        return []
    names = running(directory)
    if alive(content["supervisor"]):
        _signal(content["supervisor"], signal.SIGTERM, group=False)
        _await_end([content["supervisor"]], _CLEAN_TIMEOUT)
    rest = [content["supervisor"], *content["processes"].values()]
    for entry in rest:
        if alive(entry):
            _signal(entry, signal.SIGKILL, group=True)
    if left := _await_end(rest, _END_TIMEOUT):
        raise ProcessError(f"{directory}: processes {left} do not end")
    return names


def _signal(known: Record, number: int, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group and os.getpgid(known["pid"]) == known["pid"]:
            os.killpg(known["pid"], number)
        else:
            os.kill(known["pid"], number)


def _await_end(entries: list[Record], timeout: float) -> list[int]:
    deadline = time.monotonic() + timeout
    while left := [entry["pid"] for entry in entries if alive(entry)]:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []


# ---------------------------------------------------------------------------- the supervisor


class _Served:
    def __init__(self, directory: Path, owner: int, *, detached: bool) -> None:
        self.directory = directory
        self.detached = detached
        self.file = PidFile(directory)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.requests: dict[str, dict[str, t.Any]] = {}
        self.began: dict[str, float] = {}
        self.pauses: dict[str, float] = {}
        self.due: dict[str, float] = {}
        self.at_end: list[list[str]] = []
        self.known: dict[str, t.Any] = {
            "supervisor": record(os.getpid()),
            "owner": record(owner),
            "detached": detached,
            "processes": {},
            "ended": {},
            "started_again": {},
        }
        self.file.write(self.known)

    def serve(self) -> None:
        """Answer requests until the owner is gone or a signal says end."""
        wake = _signal_pipe()
        watched, pending = [0, wake], b""
        while True:
            next_due = min(self.due.values(), default=None)
            timeout = None if next_due is None else max(0.0, next_due - time.monotonic())
            ready, _writable, _broken = select.select(watched, [], [], timeout)
            self.start_due()
            if wake in ready:
                numbers = os.read(wake, 512)
                self.reap()
                if signal.SIGTERM in numbers:
                    return
            if 0 in ready:
                data = os.read(0, 1 << 16)
                if not data and not self.detached:
                    return
                if not data:
                    watched.remove(0)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    os.write(1, json.dumps(self.start(json.loads(line))).encode() + b"\n")

    def start(self, request: dict[str, t.Any]) -> dict[str, t.Any]:
        if "at_end" in request:
            self.at_end.append(request["at_end"])
            return {}
        name = request["name"]
        try:
            with (self.directory / "log" / f"{name}.log").open("ab") as log:
                child = subprocess.Popen(
                    request["arguments"],
                    env=request["environment"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
        except OSError as error:
            return {"error": str(error)}
        self.children[name] = child
        self.requests[name] = request
        self.began[name] = time.monotonic()
        self.known["processes"][name] = record(child.pid) or {"pid": child.pid, "started": 0}
        self.known["ended"].pop(name, None)
        self.file.write(self.known)
        return {"pid": child.pid}

    def reap(self) -> None:
        for name, child in list(self.children.items()):
            if (code := child.poll()) is not None:
                del self.children[name]
                self.known["ended"][name] = code
                self.file.write(self.known)
        for name in set(self.known["ended"]) - set(self.due):
            if not self.requests[name]["again"] or _kept_ended(self.directory, name).exists():
                continue
            healthy = time.monotonic() - self.began[name] >= _HEALTHY_AFTER
            pause = _FIRST_PAUSE if healthy else self.pauses.get(name, _FIRST_PAUSE)
            self.due[name] = time.monotonic() + pause
            self.pauses[name] = min(2 * pause, _LAST_PAUSE)

    def start_due(self) -> None:
        for name in [name for name, at in self.due.items() if at <= time.monotonic()]:
            del self.due[name]
            if _kept_ended(self.directory, name).exists():
                continue
            code = self.known["ended"][name]
            times = self.known["started_again"].get(name, (0, 0))[0] + 1
            self.known["started_again"][name] = (times, code)
            text = self.start(self.requests[name]).get("error", "is started again")
            print(
                f"{time.strftime('%H:%M:%S')} {name} ended with exit code {code}: {text}",
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> None:
        for child in reversed(self.children.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        for child in self.children.values():
            child.wait()
        for command in self.at_end:
            subprocess.run(command, stdin=subprocess.DEVNULL, check=False)


def _signal_pipe() -> int:
    """A descriptor that gets the number of each signal, so that select() wakes up for it."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return readable


_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    directory, owner, *flags = arguments
    served = _Served(Path(directory), int(owner), detached="--detached" in flags)
    try:
        served.serve()
    finally:
        served.end()
        if "--discard" in flags:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
