# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the server would create another pod is asked where this identity may create pods, and nowhere else."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster.access import REVIEWS
from ansible_collections.virt.placement.plugins.module_utils.cluster.pod_dry_runs import (
    first_manifest,
    next_manifest,
    pod_dry_runs,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from tests.support.api_server import ApiServer, Reply, answer, status

PODS = "/api/v1/namespaces/shop/pods"
OWNER = {"kind": "ReplicaSet", "name": "web-5c", "uid": "u", "controller": True}
POD: dict[str, t.Any] = {
    "metadata": {
        "name": "web-5c-x",
        "namespace": "shop",
        "uid": "uid-1",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "managedFields": [{}],
        "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
    },
    "spec": {"nodeName": "n1", "priority": 0, "containers": [{"name": "a"}]},
    "status": {"phase": "Running"},
}
VIOLATES = 'pods "web-5c-" is forbidden: violates PodSecurity "restricted:latest": seccompProfile'


def asked(server: ApiServer, api: ApiClient, *script: Reply) -> dict[str, t.Any]:
    server.plays(*script)
    return pod_dry_runs(api, {"uid-1": Ref("Pod", "shop", "web-5c-x")})


def review(allowed: bool) -> Reply:
    return answer({"status": {"allowed": allowed}})


def test_identity_without_the_right_asks_for_no_pod(server: ApiServer, api: ApiClient) -> None:
    assert asked(server, api, review(False)) == {}
    assert [x.path.partition("?")[0] for x in server.seen] == [REVIEWS]


def test_pod_is_created_as_a_dry_run_without_what_only_it_has(
    server: ApiServer, api: ApiClient
) -> None:
    created = asked(server, api, review(True), answer(POD), answer(POD))["uid-1"]
    assert (created.name, created.requests) == ("web-5c-x", {})
    path, _question, query = server.seen[2].target.partition("?")
    assert (path, "dryRun=All" in query) == (PODS, True)
    assert next_manifest(POD) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "generateName": "web-5c-x-",
            "labels": {"app": "web"},
            "ownerReferences": [OWNER],
        },
        "spec": {"containers": [{"name": "a"}]},
    }


@pytest.mark.parametrize(
    ("code", "reason", "message", "answers"),
    [
        (403, "Forbidden", VIOLATES, {"uid-1": VIOLATES}),
        (403, "Forbidden", 'pods "a" is forbidden: exceeded quota: small', {}),
        (422, "Invalid", "spec.x: Invalid value", {}),
        (500, "InternalError", "a webhook does not answer", {}),
    ],
)
def test_only_what_admission_refuses_is_an_answer(
    server: ApiServer,
    api: ApiClient,
    code: int,
    reason: str,
    message: str,
    answers: dict[str, str],
) -> None:
    refusal = status(code, reason, message)
    assert asked(server, api, review(True), answer(POD), *[refusal] * 9) == answers


def test_pod_of_another_uid_is_not_asked_for(server: ApiServer, api: ApiClient) -> None:
    other = {**POD, "metadata": {**POD["metadata"], "uid": "uid-2"}}
    assert asked(server, api, review(True), answer(other)) == {}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_next_pod_of_a_template_is_created_as_a_dry_run(
    server: ApiServer, api: ApiClient, kind: str
) -> None:
    spec: t.Any = {"containers": [{"name": "a"}], "volumes": [{"name": "tmp", "emptyDir": {}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    metadata = {"name": "web", "namespace": "shop", "uid": "uid-2"}
    workload: t.Any = {"metadata": metadata, "spec": {"template": template}}
    if kind == "StatefulSet":
        workload["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    limited = {"name": "a", "resources": {"requests": {"cpu": "2"}}}
    created = {"metadata": {"name": "web-x"}, "spec": {"containers": [limited]}}
    server.plays(review(True), answer(workload), answer(created))

    found = pod_dry_runs(api, {"uid-2": Ref(kind, "shop", "web")})["uid-2"]

    assert isinstance(found, Pod) and found.requests == {"cpu": 2000}
    assert server.seen[1].path.endswith(f"/{kind.lower()}s/web")
    body = first_manifest(workload)
    assert body["metadata"] == {
        "labels": {"app": "web"},
        "namespace": "shop",
        "generateName": "web-",
    }
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert body["spec"]["volumes"] == [
        *spec["volumes"],
        *([claim] if kind == "StatefulSet" else []),
    ]
