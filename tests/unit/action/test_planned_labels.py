# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In check mode, by the command line or a keyword, roles write nothing, and placement_apply counts with the labels that
placement_topology would write."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from dev.trace_server import TraceServer
from tests.unit.action.plays import PLAY, RunPlaybook, kubeconfig, play


def role(name: str, **options: t.Any) -> dict[str, t.Any]:
    return {
        "ansible.builtin.include_role": {"name": f"virt.placement.placement_{name}"},
        "vars": {f"placement_{name}_{option}": value for option, value in options.items()},
    }


@pytest.mark.parametrize("keyword", [{}, {"check_mode": True}], ids=["option", "keyword"])
def test_check_mode_of_apply_counts_with_labels_of_each_topology_role(
    tmp_path: Path,
    warm_playbook: RunPlaybook,
    keyword: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the keyword ansible_check_mode is false, which has the command line alone."""
    on_row = {"name": "on-row", "workloads": ["db0"], "run_on": {"example.com/row": "r2"}}
    on_rack = {"name": "on-rack", "workloads": ["db0"], "run_on": {"example.com/rack": "k2"}}
    wanted = {"namespace": "shop", "rules": [on_row, on_rack], "forecast": False, "verify": False}
    monkeypatch.setattr("tests.unit.action.plays.PLAY", {**PLAY, **keyword})
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
        monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "kubeconfig"))
        done = warm_playbook(tmp_path, *([] if keyword else ["--check"]), "play.yml")
    assert done.returncode == 0, done.stdout[-3000:]
    written = [path for _method, path, _body in server.writes if "selfsubject" not in path]
    assert written == []
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any("example.com/row r2 1 w2" in row for row in rows), "its own key, as it would be"
    assert "Check mode: these are the labels as they would be" in done.stdout
    _before, _found, applied = done.stdout.partition("placement_apply : Write rules")
    assert applied.partition("placement_apply : Report")[0].count("changed: ") == 1
    roll_out = applied.partition("placement_apply : Roll out")[2].partition("TASK")[0]
    assert "skipping: " in roll_out, "it cannot read rules that are not written"
