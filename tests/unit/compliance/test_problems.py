# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verification says of what fails it, and of what is to do."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.problems import (
    Problem,
    entries,
    problems,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.vm_states import (
    NO_VMS,
    NotMigratable,
    VmStates,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import (
    UNCOUNTED,
    InstanceVerdict,
    MoveCount,
    RuleVerdict,
    Verdict,
    Verdicts,
)

DB = Ref("VirtualMachine", "shop", "db")
VIOLATED, PENDING = Verdict.VIOLATED, Verdict.PENDING
SATISFIED, NOT_ENFORCED = Verdict.SATISFIED, Verdict.NOT_ENFORCED
MISSED = Verdict.PREFERENCE_NOT_MET


def rule(verdict: Verdict, name: str = "shop/default/a", **more: t.Any) -> RuleVerdict:
    return RuleVerdict(name, verdict, **more)


def instance(
    namespace: str, verdict: Verdict, *rules: RuleVerdict, node: str = "w1", down: bool = False
) -> InstanceVerdict:
    vmi = Ref("VirtualMachineInstance", namespace, "db")
    workload = Ref("VirtualMachine", namespace, "db")
    return InstanceVerdict(vmi, "uid", workload, node, {}, verdict, rules, down=down)


def verdicts(*instances: InstanceVerdict, moves: MoveCount = 1, **more: t.Any) -> Verdicts:
    violated = {"shop/default/a": moves} if any(x.verdict is VIOLATED for x in instances) else {}
    return Verdicts(instances, moves_needed=violated, **more)


def of_state(found: Verdicts, state: str, *findings: Finding, **only: t.Any) -> Problem | None:
    return {x.state: x for x in problems(found, findings, **only)}.get(state)


def lines(found: Verdicts, state: str, *findings: Finding) -> tuple[str, ...]:
    problem = of_state(found, state, *findings)
    return problem.lines if problem else ()


def steps(found: Verdicts, *findings: Finding) -> list[tuple[str, str]]:
    made = entries(found, findings, NO_VMS, ())["outcome"]["next"]
    return [(x["code"], x["text"]) for x in made]


NEW_MEMBER = Finding("rule_not_on_new_member", "warning", "Why.", "Do.", (DB,))


@pytest.mark.parametrize("state", [VIOLATED, PENDING])
def test_rollout_is_advised_for_the_namespaces_with_violations_alone(state: Verdict) -> None:
    found = verdicts(instance("shop", state), instance("lab", state))
    assert lines(found, state)[0] == f"Verification failed: 2 {state}."
    advice = "To move every VM that violates a rule, run the playbook rollout for lab, shop."
    assert (advice in lines(found, state)) == (state is VIOLATED)


def test_rules_are_written_to_new_members_before_a_rollout() -> None:
    found = verdicts(instance("shop", VIOLATED))
    assert lines(found, VIOLATED, NEW_MEMBER)[-1].startswith(
        "First write the rules again with the playbook apply, since VirtualMachine shop/db lack them. To move"
    )
    assert steps(found, NEW_MEMBER) == [
        (
            "rule_not_on_new_member",
            "write the rules again with the playbook apply: they are not on VirtualMachine shop/db",
        ),
        ("rollout", "to move what violates a rule: playbook rollout"),
    ]


@pytest.mark.parametrize(
    ("moves", "code", "line"),
    [
        (1, "rollout", "To move every VM"),
        (UNCOUNTED, "rollout", "To move every VM"),
        (None, "violated", "No move repairs these rules as the cluster is now"),
    ],
)
def test_rollout_is_the_next_step_only_where_a_move_repairs(
    moves: MoveCount, code: str, line: str
) -> None:
    found = verdicts(instance("shop", VIOLATED), moves=moves)
    assert [x for x, _text in steps(found)] == [code]
    assert lines(found, VIOLATED)[-1].startswith(line)


def test_finding_that_is_an_error_is_a_problem() -> None:
    error = Finding("selector_matches_nothing", "error", "Why.", "Advice.", (DB,), "db")
    found = of_state(verdicts(), "error_finding", error, NEW_MEMBER)
    text = "selector_matches_nothing (rule db) of VirtualMachine shop/db: Why. Advice."
    assert found is not None
    assert (found.count, found.lines) == (1, ("Verification failed: 1 error_finding.", text))
    assert found.text == f"1 error_finding: {text}"


@pytest.mark.parametrize("state", [VIOLATED, NOT_ENFORCED])
def test_instance_is_named_with_its_node_and_rules_unless_the_table_has_them(
    state: Verdict,
) -> None:
    """The table counts what is not enforced."""
    rules = (rule(state, "shop/default/apart"), rule(SATISFIED), rule(state, ""))
    named = [
        line
        for line in lines(verdicts(instance("shop", state, *rules)), state)
        if line.startswith("VirtualMachineInstance shop/db on w1 ")
    ]
    of_rule = "runs with the previous constraints of rule shop/default/apart."
    assert named == (
        [f"VirtualMachineInstance shop/db on w1 {of_rule}"] if state is NOT_ENFORCED else []
    )


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("violated", "violates a required constraint."),
        ("pending", "has no node."),
        ("unknown", "is not known to obey its rules."),
        ("preference_not_met", "does not meet a preferred constraint."),
        ("not_enforced", "runs with the previous constraints."),
    ],
)
def test_each_state_is_a_sentence(state: str, sentence: str) -> None:
    found = of_state(verdicts(instance("shop", Verdict(state))), state)
    assert found is not None
    assert found.text == f"1 {state}: VirtualMachineInstance shop/db on w1 {sentence}"


