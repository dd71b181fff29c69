# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No forecast of a Deployment that rolls out or is scaled claims more than is so, whatever waits beside it.

What is compared with shares nothing with the engine: the controllers and the scheduler of this folder, in every
order.
"""

from __future__ import annotations

import os
import random
import typing as t

from hypothesis import HealthCheck, assume, event, example, given, note, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.quota import Quota
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    cluster,
    deployment,
    keep_apart,
    selector,
    spread,
)
from tests.unit.forecast.schedulers import NOW, STANDS, Controlled, TooMany
from tests.unit.forecast.test_written_rules import writes

JSON = t.Any
thorough = settings(
    max_examples=12 * int(os.environ.get("PLACEMENT_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.filter_too_much],
)
APPS = ("web", "db")
ROOMS = [(1, 0), (1, 0), (0, 1), (0, 1), (1, 1), (2, 0), (2, 1), None]
"""maxSurge and maxUnavailable; None: the strategy Recreate."""


def random_cluster(seed: int) -> tuple[Cluster, random.Random]:
    """Nodes with little room, perhaps a quota, and another pod that runs or waits, perhaps for a nominated node."""
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(1, 4))))
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = chance.choice(["1", "2", "2", "3", "16"])
        node["spec"]["unschedulable"] = chance.random() < 0.15
    if chance.random() < 0.4:
        app = chance.choice(APPS)
        where = chance.choice(["", "", *made.nodes])
        other = made.bare_pod("other", where, some_spec(chance, app), app=app)
        other["status"]["nominatedNodeName"] = "" if where else chance.choice(["", *made.nodes])
    if chance.random() < 0.25:
        made.more["quotas"] = (Quota("shop", "small", {"pods": chance.randint(1, 4)}, {}),)
    return made, chance


def some_deployment(made: Cluster, chance: random.Random, app: str, count: int) -> Ref:
    """With this many pods that run or terminate, and perhaps one that waits."""
    places = [chance.choice([*made.nodes]) for _pod in range(count)]
    ref = deployment(made, app, places, some_spec(chance, app))
    ended = [x for key, x in made.pods.items() if key[1].startswith(app) and chance.random() < 0.1]
    for pod in ended:
        pod["metadata"]["deletionTimestamp"] = NOW
    waits = chance.random() < 0.25
    if waits:
        made.start(ref, "", f"{app}-waits")
    made.workloads[ref]["spec"]["replicas"] = count + waits - len(ended)
    return ref


def some_spec(chance: random.Random, app: str) -> JSON:
    """Of a pod; perhaps in the network of its host, or placed by another scheduler."""
    container: JSON = {"name": "c", "resources": {"requests": {"cpu": chance.choice("1112")}}}
    spec = {"containers": [container], **some_rule(chance, app)}
    if chance.random() < 0.2:
        container["ports"] = [{"containerPort": 80}]
        spec["hostNetwork"] = True
    if chance.random() < 0.05:
        spec["schedulerName"] = "batch"
    return spec


def some_rule(chance: random.Random, app: str) -> JSON:
    key, other = chance.choice([HOST, ZONE]), chance.choice(APPS)
    own = {"labelSelector": selector(app=app), "topologyKey": key}
    revision = {**own, "matchLabelKeys": ["pod-template-hash"]}
    even = spread(key, chance.choice([1, 1, 2]), app=app)
    more = [{}, {"minDomains": 2}, {"matchLabelKeys": ["pod-template-hash"]}]
    even["topologySpreadConstraints"][0] |= chance.choice(more)
    near = affinity({**own, "labelSelector": selector(app=other)})
    away = {"affinity": keep_apart(over=key, plain=True, app=other)}
    mine = [anti_affinity(own), anti_affinity(revision), affinity(own), affinity(revision)]
    return chance.choice([{}, even, {**even, **mine[0]}, near, away, *mine])


def assert_not_contradicted(made: Cluster, game: Controlled, **change: t.Any) -> None:
    assume(game.goals and len(game.pods) <= 8)
    try:
        ends = game.ends()
    except TooMany:
        assume(False)
    changed = what_if(made.snapshot(), **change)
    found = forecast(changed, doubts=doubts_of_change(changed, change.get("scale", ())))
    note(f"{found} {ends}")
    event(f"{found.answer}")
    without = list(map(game.without, ends))
    sure = found.answer in (ForecastResult.GUARANTEED, ForecastResult.IMPOSSIBLE)
    assert not sure or not any("schedulerName" in game.pods[n]["spec"] for n in game.goals)
    if found.answer is ForecastResult.GUARANTEED:
        assert not any(without)
    elif found.answer is ForecastResult.IMPOSSIBLE:
        assert all(without)
    elif found.answer is ForecastResult.POSSIBLE:
        assert set() in without
    if "quotas" not in made.more:  # else those that it refuses have no node either
        without = [
            {n for n in x if end[n][1] == STANDS} for x, end in zip(without, ends, strict=True)
        ]
    assert found.min_unschedulable <= min(map(len, without))


@thorough
@example(seed=88578088)  # a pod that waits takes the room of an old one, or not
@example(
    seed=1000514
)  # a pod that waits may be placed beside an old one of Recreate, and new ones near it
@example(seed=1003928)  # with maxSurge 1 the second new pod comes once an old one has gone
@example(seed=2003864)  # with Recreate an old pod that is one too many ends before new ones, too
@given(seed=st.integers(0, 10**9))
def test_no_order_contradicts_a_forecast_of_a_rollout(seed: int) -> None:
    made, chance = random_cluster(seed)
    web = some_deployment(made, chance, "web", chance.randint(1, 3))
    some_deployment(made, chance, "db", chance.choice([0, 1]))
    change, room = some_rollout(made, chance, web)
    game = Controlled(made)
    game.roll(web, room, change)
    assert_not_contradicted(made, game, writes=writes({web: change}), members=[web])


@thorough
@example(seed=2000079)  # an old pod that is one too many ends before the new one, with maxSurge 0
@example(seed=4542608)  # an old pod that waits gets a node, and takes the room of a new one
@example(seed=1015)  # the old pod of one ends and leaves its CPU to the other
@example(seed=2148)  # the old pod of one ends and leaves its share of a quota to the other
@example(
    seed=4296012
)  # the new pod of one waits for a node, and keeps the share of a quota that the other needs
@example(seed=9114)  # no new pod of a rollout has a node, and it creates one of two
@example(seed=76410)  # a new pod is placed beside an old one that ends later
@given(seed=st.integers(0, 10**9))
def test_no_order_contradicts_a_forecast_of_two_rollouts_at_once(seed: int) -> None:
    made, chance = random_cluster(seed)
    refs = [some_deployment(made, chance, app, chance.choice([1, 1, 2])) for app in APPS]
    changes = {ref: some_rollout(made, chance, ref) for ref in refs}
    game = Controlled(made)
    for ref, (change, room) in changes.items():
        game.roll(ref, room, change)
    templates = {ref: change for ref, (change, _room) in changes.items()}
    assert_not_contradicted(made, game, writes=writes(templates), members=refs)


def some_rollout(made: Cluster, chance: random.Random, ref: Ref) -> tuple[JSON, t.Any]:
    """The fields of the template that change, and maxSurge and maxUnavailable of the workload, as ROOMS has them."""
    spec, change, room = (
        made.workloads[ref]["spec"],
        some_rule(chance, ref.name),
        chance.choice(ROOMS),
    )
    spec["strategy"] = {"type": "Recreate"}
    if room is not None:
        rolling = {"maxSurge": room[0], "maxUnavailable": room[1]}
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec["replicas"] -= chance.choice([0, 0, 0, 1])  # an earlier rollout may not have ended
    template = spec["template"]["spec"]
    assume(spec["replicas"] > 0 and template != {**template, **change})
    return change, room


@thorough
@given(seed=st.integers(0, 10**9))
def test_no_order_contradicts_a_forecast_of_scaled_workloads(seed: int) -> None:
    made, chance = random_cluster(seed)
    refs = [some_deployment(made, chance, app, chance.choice([0, 1, 1, 2])) for app in APPS]
    game, scales = Controlled(made), []
    for ref in chance.sample(refs, chance.choice([1, 2, 2])):
        replicas = made.workloads[ref]["spec"]["replicas"]
        scales.append(Scale(ref, chance.choice([0, 0, replicas + 1, replicas + 1, replicas + 2])))
        game.scale(ref, scales[-1].replicas)
    assert_not_contradicted(made, game, scale=scales)
