# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one stage of a role of this collection."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    Job,
    JobFailed,
    same_clusters,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.job_stages import STAGES
from ansible_collections.virt.placement.plugins.plugin_utils.orphans import end_pauses_with_parent

end_pauses_with_parent()


class ActionModule(ActionBase):
    """The action plugin of virt.placement.job."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        stage = str(self._task.args.get("stage", ""))
        if stage not in STAGES or not self._task.args.get("role"):
            raise AnsibleActionFail(
                f"role and stage are required, and stage is one of {', '.join(STAGES)};"
                " the roles of virt.placement call this action, playbooks need not"
            )
        job = Job(self, self._task, task_vars or {})
        try:
            if stage != "check" and (errors := same_clusters(job.record, job.hosts)):
                raise JobFailed(errors)
            returned = self._staged(stage, job)
        except JobFailed as error:
            returned = job.end(error)
        job.record.close() if stage == "close" else job.record.save()
        return {**result, **self._with_remarks(job, returned)}

    def _staged(self, stage: str, job: Job) -> Result:
        """What the stage returns. Until then the record has it as what the job could end in."""
        if stage == "close":
            job.note_unseen_failure()
            job.note_steps_left_out()
            return STAGES[stage](job)
        job.record.open = job.task_name
        job.record.save()
        if stage != "check" and not job.record.asked:  # Ansible has left that stage out
            options, errors = job.read_options()
            if errors:
                raise JobFailed(errors)
            job.record.role, job.record.asked = job.role, options
        try:
            returned = STAGES[stage](job)
        except JobFailed:
            raise
        except BaseException as error:
            job.record.cut(error, self._task)
            raise
        finally:
            job.record.ran.append(job.task_name)
        if job.record.open == job.task_name:
            job.record.open = ""
        return returned

    def _with_remarks(self, job: Job, returned: Result) -> Result:
        remarks = {"warnings": job.warnings, "diff": job.diffs}
        return {"changed": job.changed, **{x: y for x, y in remarks.items() if y}, **returned}
