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

import pytest
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.manifest import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.decide import (
    Answer,
    Decision,
    Rules,
    decide,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.fill import Filling, Seeker
from ansible_collections.virt.placement.plugins.module_utils.scheduling.index import Index
from tests.unit.scheduling import worlds

from .schedulers import Game, TooMany, at_random, spiteful

thorough = settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "20")),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@st.composite
def games(draw: st.DrawFn, most: int = 3) -> Game:
    """Seekers of any kind, some of which come after a pod that is placed."""
    cluster = draw(worlds.clusters(most_pods=4))
    count = draw(st.integers(1, most))
    alike = draw(st.booleans())
    first = draw(worlds.pod("s0"))
    seekers = [first]
    for number in range(1, count):
        other = first if alike else draw(worlds.pod(f"s{number}"))
        metadata = {**other["metadata"], "name": f"s{number}"}
        seekers.append({**other, "metadata": metadata})
    names = [pod["metadata"]["name"] for pod in cluster.pods]
    leaving = draw(st.lists(st.sampled_from(names), unique=True, max_size=count)) if names else []
    return Game(cluster, seekers, dict(enumerate(leaving)))


@st.composite
def groups(draw: st.DrawFn) -> Game:
    """A dozen alike in a larger cluster, with one rule or two: more than brute force can look at."""
    zones = draw(st.integers(2, 4))
    nodes = []
    for number in range(draw(st.integers(3, 8))):
        node = draw(worlds.node(f"n{number}"))
        node["metadata"]["labels"].update(
            {worlds.ZONE: "abcd"[number % zones], worlds.HOST: f"n{number}"}
        )
        node["spec"] = {}
        nodes.append(node)
    key = draw(st.sampled_from([worlds.ZONE, worlds.HOST]))
    selector = {"matchLabels": {"app": "web"}}
    spec: dict[str, t.Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    }
    if draw(st.booleans()):
        term = {"labelSelector": selector, "topologyKey": key}
        spec["affinity"] = {"podAntiAffinity": {worlds.REQUIRED: [term]}}
    if draw(st.booleans()):
        constraint = {
            "topologyKey": draw(st.sampled_from([worlds.ZONE, worlds.HOST])),
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
        st.lists(worlds.pod("p0", [node["metadata"]["name"] for node in nodes]), max_size=1)
    )
    return Game(worlds.Cluster(nodes, placed, []), seekers)


def decision_of(game: Game, rules: Rules) -> Decision:
    index = Index.build(
        map(node_from_manifest, game.cluster.nodes),
        map(pod_from_manifest, game.cluster.pods),
        map(namespace_from_manifest, game.cluster.namespaces),
    )
    by_name = {pod.name: f"{pod.namespace}/{pod.name}" for pod in index.pods}
    seekers = [
        Seeker(pod_from_manifest(pod), by_name.get(game.sources.get(number, "")))
        for number, pod in enumerate(game.seekers)
    ]
    before = {each.name: index.node_of(by_name[each.name]) for each in index.pods}
    decision = decide(Filling(index, seekers), rules)
    note(f"{decision}")
    event(f"{decision.answer}")
    after = {each.name: index.node_of(by_name[each.name]) for each in index.pods}
    assert after == before, "the index is given back as it was"
    return decision


@pytest.mark.parametrize("limit", [2000, 1], ids=["every course tried", "arguments only"])
@thorough
@given(game=games())
def test_brute_force_contradicts_no_answer(limit: int, game: Game) -> None:
    decision = decision_of(game, Rules(limit=limit))
    try:
        best, worst = game.extremes()
    except TooMany:
        assume(False)
    count = len(game.seekers)
    if decision.answer is Answer.GUARANTEED:
        assert worst == count
    elif decision.answer is Answer.IMPOSSIBLE:
        assert best <= count - decision.least < count
    elif decision.answer is Answer.POSSIBLE:
        assert best == count
        assert worst < count or not decision.exact
    else:
        assert limit == 1


@thorough
@given(game=groups(), seed=st.integers(0, 1000))
def test_a_guarantee_survives_chance_and_spite(game: Game, seed: int) -> None:
    decision = decision_of(game, Rules(limit=1))
    count = len(game.seekers)
    ends = {game.play(at_random(random.Random(seed))), game.play(spiteful)}
    if decision.answer is Answer.GUARANTEED:
        assert ends == {count}
    elif decision.answer is Answer.IMPOSSIBLE:
        assert max(ends) <= count - decision.least


@thorough
@given(game=games(most=4))
def test_a_course_that_is_named_can_be_played(game: Game) -> None:
    decision = decision_of(game, Rules(limit=200))
    game.placed = {}
    for number, node in decision.best:
        assert (number, node) in game.moves()
        game.placed[number] = node
    if decision.answer is Answer.POSSIBLE:
        assert len(game.placed) == len(game.seekers)
