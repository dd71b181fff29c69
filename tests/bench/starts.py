# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The maintenance of six nodes: what its modules need until they send their first request, beside an older commit.

Each module is a process of its own, which imports Ansible's code, ours and the Kubernetes client before it can ask
the API server. What is counted is time on the processor, of all these processes of a whole playbook: in check mode,
and with one VM that moves twice. Both commits are measured in turns, on the same sandbox.
"""

from __future__ import annotations

import io
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import typing as t

import yaml

from dev.commands import CHECKOUT
from sandbox import Sandbox, objects

from . import processes
from .drained_node import DrainedNode
from .row import LeftOut, Promise, Row

BEFORE = "316a4458"
"""The commit before tasks loaded only what they ask for."""

NODES = [f"w{number}" for number in range(1, 7)]
NAMESPACE = "starts"
PATIENCE = 600
TURNS = 3
NAMES = {
    True: f"maintenance of {len(NODES)} nodes in check mode, starts",
    False: f"maintenance of {len(NODES)} nodes, starts",
}
"""Of the rows, by whether they are about check mode."""

_NOTES_START = """
import atexit, os, sys, time
noted = []
def note(event="", _arguments=None):
    if event in ("", "socket.connect") and not noted:
        noted.append(time.process_time())
        with open(os.environ["PLACEMENT_BENCH_STARTS"], "a") as file:
            file.write(f"{noted[0]}\\n")
sys.addaudithook(note)
atexit.register(note)
"""
"""The sitecustomize of a module's process: its time on the processor until its first connection, or its end."""


class Starts(t.NamedTuple):
    """How many processes of modules a playbook started, and seconds on the processor until each sent a request."""

    number: int
    seconds: float


def rows(*, small: bool = False) -> list[Row | LeftOut]:
    """A row for check mode and one without it. `small` only shows that it runs."""
    with tempfile.TemporaryDirectory(prefix="virt-placement-bench-") as folder:
        before = pathlib.Path(folder, "before")
        if missing := _unpack(BEFORE, before):
            return [LeftOut(name, missing) for name in NAMES.values()]
        with Sandbox.start("six") as sandbox:
            _fill(sandbox)
            if small:
                return [_row(True, [_turn(sandbox, before, NODES[:1], check=True)])]
            checked, made = (
                [_turn(sandbox, before, NODES, check=check) for _number in range(TURNS)]
                for check in NAMES
            )
    both = [
        (ours.seconds + real.seconds) / (old.seconds + real_old.seconds)
        for (ours, old), (real, real_old) in zip(checked, made, strict=True)
    ]
    text = f"check mode and the maintenance after it, times the starts of commit {BEFORE}"
    promise = Promise(text, statistics.median(both), 2 / 3)
    return [_row(True, checked), _row(False, made, promise)]


def _row(check: bool, turns: t.Sequence[tuple[Starts, Starts]], *promises: Promise) -> Row:
    ours = [ours for ours, _before in turns]
    before = [before for _ours, before in turns]
    return Row(
        NAMES[check],
        "s",
        statistics.median(x.seconds for x in ours),
        {f"commit {BEFORE}": statistics.median(x.seconds for x in before)},
        promises=promises,
        also={
            "processes of modules": statistics.median(x.number for x in ours),
            f"processes of commit {BEFORE}": statistics.median(x.number for x in before),
        },
    )


def _unpack(commit: str, folder: pathlib.Path) -> str:
    """A collection path with the files of a commit. Returns why there is none."""
    where = folder / "ansible_collections" / "virt" / "placement"
    try:
        ended = subprocess.run(
            ["git", "-C", str(CHECKOUT), "archive", "--format=tar", commit],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return f"the files of commit {commit} cannot be read without git"
    if ended.returncode:
        return f"commit {commit} is not in this clone (git fetch --unshallow reads it)"
    with tarfile.open(fileobj=io.BytesIO(ended.stdout)) as archive:
        archive.extractall(where)
    return ""


def _fill(sandbox: Sandbox) -> None:
    """A VM that has two nodes to be on, and is on the first of them."""
    node = DrainedNode(sandbox, NAMESPACE, NODES[0], patience=PATIENCE)
    zone = "topology.kubernetes.io/zone"
    labels = sandbox.api.get(f"/api/v1/nodes/{NODES[0]}")["metadata"]["labels"]
    placement = {"nodeSelector": {zone: labels[zone]}}
    node.create([objects.virtual_machine("solo", NAMESPACE, placement=placement)])


def _turn(
    sandbox: Sandbox, before: pathlib.Path, nodes: t.Sequence[str], *, check: bool
) -> tuple[Starts, Starts]:
    """Ours, then the older commit."""
    known = os.environ["ANSIBLE_COLLECTIONS_PATH"]
    return (
        _maintain(sandbox, nodes, known, check=check),
        _maintain(sandbox, nodes, os.pathsep.join([str(before), known]), check=check),
    )


def _maintain(sandbox: Sandbox, nodes: t.Sequence[str], collections: str, *, check: bool) -> Starts:
    """Raises RuntimeError where it fails."""
    with tempfile.TemporaryDirectory(prefix="virt-placement-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "sitecustomize.py").write_text(_NOTES_START)
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
        python.chmod(0o700)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(python),
            "placement_maintenance_nodes": list(nodes),
        }
        (folder / "variables.yml").write_text(yaml.safe_dump(variables))
        starts = folder / "starts"
        starts.touch()
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": collections,
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "KUBECONFIG": str(sandbox.kubeconfig("maintainer-mover")),
            "PLACEMENT_BENCH_STARTS": str(starts),
            "TMPDIR": name,
        }
        program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
        command = [program, "virt.placement.maintenance", "-e", f"@{folder / 'variables.yml'}"]
        ended = processes.run([*command, *(["--check"] if check else [])], environment)
        if ended.returncode:
            raise RuntimeError(f"the maintenance ended with {ended.returncode}:\n{ended.output}")
        seconds = [float(line) for line in starts.read_text().split()]
        return Starts(len(seconds), sum(seconds))
