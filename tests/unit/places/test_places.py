# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that brings VMs to the nodes of a map: their order, and why some VMs cannot go."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.aspects import (
    aspects_of_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.places.places import plan_places
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    cluster,
    deployment,
    keep_apart,
    machine,
    near,
)
from tests.support.pools import pool
from tests.unit.planning.movable import Kept
from tests.unit.planning.random_clusters import random_cluster

NAMESPACE = InstanceSelection(namespaces=frozenset({"shop"}))


def vmi(name: str) -> Ref:
    return Ref("VirtualMachineInstance", "shop", name)


def plan_in(snapshot: Snapshot, places: t.Mapping[str, str], **changed: t.Any) -> Plan:
    candidates = movable_instances(snapshot, NAMESPACE)
    request = PlanRequest(NAMESPACE, aspects=aspects_of_instances(snapshot), **changed)
    asked = {vmi(name): node for name, node in places.items()}
    return plan_places(snapshot, request, candidates, asked)


def plan(made: Cluster, **places: str) -> Plan:
    return plan_in(made.snapshot(), places)


def moves(planned: Plan) -> list[tuple[str, ...]]:
    return [(x.instance.name, x.source, *x.targets) for x in planned.moves]


def reasons(planned: Plan) -> dict[str, str]:
    return {x.instance.name: str(x.reason) for x in planned.skipped}


def test_vm_migrates_to_the_node_of_the_map_and_no_other_vm_moves() -> None:
    made = cluster("abc")
    for name in ("sap-1", "sap-2"):
        machine(made, name, "n1")
    planned = plan(made, **{"sap-1": "n3"})
    assert moves(planned) == [("sap-1", "n1", "n3")]
    assert [x.method for x in planned.moves] == [Method.MIGRATE]
    assert planned.skipped == ()


def test_vm_that_is_where_the_map_says_needs_no_move() -> None:
    made = cluster("ab")
    machine(made, "sap-1", "n1")
    assert plan(made, **{"sap-1": "n1"}) == Plan()


def full(made: Cluster, name: str, node: str, cpu: str = "10") -> Ref:
    """A VM that takes 10 of the 16 CPUs of its node."""
    ref = machine(made, name, node, {"domain": {"resources": {"requests": {"cpu": cpu}}}})
    containers = [{"name": "compute", "resources": {"requests": {"cpu": cpu}}}]
    for pod in made.pods.values():
        if (
            pod["metadata"]["labels"].get("kubevirt.io/created-by")
            == (made.machines[name]["metadata"]["uid"])
        ):
            pod["spec"]["containers"] = containers
    return ref


def test_node_is_emptied_before_another_vm_moves_there() -> None:
    made = cluster("abc")
    full(made, "sap-1", "n1")
    full(made, "sap-2", "n2")
    planned = plan(made, **{"sap-1": "n2", "sap-2": "n3"})
    assert moves(planned) == [("sap-2", "n2", "n3"), ("sap-1", "n1", "n2")]
    first, second = planned.moves
    assert second.after == (first.uid,)


def test_first_vm_of_the_map_gets_the_room_that_a_move_frees() -> None:
    """The plan after the move of sap-2 has it first, too: check mode shows what the rollout does."""
    made = cluster("abcd")
    for number in (1, 2, 3):
        full(made, f"sap-{number}", f"n{number}")
    planned = plan(made, **{"sap-1": "n2", "sap-2": "n4", "sap-3": "n2"})
    assert moves(planned) == [("sap-2", "n2", "n4"), ("sap-1", "n1", "n2")]
    assert reasons(planned) == {"sap-3": "not possible on n2: Insufficient cpu"}


def test_move_waits_for_room_that_it_has_only_without_another_move_to_its_node() -> None:
    """Alone, each of them has room before sap-1 has left. Moves begin at the same time."""
    made = cluster("abc")
    full(made, "sap-1", "n2")
    full(made, "sap-2", "n1", "5")
    full(made, "sap-3", "n1", "5")
    planned = plan(made, **{"sap-2": "n2", "sap-3": "n2", "sap-1": "n3"})
    waits_for = {x.instance.name: x.after for x in planned.moves}
    assert waits_for == {
        "sap-2": (),
        "sap-1": (),
        "sap-3": (made.machines["sap-1"]["metadata"]["uid"],),
    }


