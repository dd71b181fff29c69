# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubeconfig on the controller where a cluster is to be read, then run the module."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.virt.placement.plugins.plugin_utils.kubeconfig import (
    KubeconfigAction,
    Result,
)


class ActionModule(KubeconfigAction):
    """The action plugin of virt.placement.lint_info."""

    def _find_kubeconfig(self, arguments: Result) -> None:
        """Without a cluster a kubeconfig from module_defaults may as well be missing."""
        if boolean(arguments.get("online", False), strict=False):
            super()._find_kubeconfig(arguments)
