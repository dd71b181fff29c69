# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse docs/findings.md: its entry for each finding."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "findings.md"


class Entry(t.NamedTuple):
    """What docs/findings.md has about a finding. `severities`: all that the finding may have. `offline`:
    what lint_info needs to report it without a cluster, or why it cannot. `example` and `fix`: YAML, or a
    sentence."""

    section: str
    severities: frozenset[str]
    offline: str
    example: str
    fix: str
    on_cluster: bool
    """The example is a sentence, since it needs a cluster."""


def _entries() -> t.Iterator[tuple[str, Entry]]:
    for part in re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)[1:]:
        section = part.splitlines()[0]
        for text in re.split(r"^### ", part, flags=re.M)[1:]:
            name = text.splitlines()[0].strip("`")
            severities = frozenset(
                re.findall(r"\b(?:error|warning|info)\b", _line(text, "Severity"))
            )
            example = re.search(r"^Example( on a cluster)?: ?(.*?)^Fix: ?(.*)", text, re.M | re.S)
            assert example is not None, f"{name} has no example and fix"
            yield (
                name,
                Entry(
                    section,
                    severities,
                    _line(text, "Without a cluster"),
                    _content(example[2]),
                    _content(example[3]),
                    bool(example[1]),
                ),
            )


def _line(text: str, label: str) -> str:
    line = re.search(rf"^\*{label}:\* (.+)\.$", text, re.M)
    assert line is not None, (label, text)
    return line[1]


def _content(text: str) -> str:
    """The YAML block of a text, or the text if it has none."""
    block = re.search(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
    return block[1] if block else text.strip()


DOCUMENTED: t.Mapping[str, Entry] = dict(_entries())
