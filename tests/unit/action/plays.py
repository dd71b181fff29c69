# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays in a process of their own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path
from types import MappingProxyType

from dev.forks import KEPT_BYTECODE, TASKS_IN_PROCESS
from tests.warm_playbook import warm_playbook

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))

CHECKOUT = Path(__file__).resolve().parents[3]

Task = dict[str, t.Any]
Ended = subprocess.CompletedProcess[str]
RunPlaybook = t.Callable[..., Ended]
"""A folder and the arguments of ansible-playbook there, to how it ended. Its log is the file `log` there."""


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


def run_playbook(
    folder: Path,
    *arguments: str,
    program: str | Path = PLAYBOOK,
    variables: t.Mapping[str, str] = MappingProxyType({}),
) -> Ended:
    """An ansible-playbook of its own, unless `program` is another one; `variables` are added to its environment."""
    ended = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={**environment(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 120, ended.stderr  # of a warm playbook, and of no play
    return ended


def warm(home: Path) -> t.Iterator[RunPlaybook]:
    """For a fixture: what runs playbooks in an eighth of the time, with the path of collections that is set now. Tasks
    have no forks. `home` is for itself."""
    with warm_playbook(home, {**environment(home), **TASKS_IN_PROCESS}) as program:
        yield functools.partial(run_playbook, program=program, variables=TASKS_IN_PROCESS)


def played(
    folder: Path, tasks: list[Task], verbosity: str, run: RunPlaybook = run_playbook
) -> Ended:
    """The play in `folder` when it has ended."""
    (folder / "play.yml").write_text(play(tasks))
    return run(folder, verbosity, "play.yml")


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
