# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/maintenance.md documents every preflight finding, and only messages that exist in the code."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight_findings import (
    PREFLIGHT_FINDINGS,
)

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = (CHECKOUT / "docs" / "maintenance.md").read_text()
MESSAGES_SECTION = PAGE.partition("## What each stop means")[2].partition("\n## ")[0]
PLACEHOLDER = re.compile(
    r"\.\.\.|\d+ node|\bN\b|NODE|REASON|HH:MM:SS|\b\d+\b|\bviolated\b|\bmigrate\b|\bmigration\b|max_nodes:"
    r"|\bno answer\b|\bonly errors\b"
    r"|\S*(?:kubevirt\.io|placement\.virt)/\S*"
)
"""Placeholders in the messages of maintenance.md."""


def strings_in_code() -> t.Iterator[str]:
    """Each string of the plugins, with a gap where an f-string has a value, and the files of the role."""
    for path in (CHECKOUT / "plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(x.value) if isinstance(x, ast.Constant) else "\0" for x in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    for path in (CHECKOUT / "roles").rglob("*.yml"):
        yield path.read_text()


def test_every_message_of_the_runbook_exists_in_the_code() -> None:
    cells = re.findall(r"^\| (.*?) \|", MESSAGES_SECTION, re.M)[2:]
    messages = [message for cell in cells for message in re.findall(r"`(.*?)`", cell)]
    pieces = [piece.strip(" :.,()") for message in messages for piece in PLACEHOLDER.split(message)]
    code = "\n".join(strings_in_code())

    assert len(messages) > 20
    assert [piece for piece in pieces if piece not in code] == []


def test_every_finding_is_explained_in_the_runbook() -> None:
    text = PAGE.partition("## Findings")[2]

    assert sorted(re.findall(r"^\| `([a-z_]+)` \|", text, re.M)) == sorted(PREFLIGHT_FINDINGS)
