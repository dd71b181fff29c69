# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""New cases of the kinds about what could come, made from those that are kept here.

Rules, labels, sizes and places are exchanged between the pods of all cases, and node labels get
lost or another value; what is then to be expected comes from trying everything.
"""

from __future__ import annotations

import copy
import functools
import json
import random
import typing as t
from pathlib import Path

from . import search
from .world import build_index

JSON = t.Any
CASES = Path(__file__).parent / "cases"
KINDS = ("preflight-replicas", "preflight-list", "drill-failures", "plan-moves")
MOST = 60_000
"""Arrangements that are tried at most; a larger case is left out."""
_FIELDS = ("affinity", "topologySpreadConstraints", "nodeSelector", "tolerations", "containers")


@functools.cache
def kept(kind: str) -> tuple[JSON, ...]:
    return tuple(json.loads((CASES / f"sample-{kind}.json").read_text())["cases"])


@functools.cache
def _pods() -> tuple[JSON, ...]:
    cases = [case for kind in KINDS for case in kept(kind)]
    return tuple(pod for case in cases for pod in _pods_of(case))


def _pods_of(case: JSON) -> list[JSON]:
    return [*case["pods"], *case.get("newPods", ()), *([case["pod"]] if "pod" in case else ())]


def mutated(seed: int) -> JSON | None:
    """A case by its seed, without `expect`; None where it is too large to try everything."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    case = copy.deepcopy(chance.choice(kept(kind)))
    case["nodes"] = [_node(chance, node, case["nodes"]) for node in case["nodes"]]
    case["pods"] = [_placed(chance, pod) if chance.random() < 0.4 else pod for pod in case["pods"]]
    if "replicas" in case:
        case["replicas"] = chance.randint(2, 6)
        case["pod"] = _unplaced(chance, case["pod"])
    elif kind == "plan-moves":
        case["newPods"] = [_pod(chance, pod) for pod in case["newPods"]]
        _scatter(chance, case)
    else:
        case["newPods"] = [_unplaced(chance, pod) for pod in case["newPods"]]
    count = case.get("replicas") or len(case["newPods"])
    return case if len(case["nodes"]) ** count <= MOST else None


def expected(case: JSON) -> JSON:
    """What trying everything finds."""
    if "liveMigrate" not in case["expect"]:
        pods = search.pods_to_place(case)
        best, worst = search.extremes(build_index(case), pods, stop_early="replicas" in case)
        return {"maxPlaced": best, "minPlaced": worst}
    problem = search.MoveProblem(case)
    goals = problem.satisfying()
    moves = {
        name: {"minMoves": problem.fewest_moves(set(goals), source_stays=stays)}
        for name, stays in (("restart", False), ("liveMigrate", True))
    }
    return {"satisfiableAssignments": len(goals), "complyNow": problem.complying(), **moves}


def _pod(chance: random.Random, pod: JSON) -> JSON:
    made = copy.deepcopy(pod)
    for field in _FIELDS:
        other = chance.choice(_pods())["spec"]
        if chance.random() < 0.25 and (field in other or field != "containers"):
            made["spec"].pop(field, None)
            made["spec"].update({field: copy.deepcopy(other[field])} if field in other else {})
    if chance.random() < 0.2:
        made["metadata"]["labels"] = copy.deepcopy(chance.choice(_pods())["metadata"]["labels"])
    return made


def _placed(chance: random.Random, pod: JSON) -> JSON:
    made = _pod(chance, pod)
    made["spec"]["nodeName"] = pod["spec"].get("nodeName", "")
    return made


def _unplaced(chance: random.Random, pod: JSON) -> JSON:
    made = _pod(chance, pod)
    made["spec"].pop("nodeName", None)
    return made


def _scatter(chance: random.Random, case: JSON) -> None:
    names = [node["metadata"]["name"] for node in case["nodes"]]
    for pod in case["pods"]:
        if chance.random() < 0.3:
            pod["spec"]["nodeName"] = chance.choice(names)


def _node(chance: random.Random, node: JSON, others: list[JSON]) -> JSON:
    made = copy.deepcopy(node)
    labels = made["metadata"]["labels"]
    for key in list(labels):
        if chance.random() < 0.15:
            values = [each["metadata"]["labels"].get(key) for each in others]
            value = chance.choice([None, *values])
            labels.pop(key)
            labels.update({} if value is None else {key: value})
    return made
