# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of an ansible-playbook that forks for its modules, in a third of the time."""

from __future__ import annotations

from dev.commands import CHECKOUT

FORKS = {
    "ANSIBLE_CALLBACK_PLUGINS": str(CHECKOUT / "tests" / "modules_in_process"),
    "ANSIBLE_CALLBACKS_ENABLED": "modules_in_process",
    "ANSIBLE_PIPELINING": "1",
}
