# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a report in words: one sentence, a tile for each count, a name for each state. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from datetime import datetime, timezone

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import next_event
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import plural

from .content import VERDICTS, Content, ReportedRule

MEANING: t.Mapping[str, str] = {
    "violated": "on a node that a required rule forbids",
    "pending": "without a node",
    "unknown": "something that is needed could not be read",
    "down": "the node is not Ready",
    "constraint_removed": "a constraint of the rule was removed: write the rules again",
    "preference_not_met": "a preferred rule is not met",
    "not_enforced": "placed correctly, the rules that changed since then are not enforced yet",
    "satisfied": "placed correctly",
}
"""Each state, the worst first, in the order of tiles."""

BESIDE: t.Mapping[str, str] = {
    "not_running": "VMs that do not run: no verdict is about them",
    "not_migratable": "running VMs that cannot be live-migrated",
}
"""Counts of VMs that have a tile beside the states. It is left out where the number is unknown."""

SYMBOL: t.Mapping[str, str] = {
    "violated": "✖",
    "pending": "◌",
    "unknown": "?",
    "down": "▼",
    "constraint_removed": "⊘",
    "preference_not_met": "△",
    "not_enforced": "◐",
    "satisfied": "✓",
    "not_running": "■",
    "not_migratable": "⇤",
}
NODE_STATES: t.Mapping[str, str] = {
    "in_maintenance": "in maintenance",
    "cordoned": "cordoned",
    "not_ready": "not ready",
    "not_listed": "not in the list of nodes",
}
_ACT = ("violated", "pending", "unknown", "down", "constraint_removed")
_VIRTUAL = "VirtualMachineInstance"


@dataclass(frozen=True, slots=True)
class Tile:
    """How many instances are in a state."""

    state: str
    count: int

    @property
    def symbol(self) -> str:
        return SYMBOL[self.state]

    @property
    def word(self) -> str:
        return state_word(self.state)

    @property
    def meaning(self) -> str:
        return {**MEANING, **BESIDE}[self.state]


def state_word(state: str) -> str:
    """`preference not met`."""
    return state.replace("_", " ")


def time_text(time: str) -> str:
    """`2026-11-25 03:30 UTC` from ISO 8601."""
    moment = datetime.fromisoformat(time).astimezone(timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def tiles(content: Content) -> list[Tile]:
    """The states that instances have, the worst first, and always how many are satisfied. Then what VMs are beside."""
    counted = [Tile(state, content.counts.get(state, 0)) for state in (*MEANING, *BESIDE)]
    return [tile for tile in counted if tile.count or tile.state == "satisfied"]


def noun(content: Content) -> str:
    """What the instances are: VMs, or VMs and pods."""
    virtual = all(instance.kind == _VIRTUAL for instance in content.instances)
    return "VM" if virtual else "instance"


def level(content: Content) -> str:
    """The worst state that needs somebody to act; `satisfied` if there is none."""
    return next((state for state in _ACT if content.counts[state]), "satisfied")


def sentence(content: Content) -> str:
    """The answer: what is wrong with how many, and how many moves repair it."""
    counts = content.counts
    things = plural(counts["instances"], noun(content))
    parts = []
    if number := counts["violated"]:
        verb = _agreeing(number, "violates", "violate")
        parts.append(f"{number} of {things} {verb} a required rule")
    if number := counts["pending"]:
        of_all = "" if parts else f" of {things}"
        parts.append(f"{number}{of_all} {_agreeing(number, 'has', 'have')} no node")
    if number := counts["down"]:
        parts.append(f"{number} {_agreeing(number, 'is', 'are')} down, since the node is not Ready")
    if number := counts["constraint_removed"]:
        parts.append(f"{number} {_agreeing(number, 'has', 'have')} lost a constraint of a rule")
    if number := counts["unknown"]:
        verb = _agreeing(number, "is", "are")
        parts.append(f"{number} {verb} unknown: see what could not be read")
    text = f"{'; '.join(parts)}." if parts else _good(content, things)
    return f"{text} {_repair(content)}".strip() + _failures(content)


def _agreeing(number: int, one: str, several: str) -> str:
    """The verb of so many things."""
    return one if number == 1 else several


def _good(content: Content, things: str) -> str:
    counts = content.counts
    if not counts["instances"]:
        return "There is no VM or pod in the selection."
    what = things if counts["instances"] == 1 else f"All {things}"
    text = f"{what} {_agreeing(counts['instances'], 'runs', 'run')} where the required rules allow."
    if number := counts["preference_not_met"]:
        text += f" {number} {_agreeing(number, 'does', 'do')} not meet a preference."
    if number := counts["not_enforced"]:
        event = next_event(_effects(content))
        text += f" {number} {_agreeing(number, 'gets', 'get')} the present rules at {event}."
    return text


def _effects(content: Content) -> t.Iterator[list[str]]:
    """Of each instance whose rules are not enforced."""
    for instance in content.instances:
        if instance.verdict == "not_enforced":
            yield [rule.takes_effect for rule in instance.rules]


def _repair(content: Content) -> str:
    broken = [rule for rule in content.rules if rule.violated]
    if not all(rule.satisfiable for rule in broken):
        return "A rule cannot be satisfied on these nodes."
    if content.fewest_moves is None:
        return ""
    least = "" if len(broken) == 1 else "At least "
    return f"{least}{plural(content.fewest_moves, 'move')} would repair the rules."


def _failures(content: Content) -> str:
    drill = content.drill
    if drill is None:
        return ""
    if drill.reasons:
        return " What a failure does is unknown."
    worst = max(drill.failures, key=lambda failure: failure.without_node, default=None)
    if worst is None or not worst.without_node:
        return ""
    what = f"{worst.topology} {worst.domain}"
    number = plural(worst.without_node, noun(content))
    return (
        f" If {what} {drill.verb}, {number} {_agreeing(worst.without_node, 'has', 'have')} no node."
    )


def rule_state(rule: ReportedRule) -> str:
    """The worst verdict that an instance has for the rule."""
    if rule.violated:
        return "violated"
    return next((verdict for verdict in VERDICTS if rule.verdicts.get(verdict)), "satisfied")


def moves_text(rule: ReportedRule) -> str:
    """How many moves repair the rule."""
    if not rule.violated:
        return ""
    if not rule.satisfiable:
        return "cannot be satisfied on these nodes"
    if rule.moves is None:
        return "unknown: too many instances and constraints"
    return plural(rule.moves, "move")
