# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task of a role: the options of the role, the modules that it runs, and what it prints.

A role has few tasks, since Ansible prints three lines for each, also for one that is skipped.
"""

from __future__ import annotations

import functools
import hashlib
import signal
import typing as t
from pathlib import Path

from ansible import constants as C  # noqa: N812

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    NO_THREAD,
    THREADS,
)
from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import load_yaml
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, plural
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import (
    plugin_of,
    raised_message,
    templated,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import (
    FOREIGN,
    TRACEBACK,
    JobRecord,
    Result,
    has_crashed,
    has_failed,
    new_record,
    play_of,
    read_record,
)
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import (
    ROLES,
    role_options,
)
from ansible_collections.virt.placement.plugins.plugin_utils.terminal import show_lines

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task
    from ansible.plugins.action import ActionBase

NOTHING = "Nothing was changed."
WITHIN = "__placement_within_job"
"""Variable of a module's task that is part of a task of a role, which reports what came of it."""
TABLE = "__placement_table"
"""Variable of a module's task whose role prints the table of the result, which names what could not be read."""
QUIET = "__placement_quiet"
"""Variable of a module's task that reads for another one: what it would do is no news of the job."""


class JobFailed(Exception):
    """The task ends. `lines` say why, and what to do; none where they are printed already. `failed_task` is the task of
    a user that failed, where this one only follows it. `reasons`: one text for each thing that failed, where these are
    several. `traceback`: the part of a result by which Ansible prints that of a module that crashed."""

    def __init__(
        self,
        lines: t.Iterable[str],
        failed_task: str = "",
        reasons: t.Iterable[str] = (),
        traceback: t.Mapping[str, t.Any] | None = None,
    ) -> None:
        self.lines = list(lines)
        self.failed_task = failed_task
        self.reasons = list(reasons)
        self.traceback = dict(traceback or {})
        super().__init__("\n".join(self.lines))


def require(faults: t.Sequence[str]) -> None:
    """Raises JobFailed where something is wrong before anything was changed."""
    if faults:
        raise JobFailed([*faults, NOTHING])


