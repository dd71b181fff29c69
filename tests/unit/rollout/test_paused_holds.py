# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run writes next to held Deployments, and why it waits or leaves them."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiError,
    ApiRequest,
    Forbidden,
)
from ansible_collections.virt.placement.plugins.module_utils.model.budget import DisruptionBudget
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves.approved_plan import (
    ApprovedPlan,
    read_plan,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.plan_basis import PlanBasis
from ansible_collections.virt.placement.plugins.module_utils.moves.reconciliation import (
    Reconciliation,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.state import StepReport
from ansible_collections.virt.placement.plugins.module_utils.rollout.approved_releases import (
    changes,
    facts_of,
    releases_of,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import wanted
from ansible_collections.virt.placement.plugins.module_utils.rollout.releases import Releases
from tests.unit.moves.test_gates import parameters
from tests.unit.planning.scenes import HOST, ZONE, Cluster, cluster, deployment, keep_apart

JSON = t.Any
HELD: JSON = {"phase": "held"}
ONE: JSON = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
RELEASED: JSON = {"phase": "released", "strategy": {}, "limited": ONE}
RECREATE: JSON = {"allow": frozenset({Method.RECREATE})}


def made(*names: str, nodes: str = "n1 n2 n3", apart: bool = False) -> Cluster:
    """Held Deployments whose pods run on the nodes, with a rule about the zone, or one about nodes that is also about
    pods of the template before."""
    found = cluster("abc")
    for name in names or ("web",):
        ref = deployment(found, name, nodes.split(), {})
        manifest = found.workloads[ref]
        spec = manifest["spec"]["template"]["spec"]
        if apart:
            spec["affinity"] = keep_apart(over=HOST, plain=True, app=name)
        else:
            spec["nodeSelector"] = {ZONE: "a"}
        change(found, name, HELD, paused=True)
        status(found, name, updated=0)
    for pod in found.pods.values():
        pod["metadata"]["labels"]["pod-template-hash"] = "1"
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return found


def change(found: Cluster, name: str, record: JSON, **spec: JSON) -> None:
    (ref,) = (ref for ref in found.workloads if ref.name == name)
    manifest = found.workloads[ref]
    manifest["metadata"] |= {"annotations": {HOLD: json.dumps(record)}, "generation": 2}
    manifest["spec"] |= spec


def status(found: Cluster, name: str, *, updated: int, seen: int = 2, **more: JSON) -> None:
    (ref,) = (ref for ref in found.workloads if ref.name == name)
    replicas = found.workloads[ref]["spec"]["replicas"]
    counts = {"replicas": replicas, "updatedReplicas": updated, "availableReplicas": replicas}
    found.workloads[ref]["status"] = {"observedGeneration": seen, **counts, **more}


def view(found: Cluster, **options: JSON) -> JudgedSnapshot:
    snapshot = found.snapshot()
    chosen = parameters(**{"max_unavailable": 1, **RECREATE, **options})
    return JudgedSnapshot.of(snapshot, wanted(chosen, snapshot), chosen)


def test_release_is_within_the_limits_and_its_pods_are_neither_moved_nor_skipped() -> None:
    seen = view(made(), scope="not_enforced")
    (step,) = seen.hold_steps
    assert step.releases
    rolling = step.strategy["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}, "25% of three, in numbers"
    plan = seen.plan()
    assert (plan.moves, plan.skipped) == ((), ())
    assert "3 of 3 replicas are not of its present template" in str(step)
    assert seen.why_no_move == ""


def test_surge_that_finds_no_node_is_left_out() -> None:
    found = made(apart=True)
    for pod in found.pods.values():
        pod["spec"]["affinity"] = keep_apart(over=HOST, plain=True, app="web")
    (step,) = view(found).hold_steps
    assert step.strategy == ONE


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"allow": frozenset({Method.MIGRATE})}, "with recreate in allow"),
        ({"max_moves": 3}, "does not stop after max_moves"),
    ],
)
def test_run_that_may_not_release_says_so(options: JSON, text: str) -> None:
    seen = view(made(), scope="not_enforced", **options)
    (step,) = seen.hold_steps
    assert text in step.kept
    assert {text in skipped.reason for skipped in seen.plan().skipped} == {True}


def test_label_keeps_the_hold() -> None:
    found = made()
    (ref,) = found.workloads
    found.workloads[ref]["metadata"]["labels"] = {"placement.virt/do-not-move": "true"}
    (step,) = view(found).hold_steps
    assert "placement.virt/do-not-move: remove the label" in step.kept


