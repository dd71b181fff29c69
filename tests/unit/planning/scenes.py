# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that several tests of forecasts begin with."""

from __future__ import annotations

import dataclasses
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
from tests.unit.compliance.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    selector,
)

JSON = t.Any


def cluster(zones: str, *, migrates: bool = True) -> Cluster:
    """n1, n2 ... one for each letter, in the zone of that letter."""
    made = Cluster(zones)
    strategy = "LiveMigrate" if migrates else "None"
    made.more["platform"] = dataclasses.replace(made.more["platform"], eviction_strategy=strategy)
    return made


def configure(made: Cluster, **developer: JSON) -> None:
    """Change `developerConfiguration` of KubeVirt: what runs keeps what it was made with."""
    platform = made.more["platform"]
    before = platform.configuration["developerConfiguration"]
    configuration = {**platform.configuration, "developerConfiguration": {**before, **developer}}
    made.more["platform"] = dataclasses.replace(platform, configuration=configuration)


def machine(made: Cluster, name: str, node: str, spec: JSON = None, **labels: str) -> Ref:
    """A VirtualMachine that is always to run, on a node (empty: halted)."""
    ref = made.run(name, node, spec, **labels) if node else made.vm(name, spec, **labels)
    made.workloads[ref]["spec"]["runStrategy"] = "Always" if node else "Halted"
    return ref


def deployment(
    made: Cluster,
    name: str,
    nodes: t.Iterable[str],
    spec: JSON,
    labels: t.Mapping[str, str] | None = None,
) -> Ref:
    """A Deployment with a running pod on each of these nodes."""
    where = list(nodes)
    template = {"metadata": {"labels": {"app": name, **(labels or {})}}, "spec": spec}
    ref = made.workload("Deployment", name, {"replicas": len(where), "template": template})
    for node in where:
        made.start(ref, node)
    return ref


def replica_set(made: Cluster, name: str, nodes: t.Iterable[str], spec: JSON) -> Ref:
    """A VirtualMachineInstanceReplicaSet with a running machine on each of these nodes."""
    where = list(nodes)
    template = {"metadata": {"labels": {"app": name}}, "spec": {"domain": {}, **spec}}
    kind = "VirtualMachineInstanceReplicaSet"
    ref = made.workload(kind, name, {"replicas": len(where), "template": template})
    for number, node in enumerate(where):
        made.start(ref, node, f"{name}-{number}")
    return ref


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


def near(over: str = ZONE, **labels: str) -> JSON:
    """The affinity of a template that wants a pod with these labels near."""
    return affinity({"labelSelector": selector(**labels), "topologyKey": over})["affinity"]


def keep_apart(*, over: str = ZONE, plain: bool = False, **labels: str) -> JSON:
    """The affinity of a template that keeps pods with these labels apart."""
    return anti_affinity(apart(over, plain=plain, **labels))["affinity"]


def names(found: t.Iterable[t.Any]) -> list[str]:
    """Of the instances that entries of a forecast are about."""
    return [each.instance.name for each in found]


__all__ = [
    "HOST",
    "ZONE",
    "Cluster",
    "before_and_after",
    "cluster",
    "deployment",
    "keep_apart",
    "lost",
    "machine",
    "names",
    "near",
    "pinned",
    "replica_set",
    "template_write",
    "written",
]
