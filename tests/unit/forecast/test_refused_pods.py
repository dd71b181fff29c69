# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts of pods that admission refuses, as far as the cluster shows it (field cases 63 and 90)."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.admission import (
    asked_of_server,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill_table import n_plus_1
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.admission import (
    PodMutator,
    PodValidator,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from tests.support.cluster import HOST, Cluster, anti_affinity, apart, cluster, deployment, machine
from tests.unit.planning.scenes import pinned

JSON = t.Any
ENFORCE = "pod-security.kubernetes.io/enforce"
RESTRICTED: JSON = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
MESSAGE = (
    'pods "unsealer-5c" is forbidden: violates PodSecurity "restricted:latest": seccompProfile'
)


def enforcing(made: Cluster, **labels: str) -> None:
    made.namespace("shop", **labels)


def secure(made: Cluster, **changes: JSON) -> None:
    """The running pods with what restricted asks for, and `changes`."""
    for pod in made.pods.values():
        for container in pod["spec"]["containers"]:
            container["securityContext"] = {**RESTRICTED, **changes}


def drained(made: Cluster) -> Forecast:
    change = what_if(made.snapshot(), lost_nodes=["n1"])
    return forecast(change, doubts=doubts_of_change(change))


def drilled(made: Cluster) -> tuple[str, tuple[str, ...]]:
    (lost,) = (x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.domain == "n1")
    return lost.answer.value, lost.codes


def test_case_63_drain_of_a_vm_whose_namespace_became_restricted_is_not_guaranteed() -> None:
    made = cluster("ab")
    machine(made, "vault-1", "n1")
    assert drained(made).answer is ForecastResult.GUARANTEED

    secure(made)
    for pod in made.pods.values():
        del pod["spec"]["containers"][0]["securityContext"]["seccompProfile"]
    enforcing(made, **{ENFORCE: "restricted"})

    found = drained(made)
    assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("pod_security",))
    assert found.reasons == (
        "not proven, since namespace shop enforces PodSecurity restricted:latest, which may refuse the next pod of"
        " VirtualMachine shop/vault-1 (seccompProfile)",
    )
    assert drilled(made) == ("unknown", ("pod_security",))


@pytest.mark.parametrize(
    ("labels", "changes", "answer"),
    [
        ({ENFORCE: "restricted"}, {}, "guaranteed"),
        ({ENFORCE: "restricted"}, {"capabilities": {"drop": ["KILL"]}}, "unknown"),
        ({ENFORCE: "baseline"}, {"capabilities": {}}, "guaranteed"),
        ({ENFORCE: "baseline"}, {"privileged": True}, "unknown"),
        ({ENFORCE: "privileged"}, {"privileged": True}, "guaranteed"),
        ({ENFORCE: "misspelt"}, {"capabilities": {}}, "unknown"),
        ({"pod-security.kubernetes.io/warn": "restricted"}, {"privileged": True}, "guaranteed"),
    ],
)
def test_level_that_a_namespace_enforces_is_compared_with_the_running_pod(
    labels: dict[str, str], changes: JSON, answer: str
) -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    secure(made, **changes)
    enforcing(made, **labels)
    assert drained(made).answer.value == answer
    assert drilled(made)[0] == answer


def test_first_pod_of_a_vm_in_a_namespace_with_a_level_is_no_guarantee() -> None:
    made = cluster("ab")
    vm = made.vm("db")
    enforcing(made, **{ENFORCE: "baseline"})
    change = what_if(made.snapshot(), members={vm})
    found = forecast(change, doubts=doubts_of_change(change))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("pod_security",))


def refused(made: Cluster) -> Ref:
    """A Deployment of which the API server refuses each pod: it has none."""
    container = {"name": "main", "securityContext": RESTRICTED}
    template = {"metadata": {"labels": {"app": "unsealer"}}, "spec": {"containers": [container]}}
    ref = made.workload("Deployment", "unsealer", {"template": template, "replicas": 1})
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    made.workloads[ref]["status"] = {"conditions": [{**condition, "message": MESSAGE}]}
    return ref


def test_case_90_more_replicas_of_a_deployment_whose_pods_are_refused_are_not_guaranteed() -> None:
    made = cluster("ab")
    ref = refused(made)
    scale = [Scale(ref, 3)]
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))
    assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("pods_refused",))
    assert found.reasons == (
        f"not proven, since the last pod of Deployment shop/unsealer was refused: {MESSAGE}",
    )

    del made.workloads[ref]["status"]
    change = what_if(made.snapshot(), scale=scale)
    assert forecast(change, doubts=doubts_of_change(change, scale)).answer.value == "guaranteed"