class Job:
    """`arguments` are those of the task. `added`: options of the module of a role, of capabilities."""

    def __init__(self, action: ActionBase, task: Task, task_vars: Result) -> None:
        self._action, self._task = action, task
        self._task_vars = task_vars
        self.arguments: Result = dict(task.args)
        self.role = str(self.arguments["role"])
        self.host = str(task_vars.get("inventory_hostname", ""))
        self.check_mode = bool(task.check_mode)
        self.changed = False
        self.added: Result = {}
        self.warnings: list[t.Any] = []
        self.diffs: list[t.Any] = []
        self.record: JobRecord = read_record(self.host, play_of(task)) or self.begun()

    def begun(self) -> JobRecord:
        """A new record, at the first task of the role."""
        play = play_of(self._task)
        self.record = new_record(self.role, self.host, play, check_mode=self.check_mode)
        self.record.within(read_record(self.host, play))
        self.record.failure_before = self._failure_of_a_task
        return self.record

    @property
    def _failure_of_a_task(self) -> str:
        """What Ansible knows of a task that failed on this host: that it takes no further part in the play, or which
        task it was if the playbook goes on with a section `rescue`. "" as long as none has failed."""
        left = self._task_vars.get("ansible_play_hosts")
        is_out = "" if left is None or self.host in left else "out"
        known = [self._task_vars.get(f"ansible_failed_{name}", "") for name in ("task", "result")]
        rescued = hashlib.sha256(repr(known).encode()).hexdigest() if any(known) else ""
        return f"{is_out} {rescued}".strip()

    def note_unseen_failure(self) -> None:
        """A task that fails before its action begins, as for a template in its options, notes nothing here."""
        record, failure = self.record, self._failure_of_a_task
        if failure not in ("", record.failure_before) and not (record.failures or record.open):
            record.fail("", ["A task of this job failed before it began: see the error above."])

    def note_steps_left_out(self) -> None:
        """Steps of the role that did not run though nothing failed: Ansible began after them, or left them out."""
        if self.record.role != self.role and self.record.asked:  # the job of an earlier role
            self.begun()
        record = self.record
        record.role = self.role
        first, *others = steps_of(self.role)
        steps = [name for name in (first, *others) if name not in record.ran]
        if not record.asked and first in steps:
            options, errors = self.read_options()
            record.asked = {} if errors else options
        follow = first not in steps if record.failures else record.open
        if not steps or follow:  # what failed has kept them from running
            return
        record.fail(
            "",
            [
                f"{plural(len(steps), 'step')} of this job did not run: {listed(steps, 12)}. Ansible began after them"
                " or left them out (--start-at-task, --step, --tags, --skip-tags), so what they check or do is missing"
            ],
            lead="",
        )

    @property
    def hosts(self) -> list[str]:
        return [str(host) for host in self._task_vars.get("ansible_play_hosts_all", ())]

    @property
    def task_name(self) -> str:
        return str(self._task.name)

    def read_options(self) -> tuple[Result, list[str]]:
        """The variables of the role, converted, and what is wrong with them."""
        template = functools.partial(templated, self._action)
        return role_options(self.role, self._task_vars, template)

    def variable(self, name: str) -> t.Any:
        """The result that an earlier task of the play has registered. None if there is none, or it was skipped."""
        value = self._task_vars.get(name)
        return value if isinstance(value, dict) and not value.get("skipped") else None

    def show(self, lines: t.Iterable[str], color: str | None = None) -> None:
        show_lines(self._task, self.host, lines, color)

    def complain(self, lines: t.Sequence[str], lead: str | None = None) -> None:
        """Errors of this task that end the job later, after what else it can do. `lead` is that of a JobRecord."""
        self.show(lines, C.COLOR_ERROR)
        if lines:
            self.record.fail(self.task_name, lines, lead=lead)

    def run(
        self,
        module: str,
        arguments: Result,
        *,
        check: bool = False,
        may_fail: bool = False,
        quiet: bool = False,
        table: bool = False,
    ) -> Result:
        """What the module returns. `check`: it only looks, in check mode. JobFailed where it fails, unless it
        `may_fail`. `quiet`: it shows no progress. `table`: the caller prints its table, with what could not
        be read."""
        name = f"virt.placement.{module}"
        task = self._task.copy()
        task.action = name
        task.check_mode = check or self.check_mode
        own = {"role", "stage", "nodes", "node", "lines", "failures", "failed_task", "publish"}
        shared = {key: value for key, value in self.arguments.items() if key not in own}
        task.args = {**shared, **self._defaults_of(name), **arguments}
        plugin = plugin_of(self._action, name, task)
        told = {name: True for name, yes in ((QUIET, quiet), (TABLE, table)) if yes}
        try:
            result: Result = plugin.run(task_vars={**self._task_vars, WITHIN: True, **told})
        except BaseException:
            self.record.note(module, plugin.until_now)
            raise
        if not check:
            self.warnings += result.get("warnings") or []
            self.record.note(module, result)
            self.changed = self.changed or bool(result.get("changed"))
            self.diffs += result.get("diff") or []
        if has_failed(result) and not may_fail:
            raise JobFailed(
                lines_of(result), reasons=reasons_of(result), traceback=traceback_of(result)
            )
        return result

    def _defaults_of(self, name: str) -> Result:
        """module_defaults of the module itself. Those of its groups are in the arguments of the task."""
        merged: Result = {}
        for defaults in self._task.module_defaults or ():
            merged |= defaults.get(name) or {}
        return dict(templated(self._action, merged)) if merged else {}

    def end(self, error: JobFailed) -> Result:
        """The result of a task that fails. Its lines are printed, and not repeated in the result."""
        task = error.failed_task or self.task_name
        lead = "" if error.failed_task else None  # its lines name the task
        failed = failed_result(self.record, task, error.lines, self.show, error.reasons, lead)
        return failed | error.traceback


class Capability(t.NamedTuple):
    """What a capability adds to the jobs of roles; the registry has one for each. `stages` of the action `job`.
    `points` in stages of others: `check ROLE` before a role begins, which may return options of its module; `nodes` of
    a maintenance, when they are known, `before drains` of them and `before drain` of a group; `verdict ROLE`, which
    returns `failures`; `close`, which returns artifacts. `tables`: from a field of a result that a run returns, which
    is completed, and its moves, to the lines of a table. `parts` of the closing block of a role: what it adds
    to them, and `and_then`, what the job did after its failure, whose next steps are the only ones."""

    stages: t.Mapping[str, t.Callable[[Job], Result]] = {}
    points: t.Mapping[str, t.Callable[[Job], Result | None]] = {}
    tables: t.Mapping[str, t.Callable[[Result, t.Sequence[Result]], list[str]]] = {}
    parts: t.Mapping[str, t.Callable[[JobRecord], Result]] = {}


