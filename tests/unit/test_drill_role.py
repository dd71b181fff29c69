# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which forecasts fail the role placement_drill."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from tests.conftest import CHECKOUT

VARS = CHECKOUT / "roles" / "placement_drill" / "vars" / "main.yml"


def failing(worst: str, forecasts: t.Sequence[str], fail_on: t.Sequence[str]) -> t.Any:
    """The variable as the role has it."""
    expression = yaml.safe_load(VARS.read_text())["__placement_drill_failing"]
    domains = [{"forecast": forecast} for forecast in forecasts]
    return (
        NativeEnvironment(autoescape=False)
        .from_string(expression)
        .render(
            placement_drill_result={"forecast": worst, "domains": domains},
            __placement_drill_options={"fail_on": fail_on},
        )
    )


@pytest.mark.parametrize(
    ("worst", "forecasts", "fail_on", "found"),
    [
        ("impossible", ["impossible", "unknown", "guaranteed"], ["unknown"], ["unknown"]),
        ("impossible", ["impossible", "guaranteed"], ["unknown"], []),
        ("unknown", [], ["unknown"], ["unknown"]),
        (
            "impossible",
            ["impossible", "unknown"],
            ["unknown", "impossible"],
            ["impossible", "unknown"],
        ),
        ("impossible", ["impossible", "unknown"], [], []),
    ],
)
def test_impossible_forecast_hides_no_unknown_one(
    worst: str, forecasts: list[str], fail_on: list[str], found: list[str]
) -> None:
    assert failing(worst, forecasts, fail_on) == found
