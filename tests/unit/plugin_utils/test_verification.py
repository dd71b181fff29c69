# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of a verification."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.verification import (
    failed_states,
    passed,
)

DB = {"kind": "VirtualMachine", "namespace": "shop", "name": "db"}


def instance(namespace: str, verdict: str, **more: t.Any) -> dict[str, t.Any]:
    vmi = {"kind": "VirtualMachineInstance", "namespace": namespace, "name": "db"}
    workload = {**DB, "namespace": namespace}
    return {
        "instance": vmi,
        "workload": workload,
        "verdict": verdict,
        "node": "w1",
        "rules": [],
        **more,
    }


def result(*instances: dict[str, t.Any], **summary: t.Any) -> dict[str, t.Any]:
    return {"instances": list(instances), "summary": summary, "permission_gaps": []}


def failures(*arguments: t.Any) -> list[str]:
    return [line for state in failed_states(*arguments) for line in state.lines]


@pytest.mark.parametrize("verdict", ["violated", "pending"])
def test_rollout_is_advised_for_the_namespaces_with_violations_alone(verdict: str) -> None:
    found = result(instance("shop", verdict), instance("lab", verdict), **{verdict: 2})
    lines = failures(found, ["violated", "pending"])
    assert lines[0] == f"Verification failed: 2 {verdict}."
    advice = "To move every VM that violates a rule, run the playbook rollout for lab, shop."
    assert (advice in lines) == (verdict == "violated")


def test_rules_are_written_to_new_members_before_a_rollout() -> None:
    found = result(instance("shop", "violated"), violated=1)
    found["findings"] = [
        {
            "name": "rule_not_on_new_member",
            "severity": "warning",
            "objects": ["VirtualMachine shop/db"],
        }
    ]
    (advice,) = (x for x in failures(found, ["violated"]) if "playbook rollout" in x)
    assert advice.startswith(
        "First write the rules again with the playbook apply, since VirtualMachine shop/db lack them. To move"
    )


def test_rollout_is_not_advised_where_no_move_repairs() -> None:
    """And a finding of the severity error fails the role where that is asked for."""
    rules = [{"rule": "shop/default/db", "moves_needed": None, "moves_counted": True}]
    finding = {
        "name": "selector_matches_nothing",
        "severity": "error",
        "why": "Why.",
        "advice": "Advice.",
        "objects": ["VirtualMachine shop/db"],
        "rule": "db",
    }
    found = result(instance("shop", "violated"), violated=1, violated_rules=rules)
    found["findings"] = [finding, {**finding, "severity": "warning"}]
    text = "\n".join(failures(found, ["violated", "error_finding"]))
    assert "violates a rule, run the playbook rollout for shop" not in text
    assert "No move repairs these rules as the cluster is now" in text
    assert "Verification failed: 1 error_finding." in text
    assert "selector_matches_nothing (rule db) of VirtualMachine shop/db: Why. Advice." in text


@pytest.mark.parametrize("state", ["violated", "not_enforced"])
def test_instance_is_named_with_its_node_and_rules_unless_the_table_has_them(state: str) -> None:
    """The table counts what is not enforced."""
    rules = [
        {"rule": "shop/default/apart", "verdict": state},
        {"rule": "shop/default/home", "verdict": "satisfied"},
        {"rule": None, "verdict": state},
    ]
    lines = failures(result(instance("shop", state, rules=rules), **{state: 1}), [state])
    named = [line for line in lines if line.startswith("VirtualMachineInstance shop/db on w1 ")]
    of_rule = "runs with the previous constraints of rule shop/default/apart."
    assert named == (
        [f"VirtualMachineInstance shop/db on w1 {of_rule}"] if state == "not_enforced" else []
    )


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("violated", "violates a required constraint."),
        ("pending", "has no node."),
        ("unknown", "is not known to obey its rules."),
        ("down", "is down, since its node is not Ready."),
        ("preference_not_met", "does not meet a preferred constraint."),
        ("not_enforced", "runs with the previous constraints."),
        (
            "constraint_removed",
            "lacks a constraint of a rule, which was removed from its workload.",
        ),
    ],
)
def test_each_state_is_a_sentence(state: str, sentence: str) -> None:
    bad = instance("shop", state) if state not in ("down", "constraint_removed") else None
    bad = bad or instance("shop", "satisfied", **{state: True})
    (failed,) = failed_states(result(bad, **{state: 1}), [state])
    assert failed.reason == f"1 {state}: VirtualMachineInstance shop/db on w1 {sentence}"


def test_removed_constraint_is_named_beside_another_verdict() -> None:
    rules = [{"rule": "apart", "verdict": "satisfied", "constraint_removed": True}]
    found = result(
        instance("shop", "satisfied", constraint_removed=True, rules=rules), constraint_removed=1
    )
    lines = failures(found, ["constraint_removed"])
    assert lines[1].endswith(
        " lacks a constraint of rule apart, which was removed from its workload."
    )
    assert "Write the rules again: playbook apply or module rules." in lines[2]


