# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the modules of awx.awx in the process of the task: a Python of its own for each would cost most of the time."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import typing as t

from ansible.module_utils.testing import patch_module_args
from ansible.plugins.action import ActionBase

COLLECTION = "awx.awx."


class ActionModule(ActionBase):  # type: ignore[misc]
    """In place of the action plugin `normal`, which runs each module that has none of its own."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        action: str = self._task.action
        if not action.startswith(COLLECTION):
            return t.cast("dict[str, t.Any]", self._execute_module(task_vars=task_vars))
        name = action.removeprefix(COLLECTION)
        module = importlib.import_module(f"ansible_collections.awx.awx.plugins.modules.{name}")
        arguments = {
            **json.loads(json.dumps(dict(self._task.args), default=str)),
            "_ansible_check_mode": self._task.check_mode,
        }
        output = io.StringIO()
        with (
            contextlib.redirect_stdout(output),
            patch_module_args(arguments),
            contextlib.suppress(SystemExit),
        ):
            module.main()
        result: dict[str, t.Any] = json.loads(output.getvalue().strip().splitlines()[-1])
        return result
