# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job did: the block of lines that closes it, the same as data, and as Markdown for a ticket."""

from __future__ import annotations

import html
import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ansible_collections.virt.placement.plugins.module_utils.model.plan import PAST
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    CLUSTER_AWAY,
    FAILED,
    NOTHING_WRITTEN,
    UNFINISHED,
    listed,
    one_line,
)

ARTIFACT = "placement_job"
"""What the roles publish with set_stats: all of it, as data and as Markdown."""

LAUNCH = "launch the same job without check mode"
CORRECT_OR_PLAN = "correct it and launch the same job again, or make a new plan in check mode"
"""Next steps that jobs share."""

AFTER_FAILURES = {x.code for x in (CLUSTER_AWAY, FAILED, NOTHING_WRITTEN, UNFINISHED)}
"""Codes of the next steps of modules that failed, which are those of a job that knows nothing better."""

MOST_LINES = 15

LONGEST_REASON = 240
"""Characters of the reason in the line `failed`. The whole one is in the artifact, and above, where it occurred."""

SEVERAL = re.compile(r"(.+: )?\d+ errors:")
"""How the message of a module begins that has several errors; each of them is a line with a dash."""

MARKUP = re.compile(r"([\\`*_\[\]#|~!])")

Move = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Closing:
    """`outcome`: done, failed, or checked (check mode). `moves`: flat, as modules return them, those that were made
    or, in check mode, would be. `nodes`: name to what became of the node; `node_words`: other words for that in the
    block. `failed` is short, since the lines of `errors` are printed where they occur. `undo`: what came of the undo of
    a job that failed; empty if there was none. `heading`: in place of "done", where that would be too much. `unread`:
    what could not be read, in short; `gaps` is the whole."""

    playbook: str
    outcome: str
    seconds: float = 0.0
    asked: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    nodes: t.Mapping[str, str] = field(default_factory=dict)
    next_steps: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    undo: str = ""
    node_words: t.Mapping[str, str] = field(default_factory=dict)
    heading: str = ""
    unread: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def minutes(self) -> float:
        return round(self.seconds / 60, 1)

    def headline(self) -> str:
        took = f"{self.minutes:g} min" if self.seconds >= 60 else f"{round(self.seconds)} s"
        outcome = {
            "done": self.heading or "done",
            "failed": "FAILED",
            "checked": "check mode, nothing was changed",
        }[self.outcome]
        return f"{self.playbook}: {outcome}, after {took}"

    def sections(self) -> dict[str, list[str]]:
        """Label to texts, in the order in which a reader needs them. Empty ones are left out."""
        by_label = {
            "asked": list(self.asked),
            "nodes": self.node_texts(),
            "moves": self.move_texts(),
            "done": list(self.done),
            "skipped": list(self.skipped),
            "not read": list(self.unread),
            "failed": list(self.failed),
            "next": list(self.next_steps),
        }
        return {label: texts for label, texts in by_label.items() if texts}

    def node_texts(self) -> list[str]:
        by_state: dict[str, list[str]] = {}
        for name, state in self.nodes.items():
            words = self.node_words.get(name) or state.replace("_", " ")
            by_state.setdefault(words, []).append(name)
        return [f"{state}: {listed(names, 12)}" for state, names in by_state.items()]

    def move_texts(self) -> list[str]:
        """One text for each method and outcome: `2 migrated: shop/db w1 -> w2, shop/web w1 -> w3`."""
        by_words: dict[str, list[str]] = {}
        for words, move in _final(self.moves):
            by_words.setdefault(words, []).append(_route(move))
        return [f"{len(routes)} {words}: {listed(routes, 4)}" for words, routes in by_words.items()]

    def lines(self) -> list[str]:
        """At most 15, each of them one line. The longest sections are cut, and say how much is missing."""
        sections = self.sections()
        kept = {label: len(texts) for label, texts in sections.items()}
        while sum(kept.values()) > MOST_LINES - 1:
            kept[max(kept, key=kept.__getitem__)] -= 1
        lines = [self.headline()]
        for label, texts in sections.items():
            shown = texts
            if kept[label] < len(texts):
                missing = len(texts) - kept[label] + 1
                shown = [*texts[: kept[label] - 1], f"{missing} more, in the artifact {ARTIFACT}"]
            for number, text in enumerate(shown):
                lines.append(f"  {'' if number else label:<8} {one_line(text)}")
        return lines

    def data(self) -> dict[str, t.Any]:
        """The same for a program."""
        vms: dict[str, list[dict[str, t.Any]]] = {}
        for move in self.moves:
            vms.setdefault(_words(move).replace(" ", "_"), []).append(
                {
                    name: move.get(name)
                    for name in ("kind", "namespace", "name", "from_node", "to_node", "reason")
                }
            )
        return {
            "playbook": self.playbook.lower(),
            "outcome": self.outcome,
            "minutes": self.minutes,
            "asked": list(self.asked),
            "done": list(self.done),
            "skipped": list(self.skipped),
            "not_read": list(self.gaps),
            "failed": list(self.errors or self.failed),
            "moves": vms,
            "nodes": dict(self.nodes),
            "undo": self.undo,
            "next": list(self.next_steps),
            "markdown": self.markdown(),
        }

    def markdown(self) -> str:
        """The whole as Markdown: nothing is cut, and nothing of it is read as markup or HTML."""
        parts = [f"### {_escaped(self.headline())}"]
        for label, texts in self.sections().items():
            whole = {
                "moves": [f"{_words(move)}: {_route(move)}" for move in self.moves],
                "not read": list(self.gaps),
                "failed": list(self.errors or self.failed),
            }
            items = whole.get(label, texts)
            parts.append(f"**{label}**\n\n" + "\n".join(f"- {_escaped(item)}" for item in items))
        return "\n\n".join(parts) + "\n"


