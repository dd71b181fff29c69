# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reason names the selector, the VM, the rule or the node, wherever a person reads it.

Each scene has one VM that is kept from its nodes by one kind of cause. kube-scheduler's own words may follow, but never
stand alone, and a VM is never called by the name of its launcher pod.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import table
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill_table import (
    table as drill_table,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight import (
    PreflightInput,
    preflight,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import as_json
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import (
    why_unschedulable,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.moves_needed import (
    moves_needed,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    anti_affinity,
    apart,
    cluster,
    expression,
    machine,
    selector,
)
from tests.support.cluster import spread as spread_over
from tests.unit.planning.scenes import lost

Term = tuple[TermLocation, t.Any]

IN_ZONE_B = (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "b"))
APART = (TermLocation.ANTI_AFFINITY, apart(g="web"))
NEAR_DB = (
    TermLocation.AFFINITY,
    {"labelSelector": selector(g="db"), "topologyKey": ZONE},
)
EVEN = (TermLocation.SPREAD, spread_over(g="web")["topologySpreadConstraints"][0])


def with_rule(made: Cluster, name: str, node: str, rule: str, term: Term, group: str) -> Ref:
    """A VM that runs with a rule; without a node it waits for one."""
    ref = halted(made, name, rule, term, group)
    made.start(ref, node)
    return ref


def before_the_rule(made: Cluster, name: str, node: str, rule: str, term: Term, group: str) -> None:
    """A VM that was on its node before it got the rule."""
    made.write(machine(made, name, node, g=group), rule, term)


def halted(made: Cluster, name: str, rule: str, term: Term, group: str) -> Ref:
    ref = machine(made, name, "", g=group)
    made.write(ref, rule, term)
    made.workloads[ref]["spec"]["runStrategy"] = "Always"
    return ref


# A VM that n1 loses, or that has no node at all, and why.


def node_labels(node: str) -> Cluster:
    made = cluster("baa")
    with_rule(made, "web", node, "in-b", IN_ZONE_B, "web")
    if not node:
        made.nodes["n1"]["spec"]["unschedulable"] = True
    return made


def own_anti_affinity(node: str) -> Cluster:
    made = cluster("abb")
    with_rule(made, "db", "n2", "apart", APART, "web")
    with_rule(made, "web", node, "apart", APART, "web")
    if not node:
        del made.nodes["n1"]
    return made


def anti_affinity_of_another(node: str) -> Cluster:
    made = cluster("abb")
    with_rule(made, "db", "n2", "alone", APART, "db")
    machine(made, "web", "n1", g="web")
    if not node:
        del made.nodes["n1"]
        made.machines.pop("web")
        made.pods = {key: pod for key, pod in made.pods.items() if "-web-" not in key[1]}
        made.start(Ref("VirtualMachine", "shop", "web"))
    return made


def affinity(node: str) -> Cluster:
    made = cluster("ab")
    machine(made, "db", "n1" if node else "", g="db")
    with_rule(made, "web", node, "near", NEAR_DB, "web")
    made.pods = {key: pod for key, pod in made.pods.items() if "-db-" not in key[1]}
    return made


def room(node: str) -> Cluster:
    made = cluster("abb")
    machine(made, "web", "n1", g="web")
    if not node:
        made.machines.pop("web")
        made.pods.clear()
        made.start(Ref("VirtualMachine", "shop", "web"))
    for name in ("n2", "n3"):
        made.nodes[name]["status"]["allocatable"]["memory"] = "512Mi"
    if not node:
        made.nodes["n1"]["spec"]["unschedulable"] = True
    return made


@dataclass(frozen=True)
class Scene:
    """`made` is asked for a cluster with the VM on n1, or waiting. `named`: what a reason has to name, `scheduler` what
    may only follow."""

    made: t.Callable[[str], Cluster]
    named: tuple[str, ...]


SCENES = [
    Scene(node_labels, ("topology.kubernetes.io/zone=b", "rule shop/default/in-b")),
    Scene(own_anti_affinity, ("VM shop/db", "rule shop/default/apart")),
    Scene(anti_affinity_of_another, ("VM shop/db", "rule shop/default/alone")),
    Scene(affinity, ("g In (db)", "rule shop/default/near")),
    Scene(room, ("node n2 lacks 0.5 GiB memory",)),
]
scenes = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.made.__name__)


def check(texts: t.Iterable[str], named: t.Iterable[str]) -> None:
    """One of the texts names all, and none has the name of a launcher pod."""
    read = list(texts)
    assert any(all(name in text for name in named) for text in read), (named, read)
    assert not any("virt-launcher" in text for text in read), read


@scenes
def test_forecast_of_a_drain(scene: Scene) -> None:
    found = lost(scene.made("n1"), "n1")
    check(found.reasons, ("web", *scene.named))
    reasons = [x.reason for x in found.pending]
    reasons += [x.reason for x in found.not_migratable]
    check(map(str, reasons), scene.named)


@scenes
def test_drill(scene: Scene) -> None:
    report = drill(scene.made("n1").snapshot(), [HOST], event="failure")
    lines = drill_table(report, Topology.of()).splitlines()
    check(lines, ("node n1", "web", *scene.named))


@scenes
def test_preflight_without_a_place(scene: Scene) -> None:
    snapshot = scene.made("n1").snapshot()
    snapshot = replace(snapshot, pods=tuple(replace(pod, ready=True) for pod in snapshot.pods))
    drain = DrainView(snapshot, frozenset({"n1"}), ("migrate",))
    findings = preflight(PreflightInput(drain))
    check((x.why for x in findings if x.name == "no_place"), ("web", "node n1", *scene.named))


@scenes
def test_verification_of_a_vm_that_waits(scene: Scene) -> None:
    check(problems(scene.made("")), ("VirtualMachineInstance shop/web", *scene.named))


# A VM that runs where its rule does not allow it.


def in_wrong_zone(made: Cluster) -> None:
    before_the_rule(made, "web", "n1", "in-b", IN_ZONE_B, "web")


def in_one_zone(made: Cluster) -> None:
    for name in ("db", "web"):
        before_the_rule(made, name, "n1", "apart", APART, "web")


def kept_away_by_another(made: Cluster) -> None:
    machine(made, "web", "n1", g="web")
    before_the_rule(made, "db", "n1", "alone", APART, "db")


def far_from_another(made: Cluster) -> None:
    machine(made, "db", "n2", g="db")
    before_the_rule(made, "web", "n1", "near", NEAR_DB, "web")


def uneven(made: Cluster) -> None:
    for name in ("db", "web"):
        before_the_rule(made, name, "n1", "even", EVEN, "web")


VIOLATED = [
    (in_wrong_zone, ("rule shop/default/in-b", "node n1", "topology.kubernetes.io/zone In (b)")),
    (in_one_zone, ("rule shop/default/apart", "VirtualMachineInstance shop/", "zone 'a'")),
    (kept_away_by_another, ("rule shop/default/alone", "VirtualMachineInstance shop/", "zone 'a'")),
    (far_from_another, ("rule shop/default/near", "g In (db)", "zone 'a'")),
    (uneven, ("rule shop/default/even", "'a'", "max_skew 1")),
]
violated = pytest.mark.parametrize(("put", "named"), VIOLATED)
Put = t.Callable[[Cluster], None]


def problems(made: Cluster) -> list[str]:
    """The lines of `verify` about problems."""
    snapshot = made.snapshot()
    verdicts = judge(snapshot, details=True, count_moves=moves_needed, topology=Topology.of())
    lines = table(verdicts, (), {}).splitlines()
    risks = [str(risk["detail"]) for risk in as_json(verdicts.risks)]
    return [*lines[1:], *risks]


@violated
@pytest.mark.parametrize("cordoned", [False, True], ids=["room", "cordoned"])
def test_rollout(put: Put, named: tuple[str, ...], cordoned: bool) -> None:
    """As a move, also of the VM that is in the way, and as an instance that is skipped: the words of `verify`."""
    made = cluster("ab")
    put(made)
    made.nodes["n2"]["spec"]["unschedulable"] = cordoned
    snapshot = made.snapshot()
    allow = frozenset({Method.MIGRATE, Method.RESTART})
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), "violated", allow=allow)
    plan = plan_moves(snapshot, request, movable_instances(snapshot, request.selection))
    check([*(x.reason for x in plan.moves), *(str(x.reason) for x in plan.skipped)], named)


