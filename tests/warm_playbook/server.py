# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ansible-playbook that has started, and forks for each client: server.py DESCRIPTOR, of a socket that listens.

A fork has what Ansible has loaded for a play with one task, and besides is what a new ansible-playbook is: streams,
folder, environment, settings, log, callbacks and temporary files are its own. The paths of collections and of other
plugins, the configuration file, colors, and the order of sets are those of this process, and SIGINT ends a fork at
once. A fork whose client has ended is killed. The server ends with its standard input, and its forks with it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import pkgutil
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
import typing as t
from pathlib import Path

from ansible import cli, constants
from ansible.cli import playbook
from ansible.parsing import vault
from ansible.plugins import loader
from ansible.utils import context_objects, display

FIRST = {"hosts": "all", "connection": "local", "gather_facts": False}

CALLBACKS = "ANSIBLE_CALLBACK_PLUGINS"


class Play(t.NamedTuple):
    """A fork, a descriptor of its process, and its client."""

    pid: int
    process: int
    client: socket.socket


def main() -> None:
    """Serve until the standard input ends."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    owner = os.dup(0)
    for number in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load()
    with selectors.DefaultSelector() as selector:
        selector.register(owner, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        try:
            serve_clients(selector, owner, listener)
        finally:
            plays = {key.data for key in selector.get_map().values() if key.data}
            for play in plays:
                end(play)


def serve_clients(selector: selectors.BaseSelector, owner: int, listener: socket.socket) -> None:
    """Begin plays, and end those that have ended or whose client has, until the owner ends."""
    while True:
        for key, _events in selector.select():
            if key.fileobj == owner:
                return
            if key.fileobj is listener:
                if play := begin(listener):
                    selector.register(play.process, selectors.EVENT_READ, play)
                    selector.register(play.client, selectors.EVENT_READ, play)
            elif selector.get_map().get(key.fd) is key:  # both may be ready
                selector.unregister(key.data.process)
                selector.unregister(key.data.client)
                end(key.data)


def load() -> None:
    """What most playbooks import."""
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first.yml")
        first.write_text(json.dumps([{**FIRST, "tasks": [{"ansible.builtin.debug": {}}]}]))
        assert run(["--inventory=localhost,", str(first)]) == 0
    for package in ("action", "plugin_utils"):
        found = importlib.import_module(f"ansible_collections.virt.placement.plugins.{package}")
        for module in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    if in_process := sys.modules.get("ansible.plugins.callback.modules_in_process"):
        in_process.preload()
    gc.freeze()


def begin(listener: socket.socket) -> Play | None:
    """A play of a client in a fork. None where the client has ended before it asked."""
    client, _address = listener.accept()
    _byte, streams, _flags, _address = socket.recv_fds(client, 1, 3)
    request = client.makefile().readline()
    child = os.fork() if request else None
    if child == 0:
        listener.close()
        client.close()
        serve(request, streams)
    for stream in streams:
        os.close(stream)
    if child is None:
        client.close()
        return None
    return Play(child, os.pidfd_open(child), client)


def end(play: Play) -> None:
    """Kill what is left of a play whose client has ended, else send its exit code."""
    os.kill(play.pid, signal.SIGKILL)  # it may have no group yet
    with contextlib.suppress(ProcessLookupError):
        os.killpg(play.pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(play.pid, 0)[1])
    os.close(play.process)
    with play.client, contextlib.suppress(BrokenPipeError):
        play.client.sendall(f"{status}\n".encode())


def run(arguments: list[str]) -> int:
    """The exit code of ansible-playbook."""
    try:
        playbook.main(["ansible-playbook", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def serve(asked: str, streams: list[int]) -> t.NoReturn:
    """In the fork: become a new ansible-playbook, and end with its exit code."""
    code = 120
    try:
        request = json.loads(asked)
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        atexit._clear()
        os.chdir(request["folder"])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        read_environment(request["environment"])
        forget_first()
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
    shown._set_column_width()


def read_environment(environment: dict[str, str]) -> None:
    """All that Ansible has read of its environment when it was imported."""
    changed = {name for name, _value in {*environment.items()} ^ {*os.environ.items()}}
    assert "ANSIBLE_CONFIG" not in changed and not Path("ansible.cfg").exists()
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    definitions = constants.config.get_configuration_definitions()
    for setting, definition in definitions.items():
        names = {source["name"] for source in definition.get("env") or ()}
        if definition.get("type") in ("pathlist", "pathspec"):
            assert names.isdisjoint(changed - {CALLBACKS}), names
        if names & changed or definition.get("type") == "tmppath":
            value = constants.config.get_config_value(setting, variables=vars(constants))
            constants.set_constant(setting, value)
    for folder in filter(None, environment.get(CALLBACKS, "").split(os.pathsep)):
        loader.callback_loader.add_directory(folder)
    for handler in logging.root.handlers:
        handler.close()
        if isinstance(handler, logging.FileHandler):
            handler.baseFilename = constants.DEFAULT_LOG_PATH


if __name__ == "__main__":
    main()
