# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A webhook that writes node expressions of its own into every term, as Harvester's does."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload

from .builders import applied, plan, snapshot, vm, workload

JSON = t.Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN = [
    {"key": "network.harvesterhci.io/mgmt", "operator": "In", "values": ["true"]},
    {"key": "cpumanager", "operator": "In", "values": ["true"]},
]
ZONES = {"name": "zones", "workloads": [{"name": "a"}], "run_on": {"zone": ["a", "b"]}}
APART = {"name": "apart", "workloads": [{"name": "a"}], "keep_apart": {"topology_key": "zone"}}


def _mutated(manifest: JSON) -> JSON:
    """Every write: its expressions out of each required term and in again, terms that are left
    without expressions dropped, and affinity always there."""
    manifest = copy.deepcopy(manifest)
    affinity = manifest["spec"]["template"]["spec"].setdefault("affinity", {})
    required = affinity.setdefault("nodeAffinity", {}).setdefault(REQUIRED, {})
    terms = []
    for term in required.get("nodeSelectorTerms") or []:
        kept = [e for e in term.get("matchExpressions") or [] if e not in OWN]
        if kept:
            terms.append({**term, "matchExpressions": [*kept, *copy.deepcopy(OWN)]})
    required["nodeSelectorTerms"] = terms or [{"matchExpressions": copy.deepcopy(OWN)}]
    return manifest


def _write(machine: Workload, *rules: JSON, **options: t.Any) -> tuple[Workload, int]:
    """The machine after the writes of a request, and how many there were."""
    writes = plan(snapshot(machine), *rules, **options).writes
    manifest = dict(machine.manifest)
    for write in writes:
        manifest = _mutated(applied(manifest, write))
    return workload(manifest), len(writes)


def _terms(machine: Workload) -> list[JSON]:
    path = Pointer(("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"))
    return t.cast("list[JSON]", path.read(machine.template))


def test_s5_both_keep_their_expressions_and_a_second_run_writes_nothing() -> None:
    machine = workload(_mutated(vm("a").manifest))
    there, writes = _write(machine, ZONES, APART)
    assert writes == 1
    (term,) = _terms(there)
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    assert all(expression in term["matchExpressions"] for expression in (zones, *OWN))
    again, writes = _write(there, ZONES, APART)
    assert writes == 0
    gone, writes = _write(again, prune=True)
    assert writes == 1
    assert gone.template["spec"] == machine.template["spec"]
