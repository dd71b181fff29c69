# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts of pods that the API server changes or refuses when they are created."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.admission import (
    admission_doubts,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.admission import (
    PodMutator,
    pod_policy_from_manifest,
    pod_webhooks_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.limit_range import (
    LimitRange,
    limit_range_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Requirement,
    Selector,
)
from tests.unit.compliance.cluster import HOST, Cluster
from tests.unit.planning.scenes import cluster, deployment, machine

JSON = t.Any
SIDECARS = Ref("MutatingWebhookConfiguration", "", "sidecars")


def limits(**limit: JSON) -> LimitRange:
    spec = {"limits": [{"type": "Container", **limit}]}
    metadata = {"namespace": "shop", "name": "limits"}
    found = limit_range_from_manifest({"metadata": metadata, "spec": spec})
    assert found is not None
    return found


def web(made: Cluster, **spec: JSON) -> Ref:
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    return made.workload("Deployment", "web", {"template": template, "replicas": 0})


def scaled(made: Cluster, ref: Ref, replicas: int = 1, **snapshot: JSON) -> Forecast:
    before = dataclasses.replace(made.snapshot(), **snapshot)
    change = what_if(before, scale=(Scale(ref, replicas),))
    return forecast(change, doubts=admission_doubts(change))


def test_default_requests_of_a_limit_range_take_room() -> None:
    made = Cluster("a")
    ref = web(made, containers=[{"name": "a"}])
    assert scaled(made, ref).answer is ForecastResult.GUARANTEED
    large = scaled(made, ref, limit_ranges=(limits(defaultRequest={"cpu": "20"}),))
    assert large.answer is ForecastResult.IMPOSSIBLE
    assert "Insufficient cpu" in large.reasons[0]


def test_pod_that_a_limit_range_refuses_is_impossible() -> None:
    made = Cluster("a")
    found = scaled(made, web(made), limit_ranges=(limits(max={"cpu": "500m"}),))
    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert found.codes == ("limit_range",)
    assert found.reasons == (
        "no pod of Deployment shop/web is created: LimitRange shop/limits refuses container a: maximum cpu usage per"
        " Container is 500m. No limit is specified",
    )


def test_running_pods_without_the_defaults_make_the_next_one_uncertain() -> None:
    made = Cluster("a")
    ref = web(made)
    made.start(ref, "n1")
    added = limits(defaultRequest={"memory": "2Gi"})
    before = dataclasses.replace(made.snapshot(), limit_ranges=(added,))
    change = what_if(before, scale=(Scale(ref, 2),))
    assert forecast(change, doubts=admission_doubts(change)).codes == ("limit_range_unknown",)


def test_first_start_of_a_vm_beside_a_limit_range_is_possible() -> None:
    made = Cluster("a")
    vm = made.vm("db")
    before = dataclasses.replace(made.snapshot(), limit_ranges=(limits(max={"cpu": "4"}),))
    change = what_if(before, members={vm})
    found = forecast(change, doubts=admission_doubts(change))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("limit_range_unknown",))


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ("2026-01-01T00:00:00Z", ForecastResult.GUARANTEED),
        ("2026-01-03T00:00:00Z", ForecastResult.POSSIBLE),
        ("", ForecastResult.POSSIBLE),
    ],
)
@pytest.mark.parametrize("kind", ["migrated", "restarted", "job"])
def test_running_pod_shows_what_limit_ranges_older_than_it_make_of_the_next(
    kind: str, changed: str, answer: ForecastResult
) -> None:
    """Only of a LimitRange that was written since may the next pod become another, or be refused."""
    made = cluster("ab", migrates=kind == "migrated")
    if kind == "job":
        made.bare_pod("once-1", "n1")
        owner = {"kind": "Job", "name": "once", "uid": "job", "controller": True}
        made.pods["shop", "once-1"]["metadata"]["ownerReferences"] = [owner]
    else:
        machine(made, "db", "n1")
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    added = dataclasses.replace(limits(max={"cpu": "4"}), changed=changed)
    before = dataclasses.replace(made.snapshot(), limit_ranges=(added,))
    found = forecast(what_if(before, lost_nodes=["n1"]))
    drilled = drill(before, [HOST], event="drain").drills[0]
    assert (found.answer, drilled.answer) == (answer, answer)
    uncertain = answer is ForecastResult.POSSIBLE
    assert ("limit_range_unknown" in found.codes, "limit_range_unknown" in drilled.codes) == (
        uncertain,
        uncertain,
    )


def test_drill_and_forecast_of_a_drain_know_that_a_limit_range_refuses_the_next_pod() -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {"containers": [{"name": "a"}]})
    before = dataclasses.replace(made.snapshot(), limit_ranges=(limits(min={"cpu": "2"}),))
    found = forecast(what_if(before, lost_nodes=["n1"]))
    drilled = drill(before, [HOST], event="drain").drills[0]
    assert (found.answer, found.codes) == (ForecastResult.IMPOSSIBLE, ("limit_range",))
    assert (drilled.answer, drilled.codes) == (ForecastResult.IMPOSSIBLE, ("limit_range",))
    assert [ref.name for ref in drilled.pending] == ["web-0"]
    assert drilled.min_down == 1
    assert "minimum cpu usage per Container is 2" in drilled.reasons[0]


def test_change_of_a_limit_range_is_its_last_write() -> None:
    def read(*times: str) -> str:
        metadata = {
            "namespace": "shop",
            "name": "limits",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"time": time} for time in times],
        }
        spec = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
        found = limit_range_from_manifest({"metadata": metadata, "spec": spec})
        assert found is not None
        return found.changed

    assert read("2026-01-02T00:00:00Z", "2026-01-01T12:00:00Z") == "2026-01-02T00:00:00Z"
    assert read() == "", "who removes managedFields hides when it was written"


