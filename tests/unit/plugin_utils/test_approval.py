# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is applied after an approval is not worse than what was approved."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.lookup.forecast_approval import LookupModule
from ansible_collections.virt.placement.plugins.plugin_utils.approval.forecast import (
    SHOWN,
    approval_faults,
    rule_set_of,
    summary_of,
)

OPTIONS: dict[str, t.Any] = {
    "namespace": "shop",
    "rule_set": "default",
    "rules": [{"name": "web", "workloads": ["web-1"], "keep_apart": "zone"}],
    "state": "present",
    "prune": False,
    "adopt": False,
    "new_members": "none",
    "topology_keys": {},
    "rollout": True,
    "allow": ["migrate"],
    "max_moves": 0,
    "workload_rollout": "refuse",
    "scope": "violated",
    "max_parallel": 0,
    "max_unavailable": 1,
    "failures_allowed": 0,
    "fail_on_skipped": False,
}


def result(moves: int = 1, method: str = "migrate", **more: t.Any) -> dict[str, t.Any]:
    """As forecast_info returns it, in part."""
    move = {
        "kind": "VirtualMachine",
        "namespace": "shop",
        "name": "web-1",
        "instance": "web-1",
        "method": method,
        "from_node": "w1",
        "to_node": "w2",
    }
    found = {"forecast": "possible", "reasons": ["r"], "pending": [], "min_unschedulable": 0}
    cluster = {"api": "https://prod.example:6443", "uid": "c-1"}
    return {**found, "cluster": cluster, "moves": [move] * moves, **more}


def published(**more: t.Any) -> dict[str, t.Any]:
    return {"prod": {"shop/default": summary_of(result(**more), OPTIONS)}}


class Values:
    """Stands for Ansible's templating: values have no templates here."""

    @staticmethod
    def template(value: t.Any) -> t.Any:
        return value


def answer(question: str, **more: t.Any) -> dict[str, t.Any]:
    """Of the lookup, in the job that forecasts."""
    known = {
        "inventory_hostname": "prod",
        "__placement_apply_options": {**OPTIONS, "forecast": True},
        "placement_apply_forecast_result": result(**more),
    }
    (answer,) = LookupModule(templar=Values()).run([question], known)
    return answer


def test_approval_is_for_one_policy() -> None:
    """Rules of other tasks in the same policy are in no option of the role."""
    policy = {**OPTIONS, "new_members": "policy"}
    now = summary_of(result(policy_digest="b"), policy)
    approved = summary_of(result(policy_digest="a"), policy)
    faults = approval_faults(
        {"prod": {"shop/default": approved}}, now, policy, "prod", "placement_apply"
    )
    assert [(fault.code, fault.rules) for fault in faults] == [("other_policy", ())]
    same = approval_faults({"prod": {"shop/default": now}}, now, policy, "prod", "placement_apply")
    assert same == []


def test_approval_covers_no_other_rule_that_leaves_the_policy() -> None:
    """By prune the policy is the same, whichever other rules it loses."""
    more: dict[str, t.Any] = {"policy_digest": "a", "policy_rules_removed": ["one", "two"]}
    fewer = {**more, "policy_rules_removed": ["two"]}
    assert uncovered(fewer, more) == [("policy_rules_removed", ("one",))]
    assert uncovered(more, fewer) == []


def uncovered(approved: dict[str, t.Any], now: dict[str, t.Any]) -> list[t.Any]:
    """Codes and rules of what an approval of one result does not cover in another one."""
    faults = approval_faults(
        published(**approved),
        summary_of(result(**now), OPTIONS),
        OPTIONS,
        "prod",
        "placement_apply",
    )
    assert all(name in fault.text for fault in faults for name in fault.rules)
    return [(fault.code, fault.rules) for fault in faults]


ONE: dict[str, t.Any] = {"policy_digest": "a", "policy_rules": ["one"]}
UNREAD = {"policy_digest": "unknown"}
BOTH: dict[str, t.Any] = {"policy_digest": "b", "policy_rules": ["one", "two"]}


