# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubeconfig on the controller, then run the module."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import KubeconfigAction


class ActionModule(KubeconfigAction):
    """The action plugin of virt.placement.rules_info."""

    TABLE = True
