# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control plane to play with, and to test roles with: up, down, status, reboot."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
import typing as t
from pathlib import Path

from . import (
    Sandbox,
    binaries,
    cluster_file,
    installation,
    layout,
    pace,
    processes,
    releases,
    used_rights,
)
from .binaries import BinariesError
from .installation import COMMAND, DOWN
from .processes import ProcessError
from .real_nodes import control_groups, files, ground
from .real_nodes.cluster import groups_of

DEFAULT = "article"
REAL_NODES = 3
"""Real nodes without a number."""


class UsageError(ValueError):
    """The command cannot do what was asked; the message says what to do."""


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.action(arguments) or 0)
    except (
        BinariesError,
        ProcessError,
        UsageError,
        control_groups.GroupError,
        ground.GroundError,
        cluster_file.ClusterFileError,
        layout.NoSandbox,
        releases.UnknownRelease,
        OSError,
    ) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument(
        "--version", action="version", version=f"{COMMAND} {installation.version()}"
    )
    verbs = parser.add_subparsers(required=True)
    for name, action, text in (
        ("up", _up, "start a sandbox that goes on after this command"),
        ("down", _down, "end sandboxes and remove their directories"),
        ("status", _status, "say what runs"),
        ("reboot", _reboot, "reboot a node: it is down, and back with a new bootID"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(action=action)
        which = verb.add_argument_group("which sandbox")
        which.add_argument("--dir", type=Path, help="its directory")
        which.add_argument(
            "--cluster",
            help=f"one of {', '.join(cluster_file.known())}, or a file"
            + (f" (default: {DEFAULT})" if action is _up else ""),
        )
        which.add_argument(
            "--nodes",
            type=_nodes,
            metavar="N",
            help="or a cluster of N nodes, w1 to wN; `real:N` or `real` (three): with kubelets, and guests that run",
        )
        which.add_argument("--zones", type=int, metavar="M", help="in M zones, zone1 to zoneM")
        if action is _up:
            verb.add_argument(
                "--pace",
                choices=pace.PACES,
                default=pace.FAST,
                help="how long pods and migrations take: as on real nodes, or as short as can be (default)",
            )
        if action is _reboot:
            verb.add_argument("node")
    return parser


class _Nodes(t.NamedTuple):
    """How many nodes, and whether they are real."""

    number: int
    real: bool


def _nodes(text: str) -> _Nodes:
    """Nodes as an option names them: `6`, `real`, `real:2`."""
    kind, _colon, number = text.rpartition(":")
    if text == "real":
        kind, number = "real", str(REAL_NODES)
    if kind not in ("", "real") or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor `real` nor `real:N`")
    return _Nodes(int(number), bool(kind))


def _cluster(arguments: argparse.Namespace) -> str | None:
    """The cluster that the options name, if they do."""
    named: str | None = arguments.cluster
    if arguments.nodes is None and arguments.zones is None:
        return named
    if named is not None:
        raise UsageError("--cluster names a cluster with its nodes: leave out --nodes and --zones")
    if arguments.nodes is None:
        raise UsageError("--zones needs --nodes: the number of nodes")
    number, real = arguments.nodes
    return cluster_file.numbered(number, arguments.zones or 0, real=real)


def _directory_of(cluster: str) -> Path:
    return layout.directory_of_owner(cluster_file.load(cluster).name)


def _directories(arguments: argparse.Namespace) -> list[Path]:
    """Those that the options name; without any, all that `up` started here."""
    if arguments.dir:
        return [arguments.dir]
    cluster = _cluster(arguments)
    if cluster is None:
        return layout.directories_of_owner() or [_directory_of(DEFAULT)]
    return [_directory_of(cluster)]


def _up(arguments: argparse.Namespace) -> None:
    started, cluster = time.monotonic(), _cluster(arguments) or DEFAULT
    directory = arguments.dir or _directory_of(cluster)
    release = releases.chosen()
    if processes.running(directory):
        running = Sandbox.attach(directory)
        wanted = cluster_file.load(cluster).name
        if running.cluster.name != wanted:
            raise UsageError(
                f"{directory}: the cluster {running.cluster.name} runs here, not {wanted}; end it first: "
                f"{COMMAND} down --dir {directory}"
            )
        print(
            f"{directory}: {running.versions.name} runs already; to start anew, end it first: {DOWN}",
            file=sys.stderr,
        )
        _print_exports(running)
        return
    _build(cluster, release)
    sandbox = Sandbox.start(cluster, directory, detached=True, pace=arguments.pace)
    sandbox.release()
    print(
        f"the sandbox ({sandbox.versions.name}) is up after {time.monotonic() - started:.1f} s: "
        f"{sandbox.url}, {sandbox.directory}",
        file=sys.stderr,
    )
    _print_exports(sandbox)


def _build(cluster: str, release: releases.Release) -> None:
    """Build what the cluster runs and is not built yet, after a look at the machine where nodes are real."""
    wanted = cluster_file.load(cluster, release)
    if wanted.real:
        ground.check(len(wanted.nodes))

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    binaries.build(say, release)
    if wanted.real:
        files.build(say)


def _print_exports(sandbox: Sandbox) -> None:
    """Lines for a shell: the cluster, and kubectl."""
    print("paste these lines:", file=sys.stderr)
    print(f"export KUBECONFIG={sandbox.kubeconfig('admin')}")
    print(f'export PATH="{binaries.directory(sandbox.versions)}:$PATH"')


def _down(arguments: argparse.Namespace) -> None:
    for directory in _directories(arguments):
        if layout.holds_sandbox(directory):
            used_rights.record(layout.Layout.read(directory).audit_log)
        ended = processes.end_recorded(directory)
        if processes.PidFile(
            directory
        ).read():  # of one whose supervisor was killed; waits for the end of its nodes
            control_groups.remove(groups_of(directory))
        if layout.holds_sandbox(directory):
            shutil.rmtree(directory)
        print(
            f"{directory}: ended {', '.join(ended) or 'nothing, nothing was running'}",
            file=sys.stderr,
        )
    control_groups.sweep(processes.is_running)
    with contextlib.suppress(OSError):  # not there, or others are in it
        layout.root().rmdir()


def _status(arguments: argparse.Namespace) -> int:
    idle = 0
    for directory in _directories(arguments):
        names = processes.running(directory)
        for name, code in processes.ended(directory).items():
            print(f"{name} ended by itself with exit code {code}")
        for name, (times, code) in processes.started_again(directory).items():
            print(
                f"{name} ended by itself and was started again, as by its Deployment: {times} times,"
                f" last exit code {code}"
            )
        if not names:
            print(f"{directory}: nothing runs")
            idle = 1
            continue
        sandbox = Sandbox.attach(directory)
        print(f"{directory}: {', '.join(names)}")
        _print_exports(sandbox)
    return idle


def _reboot(arguments: argparse.Namespace) -> None:
    directories = _directories(arguments)
    if len(directories) > 1:
        raise UsageError(
            f"several sandboxes are here, name one with --dir: {', '.join(map(str, directories))}"
        )
    sandbox = Sandbox.attach(directories[0])
    sandbox.node_down(arguments.node)
    sandbox.node_up(arguments.node, new_boot=True)


if __name__ == "__main__":
    sys.exit(main())
