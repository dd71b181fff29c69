# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the drains of a maintenance, which one module makes for all groups of nodes."""

from __future__ import annotations

import math
import typing as t
import weakref

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiError,
    ApiRequest,
    Forbidden,
    Unreachable,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import ComputingTimeout
from ansible_collections.virt.placement.plugins.module_utils.flows import node_maintenance
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_state import (
    DrainState,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.options import (
    MaintenanceOptions,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.state import StepResult
from tests.support import modules
from tests.support.api_server import ApiServer
from tests.unit.maintenance.test_kills import three_zones

PODS = ApiRequest("GET", "/api/v1/pods")
GROUPS = [["w1"], ["w2", "w3"], ["w5"]]


@pytest.mark.parametrize(
    "error",
    [Unreachable(PODS, "no answer"), Forbidden(PODS, "no right"), ComputingTimeout("no time")],
    ids=lambda error: type(error).__name__,
)
def test_error_about_one_group_hides_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch, error: ApiError | ComputingTimeout
) -> None:
    """The check of the groups was a module for each of them, which failed for its own group."""
    outcomes: dict[str, Exception | None] = {
        "w1": InvalidInput([InputError("nodes", "no place")]),
        "w2": error,
        "w5": None,
    }

    def drain(
        _api: object, options: MaintenanceOptions, *_rest: object, check: bool
    ) -> tuple[None, StepResult]:
        (first, *_others) = options.nodes or ()
        if (raised := outcomes[first]) is not None:
            raise raised
        return None, StepResult(True, DrainState(), progress=["1 move planned"])

    monkeypatch.setattr(node_maintenance, "_drain", drain)
    names = [name for group in GROUPS for name in group]
    options: dict[str, t.Any] = {
        "nodes": names,
        "state": "drained",
        "step_state": {"groups": GROUPS},
    }
    result = modules.run(
        "node_maintenance", ApiServer({}), options, check=True, reconciles=math.inf
    )

    assert not result.get("failed"), result.get("msg")
    assert [group for group, _message in result["_refused"]] == GROUPS[:2]
    (_first, no_place), (_second, message) = result["_refused"]
    assert (no_place, message) == ("nodes: no place", str(error))
    assert result["progress"] == ["1 move planned"]


def test_reading_of_one_group_is_given_up_before_that_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each check was a process of its own, so that a job needed memory for one reading of the cluster."""
    sources: list[weakref.ref[t.Any]] = []
    alive: list[int] = []
    drain = node_maintenance._drain

    def counted(*args: t.Any, **options: t.Any) -> tuple[t.Any, StepResult]:
        alive.append(sum(source() is not None for source in sources))
        source, result = drain(*args, **options)
        sources.append(weakref.ref(source))
        return source, result

    monkeypatch.setattr(node_maintenance, "_drain", counted)
    groups = [["w1"], ["w3"], ["w5"]]
    options: dict[str, t.Any] = {
        "nodes": [name for group in groups for name in group],
        "state": "drained",
        "step_state": {"groups": groups},
    }
    result = modules.run(
        "node_maintenance", three_zones(), options, check=True, reconciles=math.inf
    )
    assert result["finished"], result.get("msg")
    assert alive == [0, 0, 0]
