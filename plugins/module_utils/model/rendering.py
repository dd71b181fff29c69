# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How do values look in a result: as JSON, as a table of columns, and as entries that people read?"""

from __future__ import annotations

import dataclasses
import enum
import typing as t
from dataclasses import dataclass

from .json_pointer import JSON


class TextEnum(str, enum.Enum):
    """An enum of texts, each written as it is."""

    def __str__(self) -> str:
        return str(self.value)


def as_json(value: t.Any) -> JSON:
    """A frozen dataclass or a named tuple as a dict of its fields, another tuple as a list, a member of an enum as
    its text. Each text is one printable line."""
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, tuple):
        if hasattr(value, "_asdict"):
            return {name: as_json(entry) for name, entry in value._asdict().items()}
        return [as_json(entry) for entry in value]
    if dataclasses.is_dataclass(value):
        return {
            field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    return value


@dataclass(frozen=True)
class Entry:
    """What a task did, left out, or leaves to be done, for people. `code`: what it is, for programs. `text`: one line,
    which speaks of check mode where that is, and which what prints it continues with `objects`: names, perhaps with a
    remark in brackets. Results of several tasks are joined by code and text."""

    code: str
    text: str
    objects: tuple[str, ...] = ()


TO_MOVE = Entry("rollout", "to move what violates a rule: playbook rollout")
"""The next step where a move repairs a rule."""

AGAIN = "correct the cause, then launch the same job again"
NOTHING_WRITTEN = Entry("nothing_written", f"nothing was written: {AGAIN}")
UNFINISHED = Entry("unfinished", f"{AGAIN}: it continues")
CLUSTER_AWAY = Entry("cluster_away", f"{AGAIN}; if the API server is away, when it answers")
FAILED = Entry("failed", AGAIN)
"""The next step of a task that failed: before its first write, after one, where the API server does not answer, and
where it reads, or where it is unknown whether it has written."""


def outcome(
    done: t.Iterable[Entry] = (), skipped: t.Iterable[Entry] = (), following: t.Iterable[Entry] = ()
) -> dict[str, JSON]:
    """The part of a result that people read. A key `skipped` of the result itself would be Ansible's: it takes a task
    with one for skipped (executor/task_result.py)."""
    parts = {"done": done, "skipped": skipped, "next": following}
    return {"outcome": {name: as_json(tuple(entries)) for name, entries in parts.items()}}


def columns(rows: t.Sequence[t.Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its longest cell; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def table_text(lines: t.Iterable[str]) -> str:
    """The lines of a table as one text, in which each of them is still one line."""
    return "\n".join(map(one_line, lines))


def listed(items: t.Collection[object], most: int = 5, *, count: int | None = None) -> str:
    """`a, b, c and 4 more`. `count`: how many there are, where `items` are only the first."""
    shown = [str(item) for item, _number in zip(items, range(most), strict=False)]
    rest = (len(items) if count is None else count) - len(shown)
    return f"{', '.join(shown)} and {rest} more" if rest else ", ".join(shown)


def value_text(value: str) -> str:
    """The value of a label in a sentence: an empty one as YAML writes it, since nothing would be seen of it."""
    return value or '""'


def label_text(key: str, value: str) -> str:
    """`key=value`, in which the empty value is seen."""
    return f"{key}={value_text(value)}"


def plural(count: int, noun: str) -> str:
    """`1 move`, `2 moves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """The text with a question mark for each character that moves the cursor, colors or reorders what a
    terminal shows. Names and messages come from objects that anyone may have written."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def one_line(text: str) -> str:
    """As `printable`, in one line: a line of its own could pass for output of Ansible."""
    if text.isprintable():  # as nearly all are
        return text
    return printable(" ".join(text.splitlines()))
