# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does this collection use of ansible-core that it keeps private, or describes nowhere?

Nothing else in plugins/ does (tests/unit/test_structure.py). A plugin uses of itself what the guide for developers
shows: `self._task` and `self._execute_module`. Each function was seen on ansible-core 2.16, 2.19 and 2.21, and its
test in tests/unit/plugin_utils/test_ansible_internals.py runs on the oldest and the newest of them.
"""

from __future__ import annotations

import os
import sys
import threading
import typing as t
from pathlib import Path

from ansible import constants as C  # noqa: N812
from ansible.module_utils.parsing.convert_bool import boolean

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task
    from ansible.plugins.action import ActionBase
    from ansible.plugins.lookup import LookupBase

Values = dict[str, t.Any]

_INVOCATION = "ansible_inject_invocation"
PAUSE = os.path.join("plugins", "action", "pause.py")


def plugin_of(action: ActionBase, name: str, task: Task | None = None) -> t.Any:
    """The action plugin with this name, for the task of `action` or another one; None if it is not installed. Plugins
    of Ansible run each other so, as `template` runs `copy`, and there is no public way."""
    return action._shared_loader_obj.action_loader.get(
        name,
        task=task or action._task,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=action._shared_loader_obj,
    )


def templated(plugin: ActionBase | LookupBase, value: t.Any) -> t.Any:
    """A value of a variable, with its templates evaluated. Variables reach a plugin as they were written, and a
    plugin has no public member that evaluates them."""
    return plugin._templar.template(value)


def is_local(action: ActionBase) -> bool:
    """Whether the module of the task runs on the controller. The connection is a private member of the plugin."""
    return bool(action._connection.transport == "local")


def becomes(action: ActionBase) -> bool:
    """Whether the module runs as another user. `become` of the task lacks what the command line and the variables of
    the host say; the context of the play, a private member, has it."""
    return bool(action._play_context.become)


def find_file(action: ActionBase, name: str) -> str:
    """The path of a file on the controller, which Ansible looks for beside the play and in the folders `files`.
    AnsibleError if it finds none. Only plugins of Ansible are shown with `_find_needle`."""
    return str(action._find_needle("files", name))


def remove_decrypted_files(action: ActionBase) -> None:
    """Remove the files to which Ansible has decrypted vaulted ones for this task. It does so when a worker ends in
    order, and not when it is terminated. The guide has no way to the loader of a plugin."""
    action._loader.cleanup_all_tmp_files()


def has_late_banner() -> bool:
    """Whether the callback plugin `default` prints the banner of a task with its result, as it does without one of
    these two options. In Python there is no public way to the options of another plugin."""
    names = ("display_skipped_hosts", "display_ok_hosts")
    try:
        values = [
            C.config.get_config_value(name, plugin_type="callback", plugin_name="default")
            for name in names
        ]
    except Exception:  # the plugin is another one, which may not have these options
        return False
    return not all(values)


def folder_of_run() -> Path:
    """A folder on the controller that this ansible-playbook has alone, and removes at its end. The setting `local_tmp`
    is described as where such folders are; its value in the process is the folder itself."""
    return Path(C.DEFAULT_LOCAL_TMP)


def statistics(data: Values) -> Values:
    """The part of a result by which Ansible publishes statistics, as those of set_stats. That a result may have it is
    described nowhere."""
    return {"ansible_stats": {"data": data, "aggregate": True, "per_host": False}}


def with_invocation(variables: Values) -> Values:
    """Variables of a task with which the result of its module has its `invocation`. The variable is an internal setting
    (config/base.yml, INJECT_INVOCATION) from ansible-core 2.21 on; before, each result has it."""
    return {**variables, _INVOCATION: True}


def shows_invocation(variables: Values) -> bool:
    """Whether the user gets the `invocation` of a result: see with_invocation."""
    value = variables.get(_INVOCATION, getattr(C, "INJECT_INVOCATION", True))
    return bool(boolean(value, strict=False))


def raised_message(result: t.Mapping[str, t.Any]) -> str:
    """What the exception says that ended a module. From ansible-core 2.19 on `exception` is a private object with
    it; before that it is a text, and `module_stderr` has the message."""
    return str(getattr(getattr(result.get("exception"), "event", None), "msg", ""))


def is_time_limit(error: BaseException) -> bool:
    """Whether a task with a limit of time ends by it. The exception is none of Exception, and has no name that all
    releases share (executor/task_executor.py)."""
    return not isinstance(error, (Exception, KeyboardInterrupt, SystemExit))


def is_in_pause() -> bool:
    """Whether the main thread runs the action `pause`. Nothing tells another thread which action a worker runs, but the
    file of the action on the stack."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.endswith(PAUSE):
            return True
        frame = frame.f_back
    return False
