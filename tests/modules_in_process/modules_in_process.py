# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules of collections in forks of ansible-playbook. A Python of its own for each, which first compiles all
that Ansible has packed for it, takes most of the time of a play. What Ansible does before and after a module stays as
it is.

A fork is to the module what a Python of its own is: it has the standard streams, the environment and the handlers of
signals of one, no other open file, and what is to be done at its end is what the module has asked for. Where Ansible
would not hand the module to the standard input of a local Python (become, async), the module runs as always."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import typing as t

from ansible.executor.module_common import _BuiltModule
from ansible.module_utils import _internal
from ansible.module_utils._internal._ansiballz import _loader
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.module_utils.testing import patch_module_args
from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

COLLECTIONS = ("virt.placement.", "kubernetes.core.", "probe.probe.")
PRELOADED = ("forecast_info", "node_maintenance", "placement_info", "rollout", "rules")
WITHOUT_MODULE = ("check", "show", "close")
"""Stages of virt.placement.job."""

PROFILE = "legacy"
_MARK = b"modules_in_process:"

_configure, _execute = ActionBase._configure_module, ActionBase._low_level_execute_command


def _configured(
    action: t.Any, module_name: str, module_args: t.Any, task_vars: t.Any
) -> tuple[t.Any, str]:
    """The name and the arguments in place of the code."""
    piped = action._is_pipelining_enabled("new", bool(action._task.async_val))
    local = action._connection.transport == "local" and not action._connection.become
    found = action._shared_loader_obj.module_loader.find_plugin_with_context(
        module_name, ".py", collection_list=action._task.collections
    )
    name = str(found.resolved_fqcn)
    if not found.resolved or not name.startswith(COLLECTIONS) or not piped or not local:
        return t.cast("tuple[t.Any, str]", _configure(action, module_name, module_args, task_vars))
    encoder = get_module_encoder(PROFILE, Direction.CONTROLLER_TO_MODULE)
    request = json.dumps([name, module_args], cls=encoder).encode()
    return _BuiltModule(
        b_module_data=_MARK + request,
        module_style="new",
        shebang=f"#!{sys.executable}",
        serialization_profile=PROFILE,
    ), found.plugin_resolved_path


def _executed(action: t.Any, cmd: str, **options: t.Any) -> dict[str, t.Any]:
    data = options.get("in_data")
    if not isinstance(data, bytes) or not data.startswith(_MARK):
        return t.cast("dict[str, t.Any]", _execute(action, cmd, **options))
    name, arguments = json.loads(data.removeprefix(_MARK))
    environment: dict[str, t.Any] = {}
    action._compute_environment_string(environment)
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors, os.fdopen(reading, errors="replace") as stream:
        child = os.fork()
        if not child:
            try:
                _become_a_python(
                    writing, errors.fileno(), environment, action._loader.get_basedir()
                )
                _end(_ran(name, arguments))
            finally:
                os._exit(120)
        os.close(writing)
        output = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if code < 0:  # as the shell says it, that runs a module otherwise
        code, said = 128 - code, f"{said}{signal.strsignal(-code)}\n"
    return {
        "rc": code,
        "stdout": output,
        "stdout_lines": output.splitlines(),
        "stderr": said,
        "stderr_lines": said.splitlines(),
    }


def _become_a_python(output: int, errors: int, environment: dict[str, t.Any], folder: str) -> None:
    """Nothing of the worker is left that a module could notice, or that would outlive the worker."""
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(-1)
    atexit._clear()
    for descriptor, stands_for in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(descriptor, stands_for)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.environ.update({key: str(value) for key, value in environment.items()})
    os.chdir(folder)
    _internal.is_controller = False  # or warnings are printed, and are not in the result
    if kube_config := sys.modules.get("kubernetes.config.kube_config"):
        default = os.environ.get("KUBECONFIG", "~/.kube/config")
        kube_config.KUBE_CONFIG_DEFAULT_LOCATION = default  # type: ignore[attr-defined]


def _ran(name: str, arguments: dict[str, t.Any]) -> int:
    """The exit code of the module."""
    namespace, collection, module = name.split(".")
    with patch_module_args(arguments):
        try:
            try:
                path = f"ansible_collections.{namespace}.{collection}.plugins.modules.{module}"
                importlib.import_module(path).main()
                raise RuntimeError("New-style module did not handle its own exit.")
            except Exception as error:
                _loader._handle_exception(error, PROFILE)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 1


def _end(code: int) -> t.NoReturn:
    """As Python ends: after threads that are no daemons, with what was registered meanwhile."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Loaded before the first task. The forks of ansible-playbook have the client library and most modules already."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "modules_in_process"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        ActionBase._configure_module = _configured
        ActionBase._low_level_execute_command = _executed

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        if not task.action.startswith(COLLECTIONS) or task.args.get("stage") in WITHOUT_MODULE:
            return
        preload()


def preload() -> None:
    """What most modules import."""
    importlib.import_module("kubernetes.client")
    for name in PRELOADED:
        importlib.import_module(f"ansible_collections.virt.placement.plugins.modules.{name}")
