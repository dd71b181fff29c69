# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a request, told once: each cause with every place where it was met."""

from __future__ import annotations

import re
import typing as t

from ..model.finding import Fault, Finding
from ..model.objects import Ref
from ..model.rule import Rule

_INDEX = re.compile(r"rules\[(\d+)\]")
_SHOWN = 5


def every_fault(
    faults: t.Sequence[Fault], refused: t.Sequence[Finding], rules: t.Sequence[Rule]
) -> list[Fault]:
    """The faults, and the findings that refuse rules which have no fault, in the order of the
    rules. A finding about a rule with a fault may come from that fault."""
    faulty = {_index(fault) for fault in faults}
    where = {rule.id.name: rule.where for rule in rules if rule.index not in faulty}
    sound = [finding for finding in refused if finding.rule in where]
    told = [Fault(where[finding.rule], sentence) for finding, sentence in told_once(sound)]
    return sorted([*_merged(faults), *told], key=_index)


def told_once(findings: t.Iterable[Finding]) -> list[tuple[Finding, str]]:
    """One sentence for each rule and name of a finding: on which objects it was seen, and why and
    what to do of the first of its kind."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.rule, finding.name), []).append(finding)
    return [(same[0], _sentence(same)) for same in alike.values()]


def told(same: t.Sequence[Finding]) -> str:
    """The sentence about findings of one rule and name, with the name of the rule."""
    rule = f"rule {same[0].rule}, " if same[0].rule else ""
    return f"{rule}{_sentence(same)}"


def _sentence(same: t.Sequence[Finding]) -> str:
    first = same[0]
    objects = list(dict.fromkeys(ref for each in same for ref in each.objects))
    shown = objects[:_SHOWN]
    more = f" and {len(objects) - _SHOWN} more" if len(objects) > _SHOWN else ""
    unnamed = not all(_is_named(ref, first.why) for ref in shown)
    where = f" ({', '.join(map(str, shown))}{more})" if unnamed else ""
    return f"{first.name}{where}: {first.why} {first.advice}"


def _is_named(ref: Ref, why: str) -> bool:
    """Whether a sentence names an object; nodes go by their names alone."""
    return str(ref) in why or (ref.kind == "Node" and ref.name in why)


def _merged(faults: t.Sequence[Fault]) -> list[Fault]:
    places: dict[str, list[str]] = {}
    for fault in sorted(faults, key=_index):
        places.setdefault(fault.message, []).append(fault.where)
    return [Fault("; ".join(dict.fromkeys(where)), message) for message, where in places.items()]


def _index(fault: Fault) -> int:
    """The number of the rule; -1 for an option of the task."""
    found = _INDEX.match(fault.where)
    return int(found[1]) if found else -1
