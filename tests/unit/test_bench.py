# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bench counts, without what it measures."""

from __future__ import annotations

import os
import typing as t

import pytest

from sandbox.real_nodes import ground
from tests.bench import processes, real, starts
from tests.bench.row import LeftOut, Row, table


def migration(node: str, seconds: int) -> dict[str, t.Any]:
    stamps = {
        "Pending": "2026-11-29T14:00:00Z",
        "Scheduling": "2026-11-29T14:00:50Z",
        "Succeeded": f"2026-11-29T14:01:{seconds - 10:02}Z",
    }
    listed = [{"phase": name, "phaseTransitionTimestamp": at} for name, at in stamps.items()]
    state = {"sourceNode": node}
    return {"status": {"migrationState": state, "phaseTransitionTimestamps": listed}}


@pytest.mark.parametrize(
    ("of_nodes", "seconds"),
    [
        ({"w1": [10, 10, 10, 14]}, 22),  # two at a time leave a node
        ({"w1": [10] * 4, "w2": [10] * 4, "w3": [10] * 4}, 24),  # five at a time move
        ({"w1": [30, 10]}, 30),  # none is split
    ],
)
def test_limit_of_migrations(of_nodes: dict[str, list[int]], seconds: float) -> None:
    """The time that a migration waits for its turn is not of the limit."""
    moved = [migration(node, each) for node, times in of_nodes.items() for each in times]

    assert real.limit(moved) == seconds


def test_memory_of_a_program_is_not_that_of_what_measures_it() -> None:
    """Linux counts the peak of the process that starts a program as the program's own."""
    large = bytearray(256 * 1024 * 1024)

    ended = processes.run(["sh", "-c", "echo told; exit 3"], os.environ)

    assert len(large) > 0
    assert (ended.returncode, ended.output) == (3, "told\n")
    assert ended.peak_rss_mb < 100


def test_rows_of_real_nodes_are_left_out_where_they_cannot_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ground, "survey", lambda: None)
    monkeypatch.setattr(ground, "lacking", lambda _ground: ["no root", "no disk"])

    rows = real.rows()

    assert rows == [
        LeftOut(real.DRAIN, "no root; no disk"),
        LeftOut(real.ROLLOUT, "no root; no disk"),
    ]
    lines = table([Row("measured", "s", 1.0), *rows]).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == ["measured", real.DRAIN, real.ROLLOUT]
    assert lines[-1].endswith("left out: no root; no disk")
    assert rows[0].as_json() == {"name": real.DRAIN, "left_out": "no root; no disk"}


def test_rows_of_real_nodes_are_left_out_of_a_small_bench() -> None:
    assert {row.reason for row in real.rows(small=True) if isinstance(row, LeftOut)} == {
        "only in the full bench"
    }


def test_rows_beside_an_older_commit_are_left_out_of_a_shallow_clone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starts, "BEFORE", "f" * 40)

    rows = starts.rows()

    assert [row.name for row in rows] == list(starts.NAMES.values())
    assert "is not in this clone" in str(rows[0].as_json()["left_out"])