@pytest.mark.parametrize(
    ("approved", "now", "faults"),
    [
        (ONE, {}, [("policy_rules_missing", ("one",))]),
        (BOTH, ONE, [("policy_rules_missing", ("two",))]),
        ({}, ONE, [("policy_rules_added", ("one",))]),
        (ONE, BOTH, [("policy_rules_added", ("two",))]),
        (
            ONE,
            {"policy_digest": "c", "policy_rules": ["two"]},
            [("policy_rules_missing", ("one",)), ("policy_rules_added", ("two",))],
        ),
        (ONE, {"policy_rules_removed": ["one"]}, [("policy_rules_removed", ("one",))]),
        ({"policy_digest": "a"}, {}, [("other_policy", ())]),  # an older forecast names no rules
        ({"policy_rules_removed": ["one"]}, {}, []),  # a job before this one has deleted it
        (UNREAD, {}, [("policy_unknown", ())]),
        (ONE, UNREAD, [("policy_unknown", ())]),
        (UNREAD, UNREAD, []),
        (ONE, ONE, []),
    ],
)
def test_approval_is_for_the_policy_that_the_task_leaves(
    approved: dict[str, t.Any], now: dict[str, t.Any], faults: list[t.Any]
) -> None:
    """No policy was accepted after an approval of one."""
    assert uncovered(approved, now) == faults


def test_forecast_that_no_approval_can_cover_is_not_published_and_says_so() -> None:
    """It was published, approved, and refused after the approval."""
    unread = {"cluster": {"api": "https://prod.example:6443", "uid": None}}
    assert answer("published", **unread) == {"prod": {}}
    (reason,) = answer("unusable", **unread)["reasons"]
    assert reason.startswith("The UID of the cluster cannot be read, ")
    assert "grant this identity the verb 'get' on namespaces" in reason

    assert answer("published") == published()
    assert answer("unusable") == {"reasons": []}


def texts(
    approved: t.Any, summary: t.Any, options: dict[str, t.Any], host: str, role: str
) -> list[str]:
    return [x.text for x in approval_faults(approved, summary, options, host, role)]


def faults(approved: t.Any, host: str = "prod", **more: t.Any) -> list[str]:
    options = {**OPTIONS, **more.pop("options", {})}
    return texts(approved, summary_of(result(**more), options), options, host, "placement_apply")


def test_summary_has_the_answer_the_reasons_and_the_moves() -> None:
    summary = summary_of(result(), OPTIONS)

    assert summary["forecast"] == "possible"
    assert summary["reasons"] == ["r"]
    assert summary["moves"] == 1
    assert summary["methods"] == {"migrate": 1}
    assert summary["moves_shown"] == ["migrate VirtualMachine shop/web-1 from w1 to w2"]
    assert len(summary_of(result(moves=500), OPTIONS)["moves_shown"]) == SHOWN


def test_only_moves_that_the_role_makes_count() -> None:
    def moves(**options: t.Any) -> int:
        return t.cast(int, summary_of(result(moves=5), {**OPTIONS, **options})["moves"])

    assert moves() == 5
    assert moves(max_moves=2) == 2
    assert moves(allow=["restart"]) == 0
    assert moves(rollout=False) == 0


def test_apply_that_leaves_the_moves_to_another_job_is_covered() -> None:
    assert faults(published(), options={"rollout": False, "max_unavailable": 3}) == []
    without = {**OPTIONS, "rollout": False}
    approved = {"prod": {"shop/default": summary_of(result(moves=0), without)}}
    assert 'scope is "violated" now, and null in the approved forecast.' in faults(
        approved, moves=0
    )


@pytest.mark.parametrize(
    "now", [{}, {"moves": 0}, {"forecast": "guaranteed"}, {"reasons": ["other"]}]
)
def test_the_same_or_a_better_forecast_is_covered(now: dict[str, t.Any]) -> None:
    assert faults(published(), **now) == []


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"forecast": "unknown"}, "The forecast is unknown now, and possible was approved. r"),
        ({"forecast": "impossible"}, "The forecast is impossible now, and possible was approved."),
        ({"moves": 2}, "2 moves are needed now, and 1 were approved."),
        ({"min_unschedulable": 1}, "1 instances would have no node now, and 0"),
        ({"options": {"rules": []}}, "The rules are not those of the approved forecast."),
        ({"options": {"prune": True}}, "The rules are not those of the approved forecast."),
        ({"options": {"rule_set": "db"}}, "No forecast of shop/db was approved for prod."),
        (
            {"cluster": {"uid": "c-2"}},
            "The forecast was approved for the cluster c-1, and this is c-2.",
        ),
        ({"cluster": {"uid": None}}, "The UID of the cluster cannot be read, so an approval"),
        (
            {"options": {"workload_rollout": "allow"}},
            'workload_rollout is "allow" now, and "refuse" in the approved forecast.',
        ),
        (
            {"options": {"max_unavailable": 3}},
            "max_unavailable is 3 now, and 1 in the approved forecast.",
        ),
        (
            {"options": {"scope": "not_enforced"}},
            'scope is "not_enforced" now, and "violated" in the approved forecast.',
        ),
        (
            {"options": {"allow": ["restart", "migrate"]}},
            'allow is ["migrate", "restart"] now, and ["migrate"] in the approved forecast.',
        ),
        ({"host": "lab"}, "No forecast of shop/default was approved for lab."),
    ],
)
def test_what_is_worse_than_approved_is_named(now: dict[str, t.Any], message: str) -> None:
    (fault,) = faults(published(), **now)
    assert message in fault


