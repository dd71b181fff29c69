# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No forecast of rules that are written while nodes are drained claims more than is so.

What is compared with shares nothing with the engine: on the plain reference of the filters, in every
order, machines migrate or end and are made again, pods roll, halted machines start, and running ones
are moved as long as one of them breaks a rule.
"""

from __future__ import annotations

import copy
import json
import os
import random
import typing as t

from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move
from tests.support.cluster import Cluster, cluster, deployment, machine, merge_match_label_keys
from tests.unit.forecast.schedulers import GONE, Game, TooMany
from tests.unit.forecast.test_drains import LOST, MACHINE, plain
from tests.unit.forecast.test_written_rules import (
    APPS,
    RULES,
    _declared,
    _target,
    some_placement,
    writes,
)
from tests.unit.planning.scenes import written
from tests.unit.scheduler.random_clusters import Cluster as RandomCluster
from tests.unit.scheduler.reference import World

JSON = t.Any
thorough = settings(
    max_examples=3 * int(os.environ.get("PLACEMENT_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.filter_too_much],
)
STATES = 1500
ASKS = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}

State = tuple[tuple[tuple[str, bool], ...], frozenset[tuple[int, str]], frozenset[tuple[str, int]]]
"""Where each machine that may move is (empty: halted), and whether it runs by its new terms; who else
has found which node; how far those who leave have come."""


def random_changes(seed: int) -> tuple[Cluster, dict[Ref, JSON], list[str]]:
    """A few machines, perhaps some pods, new placement for one group or two, and a node to drain. The last pod
    may wait."""
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(2, 4))))
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = chance.choice(["1", "2", "16", "16"])
        if chance.random() < 0.5:
            node["metadata"]["labels"]["performance"] = "high"
    before = {app: some_placement(chance) if chance.random() < 0.5 else {} for app in APPS}
    groups: dict[str, list[Ref]] = {app: [] for app in APPS}
    pods = chance.choice(["", "", *APPS])
    if pods:
        places = [chance.choice([*made.nodes, LOST]) for _pod in range(chance.randint(1, 2))]
        spec = {"containers": [{"name": "c", **ASKS}], **before[pods]}
        groups[pods].append(deployment(made, pods, places, spec))
    for number in range(chance.randint(1, 3)):
        app = chance.choice(APPS)
        where = chance.choice([*made.nodes, *made.nodes, LOST, ""])
        spec = {"domain": ASKS, **before[app]}
        spec["evictionStrategy"] = chance.choice(["LiveMigrate", "LiveMigrate", "None"])
        groups[app].append(machine(made, f"vm{number}", where, spec, app=app))
    changes: dict[Ref, JSON] = {}
    for app in chance.sample(APPS, chance.randint(1, 2)):
        placement = some_placement(chance)
        known = {ref: made.template(ref)["spec"] for ref in groups[app]}
        changes |= {ref: placement for ref, spec in known.items() if spec != {**spec, **placement}}
    if chance.random() < 0.3:
        spec = {"containers": [{"name": "c", **ASKS}], **some_placement(chance)}
        made.bare_pod("waits", "", spec, app=chance.choice(APPS))
    return made, changes, [LOST] if chance.random() < 0.75 else []


class Leaving(Game):
    """Those who leave and those who come after them, beside `machines` that stand where they are."""

    def __init__(
        self, left: RandomCluster, machines: t.Callable[[], list[JSON]], **more: t.Any
    ) -> None:
        self.machines = machines
        self.migrating = more.pop("migrating")
        super().__init__(left, **more)

    def world(self) -> World:
        return World(
            self.cluster.nodes, [*super().world().pods, *self.machines()], self.cluster.namespaces
        )

    def make(self, move: tuple[int, str]) -> None:
        number, where = move
        if number < 0 and where in self.migrating:
            self.stage[where] = GONE
        else:
            super().make(move)


class Changed:
    """What the writes and the drain set in motion."""

    def __init__(self, made: Cluster, changes: t.Mapping[Ref, JSON], lost: list[str]) -> None:
        self.made = made
        self.changes = {ref.name: (ref, change) for ref, change in changes.items()}
        self.names: list[str] = []
        self.old: list[JSON] = []
        self.new: list[JSON] = []
        self.live: list[bool] = []
        self.sought: list[str] = []
        self.seekers: list[JSON] = []
        self.sources: dict[int, str] = {}
        self.ending: dict[str, int | None] = {}
        self.late: set[int] = set()
        self.ruled: set[int] = set()
        self.migrating: set[str] = set()
        others = [pod for pod in list(made.pods.values()) if not self._sets_off(pod, lost)]
        running = {pod["metadata"]["labels"].get(MACHINE) for pod in made.pods.values()}
        for name, (ref, _change) in self.changes.items():
            if ref.kind == "VirtualMachine" and name not in running:
                self._may_move(name, None)
        nodes = [_drained(x) if x["metadata"]["name"] in lost else x for x in made.nodes.values()]
        self.where = tuple((pod["spec"]["nodeName"] if pod else "", False) for pod in self.old)
        self.game = Leaving(
            RandomCluster(nodes, others, list(made.namespaces.values())),
            self._machines,
            seekers=self.seekers,
            sources=self.sources,
            ending=self.ending,
            late=self.late,
            migrating=self.migrating,
        )
        self.begin = self._state()
        self.seen = {self.begin}

    def _sets_off(self, pod: JSON, lost: list[str]) -> bool:
        """Whether a pod is a machine that may move, or waits. One that leaves stays among the others for now."""
        if not pod["spec"]["nodeName"]:
            self.seekers.append(pod)
            return True
        labels, owner = pod["metadata"]["labels"], pod["metadata"]["ownerReferences"][0]
        name = labels.get(MACHINE, "") or labels["app"]
        if MACHINE in labels and pod["spec"]["nodeName"] not in lost and name in self.changes:
            self._may_move(name, pod)
            return True
        if pod["spec"]["nodeName"] in lost or name in self.changes:
            self._leaves(pod, name, owner, pod["spec"]["nodeName"] in lost)
        return False

    def _may_move(self, name: str, pod: JSON | None) -> None:
        ref, change = self.changes[name]
        self.names.append(name)
        self.old.append(pod)
        self.new.append(_declared(self.made.template(ref), name, change, pod))
        self.live.append("topologySpreadConstraints" not in change)

    def _leaves(self, pod: JSON, name: str, owner: JSON, ends: bool) -> None:
        """A pod off a lost node, or the old one of a roll-out."""
        number, key = len(self.seekers), pod["metadata"]["name"]
        is_machine = owner["kind"] == "VirtualMachineInstance"
        if not is_machine and name not in self.changes and not ends:
            return
        strategy = self.made.machines[name]["spec"]["evictionStrategy"] if is_machine else ""
        change = self.changes[name][1] if name in self.changes else {}
        if strategy == "LiveMigrate":
            propagates = "topologySpreadConstraints" not in change
            made = _target(_with(pod, change if propagates else {}))
            self.sources[number] = key
            self.migrating.add(key)
        else:
            propagates = True
            made = _next(_with(pod, change), owner["uid"] if is_machine else "")
            if ends:
                self.ending[key] = number
            else:
                self.sources[number] = key
        if is_machine and strategy != "LiveMigrate":
            self.late.add(number)
        if is_machine and change and propagates:
            self.ruled.add(number)
        made["spec"]["nodeName"] = ""
        self.seekers.append(made)
        self.sought.append(name if is_machine else key)

    # What may happen.

    def explore(self, limit: int = STATES) -> None:
        """Look at all that it can come to. Machines are moved as long as one of them breaks a rule.
        Raises TooMany."""
        todo = [self.begin]
        while todo:
            state = todo.pop()
            for following in self._following(state, moving=True):
                if following not in self.seen:
                    self.seen.add(following)
                    todo.append(following)
            if len(self.seen) > limit:
                raise TooMany

    @property
    def may_end_well(self) -> bool:
        return any(self._is_well(state) for state in self.seen)

    def ends_well(self, moves: t.Sequence[Move]) -> bool:
        """Whether everything does, with nobody moved but by the one move that is planned, if any."""
        todo, known = [self.begin], {self.begin}
        planned = [move for move in moves if move.instance.name in self.names]
        if planned:
            (move,) = planned
            n = self.names.index(move.instance.name)
            todo = list(self._moved(self.begin, n, (move.method,)))
        while todo:
            state = todo.pop()
            following = set(self._following(state, moving=False))
            if not following and not self._is_well(state):
                return False
            todo += following - known
            known |= following
        return True

    def _following(self, state: State, *, moving: bool) -> t.Iterator[State]:
        self._set(state)
        moving = moving and self._broken()
        for move in self.game.moves():
            self._set(state)
            self.game.make(move)
            yield self._state()
        for n, (node, _moved) in enumerate(state[0]):
            if moving or not node:
                yield from self._moved(state, n)

    def _moved(
        self, state: State, n: int, methods: t.Container[Method] = tuple(Method)
    ) -> t.Iterator[State]:
        self._set(state)
        for node in self._open(n, methods):
            where = (*state[0][:n], (node, True), *state[0][n + 1 :])
            if where != state[0]:
                yield where, *state[1:]

    def _open(self, n: int, methods: t.Container[Method]) -> set[str]:
        world, new = self.game.world(), self.new[n]
        found: set[str] = set()
        if Method.RESTART in methods:
            found |= world.without(new["metadata"]["name"]).feasible(new)
        if Method.MIGRATE in methods and self.where[n][0] and self.live[n]:
            found |= world.feasible(_target(new))
        return found

    def _machines(self) -> list[JSON]:
        found = []
        for n, (node, moved) in enumerate(self.where):
            if node:
                pod = self.new[n] if moved else self.old[n]
                found.append({**pod, "spec": {**pod["spec"], "nodeName": node}})
        return found

    def _state(self) -> State:
        placed, stage = self.game.placed.items(), self.game.stage.items()
        return self.where, frozenset(placed), frozenset(stage)

    def _set(self, state: State) -> None:
        self.where, placed, stage = state
        self.game.placed, self.game.stage = dict(placed), dict(stage)

    # What it has come to.

    def _is_well(self, state: State) -> bool:
        self._set(state)
        return not self._waits(state) and not self._stand(state) and not self._broken(also=True)

    def _stand(self, state: State) -> bool:
        return any(stage != GONE for _name, stage in state[2])

    def _waits(self, state: State) -> set[str]:
        placed = dict(state[1])
        waiting = {name for n, name in enumerate(self.sought) if n not in placed}
        halted = {self.names[n] for n, (node, _moved) in enumerate(state[0]) if not node}
        return waiting | halted

    def _broken(self, *, also: bool = False) -> bool:
        """Whether a machine is where it may not be by what is declared; `also` one that came off the
        lost node."""
        where = self.where
        self.where = tuple((node, True) for node, _moved in where)
        world, judged = self.game.world(), self._machines()
        self.where = where
        if also:
            judged += [
                {**self.seekers[n], "spec": {**self.seekers[n]["spec"], "nodeName": node}}
                for n, node in self.game.placed.items()
                if n in self.ruled
            ]
        return any(_breaks(world, pod) for pod in judged)

    @property
    def always_waiting(self) -> set[str]:
        """Who never finds a place."""
        return set.intersection(*map(self._waits, self.seen))

    @property
    def fewest_waiting(self) -> int:
        """Of those who do not run on meanwhile."""
        moving = {self.sought[n] for n, key in self.sources.items() if key in self.migrating}
        return min(len(self._waits(state) - moving) for state in self.seen)


def _breaks(world: World, pod: JSON) -> bool:
    others = world.without(pod["metadata"]["name"])
    return bool(set(RULES) & others.verdicts(pod, pod["spec"]["nodeName"]).keys())


def _drained(node: JSON) -> JSON:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return {**node, "spec": {"taints": [taint], "unschedulable": True}}


def _with(pod: JSON, change: JSON) -> JSON:
    """A pod with other placement fields."""
    made: JSON = copy.deepcopy(pod)
    made["spec"] |= copy.deepcopy(change)
    merge_match_label_keys(made["spec"], made["metadata"]["labels"])
    return made


def _next(pod: JSON, uid: str) -> JSON:
    """The pod that a controller makes; that of a machine says another uid wherever it said one."""
    text = json.dumps(pod)
    made = json.loads(text.replace(json.dumps(uid), json.dumps(f"{uid}-2")) if uid else text)
    made["metadata"]["name"] += "-2"
    return made


@thorough
@given(seed=st.integers(0, 10**9))
def test_nothing_contradicts_a_forecast_of_rules_and_a_drain(seed: int) -> None:
    made, changes, lost = random_changes(seed)
    assume(changes or lost)
    changed = Changed(made, changes, lost)
    try:
        changed.explore()
    except TooMany:
        assume(False)
    found = written(made, *writes(changes), lost_nodes=lost)
    note(f"{found}")
    event(f"{found.answer}, {len(changed.names)} may move, {len(changed.sought)} leave")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    if found.answer is ForecastResult.GUARANTEED:
        assert changed.ends_well(found.moves)
    elif found.answer is ForecastResult.POSSIBLE:
        assert changed.may_end_well
    elif found.answer is ForecastResult.IMPOSSIBLE:
        assert not changed.may_end_well
    certain = {plain(x.instance.name) for x in found.pending if x.certain}
    assert certain <= changed.always_waiting
    assert found.min_unschedulable <= changed.fewest_waiting
