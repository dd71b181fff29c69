# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of modules for reports: made by the flows of the modules, of a small cluster with all that can be wrong."""

from __future__ import annotations

import copy
import functools
import typing as t
from unittest import mock

from ansible_collections.virt.placement.plugins.module_utils.flows import placement_info
from ansible_collections.virt.placement.plugins.module_utils.flows.drill_info import drills_as_json
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    encode,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MAINTENANCE
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from ansible_collections.virt.placement.plugins.plugin_utils.report.content import (
    Content,
)
from ansible_collections.virt.placement.plugins.plugin_utils.report.read_content import read_content
from tests.support.cluster import HOST, ZONE, Cluster, apart, cluster, machine

JSON = t.Any
Object = dict[str, JSON]

API = {"api": "https://api.prod.example.com:6443", "uid": "9c1f3b8e-6a55-4a3c-8a3b-3d0b2f1d7c11"}
TIME = "2026-11-25T03:30:00+00:00"
RULE = "shop/default/web-one-per-zone"
FINE = "shop/default/app-one-per-zone"


def shop() -> Cluster:
    """Zones a, b and c with two nodes each: web-2 and web-3 share zone b, gpu has no node, tape runs on a node that
    is not Ready, disk cannot leave n4, n2 is in maintenance, n6 is cordoned and empty, and n7 is in no zone."""
    made = cluster("aabbcc")
    made.node("n7")
    rules = (
        ("web", "web-one-per-zone", ("n1", "n3", "n4")),
        ("app", "app-one-per-zone", ("n1", "n3", "n5")),
    )
    for group, rule, nodes in rules:
        for number, node in enumerate(nodes, 1):
            ref = made.vm(f"{group}-{number}", tier=group)
            made.workloads[ref]["spec"]["runStrategy"] = "Always"
            made.write(ref, rule, (TermLocation.ANTI_AFFINITY, apart(tier=group)))
            made.start(ref, node)
    late = machine(made, "late", "n3", tier="late")
    made.write(late, "late-alone", (TermLocation.ANTI_AFFINITY, apart(tier="other")))
    for number in range(10):
        machine(made, f"small-{number}", "n5")
    gpu = made.vm("gpu", {"nodeSelector": {"example.com/gpu": "true"}})
    made.start(gpu, "")
    machine(made, "tape", "n7")
    machine(made, "disk", "n4", {"nodeSelector": {HOST: "n4"}})
    mark = Mark("r1", "firmware", MaintenancePhase.DRAINED, "b", True, "2026-11-25T03:04:05Z")
    made.nodes["n2"]["metadata"]["annotations"] = {MAINTENANCE: encode(mark)}
    made.nodes["n2"]["spec"]["unschedulable"] = True
    made.nodes["n6"]["spec"]["unschedulable"] = True
    made.nodes["n7"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return made


def placement_of(made: Cluster, details: str = "placement", **changes: JSON) -> Object:
    """As placement_info returns it."""
    snapshot = made.snapshot(**changes)
    options: Object = {"namespaces": None, "workloads": None, "exclude_namespaces": []}
    options |= {"columns": ["zone"], "only": None}
    params: Object = {**options, "topology_keys": {}, "cluster_uid": None, "details": details}
    with (
        mock.patch.object(placement_info, "read_snapshot", return_value=snapshot),
        mock.patch.object(placement_info, "with_policies", return_value=snapshot),
    ):
        result = placement_info.run(mock.Mock(params=params), mock.Mock())
    return {**result, "cluster": dict(API), "changed": False}


def drill_of(made: Cluster, event: NodeEvent = "failure", **changes: JSON) -> Object:
    """As drill_info returns it, for zones and nodes."""
    report = drill(made.snapshot(**changes), [ZONE, HOST], event=event)
    result = drills_as_json(report, Topology.of())
    return {**result, "left_out": [], "cluster": dict(API), "changed": False}


@functools.cache
def _shop_results() -> tuple[Object, Object]:
    return placement_of(shop()), drill_of(shop())


def shop_placement() -> Object:
    return copy.deepcopy(_shop_results()[0])


def shop_drill() -> Object:
    return copy.deepcopy(_shop_results()[1])


def move(name: str, from_node: str, to_node: str, state: str = "planned") -> Object:
    """As rollout returns it."""
    entry: Object = {
        "kind": "VirtualMachine",
        "namespace": "shop",
        "name": name,
        "instance": name,
        "uid": "",
        "method": "migrate",
        "from_node": from_node,
        "to_node": to_node,
        "reason": "",
        "state": state,
    }
    return entry if state == "planned" else {**entry, "seconds": 21.4}


def rollout_of(*moves: Object, **changes: JSON) -> Object:
    skipped = {**move("late", "n3", ""), "method": None, "to_node": None, "reason": "needs restart"}
    return {
        "moves": list(moves),
        "skipped_instances": [skipped],
        "deferred": [],
        "not_enforced": [],
        "stop_reason": "",
        "cluster": dict(API),
        **changes,
    }


def shop_content(**results: JSON) -> Content:
    """The content of a report on the shop with its drill and a rollout of one planned move."""
    given = {
        "drill": shop_drill(),
        "rollout": rollout_of(move("web-3", "n4", "n5")),
        "cluster": "prod",
        "time": TIME,
        **results,
    }
    return read_content(given.pop("placement", None) or shop_placement(), **given)
