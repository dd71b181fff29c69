# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings and gaps as parts of a module's result and as its warnings."""

from __future__ import annotations

import os
import typing as t

from ..model.findings import Finding, sentence
from ..model.json_pointer import JSON
from ..model.rendering import Entry, one_line, outcome

if t.TYPE_CHECKING:
    from ..model.snapshot import Unreadable


def warn_once(warn: t.Callable[[str], None], findings: t.Iterable[Finding]) -> None:
    """One warning for each finding name: the first such finding, with its rule and objects, and the
    number of others."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.severity != "info":
            by_name.setdefault(finding.name, []).append(finding)
    for same in by_name.values():
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        warn(one_line(sentence(same[:1]) + more))


PRINTED = "VIRT_PLACEMENT_TABLE_PRINTED"
"""Environment variable of a module whose role prints its table. Since ansible-core 2.21 no action plugin can take a
warning out of the result of its module."""


def warn_unreadable(warn: t.Callable[[str], None], gaps: t.Iterable[Unreadable]) -> None:
    """One warning for each cause, unless the role prints them."""
    if os.environ.get(PRINTED):
        return
    from ..model.snapshot import unreadable_texts

    for text in unreadable_texts(gaps):
        warn(one_line(text))


def advice_entries(findings: t.Iterable[Finding]) -> dict[str, JSON]:
    """What is to do about these findings, for people."""
    bad = (finding for finding in findings if finding.severity != "info")
    return outcome(following=(Entry(x.name, x.advice, tuple(map(str, x.objects))) for x in bad))