def test_removed_constraint_is_named_beside_another_verdict() -> None:
    removed = rule(SATISFIED, "apart", constraint_removed=True)
    found = verdicts(instance("shop", SATISFIED, removed))
    _first, sentence, advice = lines(found, "constraint_removed")
    assert sentence.endswith(
        " lacks a constraint of rule apart, which was removed from its workload."
    )
    assert "Write the rules again: playbook apply or module rules." in advice
    assert steps(found) == [
        (
            "constraint_removed",
            "constraints of rules were removed: write the rules again with the playbook apply",
        )
    ]


def test_reason_names_the_first_workload_and_its_cause() -> None:
    """The block had a number alone."""
    found = verdicts(
        instance(
            "shop",
            VIOLATED,
            rule(SATISFIED, "shop/default/home"),
            rule(VIOLATED, "shop/default/apart", reason="db-2 runs on w1"),
        ),
        instance("lab", VIOLATED),
        instance("shop", PENDING, rule(PENDING, "", reason="0/6 nodes are available"), node=""),
        instance("lab", SATISFIED, down=True),
    )
    assert [x.text for x in problems(found, ())] == [
        "2 violated, such as VirtualMachineInstance shop/db on w1: rule shop/default/apart: db-2"
        " runs on w1",
        "1 pending: VirtualMachineInstance shop/db: 0/6 nodes are available",
        "1 down: VirtualMachineInstance lab/db on w1 is down, since its node is not Ready.",
    ]


def test_vms_of_a_node_that_is_down_wait_for_its_fencing() -> None:
    assert steps(verdicts(instance("lab", SATISFIED, down=True))) == [
        (
            "down",
            "for what is down: bring its node back, or fence it once it is surely off; KubeVirt then starts VMs"
            " elsewhere",
        )
    ]


def test_only_some_workloads_are_counted_and_the_others_are_named() -> None:
    found = verdicts(instance("shop", VIOLATED), instance("lab", VIOLATED))
    only = of_state(found, "violated", only={DB})
    assert only is not None
    assert only.lines[0] == "Verification failed: 1 violated."
    assert only.elsewhere == ("VirtualMachineInstance lab/db on w1",)
    none = of_state(found, "violated", only=set())
    assert none is not None
    assert (none.count, len(none.elsewhere)) == (0, 2)


