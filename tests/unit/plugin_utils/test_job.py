# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job says of a module that failed."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.job import lines_of

CRASH = "MODULE FAILURE\nSee stdout/stderr for the exact error"
TRACEBACK = "Traceback (most recent call last):\n  File \"x.py\", line 1\nNameError: name 'y' is not defined\n"


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"msg": "w1: refused.\n\nw2: refused."}, ["w1: refused.", "w2: refused."]),
        (
            {"msg": CRASH, "module_stderr": TRACEBACK},
            [*CRASH.splitlines(), "NameError: name 'y' is not defined"],
        ),
        ({"msg": "refused", "module_stderr": "refused\n"}, ["refused"]),
        ({}, []),
    ],
)
def test_lines_of_a_failed_module(result: dict[str, str], lines: list[str]) -> None:
    assert lines_of(result) == lines
