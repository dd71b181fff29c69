# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m sandbox up|down|status|reboot``: a control plane to play with."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from pathlib import Path

from . import Sandbox, binaries, cluster_file, layout, processes, releases, used_rights
from .binaries import BinariesError
from .processes import ProcessError


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.action(arguments) or 0)
    except (
        BinariesError,
        ProcessError,
        cluster_file.ClusterFileError,
        releases.UnknownRelease,
        FileExistsError,
    ) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for name, action, text in (
        ("up", _up, "start a sandbox that goes on after this command"),
        ("down", _down, "end it and remove its directory"),
        ("status", _status, "say what runs"),
        ("reboot", _reboot, "reboot a node: it is down, and back with a new bootID"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(action=action)
        verb.add_argument(
            "--cluster",
            default="article",
            help=f"one of {', '.join(cluster_file.known())}, or a file (default: %(default)s)",
        )
        verb.add_argument(
            "--dir", type=Path, help="its directory (default: one for each checkout and cluster)"
        )
        if action is _reboot:
            verb.add_argument("node")
    return parser


def _directory(arguments: argparse.Namespace) -> Path:
    return arguments.dir or layout.directory_of_checkout(cluster_file.load(arguments.cluster).name)


def _up(arguments: argparse.Namespace) -> None:
    started, directory = time.monotonic(), _directory(arguments)
    releases.chosen()
    if processes.running(directory):
        running = Sandbox.attach(directory)
        print(
            f"{directory}: {running.versions.name} runs already; to start anew, end it first: "
            "make sandbox-down",
            file=sys.stderr,
        )
        _print_exports(running)
        return
    sandbox = Sandbox.start(arguments.cluster, directory, detached=True)
    sandbox.release()
    print(
        f"the sandbox ({sandbox.versions.name}) is up after {time.monotonic() - started:.1f} s: "
        f"{sandbox.url}, {sandbox.directory}",
        file=sys.stderr,
    )
    _print_exports(sandbox)


def _print_exports(sandbox: Sandbox) -> None:
    """Lines for a shell: the cluster, and kubectl."""
    print("paste these lines:", file=sys.stderr)
    print(f"export KUBECONFIG={sandbox.kubeconfig('admin')}")
    print(f'export PATH="{binaries.directory(sandbox.versions)}:$PATH"')


def _down(arguments: argparse.Namespace) -> None:
    directory = _directory(arguments)
    if layout.holds_sandbox(directory):
        used_rights.record(layout.Layout.read(directory).audit_log)
    ended = processes.end_recorded(directory)
    if layout.holds_sandbox(directory):
        shutil.rmtree(directory)
    with contextlib.suppress(OSError):  # not there, or others are in it
        layout.root().rmdir()
    print(
        f"{directory}: ended {', '.join(ended) or 'nothing, nothing was running'}", file=sys.stderr
    )


def _status(arguments: argparse.Namespace) -> int:
    directory = _directory(arguments)
    names = processes.running(directory)
    for name, code in processes.ended(directory).items():
        print(f"{name} ended by itself with exit code {code}")
    if not names:
        print(f"{directory}: nothing runs")
        return 1
    sandbox = Sandbox.attach(directory)
    print(f"{directory}: {', '.join(names)}")
    _print_exports(sandbox)
    return 0


def _reboot(arguments: argparse.Namespace) -> None:
    sandbox = Sandbox.attach(_directory(arguments))
    sandbox.node_down(arguments.node)
    sandbox.node_up(arguments.node, new_boot=True)


if __name__ == "__main__":
    sys.exit(main())
