# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No forecast of rules that are written claims more than is so, whatever is moved in whatever order.

What is compared with shares nothing with the engine: on the plain reference of the filters every
sequence of single moves is tried, to every node that is open in its turn, and halted machines are
started at any time between them. Who has not moved yet runs by terms of before.
"""

from __future__ import annotations

import copy
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
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write
from tests.support.cluster import (
    CREATED_BY,
    HOST,
    REQUIRED,
    SCHEDULABLE,
    ZONE,
    Cluster,
    affinity,
    cluster,
    expression,
    keep_apart,
    machine,
    merge_match_label_keys,
    node_affinity,
    selector,
    spread,
)
from tests.unit.forecast.schedulers import TooMany
from tests.unit.planning.scenes import before_and_after, template_write, written
from tests.unit.scheduler.reference import World

JSON = t.Any
thorough = settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.filter_too_much],
)
APPS = ("web", "db")
STATES = 600
RULES = ("NodeAffinity", "PodTopologySpread", "InterPodAffinity")
"""Filters whose refusal means that a rule is broken; all others drive nobody away."""

FIELDS = ("affinity", "topologySpreadConstraints")

Where = tuple[tuple[str, bool], ...]
"""The node of each machine, empty where it is halted, and whether it runs by its new terms."""


def random_writes(seed: int) -> tuple[Cluster, dict[Ref, JSON]]:
    """A few machines, running and halted, and new placement fields for one group of them or two."""
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(2, 4))))
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = chance.choice(["1", "2", "16"])
        if chance.random() < 0.5:
            node["metadata"]["labels"]["performance"] = "high"
    groups: dict[str, list[Ref]] = {app: [] for app in APPS}
    before = {app: some_placement(chance) if chance.random() < 0.3 else {} for app in APPS}
    domain: JSON = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for number in range(chance.randint(1, 4)):
        app = chance.choice(APPS)
        where = chance.choice([*made.nodes, *made.nodes, ""])
        groups[app].append(
            machine(made, f"vm{number}", where, {"domain": domain, **before[app]}, app=app)
        )
    changes: dict[Ref, JSON] = {}
    for app in chance.sample(APPS, chance.randint(1, 2)):
        placement = some_placement(chance)
        known = {ref: made.template(ref)["spec"] for ref in groups[app]}
        changes |= {ref: placement for ref, spec in known.items() if spec != {**spec, **placement}}
    return made, changes


def some_placement(chance: random.Random) -> JSON:
    app, key = chance.choice(APPS), chance.choice([HOST, ZONE])
    fast = {"matchExpressions": [expression("performance", "Exists")]}
    specs: list[JSON] = [
        {"affinity": keep_apart(over=key, app=app)},
        {"affinity": keep_apart(over=key, app=app)},
        {"affinity": keep_apart(over=key, plain=True, app=app)},
        affinity({"labelSelector": selector(app=app), "topologyKey": key}),
        node_affinity(fast),
        spread(key, app=app),
    ]
    return chance.choice(specs)


def writes(changes: t.Mapping[Ref, JSON]) -> list[Write]:
    return [
        template_write(ref, field, value)
        for ref, placement in changes.items()
        for field, value in placement.items()
    ]


class Machines:
    """The machines that the writes touch, among all others, and what can be done with them."""

    def __init__(self, made: Cluster, changes: t.Mapping[Ref, JSON]) -> None:
        self.nodes = list(made.nodes.values())
        self.namespaces = list(made.namespaces.values())
        self.names = [ref.name for ref in changes]
        self.seen: set[Where] = set()
        self.live = ["topologySpreadConstraints" not in each for each in changes.values()]
        running = {
            pod["metadata"]["labels"]["vm.kubevirt.io/name"]: pod for pod in made.pods.values()
        }
        self.old = [running.get(ref.name) for ref in changes]
        self.new = [
            _declared(made.template(ref), ref.name, changes[ref], before)
            for ref, before in zip(changes, self.old, strict=True)
        ]
        touched = {ref.name for ref in changes}
        self.others = [pod for name, pod in running.items() if name not in touched]

    def start(self) -> Where:
        return tuple((pod["spec"]["nodeName"] if pod else "", False) for pod in self.old)

    def explore(self, limit: int = STATES) -> None:
        """Look at all that it can come to. Machines are moved as long as somebody breaks a rule.
        Raises TooMany."""
        todo, self.seen = [self.start()], {self.start()}
        while todo:
            where = todo.pop()
            for following in self._steps(where, moving=self.broken(where)):
                if following not in self.seen:
                    self.seen.add(following)
                    todo.append(following)
            if len(self.seen) > limit:
                raise TooMany

    @property
    def may_end_well(self) -> bool:
        """Whether something leads to where all run and nobody breaks a rule."""
        return any(self._is_well(where) for where in self.seen)

    def ends_well(self, moves: t.Sequence[Move]) -> bool:
        """Whether everything does: halted machines are started in any order, or, where somebody
        breaks a rule, one move is made to any node that is open."""
        todo, known = [self.start()], {self.start()}
        if self.broken(self.start()):
            (move,) = moves
            todo = list(self._moved(self.start(), move))
            assert todo
        while todo:
            where = todo.pop()
            following = set(self._steps(where, moving=False))
            if self.broken(where) or not (following or self._is_well(where)):
                return False
            todo += following - known
            known |= following
        return True

    def _moved(self, where: Where, move: Move) -> t.Iterator[Where]:
        n = self.names.index(move.instance.name)
        for node in self._open(where, n, (move.method,)):
            yield (*where[:n], (node, True), *where[n + 1 :])

    @property
    def never_run(self) -> set[str]:
        """Machines that nothing ever lets run."""
        run = {n for where in self.seen for n, (node, _moved) in enumerate(where) if node}
        return {name for n, name in enumerate(self.names) if n not in run}

    def _is_well(self, where: Where) -> bool:
        return all(node for node, _moved in where) and not self.broken(where)

    def broken(self, where: Where) -> bool:
        """Whether somebody is where he may not be by what is declared."""
        placed = [self._on(self.new[n], node) for n, (node, _moved) in enumerate(where) if node]
        world = World(self.nodes, [*placed, *self.others], self.namespaces)
        return any(
            set(RULES) & world.without(_name(pod)).verdicts(pod, pod["spec"]["nodeName"]).keys()
            for pod in placed
        )

    def _steps(self, where: Where, *, moving: bool) -> t.Iterator[Where]:
        for n, (node, _moved) in enumerate(where):
            if node and not moving:
                continue
            for other in self._open(where, n):
                if (other, True) != where[n]:
                    yield (*where[:n], (other, True), *where[n + 1 :])

    def _open(self, where: Where, n: int, methods: t.Container[Method] = tuple(Method)) -> set[str]:
        world = World(
            self.nodes,
            [*(self._at(m, *each) for m, each in enumerate(where) if each[0]), *self.others],
            self.namespaces,
        )
        found: set[str] = set()
        if Method.RESTART in methods:
            found |= world.without(_name(self.new[n])).feasible(self.new[n])
        if Method.MIGRATE in methods and where[n][0] and self.live[n]:
            found |= world.feasible(_target(self.new[n]))
        return found

    def _at(self, n: int, node: str, moved: bool) -> JSON:
        old = self.old[n]
        return self._on(old if old is not None and not moved else self.new[n], node)

    def _on(self, pod: JSON, node: str) -> JSON:
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _name(pod: JSON) -> str:
    return str(pod["metadata"]["name"])


def _declared(template: JSON, name: str, change: JSON, before: JSON | None) -> JSON:
    """The pod of a machine as its template says it with the change."""
    labels = template["metadata"]["labels"]
    placement = {key: value for key, value in template["spec"].items() if key in FIELDS} | change
    metadata: JSON = {
        "name": f"pod-{name}",
        "namespace": "shop",
        "labels": {**labels, CREATED_BY: f"uid-{name}", "vm.kubevirt.io/name": name},
    }
    if before is not None:
        metadata = before["metadata"]
    container = {"name": "compute", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"nodeSelector": {SCHEDULABLE: "true"}, "containers": [container]}
    spec |= copy.deepcopy(placement)
    merge_match_label_keys(spec, metadata["labels"])
    return {"metadata": metadata, "spec": spec}


def _target(pod: JSON) -> JSON:
    """The target of a live migration: KubeVirt keeps it off the node of its source."""
    made: JSON = copy.deepcopy(pod)
    made["metadata"]["name"] += "-target"
    own = {"matchLabels": {CREATED_BY: pod["metadata"]["labels"][CREATED_BY]}}
    found = made["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    found.setdefault(REQUIRED, []).append({"labelSelector": own, "topologyKey": HOST})
    return made


@thorough
@given(seed=st.integers(0, 10**9))
def test_no_sequence_of_moves_contradicts_a_forecast_of_rules(seed: int) -> None:
    made, changes = random_writes(seed)
    assume(changes)
    machines = Machines(made, changes)
    try:
        machines.explore()
    except TooMany:
        assume(False)
    found = written(made, *writes(changes))
    note(f"{found}")
    event(f"{found.answer}, {min(2, len(found.moves))} moves")
    assert found.reasons or found.answer is ForecastResult.GUARANTEED
    if found.answer is ForecastResult.GUARANTEED:
        assert machines.ends_well(found.moves)
    elif found.answer is ForecastResult.POSSIBLE:
        assert machines.may_end_well
    elif found.answer is ForecastResult.IMPOSSIBLE:
        assert not machines.may_end_well
    assert {x.instance.name for x in found.pending if x.certain} <= machines.never_run


@thorough
@given(seed=st.integers(0, 10**9))
def test_forecast_of_written_rules_equals_that_before_the_write(seed: int) -> None:
    made, changes = random_writes(seed)
    assume(changes)

    alone = written(made, *writes(changes))
    before, after = before_and_after(made, writes(changes))

    event(str(after.answer))
    assert before == alone, "a workload that is written is a member"
    assert after == before
