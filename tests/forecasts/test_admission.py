# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What admission refuses: forecast, and then seen of the real API server and controllers (field cases 63, 77, 90)."""

from __future__ import annotations

import time
import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import MIGRATION, Stage

JSON = t.Any
ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.fixture
def stage(small: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(small, run_module, namespace(small, "admission"))
    yield begun
    begun.end()


def enforce(stage: Stage, level: str) -> None:
    path = stage.api.path("Namespace", None, stage.namespace)
    stage.api.patch(path, {"metadata": {"labels": {ENFORCE: level}}})


def failure(workload: JSON) -> str:
    """The message of the condition ReplicaFailure."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return "".join(x["message"] for x in conditions if x["type"] == "ReplicaFailure")


def test_case_63_target_pod_of_a_namespace_that_became_restricted_is_refused(stage: Stage) -> None:
    stage.machine("vault-1", "w1", {})
    drain = {"unavailable": {"nodes": ["w1"]}, "event": "drain"}
    assert stage.forecast(**drain)["forecast"] == "guaranteed"
    enforce(stage, "restricted")

    found = stage.forecast(**drain)

    assert (found["forecast"], found["codes"]) == ("unknown", ["pod_security"]), found
    assert found["reasons"] == [
        f"not proven, since namespace {stage.namespace} enforces PodSecurity restricted:latest, which may refuse the"
        f" next pod of VirtualMachine {stage.namespace}/vault-1 (seccompProfile)"
    ]
    admin = stage.forecast(**drain, kubeconfig=str(stage.sandbox.kubeconfig("admin")))
    assert (admin["forecast"], admin["codes"]) == ("unknown", ["dry_run_refused"]), admin
    assert "violates PodSecurity" in admin["reasons"][0]
    stage.create(objects.migration("vault-1", name="vault-1"))
    events = stage.api.wait_list(
        stage.path("Event"),
        lambda listed: any(x["reason"] == "FailedCreate" for x in listed),
        timeout=60,
    )
    assert all("seccompProfile" in x["message"] for x in events if x["reason"] == "FailedCreate")
    stage.api.delete(stage.path(MIGRATION, "vault-1"))

    enforce(stage, "baseline")
    assert stage.forecast(**drain)["forecast"] == "guaranteed"
    stage.create(objects.migration("vault-1", name="again"))
    stage.api.wait(
        lambda x: (x.get("status") or {}).get("phase") == "Succeeded",
        stage.path(MIGRATION, "again"),
        timeout=180,
    )


def test_case_90_deployment_whose_pods_are_refused_is_named(stage: Stage) -> None:
    enforce(stage, "restricted")
    stage.create(objects.deployment("unsealer", replicas=1))
    path = stage.path("Deployment", "unsealer")
    message = failure(stage.api.wait(lambda x: bool(failure(x)), path, timeout=60))

    scale = {"kind": "Deployment", "namespace": stage.namespace, "name": "unsealer", "replicas": 3}
    more = stage.forecast(scale=[scale])
    rule = {"name": "here", "workloads": [{"kind": "Deployment", "name": "unsealer"}]}
    ruled = stage.forecast(namespace=stage.namespace, rules=[{**rule, "run_on": {"node": "w1"}}])

    for found in (more, ruled):
        assert found["forecast"] == "unknown", found
        assert "pods_refused" in found["codes"]
        assert any(message in reason for reason in found["reasons"])
    (pending,) = stage.verdicts()["pending"]
    assert pending["workload"]["name"] == pending["instance"]["name"] == "unsealer"
    assert pending["reason"] == f"the API server refuses its pods; 1 of 1 do not exist: {message}"


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_workload_of_which_only_an_event_says_the_refusal_is_named(stage: Stage, kind: str) -> None:
    """Its controller sets no condition. The reader is the shipped one."""
    enforce(stage, "restricted")
    is_set = kind == "StatefulSet"
    stage.create(objects.stateful_set("db", replicas=2) if is_set else objects.daemon_set("db"))
    stage.api.wait_list(
        stage.path("Event"),
        lambda listed: any(x["reason"] == "FailedCreate" for x in listed),
        timeout=60,
    )

    (pending,) = stage.verdicts()["pending"]

    assert pending["workload"]["name"] == pending["instance"]["name"] == "db"
    assert pending["reason"].startswith("the API server refuses its pods; "), pending
    assert "do not exist: no pod is created for it (newest event FailedCreate)" in pending["reason"]
    assert 'violates PodSecurity "restricted:latest"' in pending["reason"]
    if is_set:
        scale = {"kind": kind, "namespace": stage.namespace, "name": "db", "replicas": 3}
        more = stage.forecast(scale=[scale])
        assert (more["forecast"], "pods_refused" in more["codes"]) == ("unknown", True), more


def test_policy_that_is_newer_than_what_runs_is_a_doubt_also_for_drills_and_capacity(
    stage: Stage,
) -> None:
    """It refuses the pod then. What it asks for is not evaluated."""
    group, name = "admissionregistration.k8s.io/v1", f"no-new-pods-{stage.namespace}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    label = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    matching = {"resourceRules": [rule], "namespaceSelector": label}
    of_policy = {"matchConstraints": matching, "validations": [{"expression": "false"}]}
    of_binding = {"policyName": name, "validationActions": ["Deny"]}
    plural = f"/apis/{group}/validatingadmissionpolic"
    stage.machine("quay-1", "w1", {})
    drain = {"unavailable": {"nodes": ["w1"]}, "event": "drain"}
    assert stage.forecast(**drain)["forecast"] == "guaranteed"
    time.sleep(1.1)  # times of the API have seconds
    stage.api.create(f"{plural}ies", {"metadata": {"name": name}, "spec": of_policy})
    stage.api.create(f"{plural}ybindings", {"metadata": {"name": name}, "spec": of_binding})
    try:
        found = stage.forecast(**drain)
        assert (found["forecast"], found["codes"]) == ("possible", ["admission_unknown"]), found
        assert f"ValidatingAdmissionPolicy {name} may refuse the next pod" in found["reasons"][0]
        drilled = stage.drill(domains_of=["node"], event="drain")
        assert drilled["forecast"] == "possible", drilled
        room = stage.capacity(tolerate=["node"])
        assert room["capacity"] == "possible", room
    finally:
        stage.api.delete(f"{plural}ybindings/{name}")
        stage.api.delete(f"{plural}ies/{name}")


def quota(name: str, hard: JSON, **spec: JSON) -> JSON:
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": hard, **spec},
    }


def test_case_77_quotas_of_other_pods_have_no_effect(stage: Stage) -> None:
    """As drill and capacity ask it each night."""
    classes = stage.api.path("PriorityClass")
    gold = f"gold-{stage.namespace}"
    stage.api.create(classes, {"metadata": {"name": gold}, "value": 1000})
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": [gold]}
    stage.create(quota("no-gold", {"pods": "0"}, scopeSelector={"matchExpressions": [selector]}))
    stage.create(quota("jobs", {"pods": "0"}, scopes=["Terminating"]))
    try:
        stage.machine("quay-1", "w1", {})

        assert stage.forecast(unavailable={"nodes": ["w1"]})["forecast"] == "guaranteed"
        assert stage.drill(domains_of=["node"])["forecast"] == "guaranteed"
        assert stage.capacity(tolerate=["node"])["forecast"] == "guaranteed"
    finally:
        stage.api.delete(stage.api.path("PriorityClass", None, gold))


def test_case_77_pod_that_lacks_what_a_quota_limits_is_refused(stage: Stage) -> None:
    stage.create(quota("limited", {"pods": "9", "limits.cpu": "9"}))
    stage.create(objects.deployment("web", replicas=0))
    scale = {"kind": "Deployment", "namespace": stage.namespace, "name": "web", "replicas": 1}

    found = stage.forecast(scale=[scale])

    assert (found["forecast"], found["codes"]) == ("impossible", ["quota"]), found
    refused = f"ResourceQuota {stage.namespace}/limited refuses a pod with a container that does not specify limits.cpu"
    assert refused in found["reasons"][0]
    stage.scale("web", 1)
    workload = stage.api.wait(
        lambda x: bool(failure(x)), stage.path("Deployment", "web"), timeout=60
    )
    assert "must specify limits.cpu" in failure(workload)
