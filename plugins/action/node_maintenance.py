# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the module's steps until the maintenance has ended, as for rollout."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.action.rollout import (
    ActionModule as StepsAction,
)
from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import Result


class ActionModule(StepsAction):
    """The action plugin of virt.placement.node_maintenance."""

    GATHERED = ("moves", "progress", "writes", "findings", "diff")
    RUN = "maintenance"

    def _patience(self, arguments: Result) -> float:
        """A node may take its API server with it while it reboots."""
        patience = super()._patience(arguments)
        if arguments.get("state") != "in_service":
            return patience
        return max(patience, float(arguments.get("run_timeout") or 0))
