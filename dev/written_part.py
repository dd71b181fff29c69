# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a page that a program writes, between two lines of the page."""

from __future__ import annotations


def with_part(page: str, begin: str, part: str, end: str, name: str) -> str:
    """The page with this part between the lines `begin` and `end`. Raises ValueError with the page's `name` if one of
    them is missing."""
    before, found, rest = page.partition(begin)
    _old, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{name} needs the lines {begin} and {end}")
    return f"{before}{begin}\n{part}\n{end}{after}"
