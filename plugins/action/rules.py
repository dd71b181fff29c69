# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the forecast that a task asks for, then run the module.

A forecast is a third of the code of this collection, and Ansible would send it with every task that writes
rules if the module made it.
"""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.action.forecast_info import with_other_warnings
from ansible_collections.virt.placement.plugins.module_utils.model.findings import FORECAST_RESULT
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import role_of
from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import (
    KubeconfigAction,
    Result,
)

FORECAST = "virt.placement.forecast_info"

_OF_RULES_ALONE = {"workload_rollout", "fail_on_forecast", "fail_on_findings", "forecast"}
"""Options that forecast_info does not have, or does not take as they are."""


class ActionModule(KubeconfigAction):
    """The action plugin of virt.placement.rules."""

    def _work(self, task_vars: Result) -> Result:
        arguments = dict(self._task.args)
        asked = arguments.get("fail_on_forecast") or arguments.get("fail_on_findings")
        asked = asked and not arguments.get("forecast")
        if asked and arguments.get("state") != "absent":
            question = {k: v for k, v in arguments.items() if k not in _OF_RULES_ALONE}
            if not question.keys() <= _shared_options():
                return self._run_module(arguments, task_vars)  # which refuses the unknown option
            if not self._task.check_mode:  # rules assumes labels in check mode only
                question.pop("assume_node_labels", None)
            if arguments.get("workload_rollout") == "hold":
                question["workload_rollout"] = "hold"
            forecast = self._run_module(question, task_vars, FORECAST)
            if forecast.get("failed"):
                return forecast
            arguments["forecast"] = {name: forecast[name] for name in FORECAST_RESULT}
        ran = self._run_module(arguments, task_vars)
        printed = "forecast" in self._task.args and role_of(self._task)
        return with_other_warnings(ran) if printed else ran


def _shared_options() -> set[str]:
    """The options that rules and forecast_info have, and their aliases."""
    # Only a task that asks for a forecast pays for this import.
    from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
        argument_spec,
        what_if_options,
    )

    spec = argument_spec(**what_if_options())
    del spec["scale"]
    return {name for option, entry in spec.items() for name in (option, *entry.get("aliases", ()))}
