# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/findings.md says of each finding."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "findings.md"


class Row(t.NamedTuple):
    """A row of one of the tables. `severities`: all that it may have. `offline`: what it takes to
    see it without a cluster, or why there is no seeing it."""

    section: str
    severities: frozenset[str]
    offline: str


def _rows() -> t.Iterator[tuple[str, Row]]:
    section = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif section and (found := re.fullmatch(r"\| `(\w+)` \| ([^|]+) \|.+\| (.+) \|", line)):
            severities = frozenset(re.findall(r"\b(?:error|warning|info)\b", found[2]))
            yield found[1], Row(section, severities, found[3])


DOCUMENTED: t.Mapping[str, Row] = dict(_rows())
