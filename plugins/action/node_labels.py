# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let kubernetes.core find and decrypt the kubeconfig on the controller, then run the module.

Every module without steps of its own links to this file. A redirect in meta/runtime.yml would do
the same, but ansible-lint reads that as an alias and tells users to write kubernetes.core.k8s_info.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

AUTHENTICATION = "kubernetes.core.k8s_info"


class ActionModule(ActionBase):
    """Runs the task's own module by way of the action plugin of kubernetes.core."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        action = self._shared_loader_obj.action_loader.get(
            AUTHENTICATION,
            task=self._task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result: dict[str, t.Any] = action.run(task_vars=task_vars)
        return result
