# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts answer the cases about what could come, and may not claim what the cases deny.

guaranteed: every course places all. impossible: none does. possible: some does, and where every
course was looked at, some does not. For moves: as few as an exhaustive search finds, none where it
finds none, and a proof only where no assignment obeys the rules.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import Drift
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.bounds import (
    reachable_nodes,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.decide import (
    SearchOptions,
    evaluate,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.infeasibility import examine
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.search import shortest_repair
from tests.unit.planning.movable import StrictSimulation, movable

from .search import PLANNERS, pods_to_place
from .world import Case, build_index, incoming

METHODS = {"restart": Method.RESTART, "liveMigrate": Method.MIGRATE}
STATES = 20_000


def any_order(case: Case) -> dict[str, t.Any] | None:
    """What the forecast claims of a case whose pods come in list order: what is guaranteed in any order
    is so in this one too, and a proof that it is impossible holds for every order."""
    if "liveMigrate" in case["expect"]:
        return None
    pods = pods_to_place(case)
    filling = PlacementSimulation(build_index(case), [PendingPod(pod) for pod in pods])
    decision = evaluate(filling, SearchOptions(limit=STATES))
    most = case["expect"]["maxPlaced"]
    if decision.answer is ForecastResult.IMPOSSIBLE:
        bound = len(pods) - decision.least
        return {"maxPlaced": most if most <= bound < len(pods) else f"at most {bound}"}
    if decision.answer is ForecastResult.GUARANTEED and not any(
        pod.placement.affinity for pod in pods
    ):
        return {"maxPlaced": len(pods), "minPlaced": len(pods)}
    return {}


def moves(case: Case) -> dict[str, t.Any] | None:
    """The fewest moves by each method, and whether there is a proof that nothing helps."""
    expected = case["expect"]
    if "liveMigrate" not in expected:
        return None
    answer: dict[str, t.Any] = {}
    for name, method in METHODS.items():
        snapshot, found = _candidates(case, method)
        world = StrictSimulation(snapshot, list(found.values()))
        methods = dict.fromkeys(found, (method,))
        result = shortest_repair(world, list(found), methods, once=False, limit=50_000)
        count = -1 if result.moves is None else len(result.moves)
        answer[name] = {**expected[name], "minMoves": count if result.exhausted else "unknown"}
    if _is_disproved(case):
        answer["satisfiableAssignments"] = 0
    return answer


def _is_disproved(case: Case) -> bool:
    """Whether a proof speaks against any arrangement of the pods that carry new rules."""
    new = [incoming(manifest, case) for manifest in case["newPods"]]
    index = build_index(case)
    for manifest in case["pods"][: len(new)]:
        old = pod_from_manifest(manifest)
        index.remove(old.uid or f"{old.namespace}/{old.name}")
    filling = PlacementSimulation(index, [PendingPod(pod) for pod in new])
    return bool(examine(filling, reachable_nodes(filling)).proofs)


def _candidates(case: Case, method: Method) -> tuple[Snapshot, dict[str, DeclaredInstance]]:
    pods = [_named(pod_from_manifest(item)) for item in case["pods"]]
    found = {}
    for item, pod in zip(case["newPods"], pods, strict=False):
        new = pod_from_manifest(item)
        found[pod.uid] = movable(
            Instance(Ref("VirtualMachineInstance", pod.namespace, pod.name), pod.uid, None, pod),
            pod,
            declared_pod=dataclasses.replace(
                new, uid=pod.uid, name=pod.name, node_name=pod.node_name
            ),
            migration_target=dataclasses.replace(new, uid="", name=f"{pod.name}-next"),
            move_options=lambda apply_pending_changes=False: MoveOptions((method,)),
            can_migrate=method is Method.MIGRATE,
            drift=Drift(),
        )
    snapshot = Snapshot(
        nodes=tuple(map(node_from_manifest, case["nodes"])),
        pods=tuple(pods),
        namespaces=tuple(map(namespace_from_manifest, case.get("namespaces", ()))),
    )
    return snapshot, found


def _named(pod: Pod) -> Pod:
    return dataclasses.replace(pod, uid=f"uid-{pod.name}")


def register() -> None:
    """Have every case about what could come ask us, too."""
    PLANNERS[:] = [any_order, moves]
