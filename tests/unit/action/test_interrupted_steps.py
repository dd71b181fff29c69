# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signal that also ends the module of a step is followed by one step that gives the Lease back."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.action.rollout import ActionModule
from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import Result

LATER = {"transitions": 1, "interrupted": False}


class Left(Exception):
    """In place of the end of the worker."""


class Played(ActionModule):
    """Its second step is killed with the task."""

    def __init__(self) -> None:
        self.runs: list[Result] = []

    def _end_with_parent(self) -> None:
        """Nothing."""

    def _end_in_order(self) -> None:
        self._interrupted, self._terminal = threading.Event(), -1

    def _open_pipe(self, host: str) -> None:
        """None."""

    def _show(self, host: str, lines: t.Iterable[str]) -> None:
        """Nothing."""

    def _step(self, run: Result, task_vars: Result) -> Result:
        self.runs.append(run)
        if len(self.runs) == 1:
            return {"changed": True, "finished": False, "step_state": dict(LATER)}
        if run["interrupted"]:
            return {"failed": True, "msg": "interrupted", "errors": []}
        self._interrupted.set()
        return {"failed": True, "module_stdout": "", "rc": -15}


def test_interrupted_run_gives_the_lease_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_code: int) -> t.NoReturn:
        raise Left

    monkeypatch.setattr("os._exit", end)
    played = Played()
    played._loader = t.cast(t.Any, type("Loader", (), {"cleanup_all_tmp_files": lambda _self: 0}))()
    with pytest.raises(Left):
        played._repeat("localhost", {})
    assert [run.get("interrupted") for run in played.runs] == [None, False, True]