def test_reason_names_the_first_workload_and_its_cause() -> None:
    """The block had a number alone."""
    rules = [
        {"rule": "shop/default/home", "verdict": "satisfied", "reason": ""},
        {"rule": "shop/default/apart", "verdict": "violated", "reason": "db-2 runs on w1"},
    ]
    waits = [{"rule": None, "verdict": "pending", "reason": "0/6 nodes are available"}]
    bad = instance("shop", "violated", rules=rules)
    found = result(bad, instance("lab", "violated"), violated=2, pending=1, down=1)
    found["instances"] += [
        instance("shop", "pending", rules=waits, node=""),
        instance("lab", "satisfied", down=True),
    ]
    assert [x.reason for x in failed_states(found, ["violated", "pending", "down", "unknown"])] == [
        "2 violated, such as VirtualMachineInstance shop/db on w1: rule shop/default/apart: db-2"
        " runs on w1",
        "1 pending: VirtualMachineInstance shop/db: 0/6 nodes are available",
        "1 down: VirtualMachineInstance lab/db on w1 is down, since its node is not Ready.",
    ]


def test_only_some_workloads_are_counted() -> None:
    found = result(instance("shop", "violated"), instance("lab", "violated"), violated=2)
    assert failures(found, ["violated"], [DB])[0] == "Verification failed: 1 violated."
    assert failures(found, ["violated"], []) == []


def test_instances_that_fail_and_that_the_job_did_not_move_are_named() -> None:
    found = result(instance("shop", "violated"), instance("lab", "violated"), violated=2)
    other = "Not moved by this job, and violated: VirtualMachineInstance lab/db on w1."
    assert failures(found, ["violated"], [DB])[-1] == other
    good = result(instance("shop", "satisfied"), instance("lab", "violated"), violated=1)
    assert failures(good, ["violated"], [DB]) == []
    assert passed(good, ["violated"], [DB]) == [
        "Verification passed: no instance that this job moved is in one of these states: violated.",
        other,
    ]
    assert len(passed(good, ["pending"], [DB])) == 1


@pytest.mark.parametrize("effect", ["migration", "restart"])
def test_violated_vm_that_only_a_restart_moves_is_told_so(effect: str) -> None:
    rule = {"rule": "shop/default/a", "verdict": "violated", "takes_effect": effect}
    found = result(instance("shop", "violated", rules=[rule]), violated=1)
    (advice,) = [x for x in failures(found, ["violated"]) if x.startswith("To move every VM")]
    needs = "placement_rollout_allow: [migrate, restart]" in advice
    assert needs == (effect == "restart")


def test_lists_that_could_not_be_read_are_named_as_what_is_unknown() -> None:
    """Their reason is in the table above."""
    found = result(unknown=3)
    lists = ("pods", "nodes", "virtualmachineinstances", "pods")
    found["permission_gaps"] = [{"resource": name} for name in lists]
    assert failures(found, ["unknown"]) == [
        "Verification failed: 3 unknown, since pods, nodes and virtualmachineinstances could not be read."
    ]


@pytest.mark.parametrize("count", [0, 2])
def test_passed_verification_counts_what_is_not_enforced(count: int) -> None:
    found = result(not_enforced=count, preference_missed=count)
    text = " ".join(passed(found, ["violated"]))
    assert "Verification passed: no instance is in one of these states: violated." in text
    assert (f"{count} not_enforced: " in text) == (count > 0)
    assert (f"{count} instances on nodes that do not meet a preferred rule" in text) == (count > 0)


def test_what_needs_a_restart_is_not_sent_to_a_rollout_that_only_migrates() -> None:
    rule = {"rule": "shop/default/db", "verdict": "not_enforced", "takes_effect": "restart"}
    found = result(instance("shop", "not_enforced", rules=[rule]), not_enforced=1)
    text = "\n".join(passed(found, ["violated"]))
    assert "1 not_enforced: changes of rules take effect at the next restart. To make them" in text
    assert text.endswith("placement_rollout_allow: [migrate, restart].")


def test_instances_are_counted_by_what_enforces_their_rules() -> None:
    kinds = [["migration"], ["migration", "restart"], ["restart"], ["recreate"]]
    found = result(
        *(
            instance("shop", "not_enforced", rules=[{"rule": "r", "takes_effect": x} for x in each])
            for each in kinds
        ),
        not_enforced=4,
    )
    assert (
        "take effect at the next migration or restart (1 of them), the next restart (2 of them),"
        " the next recreation (1 of them). To make"
    ) in "\n".join(passed(found, []))
