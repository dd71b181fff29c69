# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No credential is printed at -vvvv or logged, and no decrypted kubeconfig remains after SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.api_server import ApiServer, Fault, Reply, Request
from tests.unit.action.plays import (
    PLAYBOOK,
    Task,
    environment,
    kubeconfig,
    play,
    played,
)

#: in the options, the kubeconfigs and the credential program of the plays
SECRETS = {
    "password in the proxy option": "s3cret-0ption",
    "password in the proxy of a kubeconfig": "s3cret-pr0xy-url",
    "password of the proxy headers": "s3cret-headers",
    "argument of the credential program": "s3cret-argument",
    "environment of the credential program": "s3cret-environment",
    "token of the credential program": "s3cret-token",
    "token in the kubeconfig": "s3cret-kubeconfig",
    "password of the user": "s3cret-user",
    "api_key": "s3cret-api-key",
}
PROGRAM = """\
#!/bin/sh
if [ "$1" = --fail ]; then
  echo "cannot log in with $* and $LOGIN" >&2
  exit 1
fi
printf '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "%s"}}' \\
  s3cret-token
"""


def refuse(request: Request) -> Reply:
    """The credentials of the request are in the answer."""
    credentials = [request.headers.get(f"{name}Authorization") for name in ("", "Proxy-")]
    return Reply(403, f"no entry with {credentials}".encode(), {"Content-Type": "text/plain"})


def program(folder: Path, first: str) -> dict[str, t.Any]:
    file = folder / "login"
    file.write_text(PROGRAM)
    file.chmod(0o700)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(file),
            "args": [first, "--client-secret", SECRETS["argument of the credential program"]],
            "env": [{"name": "LOGIN", "value": SECRETS["environment of the credential program"]}],
            "interactiveMode": "Never",
        }
    }


def options(server: str, folder: Path) -> list[dict[str, t.Any]]:
    """Sets of options with credentials. A task with any of them fails."""
    proxy = f"http://ann:{SECRETS['password in the proxy of a kubeconfig']}@{server}"
    configurations = {
        "fails.yml": kubeconfig(server, program(folder, "--fail")),
        "logs-in.yml": kubeconfig(server, program(folder, "--login")),
        "proxy.yml": kubeconfig(
            server, {"token": SECRETS["token in the kubeconfig"]}, **{"proxy-url": proxy}
        ),
    }
    for name, content in configurations.items():
        (folder / name).write_text(yaml.safe_dump(content))
    key = {"host": f"http://{server}", "api_key": SECRETS["api_key"]}
    headers = {"proxy_basic_auth": f"bob:{SECRETS['password of the proxy headers']}"}
    proxy_url = f"http://bob:{SECRETS['password in the proxy option']}@{server}"
    return [
        {"kubeconfig": "fails.yml"},
        {**key, "proxy": proxy_url, "proxy_headers": headers},
        {"kubeconfig": configurations["fails.yml"]},
        {"kubeconfig": configurations["logs-in.yml"]},
        {"kubeconfig": configurations["proxy.yml"]},
        {
            "host": f"http://{server}",
            "username": "carl",
            "password": SECRETS["password of the user"],
        },
    ]


def test_no_credential_is_printed_or_logged(tmp_path: Path) -> None:
    with ApiServer(faults=[Fault("", "", refuse, dry_runs=True)]) as server:
        option_sets = options(server.address, tmp_path)
        run = {"namespaces": ["shop"], "run_timeout": 5}
        tasks: list[Task] = [
            *({"virt.placement.topology_info": {**given, "timeout": 1}} for given in option_sets),
            *(
                {"virt.placement.rollout": {**given, **run, "timeout": 1}}
                for given in option_sets[:2]
            ),
        ]
        result = played(tmp_path, [{**task, "ignore_errors": True} for task in tasks], "-vvvv")

    assert f"ignored={len(tasks)}" in result.stdout, result.stdout[-3000:]
    text = result.stdout + result.stderr + (tmp_path / "log").read_text()
    leaks = {
        name: [
            line[max(0, line.index(secret) - 200) :][:300]
            for line in text.splitlines()
            if secret in line
        ]
        for name, secret in SECRETS.items()
    }
    assert {name: lines[:2] for name, lines in leaks.items() if lines} == {}


def content_of(file: Path) -> str:
    """Empty for a file that is gone by now, and for a named pipe, which would wait for a writer."""
    try:
        return file.read_text(errors="replace") if file.is_file() else ""
    except OSError:
        return ""


@pytest.mark.parametrize("task", ["topology_info", "rollout"])
def test_decrypted_kubeconfig_is_removed_on_sigterm(tmp_path: Path, task: str) -> None:
    copies = tmp_path / "tmp"
    copies.mkdir()
    token = SECRETS["token in the kubeconfig"]

    def remaining_copies() -> list[str]:
        files = (Path(folder, name) for folder, _dirs, names in os.walk(copies) for name in names)
        return [file.name for file in files if token in content_of(file)]

    asked = threading.Event()

    def say_nothing(_request: Request) -> Reply:
        asked.set()
        return Reply(silent=60)

    with ApiServer(faults=[Fault("GET", "", say_nothing)]) as server:
        content = kubeconfig(server.address, {"token": token})
        (tmp_path / "config.yml").write_text(yaml.safe_dump(content))
        (tmp_path / "password").write_text("vault\n")
        vault = [
            PLAYBOOK.replace("-playbook", "-vault"),
            "encrypt",
            "--vault-password-file=password",
        ]
        subprocess.run([*vault, "config.yml"], cwd=tmp_path, capture_output=True, check=True)
        given: dict[str, t.Any] = {"kubeconfig": "config.yml"}
        more = {"namespaces": ["shop"]} if task == "rollout" else {}
        (tmp_path / "play.yml").write_text(play([{f"virt.placement.{task}": {**given, **more}}]))
        with subprocess.Popen(
            [PLAYBOOK, "--vault-password-file=password", "play.yml"],
            cwd=tmp_path,
            env={**environment(tmp_path), "TMPDIR": str(copies), "ANSIBLE_LOCAL_TEMP": str(copies)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as running:
            assert asked.wait(60)
            assert remaining_copies(), "no decrypted copy exists while the module runs"
            os.killpg(running.pid, signal.SIGTERM)
            running.wait(30)
        deadline = time.monotonic() + 30
        while remaining_copies() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert remaining_copies() == []
