# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubeconfig on the controller, then run the module.

A role prints the findings of its forecast beside the moves, so that it does not warn of them, too.
"""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    ONLY_OF_FORECASTS,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import role_of
from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import (
    KubeconfigAction,
    Result,
)


class ActionModule(KubeconfigAction):
    """The action plugin of virt.placement.forecast_info."""

    def _work(self, task_vars: Result) -> Result:
        ran = super()._work(task_vars)
        return with_other_warnings(ran) if role_of(self._task) else ran


def with_other_warnings(ran: Result) -> Result:
    """The result without the warnings of findings that only a forecast has."""
    names = [f"{name}{end}" for name in ONLY_OF_FORECASTS for end in (": ", " (")]
    warnings: list[t.Any] = ran.get("warnings") or []
    other = [text for text in warnings if not any(name in str(text) for name in names)]
    return {**ran, "warnings": other} if warnings else ran
