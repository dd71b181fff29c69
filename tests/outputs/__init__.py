# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of jobs, kept as files, and what of an output matters: no times, run ids, or nodes of kube-scheduler."""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

_VARYING = (
    (re.compile(r" \*{3,}$"), ""),
    (re.compile(r"^included: \S*/roles/"), "included: "),
    (re.compile(r"\brun r[0-9a-f]{8}\b"), "run ID"),
    (re.compile(r"\b(after|in) [\d.]+ (s|min)$"), r"\1 T"),
    (re.compile(r"-> w\d( \(zone\d\))?"), "-> NODE"),
    (re.compile(r"\bto w\d\b"), "to NODE"),
    (re.compile(r" {2,}"), "  "),
)
_LEFT_OUT = re.compile(r"^$|^\[WARNING\]|still on the node$|\] waiting")

KEEP = "PLACEMENT_KEEP_OUTPUTS"
"""Environment variable. If it is set, tests write the files instead of comparing: read the difference aloud."""


def rows(output: str) -> int:
    """Lines of the output, with those that are empty."""
    return len(output.strip("\n").splitlines())


def what_matters(output: str, **names: str) -> str:
    """The lines, without what differs between two runs. `names`: text to what stands for it in the files."""
    for name, text in names.items():
        output = output.replace(text, name.upper())
    lines = []
    error = False
    for line in output.splitlines():
        # Since 2.19 ansible-core prints an error also with an excerpt of the role.
        excerpt = line.startswith("[ERROR]") and "User interrupted" not in line
        error = (error or excerpt) and not line.startswith("fatal: ")
        if error or _LEFT_OUT.search(line):
            continue
        for pattern, replacement in _VARYING:
            line = pattern.sub(replacement, line)
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def kept(name: str, now: str) -> str:
    """The file of this name. `now`: what matters of the output of this run."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get(KEEP):
        file.write_text(now)
    return file.read_text()