def joined(
    notes: t.Iterable[t.Mapping[str, t.Any]], part: str, *, after_failure: bool = False
) -> list[str]:
    """The entries of the results of modules, each text once with all its objects. What follows the failure of a module
    is in `next` only where it is asked for."""
    objects: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for entry in (x for note in notes for x in note.get("outcome", {}).get(part, ())):
        if part != "next" or (entry["code"] in AFTER_FAILURES) == after_failure:
            objects[entry["code"], entry["text"]] |= dict.fromkeys(entry["objects"])
    pairs = ((text, listed(names, 12)) for (_code, text), names in objects.items())
    return [": ".join(filter(None, x[::-1] if part == "skipped" else x)) for x in pairs]


def has_entry(result: t.Mapping[str, t.Any], part: str, code: str) -> bool:
    """Whether a result has an entry of this code below `done`, `skipped` or `next`."""
    return any(entry["code"] == code for entry in result.get("outcome", {}).get(part, ()))


def reason_of(lines: t.Sequence[str]) -> str:
    """The first reason of these lines of an error, not longer than can be read at a glance. What to do, its end, is
    kept."""
    first = lines[0]
    several = SEVERAL.fullmatch(first) if len(lines) > 1 else None
    if several is not None:
        first = f"{several[1] or ''}{lines[1].removeprefix('- ')}"
    text = one_line(first)
    if len(text) <= LONGEST_REASON:
        return text
    for what_to_do in (": grant this identity ", ". "):
        seen, start, advice = text.rpartition(what_to_do)
        if seen and len(start + advice) <= LONGEST_REASON // 4 * 3:
            return f"{_cut(seen, LONGEST_REASON - len(start + advice))}{start}{advice}".replace(
                ".... ", "... "
            )
    return _cut(text, LONGEST_REASON)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: limit - 3].rpartition(" ")[0].rstrip(" ,;:.") + "..."


def _final(moves: t.Sequence[Move]) -> t.Iterator[tuple[str, Move]]:
    """The moves with their words, without attempts that have failed and were followed by one that has not."""
    last: dict[tuple[str, ...], Move] = {}
    failed: set[tuple[str, ...]] = set()
    for move in moves:
        last[_attempted(move)] = move
        if move.get("state") == "failed":
            failed.add(_attempted(move))
    for move in moves:
        key = _attempted(move)
        if last[key] is move or move.get("state") != "failed":
            again = key in failed and move.get("state") == "moved"
            yield f"{_words(move)}{' after a failed attempt' if again else ''}", move


def _attempted(move: Move) -> tuple[str, ...]:
    names = ("kind", "namespace", "name", "instance", "from_node")
    return tuple(str(move.get(name)) for name in names)


def _words(move: Move) -> str:
    done = PAST.get(str(move.get("method")), str(move.get("method")))
    state = move.get("state", "moved")
    if state == "failed":
        return f"not {done}"
    if state == "planned":
        return f"would be {done}"
    return "ended by itself" if state == "gone" else done


def _route(move: Move) -> str:
    name = f"{move.get('namespace')}/{move.get('name')}"
    if move.get("instance") not in (None, "", move.get("name")):
        name += f" ({move['instance']})"
    nodes = [str(node) for node in (move.get("from_node"), move.get("to_node")) if node]
    return f"{name} {' -> '.join(nodes)}".strip()


def _escaped(text: str) -> str:
    """Names and messages come from objects that anyone may have written."""
    return html.escape(MARKUP.sub(r"\\\1", one_line(text)), quote=False)
