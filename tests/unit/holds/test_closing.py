# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the block that closes a job says of workloads whose own rollouts stay held."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from tests.unit.plugin_utils.test_closing import record, rolled_out

HELD_WEB = {
    "kind": "Deployment",
    "namespace": "shop",
    "name": "web",
    "reason": "Deployment shop/web stays held: 3 of 3 replicas are not of its present template",
}


def test_apply_that_leaves_a_deployment_held_says_how_that_ends() -> None:
    asked = {
        "rules": [],
        "rule_set": "default",
        "namespace": "shop",
        "state": "present",
        "rollout": True,
        "allow": ["migrate"],
        "keep_room_for": [],
    }
    made = record("placement_apply", asked=asked)
    made.note("rules", {"changed": True, "workloads": [], "held": [HELD_WEB]})
    made.note("rollout", {"moves": [], "held": [HELD_WEB]})
    block = closing_of(made, 1)
    assert block.next_steps == (
        "to end the hold of Deployment shop/web: playbook rollout with placement_rollout_namespaces: [shop]"
        " and placement_rollout_allow: [migrate, recreate]",
    )


def test_apply_without_a_rollout_names_what_it_holds() -> None:
    asked = {
        "rules": [],
        "rule_set": "default",
        "namespace": "shop",
        "state": "present",
        "rollout": False,
        "allow": ["migrate"],
        "keep_room_for": [],
    }
    made = record("placement_apply", asked=asked)
    made.note("rules", {"changed": True, "workloads": [], "held": [HELD_WEB]})
    block = closing_of(made, 1)
    assert "workload rollouts held: Deployment shop/web" in block.done
    assert block.next_steps[-1].startswith("to end the hold of Deployment shop/web: playbook")
    checked = record("placement_apply", asked=asked, check_mode=True)
    checked.note("rules", {"changed": True, "workloads": [], "held": [HELD_WEB]})
    block = closing_of(checked, 1)
    assert "workload rollouts that would be held: Deployment shop/web" in block.done
    assert block.next_steps == ("launch the same job without check mode",)


def test_rollout_that_may_not_recreate_names_the_option_and_a_hold_once() -> None:
    entry = {**HELD_WEB, "reason": "a move needs recreate"}
    made = rolled_out(skipped_instances=[entry], held=[HELD_WEB])
    made.asked["allow"] = ["migrate"]
    block = closing_of(made, 1)
    assert block.next_steps == (
        "to end the hold of Deployment shop/web: launch the job with placement_rollout_allow:"
        " [migrate, recreate]",
    )


def test_plan_leaves_a_held_deployment_that_it_does_not_have() -> None:
    entry = {**HELD_WEB, "reason": "a move needs recreate"}
    made = rolled_out(skipped_instances=[entry], held=[HELD_WEB])
    made.asked["plan_file"] = "plan.json"
    assert closing_of(made, 1).next_steps == (
        "for Deployment shop/web, which the plan leaves held: launch the job without"
        " placement_rollout_plan_file",
    )
