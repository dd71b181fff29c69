# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the admission policies of rule sets, and what is not known of them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.read_policies import (
    with_policies,
)
from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    MUTATING,
    POLICY_LISTS,
    VALIDATING,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Namespace
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import new_members
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    mutating_policy,
    warning_policy,
)
from tests.support.api_server import ApiServer
from tests.unit.rules import builders

API = "/apis/admissionregistration.k8s.io/v1"
ONE = {"name": "one", "run_on": {"topology.kubernetes.io/zone": "a"}, "workloads": ["a"]}


def server_of(*manifests: t.Any) -> ApiServer:
    server = ApiServer(
        {f"{API}/{POLICY_LISTS[x['kind']]}/{x['metadata']['name']}": x for x in manifests}
    )
    server.served["admissionregistration.k8s.io"] = ["v1"]
    return server


def both_policies() -> list[t.Any]:
    members = new_members(builders.request(ONE).rules, builders.snapshot()).members
    return [
        manifest
        for make in (mutating_policy, warning_policy)
        for manifest in make("shop", "default", members)
    ]


def test_policies_that_are_written_are_read() -> None:
    read = with_policies(server_of(*both_policies()).client(), Snapshot(), ("shop",))
    assert read.policies is not None
    assert not read.policy_gaps
    assert [(x.kind, x.mutates) for x in read.policies] == [(MUTATING, True), (VALIDATING, False)]
    for policy in read.policies:
        (binding,) = policy.bindings
        assert (policy.namespace, policy.rule_set) == ("shop", "default")
        assert policy.digest == binding.digest != ""
        assert binding.spec["policyName"] == policy.name == binding.name
        assert policy.spec == policy.manifest["spec"]


def test_policies_of_other_namespaces_are_left_out() -> None:
    server = server_of(*both_policies())
    snapshot = Snapshot(namespaces=(Namespace("bank"),))
    assert with_policies(server.client(), snapshot, ("bank",)).policies == ()
    selectors = {request.query["labelSelector"] for request in server.seen}
    assert selectors == {"placement.virt/namespace=bank"}
    for names in (("a", "b"), ("no name",)):
        assert with_policies(server.client(), snapshot, names).policies == ()
    assert {request.query["labelSelector"] for request in server.seen} - selectors == {
        "placement.virt/namespace"
    }
    assert with_policies(server.client(), Snapshot(), ()).policies == ()
    assert len(with_policies(server.client(), Snapshot(), None).policies or ()) == 2


@pytest.mark.parametrize("kind", POLICY_LISTS)
def test_missing_right_is_unknown_and_not_none(kind: str) -> None:
    server = server_of(*both_policies())
    server.add_fault("GET", f"{API}/{POLICY_LISTS[kind]}", 403)
    read = with_policies(server.client(), Snapshot(), ("shop",))
    assert read.policies is None
    (gap,) = read.policy_gaps
    assert gap.resource.startswith(POLICY_LISTS[kind])
    assert not read.unreadable


def test_kubernetes_before_1_36_has_no_mutating_policies() -> None:
    server = server_of(*both_policies())
    for kind in (MUTATING, f"{MUTATING}Binding"):
        server.add_fault("GET", f"{API}/{POLICY_LISTS[kind]}", 404)
    read = with_policies(server.client(), Snapshot(), ("shop",))
    assert [policy.kind for policy in read.policies or ()] == [VALIDATING]


def test_snapshot_that_did_not_read_them_does_not_know_them() -> None:
    assert Snapshot().policies is None
