# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes, findings and gaps as parts of a module's result and as its warnings."""

from __future__ import annotations

import os
import typing as t

from ..model.findings import Finding, sentence
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import Entry, one_line, outcome
from ..model.write import Write

if t.TYPE_CHECKING:
    from ..model.snapshot import Unreadable


def writes_result(
    writes: t.Sequence[Write],
    *,
    diff: bool,
    elsewhere: t.Container[Ref] = (),
    words: t.Callable[[Write], t.Sequence[str]] = lambda _write: (),
) -> dict[str, JSON]:
    """`changed` and `writes`; with `diff` also what changes of each object: in `words` on one line, or before and
    after, with only the fields that this collection manages. Another part of the result has the patches of the objects
    in `elsewhere`: hundreds of them twice would be most of the result."""
    result: dict[str, JSON] = {
        "changed": bool(writes),
        "writes": [write_as_json(write, patch=write.target not in elsewhere) for write in writes],
    }
    if diff:
        result["diff"] = [_difference(write, words(write)) for write in writes]
    return result


def _difference(write: Write, words: t.Sequence[str]) -> dict[str, JSON]:
    if words:
        return {"prepared": f"{write.target}: {'; '.join(words)}\n"}
    return {
        "before_header": str(write.target),
        "before": write.before,
        "after_header": str(write.target),
        "after": write.after,
    }


def write_as_json(write: Write, *, patch: bool) -> dict[str, JSON]:
    named = write.target._asdict()
    return {**named, "patch": write.changes()} if patch else named


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
