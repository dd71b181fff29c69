# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drill and a capacity say for people, and what to do."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import (
    Drill,
    DrillReport,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill_entries import (
    drill_entries,
    room_steps,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.topology import HOSTNAME

GUARANTEED, POSSIBLE = ForecastResult.GUARANTEED, ForecastResult.POSSIBLE
IMPOSSIBLE, UNKNOWN = ForecastResult.IMPOSSIBLE, ForecastResult.UNKNOWN


def loss(answer: ForecastResult, *codes: str, domain: str = "a", **more: t.Any) -> Drill:
    return Drill("zone", domain, ("w1",), answer, codes=codes, **more)


@pytest.mark.parametrize(
    ("event", "answer", "code", "text"),
    [
        ("failure", GUARANTEED, "no_impact", "no failure has an impact after fencing"),
        ("drain", GUARANTEED, "no_impact", "no drain has an impact"),
        ("drain", UNKNOWN, "unknown", "unknown"),
    ],
)
def test_drill_has_its_worst_forecast_and_the_impact(
    event: NodeEvent, answer: ForecastResult, code: str, text: str
) -> None:
    worst, found = drill_entries(DrillReport(event, (loss(answer),)))
    assert (worst.code, worst.text) == ("worst_forecast", f"worst forecast: {answer}")
    assert (found.code, found.text) == (code, text)


def test_drill_that_could_not_read_all_is_not_one_without_an_impact() -> None:
    gap = Unreadable("pods", "", "list", "forbidden")
    worst, found = drill_entries(DrillReport("failure", unreadable=(gap,)))
    assert worst.text == "worst forecast: unknown"
    assert found.text == "which have an impact is unknown, since not everything could be read"


def test_n_plus_1_is_one_sentence_in_place_of_the_worst_forecast() -> None:
    failing = Drill(HOSTNAME, "w1", ("w1",), IMPOSSIBLE, reasons=("node w3 lacks memory",))
    first, *_others = drill_entries(DrillReport("failure", (failing,)))
    assert (first.code, first.text) == (
        "n_plus_1",
        "N+1: no for 1 of 1 node; without node w1: node w3 lacks memory",
    )


def test_failure_of_which_only_the_guarantee_lacks_is_no_impact() -> None:
    lonely = (Ref("Pod", "shop", "lonely"),)
    drills = (
        loss(IMPOSSIBLE, domain="a"),
        loss(POSSIBLE, domain="b", not_recreated=lonely),
        loss(POSSIBLE, domain="c"),
        loss(UNKNOWN, domain="d"),
        loss(GUARANTEED, domain="e"),
    )
    assert [(x.text, x.objects) for x in drill_entries(DrillReport("failure", drills))][1:] == [
        ("with an impact", ("a (impossible)", "b (possible)")),
        ("not guaranteed", ("c (possible)",)),
        ("unknown", ("d (unknown)",)),
    ]


@pytest.mark.parametrize(
    ("drills", "code", "text"),
    [
        ([loss(IMPOSSIBLE, "no_node")], "make_room", "add nodes; then launch the same job again"),
        ([loss(IMPOSSIBLE, "quota"), loss(GUARANTEED)], "raise_quota", "raise the ResourceQuotas"),
        ([loss(IMPOSSIBLE, "quota"), loss(IMPOSSIBLE, "no_node")], "make_room", "add nodes"),
        (
            [loss(UNKNOWN, "search_limit", "pod_security")],
            "admission",
            "for the pods that the lines above say may be refused: Do what the refusal asks for first: no other"
            " node helps. Where it names PodSecurity, the label pod-security.kubernetes.io/enforce of that namespace"
            " sets the level. Then launch the same job again",
        ),
    ],
)
def test_next_step_is_no_node_where_none_helps(drills: list[Drill], code: str, text: str) -> None:
    """Numbers 4 and 6 of issue 41."""
    (step,) = room_steps(drills, "add nodes")
    assert step.code == code
    assert step.text.startswith(text)


def test_drill_without_an_impact_leaves_nothing_to_do() -> None:
    assert list(room_steps([loss(GUARANTEED)], "add nodes")) == []
