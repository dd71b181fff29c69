# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module, and note for the job of a role what came of it. It reaches no cluster."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import KubeconfigAction


class ActionModule(KubeconfigAction):
    """The action plugin of virt.placement.drs_import."""

    RETURNS = "table"
