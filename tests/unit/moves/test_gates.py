# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Canary, soak, windows and limits: when the next move may begin."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    OUTSIDE_OF_WINDOW,
    Obstacle,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.moves.run_options import (
    after_end,
    until_stopped,
    why_defer,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.window import (
    DAYS,
    parse_window,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import (
    RolloutOptions,
    parse_options,
)

NOON = datetime.datetime(2026, 6, 1, 12, tzinfo=datetime.timezone.utc)
GIVEN: dict[str, t.Any] = {
    "namespaces": ["shop"],
    "workloads": None,
    "only": None,
    "scope": "violated",
    "allow": ["migrate"],
    "max_parallel": 0,
    "max_unavailable": 1,
    "canary": 0,
    "soak": 0,
    "max_moves": 0,
    "window": None,
    "failures_allowed": 0,
    "pin_target_zone": False,
    "apply_pending_changes": False,
    "fail_on_skipped": False,
    "require_rights": False,
    "run_timeout": 3600,
    "move_timeout": 600,
    "topology_keys": {},
    "places": None,
}


def soaking(what: str, seconds: int) -> Obstacle:
    return Obstacle("soaking", f"soaking after {what}", True, f"{seconds} s left")


def parameters(**changed: t.Any) -> RolloutOptions:
    return parse_options({**GIVEN, **changed}, Topology.of())


def record(uid: str) -> MoveRecord:
    ref = Ref("VirtualMachineInstance", "shop", uid)
    return MoveRecord(ref, uid, ref, Method.MIGRATE, "w1", 1, 0.0)


JOURNAL = RunJournal("r1", "x")


def test_a_rollout_takes_the_workloads_of_rules_in_short() -> None:
    asked = parameters(workloads=["db1", {"kind": "Deployment", "name": "web"}])
    assert [(x.kind, x.namespace, *x.names) for x in asked.workloads] == [
        ("VirtualMachine", "shop", "db1"),
        ("Deployment", "shop", "web"),
    ]


def test_without_options_no_gate_defers() -> None:
    assert not why_defer(parameters(), JOURNAL, "a", 0, NOON)


def test_max_moves_counts_what_has_begun() -> None:
    asked = parameters(max_moves=2)
    assert not why_defer(asked, replace(JOURNAL, moved=1), "a", 0, NOON)
    held = why_defer(asked, replace(JOURNAL, moved=1, records=(record("a"),)), "a", 0, NOON)
    assert held == Obstacle("max_moves", "max_moves (2) is reached")


@pytest.mark.parametrize(
    ("options", "begun", "reason"),
    [
        ({"max_moves": 2}, ["a", "b"], "max_moves (2) is reached"),
        ({"max_moves": 3, "canary": 1, "soak": 30}, ["a", "b", "c"], ""),
        (
            {"window": {"start": "22:00", "end": "04:00"}},
            [],
            "outside of the window from 22:00 to 04:00 UTC",
        ),
    ],
)
def test_planned_moves_end_where_no_move_begins_any_more(
    options: dict[str, t.Any], begun: list[str], reason: str
) -> None:
    ref = Ref("VirtualMachineInstance", "shop", "vm")
    moves = [Move(ref, uid, ref, Method.MIGRATE, "w1", (), "") for uid in "abc"]
    begin, why = until_stopped(parameters(**options), moves, NOON)
    assert ([move.uid for move in begin], str(why or "")) == (begun, reason)


def test_the_canary_moves_alone_and_then_soaks() -> None:
    asked = parameters(canary=1, soak=30)
    assert not why_defer(asked, JOURNAL, "a", 0, NOON)
    moving = replace(JOURNAL, records=(record("a"),))
    assert str(why_defer(asked, moving, "a", 1, NOON)) == "the canary has not ended yet"
    ended = after_end(asked, replace(JOURNAL, moved=1, settled_at=5.0), 5.0)
    assert why_defer(asked, ended, "a", 6, NOON) == soaking("the canary", 29)
    assert not why_defer(asked, ended, "a", 36, NOON)


def test_another_domain_waits_for_the_first_to_end_and_soak() -> None:
    asked = parameters(soak=10)
    moving = replace(JOURNAL, domain="a", records=(record("a"),))
    assert not why_defer(asked, moving, "a", 5, NOON)
    assert "still in flight" in str(why_defer(asked, moving, "b", 5, NOON))
    ended = replace(JOURNAL, domain="a", settled_at=20.0)
    assert why_defer(asked, ended, "b", 25, NOON) == soaking("a", 5)
    assert not why_defer(asked, ended, "b", 30, NOON)


@pytest.mark.parametrize(
    ("hour", "inside"), [(21, False), (22, True), (23, True), (3, True), (4, False), (12, False)]
)
def test_a_window_over_midnight(hour: int, inside: bool) -> None:
    window, faults = parse_window({"start": "22:00", "end": "04:00", "timezone": "UTC"})
    assert faults == ()
    assert window is not None
    assert (NOON.replace(hour=hour) in window) is inside


def test_outside_of_the_window_is_final() -> None:
    asked = parameters(window={"start": "22:00", "end": "04:00", "timezone": "UTC"})
    held = why_defer(asked, JOURNAL, "a", 0, NOON)
    assert held == Obstacle(OUTSIDE_OF_WINDOW, "outside of the window from 22:00 to 04:00 UTC")
    assert not held.temporary


MONDAY = datetime.datetime(2026, 6, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("day", "hour", "inside"),
    [
        ("fri", 23, False),
        ("sat", 3, False),
        ("sat", 21, False),
        ("sat", 22, True),
        ("sun", 3, True),
        ("sun", 4, False),
        ("sun", 23, True),
        ("mon", 3, True),
        ("mon", 22, False),
    ],
)
def test_window_over_midnight_belongs_to_the_day_it_starts_on(
    day: str, hour: int, inside: bool
) -> None:
    window, faults = parse_window({"start": "22:00", "end": "04:00", "days": ["sat", "sun"]})
    assert faults == ()
    assert window is not None
    assert (MONDAY + datetime.timedelta(days=DAYS.index(day), hours=hour) in window) is inside


@pytest.mark.parametrize(("day", "inside"), [("mon", True), ("tue", False), ("sun", False)])
def test_window_within_a_day_is_open_on_its_days_only(day: str, inside: bool) -> None:
    window, _faults = parse_window({"start": "10:00", "end": "14:00", "days": ["mon"]})
    assert window is not None
    assert (MONDAY + datetime.timedelta(days=DAYS.index(day), hours=12) in window) is inside


def test_day_of_a_window_is_that_of_its_time_zone() -> None:
    given = {"start": "00:00", "end": "02:00", "days": ["tue"], "timezone": "Europe/Madrid"}
    window, _faults = parse_window(given)
    assert window is not None
    assert MONDAY + datetime.timedelta(hours=23) in window, "Tuesday 01:00 in Madrid"
    assert MONDAY - datetime.timedelta(hours=1) not in window


def test_window_with_days_names_them() -> None:
    window, _faults = parse_window({"start": "22:00", "end": "04:00", "days": ["sun", "sat"]})
    assert str(window) == "22:00 to 04:00 UTC on sat, sun"


def test_window_uses_the_clock_of_its_time_zone() -> None:
    window, _faults = parse_window({"start": "13:00", "end": "15:00", "timezone": "Europe/Madrid"})
    assert window is not None
    assert NOON in window, "noon UTC is two in the afternoon there in summer"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": "24:00", "end": "04:00"}, "window.start: '24:00' is no time of day"),
        ({"start": "79200", "end": "04:00"}, "window.start: '79200' is no time of day"),
        ({"start": "22:00", "end": "22:00"}, "start and end are the same"),
        (
            {"start": "22:00", "end": "04:00", "days": ["Sat"]},
            "window.days: 'Sat' is not one of mon, tue, wed, thu, fri, sat, sun",
        ),
        ({"start": "22:00", "end": "04:00", "days": []}, "window.days: must not be empty"),
        (
            {"start": "22:00", "end": "04:00", "timezone": "Mars/Olympus"},
            "'Mars/Olympus' is no time zone that this host knows",
        ),
    ],
)
def test_windows_that_cannot_be(given: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parameters(window=given)
    assert message in str(raised.value)


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as raised:
        parameters(namespaces=None, max_unavailable=0, soak=-1)
    message = str(raised.value)
    assert len(raised.value.errors) == 3
    assert "one of them is required" in message
    assert "soak: must be at least 0, not -1" in message


def test_shared_timeout_does_not_limit_a_rollout() -> None:
    """module_defaults of group/virt.placement.all may set it for every module."""
    assert parameters(timeout=77).run_timeout == 3600


def test_only_the_same_request_is_continued() -> None:
    one = parameters()
    assert one.request == parameters(run_timeout=77, max_unavailable=5).request
    assert one.request != parameters(scope="all").request
    assert one.request != parameters(namespaces=["other"]).request


@pytest.mark.parametrize(
    ("given", "moment", "opens"),
    [
        ({}, "2026-06-01 12:00", "2026-06-01 22:00"),
        ({}, "2026-06-01 22:00", "2026-06-02 22:00"),
        ({}, "2026-06-01 23:00", "2026-06-02 22:00"),
        ({"days": ["sat"]}, "2026-06-01 12:00", "2026-06-06 22:00"),
        ({"days": ["mon"]}, "2026-06-01 22:30", "2026-06-08 22:00"),
        ({"timezone": "Europe/Berlin"}, "2026-06-01 21:00", "2026-06-02 20:00"),
    ],
)
def test_window_opens_next_at_its_start_on_its_days(
    given: dict[str, t.Any], moment: str, opens: str
) -> None:
    window, _faults = parse_window({"start": "22:00", "end": "04:00", **given})
    assert window is not None
    utc = datetime.timezone.utc
    start = window.next_start(datetime.datetime.fromisoformat(moment).replace(tzinfo=utc))
    assert f"{start.astimezone(utc):%Y-%m-%d %H:%M}" == opens