@pytest.mark.parametrize("effect", ["migration", "restart"])
def test_violated_vm_that_only_a_restart_moves_is_told_so(effect: str) -> None:
    found = verdicts(instance("shop", VIOLATED, rule(VIOLATED, takes_effect=effect)))
    needs = "placement_rollout_allow: [migrate, restart]" in lines(found, VIOLATED)[-1]
    assert needs == (effect == "restart")


def test_lists_that_could_not_be_read_are_named_as_what_is_unknown() -> None:
    """Their reason is in the table above."""
    lists = ("pods", "nodes", "virtualmachineinstances", "pods")
    gaps = tuple(Unreadable(name, "", "list", "forbidden") for name in lists)
    text = "pods, nodes and virtualmachineinstances could not be read"
    found = verdicts(unreadable=gaps)
    assert lines(found, "unknown") == (f"Verification failed: 4 unknown, since {text}.",)
    (instances,) = entries(found, (), NO_VMS, ())["outcome"]["done"]
    assert instances["text"] == f"0 instances: whether there are more is unknown: {text}"


def test_what_is_not_enforced_is_the_next_step_where_nothing_fails() -> None:
    late = instance("shop", NOT_ENFORCED, rule(NOT_ENFORCED, takes_effect="restart"))
    missed = instance("lab", MISSED, rule(MISSED))
    rollout = "playbook rollout with placement_rollout_namespaces and placement_rollout_scope:"
    assert steps(verdicts(late, missed)) == [
        (
            "preference_not_met",
            f"for 1 instance on nodes that do not meet a preferred rule: {rollout} preference_not_met",
        ),
        (
            "not_enforced",
            f"to enforce the rules of 1 instance before the next restart: {rollout} not_enforced; some need more than"
            " a live migration, placement_rollout_allow: [migrate, restart]",
        ),
    ]
    bad = instance("shop", VIOLATED, rule(VIOLATED))
    assert [code for code, _text in steps(verdicts(late, missed, bad))] == ["rollout"]


def test_instances_are_counted_by_what_enforces_their_rules() -> None:
    kinds = [["migration"], ["migration", "restart"], ["restart"], ["recreate"]]
    late = [
        instance("shop", NOT_ENFORCED, *(rule(NOT_ENFORCED, takes_effect=x) for x in each))
        for each in kinds
    ]
    ((_code, text),) = steps(verdicts(*late))
    assert (
        "before the next migration or restart (1 of them), the next restart (2 of them),"
        " the next recreation (1 of them): playbook"
    ) in text


def test_entries_have_the_verdicts_in_numbers() -> None:
    states = VmStates((DB,), (NotMigratable(DB, "w1", "local disk"),))
    resting = [{"rule": "shop/default/off"}, {"rule": "shop/default/later"}]
    found = verdicts(instance("shop", VIOLATED), instance("lab", SATISFIED, down=True))
    done = entries(found, (), states, resting)["outcome"]["done"]
    assert [": ".join([x["text"], *x["objects"]]) for x in done] == [
        "2 instances: 1 satisfied, 1 violated, 1 down",
        "violated rules: shop/default/a",
        "1 VM not running, so not verified",
        "1 running VM cannot be live-migrated",
        "2 rules not enabled, so not verified: shop/default/off: shop/default/later",
    ]


def test_instances_are_not_compared_with_each_other() -> None:
    """Thousands of VMs are in one state where a right is missing, or rules have just changed."""
    compared = []

    class Namespace(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

    found = verdicts(*(instance(Namespace("shop"), NOT_ENFORCED) for _number in range(50)))
    problem = of_state(found, "not_enforced")
    assert problem is not None and problem.count == 50 and not problem.elsewhere
    assert len(compared) < 50
