# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which known names may be meant by a misspelt one?"""

from __future__ import annotations

import difflib
import typing as t

_SHORT = 3


def near_names(name: str, known: t.Iterable[str]) -> list[str]:
    """At most three names, the nearest first. A short name has to be nearer: `hp` is not `shop`."""
    names = [x for x in known if len(name) > _SHORT or abs(len(x) - len(name)) < 2]
    return difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.6)
