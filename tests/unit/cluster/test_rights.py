# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights are asked for, and what each answer means."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster.access import (
    REVIEWS,
    Right,
    missing_rights,
    require_rights,
    require_write_rights,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write
from tests.support.api_server import RESET, ApiServer, Reply, answer, status

PODS = Right("patch", "", "pods", namespace="shop")


def _says(allowed: t.Any) -> Reply:
    return answer({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}, 201)


@pytest.mark.parametrize(
    ("method", "path", "right", "text"),
    [
        (
            "PATCH",
            "/api/v1/namespaces/shop/pods/a",
            Right("patch", "", "pods", "", "shop", "a"),
            "patch pods a in namespace shop",
        ),
        (
            "POST",
            "/api/v1/namespaces/shop/pods/a/eviction",
            Right("create", "", "pods", "eviction", "shop", "a"),
            "create pods/eviction a in namespace shop",
        ),
        ("PATCH", "/api/v1/nodes/n1", Right("patch", "", "nodes", name="n1"), "patch nodes n1"),
        (
            "PUT",
            "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/a/evacuate/cancel",
            Right(
                "update",
                "subresources.kubevirt.io",
                "virtualmachineinstances",
                "evacuate/cancel",
                "shop",
                "a",
            ),
            "update virtualmachineinstances/evacuate/cancel.subresources.kubevirt.io a"
            " in namespace shop",
        ),
    ],
)
def test_right_of_a_request(method: str, path: str, right: Right, text: str) -> None:
    assert Right.of(errors.ApiRequest(method, path)) == right
    assert str(right) == text


def test_a_review_is_asked_once_and_stores_nothing(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(True))
    assert missing_rights(api, [PODS, PODS]) == ()
    assert len(server.seen) == 1
    assert server.seen[0].target.startswith(f"{REVIEWS}?")
    assert "dryRun=All" in server.seen[0].target
    assert server.seen[0].body["spec"] == {
        "resourceAttributes": {"verb": "patch", "resource": "pods", "namespace": "shop"}
    }


def test_without_needed_rights_no_review_is_sent(server: ApiServer, api: ApiClient) -> None:
    assert missing_rights(api, []) == ()
    require_write_rights(api, [], role="mover")
    assert not server.seen


def test_every_missing_right_is_named_with_the_role_that_grants_it(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(_says(False))
    lease = Right("update", "coordination.k8s.io", "leases", namespace="kube-system")
    nodes = Right("patch", "", "nodes")
    with pytest.raises(InvalidInput) as refused:
        require_rights(api, [PODS, lease, nodes], role="mover")
    assert [str(error) for error in refused.value.errors] == [
        "rights: this identity may not patch nodes, nor patch pods in namespace shop: grant this"
        " identity the ClusterRole virt-placement-mover (rbac/mover.yml)",
        "rights: this identity may not update leases.coordination.k8s.io in namespace kube-system:"
        " grant this identity the Role virt-placement-mover (rbac/mover.yml)",
    ]


def test_missing_rights_of_one_role_are_one_sentence(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(False))
    migrations = Right("create", "kubevirt.io", "virtualmachineinstancemigrations", "", "shop")
    rights = [replace(migrations, verb=verb) for verb in ("create", "delete", "get")]
    with pytest.raises(InvalidInput) as refused:
        require_rights(api, [*rights, PODS], role="mover")
    assert [str(fault) for fault in refused.value.errors] == [
        "rights: this identity may not create, delete or get"
        " virtualmachineinstancemigrations.kubevirt.io in namespace shop, nor patch pods in namespace"
        " shop: grant this identity the ClusterRole virt-placement-mover (rbac/mover.yml)"
    ]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (status(403, "Forbidden"), errors.Forbidden),
        (status(404, "NotFound"), errors.NotFound),
        (answer({"status": {}}), errors.BadAnswer),
        (answer({"status": {"allowed": "true"}}), errors.BadAnswer),
        (answer({}), errors.BadAnswer),
    ],
)
def test_failed_review_is_an_error(
    server: ApiServer, api: ApiClient, reply: Reply, error: type[Exception]
) -> None:
    server.plays(reply)
    with pytest.raises(error):
        missing_rights(api, [PODS])


def test_a_lost_answer_is_asked_for_again(server: ApiServer, api: ApiClient) -> None:
    server.plays(RESET, status(503, "ServiceUnavailable"), _says(True))
    assert missing_rights(api, [PODS]) == ()
    assert len(server.seen) == 3


def _write(name: str) -> Write:
    return Write(
        Ref("Pod", "shop", name), f"/api/v1/namespaces/shop/pods/{name}", f"uid-{name}", (), ()
    )


def test_a_right_for_all_objects_is_one_question(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(True))
    require_write_rights(api, [_write("a"), _write("b")], role="mover")
    assert len(server.seen) == 1


def test_a_right_for_the_named_objects_is_enough(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(False), _says(True))
    require_write_rights(api, [_write("a"), _write("b")], role="mover")
    asked = [each.body["spec"]["resourceAttributes"].get("name") for each in server.seen]
    assert asked[:2] == [None, "a"]
    assert sorted(asked[2:]) == ["a", "b"]


def test_one_object_without_the_right_names_it(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(False), _says(True), _says(False))
    with pytest.raises(InvalidInput) as refused:
        require_write_rights(api, [_write("a")], role="mover")
    assert "may not patch pods a in namespace shop" in str(refused.value)


def test_no_object_with_the_right_is_two_questions(server: ApiServer, api: ApiClient) -> None:
    server.plays(_says(False))
    with pytest.raises(InvalidInput) as refused:
        require_write_rights(api, [_write(f"p{n}") for n in range(50)], role="mover")
    names = [seen.target for seen in server.seen if "/selfsubjectreviews" in seen.path]
    assert (len(server.seen) - len(names), len(names)) == (2, 1), "the last asks for the account"
    assert [fault.message.split(":")[0] for fault in refused.value.errors] == [
        "this identity may not patch pods in namespace shop"
    ]


@pytest.mark.parametrize(
    ("role", "right"),
    [
        ("labeler", Right("patch", "", "nodes")),
        ("mover", Right("patch", "kubevirt.io", "virtualmachines")),
        ("mover", Right("patch", "kubevirt.io", "virtualmachineinstancereplicasets")),
        ("mover", Right("patch", "apps", "deployments")),
        ("mover", Right("patch", "kubevirt.io", "virtualmachineinstances")),
        ("mover", PODS),
    ],
)
def test_the_role_that_a_message_names_grants_the_right(role: str, right: Right) -> None:
    path = Path(__file__).parents[3] / "rbac" / f"{role}.yml"
    shipped = yaml.safe_load(path.read_text())
    roles = shipped["items"] if shipped["kind"] == "List" else [shipped]
    granted = {
        (verb, group, resource)
        for each in roles
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == f"virt-placement-{role}"
        for rule in each["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert (right.verb, right.group, right.resource) in granted