def test_restart_in_place_of_an_approved_migration_is_named() -> None:
    """The number of moves is the same, and the VM would be down."""
    both = {**OPTIONS, "allow": ["migrate", "restart"]}
    approved = {"prod": {"shop/default": summary_of(result(2), both)}}
    (fault,) = faults(approved, options=both, moves=2, method="restart")
    assert fault == "2 moves by restart are needed now, and 0 were approved."

    approved = {"prod": {"shop/default": summary_of(result(2, "restart"), both)}}
    assert faults(approved, options=both, moves=2, method="restart") == []
    assert faults(approved, options=both, moves=2) == []  # a migration is less disruptive


def test_restarts_and_recreations_are_compared_each_by_itself() -> None:
    """They are about different workloads: a VirtualMachine restarts, a replica or pod is recreated."""
    options = {**OPTIONS, "allow": ["migrate", "restart", "recreate"]}
    restart, recreate = (result(1, x)["moves"] for x in ("restart", "recreate"))

    def worse(moves: t.Any) -> list[str]:
        both = {**result(0), "moves": [*restart, *recreate]}
        approved = {"prod": {"shop/default": summary_of(both, options)}}
        now = summary_of({**result(0), "moves": moves}, options)
        return texts(approved, now, options, "prod", "placement_apply")

    assert worse([*recreate, *restart]) == worse(restart) == worse(recreate) == []
    assert worse([*restart, *result(1)["moves"]]) == []
    assert worse(recreate * 2) == ["2 moves by recreate are needed now, and 1 were approved."]
    assert worse(restart * 2) == ["2 moves by restart are needed now, and 1 were approved."]


def test_approval_without_a_forecast_of_now_is_refused() -> None:
    (fault,) = texts(published(), None, OPTIONS, "prod", "placement_undo")
    assert "placement_undo_forecast is false" in fault


UNDO = {**OPTIONS, "state": "reverted", "rules": []}


def test_undo_after_an_approved_apply_is_not_compared_with_its_forecast() -> None:
    """AWX hands what the job forecast of a workflow published to all jobs that follow, also to an undo at its end."""
    assert faults(published(), options=UNDO) == []
    assert rule_set_of(UNDO) == "undo of shop/default"


def test_undo_whose_forecast_was_approved_is_compared_with_it() -> None:
    approved = {"prod": {rule_set_of(UNDO): summary_of(result(), UNDO)}}
    assert faults(approved, options=UNDO) == []
    (fault,) = faults(approved, options=UNDO, moves=9)
    assert "9 moves are needed now" in fault
    (fault,) = faults(approved, options={**UNDO, "rule_set": "tiers"})
    assert "No forecast of undo of shop/tiers was approved" in fault
    (fault,) = faults(approved)
    assert "No forecast of shop/default was approved" in fault


def test_text_in_place_of_what_was_published_is_named() -> None:
    (fault,) = faults("yes")
    assert fault.startswith("placement_forecast: ")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "possible",
        {},
        {"forecast": "fine"},
        {"moves": "1"},
        {"moves": None},
        {"min_unschedulable": None},
        {"rules": None},
        {"methods": None},
        {"methods": {"restart": "1"}},
        {"policy_rules_removed": 1},
        {"policy_rules": "one"},
    ],
)
def test_damaged_forecast_is_named(entry: t.Any) -> None:
    right = published()["prod"]["shop/default"]
    damaged = {**right, **entry} if isinstance(entry, dict) and entry else entry
    (fault,) = faults({"prod": {"shop/default": damaged}})
    assert fault.startswith("placement_forecast: the forecast of shop/default for prod is damaged")
