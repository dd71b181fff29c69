# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authentication as kubernetes.core does it, from a play: vault, module_defaults, every module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.api_server import ApiServer, answer
from tests.unit.action.plays import kubeconfig

ROOT = Path(__file__).parents[3]
MODULES = sorted(
    {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    - {"drs_import", "report", "job"}
)
"""Those that reach a cluster. `job` runs them."""

TOKEN = "from-the-vaulted-kubeconfig"
PLAY = """\
- name: Every module with the same authentication
  hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  module_defaults:
    group/virt.placement.auth:
      kubeconfig: kubeconfig.yml
  tasks:
    - name: Ours
      virt.placement.topology_info:
      ignore_errors: true
    - name: Of kubernetes.core
      kubernetes.core.k8s_info:
        kind: Node
      ignore_errors: true
"""


@pytest.fixture(autouse=True)
def _refused(server: ApiServer) -> None:
    status = {"kind": "Status", "code": 403, "reason": "Forbidden"}
    server.plays(answer(status, 403, **{"Content-Type": "application/json"}))


def users(server: ApiServer) -> set[str | None]:
    return {request.headers["Authorization"] for request in server.seen}


def ansible(program: str, *arguments: str, folder: Path) -> str:
    """Run a program of the ansible-core that runs this test, and return its output."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=folder,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_vaulted_kubeconfig_from_module_defaults_reaches_our_modules_and_theirs(
    server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "kubeconfig.yml").write_text(
        json.dumps(kubeconfig(server.address, {"token": TOKEN}))
    )
    (tmp_path / "play.yml").write_text(PLAY)
    password = "--vault-password-file=password"
    ansible("ansible-vault", "encrypt", password, "kubeconfig.yml", folder=tmp_path)
    assert TOKEN not in (tmp_path / "kubeconfig.yml").read_text()

    output = ansible("ansible-playbook", password, "play.yml", folder=tmp_path)

    ours, theirs = output.split("TASK [Of kubernetes.core]")
    assert "Forbidden" in ours or "403" in ours
    assert "Forbidden" in theirs or "403" in theirs
    paths = [request.target for request in server.seen]
    assert [path for path in paths if path.startswith("/api/v1/nodes?limit=")], "ours did not ask"
    assert [path for path in paths if not path.startswith("/api/v1/nodes?limit=")], "theirs did not"
    assert users(server) == {f"Bearer {TOKEN}"}


def test_steps_of_a_rollout_have_the_connection_too(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "kubeconfig.yml").write_text(
        json.dumps(kubeconfig(server.address, {"token": TOKEN}))
    )
    play = PLAY.replace("topology_info:", "rollout: {namespaces: [shop]}")
    (tmp_path / "play.yml").write_text(play.partition("    - name: Of kubernetes.core")[0])
    password = "--vault-password-file=password"
    ansible("ansible-vault", "encrypt", password, "kubeconfig.yml", folder=tmp_path)

    output = ansible("ansible-playbook", password, "play.yml", folder=tmp_path)

    assert "not permitted: " in output
    assert "list pods in all namespaces" in output
    assert users(server) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none.yml", "kubeconfig: there is no file none.yml on the controller"),
        ("folder", "kubeconfig: {folder} is a folder"),
    ],
)
def test_every_module_names_a_kubeconfig_that_is_no_file_with_its_option(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    ours = "".join(
        f"    - virt.placement.{module}: {{online: true}}\n      ignore_errors: true\n"
        for module in MODULES
    )
    head, _tasks, _rest = PLAY.replace("kubeconfig.yml", name).partition("    - name: Ours\n")
    (tmp_path / "play.yml").write_text(head + ours)

    output = ansible("ansible-playbook", "play.yml", folder=tmp_path)

    tasks = output.split("TASK [")[1:]
    assert len(tasks) == len(MODULES)
    for task in tasks:
        assert text.format(folder=tmp_path / "folder") in task
        assert "remote_src" not in task