def steps_of(role: str) -> list[str]:
    """The names of the tasks of a role that run in each job without a failure, up to the one that reports: those of
    this collection without a condition."""
    (main,) = load_yaml((ROLES / role / "tasks" / "main.yml").read_text())
    return list(_steps(main["block"], ROLES / role / "tasks"))


def _steps(tasks: t.Sequence[Result], folder: Path) -> t.Iterator[str]:
    for task in tasks:
        if "when" in task:
            continue
        if file := task.get("ansible.builtin.import_tasks"):
            yield from _steps(load_yaml((folder / file).read_text()), folder)
        elif other := task.get("ansible.builtin.import_role"):
            tasks_of = ROLES / other["name"].rpartition(".")[2] / "tasks"
            text = (tasks_of / f"{other['tasks_from']}.yml").read_text()
            yield from _steps(load_yaml(text), tasks_of)
        elif any(key.startswith("virt.placement.") for key in task):
            yield task["name"]


def failed_result(
    record: JobRecord,
    task_name: str,
    lines: t.Sequence[str],
    show: t.Callable[[t.Iterable[str], str | None], None],
    reasons: t.Sequence[str] = (),
    lead: str | None = None,
) -> Result:
    if not (lines or record.failures):
        lines = [f"{task_name} has failed and gave no reason."]
    show(lines, C.COLOR_ERROR)
    record.fail(task_name, lines, reasons, lead)
    record.save()
    return {"failed": True, "msg": f"{task_name} has failed: see the lines above."}


def traceback_of(result: Result) -> Result:
    """The part of the result of a module that crashed by which Ansible prints its traceback where it is asked to."""
    return (
        {"exception": result["exception"]} if has_crashed(result) and "exception" in result else {}
    )


def lines_of(result: Result) -> list[str]:
    """Why a module failed, as lines, of which there is at least one."""
    if has_crashed(result) and FOREIGN not in result:
        return [f"The module ended without a result: {_end_of_module(result)}"]
    lines = [line for line in str(result.get("msg", "")).splitlines() if line.strip()]
    return lines or [
        "The module failed and gave no reason. With -vvv the same job prints its result."
    ]


def reasons_of(result: Result) -> list[str]:
    """What failed in a module, one text for each."""
    errors = result.get("errors") or ()
    return [
        str(error["message"]) for error in errors if isinstance(error, dict) and "message" in error
    ]


def _end_of_module(result: Result) -> str:
    """The signal that killed a module, else the last line of its exception, else of what it printed, or its exit code;
    and what to do."""
    # from ansible-core 2.19 on a module that raises has printed nothing
    printed = str(result.get("module_stderr", raised_message(result)))
    if killed := _SIGNALS.get(result.get("rc", 0)):
        short = "; where memory is short, raise the memory limit of its pod or node"
        return f"{killed} killed its process{short if killed == 'SIGKILL' else ''}."
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if not lines and result.get("rc") == 0 and result.get("module_stdout"):
        lines = ["something else printed on its standard output, so its result cannot be read"]
    last = (lines or [f"exit code {result.get('rc', 'unknown')}"])[-1].rstrip(".")
    if last.endswith(NO_THREAD):
        return f"{THREADS}."
    has_traceback = printed.startswith("Traceback ") or ("module_stderr" not in result and printed)
    return f"{last}. {TRACEBACK if has_traceback else 'With -vvv the same job prints what the module printed.'}"


# Of a process that a signal has killed, and of a shell whose last command it was.
_SIGNALS = {code: x.name for x in signal.Signals for code in (-x, 128 + x)}


def same_clusters(record: JobRecord, hosts: t.Sequence[str]) -> list[str]:
    """An error for each cluster that several inventory hosts are; a job compares them once. Hosts of a later batch are
    compared when it is their turn. Hosts that did not answer have failed, and write nothing."""
    if record.compared or len(hosts) < 2:
        return []
    record.compared = True
    by_uid: dict[str, list[JobRecord]] = {}
    for host in hosts:
        other = read_record(host, record.play)
        if other is not None and other.uid:
            by_uid.setdefault(other.uid, []).append(other)
    errors = []
    for uid, records in by_uid.items():
        if len(records) > 1:
            names = ", ".join(f"{same.host} ({same.api})" for same in records)
            errors.append(
                f"{len(records)} inventory hosts are the same cluster, with UID {uid}: {names}."
            )
    if errors:
        errors += [
            "Give each host its own placement_kubeconfig or placement_host, or name only one of them in"
            " placement_clusters.",
            NOTHING,
        ]
    return errors
