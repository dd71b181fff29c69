# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each part of an export: carried over, carried over with a decision, or without a counterpart."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.rendering import columns, one_line, table_text

COLUMNS: t.Mapping[str, str] = {
    "carried_over": "CARRIED OVER",
    "decisions": "CARRIED OVER WITH A DECISION",
    "no_counterpart": "NO COUNTERPART",
}
"""The columns of a report, with their titles in its table."""


@dataclass(frozen=True, slots=True)
class ImportDecision:
    """Something that the export does not say: what was taken, and how to decide otherwise."""

    code: str
    taken: str
    otherwise: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "taken": one_line(self.taken), "otherwise": self.otherwise}


@dataclass(frozen=True, slots=True)
class ImportedPart:
    """One part of an export: `became` says what was made of it, `reason` why nothing was, `advice` what to do then."""

    kind: str
    name: str
    where: str
    became: str = ""
    decisions: tuple[ImportDecision, ...] = ()
    reason: str = ""
    advice: str = ""

    @property
    def column(self) -> str:
        """The one key of COLUMNS."""
        if self.reason:
            return "no_counterpart"
        return "decisions" if self.decisions else "carried_over"

    def as_json(self) -> dict[str, t.Any]:
        return {
            "kind": self.kind,
            "name": one_line(self.name),
            "where": one_line(self.where),
            "became": one_line(self.became),
            "decisions": [decision.as_json() for decision in self.decisions],
            "reason": one_line(self.reason),
            "advice": one_line(self.advice),
        }

    def lines(self) -> list[str]:
        """What it became, each decision, the reason and what to do, one line each."""
        decided = [f"{each.taken} {each.otherwise}" for each in self.decisions]
        return list(filter(None, [self.became, *decided, self.reason, self.advice]))


def report_as_json(parts: t.Iterable[ImportedPart]) -> dict[str, list[dict[str, t.Any]]]:
    report: dict[str, list[dict[str, t.Any]]] = {column: [] for column in COLUMNS}
    for part in parts:
        report[part.column].append(part.as_json())
    return report


def report_table(parts: t.Sequence[ImportedPart]) -> str:
    """The report as text: the three columns below each other, a part with its first line beside its name."""
    lines: list[str] = []
    for column, title in COLUMNS.items():
        of_column = [part for part in parts if part.column == column]
        lines += [f"{title}: {len(of_column)}"]
        rows = [
            [
                f"  {part.kind}" if not n else "",
                one_line(part.name) if not n else "",
                one_line(line),
            ]
            for part in of_column
            for n, line in enumerate(part.lines())
        ]
        lines += columns(rows) if rows else []
    return table_text(lines)
