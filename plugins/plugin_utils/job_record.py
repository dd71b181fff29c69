# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role has done so far on one inventory host: a file that its tasks share, on the controller.

Tasks run in processes of their own, and a variable would be printed with the result of a task that fails. Ansible
removes the folder of the file at the end of the play.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import typing as t
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ansible.errors import AnsibleError

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, one_line
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import (
    folder_of_run,
    is_time_limit,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing import reason_of
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import ROLES

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task

Result = dict[str, t.Any]

KEPT = (
    "capacity",
    "change",
    "changed",
    "deferred",
    "domains",
    "errors",
    "moves",
    "new_members",
    "nodes",
    "outcome",
    "permission_gaps",
    "plan",
    "reverted",
    "room_for",
    "rules",
    "skipped_instances",
    "stop_code",
    "summary",
)
"""Parts of a module's result that the closing block may need."""

TRACEBACK = "To see the traceback, set ANSIBLE_DISPLAY_TRACEBACK=always, and before ansible-core 2.19 give -vvv."


@dataclass
class JobRecord:
    """`asked` are the options of the role. `notes`: what each task of a module returned, in part. `failures`: texts
    that make the job fail, `reasons` one text for each thing that failed; `lead`: what goes before the first one, None
    for the task. `open`: what runs now and could fail. `cut_by`: what ended it before it had a result, empty where that
    is not known. `changed`: whether a task has changed something. `failure_before`: the failure of another task that
    Ansible knew of when the role began, as in a section `always` of a playbook. `undo`: how many `notes` and `failures`
    there were when the job began to undo its change, empty if it did not. `ran`: the names of its tasks that began.
    `outer`: the record of the role whose tasks of a user include this one, and which goes on afterwards. `closed`:
    whether the role has ended."""

    role: str
    host: str
    play: str
    began: float
    check_mode: bool = False
    uid: str = ""
    api: str = ""
    compared: bool = False
    asked: Result = field(default_factory=dict)
    notes: list[Result] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    failed_task: str = ""
    lead: str | None = None
    open: str = ""
    cut_by: str = ""
    changed: bool = False
    failure_before: str = ""
    maintenance: Result = field(default_factory=dict)
    undo: Result = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    outer: Result = field(default_factory=dict)
    closed: bool = False

    def fail(
        self,
        task: str,
        lines: t.Sequence[str],
        reasons: t.Sequence[str] = (),
        lead: str | None = None,
    ) -> None:
        """The job fails with these lines. `reasons`: one text for each thing that failed, where these are several. What
        fails while a change is undone follows from the reason that the job had before."""
        self.failures += lines
        if lines and not self.undo:
            each: list[t.Sequence[str]] = [[text] for text in reasons]
            self.reasons += map(reason_of, each or [lines])
        if not self.failed_task:
            self.failed_task, self.lead = task, lead

    def note(self, module: str, result: Result) -> None:
        kept = {name: result[name] for name in KEPT if name in result}
        if has_crashed(result):
            kept["crashed"] = True
        self.changed = self.changed or bool(result.get("changed"))
        self.notes.append({"module": module, "failed": has_failed(result), **kept})

    def cut(self, error: BaseException, task: Task) -> None:
        """The task ends by this exception."""
        if isinstance(error, AnsibleError):  # whose further paragraphs show where it was written
            self.cut_by = one_line(str(error).partition("\n\n")[0])
        elif isinstance(error, Exception):
            last = str(error).rstrip().rpartition("\n")[2]
            self.cut_by = f"{type(error).__name__}: {last.rstrip('.')}. {TRACEBACK}"
        elif task.timeout and is_time_limit(error):
            self.cut_by = (
                f"the task's timeout of {task.timeout} s ended it (keyword timeout of the task or of what is around it,"
                " else ANSIBLE_TASK_TIMEOUT). Raise or remove it; run_timeout of this collection bounds a run in order"
            )
        self.save()

    def of(self, module: str) -> list[Result]:
        return [note for note in self.notes if note["module"] == module]

    def last(self, module: str) -> Result:
        """Of the last task with the module; empty where there was none."""
        return [{}, *self.of(module)][-1]

    def before_undo(self) -> JobRecord:
        """The record as it was when the job began to undo its change; the whole one where it did not."""
        notes, failures = (self.undo.get(name) for name in ("notes", "failures"))
        return replace(self, notes=self.notes[:notes], failures=self.failures[:failures], undo={})

    @property
    def has_begun(self) -> bool:
        """Whether it has changed something, or continues a maintenance: what follows waits for an API server that is
        away."""
        going = self.maintenance.get("begun") or self.maintenance.get("continued")
        return not self.check_mode and bool(self.changed or going)

    @property
    def moves(self) -> list[Result]:
        """Those that were made or, in check mode, would be, in their order."""
        return [
            move
            for note in self.notes
            if note["module"] in ("rollout", "node_maintenance")
            for move in note.get("moves") or ()
        ]

    @property
    def given_plan(self) -> str:
        """The plan that the job carries out, with its checksum: compare it with that of the plan that was approved.
        Nodes are put in service without one."""
        path, checksum = self.asked.get("plan_file"), self.asked.get("plan_checksum")
        given = path or self.asked.get("plan")
        if not given or self.check_mode or self.asked.get("state") == "in_service":
            return ""
        known = f" (checksum {checksum:.12})" if checksum else ""
        return f"the plan {path or 'of the job before'}{known}"

    @property
    def begun(self) -> bool:
        """Whether something was written, or may have been, so that the same job continues."""
        # a module that ended without a result may have written before
        return not self.check_mode and any(
            x.get("changed")
            or x.get("change")
            or (x.get("crashed") and not x["module"].endswith("_info"))
            for x in self.notes
        )

    def within(self, outer: JobRecord | None) -> None:
        """The role began while another one had not ended."""
        if outer is not None and not outer.closed and outer.role != self.role:
            self.outer = asdict(outer)

    def close(self) -> None:
        """The role has ended: the record is again that of the role around it."""
        self.closed = True
        (JobRecord(**self.outer) if self.outer else self).save()

    def save(self) -> None:
        path = _path(self.host)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), default=str))
        os.replace(new, path)


