# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/architecture.md lists the packages and files that there are."""

from __future__ import annotations

from dev import layout


def test_every_package_is_listed() -> None:
    packages = {path.parent.name for path in layout.ROOT.rglob("*.py")}
    assert set(layout.PACKAGES) == packages


def test_the_list_of_files_is_up_to_date() -> None:
    document = layout.DOCUMENT.read_text()
    assert layout.BEGIN in document
    assert layout.with_section(document) == document, "run: .venv/bin/python -m dev.layout"
