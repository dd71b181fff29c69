# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that reads once names an API server that goes away meanwhile, as a rollout does."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from ansible_collections.virt.placement.plugins.module_utils.api.progress_pipe import ProgressPipe
from ansible_collections.virt.placement.plugins.plugin_utils.progress_pipe import PipeReader
from tests.support.api_server import RESET, ApiServer, Fault, Reply, Request, answer
from tests.unit.action.plays import played

AWAY = 8.0
"""The pause before a request is sent once more is up to 3 s by then."""


def test_api_server_that_goes_away_is_named_while_the_module_runs(tmp_path: Path) -> None:
    began: list[float] = []

    def play(_request: Request) -> Reply:
        """The server answers, is away for some seconds, and answers again."""
        began.append(time.monotonic())
        if len(began) > 1 and began[-1] - began[1] < AWAY:
            return RESET
        return answer({"metadata": {"name": "kube-system", "uid": "c1"}, "items": []})

    with ApiServer(faults=[Fault("GET", "", play)]) as server:
        given = {"host": server.url, "api_key": "x", "cluster_uid": "c1"}
        done = played(tmp_path, [{"virt.placement.topology_info": given}], "-v")

    lines = done.stdout.splitlines()
    (away,) = [n for n, line in enumerate(lines) if "no answer from the API server" in line]
    (back,) = [n for n, line in enumerate(lines) if "which was away since" in line]
    (task,) = [n for n, line in enumerate(lines) if line.startswith("TASK")]
    (end,) = [n for n, line in enumerate(lines) if line.startswith(("ok:", "fatal:"))]
    assert task < away < back < end, done.stdout
    assert lines[away].startswith("[localhost] ")


def test_reader_shows_each_line_and_ends() -> None:
    shown: list[str] = []
    before = threading.active_count()
    reader = PipeReader(shown.append)
    pipe = ProgressPipe(reader.path)
    pipe.note("first")
    pipe.note("with s3cret", ["s3cret"])
    reader.drain()
    assert shown == ["first"]
    pipe.note("second")
    reader.close()
    assert shown == ["first", "second"]
    os.stat(reader.path)
    deadline = time.monotonic() + 5.0
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
    pipe.note("nobody reads it")
