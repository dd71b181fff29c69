# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a closing block says of lists and objects that could not be read, and how they can be."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.findings import GRANT_READER
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    AGAIN,
    listed,
    plural,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Unreadable,
    unreadable_texts,
)

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord


def unread(record: JobRecord) -> list[Unreadable]:
    """What the last task of each module could not read, each once."""
    notes = {note["module"]: note for note in record.notes}.values()
    gaps = (Unreadable(**gap) for note in notes for gap in note.get("permission_gaps") or ())
    return list(dict.fromkeys(gaps))


def unread_texts(gaps: t.Iterable[Unreadable]) -> list[str]:
    """One short text for each cause: the account, the first right that it lacks, and how many others. What is damaged
    in objects is one text, since lines of the job have each of them with what to do."""
    lacking: dict[str, list[Unreadable]] = {}
    others: list[Unreadable] = []
    for gap in gaps:
        (lacking.setdefault(_account(gap), []) if gap.lacks_right else others).append(gap)
    texts = []
    for account, same in lacking.items():
        more = f", and lacks {plural(len(same) - 1, 'more right')}" if len(same) > 1 else ""
        texts.append(f"{account} may not {same[0].what.removeprefix('cannot ')}{more}")
    damaged = [gap for gap in others if gap.verb == "read"]
    if damaged:
        names = [gap.what.removeprefix("cannot read ") for gap in damaged]
        texts.append(f"cannot read {listed(names)}: damaged, see the lines above")
    return texts + unreadable_texts(gap for gap in others if gap not in damaged)


def after_unread(gaps: t.Iterable[Unreadable]) -> list[str]:
    """The next step of whoever may grant rights, for each account that lacks some."""
    accounts = dict.fromkeys(_account(gap) for gap in gaps if gap.lacks_right)
    return [
        f"{GRANT_READER.replace('this identity', account, 1)}, then launch the same job again"
        for account in accounts
    ]


def again(record: JobRecord) -> list[str]:
    """The next step of a job that failed and that launching it again continues: first the rights that it lacks."""
    return after_unread(unread(record)) or [AGAIN]


def _account(gap: Unreadable) -> str:
    return gap.account or "this identity"
