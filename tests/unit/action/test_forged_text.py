# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that comes from a cluster is printed, without control characters, and never templated."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from tests.unit.action.test_secrets import PLAYBOOK, environment, play

FORGED = "{{ lookup('pipe', 'touch forged') }}\x1b[2J\r\nok: [localhost] => forged"


class Forging(http.server.BaseHTTPRequestHandler):
    """Refuses every request with a message that is a template, and looks like output of Ansible."""

    def answer(self) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden"}
        body = json.dumps({**status, "message": FORGED}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815  names that the base class calls

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forging) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def test_message_of_a_server_is_no_template_and_forges_no_line(server: str, tmp_path: Path) -> None:
    given = {"host": server, "api_key": "x", "timeout": 5}
    tasks: list[dict[str, t.Any]] = []
    for task in (
        {"virt.placement.topology_info": given},
        {"virt.placement.rollout": {**given, "namespaces": ["shop"], "run_timeout": 5}},
    ):
        text = {"ansible.builtin.set_fact": {"text": "{{ result.msg }}"}}
        shown = {"ansible.builtin.debug": {"msg": "{{ text }} {{ result.errors }}"}}
        tasks += [{**task, "register": "result", "ignore_errors": True}, text, shown]
    (tmp_path / "play.yml").write_text(play(tasks))

    done = subprocess.run(
        [PLAYBOOK, "-v", "play.yml"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ignored=2" in done.stdout and done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("touch forged") >= 4
    assert not (tmp_path / "forged").exists()
    assert "\x1b[2J" not in done.stdout
    assert not [
        line for line in done.stdout.splitlines() if line.startswith("ok: [localhost] => forged")
    ]
