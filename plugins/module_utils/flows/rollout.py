# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout from its options to its result: one step of a run, which `action/rollout.py` repeats."""

from __future__ import annotations

import datetime
import typing as t

from ..api.client import ApiClient
from ..interface.arguments import topology_of
from ..interface.runner import PartialFailure
from ..model.rendering import one_line
from ..moves.run_plan import options_with_plan
from ..moves.state import RunState
from ..moves.step import run_step
from ..moves.watch import until_interrupted
from ..rollout.not_moved import entries
from ..rollout.options import parse_options
from ..rollout.registry import PLAN_READERS
from ..rollout.rollout_source import RolloutSource

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, PartialFailure with what was done
    before a failure, and ApiError where nothing was begun."""
    defaults = {name: spec.get("default") for name, spec in module.argument_spec.items()}
    given, approved = options_with_plan(module.params, defaults, PLAN_READERS)
    topology = topology_of(given)
    with until_interrupted() as listening:
        options = parse_options(given, topology, approved)
        state = RunState.read(module.params["step_state"])
        source = RolloutSource(api, options, state, listening)
        result = run_step(source, check=module.check_mode)
    for warning in result.warnings:
        module.warn(one_line(warning))
    now = datetime.datetime.now(datetime.timezone.utc)
    returned = {**result.as_json(), **entries(result, options, now)}
    if result.failure:
        raise PartialFailure(returned, [result.failure])
    return returned
