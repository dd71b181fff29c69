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

from ansible_collections.virt.placement.plugins.module_utils.model.manifest import (
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
from ansible_collections.virt.placement.plugins.module_utils.planning.candidates import Candidate
from ansible_collections.virt.placement.plugins.module_utils.planning.decide import (
    Answer,
    Rules,
    decide,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.effects import Effect
from ansible_collections.virt.placement.plugins.module_utils.planning.fill import Filling, Seeker
from ansible_collections.virt.placement.plugins.module_utils.planning.proof import examine
from ansible_collections.virt.placement.plugins.module_utils.planning.reach import reach
from ansible_collections.virt.placement.plugins.module_utils.planning.search import fewest_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.world import World

from .search import PLANNERS, pods_to_place
from .world import Case, build_index, incoming

METHODS = {"restart": Method.RESTART, "liveMigrate": Method.MIGRATE}
STATES = 20_000


def fill(case: Case) -> dict[str, t.Any] | None:
    """What the forecast claims of a case whose pods come in list order."""
    if "liveMigrate" in case["expect"]:
        return None
    pods = pods_to_place(case)
    filling = Filling(build_index(case), [Seeker(pod) for pod in pods])
    decision = decide(filling, Rules(ordered=True, limit=STATES))
    most, fewest = case["expect"]["maxPlaced"], case["expect"]["minPlaced"]
    count = len(pods)
    if decision.answer is Answer.GUARANTEED:
        return {"maxPlaced": count, "minPlaced": count}
    if decision.answer is Answer.IMPOSSIBLE:
        bound = count - decision.least
        return {"maxPlaced": most if most <= bound < count else f"at most {bound}"}
    if decision.answer is Answer.UNKNOWN:
        return {"maxPlaced": "unknown, though every course of so few pods can be tried"}
    worse = fewest < count or not decision.exact
    return {"maxPlaced": count, "minPlaced": fewest if worse else f"fewer than {count}"}


def any_order(case: Case) -> dict[str, t.Any] | None:
    """The same in any order: what is guaranteed then is so in list order too, and a proof that it
    is impossible holds for every order."""
    if "liveMigrate" in case["expect"]:
        return None
    pods = pods_to_place(case)
    filling = Filling(build_index(case), [Seeker(pod) for pod in pods])
    decision = decide(filling, Rules(limit=STATES))
    most = case["expect"]["maxPlaced"]
    if decision.answer is Answer.IMPOSSIBLE:
        bound = len(pods) - decision.least
        return {"maxPlaced": most if most <= bound < len(pods) else f"at most {bound}"}
    if decision.answer is Answer.GUARANTEED and not any(pod.placement.affinity for pod in pods):
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
        world = World.of(snapshot, list(found.values()), strict=True)
        methods = dict.fromkeys(found, (method,))
        result = fewest_moves(world, list(found), methods, once=False, limit=50_000)
        count = -1 if result.moves is None else len(result.moves)
        answer[name] = {**expected[name], "minMoves": count if result.exhausted else "unknown"}
    if _is_disproved(case):
        answer["satisfiableAssignments"] = 0
    return answer


def _is_disproved(case: Case) -> bool:
    """Whether a proof speaks against any arrangement of the pods that carry new rules."""
    new = [incoming(manifest) for manifest in case["newPods"]]
    index = build_index(case)
    for manifest in case["pods"][: len(new)]:
        old = pod_from_manifest(manifest)
        index.take_out(old.uid or f"{old.namespace}/{old.name}")
    filling = Filling(index, [Seeker(pod) for pod in new])
    return bool(examine(filling, reach(filling)).proofs)


def _candidates(case: Case, method: Method) -> tuple[Snapshot, dict[str, Candidate]]:
    pods = [_named(pod_from_manifest(item)) for item in case["pods"]]
    found = {}
    for item, pod in zip(case["newPods"], pods, strict=False):
        new = pod_from_manifest(item)
        found[pod.uid] = Candidate(
            Instance(Ref("VirtualMachineInstance", pod.namespace, pod.name), pod.uid, None, pod),
            None,
            pod,
            dataclasses.replace(new, uid=pod.uid, name=pod.name, node_name=pod.node_name),
            dataclasses.replace(new, uid="", name=f"{pod.name}-next"),
            Effect((method,)),
            outdated=True,
            asked=new.placement,
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
    PLANNERS[:] = [fill, any_order, moves]
