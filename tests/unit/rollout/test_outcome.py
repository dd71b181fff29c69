# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the result of a rollout says for people."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import NOT_IN_PLAN
from ansible_collections.virt.placement.plugins.module_utils.moves.state import RunState, StepResult
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_moved import entries
from tests.unit.moves.test_gates import parameters

NOW = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
WINDOW = {"start": "22:00", "end": "04:00"}
LIMIT = Obstacle("max_moves", "max_moves (2) is reached")
MEND = (
    ": mend what the lines under skipped name (free or add a node, raise the quota, change the rule, or extend the"
    " option allow, for a job placement_rollout_allow or placement_apply_allow), then launch the same job again"
)


def move(name: str, reason: str = "", code: str = "", **more: t.Any) -> dict[str, t.Any]:
    names = {"kind": "Deployment", "namespace": "shop", "name": name, "uid": f"uid-{name}"}
    return {**names, "reason": reason, "reason_code": code, "state": "planned", **more}


def ended(**values: t.Any) -> StepResult:
    return StepResult(**{"finished": True, "state": RunState(), **values})


def texts(result: StepResult, part: str, **options: t.Any) -> list[str]:
    outcome = entries(result, parameters(**options), NOW)["outcome"]
    return [": ".join(filter(None, [", ".join(x["objects"]), x["text"]])) for x in outcome[part]]


def test_each_reason_is_one_entry_with_its_workloads() -> None:
    """It was a line for each VM."""
    reasons = (("a", "no place"), ("b", "no place"), ("c", "held"), ("d", "no place"))
    skipped = [move(name, reason, "no_node") for name, reason in reasons]
    assert texts(ended(skipped=[*skipped, skipped[0]]), "skipped") == [
        "shop/a, shop/b, shop/d: no place",
        "shop/c: held",
    ]


def test_move_that_is_left_is_not_deferred_beside_its_reason() -> None:
    left = move("web", "about to start: the budget needs 1", "budget")
    result = ended(skipped=[left], deferred=[move("web"), move("db")])
    assert texts(result, "skipped") == [
        "shop/web: about to start: the budget needs 1",
        "shop/db: 1 move deferred (the run ended)",
    ]


def test_moves_that_were_deferred_have_the_reason_and_the_next_step() -> None:
    result = ended(deferred=[move("web")], stop=LIMIT)
    assert texts(result, "skipped") == ["shop/web: 1 move deferred (max_moves (2) is reached)"]
    assert texts(result, "next") == ["launch the same job again for what was deferred"]
    assert texts(result, "done") == [], "there is something to move"
    planned = ended(moves=[move("db")], deferred=[move("web")], stop=LIMIT)
    assert texts(planned, "next") == [], "check mode has moves to make first"


def test_move_that_ended_in_an_earlier_step_is_something_to_move() -> None:
    """Of a run before, whose instance has ended by itself: this one has changed nothing."""
    assert texts(ended(), "done") == ["nothing to move"]
    assert texts(ended(state=RunState(total=1)), "done") == []


def test_reason_why_a_run_began_no_more_is_named_without_a_deferred_move() -> None:
    assert texts(ended(stop=LIMIT), "skipped") == ["max_moves (2) is reached"]


def test_window_that_is_closed_says_when_it_opens() -> None:
    window = parameters(window=WINDOW).window
    assert window is not None
    result = ended(deferred=[move("web")], stop=window.outside)
    assert texts(result, "next", window=WINDOW) == [
        "launch the same job again for what was deferred in the window, which opens next on Thu"
        " 1970-01-01 at 22:00 UTC"
    ]


@pytest.mark.parametrize(
    ("count", "options", "state"),
    [
        (1, {}, "1 instance still violates a rule"),
        (2, {}, "2 instances still violate a rule"),
        (1, {"scope": "all"}, "1 instance was not moved"),
        (
            2,
            {"places": {"shop/db": "w1"}, "namespaces": None},
            "2 instances are not on their given nodes",
        ),
    ],
)
def test_instances_that_were_left_have_the_next_step(
    count: int, options: dict[str, t.Any], state: str
) -> None:
    skipped = [move(f"web{number}", "no place", "no_node") for number in range(count)]
    assert texts(ended(skipped=skipped), "next", **options) == [f"{state}{MEND}"]
    assert texts(ended(skipped=skipped, failure="1 skipped"), "next", **options) == []


def test_what_is_not_in_the_plan_needs_a_new_one() -> None:
    left = move("web2", "words", NOT_IN_PLAN.code)
    assert texts(ended(skipped=[left]), "next") == [
        "for what is not in the plan, make a new one: launch the job in check mode"
    ]


def test_workload_that_stays_held_is_named_once() -> None:
    """How its hold ends is a step of its own."""
    why = "Deployment shop/web stays held: 3 of 3 replicas are not of its present template"
    left = move("web", "a move needs recreate", "not_allowed")
    held = {"kind": "Deployment", "namespace": "shop", "name": "web", "reason": why}
    result = ended(skipped=[left], held=[{**held, "reason_code": "held"}])
    assert texts(result, "skipped") == ["shop/web: a move needs recreate", why]
    (step,) = texts(result, "next")
    assert step.startswith("to end the hold of Deployment shop/web: launch the playbook rollout")


def test_instances_that_are_placed_correctly_are_counted() -> None:
    placed = [
        move("app", when="now", takes_effect="restart"),
        # Check mode: it violates a rule until the planned moves are made.
        move("web", when="after_moves", takes_effect="migration"),
    ]
    assert texts(ended(moves=[move("x")], not_enforced=placed), "done") == [
        "1 instance placed correctly, enforced from the next restart"
    ]


@pytest.mark.parametrize(
    ("values", "done"),
    [
        ({}, ["nothing to move"]),
        ({"places": [{"state": "in_place"}]}, ["nothing to move"]),
        ({"places": [{"state": "not_moved"}]}, []),
        ({"changed": True}, []),
        ({"failure": "x"}, []),
    ],
)
def test_nothing_to_move_is_said_where_nothing_is_left(
    values: dict[str, t.Any], done: list[str]
) -> None:
    """Check mode warns of VMs of a map that are elsewhere."""
    assert texts(ended(**values), "done") == done


def test_step_that_is_not_the_last_one_names_the_moves_in_flight() -> None:
    """The result of a run whose next step crashes."""
    state = RunState(in_flight=[move("db", "the migration was created", "in_flight")])
    result = StepResult(finished=False, state=state)
    assert texts(result, "skipped") == ["shop/db: the migration was created"]
    assert (texts(result, "done"), texts(result, "next")) == ([], [])
