# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a namespace that was deleted."""

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


def cluster() -> ApiServer:
    server = three_zones()
    server.served["admissionregistration.k8s.io"] = ["v1"]
    return server


def rules(server: ApiServer, *listed: t.Any, **options: t.Any) -> dict[str, t.Any]:
    wanted = {"namespace": "shop", "rules": [*listed], "new_members": "warn", **options}
    return run(
        "rules", server, {**wanted, "topology_keys": {"zone": "topology.kubernetes.io/zone"}}
    )


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