def has_failed(result: Result) -> bool:
    """Whether Ansible takes the task for failed, whatever else its result has."""
    return bool(result.get("failed") or result.get("unreachable"))


def has_crashed(result: Result) -> bool:
    """Whether the module has ended without a result of its own: by an exception, or killed. A module of this collection
    that fails has a message. From ansible-core 2.19 on Ansible has none for an exception of a module, before that a
    message of its own beside what the module has printed."""
    has_no_result = "module_stdout" in result or "msg" not in result or FOREIGN in result
    return has_failed(result) and has_no_result


FOREIGN = "foreign_result"
"""Field of a failure: the names of the fields that came in place of the module's result."""

_OF_FAILURES = frozenset({"errors", "invocation", "unreachable"})
"""Fields of which a failed result with a message has one, if it is the module's own or Ansible's."""

_ADDED_BY_ANSIBLE = frozenset({"deprecations", "exception", "failed", "warnings"})


def own_result(result: Result, field_of_module: str) -> Result:
    """The result of a module, which has `field_of_module` unless it fails. Where JSON of something else came in its
    place, a failure that says so: Ansible takes any object on the standard output for the result."""
    if has_failed(result):
        is_own = has_crashed(result) or not _OF_FAILURES.isdisjoint(result)
    else:
        is_own = field_of_module in result
    if is_own:
        return result
    fields = sorted(x for x in result if not (x.startswith("_") or x in _ADDED_BY_ANSIBLE))
    names = listed(fields) or "no field"
    said = f" ({one_line(str(result['msg']))})" if has_failed(result) and "msg" in result else ""
    text = (
        f"The result is not that of the module: it has {names} and no {field_of_module}{said}. Something else printed"
        " JSON on the standard output of its Python and ended it, such as a wrapper that is the interpreter, or a"
        " library. Whether the module did its work is unknown. Find what prints there, on this host."
    )
    return {"failed": True, "msg": text, FOREIGN: fields}


def read_record(host: str, play: str) -> JobRecord | None:
    """The record of the role that runs, or ran last, on this host in this play."""
    try:
        content = json.loads(_path(host).read_text())
    except (OSError, ValueError):
        return None
    record = JobRecord(**content)
    return record if record.play == play else None


def new_record(role: str, host: str, play: str, *, check_mode: bool) -> JobRecord:
    return JobRecord(role, host, play, time.time(), check_mode)


def play_of(task: Task) -> str:
    """Where the play of a task is written. Each batch of a play with `serial` is another object."""
    return str(task.get_play().get_path())


def role_of(task: Task) -> str:
    """The role of this collection in which the task is written; empty in a playbook, and in tasks of a user that a role
    includes."""
    written = Path(str(task.get_path()).rpartition(":")[0]).resolve()
    return written.relative_to(ROLES).parts[0] if written.is_relative_to(ROLES) else ""


def _path(host: str) -> Path:
    name = hashlib.sha256(host.encode()).hexdigest()[:16]
    return folder_of_run() / f"virt-placement-job-{name}.json"