def test_end_of_the_source_pod_of_an_ended_migration_is_waited_for() -> None:
    made = cluster("ab")
    full(made, "sap-1", "n1")
    full(made, "sap-2", "n2")
    made.launcher("sap-2", "n1")
    made.machines["sap-2"]["status"]["nodeName"] = "n1"
    (source,) = (
        pod["metadata"] for pod in made.pods.values() if pod["spec"].get("nodeName") == "n2"
    )
    (skipped,) = plan(made, **{"sap-1": "n2"}).skipped
    assert (str(skipped.reason), skipped.temporary) == (
        "not possible on n2 yet: Insufficient cpu, as long as pods exist that are ending:"
        f" Pod shop/{source['name']}",
        True,
    )


def test_swap_without_room_names_a_third_node() -> None:
    made = cluster("abc")
    full(made, "sap-1", "n1")
    full(made, "sap-2", "n2")
    planned = plan(made, **{"sap-1": "n2", "sap-2": "n1"})
    assert planned.moves == ()
    assert reasons(planned)["sap-1"] == (
        "not possible on n2: Insufficient cpu, as long as VirtualMachineInstance shop/sap-2 is on n2, which waits"
        " for it in turn: move VirtualMachineInstance shop/sap-1 to a third node first, such as n3"
    )


def test_swap_without_room_and_without_a_third_node_says_so() -> None:
    made = cluster("ab")
    full(made, "sap-1", "n1")
    full(made, "sap-2", "n2")
    planned = plan(made, **{"sap-1": "n2", "sap-2": "n1"})
    assert reasons(planned)["sap-2"].endswith("waits for it in turn, and no third node has room")


def test_swap_with_room_is_made() -> None:
    made = cluster("ab")
    machine(made, "sap-1", "n1")
    machine(made, "sap-2", "n2")
    planned = plan(made, **{"sap-1": "n2", "sap-2": "n1"})
    assert sorted(moves(planned)) == [("sap-1", "n1", "n2"), ("sap-2", "n2", "n1")]


def test_each_vm_that_cannot_go_is_named_with_the_reason() -> None:
    made = cluster("abcd")
    for name in ("cordoned", "tainted", "typo", "unknown-node", "fixed"):
        machine(made, name, "n1")
    machine(made, "halted", "")
    made.nodes["n2"]["spec"]["unschedulable"] = True
    made.nodes["n3"]["spec"]["taints"] = [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]
    made.workloads[Ref("VirtualMachine", "shop", "typo")]["metadata"]["labels"] = {
        "placement.virt/do-not-move": "true"
    }
    made.machines["fixed"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "PVC is not shared"}
    ]
    asked = {
        "cordoned": "n2",
        "tainted": "n3",
        "typo": "n4",
        "unknown-node": "n44",
        "fixed": "n4",
        "halted": "n4",
        "tpyo": "n4",
    }
    planned = plan_in(made.snapshot(), asked)
    assert planned.moves == ()
    assert reasons(planned) == {
        "cordoned": "not possible on n2: n2 is cordoned",
        "tainted": "not possible on n3: node(s) had untolerated taint {gpu: a}",
        "typo": "its workload has the label placement.virt/do-not-move: remove the label",
        "unknown-node": "there is no node 'n44'; did you mean 'n4'?",
        "fixed": "the instance is not live-migratable: PVC is not shared",
        "halted": "it is not running, so there is nothing to migrate",
        "tpyo": "there is no VM 'tpyo' in namespace shop; did you mean 'typo'?",
    }


def test_vmi_that_no_workload_is_known_of_is_named_with_the_reason() -> None:
    made = cluster("ab")
    for name in ("alone", "orphan"):
        del made.workloads[machine(made, name, "n1")]
    del made.machines["alone"]["metadata"]["ownerReferences"]
    assert reasons(plan(made, alone="n2", orphan="n2")) == {
        "alone": "it has no VirtualMachine. Only VMIs of VirtualMachines, pools and replica sets are moved",
        "orphan": "its VirtualMachine orphan is not among the workloads that were read",
    }


