# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves of a forecast, made one by one in their order, each on a cluster that is read anew."""

from __future__ import annotations

import itertools
import os
import random
import typing as t
from dataclasses import replace

from hypothesis import event as classify
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.violations import RISKS
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import (
    NODE_EVENTS,
    NodeEvent,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import (
    matches_node,
)
from tests.support.cluster import HOST, ZONE, Cluster, keep_apart, node_affinity
from tests.unit.planning.random_clusters import APPS, random_cluster
from tests.unit.planning.scenes import template_write

thorough = settings(max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "60")))
HELPED = (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE)


def indexed(snapshot: Snapshot, pods: t.Iterable[Pod]) -> Index:
    return Index(snapshot.nodes, pods, snapshot.namespaces)


@thorough
@given(seed=st.integers(0, 10**9))
def test_rules_that_are_written_end_obeyed(seed: int) -> None:
    chance = random.Random(seed)
    made = random_cluster(seed, rooms=("2", "3", "16"))
    before = made.snapshot()
    change = what_if(before, writes=_writes(made, chance))
    after, found = change.after, forecast(change)
    changed = [x for x in after.workloads if x not in before.workloads]
    every = {x.uid: x for x in movable_instances(after, InstanceSelection(frozenset({"shop"})))}
    pods = {pod.uid: pod for pod in after.pods if pod.node_name}

    for move in found.moves:
        each, node = every[move.uid], move.targets[0]
        leaves = None if move.method is Method.MIGRATE else each.pod.uid
        open_to = indexed(after, pods.values()).feasible_nodes(
            each.next_pod(move.method), without=leaves
        )
        assert set(move.targets) <= set(open_to)
        assert pods[each.pod.uid].node_name == move.source
        pods[each.pod.uid] = replace(each.declared_pod, node_name=node)

    classify(f"{found.answer}, {len(found.moves)} moves")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    refs = {x.ref for x in changed}
    touched = [x for x in every.values() if x.instance.workload in refs and x.node]
    if found.answer in HELPED and not found.skipped:
        assert_obeyed(after, pods, touched)


def _writes(made: Cluster, chance: random.Random) -> t.Any:
    app = chance.choice(APPS)
    affinity = chance.choice(
        [
            keep_apart(app=app),
            keep_apart(over=HOST, app=app),
            keep_apart(over=ZONE, plain=True, app=chance.choice(APPS)),
            node_affinity({"matchExpressions": [{"key": "performance", "operator": "Exists"}]})[
                "affinity"
            ],
        ]
    )
    refs = [x for x in made.workloads if x.kind == "VirtualMachine"]
    group = [x for x in refs if made.template(x)["metadata"]["labels"] == {"app": app}]
    return [template_write(ref, "affinity", affinity) for ref in group]


def assert_obeyed(
    snapshot: Snapshot, pods: t.Mapping[str, Pod], touched: t.Iterable[DeclaredInstance]
) -> None:
    """Every rule of those that were changed holds where they are now, whoever has not moved."""
    leaving = {pod.uid for pod in snapshot.pods if pod.terminating}
    wanted = {x.pod.uid: x.declared_pod for x in touched}
    final = [
        replace(wanted[uid], node_name=pod.node_name) if uid in wanted else pod
        for uid, pod in pods.items()
        if uid not in leaving
    ]
    index = indexed(snapshot, final)
    nodes = {node.name: node for node in snapshot.nodes}
    for each in touched:
        if each.pod.uid in leaving:
            continue
        kinds = {x.kind for f in index.failures_in_place(each.pod.uid) for x in f.reasons}
        asked = each.declared.placement if each.declared else each.pod.placement
        if matches_node(asked, nodes[pods[each.pod.uid].node_name]):
            kinds -= {"node-affinity"}
        assert not kinds - RISKS.keys(), each.instance.ref


@thorough
@given(seed=st.integers(0, 10**9), event=st.sampled_from(NODE_EVENTS))
def test_moves_off_a_lost_node_can_be_made(seed: int, event: NodeEvent) -> None:
    """Each node that is named is open in its turn: once all that ends has gone, or, for all of the
    moves alike, as long as some of it stands."""
    made = random_cluster(seed, rooms=("2", "3", "16"))
    before = made.snapshot()
    lost = random.Random(seed).choice(sorted(made.nodes))
    change = what_if(before, lost_nodes=[lost], event=event)
    after, found = change.after, forecast(change)

    assert all(move.source == lost for move in found.moves)
    assert any(_playable(after, found.moves, one_by_one=x) for x in (False, True))

    classify(f"{found.answer}, {len(found.moves)} moves")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    if found.answer in HELPED and not found.skipped:
        waiting = {pod.name for pod in before.pods if not pod.node_name}
        seekers = [x for x in after.pods if not x.node_name and x.name not in waiting]
        assert len(found.moves) == len(seekers)


def _playable(after: Snapshot, moves: t.Sequence[Move], *, one_by_one: bool) -> bool:
    """Whether the targets of each move are open in its turn. `one_by_one`: with some of those still
    there that have not ended yet; where a machine has moved its source may be there, too."""
    pods = {pod.uid or pod.name: pod for pod in after.pods if pod.node_name}
    standing = list(after.terminating_pods) if one_by_one else []
    for move in moves:
        (seeker,) = [pod for pod in after.pods if not pod.node_name and _is_of(pod, move)]
        standing = [pod for pod in standing if not _is_of(pod, move)]
        if not any(
            set(move.targets)
            <= set(indexed(after, [*pods.values(), *there]).feasible_nodes(seeker))
            for count in range(len(standing) + 1)
            for there in itertools.combinations(standing, count)
        ):
            return False
        if move.method is Method.MIGRATE:
            source = next(x for x in after.pods if x.node_name == move.source and _is_of(x, move))
            del pods[source.uid]
            standing += [source] if one_by_one else []
        uid = f"moved {move.uid}"
        pods[uid] = replace(seeker, uid=uid, node_name=move.targets[0])
    return True


def _is_of(pod: Pod, move: t.Any) -> bool:
    """Whether a pod is the moved instance or comes after it."""
    name: str = move.instance.name
    if move.instance.kind == "Pod":
        return pod.name.removesuffix("-next") == name
    return pod.owner is not None and pod.owner.name == name and not pod.terminating
