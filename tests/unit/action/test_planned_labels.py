# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In check mode the role placement_apply counts with the labels that placement_topology would write."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

from dev.trace_server import TraceServer
from tests.unit.action.plays import PLAYBOOK, environment, kubeconfig, play


def role(name: str, **options: t.Any) -> dict[str, t.Any]:
    return {
        "ansible.builtin.include_role": {"name": f"virt.placement.placement_{name}"},
        "vars": {f"placement_{name}_{option}": value for option, value in options.items()},
    }


def test_check_mode_of_apply_counts_with_labels_of_each_topology_role(tmp_path: Path) -> None:
    on_row = {"name": "on-row", "workloads": ["db0"], "run_on": {"example.com/row": "r2"}}
    on_rack = {"name": "on-rack", "workloads": ["db0"], "run_on": {"example.com/rack": "k2"}}
    wanted = {"namespace": "shop", "rules": [on_row, on_rack], "forecast": False, "verify": False}
    with TraceServer() as server:
        connection = kubeconfig(server.url.removeprefix("http://"), {"token": "a-token"})
        text = play(
            [
                role("topology", per_value={"example.com/row": {"r2": ["w2"]}}),
                role("topology", per_value={"example.com/rack": {"k2": ["w2"]}}),
                role("apply", **wanted),
            ]
        )
        (tmp_path / "play.yml").write_text(text)
        (tmp_path / "kubeconfig").write_text(str(connection))
        done = subprocess.run(
            [PLAYBOOK, "--check", "play.yml"],
            cwd=tmp_path,
            env={
                **environment(tmp_path),
                "K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "changed=3 " in done.stdout, done.stdout[-3000:]
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any("example.com/row r2 1 w2" in row for row in rows), "its own key, as it would be"
