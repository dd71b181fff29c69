# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run leaves no credential behind: not on the console or in a log, and nowhere on the cluster."""

from __future__ import annotations

import http.server
import json
import select
import socket
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from sandbox import Sandbox, objects
from tests.maintenance import Maintenance, maintenance
from tests.shop import LEASE, Object
from tests.unit.action.plays import Task, played

pytestmark = pytest.mark.packaged_modules

IDENTITY = "maintainer-mover"
SECRETS = {
    "password in the option proxy": "s3cret-0ption",
    "password in the proxy of a kubeconfig": "s3cret-pr0xy-url",
    "argument of the credential program": "s3cret-argument",
    "environment of the credential program": "s3cret-environment",
}
PROGRAM = """\
#!/bin/sh
test "$2$LOGIN" = {argument}{environment} || exit 1
echo '{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
  "status": {{"token": "{token}"}}}}'
"""
KINDS = (
    "Event",
    "Pod",
    "VirtualMachine",
    "VirtualMachineInstance",
    "VirtualMachineInstanceMigration",
)


class Tunnel(http.server.BaseHTTPRequestHandler):
    """A proxy for HTTPS."""

    used: t.ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        self.used.append(self.path)
        host, _colon, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            others = {self.connection: server, server: self.connection}
            while True:
                for end in select.select(list(others), (), ())[0]:
                    received = end.recv(1 << 16)
                    if not received:
                        return
                    others[end].sendall(received)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def tunnel() -> t.Iterator[str]:
    """Host and port."""
    Tunnel.used.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "secrets"), run_module) as shop:
        yield shop


def with_program(sandbox: Sandbox, folder: Path, tunnel: str) -> str:
    """A kubeconfig whose credentials come from a program, through a proxy."""
    program = folder / "login"
    argument = SECRETS["argument of the credential program"]
    environment = SECRETS["environment of the credential program"]
    text = PROGRAM.format(argument=argument, environment=environment, token=sandbox.token(IDENTITY))
    program.write_text(text)
    program.chmod(0o700)
    content = yaml.safe_load(sandbox.kubeconfig(IDENTITY).read_text())
    password = SECRETS["password in the proxy of a kubeconfig"]
    content["clusters"][0]["cluster"]["proxy-url"] = f"http://ann:{password}@{tunnel}"
    content["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(program),
            "args": ["--client-secret", argument],
            "env": [{"name": "LOGIN", "value": environment}],
            "interactiveMode": "Never",
        }
    }
    file = folder / "program.yml"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def objects_of(shop: Maintenance) -> list[Object]:
    """All that a run could have written to."""
    paths = [shop.path(kind) for kind in KINDS]
    paths += ["/api/v1/nodes", "/api/v1/namespaces/default/events", LEASE.rpartition("/")[0]]
    return [item for path in paths for item in shop.api.list(path)]


def test_no_credential_is_left_by_rules_rollout_and_maintenance(
    shop: Maintenance, tunnel: str, tmp_path: Path
) -> None:
    names = ["p0", "p1"]
    shop.start(*(objects.virtual_machine(name, shop.namespace) for name in names), nodes=["w1"])
    token = shop.sandbox.token(IDENTITY)
    by_program = {"kubeconfig": with_program(shop.sandbox, tmp_path, tunnel)}
    by_token = {
        "host": shop.sandbox.url,
        "ca_cert": str(shop.sandbox.ca_file),
        "api_key": token,
        "proxy": f"http://bob:{SECRETS['password in the option proxy']}@{tunnel}",
    }
    inline = {"kubeconfig": yaml.safe_load(shop.sandbox.kubeconfig(IDENTITY).read_text())}
    apart = [{"name": "apart", "workloads": names, "keep_apart": "zone"}]
    mark = shop.sandbox.audit.mark()
    given: list[tuple[str, Object]] = [
        ("rules", {**by_token, "namespace": shop.namespace, "rules": apart}),
        ("rollout", {**by_program, "namespaces": [shop.namespace], "run_timeout": 60}),
        ("rollout", {**by_program, "namespaces": ["missing"], "run_timeout": 60}),
        ("node_maintenance", {**inline, "nodes": ["w1"], "state": "drained", "run_timeout": 60}),
        ("node_maintenance", {**by_token, "nodes": ["w1"], "state": "in_service"}),
    ]
    tasks: list[Task] = []
    for number, (module, options) in enumerate(given):
        task = {f"virt.placement.{module}": options, "register": "result"}
        fails = {"ignore_errors": True} if number == 2 else {}
        tasks += [{**task, **fails}, {"ansible.builtin.debug": {"msg": "{{ result }}"}}]

    done = played(tmp_path, tasks, "-vvv")

    assert done.returncode == 0 and "ignored=1" in done.stdout, done.stdout[-4000:]
    assert " migrated: w1 (zone1) -> " in done.stdout
    assert len(Tunnel.used) >= 4
    recorded = shop.sandbox.audit.text(mark)
    for written in (
        '"placement.virt/rules',
        "placement.virt~1journal",
        '"component":"virt-placement"',
    ):
        assert written in recorded, f"the log has the bodies of writes: {written}"
    places = {
        "output": done.stdout + done.stderr,
        "log": (tmp_path / "log").read_text(),
        "audit log": recorded,
        "objects": json.dumps(objects_of(shop)),
    }
    left = [
        (name, place)
        for name, secret in {**SECRETS, "token": token}.items()
        for place, text in places.items()
        if secret in text
    ]
    assert left == []
