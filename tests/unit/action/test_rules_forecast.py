# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task `rules` with fail_on_forecast: its forecast comes first, and nothing is written without it."""

from __future__ import annotations

import json
import re
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.action.forecast_info import with_other_warnings
from ansible_collections.virt.placement.plugins.action.rules import FORECAST, ActionModule
from ansible_collections.virt.placement.plugins.module_utils.flows.rules import (
    _findings_of_forecast,
    _forecast_refusal,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    FORECAST_RESULT,
    InputError,
)
from ansible_collections.virt.placement.plugins.modules import rules
from dev.trace_server import TraceServer
from tests.conftest import RunModule
from tests.support.api_server import ApiServer, status
from tests.unit.action.plays import kubeconfig, played

IMPOSSIBLE = {
    "forecast": "impossible",
    "reasons": ["2 VMs need 2 zones", "there is 1"],
    "worsened_by_rules": True,
    "permission_gaps": [],
    "findings": [],
    "moves": [],
}


OPTIONS = {
    "kubeconfig": "kubeconfig.yml",
    "namespace": "shop",
    "rules": [{"name": "apart", "workloads": ["a"], "keep_apart": "roof"}],
    "fail_on_forecast": ["impossible"],
}


def test_module_that_fails_is_the_forecast_or_rules_which_knows_the_unknown_option(
    tmp_path: Path,
) -> None:
    """In a play, whose server refuses every request."""
    with ApiServer() as server:
        server.plays(status(403, "Forbidden", "no rights"))
        (tmp_path / "kubeconfig.yml").write_text(
            json.dumps(kubeconfig(server.address, {"token": "t"}))
        )
        uses = OPTIONS, {**OPTIONS, "scale": "allow"}
        tasks = [{"virt.placement.rules": use, "ignore_errors": True} for use in uses]
        done = played(tmp_path, tasks, "-vvv")
    first, second = done.stdout.split("TASK [")[1:]
    assert "ignored=2" in second
    assert modules_in(first) == ["forecast_info"]
    assert modules_in(second) == ["rules"]
    assert "for (virt.placement.rules)" in second


def modules_in(output: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"AnsiballZ_(\w+)\.py", output)))


def modules_of(options: dict[str, t.Any], forecast: dict[str, t.Any]) -> list[str]:
    """The modules that a task runs, where the forecast has this result."""
    ran: list[str] = []

    def run(_arguments: object, _task_vars: object, module: str = "rules") -> dict[str, t.Any]:
        ran.append(module)
        return forecast

    action: t.Any = object.__new__(ActionModule)
    action._task = types.SimpleNamespace(args=options, check_mode=False, get_path=lambda: "")
    action._run_module = run
    action._work({})
    return ran


def test_a_task_ends_where_its_forecast_fails() -> None:
    assert modules_of(OPTIONS, {"failed": True}) == [FORECAST]
    assert modules_of(OPTIONS, dict.fromkeys(FORECAST_RESULT)) == [FORECAST, "rules"]


@pytest.mark.parametrize(
    "more", [{"fail_on_forecast": []}, {"state": "absent"}, {"forecast": IMPOSSIBLE}]
)
def test_no_forecast_is_made_where_none_is_asked_for_or_one_is_given(
    more: dict[str, t.Any],
) -> None:
    assert modules_of({**OPTIONS, **more}, {}) == ["rules"]


@pytest.mark.parametrize("option", ["workload_rolout", "scale", "unavailable"])
def test_an_option_that_rules_does_not_have_is_refused_by_rules(option: str) -> None:
    assert modules_of({**OPTIONS, option: "allow"}, {}) == ["rules"]


@pytest.mark.parametrize("option", ["fail_on_forecast", "fail_on_findings"])
def test_a_forecast_is_made_for_either_list(option: str) -> None:
    lists: dict[str, list[str]] = {"fail_on_forecast": [], "fail_on_findings": []}
    value = {"fail_on_forecast": ["impossible"], "fail_on_findings": ["blocks_node_drain"]}[option]
    assert modules_of({**OPTIONS, **lists, option: value}, {"failed": True}) == [FORECAST]


