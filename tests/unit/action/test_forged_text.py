# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that comes from a cluster is printed, without control characters, and never templated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import one_line
from tests.support.api_server import ApiServer, status
from tests.unit.action.plays import Task, played

FORGED = "{{ lookup('pipe', 'touch forged') }}\x1b[2J\r\nok: [localhost] => forged"


def test_message_of_a_server_is_no_template_and_forges_no_line(tmp_path: Path) -> None:
    with ApiServer() as server:
        server.plays(status(403, "Forbidden", FORGED))
        given = {"host": server.url, "api_key": "x", "timeout": 60}
        tasks: list[Task] = []
        for task in (
            {"virt.placement.topology_info": given},
            {"virt.placement.rollout": {**given, "namespaces": ["shop"], "run_timeout": 60}},
        ):
            text = {"ansible.builtin.set_fact": {"text": "{{ result.msg }}"}}
            shown = {"ansible.builtin.debug": {"msg": "{{ text }} {{ result.errors }}"}}
            tasks += [{**task, "register": "result", "ignore_errors": True}, text, shown]
        done = played(tmp_path, tasks, "-v")

    assert "ignored=2" in done.stdout and done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("touch forged") >= 4
    assert not (tmp_path / "forged").exists()
    assert "\x1b[2J" not in done.stdout
    assert not [
        line for line in done.stdout.splitlines() if line.startswith("ok: [localhost] => forged")
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\v", "\x85", "\u2028"])
def test_a_progress_line_is_one_line(end: str) -> None:
    assert one_line(f"VM db: x{end}ok: [localhost]") == "VM db: x ok: [localhost]"
