# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes, losses and what is forecast of them."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.write import Operation, Write
from ansible_collections.virt.placement.plugins.module_utils.model.write import (
    written as objects_written,
)
from tests.support.cluster import ZONE, Cluster, expression, node_affinity

JSON = t.Any


def lost(made: Cluster, *nodes: str, event: NodeEvent = "drain") -> Forecast:
    return forecast(what_if(made.snapshot(), lost_nodes=nodes, event=event))


def written(made: Cluster, *writes: Write, lost_nodes: t.Collection[str] = ()) -> Forecast:
    """Of these writes, made while nodes are drained."""
    return forecast(what_if(made.snapshot(), writes=writes, lost_nodes=lost_nodes))


def before_and_after(
    made: Cluster, writes: t.Sequence[Write], members: t.Collection[Ref] = ()
) -> tuple[Forecast, Forecast]:
    """What is said of rules that `writes` write, before that is done and when only that has been done;
    their members are those written to and these."""
    asked = {*members, *(write.target for write in writes)}
    snapshot = made.snapshot()
    first = forecast(what_if(snapshot, writes=writes, members=asked))
    later = objects_written(snapshot, writes)
    return first, forecast(what_if(later, members=asked))


def template_write(ref: Ref, field: str, value: JSON, *more: Operation) -> Write:
    """A write of one field of a template's spec."""
    pointer = Pointer(("spec", "template", "spec", field))
    return Write(
        ref, "", f"{ref.kind}-{ref.name}".lower(), (), (Operation("add", pointer, value), *more)
    )


def pinned(ref: Ref, *zones: str) -> Write:
    """A write after which instances of a workload may run in these zones only."""
    allowed = node_affinity({"matchExpressions": [expression(ZONE, "In", *zones)]})
    return template_write(ref, "affinity", allowed["affinity"])


def names(found: t.Iterable[t.Any]) -> list[str]:
    """Of the instances that entries of a forecast are about."""
    return [each.instance.name for each in found]
