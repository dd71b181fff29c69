# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forecast names what was read before it computes, which takes seconds on a large cluster."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows import forecast as flow
from tests.support.cluster import cluster, machine
from tests.support.modules import run
from tests.unit.maintenance.test_kills import three_zones


@pytest.mark.parametrize("is_read", [True, False])
def test_line_has_the_numbers_of_what_was_read(is_read: bool) -> None:
    made = cluster("aab")
    machine(made, "db", "n1")
    machine(made, "off", "")
    lines: list[str] = []
    api = mock.Mock()
    api.transport.outage.note = lines.append if is_read else None
    request = mock.Mock(scale=(), event="failure", domains_of=())
    with mock.patch.object(flow, "new_pod_fields", return_value={}):
        flow.with_new_pods(api, flow.Question(request, made.snapshot(), frozenset({"n3"}), None))
    expected = "forecast: 3 nodes, 1 running VM and 1 pod were read, evaluating what changes"
    assert lines == ([expected] if is_read else [])


def test_forecast_of_no_change_says_so() -> None:
    result = run("forecast_info", three_zones(), {})
    assert [x["code"] for x in result["outcome"]["done"]] == ["no_change"]
