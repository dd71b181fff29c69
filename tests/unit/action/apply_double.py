# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of the role placement_apply, as actions that return what a JSON file has for them.

The variable `played_results` has its path: the results of each module, in the order of its tasks, and `calls`, the
name and the options of each task.
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import (
    KubeconfigAction,
    Result,
)


class ActionModule(KubeconfigAction):
    """A module of the role."""

    def _work(self, task_vars: Result) -> Result:
        file = Path(self._templar.template(task_vars["played_results"]))
        played = json.loads(file.read_text())
        name = self._task.action.rpartition(".")[2]
        arguments = {key: value for key, value in self._task.args.items() if value is not None}
        played["calls"].append([name, arguments])
        result: Result = played[name].pop(0)
        file.write_text(json.dumps(played, default=str))
        return result