def test_unknown_namespace_is_named() -> None:
    made = cluster("ab")
    asked = {Ref("VirtualMachineInstance", "shpo", "sap-1"): "n1"}
    snapshot = made.snapshot()
    planned = plan_places(snapshot, PlanRequest(NAMESPACE), (), asked)
    assert reasons(planned) == {"sap-1": "there is no namespace 'shpo'; did you mean 'shop'?"}


def test_similar_names_are_searched_for_the_first_unknown_vms_only() -> None:
    """Each search reads the names of all VMs, and a saved placement may have thousands that are gone."""
    made = cluster("ab")
    machine(made, "sap-1", "n1")
    planned = plan(made, **{f"sap-x{number}": "n1" for number in range(100)})
    hints = [
        str(x.reason) for x in planned.skipped if str(x.reason).endswith("did you mean 'sap-1'?")
    ]
    assert (len(planned.skipped), len(hints)) == (100, 20)


def apart_in_zones(made: Cluster, *names: str) -> None:
    for name in names:
        ref = Ref("VirtualMachine", "shop", name)
        term = keep_apart(app="db")["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ][0]
        made.write(ref, "one-per-zone", (TermLocation.ANTI_AFFINITY, term))
        made.propagate(ref)


def test_rule_of_the_vm_that_the_move_would_break_is_named() -> None:
    made = cluster("aab")
    machine(made, "db1", "n1", app="db")
    machine(made, "db2", "n3", app="db")
    apart_in_zones(made, "db1")
    planned = plan(made, db1="n3", db2="n2")
    assert moves(planned) == [] or planned.skipped
    reason = reasons(plan(made, db1="n3"))["db1"]
    assert reason.startswith("not possible on n3: node(s) didn't match pod anti-affinity rules")
    assert reason.endswith("(rule shop/default/one-per-zone)")


@pytest.mark.parametrize(
    ("zones", "advice"),
    [
        ("aabb", ", and no third node for one of them would help"),
        (
            "aabbc",
            ": move VirtualMachineInstance shop/db1 to a third node first, such as n5",
        ),
    ],
)
def test_third_node_that_is_named_lets_the_other_vm_go(zones: str, advice: str) -> None:
    """n2 is open to db1, and in the zone that db2 is to go to."""
    made = cluster(zones)
    machine(made, "db1", "n1", app="db")
    machine(made, "db2", "n3", app="db")
    apart_in_zones(made, "db1", "db2")
    assert reasons(plan(made, db1="n3", db2="n1"))["db1"].endswith(f"waits for it in turn{advice}")


def test_move_that_would_break_the_rule_of_another_vm_is_refused() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    (reason,) = reasons(plan(made, db="n2")).values()
    assert reason == (
        "a rule of VirtualMachineInstance shop/web would be broken: node(s) didn't match pod affinity rules"
        " (app In (db) over zone)"
    )


def test_target_moves_before_its_follower() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    planned = plan(made, web="n2", db="n2")
    assert moves(planned) == [("db", "n1", "n2"), ("web", "n1", "n2")]
    assert planned.moves[1].after == (planned.moves[0].uid,)


def test_follower_goes_to_its_target_that_has_moved_before() -> None:
    """A rollout was stopped between the two, so the follower violates its rule."""
    made = cluster("ab")
    machine(made, "db", "n2", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    machine(made, "cache", "n1", {"affinity": near(app="web")}, app="cache")
    planned = plan(made, db="n2", web="n2", cache="n2")
    assert moves(planned) == [("web", "n1", "n2"), ("cache", "n1", "n2")]


def test_target_goes_back_to_its_follower_that_did_not_move() -> None:
    made = cluster("ab")
    machine(made, "db", "n2", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    assert moves(plan(made, db="n1", web="n1")) == [("db", "n2", "n1")]


def test_follower_that_cannot_go_keeps_its_target_and_is_named() -> None:
    made = cluster("abb")
    machine(made, "db", "n1", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    made.nodes["n3"]["spec"]["unschedulable"] = True
    planned = plan(made, web="n3", db="n2")
    assert planned.moves == ()
    assert reasons(planned)["web"].startswith("not possible on n3: n3 is cordoned")
    assert reasons(planned)["db"].startswith("a rule of VirtualMachineInstance shop/web would be")


def test_vm_of_a_pool_migrates_alone() -> None:
    made = cluster("abc")
    ref = pool(made, "web", ["n1", "n1", "n2"])
    planned = plan(made, **{"web-0": "n3", "web-2": "n2"})
    assert moves(planned) == [("web-0", "n1", "n3")]
    assert ([x.workload for x in planned.moves], planned.skipped) == ([ref], ())


def test_vm_of_a_pool_that_cannot_go_is_named_with_the_reason() -> None:
    made = cluster("abc")
    pool(
        made,
        "web",
        ["n1", "n1", "n2", "n1"],
        {"affinity": keep_apart(over=HOST, app="web")},
        app="web",
    )
    labels = made.workloads[Ref("VirtualMachine", "shop", "web-0")]["metadata"]["labels"]
    labels["placement.virt/do-not-move"] = "true"
    made.machines["web-3"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "PVC is not shared"}
    ]
    found = reasons(plan(made, **{"web-0": "n3", "web-1": "n2", "web-3": "n3", "web-9": "n3"}))
    assert found["web-0"] == "its VM has the label placement.virt/do-not-move: remove the label"
    assert found["web-1"].startswith("not possible on n2: ")
    assert found["web-3"] == "the instance is not live-migratable: PVC is not shared"
    assert found["web-9"].startswith("there is no VM 'web-9' in namespace shop")


def test_pod_of_another_namespace_keeps_its_affinity() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    term = near(app="db")["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    made.namespace("tools")
    spec = {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaces": ["shop"]}]
            }
        }
    }
    made.bare_pod("backup", "n1", spec, namespace="tools")
    (reason,) = reasons(plan(made, db="n2")).values()
    assert reason.startswith("a rule of Pod tools/backup would be broken")


@pytest.mark.parametrize("namespace", ["shop", "tools"])
def test_rule_of_a_pod_that_is_no_vm_is_named_with_the_pod_and_the_term(namespace: str) -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    made.namespace("tools")
    template = {"metadata": {"labels": {"app": "probe"}}, "spec": {}}
    probe = made.workload("Deployment", "probe", {"template": template}, namespace)
    made.write(
        probe, "away", (TermLocation.ANTI_AFFINITY, {**apart_term(), "namespaces": ["shop"]})
    )
    made.start(probe, "n2", "probe-1")

    (reason,) = reasons(plan(made, db="n2")).values()

    assert reason == (
        "not possible on n2: node(s) didn't satisfy existing pods anti-affinity rules"
        f" (Pod {namespace}/probe-1 has anti-affinity to app In (db) in shop over zone)"
        f" (rule {namespace}/default/away)"
    )


def test_rule_of_a_pod_that_is_no_vm_is_named_where_a_move_would_break_it() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    template = {"metadata": {"labels": {"app": "probe"}}, "spec": {}}
    probe = made.workload("Deployment", "probe", {"template": template})
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    made.write(probe, "near", (TermLocation.AFFINITY, term))
    made.start(probe, "n1", "probe-1")

    (reason,) = reasons(plan(made, db="n2")).values()

    assert reason.startswith("a rule of Pod shop/probe-1 would be broken: ")
    assert reason.endswith(" (rule shop/default/near)")


def test_preference_prevents_no_move() -> None:
    made = cluster("ab")
    prefers = {"weight": 100, "podAffinityTerm": {**apart_term(), "topologyKey": HOST}}
    spec = {
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefers]}
        }
    }
    machine(made, "db1", "n1", spec, app="db")
    machine(made, "db2", "n2", spec, app="db")
    assert moves(plan(made, db1="n2")) == [("db1", "n1", "n2")]


