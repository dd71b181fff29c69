# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expected workloads that were created between the reading of the cluster and their policy."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.flows.policy_writes import (
    with_latecomers,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.rule_policies import (
    policies_result,
    policy_entries,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.new_members.plan import plan_policies
from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import (
    WrittenPolicies,
)
from tests.support.api_server import ApiServer
from tests.unit.rules import builders

RULE = {"name": "one", "run_on": {"zone": "a"}, "workloads": ["late", "ruled", "never"]}
LIST = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines"


def written() -> WrittenPolicies:
    request = replace(builders.request(RULE), new_members="policy")
    plan = plan_policies(request, replace(builders.snapshot(), policies=()))
    return WrittenPolicies(plan, plan.writes)


def server() -> ApiServer:
    """`late` was created before the policy was in force, `ruled` after that."""
    late, ruled = (dict(builders.vm(name).manifest) for name in ("late", "ruled"))
    ruled["metadata"] = {**ruled["metadata"], "annotations": {RULES: "{}"}}
    server = ApiServer()
    server.store("/apis/kubevirt.io/v1/virtualmachines", late, ruled)
    return server


def test_vm_that_was_created_before_its_policy_is_not_called_expected() -> None:
    cluster = server()
    after = with_latecomers(cluster.client(), written())
    (request,) = cluster.seen
    assert request.path == LIST
    result = policies_result(after, "policy")["new_members"]
    assert [x["name"] for x in result["created_meanwhile"]] == ["late"]
    assert [x["name"] for x in result["expected"]] == ["never", "ruled"]
    done, skipped, following = policy_entries(after, "policy", check=False, restores=False)
    assert {x.code: x.objects for x in done}["expected"] == ("shop/never", "shop/ruled")
    assert {x.code: x.objects for x in skipped} == {"created_meanwhile": ("shop/late",)}
    assert [x.code for x in following] == ["created_meanwhile"]


def test_list_that_fails_keeps_the_result_of_what_was_written() -> None:
    cluster = server()
    cluster.add_fault("GET", LIST, 403)
    assert with_latecomers(cluster.client(), written()) == written()


def test_nothing_is_read_where_no_policy_was_written() -> None:
    cluster = server()
    before = written()
    for unchanged in (replace(before, done=()), WrittenPolicies()):
        assert with_latecomers(cluster.client(), unchanged) is unchanged
    without: t.Any = replace(before, plan=replace(before.plan, expected=()))
    assert not with_latecomers(cluster.client(), without).without_rules
    assert not cluster.seen
