# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let kubernetes.core find and decrypt the kubeconfig on the controller, then run the module.

Every module without steps of its own has an action plugin that adds nothing to this class. A
redirect in meta/runtime.yml or a symbolic link would do the same, but linters read both as an
alias: they check a module against the documentation of the other.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
import types
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.virt.placement.plugins.module_utils.api.progress_pipe import (
    PATIENCE,
    PROGRESS,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.results import PRINTED
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import (
    becomes,
    find_file,
    is_local,
    plugin_of,
    remove_decrypted_files,
    shows_invocation,
    with_invocation,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    TABLE,
    WITHIN,
    failed_result,
    lines_of,
    reasons_of,
    same_clusters,
    traceback_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import (
    has_failed,
    new_record,
    own_result,
    play_of,
    read_record,
    role_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.outage import Waiting
from ansible_collections.virt.placement.plugins.plugin_utils.progress_pipe import PipeReader
from ansible_collections.virt.placement.plugins.plugin_utils.terminal import show_lines

AUTHENTICATION = "kubernetes.core.k8s_info"

Result = dict[str, t.Any]


class KubeconfigAction(ActionBase):
    """Runs the task's own module with the kubeconfig that kubernetes.core's plugin finds."""

    TABLE = False
    """Whether the role with a task of this module prints the table of its result in the next one."""

    RETURNS = "cluster"
    """A field of each result of the module, unless it fails."""

    until_now: t.Mapping[str, t.Any] = {"failed": True}
    """What is known of the result if the task ends now, by its limit of time."""

    _pipe: PipeReader | None = None
    """Where the steps of a run write their lines."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        with self._copies_removed_on_sigterm():
            return {**result, **self._reported(task_vars or {})}

    def _reported(self, task_vars: Result) -> Result:
        """What comes of the task. In a role of this collection it is noted for the end of the job, and an error is
        printed as lines."""
        host = str(task_vars.get("inventory_hostname", ""))
        role, play, checks = role_of(self._task), play_of(self._task), bool(self._task.check_mode)
        if WITHIN in task_vars or not role:
            return self._work(task_vars)
        # Ansible may have left out the first task of the role, which makes the record.
        record = read_record(host, play) or new_record(role, host, play, check_mode=checks)
        lines = same_clusters(record, [str(x) for x in task_vars.get("ansible_play_hosts_all", ())])
        worked: Result = {}
        record.open = str(self._task.name)
        record.ran.append(record.open)
        record.save()
        if not lines:
            module = self._task.action.rpartition(".")[2]
            try:
                worked = self._work(task_vars)
            except BaseException as error:
                record.note(module, dict(self.until_now))
                record.cut(error, self._task)
                raise
            record.note(module, worked)
            lines = lines_of(worked) if has_failed(worked) else []
        if lines:
            show = functools.partial(show_lines, self._task, host)
            name, reasons = str(self._task.name), reasons_of(worked)
            failed = failed_result(record, name, lines, show, reasons)
            # What was written before the failure, for a role that undoes it
            known = {key: worked[key] for key in ("change", "changed") if key in worked}
            return failed | known | traceback_of(worked)
        record.open = ""
        record.save()
        return worked

    @contextlib.contextmanager
    def _copies_removed_on_sigterm(self) -> t.Iterator[None]:
        """Ansible decrypts a vaulted kubeconfig to a temporary file, and does not remove it when its
        worker is terminated."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def end(number: int, frame: types.FrameType | None) -> None:
            remove_decrypted_files(self)
            signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for number in before:
            signal.signal(number, end)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def _work(self, task_vars: Result) -> Result:
        """What comes of the task."""
        return self._run_module(dict(self._task.args), task_vars)

    def _run_module(
        self, arguments: Result, task_vars: Result, module: str | None = None
    ) -> Result:
        """Run the task's module, or another one, once, with the file that its kubeconfig names."""
        try:
            self._find_kubeconfig(arguments)
        except AnsibleError as error:
            return {"failed": True, "msg": str(error)}
        host = str(task_vars.get("inventory_hostname", ""))

        def run() -> Result:
            variables = with_invocation(task_vars)  # own_result knows a failure by it
            ran: Result = self._execute_module(module, module_args=arguments, task_vars=variables)
            self.cleanup(force=True)
            own = own_result(ran, self.RETURNS)
            if not shows_invocation(task_vars):
                own.pop("invocation", None)
            return own

        with self._lines_shown(host) as piped, self._table_printed(task_vars):
            waiting = Waiting(
                lambda: self._goes_on(task_vars),
                self._patience(arguments),
                lambda line: show_lines(self._task, host, [line]),
                piped,
                self._pause,
            )
            return waiting.result_of(run)

    def _goes_on(self, task_vars: Result) -> bool:
        """Whether the task is part of a job that has begun something."""
        if WITHIN not in task_vars and not role_of(self._task):
            return False
        record = read_record(str(task_vars.get("inventory_hostname", "")), play_of(self._task))
        return record is not None and record.has_begun

    def _patience(self, _arguments: Result) -> float:
        """Seconds for which a job that has begun something waits for the API server."""
        return PATIENCE

    def _pause(self, seconds: float) -> bool:
        """Wait. Returns whether the task is to end."""
        time.sleep(seconds)
        return False

    @contextlib.contextmanager
    def _lines_shown(self, host: str) -> t.Iterator[bool]:
        """Show what the module writes while it runs, as that the API server is away. The module of a local connection
        has the environment of this worker, which runs one task. Yields whether that is possible."""
        pipe = self._open_pipe(host) if self._pipe is None else None
        if pipe is None:
            yield self._pipe is not None
            return
        os.environ[PROGRESS] = pipe.path
        try:
            yield True
        finally:
            del os.environ[PROGRESS]
            pipe.close()

    @contextlib.contextmanager
    def _table_printed(self, task_vars: Result) -> t.Iterator[None]:
        """Tell a module on this host that the role prints its table."""
        prints = self.TABLE and WITHIN not in task_vars and role_of(self._task)
        if not prints and TABLE not in task_vars:
            yield
            return
        os.environ[PRINTED] = "1"
        try:
            yield
        finally:
            del os.environ[PRINTED]

    def _open_pipe(self, host: str) -> PipeReader | None:
        """None where the module runs elsewhere, or as another user: its lines come when it has ended, if at all."""
        if not is_local(self) or becomes(self) or self._task.no_log:
            return None
        return PipeReader(lambda line: show_lines(self._task, host, [line]))

    def _find_kubeconfig(self, arguments: Result) -> None:
        """Puts the path of the file, decrypted, for the name that the task gives. Nothing else of
        that plugin is for us, and it copies all arguments, of which there may be thousands."""
        if not arguments.get("kubeconfig"):
            return
        action = plugin_of(self, AUTHENTICATION)
        if action is None:
            raise AnsibleActionFail("the collection kubernetes.core is not installed")
        remote = not is_local(self)
        if not remote and isinstance(arguments["kubeconfig"], str):
            self._check_files(arguments["kubeconfig"])
        action.get_kubeconfig(arguments["kubeconfig"], remote, arguments)

    def _check_files(self, kubeconfig: str) -> None:
        """What Ansible says of a file that it does not find speaks of options that no module of
        this collection has."""
        for name in kubeconfig.split(os.pathsep):
            try:
                path = find_file(self, name)
            except AnsibleError:
                raise AnsibleActionFail(
                    f"kubeconfig: there is no file {name} on the controller, neither there nor"
                    " beside the play or in its folder files; correct kubeconfig"
                ) from None
            if os.path.isdir(path):
                raise AnsibleActionFail(f"kubeconfig: {path} is a folder; name the file in it")
