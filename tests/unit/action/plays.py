# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays in a process of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from dev.forks import KEPT_BYTECODE, TASKS_IN_PROCESS

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))

CHECKOUT = Path(__file__).resolve().parents[3]

WARM_PLAYBOOK = Path(__file__).with_name("warm_playbook.py")

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


def run_playbook(folder: Path, *arguments: str) -> Ended:
    """An ansible-playbook of its own."""
    return subprocess.run(
        [PLAYBOOK, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def warm_playbook(home: Path) -> t.Iterator[RunPlaybook]:
    """An ansible-playbook for many playbooks, in an eighth of the time; `home` is for itself. All have the path of
    collections that is set now, and tasks have no forks."""
    with subprocess.Popen(
        [sys.executable, WARM_PLAYBOOK],
        env={**environment(home), **TASKS_IN_PROCESS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        requests, answers = process.stdin, process.stdout

        def run(folder: Path, *arguments: str) -> Ended:
            outputs = [folder / name for name in ("stdout", "stderr")]
            request = {
                "folder": str(folder),
                "arguments": arguments,
                "environment": {**environment(folder), **TASKS_IN_PROCESS},
                **{path.name: str(path) for path in outputs},
            }
            for path in outputs:
                path.unlink(missing_ok=True)
            print(json.dumps(request), file=requests, flush=True)
            status = int(answers.readline())
            return subprocess.CompletedProcess(
                arguments, status, *(path.read_text() for path in outputs)
            )

        yield run


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
