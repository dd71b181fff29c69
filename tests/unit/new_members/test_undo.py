# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The undo of a task that has written a new policy, and no workload."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    POLICY_API,
    POLICY_LISTS,
)
from tests.support.api_server import ApiServer
from tests.support.modules import run
from tests.unit.maintenance.test_kills import three_zones

RULE = {
    "name": "later",
    "run_on": {"zone": "a"},
    "workloads": [{"labels": {"app": "later"}}],
    "allow_findings": ["no_matching_workloads"],
}
OTHER = {**RULE, "name": "other"}


def cluster() -> ApiServer:
    server = three_zones()
    server.served["admissionregistration.k8s.io"] = ["v1"]
    return server


def rules(server: ApiServer, *listed: t.Any, **options: t.Any) -> dict[str, t.Any]:
    wanted = {"namespace": "shop", "rules": [*listed], "new_members": "warn", **options}
    return run(
        "rules", server, {**wanted, "topology_keys": {"zone": "topology.kubernetes.io/zone"}}
    )


def policies(server: ApiServer) -> list[str]:
    return [path for path in server.objects if "/validatingadmissionpolic" in path]


def undo(server: ApiServer, change: str) -> dict[str, t.Any]:
    return rules(server, state="reverted", change=change, new_members="none")


def test_undo_of_a_new_policy_deletes_it() -> None:
    """It said that nothing was undone, and the policy went on giving the rule to new workloads."""
    server = cluster()
    made = rules(server, RULE)
    assert made["workloads"] == []
    assert made["change"]["continues"] is False
    assert len(policies(server)) == 2
    undone = undo(server, made["change"]["id"])
    assert "failed" not in undone, undone["msg"]
    assert (undone["reverted"], undone["changed"]) == ([], True)
    assert [x["code"] for x in undone["outcome"]["done"]] == [
        *("policy_removed", "policy_rules_removed")
    ]
    assert policies(server) == []


def changed(server: ApiServer) -> None:
    rules(server, OTHER)


def made_again(server: ApiServer) -> None:
    for path in policies(server):
        server.objects[path]["metadata"]["uid"] = "another"


def deleted(server: ApiServer) -> None:
    for path in policies(server):
        del server.objects[path]


@pytest.mark.parametrize("since", [changed, made_again, deleted])
def test_policy_that_is_no_longer_that_of_the_task_stays(since: t.Any) -> None:
    server = cluster()
    change = rules(server, RULE)["change"]["id"]
    since(server)
    before = policies(server)
    undone = undo(server, change)
    assert undone["failed"]
    assert f"no longer, that of change {change}" in undone["msg"]
    assert policies(server) == before


def test_policy_that_was_there_before_is_no_change_to_undo() -> None:
    """Its undo would take more out of it than the task has put in."""
    server = cluster()
    rules(server, RULE)
    assert "change" not in rules(server, OTHER)


@pytest.mark.parametrize("may_read", [True, False])
def test_task_for_a_deleted_namespace_says_how_its_policy_goes(may_read: bool) -> None:
    server = cluster()
    rules(server, RULE)
    for path in [x for x in server.objects if x.endswith("/namespaces/shop")]:
        del server.objects[path]
    if not may_read:
        for kind in POLICY_LISTS.values():
            server.add_fault("GET", f"/apis/{POLICY_API}/{kind}", 403)
    refused = rules(server, prune=True, new_members="none")["msg"]
    is_any = "" if may_read else ", if there is one"
    kind = "validatingadmissionpolicy" if may_read else "mutatingadmissionpolicy"
    assert (
        f"there is no namespace 'shop'. To delete its policy for new members{is_any}, run kubectl delete"
        f" {kind}binding,{kind} -l placement.virt/namespace=shop" in refused
    )
    if may_read:
        never = rules(server, namespace="never", prune=True, new_members="none")
        assert "policy" not in never["msg"]
