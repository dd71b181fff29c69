# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the cluster: each move of a plan is legal in its turn, nothing ends worse than it was,
and no plan is longer than the shortest."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import Drift
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    NodeTerm,
    Placement,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    Selector,
    SpreadConstraint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.repair import RepairPlanner
from ansible_collections.virt.placement.plugins.module_utils.planning.search import shortest_repair
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from tests.unit.planning.manifests import node_manifest, pod_manifest
from tests.unit.planning.movable import movable
from tests.unit.scheduler import reference

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = ("a", "b")


def terms(app: str) -> Selector:
    return Selector((Requirement("app", "In", (app,)),))


PLACEMENTS = st.builds(
    Placement,
    node_terms=st.sampled_from(
        [None, None, (NodeTerm((Requirement("fast", "Exists"),)),)],
    ),
    affinity=st.sampled_from([(), (), (), (PodTerm(HOST, terms("a")),)]),
    anti_affinity=st.sampled_from(
        [(), (PodTerm(ZONE, terms("a")),), (PodTerm(HOST, terms("b")),)],
    ),
    spread=st.sampled_from(
        [(), (), (SpreadConstraint(ZONE, 1, "DoNotSchedule", terms("a")),)],
    ),
)


@st.composite
def clusters(
    draw: st.DrawFn, rooms: tuple[int, ...] = (1, 3, 110)
) -> tuple[Snapshot, dict[str, DeclaredInstance], Method]:
    """Up to five instances on up to five nodes, with new terms, and a way to move them. `rooms`:
    how many pods a node may take."""
    nodes = tuple(
        Node(
            f"n{number}",
            labels={
                HOST: f"n{number}",
                ZONE: draw(st.sampled_from(["x", "y", "z"])),
                **({"fast": "1"} if draw(st.booleans()) else {}),
            },
            allocatable={"pods": draw(st.sampled_from(rooms))},
        )
        for number in range(draw(st.integers(2, 5)))
    )
    method = draw(st.sampled_from([Method.MIGRATE, Method.RECREATE]))
    found: dict[str, DeclaredInstance] = {}
    pods = []
    placements = {app: draw(PLACEMENTS) for app in APPS}
    for number in range(draw(st.integers(1, 5))):
        app = draw(st.sampled_from(APPS))
        uid = f"u{number}"
        node = draw(st.sampled_from(nodes)).name
        pod = Pod("default", f"p{number}", uid, {"app": app}, node_name=node, phase="Running")
        wanted = replace(pod, placement=placements[app])
        ref = Ref("VirtualMachineInstance", "default", pod.name)
        found[uid] = movable(
            Instance(ref, uid, None, pod),
            pod,
            declared_pod=wanted,
            migration_target=replace(wanted, uid="", name=f"{pod.name}-next", node_name=""),
            move_options=lambda apply_pending_changes=False: MoveOptions((method,)),
            can_migrate=method is Method.MIGRATE,
            drift=Drift(),
        )
        pods.append(pod)
    return Snapshot(nodes=nodes, pods=tuple(pods)), found, method


def healer(snapshot: Snapshot, found: dict[str, DeclaredInstance], method: Method) -> RepairPlanner:
    world = ClusterSimulation(snapshot, list(found.values()))
    return RepairPlanner(world, lambda _uid: (method,), lambda _uid: ())


def violators(world: ClusterSimulation) -> set[str]:
    return {uid for uid in world.candidates if world.violations(uid)}


@settings(max_examples=300)
@given(clusters())
def test_each_move_is_legal_in_its_turn(
    cluster: tuple[Snapshot, dict[str, DeclaredInstance], Method],
) -> None:
    """As the plain reference of the filters says: who has not moved runs by his old terms."""
    snapshot, found, method = cluster
    moves = healer(snapshot, found, method).repair(found)

    nodes = list(map(node_manifest, snapshot.nodes))
    placed = {pod.uid: pod for pod in snapshot.pods}
    for move in moves:
        source = placed[move.uid].node_name
        assert move.source == source
        incoming = replace(found[move.uid].declared_pod, uid="", node_name="")
        leaving = {move.uid} if method is Method.RECREATE else set()
        there = [pod_manifest(pod) for uid, pod in placed.items() if uid not in leaving]
        open_to = reference.World(nodes, there, []).feasible(pod_manifest(incoming))
        if method is Method.MIGRATE:
            open_to -= {source}
        assert {move.node, *move.targets} <= open_to
        placed[move.uid] = replace(found[move.uid].declared_pod, node_name=move.node)
    assert len({move.uid for move in moves}) == len(moves), "no instance moves twice"


@settings(max_examples=200)
@given(clusters(rooms=(110,)))
def test_repair_makes_the_fewest_moves(
    cluster: tuple[Snapshot, dict[str, DeclaredInstance], Method],
) -> None:
    """Leaders who break no rule stay where they are. Groups that have nothing in common but room
    on nodes are not planned as one, so there is room here."""
    snapshot, found, method = cluster
    planner = healer(snapshot, found, method)
    before = violators(planner.simulation)
    idle = {x for uid in before for x in planner.dependencies.affinity_targets(uid)} - before
    movable = {uid: (method,) for uid in found if uid not in idle}
    best = shortest_repair(planner.simulation, list(found), movable, limit=20_000)

    moves = planner.repair(found)

    if not before:
        assert moves == []
    if best.exhausted and best.moves is not None:
        assert violators(planner.simulation) == set()
        assert len(moves) == len(best.moves)


@settings(max_examples=200)
@given(clusters())
def test_reverted_moves_restore_the_simulation(
    cluster: tuple[Snapshot, dict[str, DeclaredInstance], Method],
) -> None:
    snapshot, found, method = cluster
    planner = healer(snapshot, found, method)
    world = planner.simulation
    before = state_of(world)

    planner.revert(planner.repair(found))

    assert state_of(world) == before


def state_of(world: ClusterSimulation) -> t.Any:
    return (
        dict(world.node_of),
        list(world.ranking.loads),
        {uid: world.failures(uid) for uid in world.candidates},
        {
            uid: world.open_set(uid, candidate.move_options().methods[0])
            for uid, candidate in world.candidates.items()
        },
    )