def test_hold_whose_next_pod_has_no_node_stays() -> None:
    found = made()
    (ref,) = found.workloads
    found.workloads[ref]["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
    (step,) = view(found).hold_steps
    assert "stays held: its next pod has no node: 0/3 nodes are available" in step.kept


def test_pods_of_others_that_are_not_ready_count() -> None:
    found = made("web", "other")
    change(found, "other", HELD, paused=False)
    del found.workloads[next(x for x in found.workloads if x.name == "other")]["metadata"][
        "annotations"
    ]
    pod = next(pod for (_namespace, name), pod in found.pods.items() if name.startswith("other"))
    pod["status"]["conditions"] = []
    change(found, "web", HELD, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
    (step,) = view(found).hold_steps
    assert "max_unavailable is reached, not ready: 1 of Deployment shop/other" in step.waiting
    (step,) = view(found, max_unavailable=2).hold_steps
    assert step.strategy == ONE


def approved_by(seen: JudgedSnapshot, **changes: JSON) -> ApprovedPlan:
    """A plan that has the first Deployment of this view, as a task is given it."""
    facts = facts_of(seen.hold_steps[:1])
    facts["releases"][0].update(changes)
    planned = {**seen.options.planned, "allow": ["recreate"]}
    plan = ApprovedPlan("uid", planned, (), PlanBasis(), facts=facts)
    return read_plan(plan.as_json())


def test_run_with_a_plan_releases_what_that_has_and_no_other_deployment() -> None:
    seen = view(made("api", "web"))
    plan = approved_by(seen)
    (first, second) = with_plan(seen, plan).hold_steps
    assert first.releases
    assert "the approved plan does not have it" in second.kept
    assert list(changes(plan, (first, second), seen.snapshot)) == []


def with_plan(seen: JudgedSnapshot, plan: ApprovedPlan) -> JudgedSnapshot:
    return replace(seen, options=replace(seen.options, approved=plan))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"template": "other"},
            "its template was changed after the plan was made: make a new plan",
        ),
        ({"name": "gone"}, "Deployment shop/gone does not exist any more"),
    ],
)
def test_plan_is_refused_where_an_approved_release_has_changed(changed: JSON, text: str) -> None:
    seen = view(made())
    plan = approved_by(seen, **changed)
    steps = with_plan(seen, plan).hold_steps
    assert not any(step.releases for step in steps)
    (fault,) = changes(plan, steps, seen.snapshot)
    assert text in fault


def test_damaged_releases_refuse_a_plan() -> None:
    plan = replace(approved_by(view(made())), facts={"releases": ["web"]})
    with pytest.raises(InvalidInput, match="is damaged"):
        releases_of(plan)


def test_run_without_limit_keeps_the_declared_strategy() -> None:
    """A budget or room may still limit it."""
    found = made()
    change(found, "web", HELD, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}})
    seen = view(found)
    (step,) = replace(seen, options=replace(seen.options, max_unavailable=None)).hold_steps
    assert step.strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}


NEVER = DisruptionBudget(
    Ref("PodDisruptionBudget", "shop", "web"),
    Selector((Requirement("app", "In", ("web",)),)),
    allowed=0,
    healthy=3,
    desired=3,
    expected=3,
)


@pytest.mark.parametrize("declared", ["25%", 2])
def test_budget_that_never_allows_lets_pods_be_replaced_by_a_surge(declared: JSON) -> None:
    """Each old pod ends only once a new one is available."""
    found = made()
    found.more["budgets"] = (NEVER,)
    rolling = {"maxSurge": 1, "maxUnavailable": declared}
    change(found, "web", HELD, strategy={"rollingUpdate": rolling})
    (step,) = view(found).hold_steps
    assert step.strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("surge", [0, 1])
def test_budget_that_never_allows_keeps_a_hold_whose_surge_has_no_room(surge: int) -> None:
    """Nothing ends that by itself: a run would wait until its time is over."""
    found = made(apart=True)
    found.more["budgets"] = (NEVER,)
    for pod in found.pods.values():
        pod["spec"]["affinity"] = keep_apart(over=HOST, plain=True, app="web")
    rolling = {"maxSurge": surge, "maxUnavailable": 0 if surge else 1}
    change(found, "web", HELD, strategy={"rollingUpdate": rolling})
    (step,) = view(found).hold_steps
    assert "PodDisruptionBudget shop/web never allows a disruption" in step.kept
    assert ("no node has room for one more pod" in step.kept) == bool(surge)


