# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the module's steps until the maintenance has ended, as for rollout."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.action.rollout import (
    ActionModule as StepsAction,
)


class ActionModule(StepsAction):
    """The action plugin of virt.placement.node_maintenance."""

    GATHERED = ("moves", "progress", "writes", "findings", "diff", "started")
    RUN = "maintenance"
