# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a level of the Pod Security Standards may forbid of a pod: nothing only where every version allows it."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.pod_security import (
    enforced_level,
    forbidden,
    refusing_level,
)

JSON = t.Any
SECURE: JSON = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "volumes": [{"name": "data", "emptyDir": {}}],
    "containers": [
        {
            "name": "main",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
            "livenessProbe": {"httpGet": {"path": "/"}},
        }
    ],
}


def with_changes(pod: JSON = None, context: JSON = None, container: JSON = None) -> JSON:
    """SECURE with changed fields of the pod, of the container's security context and of the container."""
    spec = copy.deepcopy(SECURE) | (pod or {})
    if container or context:
        (main,) = spec["containers"]
        main |= container or {}
        main["securityContext"] |= context or {}
    return spec


def test_pod_with_all_that_restricted_asks_for_is_forbidden_nothing() -> None:
    assert forbidden({}, SECURE) == ((), ())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"pod": {"hostPID": True}}, "host namespaces"),
        ({"pod": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}}, "hostPath volumes"),
        ({"pod": {"initContainers": [{"securityContext": {"privileged": True}}]}}, "privileged"),
        (
            {"pod": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}},
            "forbidden sysctls",
        ),
        ({"context": {"windowsOptions": {"hostProcess": True}}}, "hostProcess"),
        ({"context": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "non-default capabilities"),
        ({"context": {"seLinuxOptions": {"type": "spc_t"}}}, "seLinuxOptions"),
        ({"context": {"seLinuxOptions": {"user": "system_u"}}}, "seLinuxOptions"),
        ({"context": {"procMount": "Unmasked"}}, "procMount"),
        ({"context": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile"),
        ({"context": {"appArmorProfile": {"type": "Unconfined"}}}, "appArmorProfile"),
        ({"container": {"ports": [{"hostPort": 80}]}}, "hostPort"),
        (
            {"container": {"lifecycle": {"preStop": {"tcpSocket": {"host": "db"}}}}},
            "probe or lifecycle host",
        ),
    ],
)
def test_baseline_forbids_what_reaches_the_node(changes: JSON, name: str) -> None:
    baseline, restricted = forbidden({}, with_changes(**changes))
    assert baseline == (name,)
    assert name in restricted


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"pod": {"volumes": [{"name": "x", "nfs": {}}]}}, "restricted volume types"),
        ({"context": {"allowPrivilegeEscalation": True}}, "allowPrivilegeEscalation != false"),
        ({"context": {"capabilities": {"drop": ["KILL"]}}}, "unrestricted capabilities"),
        (
            {"context": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
            "unrestricted capabilities",
        ),
        ({"context": {"runAsNonRoot": False}}, "runAsNonRoot != true"),
        ({"context": {"runAsUser": 0}}, "runAsUser=0"),
        ({"pod": {"securityContext": {"runAsNonRoot": True}}}, "seccompProfile"),
    ],
)
def test_restricted_asks_for_more(changes: JSON, name: str) -> None:
    assert forbidden({}, with_changes(**changes)) == ((), (name,))


@pytest.mark.parametrize("key", ["container.apparmor.security.beta.kubernetes.io/main"])
def test_profile_of_an_old_annotation_counts(key: str) -> None:
    assert forbidden({"annotations": {key: "unconfined"}}, SECURE)[0] == ("appArmorProfile",)
    assert forbidden({"annotations": {key: "runtime/default"}}, SECURE) == ((), ())


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        ({}, ("privileged", "latest")),
        ({"enforce": "baseline", "enforce-version": "v1.30"}, ("baseline", "v1.30")),
        ({"enforce": "no level"}, ("restricted", "latest")),
        ({"warn": "restricted", "audit": "restricted"}, ("privileged", "latest")),
    ],
)
def test_level_of_a_namespace_is_what_it_enforces(
    labels: dict[str, str], level: tuple[str, str]
) -> None:
    prefixed = {f"pod-security.kubernetes.io/{key}": value for key, value in labels.items()}
    assert enforced_level(prefixed) == level


@pytest.mark.parametrize(
    "changes",
    [
        {"pod": {"initContainers": None}},
        {"pod": {"initContainers": [None]}},
        {"pod": {"volumes": [None, {"name": "x", "emptyDir": {}, "hostPath": None, "nfs": None}]}},
        {"container": {"ports": [None], "livenessProbe": None, "startupProbe": {"httpGet": None}}},
        {"container": {"lifecycle": {"preStop": None, "postStart": {"tcpSocket": None}}}},
        {"context": {"seccompProfile": None, "appArmorProfile": None, "runAsNonRoot": None}},
        {"context": {"capabilities": {"drop": [None, "ALL"], "add": [None]}}},
        {"pod": {"securityContext": {**SECURE["securityContext"], "sysctls": [None]}}},
    ],
)
def test_null_counts_as_absent(changes: JSON) -> None:
    assert forbidden({"annotations": None}, with_changes(**changes)) == ((), ())


def test_volume_whose_type_is_null_has_none() -> None:
    volumes = {"volumes": [{"name": "x", "emptyDir": None}]}
    assert forbidden({}, with_changes(volumes)) == ((), ("restricted volume types",))


LACKING = (
    'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false),'
    ' unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), seccompProfile'
    ' (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


@pytest.mark.parametrize(
    ("violations", "level", "admitting"),
    [
        (LACKING, "restricted", "baseline"),
        (f"host namespaces (hostNetwork=true), {LACKING}", "restricted", ""),
        (f'{LACKING}, hostPath volumes (volume "a")', "restricted", ""),
        (
            'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a"'
            ' must not include "SYS_NICE" in securityContext.capabilities.add)',
            "restricted",
            "",
        ),
        ('seccompProfile (pod must not set it to "Unconfined")', "restricted", ""),
        (LACKING[:-9], "restricted", ""),
        ("host namespaces (hostNetwork=true)", "baseline", "privileged"),
    ],
)
def test_level_that_admits_a_refused_pod_is_named_only_where_the_answer_shows_it(
    violations: str, level: str, admitting: str
) -> None:
    answer = f'Error creating: pods "a-b" is forbidden: violates PodSecurity "{level}:v1.36": {violations}'
    assert refusing_level(answer) == (level, admitting)


def test_answer_about_something_else_names_no_level() -> None:
    assert refusing_level('pods "a-b" is forbidden: exceeded quota: small') == ("", "")
