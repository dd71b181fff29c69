# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job that failed and was to undo its change says of that at its end."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.undo.own_change import begin_undo

Result = dict[str, t.Any]

A = {"kind": "VirtualMachine", "namespace": "shop", "name": "a"}
B = {**A, "name": "b"}
ASKED = {
    "namespace": "shop",
    "rule_set": "tiers",
    "rules": [{"name": "apart"}],
    "state": "present",
    "rollout": True,
    "keep_room_for": [],
    "on_failure": "undo",
}
OWN: Result = {
    "changed": True,
    "workloads": [{**x, "changed": True, "added": ["apart"]} for x in (A, B)],
    "writes": [A, B],
    "change": {"id": "3-abc", "continues": False},
}
REVERTED: Result = {
    "changed": True,
    "workloads": [{**x, "changed": True, "removed": ["apart"]} for x in (A, B)],
    "reverted": [A, B],
}
RELAUNCH_OR_UNDO = (
    "correct the cause, then launch the playbook undo with placement_undo_namespace: shop and"
    " placement_undo_rule_set: tiers: it continues; or the same job, to go on with the rules"
)
BY_HAND = (
    "look at the rules with the playbook rules, and write those of this rule set as they should be"
)
RESTORED = "the rules are as before this job; to move what violates one: playbook rollout"
KEPT = (
    "correct the cause, then launch the same job again: it continues; or launch the playbook undo with"
    " placement_undo_namespace: shop and placement_undo_rule_set: tiers"
)


class PlayedJob:
    """What the stage uses of a job."""

    def __init__(self, record: JobRecord) -> None:
        self.record = record
        self.lines: list[str] = []

    def show(self, lines: t.Iterable[str]) -> None:
        self.lines += lines


def failed(
    *tasks: tuple[str, Result], on_failure: str = "undo", task: str = "Roll out"
) -> JobRecord:
    """The record of a job whose last task failed, with the results of its modules."""
    record = JobRecord(
        "placement_apply", "lab", "play", 0.0, asked={**ASKED, "on_failure": on_failure}
    )
    for module, result in tasks:
        record.note(module, result)
    record.failures, record.failed_task, record.open = ["why"], task, task
    return record


def undoing(record: JobRecord, *tasks: tuple[str, Result], failing: str = "") -> JobRecord:
    """The record after an undo with these results, of which the task `failing` failed."""
    assert begin_undo(t.cast("t.Any", PlayedJob(record))) == {"change": "3-abc"}
    for module, result in tasks:
        record.note(module, result)
    record.open = failing
    record.failures += ["why that"] if failing else []
    return record


TIMEOUT: Result = {"failed": True, "msg": "x", "moves": [], "errors": [{"type": "api"}]}
AWAY: Result = {"failed": True, "msg": "x", "errors": [{"type": "api"}]}


@pytest.mark.parametrize(
    ("tasks", "failing", "outcome", "ending", "following"),
    [
        (
            [
                (
                    "rules",
                    {
                        **REVERTED,
                        "reverted": [A],
                        "outcome": {
                            "skipped": [
                                {
                                    "code": "not_reverted",
                                    "text": "changed since",
                                    "objects": ["shop/b"],
                                }
                            ]
                        },
                    },
                )
            ],
            "",
            "partly_undone",
            "was undone in part: what was left is named above",
            RESTORED,
        ),
        (
            [("forecast_info", AWAY)],
            "Forecast",
            "not_undone",
            "was NOT undone: Forecast of the undo has failed, too",
            RELAUNCH_OR_UNDO,
        ),
        (
            [("rules", {"failed": True, "msg": "x", "errors": [{"type": "input"}]})],
            "Write rules",
            "not_undone",
            "was NOT undone: Write rules of the undo has failed, too",
            BY_HAND,
        ),
        (
            [
                (
                    "rules",
                    {
                        **REVERTED,
                        "failed": True,
                        "msg": "x",
                        "reverted": [A],
                        "errors": [{"type": "api"}],
                    },
                )
            ],
            "Write rules",
            "partly_undone",
            "was undone in part: Write rules of the undo has failed, too",
            RELAUNCH_OR_UNDO,
        ),
        (
            [("rules", REVERTED), ("rollout", TIMEOUT)],
            "Roll out",
            "partly_undone",
            "was undone in part: Roll out of the undo has failed, too",
            RESTORED,
        ),
        (
            [("rules", REVERTED), ("placement_info", {})],
            "Verify",
            "undone",
            "was undone: Verify of the undo has failed, too",
            RESTORED,
        ),
    ],
    ids=["left", "api is away", "another change", "restored in part", "not moved", "red"],
)
def test_what_was_not_undone_is_named_with_what_to_do(
    tasks: list[tuple[str, Result]], failing: str, outcome: str, ending: str, following: str
) -> None:
    record = undoing(failed(("rules", OWN), ("rollout", TIMEOUT)), *tasks, failing=failing)

    closing = closing_of(record, 3)

    assert closing.undo == outcome
    assert closing.failed == (f"Roll out: why; its change {ending}",)
    assert closing.next_steps == (following,)
    named = [text for text in closing.skipped if text.startswith("not undone: ")]
    assert named == (["not undone: shop/b: changed since"] if "outcome" in tasks[0][1] else [])
    assert closing.data()["undo"] == outcome


