# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a forecast says of the policy that the task with the same options would write."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import policy_path
from tests.support.modules import run
from tests.unit.maintenance.test_kills import three_zones

from .test_plan import ONE, TWO, on_server, planned


@pytest.mark.parametrize(
    ("rules", "digest", "left", "removed"),
    [
        ([ONE], planned(TWO).digest, ["two"], ["one"]),
        ([ONE, TWO], "", [], ["one", "two"]),
        ([{**ONE, "name": "other"}], planned(ONE, TWO).digest, ["one", "two"], []),
    ],
)
def test_forecast_without_the_option_has_the_policy_as_it_is_left(
    rules: list[dict[str, t.Any]], digest: str, left: list[str], removed: list[str]
) -> None:
    server = three_zones()
    for policy in on_server(planned(ONE, TWO).manifests).policies or ():
        server.objects |= {policy_path(x.ref): dict(x.manifest) for x in (policy, *policy.bindings)}
    server.served["admissionregistration.k8s.io"] = ["v1"]
    named = [{**rule, "workloads": ["w1-0"]} for rule in rules]
    result = run("forecast_info", server, {"namespace": "shop", "rules": named})
    assert result["policy_digest"] == digest
    assert (result["policy_rules"], result["policy_rules_removed"]) == (left, removed)
