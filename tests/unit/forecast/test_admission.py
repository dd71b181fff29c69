# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts of pods that the API server changes or refuses when they are created."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.admission import (
    PodAdmission,
    asked_of_server,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drained import drained
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.launcher import (
    launcher_requests,
)
from ansible_collections.virt.placement.plugins.module_utils.model.admission import (
    LimitRange,
    PodMutator,
    limit_range_from_manifest,
    pod_policy_from_manifest,
    pod_webhooks_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Pod,
    Ref,
    Requirement,
    Selector,
)
from tests.support.cluster import HOST, Cluster, cluster, deployment, machine

JSON = t.Any
SIDECARS = Ref("MutatingWebhookConfiguration", "", "sidecars")


LIMITS = LimitRange("shop", "limits")


def web(made: Cluster, **spec: JSON) -> Ref:
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    return made.workload("Deployment", "web", {"template": template, "replicas": 0})


def scaled(made: Cluster, ref: Ref, replicas: int = 1, **snapshot: JSON) -> Forecast:
    before = dataclasses.replace(made.snapshot(), **snapshot)
    change = what_if(before, scale=(Scale(ref, replicas),))
    return forecast(change, doubts=doubts_of_change(change))


def test_first_pod_beside_a_limit_range_is_not_certain() -> None:
    """It may get requests that its template does not have, or be refused: nothing shows that, and no proof is lost."""
    made = Cluster("a")
    ref = web(made)
    found = scaled(made, ref, limit_ranges=(LIMITS, dataclasses.replace(LIMITS, name="more")))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("admission_unknown",))
    assert found.reasons == (
        "not guaranteed: LimitRange shop/limits, LimitRange shop/more may change or refuse the first pod of Deployment"
        " shop/web",
    )
    elsewhere = scaled(made, ref, limit_ranges=(LimitRange("other", "limits"),))
    assert elsewhere.answer is ForecastResult.GUARANTEED
    large = web(made, containers=[{"name": "a", "resources": {"requests": {"cpu": "90"}}}])
    assert scaled(made, large, limit_ranges=(LIMITS,)).answer is ForecastResult.IMPOSSIBLE


def answered(made: Cluster, ref: Ref, answer: Pod | str) -> Forecast:
    """The forecast of the first pod of a Deployment where the server was asked for it."""
    before = dataclasses.replace(made.snapshot(), limit_ranges=(LIMITS,))
    (workload,) = before.workloads
    change = what_if(before, scale=(Scale(ref, 1),))
    assert asked_of_server(change) == {workload.uid: ref}
    return scaled(made, ref, limit_ranges=(LIMITS,), dry_runs={workload.uid: answer})


@pytest.mark.parametrize(
    ("cpu", "answer", "codes"),
    [
        (1000, ForecastResult.GUARANTEED, ("worst_case",)),
        (90_000, ForecastResult.IMPOSSIBLE, ("no_node",)),
    ],
)
def test_requests_of_the_first_pod_are_those_that_the_server_gives_it(
    cpu: int, answer: ForecastResult, codes: tuple[str, ...]
) -> None:
    made = Cluster("a")
    ref = web(made, containers=[{"name": "a"}])
    found = answered(made, ref, Pod("shop", "web-x", requests={"cpu": cpu}))
    assert (found.answer, found.codes) == (answer, codes)


def test_first_pod_that_the_server_refuses_or_gates_is_not_guaranteed() -> None:
    made = Cluster("a")
    ref = web(made)
    found = answered(made, ref, "maximum cpu usage per Container is 500m. No limit is specified")
    assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("dry_run_refused",))
    assert "maximum cpu usage per Container is 500m" in found.reasons[0]
    gated = answered(made, ref, Pod("shop", "web-x", requests={"cpu": 1000}, gated=True))
    assert (gated.answer, gated.codes) == (ForecastResult.POSSIBLE, ("scheduling_gates",))


