# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters made by chance: machines and pods with rules of every kind, obeyed or not, in effect
or only declared, some of them on their way out."""

from __future__ import annotations

import random
import typing as t

from tests.support.cluster import (
    HOST,
    PREFERRED,
    ZONE,
    Cluster,
    cluster,
    deployment,
    keep_apart,
    machine,
    node_affinity,
    selector,
    spread,
)

JSON = t.Any
APPS = ("web", "db")


def random_cluster(seed: int, *, rooms: tuple[str, ...] = ("16",)) -> Cluster:
    """`rooms`: how many pods a node may have room for, by CPU."""
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(2, 5))))
    nodes = list(made.nodes)
    for node in nodes:
        made.nodes[node]["status"]["allocatable"]["cpu"] = chance.choice(rooms)
        if chance.random() < 0.4:
            made.nodes[node]["metadata"]["labels"]["performance"] = "high"
    specs = {app: some_spec(chance) for app in APPS}
    for number in range(chance.randint(2, 6)):
        app = chance.choice(APPS)
        machine(made, f"vm{number}", chance.choice(nodes), specs[app], app=app)
    if chance.random() < 0.4:
        places = [chance.choice(nodes) for _pod in range(chance.randint(1, 2))]
        deployment(made, "cache", places, some_spec(chance))
    if chance.random() < 0.4:
        _change_a_template(made, chance)
    if chance.random() < 0.4:
        leaving = chance.choice(list(made.pods.values()))
        leaving["metadata"]["deletionTimestamp"] = "2026-05-01T08:00:00Z"
    return made


def some_spec(chance: random.Random) -> JSON:
    app = chance.choice(APPS)
    term = {"labelSelector": selector(app=app), "topologyKey": chance.choice([HOST, ZONE])}
    weighted = [{"weight": chance.choice([1, 50]), "podAffinityTerm": term}]
    fast = {"matchExpressions": [{"key": "performance", "operator": "In", "values": ["high"]}]}
    specs: list[JSON] = [
        {},
        {"affinity": keep_apart(app=app)},
        {"affinity": keep_apart(over=HOST, app=app)},
        {"affinity": keep_apart(over=HOST, plain=True, app=app)},
        spread(chance.choice([HOST, ZONE]), app=app),
        node_affinity(fast),
        {"affinity": {"podAntiAffinity": {PREFERRED: weighted}}},
        {"affinity": {"podAffinity": {PREFERRED: weighted}}},
    ]
    return chance.choice(specs)


def _change_a_template(made: Cluster, chance: random.Random) -> None:
    """A rule was written: it has reached the machine or not, and nobody runs by it yet."""
    ref = chance.choice([x for x in made.workloads if x.kind == "VirtualMachine"])
    spec = made.template(ref)["spec"]
    changed = {"domain": spec["domain"], **some_spec(chance)}
    spec.clear()
    spec.update(changed)
    if chance.random() < 0.7:
        made.propagate(ref)