def test_findings_of_the_forecast_are_findings_of_the_rules() -> None:
    stuck = {
        "name": "blocks_node_drain",
        "severity": "warning",
        "why": "Node w1 cannot be emptied.",
        "advice": "Add a node.",
        "rule": "apart",
    }
    faults: list[InputError] = []
    params = {
        "forecast": {"findings": [stuck, {"name": "single_domain"}, "no map"]},
        "fail_on_findings": ["blocks_node_drain", "waring"],
    }
    (finding,) = _findings_of_forecast(params, faults)
    assert (finding.name, finding.rule, finding.why) == tuple(
        map(stuck.get, ("name", "rule", "why"))
    )
    assert [str(fault) for fault in faults] == [
        "fail_on_findings: unknown finding or severity 'waring'; did you mean 'warning'?"
    ]


def test_role_that_printed_a_forecast_does_not_warn_of_its_findings_again() -> None:
    other = "rule shop/d/a, no_soft_spread (VirtualMachine shop/a): why. advice"
    told = [
        "rule shop/d/a, blocks_node_drain: Node w1 cannot be emptied. Add a node.",
        "blocks_node_drain (Node w1): Node w1 cannot be emptied. Add a node.",
    ]
    assert with_other_warnings({"warnings": [told[0], other, told[1]]}) == {"warnings": [other]}
    assert with_other_warnings({"changed": True}) == {"changed": True}


def refusal(
    forecast: dict[str, t.Any] | None, fail_on: tuple[str, ...] = ("impossible",), **more: t.Any
) -> tuple[str | None, list[InputError]]:
    faults: list[InputError] = []
    params = {"fail_on_forecast": fail_on, "forecast": forecast, "state": "present", **more}
    error = _forecast_refusal(params, faults)
    return None if error is None else error.message, faults


def test_a_forecast_refuses_the_rules_that_worsen_it() -> None:
    assert refusal(IMPOSSIBLE) == (
        "the forecast of these rules is impossible: 2 VMs need 2 zones; there is 1. Change the rules, or take"
        " impossible out of fail_on_forecast to write them all the same",
        [],
    )


@pytest.mark.parametrize(
    ("forecast", "fail_on"),
    [
        (IMPOSSIBLE, ()),
        (IMPOSSIBLE, ("unknown", "possible")),
        ({**IMPOSSIBLE, "worsened_by_rules": False}, ("impossible",)),
        ({**IMPOSSIBLE, "permission_gaps": ["pods"]}, ("impossible",)),
    ],
)
def test_a_forecast_does_not_refuse(forecast: dict[str, t.Any], fail_on: tuple[str, ...]) -> None:
    assert refusal(forecast, fail_on) == (None, [])


def test_forecast_that_could_not_be_made_is_a_warning(run_module: RunModule) -> None:
    """Otherwise a job looks as if the forecast had allowed the rules."""
    unread = {
        **IMPOSSIBLE,
        "forecast": "unknown",
        "reasons": ["unknown: cannot list pods: no right"],
        "permission_gaps": [{"resource": "pods"}],
    }
    with TraceServer() as server:
        options = {
            "host": server.url,
            "api_key": "s3cret-t0ken",
            "namespace": "shop",
            "forecast": unread,
        }
        more = {"fail_on_forecast": ["impossible"], "rules": []}
        result = run_module(rules.main, {**options, **more}, check=True)
    (warning,) = result["warnings"]
    assert "no forecast of these rules could be made: unknown: cannot list pods" in str(warning)


def test_rules_to_be_removed_need_no_forecast() -> None:
    assert refusal(None, state="absent") == (None, [])


@pytest.mark.parametrize(
    "forecast",
    [
        None,
        {},
        {"forecast": "impossible", "reasons": []},
        {**IMPOSSIBLE, "worsened_by_rules": "true", "permission_gaps": None},
    ],
)
def test_without_a_whole_forecast_the_task_is_refused(forecast: dict[str, t.Any] | None) -> None:
    text, faults = refusal(forecast)

    assert text is None
    assert [fault.where for fault in faults] == ["forecast"]
    assert str(faults[0]).endswith("worsened_by_rules, permission_gaps")