def test_one_deployment_at_a_time_and_no_move_beside_it() -> None:
    found = made("api", "web")
    change(found, "api", RELEASED, paused=False, strategy=ONE)
    status(found, "api", updated=1)
    seen = view(found)
    first, second = seen.hold_steps
    assert first.waiting == second.waiting == "Deployment shop/api replaces its pods: 1 of 3"
    assert seen.why_no_move == first.waiting
    status(found, "api", updated=3)
    first, second = view(found).hold_steps
    assert "as before the hold" in first.done
    assert second.releases


@pytest.mark.parametrize(
    ("record", "spec", "updated", "text"),
    [
        (RELEASED, {"paused": True, "strategy": ONE}, 1, "was paused by another client"),
        ({"phase": 1}, {"paused": True}, 0, "is damaged"),
    ],
    ids=["paused by another client", "damaged"],
)
def test_hold_that_no_run_ends(record: JSON, spec: JSON, updated: int, text: str) -> None:
    found = made()
    change(found, "web", record, **spec)
    status(found, "web", updated=updated)
    (step,) = view(found).hold_steps
    assert text in step.kept


@pytest.mark.parametrize(
    ("record", "spec"),
    [(HELD, {"paused": False}), (RELEASED, {"paused": False, "strategy": {"type": "Recreate"}})],
    ids=["resumed", "another strategy"],
)
def test_what_another_client_does_ends_the_hold(record: JSON, spec: JSON) -> None:
    found = made()
    change(found, "web", record, **spec)
    (step,) = view(found).hold_steps
    assert not step.releases
    assert step.write is not None
    assert [op.as_json()["op"] for op in step.write.operations] == ["remove"]
    assert "its strategy stays as it is" in step.done


def test_release_that_gets_stuck_fails() -> None:
    found = made()
    change(found, "web", RELEASED, paused=False, strategy=ONE)
    stuck = {"type": "Progressing", "status": "False", "message": "has timed out progressing."}
    status(found, "web", updated=1, conditions=[stuck])
    (step,) = view(found).hold_steps
    assert step.failed
    assert "1 of 3, and it does not go on: has timed out progressing" in step.kept


class Server:
    """Takes patches, or refuses them; the run has no move in flight."""

    in_flight: tuple[str, ...] = ()
    failed = False
    clock = 0.0

    def __init__(self, refuses: type[ApiError] | None = None) -> None:
        self.journal = RunJournal("r1", "x")
        self.keeper = self
        self.patches: list[JSON] = []
        self.refuses = refuses

    def keep_lease(self, *, force: bool) -> None:
        assert force

    def api_while_ours(self) -> Server:
        return self

    def patch(self, path: str, body: JSON) -> None:
        if self.refuses:
            raise self.refuses(ApiRequest("PATCH", path), "no")
        self.patches.append(body)


def advance(server: Server, seen: JudgedSnapshot) -> tuple[Reconciliation, Releases, StepReport]:
    report = StepReport()
    releases, now = Releases(seen.options, report), Reconciliation(seen, NOTHING, NOTHING)
    releases.advance(seen, t.cast(JSON, server), now)
    return now, releases, report


NOTHING: JSON = None


def test_run_releases_one_deployment_and_looks_again() -> None:
    server, seen = Server(), view(made("api", "web"))
    now, _releases, report = advance(server, seen)
    (patch,) = server.patches
    changes = [(x["op"], x["path"]) for x in patch if x["op"] != "test"]
    assert changes == [
        ("add", "/spec/strategy"),
        ("remove", "/spec/paused"),
        ("replace", "/metadata/annotations/placement.virt~1hold"),
    ]
    assert {"op": "test", "path": "/metadata/generation", "value": 2} in patch
    assert now.settling
    assert now.touched
    assert report.changed
    assert report.lines == [
        "Deployment shop/api: its own rollout is resumed with maxSurge 1 and maxUnavailable 0"
    ]


def test_release_waits_for_moves_in_flight() -> None:
    server = Server()
    server.in_flight = ("a move",)
    now, _releases, _report = advance(server, view(made()))
    assert (server.patches, now.settling) == ([], False)
    assert "its own rollout is held by rules" in now.releases


def test_refused_release_is_named_and_not_tried_again() -> None:
    seen = view(made())
    now, releases, report = advance(Server(Forbidden), seen)
    assert not report.changed
    assert now.releases == ""
    assert not releases.has_work(seen)
    (text,) = releases.kept(seen).values()
    assert "Resume it and set its strategy by hand" in text