def apart_term() -> t.Any:
    return {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}


def test_node_without_a_name_of_its_own_is_no_target() -> None:
    """A migration is held to a node by the label kubernetes.io/hostname."""
    made = cluster("abc")
    machine(made, "sap-1", "n1")
    machine(made, "sap-2", "n1")
    del made.nodes["n2"]["metadata"]["labels"][HOST]
    made.nodes["n3"]["metadata"]["labels"][HOST] = "n1"
    assert reasons(plan(made, **{"sap-1": "n2", "sap-2": "n3"})) == {
        "sap-1": f"n2 has no label {HOST}, by which a migration could be held to it",
        "sap-2": f"n1 has the label {HOST}=n1 of n3, too, so a migration cannot be held to n3",
    }


def test_migration_of_others_is_waited_for() -> None:
    """Its target has a node: where the VM runs in the end is known when it has ended."""
    made = cluster("abc")
    machine(made, "sap-1", "n1")
    made.launcher("sap-1", "n2")
    uid = made.machines["sap-1"]["metadata"]["uid"]
    ref = Ref("VirtualMachineInstanceMigration", "shop", "by-others")
    migrating = made.snapshot(migrations=(Migration(ref, "uid", "sap-1", "Running"),))
    (skipped,) = plan_in(migrating, {"sap-1": "n3"}).skipped
    assert (skipped.uid, str(skipped.reason), skipped.temporary) == (
        uid,
        "another migration of it is in flight",
        True,
    )


