# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown for a ticket or a merge request. Pure.

Texts of the cluster are in code spans: there is no link, no mention and no HTML in them, whatever a tenant wrote.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import one_line

from . import words
from .content import Content, by_problem

ROWS = 50
"""The most rows of a table: a ticket is read, the page has the rest."""


def markdown_text(content: Content) -> str:
    sections = [
        _head(content),
        _unread(content),
        _problems(content),
        _rules(content),
        _drill(content),
        _moves(content),
        _findings(content),
        _risks(content),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def code(text: str) -> str:
    """The text as a code span, in a table too. Empty text is empty."""
    line = _PIPE.sub(_escaped_pipe, one_line(text).replace("`", "'")).strip()
    return f"`{line}`" if line else ""


_PIPE = re.compile(r"(\\*)\|")


def _escaped_pipe(match: re.Match[str]) -> str:
    """An odd number of backslashes before the pipe: some renderers take two of them for one, and the pipe for the end
    of the cell, in which the code span then has no end."""
    before = match[1]
    more = "\\" if len(before) % 2 == 0 else "\\\\"
    return f"{before}{more}|"


def _head(content: Content) -> list[str]:
    uid = f", cluster {code(content.uid)}" if content.uid else ""
    sentence = one_line(words.sentence(content))
    return [
        f"# Placement of {code(content.cluster)}",
        "",
        f"**{' '.join(map(_plain_word, sentence.split()))}**",
        "",
        f"{code(content.api)}{uid}, {words.time_text(content.time)}",
        "",
        *_table(
            ("", "instances", "meaning"),
            [(f"{x.symbol} {x.word}", str(x.count), x.meaning) for x in words.tiles(content)],
            "states",
        ),
    ]


def _unread(content: Content) -> list[str]:
    if not content.gaps:
        return []
    return ["## What could not be read", "", *(f"* {code(gap)}" for gap in content.gaps)]


def _problems(content: Content) -> list[str]:
    problems = sorted((x for x in content.instances if x.has_problem), key=by_problem)
    rows = []
    for instance in problems:
        states = [words.state_word(instance.verdict)] if instance.verdict != "satisfied" else []
        states += ["down"] * instance.down + ["constraint removed"] * instance.constraint_removed
        reasons = [
            " ".join(
                filter(
                    None,
                    [
                        code(rule.rule),
                        code(rule.reason),
                        f"better: {code(', '.join(rule.better_nodes[:6]))}"
                        if rule.better_nodes
                        else "",
                    ],
                )
            )
            for rule in instance.rules
            if rule.verdict != "satisfied" or rule.constraint_removed
        ]
        name = f"{instance.namespace}/{instance.name}"
        rows.append((", ".join(states), code(name), code(instance.node), "; ".join(reasons)))
    waiting = [f"* pending: {code(line)}" for line in content.waiting[:ROWS]]
    if not rows and not waiting:
        return []
    table = _table(("what", "instance", "node", "rule and reason"), rows, "with a problem")
    return ["## Problems", "", *waiting, *([""] if waiting and rows else []), *table]


def _rules(content: Content) -> list[str]:
    zones = content.zones
    rows = []
    for rule in content.rules:
        by_zone = []
        for zone in zones:
            now = str(rule.zones.get(zone, 0)) if rule.verdicts else ""
            if rule.before is not None and rule.after is not None:
                before, after = rule.before.get(zone, 0), rule.after.get(zone, 0)
                now = f"{before} → {after}" if before != after else now
            by_zone.append(now)
        state = words.rule_state(rule)
        rows.append(
            (
                code(rule.name),
                f"{words.SYMBOL[state]} {words.state_word(state)}",
                words.moves_text(rule),
                *by_zone,
            )
        )
    resting = [f"* not enabled, so not verified: {code(rule)}" for rule in content.resting[:ROWS]]
    resting += [f"* new members: {code(rule)}" for rule in content.new_members[:ROWS]]
    if not rows and not resting:
        return []
    named = [f"zone {code(zone)}" if zone else "no zone" for zone in zones]
    table = _table(("rule", "state", "moves needed", *named), rows, "rules")
    return ["## Rules", "", *table, *([""] if rows and resting else []), *resting]


def _drill(content: Content) -> list[str]:
    drill = content.drill
    if drill is None:
        return []
    heading = f"## If a zone or a node {drill.verb}"
    left_out = [
        f"No node has the label {code(key)}, so its failures were left out."
        for key in drill.left_out
    ]
    if drill.reasons:
        return [heading, "", *(f"* {code(reason)}" for reason in drill.reasons)]
    impact = [failure for failure in drill.failures if failure.impact]
    rows = [
        (
            f"{code(f'{x.topology} {x.domain}')}",
            x.forecast,
            str(x.to_schedule),
            x.number,
            code("; ".join(x.reasons[:3])),
        )
        for x in impact
    ]
    counted = " ".join(
        [f"{len(impact)} of {len(drill.failures)} failures have an impact.", *left_out]
    )
    table = _table(
        ("loss of", "forecast", "to place", "without a node", "reason"), rows, "failures"
    )
    return [heading, "", counted, *(["", *table] if rows else [])]


def _moves(content: Content) -> list[str]:
    moves = content.moves
    if moves is None:
        return []
    rows = [
        (
            code(f"{x.workload[1]}/{x.workload[2]}"),
            code(x.from_node),
            code(x.to_node) if x.state in ("moved", "planned", "deferred") else "",
            code(x.method),
            " ".join(filter(None, [code(x.state), code(x.reason)])),
        )
        for x in (*moves.moves, *moves.not_moved)
    ]
    heading = "## What a rollout would move" if moves.planned else "## Last rollout"
    stopped = [code(moves.stop_reason), ""] if moves.stop_reason else []
    table = _table(("workload", "before", "after", "how", "result"), rows, "moves")
    return [heading, "", *stopped, *(table or ["Nothing was moved."])]


def _findings(content: Content) -> list[str]:
    rows = [
        (
            code(finding.severity),
            code(finding.name),
            code(", ".join(finding.objects[:6])),
            " ".join(filter(None, [code(finding.why), code(finding.advice)])),
        )
        for finding in content.findings
    ]
    if not rows:
        return []
    table = _table(
        ("severity", "finding", "objects", "what was seen, and what to do"), rows, "findings"
    )
    return ["## Findings", "", *table]


def _risks(content: Content) -> list[str]:
    rows = [
        (
            code(words.state_word(risk.kind)),
            code(risk.node),
            code(risk.detail),
            code(", ".join(risk.instances[:6])),
        )
        for risk in content.risks
    ]
    kept = [f"* not moved: {code(line)}" for line in content.kept[:ROWS]]
    if not rows and not kept:
        return []
    table = _table(("kind", "node", "what was seen", "instances"), rows, "risks")
    return ["## Risks", "", *table, *([""] if rows and kept else []), *kept]


def _table(heading: t.Sequence[str], rows: t.Sequence[t.Sequence[str]], what: str) -> list[str]:
    if not rows:
        return []
    lines = [heading, ["---"] * len(heading), *rows[:ROWS]]
    more = ["", f"And {len(rows) - ROWS} more {what}."] if len(rows) > ROWS else []
    return [*(f"| {' | '.join(line)} |" for line in lines), *more]


def _plain_word(word: str) -> str:
    """A word of a sentence of ours, which may hold the name of a topology domain: what could be a link, a mention or a
    reference is a code span. An escaped @ is a mention all the same."""
    core = word.rstrip(".,;:")
    return word if _WORD.fullmatch(core) else f"{code(core)}{word[len(core) :]}"


_WORD = re.compile(r"[A-Za-z]+(['-][A-Za-z]+)*|[0-9]+%?|", re.ASCII)
