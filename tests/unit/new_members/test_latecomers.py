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
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.new_members.plan import plan_policies
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    BY_NAME,
    OwnedRule,
    Ownership,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import (
    WrittenPolicies,
)
from sandbox import objects
from tests.support.api_server import ApiServer
from tests.unit.rules import builders

NAMES = ["late", "ruled", "clone", "damaged", "never"]
RULE = {"name": "one", "run_on": {"zone": "a"}, "workloads": NAMES}
LIST = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines"


def written(rule: t.Mapping[str, t.Any] | None = None) -> WrittenPolicies:
    request = replace(builders.request(dict(rule or RULE)), new_members="policy")
    plan = plan_policies(request, replace(builders.snapshot(), policies=()))
    return WrittenPolicies(plan, plan.writes)


def server() -> ApiServer:
    """`late` was created before the policy was in force, though after that of another rule set, `ruled` after both.
    `clone` has the annotation of `ruled`, and `damaged` one that nobody can read."""
    server = ApiServer()
    for name, of_set, by in (
        ("late", "other", "late"),
        ("ruled", "default", "ruled"),
        ("clone", "default", "ruled"),
        ("damaged", "default", ""),
    ):
        rule = RuleId("shop", of_set, "one")
        owned = OwnedRule(declared='{"run_on":{"zone":"a"}}')
        text = Ownership(f"{BY_NAME}{by}", {rule: owned}).text() if by else '"shop/default/one"'
        manifest = builders.vm(name).manifest
        metadata = {**manifest["metadata"], "annotations": {RULES: text}}
        server.store("/apis/kubevirt.io/v1/virtualmachines", {**manifest, "metadata": metadata})
    return server


def test_vm_that_was_created_before_its_policy_is_not_called_expected() -> None:
    cluster = server()
    after = with_latecomers(cluster.client(), written())
    (request,) = cluster.seen
    assert request.path == LIST
    result = policies_result(after, "policy")["new_members"]
    assert [x["name"] for x in result["created_meanwhile"]] == [*("clone", "damaged", "late")]
    assert [x["name"] for x in result["expected"]] == ["never", "ruled"]
    done, skipped, following = policy_entries(after, "policy", check=False, restores=False)
    assert {x.code: x.objects for x in done}["expected"] == ("shop/never", "shop/ruled")
    assert {x.code: x.objects for x in skipped} == {
        "created_meanwhile": ("shop/clone", "shop/damaged", "shop/late")
    }
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


def test_target_of_a_rule_gets_nothing_and_is_not_read() -> None:
    together = {"topology_key": "zone", "with": "late"}
    before = written({"name": "one", "keep_together": together, "workloads": ["web"]})
    after = with_latecomers(server().client(), before)
    assert not after.without_rules
    result = policies_result(after, "policy")["new_members"]
    assert [x["name"] for x in result["expected"]] == ["late", "web"]
    done, _skipped, _next = policy_entries(after, "policy", check=False, restores=False)
    assert {x.code: x.objects for x in done}["expected"] == ("shop/web",)


def test_pool_in_an_older_version_is_read() -> None:
    cluster = ApiServer()
    cluster.served = {"pool.kubevirt.io": ["v1alpha1"]}
    older = {**objects.pool("late", "shop"), "apiVersion": "pool.kubevirt.io/v1alpha1"}
    cluster.store("/apis/pool.kubevirt.io/v1alpha1/virtualmachinepools", older)
    workloads = [{"kind": "VirtualMachinePool", "names": ["late"]}]
    after = with_latecomers(cluster.client(), written({**RULE, "workloads": workloads}))
    assert [ref.name for ref in after.without_rules] == ["late"]


def test_binding_that_is_written_alone_is_named() -> None:
    before = written()
    binding = tuple(x for x in before.done if x.target.kind.endswith("Binding"))
    done, _skipped, _next = policy_entries(
        replace(before, done=binding), "policy", check=False, restores=False
    )
    names = {x.code: x.objects for x in done}["policy_written"]
    assert names == (str(binding[0].target),)
