# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on VirtualMachinePools, whose own rollout the write sets aside."""

from __future__ import annotations

import copy
import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.holds.hold import hold_of
from ansible_collections.virt.placement.plugins.module_utils.holds.release import release_of
from ansible_collections.virt.placement.plugins.module_utils.holds.write import hold_findings
from ansible_collections.virt.placement.plugins.module_utils.lint.lint_input import lint_input_of
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules.builders import PLATFORM, applied, request, snapshot, workload
from tests.unit.rules.test_pools import affinity, held, member, planned, pool

JSON = t.Any


@pytest.mark.parametrize("strategy", [None, {}, {"proactive": {}}])
def test_one_patch_writes_the_rule_and_sets_the_rollout_aside(strategy: JSON) -> None:
    found = pool(**({} if strategy is None else {"updateStrategy": strategy}))
    vm, run = member(found)
    result = planned(found, vm, run=[run], workload_rollout="hold")
    (change,) = result.workloads
    assert not result.refused
    assert change.takes_effect == "migration"

    after = held(found)

    assert after.manifest["spec"]["updateStrategy"] == {"opportunistic": {}}
    assert affinity(after.manifest)["podAntiAffinity"]
    again = planned(after, workload_rollout="hold")
    assert (again.writes, again.refused) == ((), ())
    hold = hold_of(after)
    assert hold is not None
    assert not hold.is_over
    given_back = applied(copy.deepcopy(dict(after.manifest)), release_of(hold))
    assert given_back["spec"].get("updateStrategy") == (strategy or None)
    assert HOLD not in given_back["metadata"]["annotations"]


def test_hold_whose_strategy_others_have_changed_is_over() -> None:
    after = held(pool())
    strategies: list[JSON] = [{"proactive": {}}, {"unmanaged": {}}]
    for strategy in strategies:
        after.manifest["spec"]["updateStrategy"] = strategy
        hold = hold_of(after)
        assert hold is not None
        assert hold.is_over


def test_hold_of_a_pool_that_no_rollout_has_ended_is_a_finding() -> None:
    (finding,) = hold_findings(lint_input_of(snapshot(held(pool())), Topology.of()))
    assert finding.name == "workload_rollout_held"
    assert (
        "its update strategy is opportunistic: no change of its template restarts a VM"
        in finding.why
    )
    assert finding.advice.startswith("Run a rollout of it, which gives the strategy back.")
    assert "Before that, give each of its VMIs the label" in finding.advice


def test_opportunistic_pool_restarts_nothing_and_is_not_held() -> None:
    found = pool(updateStrategy={"opportunistic": {}})
    result = planned(found, workload_rollout="hold")
    assert not result.refused
    (write,) = result.writes
    assert HOLD not in json.dumps(write.changes())
    assert any(str(test.pointer) == "/spec/updateStrategy" for test in write.tests)


def test_pool_that_updates_some_of_its_vms_is_not_held() -> None:
    """While it is held, KubeVirt would bring the template to all of them."""
    selectors = {"labelSelector": {"matchLabels": {"tier": "canary"}}}
    found = pool(updateStrategy={"proactive": {"selectionPolicy": {"selectors": selectors}}})
    (finding,) = planned(found, workload_rollout="hold").refused
    assert "only to the VMs that selectionPolicy.selectors select" in finding.why
    assert finding.advice == "Set workload_rollout to allow if that is wanted."
    sorted_only = pool(updateStrategy={"proactive": {"selectionPolicy": {"sortPolicy": "Oldest"}}})
    assert not planned(sorted_only, workload_rollout="hold").refused


@pytest.mark.parametrize("version", ["v1.6.3", "v1.4.0", ""])
def test_kubevirt_without_strategies_cannot_hold(version: str) -> None:
    """The server would drop the strategy, and restart all VMs."""
    platform = replace(PLATFORM, kubevirt=version)
    (finding,) = planned(pool(), platform=platform, workload_rollout="hold").refused
    assert "a pool has an update strategy since KubeVirt 1.7" in finding.why
    assert finding.advice == "Set workload_rollout to allow if that is wanted."


def test_undo_holds_too_and_the_template_is_as_before() -> None:
    before = pool()
    found = held(before)
    hold = hold_of(found)
    assert hold is not None
    found = workload(applied(copy.deepcopy(dict(found.manifest)), release_of(hold)), found.uid)
    undo = request(state="reverted", workload_rollout="hold")
    (write,) = plan_revert(snapshot(found), undo).writes
    after = applied(copy.deepcopy(dict(found.manifest)), write)
    assert (
        after["spec"]["virtualMachineTemplate"] == before.manifest["spec"]["virtualMachineTemplate"]
    )
    assert after["spec"]["updateStrategy"] == {"opportunistic": {}}


def test_write_that_is_made_again_holds_too() -> None:
    result = planned(pool(), workload_rollout="hold")
    (write,) = result.writes
    changed = pool(updateStrategy={"proactive": {}})
    again = result.recompute(write, changed.manifest)
    assert again is not None
    strategy = applied(copy.deepcopy(dict(changed.manifest)), again)["spec"]["updateStrategy"]
    assert strategy == {"opportunistic": {}}


def test_refusal_of_a_write_that_restarts_the_vms_names_the_hold() -> None:
    (finding,) = planned(pool()).refused
    assert finding.advice.endswith("or to hold, so that rollout moves its VMs.")


def test_paused_pool_is_held_since_it_restarts_its_vms_once_it_is_resumed() -> None:
    assert held(pool(paused=True)).manifest["spec"]["updateStrategy"] == {"opportunistic": {}}


def test_vms_of_a_held_pool_that_autohealing_may_delete_are_a_warning() -> None:
    """A VM that is restarted later may find no node, too."""
    result = planned(pool(autohealing={}), workload_rollout="hold")
    (finding,) = result.findings
    assert (finding.severity, result.refused) == ("warning", ())
    assert "deletes each VM of VirtualMachinePool shop/web, with its disks" in finding.why