def test_pods_that_the_server_changes_since_a_newer_limit_range_are_not_certain() -> None:
    """Running pods do not have what it adds: the answer to a dry run of the template is compared with them."""
    made = Cluster("a")
    ref = web(made)
    made.start(ref, "n1")
    before = dataclasses.replace(made.snapshot(), limit_ranges=(LIMITS,))
    (workload,), (running,) = before.workloads, before.pods
    assert asked_of_server(what_if(before, scale=(Scale(ref, 2),))) == {workload.uid: ref}
    assert scaled(made, ref, 2, limit_ranges=(LIMITS,)).codes == ("admission_unknown",)
    for requests, codes in (
        (running.requests, ("worst_case",)),
        ({**running.requests, "memory": 2**31}, ("admission_unknown",)),
    ):
        created = dataclasses.replace(running, requests=requests)
        dry_runs = {workload.uid: created}
        found = scaled(made, ref, 2, limit_ranges=(LIMITS,), dry_runs=dry_runs)
        assert found.codes == codes


def test_first_start_of_a_vm_beside_a_limit_range_is_possible() -> None:
    made = Cluster("a")
    vm = made.vm("db")
    before = dataclasses.replace(made.snapshot(), limit_ranges=(LIMITS,))
    change = what_if(before, members={vm})
    assert asked_of_server(change) == {}, "its launcher pod is an estimate"
    found = forecast(change, doubts=doubts_of_change(change))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("admission_unknown",))


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ("2026-01-01T00:00:00Z", ForecastResult.GUARANTEED),
        ("2026-01-03T00:00:00Z", ForecastResult.POSSIBLE),
        ("", ForecastResult.POSSIBLE),
    ],
)
@pytest.mark.parametrize("kind", ["migrated", "restarted", "job", "deployment"])
def test_running_pod_shows_what_limit_ranges_older_than_it_make_of_the_next(
    kind: str, changed: str, answer: ForecastResult
) -> None:
    """Only of a LimitRange that was written since may the next pod become another, or be refused."""
    made = cluster("ab", migrates=kind == "migrated")
    if kind == "job":
        made.bare_pod("once-1", "n1")
        owner = {"kind": "Job", "name": "once", "uid": "job", "controller": True}
        made.pods["shop", "once-1"]["metadata"]["ownerReferences"] = [owner]
    elif kind == "deployment":
        deployment(made, "web", ["n1"], {"containers": [{"name": "a"}]})
    else:
        machine(made, "db", "n1")
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    added = dataclasses.replace(LIMITS, changed=changed)
    before = dataclasses.replace(made.snapshot(), limit_ranges=(added,))
    found = forecast(what_if(before, lost_nodes=["n1"]))
    drilled = drill(before, [HOST], event="drain").drills[0]
    assert (found.answer, drilled.answer) == (answer, answer)
    uncertain = answer is ForecastResult.POSSIBLE
    assert ("admission_unknown" in found.codes, "admission_unknown" in drilled.codes) == (
        uncertain,
        uncertain,
    )


@pytest.mark.parametrize("changed", ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"])
def test_vm_that_has_left_a_drained_node_shows_what_older_limit_ranges_made_of_it(
    changed: str,
) -> None:
    """Capacity asks about it once it is on no node any more: it is no first pod."""
    made = cluster("ab")
    machine(made, "db", "n1")
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    added = dataclasses.replace(LIMITS, changed=changed)
    left = drained(dataclasses.replace(made.snapshot(), limit_ranges=(added,)), {"n1"})
    texts = [doubt.text for doubt in PodAdmission(left.snapshot).doubts(left.moved)]
    assert (texts == []) == (changed < "2026-01-02")
    assert not any("first pod" in text for text in texts)


def test_pod_that_requests_more_than_the_running_one_is_not_certain_beside_any_limit_range() -> (
    None
):
    """That one was not refused; a VM that was made larger since may be, once it is restarted."""
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    older = dataclasses.replace(LIMITS, changed="2026-01-01T00:00:00Z")
    before = dataclasses.replace(made.snapshot(), limit_ranges=(older,))
    (running,) = before.pods

    def doubts(**changes: JSON) -> list[str]:
        after = dataclasses.replace(running, uid="", **changes)
        pending = PendingPod(after, running, "recreate", workload=ref)
        return [doubt.text for doubt in PodAdmission(before).doubts([pending])]

    assert doubts() == []
    assert doubts(requests={**running.requests, "memory": 2**40}) == [
        "LimitRange shop/limits may change or refuse the next pod of VirtualMachine shop/db: no running pod shows it"
    ]


def test_proof_that_rests_on_requests_does_not_hold_beside_a_newer_limit_range() -> None:
    """An older one may have set more than the newer one does."""
    made = cluster("ab")
    deployment(made, "web", ["n1"], {"containers": [{"name": "a"}]})
    for pod in made.pods.values():
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "90"}}
    before = made.snapshot()
    assert forecast(what_if(before, lost_nodes=["n1"])).answer is ForecastResult.IMPOSSIBLE
    before = dataclasses.replace(before, limit_ranges=(LIMITS,))
    found = forecast(what_if(before, lost_nodes=["n1"]))
    assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("admission_unknown",))


