# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task whose findings refuse its workloads, and whose rules are to leave their policy."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import policy_path
from tests.support.modules import run
from tests.unit.maintenance.test_kills import three_zones

from .test_plan import ONE, TWO, ZONE, on_server, planned

VM = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/w1-0"
SPREAD = {"name": "one", "spread": ZONE, "workloads": ["w1-0"]}


def server_with(*rules: t.Any) -> t.Any:
    """A policy with these rules, and a VM that has the spread constraint of a rule of another client."""
    server = three_zones()
    for policy in on_server(planned(*rules).manifests).policies or ():
        server.objects |= {policy_path(x.ref): x.manifest for x in (policy, *policy.bindings)}
    server.served["admissionregistration.k8s.io"] = ["v1"]
    vm = copy.deepcopy(server.objects[VM])
    foreign = {"maxSkew": 3, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    vm["spec"]["template"]["spec"]["topologySpreadConstraints"] = [foreign]
    server.objects[VM] = vm
    return server


def policies(server: t.Any) -> list[str]:
    return sorted(path for path in server.objects if "admissionregistration" in path)


@pytest.mark.parametrize("check", [False, True])
def test_rule_leaves_its_policy_though_findings_refuse_its_workloads(check: bool) -> None:
    server = server_with(ONE)
    before = policies(server)
    assert len(before) == 2
    result = run("rules", server, {"namespace": "shop", "rules": [SPREAD]}, check=check)
    assert [x["type"] for x in result["errors"]] == ["finding"]
    assert "duplicate_spread" in {x["name"] for x in result["findings"]}
    assert policies(server) == (before if check else [])
    assert [x["code"] for x in result["outcome"]["done"]] == [
        *("policy_removed", "policy_rules_removed", "none_written")
    ]
    assert result["changed"]


def test_policy_of_other_rules_stays_where_findings_refuse_the_task() -> None:
    server = server_with(TWO)
    before = policies(server)
    for more in ({}, {"new_members": "policy"}):
        result = run("rules", server, {"namespace": "shop", "rules": [SPREAD], **more})
        assert [x["code"] for x in result["outcome"]["done"]] == ["none_written"]
        assert not result["changed"]
        assert policies(server) == before