def test_vm_that_was_moved_is_left_alone() -> None:
    made = cluster("ab")
    machine(made, "sap-1", "n1")
    machine(made, "sap-2", "n1")
    uids = {name: made.machines[name]["metadata"]["uid"] for name in made.machines}
    planned = plan_in(
        made.snapshot(),
        {"sap-2": "n2"},
        settled=[Kept({uids["sap-2"]: Obstacle("move_failed", "its move failed in this rollout")})],
    )
    assert planned.moves == ()
    assert reasons(planned) == {"sap-2": "its move failed in this rollout"}


@pytest.mark.parametrize("seed", range(25))
def test_plan_breaks_no_rule_and_ends_where_asked_or_names_why_not(seed: int) -> None:
    """After each move no instance that the map leaves where it is violates what it obeyed; after the last none does."""
    made = random_cluster(seed, rooms=("3", "16"))
    chance = random.Random(seed)
    snapshot = made.snapshot()
    nodes = list(made.nodes)
    places = {name: chance.choice(nodes) for name in made.machines if chance.random() < 0.8}
    planned = plan_in(snapshot, places)

    candidates = movable_instances(snapshot, NAMESPACE)
    simulation = ClusterSimulation(snapshot, candidates)
    by_name = {x.instance.ref.name: x for x in candidates}
    obeyed = {uid for uid in simulation.candidates if not simulation.violations(uid)}
    pods = [x.uid for x in snapshot.pods if x.uid in simulation.running]
    running = {uid for uid in pods if not _broken(simulation, uid)}
    moving = {move.uid for move in planned.moves}
    for move in planned.moves:
        number = simulation.table.numbers[move.targets[0]]
        assert simulation.open_set(move.uid, Method.MIGRATE) >> number & 1
        simulation.move(move.uid, move.targets[0])
        moving.discard(move.uid)
        broken = {uid for uid in obeyed if simulation.violations(uid)}
        assert broken <= moving
    assert all(not _broken(simulation, uid) for uid in running & _pods_as_declared(candidates))
    skipped = {x.instance.name for x in planned.skipped}
    for name, node in places.items():
        there = name in by_name and simulation.node_of[by_name[name].uid] == node
        away = name in by_name and by_name[name].uid not in simulation.candidates
        assert there or name in skipped or away or _in_flight(made, name)
    assert not any(simulation.node_of[by_name[x].uid] == places[x] for x in skipped)


def _broken(simulation: ClusterSimulation, uid: str) -> bool:
    kinds = {x.kind for y in simulation.running.failures_in_place(uid) for x in y.reasons}
    return bool(kinds & {"affinity", "anti", "existing-anti", "skew"})


def _pods_as_declared(candidates: t.Iterable[t.Any]) -> set[str]:
    return {x.pod.uid for x in candidates if x.declared_pod is x.pod}


def _in_flight(made: Cluster, name: str) -> bool:
    return any(
        pod["metadata"].get("deletionTimestamp")
        for pod in made.pods.values()
        if pod["metadata"]["name"].startswith(f"virt-launcher-{name}")
    )


def test_deployment_keeps_its_spread() -> None:
    made = cluster("ab")
    ref = machine(made, "vm", "n1", app="cache")
    spread = {
        "topologySpreadConstraints": [
            {
                "topologyKey": ZONE,
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "cache"}},
            }
        ]
    }
    deployment(made, "cache", ["n2"], spread)
    assert ref.name == "vm"
    (reason,) = reasons(plan(made, vm="n2")).values()
    assert "a rule of Pod shop/cache" in reason