def test_move_that_fails_since_the_new_pod_has_no_node() -> None:
    """kube-scheduler names no rule: they are those of the workload."""
    made = cluster("ab")
    in_wrong_zone(made)
    (workload,) = made.snapshot().workloads
    ours = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector"
    message = (
        f"{ours}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    pod = {"status": {"conditions": [condition]}}
    assert str(why_unschedulable(pod, workload)) == (
        f"the scheduler finds no node with its required rule shop/default/in-b: {ours}"
    )
    assert str(why_unschedulable(pod, None)) == f"the scheduler finds no node: {ours}"
    assert why_unschedulable({"status": {}}, workload) is None


@violated
def test_verification_of_a_violated_rule(put: Put, named: tuple[str, ...]) -> None:
    made = cluster("ab")
    put(made)
    check(problems(made), ("VirtualMachineInstance shop/web on n1", *named))


def test_anti_affinity_of_a_vm_of_another_namespace() -> None:
    made = cluster("ab")
    machine(made, "web", "n1", g="web")
    made.namespace("other")
    spec = anti_affinity({**apart(g="web"), "namespaces": ["shop"]})
    template = {"metadata": {"labels": {"g": "spy"}}, "spec": {"domain": {}, **spec}}
    made.start(made.workload("VirtualMachine", "spy", {"template": template}, "other"), "n1")

    check(problems(made), ("VM other/spy", "zone"))