def test_case_90_rule_that_makes_a_new_pod_where_pods_are_refused_is_not_guaranteed() -> None:
    made = cluster("ab")
    ref = refused(made)
    change = what_if(made.snapshot(), writes=[pinned(ref, "a")])
    found = forecast(change, doubts=doubts_of_change(change))
    assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("pods_refused",))


def test_stateful_set_of_which_only_an_event_says_the_refusal_is_as_doubtful() -> None:
    made = cluster("ab")
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main"}]}}
    ref = made.workload("StatefulSet", "db", {"template": template, "replicas": 1})
    snapshot = made.snapshot()
    event = Obstacle("refused", MESSAGE, True)
    workloads = tuple(replace(x, refused_by_event=event) for x in snapshot.workloads)
    before, scale = replace(snapshot, workloads=workloads), [Scale(ref, 3)]
    for change in (
        what_if(before, scale=scale),
        what_if(before, writes=[pinned(ref, "a")]),
    ):
        found = forecast(change, doubts=doubts_of_change(change, scale))
        assert (found.answer, found.codes) == (ForecastResult.UNKNOWN, ("pods_refused",))


QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.mark.parametrize(
    ("name", "labels", "codes"),
    [
        ("gating-mutator", {}, ("scheduling_gates",)),
        ("gating-mutator", {"application-aware-quota/enable-gating": ""}, ("scheduling_gates",)),
        ("kueue-mutating-webhook-configuration", {}, ("worst_case",)),
        ("kueue-mutating-webhook-configuration", {QUEUE: "q"}, ("scheduling_gates",)),
        ("sidecars", {}, ("worst_case",)),
    ],
)
def test_webhook_that_adds_gates_is_a_doubt_also_where_pods_run(
    name: str, labels: dict[str, str], codes: tuple[str, ...]
) -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    enforcing(made, **labels)
    for pod in made.pods.values():
        pod["metadata"]["labels"] |= labels
    (template,) = (x["spec"]["template"] for x in made.workloads.values())
    template["metadata"]["labels"] |= labels
    source = Ref("MutatingWebhookConfiguration", "", name)
    made.more["pod_mutators"] = (PodMutator(source),)

    assert drained(made).codes == codes
    assert drilled(made)[1] == codes


POLICY = PodMutator(Ref("ValidatingAdmissionPolicy", "", "no-latest"))


def with_policy(made: Cluster, changed: str, policy: PodMutator = POLICY) -> None:
    for pod in made.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    made.more["pod_validators"] = (PodValidator(policy, PodMutator(POLICY.source), changed),)


@pytest.mark.parametrize("kind", ["vm", "deployment"])
@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ("2026-01-01T00:00:00Z", "guaranteed"),
        ("2026-01-03T00:00:00Z", "possible"),
        ("", "possible"),
    ],
)
def test_policy_that_is_newer_than_the_running_pod_may_refuse_the_next(
    kind: str, changed: str, answer: str
) -> None:
    made = cluster("ab")
    if kind == "vm":
        machine(made, "db", "n1")
    else:
        deployment(made, "db", ["n1"], {})
    with_policy(made, changed)
    found = drained(made)
    assert (found.answer.value, drilled(made)[0]) == (answer, answer)
    if answer == "possible":
        assert found.codes == drilled(made)[1] == ("admission_unknown",)
        (reason,) = found.reasons
        assert reason.startswith("not guaranteed: ValidatingAdmissionPolicy no-latest may refuse")
        assert reason.endswith("it is newer than the running one")


def test_policy_of_other_pods_is_no_doubt_and_one_that_could_not_be_read_is() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    elsewhere = Selector((Requirement("env", "Exists"),))
    with_policy(made, "", PodMutator(POLICY.source, elsewhere))
    assert drained(made).answer.value == drilled(made)[0] == "guaranteed"
    made.more["pod_validators"] = None
    assert drained(made).codes == drilled(made)[1] == ("admission_unknown",)


def test_policy_may_refuse_the_first_pod_however_old_it_is() -> None:
    made = cluster("ab")
    vm = made.vm("db")
    with_policy(made, "2020-01-01T00:00:00Z")
    change = what_if(made.snapshot(), members={vm})
    found = forecast(change, doubts=doubts_of_change(change))
    assert (found.answer.value, found.codes) == ("possible", ("admission_unknown",))
    assert "may refuse the first pod of VirtualMachine shop/db" in found.reasons[0]


