# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from dev.forks import KEPT_BYTECODE

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))

CHECKOUT = Path(__file__).resolve().parents[3]

Task = dict[str, t.Any]


def kubeconfig(server: str, user: dict[str, t.Any], **cluster: str) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": f"http://{server}", **cluster}}],
        "users": [{"name": "here", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }


PLAY: Task = {
    "hosts": "localhost",
    "connection": "local",
    "gather_facts": False,
    "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
}
"""The keywords of a play."""


def play(tasks: list[Task]) -> str:
    return json.dumps([{**PLAY, "tasks": tasks}])


def environment(folder: Path) -> dict[str, str]:
    own = {"ANSIBLE_LOG_PATH": str(folder / "log"), "TMPDIR": str(folder)}
    return {**os.environ, **KEPT_BYTECODE, **own}


def played(folder: Path, tasks: list[Task], verbosity: str) -> subprocess.CompletedProcess[str]:
    """The play in `folder` when it has ended; its log is the file `log` there."""
    (folder / "play.yml").write_text(play(tasks))
    return run_playbook(folder, verbosity, "play.yml")


def run_playbook(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The playbook in `folder` when it has ended; its log is the file `log` there."""
    return subprocess.run(
        [PLAYBOOK, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )


def doubled_collection(folder: Path, double: Path, modules: str) -> Path:
    """A path of collections in `folder` with this one, whose `modules` the action in the file `double` plays."""
    collection = folder / "collections" / "ansible_collections" / "virt" / "placement"
    (collection / "plugins" / "action").mkdir(parents=True)
    for name in modules.split():
        (collection / "plugins" / "action" / f"{name}.py").symlink_to(double)
    job = Path("plugins", "action", "job.py")
    (collection / job).symlink_to(CHECKOUT / job)
    for name in ("lookup", "module_utils", "modules", "plugin_utils"):
        (collection / "plugins" / name).symlink_to(CHECKOUT / "plugins" / name)
    (collection / "roles").symlink_to(CHECKOUT / "roles")
    return folder / "collections"