def test_limit_range_about_claims_alone_is_none() -> None:
    def read(*types: str) -> LimitRange | None:
        spec = {"limits": [{"type": x} for x in types]}
        return limit_range_from_manifest(
            {"metadata": {"namespace": "a", "name": "b"}, "spec": spec}
        )

    assert read("PersistentVolumeClaim") is read() is None
    assert read("PersistentVolumeClaim", "Pod") == LimitRange("a", "b")


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
    assert scaled(made, ref, limit_ranges=None).codes == ("admission_unknown",)
    assert scaled(made, ref, pod_mutators=None).codes == ("admission_unknown",)


def test_webhook_that_selects_the_first_pod_makes_it_uncertain() -> None:
    made = Cluster("a")
    ref = web(made)
    elsewhere = Selector((Requirement("inject", "In", ("yes",)),))
    found = scaled(made, ref, pod_mutators=(PodMutator(SIDECARS, elsewhere),))
    assert found.answer is ForecastResult.GUARANTEED
    found = scaled(made, ref, pod_mutators=(PodMutator(SIDECARS),))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("admission_unknown",))
    assert "MutatingWebhookConfiguration sidecars may change the first pod" in found.reasons[0]
    made.start(ref, "n1")
    assert scaled(made, ref, pod_mutators=(PodMutator(SIDECARS),)).codes != ("admission_unknown",)


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
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("admission_unknown",))
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


@pytest.mark.parametrize(
    ("limits", "answer"), [("8Gi", ForecastResult.POSSIBLE), ("2Gi", ForecastResult.GUARANTEED)]
)
@pytest.mark.parametrize(
    "requests", [{}, {"cpu": "1", "memory": "2Gi"}], ids=["only limits", "both"]
)
def test_limits_that_a_vm_gets_by_its_restart_are_not_certain_beside_an_older_limit_range(
    requests: JSON, limits: str, answer: ForecastResult
) -> None:
    """Its requests may stay the same, and the maximum of a LimitRange is about limits."""
    made = cluster("ab", migrates=False)
    resources = {"requests": requests, "limits": {"cpu": "1", "memory": "2Gi"}}
    ref = machine(made, "db", "n1", {"domain": {"resources": resources}})
    first = made.snapshot()
    asked = launcher_requests({"domain": {"resources": resources}}, first.platform)
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
        amounts = {"cpu": f"{asked['cpu']}m", "memory": str(asked["memory"])}
        pod["spec"]["containers"] = [{"name": "compute", "resources": {"requests": amounts}}]
    changed = {**resources, "limits": {"cpu": "1", "memory": limits}}
    made.workloads[ref]["spec"]["template"]["spec"] = {"domain": {"resources": changed}}
    older = dataclasses.replace(LIMITS, changed="2026-01-01T00:00:00Z")
    before = dataclasses.replace(made.snapshot(), limit_ranges=(older,))
    change = what_if(before, lost_nodes=["n1"])
    drilled = drill(before, [HOST], event="drain").drills[0]
    assert (forecast(change).answer, drilled.answer) == (answer, answer), drilled
