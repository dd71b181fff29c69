# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves, against what an exhaustive search with the real scheduler's filters found."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import Drift
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.repair import RepairPlanner
from ansible_collections.virt.placement.plugins.module_utils.planning.search import shortest_repair
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from tests.unit.planning.movable import StrictSimulation, movable

CASES = Path(__file__).parents[2] / "conformance" / "cases" / "sample-plan-moves.json"
METHODS = {"restart": Method.RESTART, "liveMigrate": Method.MIGRATE}


def _cases() -> list[dict[str, t.Any]]:
    return json.loads(CASES.read_text())["cases"] if CASES.exists() else []


def _world(
    case: dict[str, t.Any], method: Method
) -> tuple[ClusterSimulation, dict[str, DeclaredInstance]]:
    pods = [_named(pod_from_manifest(item)) for item in case["pods"]]
    found = {}
    for item, pod in zip(case["newPods"], pods, strict=False):
        new = pod_from_manifest(item)
        wanted = replace(new, uid=pod.uid, name=pod.name, node_name=pod.node_name)
        found[pod.uid] = movable(
            Instance(Ref("VirtualMachineInstance", pod.namespace, pod.name), pod.uid, None, pod),
            pod,
            declared_pod=wanted,
            migration_target=replace(new, uid="", name=f"{pod.name}-next"),
            move_options=lambda apply_pending_changes: MoveOptions((method,)),
            can_migrate=method is Method.MIGRATE,
            drift=Drift(),
        )
    snapshot = Snapshot(
        nodes=tuple(map(node_from_manifest, case["nodes"])),
        pods=tuple(pods),
        namespaces=tuple(map(namespace_from_manifest, case["namespaces"])),
    )
    return StrictSimulation(snapshot, list(found.values())), found


def _named(pod: Pod) -> Pod:
    return replace(pod, uid=f"uid-{pod.name}")


@pytest.mark.parametrize("mode", METHODS)
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_shortest_sequence_is_as_long_as_that_of_an_exhaustive_search(
    case: dict[str, t.Any], mode: str
) -> None:
    world, found = _world(case, METHODS[mode])

    result = shortest_repair(
        world, list(found), dict.fromkeys(found, (METHODS[mode],)), once=False, limit=50_000
    )

    assert result.exhausted
    assert (-1 if result.moves is None else len(result.moves)) == case["expect"][mode]["minMoves"]


@pytest.mark.parametrize("mode", METHODS)
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_healing_needs_no_more_moves_than_the_shortest_sequence(
    case: dict[str, t.Any], mode: str
) -> None:
    """Healing makes no stop-overs: where one is needed it heals less, and breaks nothing more."""
    world, found = _world(case, METHODS[mode])
    broken = {uid for uid in found if world.violations(uid)}
    healer = RepairPlanner(world, lambda _uid: (METHODS[mode],), lambda _uid: ())
    fewest = case["expect"][mode]["minMoves"]
    once = shortest_repair(
        world, list(found), dict.fromkeys(found, (METHODS[mode],)), once=True, limit=50_000
    )

    moves = healer.repair(found)

    healed = {uid for uid in found if world.violations(uid)}
    if once.moves is not None:
        assert not healed
        assert len(moves) == fewest
    else:
        assert healed <= broken


def test_search_that_ends_at_its_limit_proves_nothing() -> None:
    case = next(case for case in _cases() if case["expect"]["liveMigrate"]["minMoves"] > 0)
    world, found = _world(case, Method.MIGRATE)
    methods = dict.fromkeys(found, (Method.MIGRATE,))

    result = shortest_repair(world, list(found), methods, limit=1)

    assert (result.moves, result.exhausted) == (None, False)
