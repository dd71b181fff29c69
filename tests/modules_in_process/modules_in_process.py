# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules of collections in forks of ansible-playbook. A Python of its own for each, which first compiles all
that Ansible has packed for it, takes most of the time of a play. What Ansible does before and after a module stays as
it is."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import typing as t

from ansible.executor.module_common import _BuiltModule
from ansible.module_utils import _internal
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.module_utils.testing import patch_module_args
from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

COLLECTIONS = ("virt.placement.", "kubernetes.core.")
PRELOADED = ("forecast_info", "node_maintenance", "placement_info", "rollout", "rules")
_MARK = b"modules_in_process:"

_configure, _execute = ActionBase._configure_module, ActionBase._low_level_execute_command


def _configured(
    action: t.Any, module_name: str, module_args: t.Any, task_vars: t.Any
) -> tuple[t.Any, str]:
    """The name and the arguments in place of the code."""
    if not module_name.startswith(COLLECTIONS) or action._connection.transport != "local":
        return t.cast("tuple[t.Any, str]", _configure(action, module_name, module_args, task_vars))
    encoder = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
    request = json.dumps([module_name, module_args], cls=encoder).encode()
    return _BuiltModule(
        b_module_data=_MARK + request,
        module_style="new",
        shebang=f"#!{sys.executable}",
        serialization_profile="legacy",
    ), module_name


def _executed(action: t.Any, cmd: str, **options: t.Any) -> dict[str, t.Any]:
    data = options.get("in_data")
    if not isinstance(data, bytes) or not data.startswith(_MARK):
        return t.cast("dict[str, t.Any]", _execute(action, cmd, **options))
    name, arguments = json.loads(data.removeprefix(_MARK))
    environment: dict[str, t.Any] = {}
    action._compute_environment_string(environment)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os._exit(_ran(name, arguments, environment, writing))
    os.close(writing)
    with os.fdopen(reading) as stream:
        output = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"rc": code, "stdout": output, "stdout_lines": output.splitlines(), "stderr": ""}


def _ran(name: str, arguments: dict[str, t.Any], environment: dict[str, t.Any], to: int) -> int:
    """The exit code of the module, whose output goes to the file descriptor."""
    os.environ.update({key: str(value) for key, value in environment.items()})
    _internal.is_controller = False  # or warnings are printed, and are not in the result
    namespace, collection, module = name.split(".")
    with os.fdopen(to, "w") as sys.stdout, patch_module_args(arguments):
        try:
            path = f"ansible_collections.{namespace}.{collection}.plugins.modules.{module}"
            importlib.import_module(path).main()
        except SystemExit as end:
            return int(end.code or 0)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            return 1
    return 0


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Loaded before the first task. The forks of ansible-playbook have the client library and most modules already."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "modules_in_process"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        importlib.import_module("kubernetes.client")
        for name in PRELOADED:
            importlib.import_module(f"ansible_collections.virt.placement.plugins.modules.{name}")
        ActionBase._configure_module = _configured
        ActionBase._low_level_execute_command = _executed
