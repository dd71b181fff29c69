# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout from its options to its result: one step of a run, which `action/rollout.py` repeats."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..interface.arguments import topology_of
from ..interface.runner import PartialFailure
from ..model.rendering import one_line
from ..rollout.options import parse_options
from ..rollout.state import RolloutState
from ..rollout.step import RolloutStep, run_step
from ..rollout.watch import until_interrupted

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, PartialFailure with what was done
    before a failure, and ApiError where nothing was begun."""
    topology = topology_of(module.params)
    with until_interrupted() as listening:
        options = parse_options(module.params, topology)
        state = RolloutState.read(module.params["step_state"])
        result = run_step(RolloutStep(api, options, state, listening), check=module.check_mode)
    for warning in result.warnings:
        module.warn(one_line(warning))
    if result.failure:
        raise PartialFailure(result.as_json(), [result.failure])
    return result.as_json()
