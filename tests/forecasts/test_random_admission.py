# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random pods under levels of PodSecurity and quotas with scopes: what is said of them, and what the real API server
does with a dry run of each."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.quota import quota_from_manifest
from sandbox import Sandbox
from sandbox.admin_api import AdminApi, ApiFailure
from sandbox.pytest_plugin import MakeNamespace

from .random_cases import FIRST_SEED

JSON = t.Any
PODS = 40
LEVELS = ("baseline", "restricted")
SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort")
CLASSES = ("", "system-node-critical", "system-cluster-critical")


def refusal(api: AdminApi, namespace: str, pod: JSON) -> str:
    """What the server answers to a dry run of the pod; empty where it takes it."""
    try:
        api.request("POST", api.path("Pod", namespace), pod, query={"dryRun": "All"})
    except ApiFailure as error:
        if error.status != 403:
            raise
        return str(error)
    return ""


def maybe(chance: random.Random, *values: JSON) -> JSON:
    """One of the values, or none of them."""
    return chance.choice([None, None, *values])


def without_none(fields: dict[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in fields.items() if value is not None}


def context(chance: random.Random) -> JSON:
    """A security context that is often all that restricted asks for."""
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    changes = {
        "allowPrivilegeEscalation": maybe(chance, True),
        "capabilities": maybe(chance, {"add": ["CHOWN"]}, {"drop": ["ALL"], "add": ["SYS_TIME"]}),
        "runAsNonRoot": maybe(chance, False),
        "runAsUser": maybe(chance, 0, 107),
        "seccompProfile": maybe(chance, {"type": "Unconfined"}),
        "procMount": maybe(chance, "Default"),
        "seLinuxOptions": maybe(chance, {"type": "spc_t"}, {"type": "container_t"}),
    }
    chosen = chance.sample(sorted(changes), chance.choice([0, 0, 1, 2]))
    return without_none({**secure, **{name: changes[name] for name in chosen}})


def pod_of(chance: random.Random, namespace: str) -> JSON:
    amounts: JSON = [{}, {"requests": {"cpu": "1", "memory": "1Mi"}}, {"limits": {"cpu": "1"}}]
    container = without_none(
        {
            "name": "a",
            "image": "example.com/a",
            "securityContext": context(chance),
            "resources": chance.choice(amounts),
            "ports": maybe(
                chance, [{"containerPort": 80, "hostPort": 80}], [{"containerPort": 80}]
            ),
        }
    )
    spec = without_none(
        {
            "containers": [container, {**container, "name": "b", "ports": []}][
                : chance.choice([1, 2])
            ],
            "hostPID": maybe(chance, True) if chance.random() < 0.2 else None,
            "volumes": maybe(
                chance, [{"name": "v", "emptyDir": {}}], [{"name": "v", "hostPath": {"path": "/"}}]
            ),
            "activeDeadlineSeconds": maybe(chance, 60),
            "priorityClassName": chance.choice(CLASSES),
        }
    )
    metadata = {"name": f"pod-{chance.randrange(10**6)}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("level", LEVELS)
def test_pod_that_nothing_is_said_of_is_admitted_by_its_level(
    small: Sandbox, namespace: MakeNamespace, level: str
) -> None:
    chance, api, name = random.Random(FIRST_SEED), small.api, namespace(small, "level")
    labels = {"pod-security.kubernetes.io/enforce": level}
    api.patch(api.path("Namespace", None, name), {"metadata": {"labels": labels}})
    admitted = 0
    for _number in range(PODS):
        manifest = pod_of(chance, name)
        said = pod_from_manifest(manifest).forbidden[LEVELS.index(level)]
        answer = refusal(api, name, manifest)
        assert bool(said) == ("violates PodSecurity" in answer), (said, answer, manifest)
        admitted += not answer
    assert 0 < admitted < PODS


def scope_of(chance: random.Random) -> JSON:
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = chance.sample(CLASSES[1:], 1) if operator in ("In", "NotIn") else []
    of_class = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    simple = {"scopeName": chance.choice(SCOPES), "operator": "Exists"}
    return chance.choice([[of_class], [simple], [of_class, simple]])


def is_counted(quota: JSON) -> bool:
    return bool((quota.get("status") or {}).get("hard"))


def test_quota_refuses_the_pods_that_it_counts(small: Sandbox, namespace: MakeNamespace) -> None:
    chance, api = random.Random(FIRST_SEED), small.api
    for number in range(4):
        name = namespace(small, "scope")
        hard: JSON = chance.choice(
            [{"pods": "0"}, {"pods": "9", "limits.cpu": "9", "requests.memory": "9Gi"}]
        )
        if number == 0:
            hard = {"pods": "9", "limits.cpu": "9"}
        spec = {"hard": hard, "scopeSelector": {"matchExpressions": scope_of(chance)}}
        body = {"metadata": {"name": "q", "namespace": name}, "spec": spec}
        try:
            made = api.create(api.path("ResourceQuota", name), body)
        except ApiFailure as error:  # a scope that does not go with these resources
            if error.status != 422:
                raise
            continue
        path = api.path("ResourceQuota", name, "q")
        api.wait(is_counted, path, timeout=30)
        quota = quota_from_manifest(made)
        assert quota is not None and not quota.unknown_scopes
        for _number in range(PODS // 4):
            manifest = pod_of(chance, name)
            pod = pod_from_manifest(manifest)
            expected = bool(quota.exceeded_by(pod, {}) or quota.missing(pod))
            answer = refusal(api, name, manifest)
            of_quota = "exceeded quota" in answer or "failed quota" in answer
            assert expected == of_quota or "insufficient quota" in answer, (spec, answer, manifest)
