# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No forecast and no drill of lost nodes claims more than is so, in whatever order pods end.

What is compared with shares nothing with the engine: the plain reference of the filters, every
order and every choice tried by the schedulers of this folder. It makes the pods that come after
those that end by itself.
"""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import event as classify
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import (
    NODE_EVENTS,
    NodeEvent,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Migration
from tests.support.cluster import (
    CREATED_BY,
    HOST,
    REQUIRED,
    ZONE,
    Cluster,
    affinity,
    cluster,
    deployment,
    keep_apart,
    machine,
    selector,
    spread,
)
from tests.unit.forecast.schedulers import Game, TooMany, at_random, spiteful
from tests.unit.planning.scenes import lost
from tests.unit.scheduler import random_clusters

JSON = t.Any
thorough = settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.filter_too_much],
)
LOST = "n1"
MACHINE = "vm.kubevirt.io/name"
NOW = "2026-05-01T08:00:00Z"
DISPLACED = 3
"""At most so many have to find a place: every order and every choice is tried."""
STATES = 1500


def random_drain(seed: int) -> tuple[Cluster, list[str]]:
    """A few nodes with little room, one or two groups under one rule each, and lost nodes."""
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(2, 4))))
    nodes = list(made.nodes)
    for node in nodes:
        made.nodes[node]["status"]["allocatable"]["cpu"] = chance.choice(["1", "2", "3", "16"])
    migrates = chance.random() < 0.5
    for app in ("web", "db")[: chance.randint(1, 2)]:
        spec = some_spec(chance, app)
        if chance.random() < 0.1:
            spec = {**spec, "tolerations": [{"operator": "Exists"}]}
        places = [chance.choice([*nodes, LOST]) for _pod in range(chance.randint(1, 4))]
        if chance.random() < 0.5:
            deployment(made, app, places, spec)
            if chance.random() < 0.3:
                _of_stateful_set(made, app)
            continue
        for number, node in enumerate(places):
            strategy = "LiveMigrate" if migrates else "None"
            labels = {"app": app}
            machine(made, f"{app}{number}", node, {**spec, "evictionStrategy": strategy}, **labels)
    if chance.random() < 0.3:
        made.bare_pod("alone", chance.choice([*nodes, LOST]), app="web")
    if chance.random() < 0.3:
        _terminate(made, chance.choice(list(made.pods.values())))
    if chance.random() < 0.2:
        made.bare_pod("waits", "", some_spec(chance, "web"), app="web")
    running = [
        x["metadata"] for x in made.pods.values() if "deletionTimestamp" not in x["metadata"]
    ]
    machines = [x["labels"][MACHINE] for x in running if MACHINE in x["labels"]]
    if machines and chance.random() < 0.4:
        _migrate(made, chance.choice(machines), chance)
    return made, [LOST, *(["n2"] if chance.random() < 0.2 else [])]


def _of_stateful_set(made: Cluster, name: str) -> None:
    """The pods that were made for a Deployment are those of a StatefulSet."""
    for pod in made.pods.values():
        if pod["metadata"]["name"].startswith(f"{name}-"):
            pod["metadata"]["ownerReferences"][0] |= {"kind": "StatefulSet", "uid": f"u-{name}"}


def _terminate(made: Cluster, pod: JSON) -> None:
    pod["metadata"]["deletionTimestamp"] = NOW
    if MACHINE in pod["metadata"]["labels"]:
        vmi = made.machines[pod["metadata"]["labels"][MACHINE]]
        vmi["metadata"]["deletionTimestamp"] = NOW


def _migrate(made: Cluster, name: str, chance: random.Random) -> None:
    """Somebody migrates a machine; the target of it has found a node, or still waits for one."""
    source = next(x for x in made.pods.values() if x["metadata"]["labels"].get(MACHINE) == name)
    others = [node for node in made.nodes if node != source["spec"]["nodeName"]]
    made.launcher(name, chance.choice([*others, *others, ""]))
    ref = Ref("VirtualMachineInstanceMigration", "shop", "evacuation")
    made.more["migrations"] = (Migration(ref, "u-evacuation", name, "Scheduling"),)


def some_spec(chance: random.Random, app: str) -> JSON:
    key = chance.choice([HOST, ZONE])
    near = affinity(
        {"labelSelector": selector(app=chance.choice(["web", app])), "topologyKey": key}
    )
    spreading = spread(key, chance.choice([1, 1, 2]), app=app)
    specs: list[JSON] = [
        {},
        {"affinity": keep_apart(over=key, plain=chance.random() < 0.5, app=app)},
        near,
        spreading,
        spreading,
        {**spreading, **near},
    ]
    return chance.choice(specs)


class Drained:
    """A loss as a game that knows nothing of the engine. `names`: what each seeker is known by,
    `moving` are those that migrate. A migration that has found its node goes on: the machine is
    where that is, and its source ends some time."""

    def __init__(self, made: Cluster, nodes: list[str], event: NodeEvent) -> None:
        self.made, self.event = made, event
        self.names: list[str] = []
        self.seekers: list[JSON] = []
        self.sources: dict[int, str] = {}
        self.ending: dict[str, int | None] = {}
        self.late: set[int] = set()
        self.dead: set[str] = set()
        arriving = {
            x["metadata"]["labels"][MACHINE] for x in made.pods.values() if _arrives(made, x)
        }
        for pod in made.pods.values():
            if not pod["spec"]["nodeName"]:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._ends(pod, pod["spec"]["nodeName"] in nodes and not _is_fenced(pod))
            elif pod["metadata"]["labels"].get(MACHINE) in arriving and not _arrives(made, pod):
                self._ends(pod, dead=False)
            elif pod["spec"]["nodeName"] in nodes:
                self._leaves(pod)
        self.goals = set(range(len(self.seekers)))
        for pod in made.pods.values():
            if not pod["spec"]["nodeName"]:
                self._waits(pod)
        lost_ones = [self._lost(x, x["metadata"]["name"] in nodes) for x in made.nodes.values()]
        left = random_clusters.Cluster(
            lost_ones, list(made.pods.values()), list(made.namespaces.values())
        )
        self.game = Game(
            left,
            self.seekers,
            self.sources,
            self.ending,
            late=self.late,
            dead=self.dead,
            migrations=True,
        )

    def _waits(self, pod: JSON) -> None:
        """A pod of its own, or the target of a migration; where its machine has to leave anyway it is one of
        those."""
        name = pod["metadata"]["labels"].get(MACHINE, "")
        if not name:
            self.seekers.append(pod)
            self.names.append(pod["metadata"]["name"])
        elif name not in self.names:
            mine = (
                x for x in self.made.pods.values() if x["metadata"]["labels"].get(MACHINE) == name
            )
            self.sources[len(self.seekers)] = next(x["metadata"]["name"] for x in mine)
            self.seekers.append(pod)
            self.names.append(name)

    def without(self, ends: t.Iterable[frozenset[int]]) -> list[set[str]]:
        """Who of those that had to has no place, for each end."""
        return [{self.names[n] for n in self.goals - end} for end in ends]

    def _ends(self, pod: JSON, dead: bool) -> None:
        name = pod["metadata"]["name"]
        self.ending[name] = None
        if dead and self.event == "failure":
            self.dead.add(name)

    def _lost(self, node: JSON, is_lost: bool) -> JSON:
        if not is_lost:
            return node
        key = "unschedulable" if self.event == "drain" else "unreachable"
        effects = ["NoSchedule"] if self.event == "drain" else ["NoSchedule", "NoExecute"]
        taints = [{"key": f"node.kubernetes.io/{key}", "effect": effect} for effect in effects]
        spec = {"taints": taints, "unschedulable": self.event == "drain"}
        return {**node, "spec": spec}

    def _leaves(self, pod: JSON) -> None:
        name = pod["metadata"]["name"]
        if self.event == "failure" and "tolerations" in pod["spec"] and not _is_fenced(pod):
            return
        if "ownerReferences" not in pod["metadata"]:
            self._ends(pod, dead=True)
            return
        owner = pod["metadata"]["ownerReferences"][0]
        number = len(self.seekers)
        is_machine = owner["kind"] == "VirtualMachineInstance"
        vmi = self.made.machines[owner["name"]] if is_machine else {}
        migrates = is_machine and vmi["spec"].get("evictionStrategy") == "LiveMigrate"
        if self.event == "drain" and migrates:
            self.seekers.append(_target(pod))
            self.sources[number] = name
        else:
            self.seekers.append(_next(pod, owner["uid"] if is_machine else ""))
            self._ends(pod, dead=not _is_fenced(pod))
            self.ending[name] = number
            if _is_fenced(pod):
                self.late.add(number)
        self.names.append(owner["name"] if is_machine else name)

    @property
    def moving(self) -> set[str]:
        return {self.names[number] for number in self.sources}


def _is_fenced(pod: JSON) -> bool:
    """Whether the next pod is created only once nothing is left of this one: on a failed node, once that is
    fenced."""
    owner = (pod["metadata"].get("ownerReferences") or [{}])[0]
    return owner.get("kind") in ("VirtualMachineInstance", "StatefulSet")


def _arrives(made: Cluster, pod: JSON) -> bool:
    """Whether a pod with a node is the target of a migration."""
    vmi = made.machines.get(pod["metadata"]["labels"].get(MACHINE, ""))
    node = pod["spec"]["nodeName"]
    return vmi is not None and bool(node) and node != vmi["status"]["nodeName"]


def _next(pod: JSON, uid: str) -> JSON:
    """The pod that a controller makes; that of a machine says another uid wherever it said one."""
    text = json.dumps({**pod, "spec": {**pod["spec"], "nodeName": ""}})
    made = json.loads(text.replace(json.dumps(uid), json.dumps(f"{uid}-2")) if uid else text)
    made["metadata"]["name"] += "-2"
    return made


def _target(pod: JSON) -> JSON:
    """The target pod of a live migration: KubeVirt keeps it off the node of its source."""
    made: JSON = _next(pod, "")
    own = {"matchLabels": {CREATED_BY: pod["metadata"]["labels"][CREATED_BY]}}
    found = made["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    found.setdefault(REQUIRED, []).append({"labelSelector": own, "topologyKey": HOST})
    return made


def plain(name: str) -> str:
    return name.removesuffix("-next")


@pytest.mark.parametrize("event", NODE_EVENTS)
@thorough
@given(seed=st.integers(0, 10**9))
def test_no_order_contradicts_a_forecast(seed: int, event: NodeEvent) -> None:
    made, nodes = random_drain(seed)
    drained = Drained(made, nodes, event)
    assume(drained.goals and len(drained.names) <= DISPLACED)
    try:
        ends = drained.game.ends(STATES)
    except TooMany:
        assume(False)
    found = lost(made, *nodes, event=event)
    without = drained.without(ends)
    note(f"{found} {drained.names} {without}")
    classify(f"{found.answer}")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    if found.answer is ForecastResult.GUARANTEED:
        assert not any(without)
    elif found.answer is ForecastResult.IMPOSSIBLE:
        assert all(without)
    else:
        assert found.answer is ForecastResult.POSSIBLE, "all of so little can be tried"
        assert set() in without
    named = {plain(each.instance.name): each.certain for each in found.pending}
    named |= {each.instance.name: each.certain for each in found.not_migratable}
    assert all(name in each for name, certain in named.items() if certain for each in without)
    if named:
        assert set(named) in without
    assert found.min_unschedulable <= min(len(each - drained.moving) for each in without)


@pytest.mark.parametrize("event", NODE_EVENTS)
@thorough
@given(seed=st.integers(0, 10**9))
def test_no_order_contradicts_a_drill(seed: int, event: NodeEvent) -> None:
    made, _nodes = random_drain(seed)
    for found in drill(made.snapshot(), [HOST], event=event).drills:
        drained = Drained(made, list(found.nodes), event)
        if not drained.goals or len(drained.names) > DISPLACED:
            continue
        try:
            ends = drained.game.ends(STATES)
        except TooMany:
            continue
        classify(f"{found.answer}")
        without = drained.without(ends)
        if found.answer is ForecastResult.GUARANTEED:
            assert not any(without)
        elif found.answer is ForecastResult.IMPOSSIBLE:
            assert all(without)
        elif found.answer is ForecastResult.POSSIBLE:
            assert set() in without
        named = {ref.name for ref in (*found.pending, *found.not_migratable, *found.at_risk)}
        if named:
            assert named in without
        down = found.min_unschedulable
        assert down <= min(len(each - drained.moving) for each in without)


@thorough
@given(seed=st.integers(0, 10**9), event=st.sampled_from(NODE_EVENTS))
def test_a_forecast_survives_chance_and_spite(seed: int, event: NodeEvent) -> None:
    """Of more instances than every order of could be tried."""
    made, nodes = random_drain(seed)
    drained = Drained(made, nodes, event)
    found = lost(made, *nodes, event=event)
    classify(f"{found.answer}")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    for choose in (at_random(random.Random(seed)), spiteful):
        for at_once in (True, False):
            drained.game.play(choose, at_once=at_once)
            (without,) = drained.without([frozenset(drained.game.placed)])
            assert not without or found.answer is not ForecastResult.GUARANTEED
            assert without or found.answer is not ForecastResult.IMPOSSIBLE or not drained.goals
