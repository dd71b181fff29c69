# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences that readers read twice, and that have become other ones."""

from __future__ import annotations

from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "roles", "playbooks", "docs", "tests/outputs")
READ_TWICE = (
    "only this answer stops the play",
    "only missing from the list",
    "max_nodes: is 1, and",
    "nodes would be in maintenance",
    "removal not enforced yet",
    "effective eviction strategy is",
    "its migrate failed",
    "is passed over, its",
    "were not read empty twice",
    "not enforced yet: not met:",
    "launch it without check mode",
    "the lines above have the error",
    "Name the nodes that stay cordoned has failed",
    "blocked by pod virt-launcher",
    "and no placement_maintenance_change_id",
    "keeps its pods off no node",
    "so that nothing places it",
    "perhaps bound (doubtful nodes)",
    "Over it one instance",
    "N+1: no, ",
    "capacity if one of",
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Each file as one line, since a sentence may be cut into several pieces of a string."""
    paths = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*")]
    read = {str(p): p.read_text() for p in paths if p.suffix in {".py", ".yml", ".md", ".txt"}}
    return {name: " ".join(text.replace('"', " ").split()) for name, text in read.items()}


@pytest.mark.parametrize("sentence", READ_TWICE)
def test_sentence_that_was_read_twice_is_gone(texts: dict[str, str], sentence: str) -> None:
    assert [name for name, text in texts.items() if sentence in text] == []