def test_what_could_not_be_read_takes_the_guarantee_away() -> None:
    made = Cluster("a")
    ref = web(made)
    assert scaled(made, ref, limit_ranges=None).codes == ("limit_range_unread",)
    assert scaled(made, ref, pod_mutators=None).codes == ("webhooks_unread",)


def test_webhook_that_selects_the_first_pod_makes_it_uncertain() -> None:
    made = Cluster("a")
    ref = web(made)
    elsewhere = Selector((Requirement("inject", "In", ("yes",)),))
    found = scaled(made, ref, pod_mutators=(PodMutator(SIDECARS, elsewhere),))
    assert found.answer is ForecastResult.GUARANTEED
    found = scaled(made, ref, pod_mutators=(PodMutator(SIDECARS),))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("pod_webhook",))
    assert "MutatingWebhookConfiguration sidecars may change the first pod" in found.reasons[0]
    made.start(ref, "n1")
    assert scaled(made, ref, pod_mutators=(PodMutator(SIDECARS),)).codes != ("pod_webhook",)


def test_webhooks_of_kubevirt_and_of_other_resources_are_none() -> None:
    def read(name: str, **rule: JSON) -> tuple[PodMutator, ...]:
        rules = [{"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"], **rule}]
        return pod_webhooks_from_manifest(
            {"metadata": {"name": name}, "webhooks": [{"rules": rules}]}
        )

    assert read("sidecars") == (PodMutator(SIDECARS),)
    assert read("sidecars", resources=["*"], operations=["*"]) == (PodMutator(SIDECARS),)
    for resource in ("*/*", "pods/*"):
        assert read("sidecars", resources=[resource]) == (PodMutator(SIDECARS),)
    assert read("virt-api-mutator") == ()
    assert read("sidecars", resources=["pods/exec"]) == ()
    assert read("sidecars", operations=["DELETE"]) == ()


def test_policy_that_changes_pods_is_like_a_webhook() -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"]}
    selector = {"matchLabels": {"app": "web"}}
    constraints = {"resourceRules": [rule], "objectSelector": selector}
    manifest = {"metadata": {"name": "defaults"}, "spec": {"matchConstraints": constraints}}
    policy = pod_policy_from_manifest(manifest)
    assert policy is not None
    made = Cluster("a")
    found = scaled(made, web(made), pod_mutators=(policy,))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("pod_webhook",))
    assert "MutatingAdmissionPolicy defaults may change the first pod" in found.reasons[0]
    constraints["resourceRules"] = [{**rule, "resources": ["services"]}]
    assert pod_policy_from_manifest(manifest) is None


def test_scheduling_gates_and_device_claims_take_the_guarantee_away() -> None:
    made = Cluster("a")
    gated = scaled(made, web(made, schedulingGates=[{"name": "example.com/gate"}]))
    assert (gated.answer, gated.codes) == (ForecastResult.POSSIBLE, ("scheduling_gates",))
    devices = scaled(made, web(made, resourceClaims=[{"name": "gpu"}]))
    assert (devices.answer, devices.codes) == (ForecastResult.POSSIBLE, ("device_claims",))
    new = scaled(made, web(made, schedulingGroup={"podGroupName": "x"}))
    assert (new.answer, new.codes) == (ForecastResult.POSSIBLE, ("unmodeled_field",))


def test_first_pod_whose_class_or_account_may_be_missing_is_not_certain() -> None:
    """The API server refuses a pod without its PriorityClass or its ServiceAccount; a pod that runs has them."""
    for field, named in (
        ("priorityClassName", "PriorityClass gold"),
        ("serviceAccountName", "ServiceAccount gold"),
    ):
        made = Cluster("a")
        ref = web(made, **{field: "gold"})
        change = what_if(made.snapshot(), scale=(Scale(ref, 1),))
        found = forecast(change, doubts=doubts_of_change(change, (Scale(ref, 1),)))
        assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("next_pod_estimated",))
        assert f"may be refused: nothing read shows that its {named} exists" in found.reasons[0]
        made.start(ref, "n1")
        change = what_if(made.snapshot(), scale=(Scale(ref, 2),))
        found = forecast(change, doubts=doubts_of_change(change, (Scale(ref, 2),)))
        assert found.answer is ForecastResult.GUARANTEED


def test_pod_whose_template_names_a_node_is_seen_by_no_scheduler() -> None:
    """Neither a node that is missing nor one that is full or cordoned keeps it from being created there."""
    made = Cluster("ab")
    ref = web(made, nodeName="n9")
    first = scaled(made, ref)
    assert (first.answer, first.codes) == (ForecastResult.POSSIBLE, ("named_node",))
    made.start(ref, "n1")
    next_one = scaled(made, ref, 2)
    assert (next_one.answer, next_one.codes) == (ForecastResult.POSSIBLE, ("named_node",))
    for node in ("n1", "n2"):
        made.nodes[node]["spec"]["unschedulable"] = True
    assert scaled(made, ref, 2).answer is not ForecastResult.IMPOSSIBLE
    made.nodes["n2"]["spec"]["unschedulable"] = False
    lost = forecast(what_if(made.snapshot(), lost_nodes={"n1"}))
    assert (lost.answer, lost.codes) == (ForecastResult.POSSIBLE, ("named_node",))


def test_next_pod_of_a_gated_template_is_gated_though_its_pod_runs() -> None:
    made = Cluster("ab")
    ref = web(made, schedulingGates=[{"name": "example.com/gate"}])
    del made.start(ref, "n1")["spec"]["schedulingGates"]
    found = forecast(what_if(made.snapshot(), lost_nodes={"n1"}))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("scheduling_gates",))
