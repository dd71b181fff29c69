# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook has the same results with modules in forks as with a Python for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.conftest import MODULES_IN_PROCESS

TASK = "virt.placement.lint_info"
RELEASES = {"kubernetes_version": "1.34", "kubevirt_version": "1.6"}
DEAD = {"topologyKey": "topology.kubernetes.io/zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TASKS: dict[str, dict[str, t.Any]] = {
    "warns": {**RELEASES, "rules": []},
    "finds": {
        **RELEASES,
        "namespace": "shop",
        "rules": [
            {
                "name": "r",
                "workloads": ["a"],
                "terms": {"affinity": {"podAntiAffinity": {REQUIRED: [DEAD]}}},
            }
        ],
    },
    "refuses": {**RELEASES, "kubernetes_version": "new"},
    "fails": {"no_such_option": 1},
}


def results(folder: Path) -> dict[str, t.Any]:
    """The results of the tasks, as a later task has them."""
    folder.mkdir()
    tasks: list[dict[str, t.Any]] = [
        {TASK: options, "register": name, "ignore_errors": True} for name, options in TASKS.items()
    ]
    content = "{{ {" + ", ".join(f"'{name}': {name}" for name in TASKS) + "} | to_json }}"
    tasks.append({"ansible.builtin.copy": {"content": content, "dest": str(folder / "r.json")}})
    interpreter = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "gather_facts": False, "vars": interpreter, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "-i", "localhost,", "-c", "local", folder / "play.yml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return t.cast("dict[str, t.Any]", json.loads((folder / "r.json").read_text()))


def test_results_are_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    alone = results(tmp_path / "alone")
    request.getfixturevalue("modules_in_process")
    assert os.environ["ANSIBLE_CALLBACK_PLUGINS"] == str(MODULES_IN_PROCESS)

    in_process = results(tmp_path / "in-process")

    assert alone["warns"]["warnings"] and alone["refuses"]["failed"] and alone["fails"]["failed"]
    assert in_process == alone
