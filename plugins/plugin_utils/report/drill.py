# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each failure of a drill comes to, from the result of drill_info, by topology key and zone. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology

from .results import ResultMap

FORECASTS = ("impossible", "unknown", "possible", "guaranteed")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The loss of one topology domain. `topology` is the short name of its key, or the key."""

    topology: str
    domain: str
    nodes: tuple[str, ...]
    zone: str
    forecast: str
    to_schedule: int
    without_node: int
    """So many instances have no node, whichever nodes the scheduler chooses, or are not created again."""
    down_until_fenced: int
    reasons: tuple[str, ...] = ()
    impact: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether it is unknown if any has no node."""
        return self.forecast == "unknown" and not self.without_node

    @property
    def number(self) -> str:
        """How many have no node, at least. A question mark where that is unknown."""
        return "?" if self.is_unknown else str(self.without_node)


@dataclass(frozen=True, slots=True)
class DrillContent:
    event: str
    forecast: str
    failures: tuple[Failure, ...]
    """The worst first."""
    reasons: tuple[str, ...]
    """Why nothing could be tried."""
    left_out: tuple[str, ...] = ()
    """Label keys that no node has: nothing could fail there."""

    @property
    def verb(self) -> str:
        """What happens to the domain, in a sentence: `zone a fails`."""
        return "is drained" if self.event == "drain" else "fails"

    def of(self, topology: str) -> list[Failure]:
        return [failure for failure in self.failures if failure.topology == topology]


def read_drill(result: ResultMap, zone_of: t.Mapping[str, str]) -> DrillContent:
    """Raises DamagedResult. `zone_of` is node to zone."""
    names = {key: name for name, key in Topology.of().keys.items()}
    impact = [_failure(entry, names, zone_of) for entry in result.maps("domains")]
    harmless = [
        Failure(
            topology=names.get(entry.text("topology_key"), entry.text("topology_key")),
            domain=entry.text("domain"),
            nodes=entry.texts("nodes"),
            zone=_zone(entry.texts("nodes"), zone_of),
            forecast="guaranteed",
            to_schedule=entry.number("instances_to_schedule"),
            without_node=0,
            down_until_fenced=entry.number("down_until_fenced"),
        )
        for entry in result.maps("without_impact")
    ]
    counts = result.map("counts")
    failures = (*impact, *harmless)
    if counts.number("domains") != len(failures):
        raise result.damaged(
            f"drill.counts has {counts.number('domains')} domains, but {len(failures)} are listed"
        )
    return DrillContent(
        event=result.text("event"),
        forecast=_forecast(result),
        failures=failures,
        reasons=result.texts("reasons"),
        left_out=result.texts("left_out"),
    )


def _failure(entry: ResultMap, names: t.Mapping[str, str], zone_of: t.Mapping[str, str]) -> Failure:
    key = entry.text("topology_key")
    gone = [f"{_name(ref)} is not created again" for ref in entry.maps("not_recreated")]
    fixed = [f"{_name(ref)} cannot be live-migrated" for ref in entry.maps("not_migratable")]
    messages = [blocked.text("message") for blocked in entry.maps("blocked")]
    return Failure(
        topology=names.get(key, key),
        domain=entry.text("domain"),
        nodes=entry.texts("nodes"),
        zone=_zone(entry.texts("nodes"), zone_of),
        forecast=_forecast(entry),
        to_schedule=entry.number("instances_to_schedule"),
        without_node=entry.number("min_unschedulable") + len(gone),
        down_until_fenced=entry.length("down_until_fenced"),
        reasons=tuple(dict.fromkeys((*messages, *entry.texts("reasons"), *gone, *fixed))),
        impact=True,
    )


def _forecast(entry: ResultMap) -> str:
    forecast = entry.text("forecast")
    if forecast not in FORECASTS:
        raise entry.damaged(f"{entry.where}.forecast is {forecast!r}, which is no forecast")
    return forecast


def _zone(nodes: t.Iterable[str], zone_of: t.Mapping[str, str]) -> str:
    """The zone that the nodes share, if they do."""
    zones = {zone_of.get(node, "") for node in nodes}
    return zones.pop() if len(zones) == 1 else ""


def _name(ref: ResultMap) -> str:
    return f"{ref.text('kind')} {ref.text('namespace')}/{ref.text('name')}"
