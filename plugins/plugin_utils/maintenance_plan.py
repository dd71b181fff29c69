# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order are the nodes of a maintenance taken, which together, and which are done already?"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    OUTSIDE_OF_WINDOW,
    Obstacle,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.window import parse_window

Node = dict[str, t.Any]
Options = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class MaintenancePlan:
    """`done`: nodes that this change has serviced. `marked`: nodes in maintenance, `begun` those of them that are
    still cordoned. `groups`: names of nodes that are in maintenance together."""

    done: tuple[Node, ...]
    nodes: tuple[Node, ...]
    marked: tuple[Node, ...]
    begun: tuple[Node, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def uncordoned(self) -> list[str]:
        """Nodes in maintenance that another client has uncordoned. They begin anew."""
        return [node["name"] for node in self.marked if node not in self.begun]


def maintenance_plan(
    nodes: t.Sequence[Node], options: Options, gone: t.Sequence[str] = ()
) -> MaintenancePlan:
    """`nodes` as node_maintenance returns them. A zone with a node in maintenance is first, and this node in it, so
    that a job that is run again continues there. `gone` are the names of nodes that may register again: to be put in
    service they are waited for at the end."""
    change = change_id(options)
    done = tuple(x for x in nodes if change and x["since"] is None and x["change_id"] == change)
    left = tuple(node for node in nodes if node not in done)
    marked = tuple(node for node in left if node["since"])
    begun = tuple(node for node in marked if node["cordoned"])
    groups = tuple(_groups(left, marked, begun, options))
    if gone and options["state"] == "in_service":
        groups += (tuple(gone),)
    return MaintenancePlan(done, left, marked, begun, groups)


def change_id(options: Options) -> str:
    """With the state drained the maintenance does not end, so that no identifier is recorded."""
    return "" if options["state"] == "drained" else str(options["change_id"])


def _groups(
    nodes: t.Sequence[Node],
    marked: t.Sequence[Node],
    begun: t.Sequence[Node],
    options: Options,
) -> t.Iterator[tuple[str, ...]]:
    """With the state drained all nodes stay in maintenance, so they are one group, which max_nodes and one zone
    limit. With a window, nodes that were begun are groups of their own: they continue outside of it."""
    if options["state"] == "drained":
        if nodes:
            yield tuple(node["name"] for node in nodes)
        return
    size = max(options["max_nodes"], 1)
    canary = min(options["canary"], size)
    ordered = list({node["name"]: node for node in [*marked, *nodes]}.values())
    continuing = {node["name"] for node in begun} if options.get("window") else set()
    for zone in dict.fromkeys(node["zone"] for node in ordered):
        names = [node["name"] for node in ordered if node["zone"] == zone]
        yield from _batches([name for name in names if name in continuing], size)
        fresh = [name for name in names if name not in continuing]
        if fresh[:canary]:
            yield tuple(fresh[:canary])
        yield from _batches(fresh[canary:], size)
        canary = 0


def _batches(names: t.Sequence[str], size: int) -> t.Iterator[tuple[str, ...]]:
    for start in range(0, len(names), size):
        yield tuple(names[start : start + size])


def topology_values(options: Options) -> list[str]:
    values: t.Any = next(iter(options["topology"].values()), [])
    return [str(value) for value in (values if isinstance(values, (list, tuple)) else [values])]


def end_states(nodes: t.Iterable[Node], state: str) -> dict[str, str]:
    """What became of nodes whose maintenance ended: serviced or in_service, or cordoned if they stay so."""
    ended = "serviced" if state == "serviced" else "in_service"
    return {x["name"]: ended if x["state"] == "in_service" else x["state"] for x in nodes}


def drained_states(nodes: t.Iterable[Node]) -> dict[str, str]:
    """A node without a mark was not begun: its window is closed."""
    return {node["name"]: node["state"] if node["since"] else "not_begun" for node in nodes}


def window_obstacle(options: Options) -> Obstacle | None:
    """Why no node may be begun now, or None. A wrong window has been refused when the nodes were read: one that this
    host cannot read is closed, since it may lack a time zone."""
    window, faults = parse_window(options["window"])
    if faults:
        return Obstacle(
            OUTSIDE_OF_WINDOW, f"this host cannot read the window: {'; '.join(map(str, faults))}"
        )
    if window is None or datetime.datetime.now(datetime.timezone.utc) in window:
        return None
    return window.outside
