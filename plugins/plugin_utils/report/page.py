# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML file: no script, no request to anywhere, every text escaped. Pure but for its template.

The environment of Ansible does not escape, not even in a block that asks for it. So this is one of its own.
"""

from __future__ import annotations

import functools
import itertools
import typing as t
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jinja2

from . import words
from .content import VERDICTS, Content, ReportedInstance, ReportedNode, by_problem
from .drill import Failure

CHIPS = 8
"""The most instances of one verdict on a node that are shown side by side. More are folded."""

CARDS = 40
"""The most nodes without a problem in a zone that are shown in full. More are folded."""

ROWS = 300
"""The most rows of a table. The rest is counted."""

CELLS = 400
"""The most nodes of a drill that have a cell."""


class StateGroup(t.NamedTuple):
    """Instances of a node with the same verdict, by namespace."""

    state: str
    instances: list[ReportedInstance]

    @property
    def folded(self) -> bool:
        return len(self.instances) > CHIPS

    @property
    def by_namespace(self) -> list[tuple[str, list[str]]]:
        ordered = sorted((x.namespace, x.name) for x in self.instances)
        return [
            (namespace, [name for _namespace, name in names])
            for namespace, names in itertools.groupby(ordered, key=lambda pair: pair[0])
        ]


@dataclass(frozen=True, slots=True)
class ZoneView:
    """The nodes of a zone: those to show in full, and those without a problem to fold."""

    name: str
    count: int
    instances: int
    states: list[tuple[str, int]]
    shown: list[ReportedNode]
    folded: list[ReportedNode]


class HeatRow(t.NamedTuple):
    """The failure of a zone, and of each of its nodes. In a large cluster some nodes are only counted."""

    zone: str
    whole: Failure | None
    cells: list[Failure]
    more: int
    more_with_impact: int


def html_page(content: Content) -> str:
    """The page as text."""
    problems = sorted((x for x in content.instances if x.has_problem), key=by_problem)
    broken = [rule for rule in content.rules if rule.has_problem or rule.before is not None]
    fine = [rule for rule in content.rules if not rule.has_problem and rule.before is None]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            content=content,
            words=words,
            rows=ROWS,
            title=f"Placement of {content.cluster}",
            sentence=words.sentence(content),
            level=words.level(content),
            tiles=words.tiles(content),
            zones=[_zone(content, zone) for zone in content.zones],
            groups=groups,
            problems=problems,
            broken=broken,
            fine=fine,
            heat=_heat(content),
            others=_other_topologies(content),
            failures=[x for x in content.drill.failures if x.impact] if content.drill else [],
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def state_of(instance: ReportedInstance) -> str:
    """The verdict, but `down` and `constraint_removed` where the verdict is not worse."""
    if instance.verdict in VERDICTS[:3]:
        return instance.verdict
    if instance.down:
        return "down"
    return "constraint_removed" if instance.constraint_removed else instance.verdict


def groups(instances: t.Iterable[ReportedInstance]) -> list[StateGroup]:
    """The worst first."""
    by_state: dict[str, list[ReportedInstance]] = {}
    for instance in instances:
        by_state.setdefault(state_of(instance), []).append(instance)
    return [StateGroup(state, by_state[state]) for state in words.MEANING if state in by_state]


def _zone(content: Content, zone: str) -> ZoneView:
    nodes = [node for node in content.nodes if node.zone == zone]
    fine = [node for node in nodes if not node.has_problem]
    kept = [] if len(fine) > CARDS else fine
    counted = Counter(state_of(x) for node in nodes for x in node.instances)
    return ZoneView(
        name=zone,
        count=len(nodes),
        instances=sum(counted.values()),
        states=[(state, counted[state]) for state in words.MEANING if counted[state]],
        shown=[*(node for node in nodes if node.has_problem), *kept],
        folded=fine if not kept else [],
    )


def _heat(content: Content) -> list[HeatRow]:
    """One row a zone: the zone itself, then its nodes, the worst first. Empty without zones and nodes."""
    if content.drill is None:
        return []
    whole = {failure.domain: failure for failure in content.drill.of("zone")}
    nodes: dict[str, list[Failure]] = {}
    for failure in content.drill.of("node"):
        nodes.setdefault(failure.zone, []).append(failure)
    zones = sorted({*whole, *nodes}, key=lambda zone: (not zone, zone))
    each = CELLS // max(1, len(zones))
    rows = []
    for zone in zones:
        cells = nodes.get(zone, [])
        shown = cells if len(cells) <= each else [x for x in cells if x.impact][:each]
        hidden = len([x for x in cells if x.impact]) - len([x for x in shown if x.impact])
        rows.append(HeatRow(zone, whole.get(zone), shown, len(cells) - len(shown), hidden))
    return rows


def _other_topologies(content: Content) -> list[tuple[str, list[Failure]]]:
    """Failures of racks and other domains, by topology."""
    found: dict[str, list[Failure]] = {}
    for failure in content.drill.failures if content.drill else ():
        if failure.topology not in ("zone", "node"):
            found.setdefault(failure.topology, []).append(failure)
    return sorted(found.items())
