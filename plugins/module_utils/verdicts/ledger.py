# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of each rule of one instance, and the verdicts that follow from it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..model.verdict import RuleVerdict, Verdict
from . import when

SEVERITY: t.Mapping[Verdict, int] = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass
class Line:
    """One rule, or one term that no rule owns (then `said` describes it)."""

    rule: str
    said: str = ""
    broken: list[str] = field(default_factory=list)
    bypassed: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    blind: str = ""
    doubtful: bool = False
    """What is broken may be so only because something could not be read."""
    better: tuple[str, ...] = ()
    takes_effect: str = ""

    def lacks(self, note: str, takes_effect: str) -> None:
        """Not in effect, until what `takes_effect` names has happened."""
        self.missing.append(note)
        self.takes_effect = when.worst((self.takes_effect, takes_effect))

    def verdict(self) -> RuleVerdict:
        """The worst that is known. Broken outranks unknown, if it is broken for certain."""
        found = self._verdict()
        return replace(found, takes_effect=self.takes_effect) if self.takes_effect else found

    def _verdict(self) -> RuleVerdict:
        in_effect = not self.missing
        placed = Verdict.PREFERENCE_UNMET if self.unmet else Verdict.SATISFIED
        reason = self._told(*self.broken, *self.bypassed, *self.unmet)
        if self.broken and not (self.blind and self.doubtful):
            return RuleVerdict(self.rule, Verdict.VIOLATED, reason, self.better, in_effect)
        if self.bypassed:
            return RuleVerdict(self.rule, Verdict.VIOLATED, reason, (), in_effect, placed)
        if self.blind:
            reason = self._told(self.blind)
            return RuleVerdict(self.rule, Verdict.UNKNOWN, reason, (), in_effect)
        if self.missing:
            if placed is Verdict.SATISFIED:
                reason = f"it is in the right place, by luck: {reason}"
            return RuleVerdict(
                self.rule, Verdict.NOT_IN_EFFECT, reason, self.better, in_effect, placed
            )
        return RuleVerdict(self.rule, placed, reason, self.better)

    def _told(self, *notes: str) -> str:
        """Each note once, then what is missing and when that comes."""
        effect = when.WORDS.get(self.takes_effect, "")
        return "; ".join(dict.fromkeys(filter(None, (self.said, *notes, *self.missing, effect))))


class Ledger:
    """The lines of one instance, by rule, or by the description of a foreign term."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], Line] = {}

    def line(self, rule: str, said: str = "") -> Line:
        found = self._lines.get((rule, said))
        if found is None:
            found = self._lines[rule, said] = Line(rule, said)
        return found

    def lines(self) -> t.Iterable[Line]:
        return self._lines.values()

    def verdicts(self) -> tuple[RuleVerdict, ...]:
        """Rules by name, then what no rule owns."""
        found = [line.verdict() for line in self._lines.values()]
        return tuple(sorted(found, key=lambda v: (not v.rule, v.rule, v.reason)))


def worst(verdicts: t.Iterable[RuleVerdict]) -> Verdict:
    """The verdict of an instance: the worst of its rules; satisfied where it has none."""
    return max((v.verdict for v in verdicts), key=SEVERITY.__getitem__, default=Verdict.SATISFIED)
