# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No forecast claims more than is so: against brute force, and against hostile schedulers.

What is compared with shares nothing with the engine: the plain reference of the filters, played
out by the schedulers of this folder.
"""

from __future__ import annotations

import os
import random
import typing as t
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    Doubt,
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.decide import (
    Decision,
    SearchOptions,
    evaluate,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSequence,
    PlacementSimulation,
    Reason,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import pod_key
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from tests.unit.forecast.schedulers import (
    GONE,
    STANDS,
    TERMINATES,
    Game,
    TooMany,
    at_random,
    spiteful,
)
from tests.unit.scheduler import random_clusters

thorough = settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "20")),
    suppress_health_check=[
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@st.composite
def games(draw: st.DrawFn, most: int = 3) -> Game:
    """Seekers of any kind, some of which come after a pod that is placed: it goes once they have a
    place, or they look for one once it goes."""
    cluster = draw(random_clusters.clusters(max_pods=4))
    count = draw(st.integers(1, most))
    alike = draw(st.booleans())
    first = draw(random_clusters.pod("s0"))
    seekers = [first]
    for number in range(1, count):
        other = first if alike else draw(random_clusters.pod(f"s{number}"))
        metadata = {**other["metadata"], "name": f"s{number}"}
        seekers.append({**other, "metadata": metadata})
    names = [pod["metadata"]["name"] for pod in cluster.pods]
    leaving = draw(st.lists(st.sampled_from(names), unique=True, max_size=count)) if names else []
    sources: dict[int, str] = {}
    ending: dict[str, int | None] = {}
    for number, name in enumerate(leaving):
        if draw(st.booleans()):
            sources[number] = name
        else:
            ending[name] = draw(st.sampled_from([number, number, None]))
    late = draw(st.sets(st.integers(0, most)))
    dead = ending if draw(st.booleans()) else ()
    first = draw(st.sets(st.sampled_from(sorted(sources)))) if sources else ()
    return Game(cluster, seekers, sources, ending, late=late, dead=dead, first=first)


@st.composite
def groups(draw: st.DrawFn) -> Game:
    """A dozen alike in a larger cluster, with one rule or two: more than brute force can look at."""
    zones = draw(st.integers(2, 4))
    nodes = []
    for number in range(draw(st.integers(3, 8))):
        node = draw(random_clusters.node(f"n{number}"))
        node["metadata"]["labels"].update(
            {random_clusters.ZONE: "abcd"[number % zones], random_clusters.HOST: f"n{number}"}
        )
        node["spec"] = {}
        nodes.append(node)
    key = draw(st.sampled_from([random_clusters.ZONE, random_clusters.HOST]))
    selector = {"matchLabels": {"app": "web"}}
    spec: dict[str, t.Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    }
    if draw(st.booleans()):
        term = {"labelSelector": selector, "topologyKey": key}
        spec["affinity"] = {"podAntiAffinity": {random_clusters.REQUIRED: [term]}}
    if draw(st.booleans()):
        constraint = {
            "topologyKey": draw(st.sampled_from([random_clusters.ZONE, random_clusters.HOST])),
            "maxSkew": draw(st.integers(1, 2)),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        spec["topologySpreadConstraints"] = [constraint]
    metadata = {"namespace": "blue", "labels": {"app": "web"}}
    seekers = [
        {"metadata": {**metadata, "name": f"s{number}"}, "spec": spec}
        for number in range(draw(st.integers(2, 9)))
    ]
    placed = draw(
        st.lists(
            random_clusters.pod("p0", [node["metadata"]["name"] for node in nodes]), max_size=1
        )
    )
    return Game(random_clusters.Cluster(nodes, placed, []), seekers)


def decision_of(game: Game, rules: SearchOptions) -> Decision:
    index = index_of(game)
    before = {pod_key(each): (each, index.node_of(pod_key(each))) for each in index.pods}
    doubts = (Doubt("affinity_to_ended", ""),) if game.first else ()
    decision = evaluate(filling_of(game, index), replace(rules, doubts=doubts))
    note(f"{decision}")
    event(f"{decision.answer}")
    after = {pod_key(each): (each, index.node_of(pod_key(each))) for each in index.pods}
    assert after == before, "the index is given back as it was"
    return decision


def index_of(game: Game) -> Index:
    """The cluster once all that ends has gone."""
    game.begin()
    game.all_go()
    return Index(
        map(node_from_manifest, game.cluster.nodes),
        map(pod_from_manifest, game.world().pods),
        map(namespace_from_manifest, game.cluster.namespaces),
    )


def filling_of(game: Game, index: Index) -> PlacementSimulation:
    """The seekers of a game. What ends is in the index as it is in the end."""
    placed = {pod["metadata"]["name"]: pod_from_manifest(pod) for pod in game.cluster.pods}
    ended = {name: placed[name] for name in game.ending}
    for name, number in game.ending.items():
        if number in game.late:
            ended[name] = replace(placed[name], owner=Owner("StatefulSet", "late", "u-late"))
    follows = {number: ended[name] for name, number in game.ending.items() if number is not None}
    pending = []
    for number, manifest in enumerate(game.seekers):
        pod = pod_from_manifest(manifest)
        if number in game.sources:
            reason: Reason = "replace" if number in game.first else "surge"
            pending.append(PendingPod(pod, placed[game.sources[number]], reason))
        else:
            pending.append(PendingPod(pod, follows.get(number), "recreate"))
    return PlacementSimulation(index, pending, ended=ended.values())


@pytest.mark.parametrize("limit", [20_000, 1], ids=["every course tried", "arguments only"])
@thorough
@given(game=games())
def test_brute_force_contradicts_no_answer(limit: int, game: Game) -> None:
    decision = decision_of(game, SearchOptions(limit=limit))
    try:
        best, worst = game.extremes()
    except TooMany:
        assume(False)
    count = len(game.seekers)
    if decision.answer is ForecastResult.GUARANTEED:
        assert worst == count
    elif decision.answer is ForecastResult.IMPOSSIBLE:
        assert best <= count - decision.least < count
    elif decision.answer is ForecastResult.POSSIBLE:
        assert best == count
        assert worst < count or not decision.exact or game.first  # more may happen than it shows
    else:
        assert limit == 1


@thorough
@given(game=groups(), seed=st.integers(0, 1000))
def test_a_guarantee_survives_chance_and_spite(game: Game, seed: int) -> None:
    decision = decision_of(game, SearchOptions(limit=1))
    count = len(game.seekers)
    ends = {game.play(at_random(random.Random(seed))), game.play(spiteful)}
    if decision.answer is ForecastResult.GUARANTEED:
        assert ends == {count}
    elif decision.answer is ForecastResult.IMPOSSIBLE:
        assert max(ends) <= count - decision.least


@thorough
@given(game=games(most=4))
def test_a_course_that_is_named_can_be_played(game: Game) -> None:
    decision = decision_of(game, SearchOptions(limit=200))
    play_course(game, decision.best)
    if decision.answer is ForecastResult.POSSIBLE:
        assert len(game.placed) == len(game.seekers)
        if decision.worst is not None:
            play_course(game, decision.worst)
            assert len(game.placed) < len(game.seekers)


def play_course(game: Game, run: PlacementSequence) -> None:
    """Make each step of a run. Whoever is not said to go step by step goes at once."""
    game.begin()
    leavers = filling_of(game, index_of(game)).terminating
    game.begin()
    names = [each.key.partition("/")[2] for each in leavers]
    one_by_one = any(not node for _number, node in run)
    stepwise = names if one_by_one else []
    for name in game.ending:
        if name not in stepwise:
            game.stage[name] = game.last[name]
    for name, leaver in zip(stepwise, leavers, strict=False):
        game.stage[name] = stage_of(leaver.phases[0])
    for number, node in run:
        if node:
            if number in game.first:
                game.stage[game.sources[number]] = GONE
            assert (number, node) in game.placements()
            game.make((number, node))
            if number in game.sources and game.sources[number] not in stepwise:
                game.stage[game.sources[number]] = GONE
        else:
            m = number - len(game.seekers)
            assert (-1, names[m]) in game.moves()
            stages = [stage_of(form) for form in leavers[m].phases]
            game.stage[names[m]] = stages[stages.index(game.stage[names[m]]) + 1]


def stage_of(form: Pod | None) -> int:
    if form is None:
        return GONE
    return TERMINATES if form.terminating else STANDS
