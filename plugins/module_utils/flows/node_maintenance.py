# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance from its options to its result: one step, which the action plugin repeats."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..interface.arguments import topology_of
from ..interface.results import writes_result
from ..interface.runner import PartialFailure
from ..maintenance.drain import DrainSource
from ..maintenance.drain_state import DrainState
from ..maintenance.in_service import InServiceStep
from ..maintenance.mark import node_as_json
from ..maintenance.options import parse_options
from ..maintenance.registry import PLAN_READERS
from ..maintenance.undo_drain import ReturnState
from ..model.findings import InputError, InvalidInput
from ..moves.run_plan import options_with_plan
from ..moves.state import StepResult
from ..moves.step import run_step
from ..moves.watch import until_interrupted

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options and every reason not to begin, PartialFailure
    with what was done before a failure, and ApiError where nothing was begun."""
    defaults = {name: spec.get("default") for name, spec in module.argument_spec.items()}
    given, approved = options_with_plan(module.params, defaults, PLAN_READERS)
    options = parse_options(given, topology_of(given), approved)
    if options.assume_in_service and not module.check_mode:
        raise InvalidInput(
            [InputError("assume_in_service", "is for check mode only: leave it out")]
        )
    previous_step = module.params["step_state"]
    step: DrainSource | InServiceStep
    started: list[dict[str, t.Any]] = []
    gone: tuple[str, ...] = ()
    with until_interrupted() as listening:
        if options.state == "in_service":
            step = InServiceStep(api, options, ReturnState.read(previous_step), listening)
            result, started = step.run(check=module.check_mode), step.started
            gone = step.gone
        else:
            step = DrainSource(api, options, DrainState.read(previous_step), listening)
            result = run_step(step, check=module.check_mode)
    changes = writes_result(step.context.writes, diff=module._diff)
    returned = {
        **changes,
        **_as_json(result),
        "changed": bool(result.changed or step.context.writes),
        "findings": [finding.as_json() for finding in step.findings],
        "started": started,
        "gone": list(gone),
        "nodes": [node_as_json(node, options.zone_key) for node in step.nodes],
    }
    if result.failure:
        raise PartialFailure(returned, [result.failure])
    return returned


def _as_json(result: StepResult) -> dict[str, t.Any]:
    names = (
        "finished",
        "moves",
        "skipped_instances",
        "deferred",
        "stop_reason",
        "stop_code",
        "progress",
        "plan",
        "_shown",
        "step_state",
    )
    body = result.as_json()
    return {name: body[name] for name in names if name in body}
