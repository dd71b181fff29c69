# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of docs/findings.md, and the mistakes beside this file that have these findings."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "findings.md"
MISTAKES = Path(__file__).with_name("mistakes.md")


class Entry(t.NamedTuple):
    """What docs/findings.md has about a finding. `severities`: all that the finding may have. `offline`:
    what lint_info needs to report it without a cluster, or "no"."""

    section: str
    severities: frozenset[str]
    offline: str


class Mistake(t.NamedTuple):
    """YAML that has a finding, and the same without it, which may be missing."""

    example: str
    fix: str


def _entries() -> t.Iterator[tuple[str, Entry]]:
    for part in re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| .+\. \| .+\. \|$", part, re.M)
        for name, severities, offline in rows:
            words = frozenset(re.findall(r"\b(?:error|warning|info)\b", severities))
            yield name, Entry(part.splitlines()[0], words, offline)


def _mistakes() -> t.Iterator[tuple[str, Mistake]]:
    for text in re.split(r"^## ", MISTAKES.read_text(), flags=re.M)[1:]:
        blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
        yield text.splitlines()[0], Mistake(blocks[0], "".join(blocks[1:]))


DOCUMENTED: t.Mapping[str, Entry] = dict(_entries())
MISTAKE_OF: t.Mapping[str, Mistake] = dict(_mistakes())
