# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ansible-playbook that has started, and forks for each playbook: its start takes four times as long as a role.

Each line of its standard input is a request in JSON: `folder`, `arguments`, `environment`, and the files `stdout` and
`stderr`. For each it prints the status of the fork. A fork has what Ansible has loaded for a play with one task, and
besides is what a new ansible-playbook is: environment, settings, log and temporary files are its own. The path of
collections is that of the process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import logging
import os
import pkgutil
import sys
import tempfile
import traceback
import typing as t
from pathlib import Path

from ansible import cli, constants
from ansible.cli import playbook
from ansible.parsing import vault
from ansible.utils import context_objects, display

FIRST = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {}}]}]


def main() -> None:
    """Serve until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0))
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first.yml")
        first.write_text(json.dumps(FIRST))
        run([str(first)])
    for package in ("action", "plugin_utils"):
        found = importlib.import_module(f"ansible_collections.virt.placement.plugins.{package}")
        for module in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    gc.freeze()
    for line in requests:
        child = os.fork()
        if not child:
            answers.close()
            requests.close()
            serve(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


def run(arguments: list[str]) -> int:
    """The exit code of ansible-playbook."""
    try:
        playbook.main(["ansible-playbook", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def serve(request: dict[str, t.Any]) -> t.NoReturn:
    """In the fork: become a new ansible-playbook, and end with its exit code."""
    code = 120
    try:
        atexit._clear()
        os.chdir(request["folder"])
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT, 0o600), number)
        forget_first()
        read_environment(request["environment"])
        code = run(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forget_first() -> None:
    """What ansible-playbook does once in a process."""
    context_objects.GlobalCLIArgs._Singleton__instance = None
    cli.init_plugin_loader = lambda *_collections: None
    if hasattr(vault, "VaultSecretsContext"):  # ansible-core 2.19 and later
        vault.VaultSecretsContext._current = None
    shown = display.Display()
    for warnings in (shown._warns, shown._errors, shown._deprecations):
        warnings.clear()


def read_environment(environment: dict[str, str]) -> None:
    """All that Ansible has read of its environment when it was imported."""
    changed = {name for name, _value in {*environment.items()} ^ {*os.environ.items()}}
    assert "ANSIBLE_COLLECTIONS_PATH" not in changed
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    definitions = constants.config.get_configuration_definitions()
    for setting, definition in definitions.items():
        names = {source["name"] for source in definition.get("env") or ()}
        if names & changed or definition.get("type") == "tmppath":
            value = constants.config.get_config_value(setting, variables=vars(constants))
            constants.set_constant(setting, value)
    for handler in logging.root.handlers:
        handler.close()
        if isinstance(handler, logging.FileHandler):
            handler.baseFilename = constants.DEFAULT_LOG_PATH


if __name__ == "__main__":
    main()
