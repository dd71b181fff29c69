# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the module's steps until the run has ended, and print what changed meanwhile.

No policy: what is moved, when, and when it is over is the module's business. Each step finds the
kubeconfig on the controller again and leaves no decrypted copy of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import typing as t

from ansible.errors import AnsibleActionFail

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import one_line
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import (
    remove_decrypted_files,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import QUIET
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import has_crashed
from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import (
    KubeconfigAction,
    Result,
)
from ansible_collections.virt.placement.plugins.plugin_utils.orphans import (
    end_pauses_with_parent,
    when_parent_is_gone,
)
from ansible_collections.virt.placement.plugins.plugin_utils.registry import CAPABILITIES
from ansible_collections.virt.placement.plugins.plugin_utils.terminal import show_lines

end_pauses_with_parent()

GOODBYE = 15.0
"""Seconds that an interrupted task has to give the Lease back."""


class ActionModule(KubeconfigAction):
    """One task of many steps."""

    GATHERED: tuple[str, ...] = ("moves", "progress")
    """Lists of which each step returns what is new."""

    RUN = "rollout"

    _supports_async = False

    def _work(self, task_vars: Result) -> Result:
        self._quiet = QUIET in task_vars
        if self._task.async_val:
            raise AnsibleActionFail(
                f"{self._task.action} prints its progress and cannot run with async: remove async and"
                " poll, and bound it with its option run_timeout"
            )
        for option in ("plan", "places"):
            if option in self._task.args and self._task.args[option] is None:
                # for the module that is the same as no plan
                raise AnsibleActionFail(
                    f"{option}: is null, and a {self.RUN} without {option} was not asked for: omit the option for that."
                    " Nothing was moved"
                )
        return self._repeat(str(task_vars.get("inventory_hostname", "")), task_vars)

    def _repeat(self, host: str, task_vars: Result) -> Result:
        began = time.monotonic()
        self._end_with_parent()
        self._end_in_order()
        gathered: dict[str, list[t.Any]] = {name: [] for name in self.GATHERED}
        self._pipe = self._open_pipe(host)
        run: Result = {"pipe": self._pipe.path} if self._pipe is not None else {}
        changed = False
        bytes_read = 0
        while True:
            step = self._step(run, task_vars)
            if has_crashed(step) and not self._interrupted.is_set():
                step = self._with_moves_in_flight(step, run, task_vars)
            bytes_read += step.get("cluster", {}).get("bytes_read", 0)
            if self._interrupted.is_set():
                self._leave(host, step, run, task_vars)
            changed = changed or bool(step.get("changed"))
            self._show(host, self._unread(step))
            for name in self.GATHERED:
                gathered[name] += step.get(name) or []
            if step.get("failed") or step.get("finished", True):
                tables = (table for x in CAPABILITIES for table in x.tables.items())
                for field, table in tables:
                    lines = table(step, gathered["moves"]) if field in step else []
                    self._show(host, lines)
                    gathered["progress"] += lines
                gathered = {k: v for k, v in gathered.items() if v or k != "diff"}
                result = {**_for_users(step), **gathered, "changed": changed}
                if "bytes_read" in result.get("cluster", {}):
                    result["cluster"]["bytes_read"] = bytes_read
                if result.get("failed") and not self._task.no_log:
                    del result["progress"]  # Ansible prints a failed result: these lines once more
                return result
            run = {**step["step_state"], "elapsed": time.monotonic() - began}
            left = run.get("in_flight") or []
            self.until_now = {
                "failed": True,
                "changed": changed,
                "moves": gathered["moves"],
                "skipped_instances": left,
                "outcome": step.get("outcome", {}),
            }

    def _with_moves_in_flight(self, step: Result, run: Result, task_vars: Result) -> Result:
        """The result of a step that ended without one, with the moves that it has left. Where the module can run
        here, one more step reads them in the journal, and gives the Lease back."""
        left = {
            "skipped_instances": run.get("in_flight") or [],
            "outcome": self.until_now.get("outcome", {}),
        }
        if run.get("transitions") and not step.get("unreachable"):
            ended = self._step({**run, "interrupted": True}, task_vars)
            left |= {name: ended[name] for name in left if name in ended}
        return {**step, **left}

    def _pause(self, seconds: float) -> bool:
        return self._interrupted.wait(seconds)

    def _step(self, run: Result, task_vars: Result) -> Result:
        try:
            state = {**(self._task.args.get("step_state") or {}), **run}
            return self._run_module({**self._task.args, "step_state": state}, task_vars)
        finally:
            remove_decrypted_files(self)

    def _end_with_parent(self) -> None:
        """End this worker process when `ansible-playbook` is killed. Otherwise it would continue, and its output
        would be lost. The step that is running then sees that its output is closed.
        """

        def end() -> None:
            if self._interrupted.is_set():
                time.sleep(GOODBYE)
            remove_decrypted_files(self)
            os._exit(1)

        when_parent_is_gone(os.getppid(), end)

    def _end_in_order(self) -> None:
        """On SIGINT and SIGTERM the step that is under way gives the Lease back, and its last message is
        shown. Ansible prints nothing of a worker any more by then, so that goes to its standard error."""
        self._interrupted = threading.Event()
        self._terminal = -1
        with contextlib.suppress(OSError):
            self._terminal = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
        if threading.current_thread() is not threading.main_thread():
            return

        def interrupt(number: int, _frame: object) -> None:
            if not self._interrupted.is_set():
                self._interrupted.set()
                if (
                    os.getpgid(0) == os.getpid()
                ):  # our own group: the module is in it, Ansible is not
                    os.killpg(0, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)

    def _leave(self, host: str, step: Result, run: Result, task_vars: Result) -> t.NoReturn:
        """Say what is in flight, and end. A step that did not hear of the interruption is followed by
        one that only gives the Lease back."""
        run = step.get("step_state") or run
        if "errors" not in step and run.get("transitions") and "interrupted" in run:
            step = self._step({**run, "interrupted": True}, task_vars)
        lines = [*self._unread(step), str(step.get("msg") or "interrupted")]
        if self._terminal >= 0 and not self._task.no_log:
            text = "".join(f"[{host}] {line}\n" for line in map(one_line, lines))
            with contextlib.suppress(OSError):
                os.write(self._terminal, text.encode())
        remove_decrypted_files(self)
        os._exit(1)

    def _unread(self, step: Result) -> list[str]:
        """The progress of a step that was not read while it ran. What was, is on the terminal by then."""
        if self._pipe is not None:
            self._pipe.drain()
        return list(step.get("progress") or [])[step.pop("_shown", 0) :]

    def _show(self, host: str, lines: t.Iterable[str]) -> None:
        if not self._quiet:
            show_lines(self._task, host, lines)


def _for_users(step: Result) -> Result:
    """Without what steps hand to one another."""
    step.pop("step_state", None)
    step.get("invocation", {}).get("module_args", {}).pop("step_state", None)
    return step
