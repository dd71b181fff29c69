# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook, run by ansible-rulebook in an environment of its own: alerts launch jobs of a stand-in for AWX."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from dev import environments, pythons
from dev.commands import environment
from tests.conftest import CHECKOUT
from tests.controller import Controller

WEBHOOK_TOKEN = "t0ken-of-the-webhook"
SURVEYS = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller_surveys.yml").read_text())[
    "placement_controller_surveys"
]

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(not shutil.which("java"), reason="ansible-rulebook needs Java 17 or later"),
]


@pytest.fixture(scope="module")
def program() -> Path:
    python = pythons.preferred()
    assert python is not None
    venv, _new = environments.venv("rulebook", python, environments.pins("rulebook"))
    return venv / "bin" / "ansible-rulebook"


@pytest.fixture
def controller() -> t.Iterator[Controller]:
    with Controller("t0ken-of-the-controller", ()) as controller:
        template = controller.add(
            "job_templates",
            name="Placement - rollout",
            organization=1,
            ask_limit_on_launch=True,
        )
        controller.surveys["job_templates", template["id"]] = SURVEYS["rollout"]
        yield controller


@contextlib.contextmanager
def listening(program: Path, controller: Controller, folder: Path) -> t.Iterator[str]:
    """The rulebook as docs/events.md starts it; the URL of its webhook."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {
        "placement_webhook_token": WEBHOOK_TOKEN,
        "placement_webhook_port": port,
        "placement_return_home_namespaces": ["shop", "lab"],
    }
    (folder / "events.yml").write_text(yaml.safe_dump(variables))
    (folder / "inventory.yml").write_text("all: {hosts: {localhost: {}}}\n")
    command = [str(program), "--rulebook", "virt.placement.repair", "--inventory", "inventory.yml"]
    command += ["--vars", "events.yml", "--controller-url", controller.url]
    command += ["--controller-token", controller.token]
    env = environment()
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}/endpoint"
            wait(lambda: posted(url, [], token="wrong") == 401 or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            yield url
        finally:
            process.terminate()
            process.wait(30)


def posted(url: str, alerts: list[dict[str, t.Any]], token: str = WEBHOOK_TOKEN) -> int:
    """The status of a message as Alertmanager sends it; 0 if nothing listens."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"version": "4", "status": "firing", "alerts": alerts}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait(seen: t.Callable[[], object]) -> None:
    deadline = time.monotonic() + 180
    while not seen():
        assert time.monotonic() < deadline, "nothing was seen for 180 s"
        time.sleep(0.2)


def alert(status: str, **labels: str) -> dict[str, t.Any]:
    return {"status": status, "labels": {"cluster": "prod", **labels}, "annotations": {}}


def test_alert_launches_one_rollout_of_its_namespace(
    program: Path, controller: Controller, tmp_path: Path
) -> None:
    violated = [
        alert("firing", alertname="PlacementViolated", namespace=name) for name in ("shop", "lab")
    ]
    others = [
        alert("resolved", alertname="PlacementViolated", namespace="old"),
        alert("firing", alertname="PlacementNodeNotReady", node="w1"),
        *(
            alert("firing", alertname="PlacementViolated", namespace="shop", cluster=cluster)
            for cluster in ("all", "prod,test", "*", "!prod", "~.*", "ungrouped", "", "{{ x }}")
        ),
        *(
            alert("firing", alertname="PlacementViolated", namespace=namespace)
            for namespace in ("shop, lab", "*", "]", "", "Shop", "{{ x }}", "shop\nlab")
        ),
    ]
    with listening(program, controller, tmp_path) as url:
        assert posted(url, [*others, *violated]) == 200
        assert posted(url, violated) == 200  # Alertmanager repeats what still fires
        wait(lambda: len(controller.launched) >= 2)
        time.sleep(1)

    log = (tmp_path / "log").read_text()
    assert sorted(controller.launched, key=str) == [
        (
            "Placement - rollout",
            {"extra_vars": {"placement_rollout_namespaces": f"[{name}]"}, "limit": "prod"},
        )
        for name in ("lab", "shop")
    ], log
