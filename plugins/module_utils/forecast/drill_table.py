# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drills of a cluster as text: whether any one node may fail, the failures with an impact, and their instances."""

from __future__ import annotations

import typing as t

from ..model.quantity import cpu_text, memory_text
from ..model.rendering import columns, listed, one_line, plural, table_text
from ..model.snapshot import unreadable_texts
from ..model.topology import HOSTNAME, Topology
from .conclusion import ForecastResult
from .drill import Drill, DrillReport
from .explain import counted

SHOWN_ROWS = 20
SHOWN_INSTANCES = 5


def table(report: DrillReport, topology: Topology) -> str:
    """The domains whose loss has an impact as text in columns, the worst first, and the instances that
    are down then; or what could not be read. After a failure VMs are down until their node is fenced, and
    the forecast is about the time after that."""
    if report.unreadable:
        return table_text(f"unknown: {text}" for text in unreadable_texts(report.unreadable))
    impact = [drill for drill in report.drills if drill.has_impact]
    lines = impact_lines(report, impact, topology) if impact else []
    return table_text(
        [*filter(None, [n_plus_1(report)]), *lines, *totals(report, impact, topology)]
    )


def n_plus_1(report: DrillReport) -> str | None:
    """Whether any one node may fail, in one sentence: the room that is left without the worst one, or what a node lacks
    then. Nodes that are not used do not count, such as those of the control plane. None where no node fails, or not
    everything could be read. DRS calls this admission control with one host failure."""
    nodes = [drill for drill in report.drills if drill.key == HOSTNAME and drill.used]
    if report.event != "failure" or not nodes or report.unreadable:
        return None
    impact = [drill for drill in nodes if drill.has_impact]
    total = plural(len(nodes), "node")
    down = [x for x in nodes if x.instances_to_schedule and report.not_ready.intersection(x.nodes)]
    if not impact and down:
        are = "is" if len(down) == 1 else "are"
        return (
            f"N+1: not certain: {listed([drill.domain for drill in down], SHOWN_INSTANCES)} {are} not ready already,"
            " and instances there need nodes beside those of another failure. The playbook capacity counts them"
        )
    if not impact:
        least = min(nodes, key=lambda drill: (drill.room[1], drill.room[0], drill.domain))
        cpu, memory = least.room
        return (
            f"N+1: yes, any one of {total} may fail; least room is left without node {least.domain}:"
            f" {memory_text(memory)}, {cpu_text(cpu)}"
        )
    worst = impact[0]
    certain = [drill for drill in impact if drill.is_certain]
    answer = f"no for {len(certain)}" if certain else f"not certain for {len(impact)}"
    why = counted(worst.blocked) or next(iter(worst.reasons), str(worst.answer))
    return one_line(f"N+1: {answer} of {total}; without node {worst.domain}: {why}")


def impact_lines(
    report: DrillReport, impact: t.Sequence[Drill], topology: Topology
) -> t.Iterator[str]:
    """A row for each domain, and a line for each with its instances that are down."""
    fails = report.event == "failure"
    down = ("DOWN UNTIL FENCED", "DOWN AFTER FENCING") if fails else ("DOWN", "NOT MIGRATABLE")
    rows: list[tuple[str, ...]] = [
        (report.event.upper(), "INSTANCES", "ALL SCHEDULABLE", *down, "REASON")
    ]
    shown = {f"{topology.name_of(x.key)} {x.domain}": x for x in impact[:SHOWN_ROWS]}
    for domain, drill in shown.items():
        counts = (drill.min_down, len(drill.not_migratable))
        if fails:
            counts = (len(drill.down_until_fenced), drill.min_down)
        numbers = map(str, (drill.instances_to_schedule, drill.answer, *counts))
        rows.append((domain, *numbers, counted(drill.blocked) or next(iter(drill.reasons), "")))
    yield from columns(rows)
    if hidden := impact[SHOWN_ROWS:]:
        yield f"and {_more(hidden)}"
    for domain, drill in shown.items():
        yield from _instances_down(drill, f"{domain} {'fails' if fails else 'is drained'}")


def _more(hidden: t.Sequence[Drill]) -> str:
    certain = sum(drill.is_certain for drill in hidden)
    if certain == len(hidden):
        return f"{certain} more with an impact"
    uncertain = len(hidden) - certain
    words = f"{uncertain} that {'is' if uncertain == 1 else 'are'} not guaranteed"
    return f"{certain} more with an impact, {words}" if certain else words.replace(" ", " more ", 1)


def totals(report: DrillReport, impact: t.Sequence[Drill], topology: Topology) -> t.Iterator[str]:
    """How many domains have an impact, might have one, or have none, and the worst one until it is fenced."""
    noun, total, unaffected = report.event, len(report.drills), len(report.drills) - len(impact)
    uncertain = sum(not drill.is_certain for drill in impact)
    certain = len(impact) - uncertain
    unknown = sum(
        drill.answer is ForecastResult.UNKNOWN and not drill.is_certain for drill in impact
    )
    worst = max(report.drills, key=lambda drill: len(drill.down_until_fenced), default=None)
    fenced = worst is not None and bool(worst.down_until_fenced)
    after = " after fencing" * fenced
    if certain and (uncertain or not unaffected):
        problem = "down" if report.event == "failure" else "down or not migratable"
        yield f"{plural(certain, noun)}: instances are {problem}"
    if uncertain > unknown:
        yield f"{plural(uncertain - unknown, noun)}: no impact expected{after}, but not guaranteed"
    if unknown:
        yield f"{plural(unknown, noun)}: unknown, no choice of nodes was found"
    if unaffected or not impact:
        not_listed = ", not listed above" if impact else ""
        yield f"{unaffected} of {plural(total, noun)}: no impact{after}{not_listed}"
    if worst is not None and fenced:
        most = plural(len(worst.down_until_fenced), "VM")
        domain = f"{topology.name_of(worst.key)} {worst.domain}"
        yield f"down until fenced: up to {most}, if {domain} fails"


def _instances_down(drill: Drill, domain_fails: str) -> t.Iterator[str]:
    states = {
        "unschedulable": drill.pending,
        "not migratable": drill.not_migratable,
        "not recreated": drill.not_recreated,
        "perhaps unschedulable": drill.at_risk,
    }
    for state, refs in states.items():
        if refs:
            yield f"{state} if {domain_fails}: {listed(refs, SHOWN_INSTANCES)}"
