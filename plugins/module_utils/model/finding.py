# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lint and input checks say, with names that stay the same between releases."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .objects import Ref

Severity = t.Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`why` and `advice` are one sentence each; `objects` say where it was seen."""

    name: str
    severity: Severity
    why: str
    advice: str
    objects: tuple[Ref, ...] = ()
    rule: str = ""

    def as_json(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "severity": self.severity,
            "why": self.why,
            "advice": self.advice,
            "objects": [str(ref) for ref in self.objects],
            "rule": self.rule,
        }


@dataclass(frozen=True, slots=True)
class Fault:
    """Input that cannot be used. `where` names the rule or option with its index."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class Refused(ValueError):
    """The input has faults; all of them. Nothing was written."""

    def __init__(self, faults: t.Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)
