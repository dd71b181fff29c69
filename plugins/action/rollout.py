# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the module's steps until the run has ended, and print what changed meanwhile.

No policy: what is moved, when, and when it is over is the module's business. Steps go through the
action plugin of kubernetes.core, which finds and decrypts the kubeconfig on the controller.
"""

from __future__ import annotations

import os
import threading
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

AUTHENTICATION = "kubernetes.core.k8s_info"

GATHERED = ("moves", "cleared", "progress")
"""Lists of which each step returns what is new."""

PARENT_POLL = 0.5

Result = dict[str, t.Any]


class ActionModule(ActionBase):
    """One task of many steps."""

    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        if self._task.async_val:
            raise AnsibleActionFail(
                f"{self._task.action} prints its progress and cannot run with async: remove async and"
                " poll, and bound it with its option timeout"
            )
        host = str((task_vars or {}).get("inventory_hostname", ""))
        result.update(self._repeat(host, task_vars or {}))
        return result

    def _repeat(self, host: str, task_vars: Result) -> Result:
        began = time.monotonic()
        self._end_with_parent()
        gathered: dict[str, list[t.Any]] = {name: [] for name in GATHERED}
        run: Result = {}
        changed = False
        while True:
            step = self._step(run, task_vars)
            changed = changed or bool(step.get("changed"))
            self._show(host, step.get("progress") or [])
            for name in GATHERED:
                gathered[name] += step.get(name) or []
            if step.get("failed") or step.get("finished", True):
                return {**_for_users(step), **gathered, "changed": changed}
            run = {**step["run"], "elapsed": time.monotonic() - began}

    def _step(self, run: Result, task_vars: Result) -> Result:
        task = self._task.copy()
        task.args = {**self._task.args, "run": run}
        action = self._shared_loader_obj.action_loader.get(
            AUTHENTICATION,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        if action is None:
            raise AnsibleActionFail("the collection kubernetes.core is not installed")
        try:
            step: Result = action.run(task_vars=task_vars)
        finally:
            self._loader.cleanup_all_tmp_files()
        return step

    def _end_with_parent(self) -> None:
        """This runs in a worker process. When the play is killed its workers live on, and nobody
        would hear of what they do: so end, and the step that is under way finds its output closed.
        """
        parent = os.getppid()

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(PARENT_POLL)
            self._loader.cleanup_all_tmp_files()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()

    def _show(self, host: str, lines: t.Iterable[str]) -> None:
        if self._task.no_log:
            return
        for line in lines:
            Display().display(f"[{host}] {line}" if host else line)


def _for_users(step: Result) -> Result:
    """Without what steps hand to one another."""
    step.pop("run", None)
    step.get("invocation", {}).get("module_args", {}).pop("run", None)
    return step
