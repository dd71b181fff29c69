# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a report from results that are at hand. It runs on the controller and reaches no cluster."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.virt.placement.plugins.plugin_utils.report.files import faults_of_paths
from ansible_collections.virt.placement.plugins.plugin_utils.report.writing import (
    FORMATS,
    files_of,
    write_report,
)

Result = dict[str, t.Any]

FAIL_ON = (
    "violated",
    "pending",
    "unknown",
    "constraint_removed",
    "down",
    "preference_not_met",
    "not_enforced",
    "error_finding",
)

ARGUMENTS: t.Mapping[str, Result] = {
    "placement": {"type": "dict", "required": True},
    "drill": {"type": "dict"},
    "rollout": {"type": "dict"},
    "cluster_name": {"type": "str"},
    "fail_on": {
        "type": "list",
        "elements": "str",
        "choices": list(FAIL_ON),
        "default": list(FAIL_ON[:5]),
    },
    **{name: {"type": "str"} for name in FORMATS},
}


class ActionModule(ActionBase):
    """The action plugin of virt.placement.report."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        try:
            _validation, options = self.validate_argument_spec(
                argument_spec=ARGUMENTS, required_one_of=[FORMATS]
            )
        except AnsibleError as error:  # as a result, so that failed_when decides about it, too
            return {**result, "failed": True, "msg": str(error)}
        known = task_vars or {}
        host = str(known.get("inventory_hostname", ""))
        files = files_of(options)
        faults = faults_of_paths(files, host, known.get("ansible_play_hosts_all", ()))
        written = write_report(
            [] if faults else files,
            options["placement"],
            options["drill"],
            options["rollout"],
            cluster_name=options["cluster_name"],
            host=host,
            fail_on=options["fail_on"],
            only_check=bool(self._task.check_mode),
        )
        result |= {"answer": written.answer, "changed": written.changed, "files": written.files}
        errors = [*faults, "No report was written."] if faults else written.errors
        return {**result, "failed": True, "msg": " ".join(errors)} if errors else result