@pytest.mark.parametrize("kind", ["VirtualMachine", "Deployment"])
def test_older_policy_may_refuse_a_pod_with_the_terms_of_a_new_rule(kind: str) -> None:
    """What runs shows that it accepts pods without them."""
    made = cluster("ab")
    if kind == "VirtualMachine":
        machine(made, "db", "n1")
    else:
        deployment(made, "db", ["n1"], {})
    with_policy(made, "2020-01-01T00:00:00Z")
    change = what_if(made.snapshot(), writes=[pinned(Ref(kind, "shop", "db"), "b")])
    found = forecast(change, doubts=doubts_of_change(change))
    assert (found.answer.value, found.codes) == ("possible", ("admission_unknown",))
    (reason,) = found.reasons
    assert reason.endswith(f"of {kind} shop/db: the running one has other constraints")


@pytest.mark.parametrize("kind", ["VirtualMachine", "Deployment"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="nodeSelector"),
        pytest.param({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, id="tolerations"),
    ],
)
def test_older_policy_may_refuse_a_pod_with_a_new_field_of_any_kind(
    kind: str, spec: dict[str, JSON]
) -> None:
    made = cluster("ab")
    for node in made.nodes.values():
        node["metadata"]["labels"]["disk"] = "ssd"
    if kind == "VirtualMachine":
        machine(made, "db", "n1")
    else:
        deployment(made, "db", ["n1"], {})
    made.template(Ref(kind, "shop", "db"))["spec"].update(spec)
    with_policy(made, "2020-01-01T00:00:00Z")
    found = drained(made)
    assert (found.answer.value, found.codes) == ("possible", ("admission_unknown",))


def test_older_policy_may_refuse_a_pod_with_a_term_that_only_the_vmi_has_yet() -> None:
    """KubeVirt changes a VMI while it runs, and not its pod."""
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    made.template(ref)["spec"].update(anti_affinity(apart(tier="web")))
    made.propagate(ref)
    with_policy(made, "2020-01-01T00:00:00Z")
    found = drained(made)
    assert (found.answer.value, found.codes) == ("possible", ("admission_unknown",))


def test_webhook_of_other_namespaces_adds_no_gate() -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    labelled = Selector((Requirement("application-aware-quota/enable-gating", "Exists"),))
    source = Ref("MutatingWebhookConfiguration", "", "gating-mutator")
    made.more["pod_mutators"] = (PodMutator(source, labelled),)

    assert drained(made).codes == ("worst_case",)
    enforcing(made, **{"application-aware-quota/enable-gating": ""})
    assert drained(made).codes == ("scheduling_gates",)


@pytest.mark.parametrize(
    ("answer", "result", "code"),
    [
        ("violates PodSecurity", "unknown", "dry_run_refused"),
        ("", "possible", "pod_security"),
        (None, "unknown", "pod_security"),
    ],
)
def test_answer_of_the_server_counts_where_it_was_asked(
    answer: str | None, result: str, code: str
) -> None:
    """It accepts a pod of this identity; another one may be treated otherwise."""
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    enforcing(made, **{ENFORCE: "restricted"})
    (pod,) = made.snapshot().pods
    change = what_if(made.snapshot(), lost_nodes=["n1"])
    assert asked_of_server(change) == {pod.uid: pod.ref}
    assert asked_of_server(change, drills=True) == {pod.uid: pod.ref}
    if answer is not None:
        made.more["dry_runs"] = {pod.uid: answer or pod}

    found = drained(made)

    assert (found.answer.value, found.codes) == (result, (code,))
    assert (answer or "PodSecurity restricted:latest") in found.reasons[0]
    assert drilled(made) == (result, (code,))


def test_refusal_stands_before_what_only_keeps_a_failure_from_being_guaranteed() -> None:
    """The sentence about N+1 and the rows of a drill name the first reason."""
    made = cluster("ab")
    machine(made, "vault-1", "n1")
    enforcing(made, **{ENFORCE: "restricted"})
    (pod,) = made.snapshot().pods
    made.more["dry_runs"] = {pod.uid: "violates PodSecurity"}
    report = drill(made.snapshot(), [HOST], event="failure")
    (lost,) = (x for x in report.drills if x.domain == "n1")
    assert lost.answer is ForecastResult.UNKNOWN
    assert "violates PodSecurity" in lost.reasons[0]
    assert "violates PodSecurity" in str(n_plus_1(report))