def test_instance_that_the_rollout_of_an_undo_skips_leaves_the_rules_undone() -> None:
    """It may violate another rule of the namespace, as before the job."""
    reason = {"code": "no_node", "text": "0/3 nodes are available", "objects": ["shop/old"]}
    skipping = {"moves": [], "outcome": {"skipped": [reason]}}
    record = undoing(
        failed(("rules", OWN), ("rollout", TIMEOUT)),
        ("rules", REVERTED),
        ("rollout", skipping),
    )

    closing = closing_of(record, 3)

    assert closing.undo == "undone"
    assert closing.failed == ("Roll out: why; its change was undone",)
    assert closing.skipped == ("undo: shop/old: 0/3 nodes are available",)


CONTINUED = {**OWN, "change": {"id": "3-abc", "continues": True}}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            CONTINUED,
            "an earlier job has begun this change of the rules, and an undo would undo all of it",
        ),
        (
            {"failed": True, "msg": "crash", "module_stdout": "Traceback"},
            "the task ended without a result, so what it has written is unknown",
        ),
    ],
    ids=["continued", "crashed"],
)
def test_rules_that_a_job_must_not_undo_are_kept(result: Result, reason: str) -> None:
    record = failed(("rules", result))
    with pytest.raises(JobFailed, match="Nothing is undone, since"):
        begin_undo(t.cast("t.Any", PlayedJob(record)))

    closing = closing_of(record, 3)

    assert closing.undo == "not_undone"
    assert closing.failed == (f"Roll out: why; its change was NOT undone: {reason}",)
    assert closing.next_steps == (KEPT,)


@pytest.mark.parametrize("code", ["policy_written", "policy_removed"])
def test_job_that_has_written_the_policy_alone_says_that_it_is_not_undone(code: str) -> None:
    """Issue 46: no workload has a record of it, so nothing was undone, and the job did not say so."""
    entry = {"code": code, "text": "policy written", "objects": ["MutatingAdmissionPolicy x"]}
    result = {**OWN, "workloads": [], "outcome": {"done": [entry], "skipped": [], "next": []}}
    del result["change"]
    record = failed(("rules", result), ("rollout", TIMEOUT))

    closing = closing_of(record, 3)

    assert closing.undo == "not_undone"
    (text,) = closing.failed
    assert "its change was NOT undone: this job has written the policy for new members" in text
    (step,) = closing.next_steps
    assert "launch the same job again; to give new members the rules of before" in step


@pytest.mark.parametrize(
    ("tasks", "on_failure"),
    [
        ([("rules", {"changed": False, "workloads": [], "writes": []})], "undo"),
        ([("rules", {"failed": True, "msg": "x", "errors": [{"type": "finding"}]})], "undo"),
        ([("forecast_info", AWAY)], "undo"),
        ([("rules", OWN), ("rollout", TIMEOUT)], "keep"),
    ],
    ids=["nothing to write", "refused", "before the rules", "keep"],
)
def test_job_without_a_change_of_its_own_says_nothing_of_an_undo(
    tasks: list[tuple[str, Result]], on_failure: str
) -> None:
    closing = closing_of(failed(*tasks, on_failure=on_failure), 3)

    assert closing.undo == ""
    assert closing.failed == ("Roll out: why",)
    continues = ": it continues" if on_failure == "keep" else ""  # only there something was written
    (step,) = closing.next_steps
    assert step.removeprefix("nothing was written: ") == (
        f"correct the cause, then launch the same job again{continues}"
    )


def test_check_mode_says_that_it_would_undo() -> None:
    record = JobRecord("placement_apply", "lab", "play", 0.0, check_mode=True, asked=ASKED)
    record.note("rules", OWN)

    closing = closing_of(record, 3)

    assert "if its rollout or verification fails: undo what it has written" in closing.asked
    assert closing.undo == ""
