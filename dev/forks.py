# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of an ansible-playbook that forks for its modules, in a third of the time."""

from __future__ import annotations

import os

from dev.commands import CHECKOUT

_KEPT = CHECKOUT / "tests" / "kept_bytecode"
_IN_PROCESS = CHECKOUT / "tests" / "modules_in_process"
_TASKS = CHECKOUT / "tests" / "tasks_in_process"

KEPT_BYTECODE = {
    "ANSIBLE_CALLBACK_PLUGINS": str(_KEPT),
    "ANSIBLE_CALLBACKS_ENABLED": "kept_bytecode",
}
"""Of one that compiles no file of a collection twice."""

TASKS_IN_PROCESS = {
    "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(map(str, (_KEPT, _TASKS))),
    "ANSIBLE_CALLBACKS_ENABLED": "kept_bytecode,tasks_in_process",
}
"""Of one that, in addition, has no fork for a task."""

FORKS = {
    "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(map(str, (_KEPT, _IN_PROCESS))),
    "ANSIBLE_CALLBACKS_ENABLED": "kept_bytecode,modules_in_process",
    "ANSIBLE_PIPELINING": "1",
}
"""Of one that runs modules in forks."""

ALL_IN_PROCESS = {
    **FORKS,
    "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(map(str, (_KEPT, _IN_PROCESS, _TASKS))),
    "ANSIBLE_CALLBACKS_ENABLED": "kept_bytecode,modules_in_process,tasks_in_process",
}
"""Of one that, in addition, has no fork for a task."""
