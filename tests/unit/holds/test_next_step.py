# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task says of workloads whose own rollouts stay held by rules, and how their holds end."""

from __future__ import annotations

import datetime
import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import end_of_hold
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.moves.state import (
    RunState,
    StepResult,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_moved import entries
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from tests.unit.plugin_utils.test_closing import entry, record

DB, POOL = Ref("StatefulSet", "shop", "db"), Ref("VirtualMachinePool", "shop", "web")
END = "launch the playbook rollout with placement_rollout_namespaces: [shop] and placement_rollout_allow:"
MEND = "mend what the lines under skipped name, then"


@pytest.mark.parametrize(
    ("ref", "allow", "tried", "text"),
    [
        (DB, ["migrate"], False, f"{END} [migrate, recreate]"),
        (DB, ["migrate"], True, f"{END} [migrate, recreate]"),
        (DB, ["recreate"], True, f"{MEND} {END} [recreate]"),
        (POOL, ["migrate"], False, f"{END} [migrate]"),
        (POOL, ["migrate"], True, f"{MEND} {END} [migrate]"),
    ],
)
def test_step_has_the_methods_that_the_kind_needs(
    ref: Ref, allow: list[str], tried: bool, text: str
) -> None:
    step = end_of_hold([ref], allow, tried=tried)
    assert step.text == f"to end the hold of {ref}: {text}"


@pytest.mark.parametrize("approved", [None, "a plan"])
def test_rollout_names_a_hold_once_and_how_it_ends(approved: str | None) -> None:
    held = {**DB._asdict(), "reason": "3 of 3 replicas are old", "reason_code": "stays_held"}
    skipped = {**DB._asdict(), "uid": "u", "reason": "needs recreate", "reason_code": "not_allowed"}
    left = StepResult(True, RunState(), held=[held], skipped=[skipped])
    options = types.SimpleNamespace(approved=approved, allow={"migrate"}, places=None, window=None)
    now = datetime.datetime.now(datetime.timezone.utc)
    (step,) = entries(left, t.cast(t.Any, options), now)["outcome"]["next"]
    assert step["code"] == "held"
    assert step["text"] == (
        f"for {DB}, which the plan leaves held: launch the job without its plan"
        if approved
        else f"to end the hold of {DB}: {END} [migrate, recreate]"
    )


@pytest.mark.parametrize("follows", [True, False])
def test_hold_that_rules_report_is_that_of_a_job_without_a_rollout(follows: bool) -> None:
    """The rollout reports what it leaves held itself. Other steps of the rules stay."""
    asked: dict[str, t.Any] = {"rules": [], "rule_set": "default", "namespace": "shop"}
    made = record("placement_apply", asked={**asked, "state": "present", "rollout": True})
    policy = entry("policies_writer", "for the policy: grant the role")
    outcome = {
        "done": [entry("rules_added", "rules added", "apart"), entry("held", "held", str(DB))],
        "next": [policy, entry("held", "to end the hold")],
    }
    made.note("rules", {"changed": True, "outcome": outcome})
    if follows:
        made.note("rollout", {"moves": []})
    block = closing_of(made, 1)
    assert block.done == ("rules added: apart", *(() if follows else (f"held: {DB}",)))
    assert block.next_steps == (policy["text"], *(() if follows else ("to end the hold",)))
