# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance from its options to its result: one step, which the action plugin repeats."""

from __future__ import annotations

import gc
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..api.transport import ComputingTimeout, uptime
from ..interface.arguments import topology_of
from ..interface.runner import PartialFailure, listed, task_error
from ..maintenance.mark import node_as_json
from ..maintenance.options import MaintenanceOptions, parse_options
from ..model.findings import Finding, InputError, InvalidInput
from ..model.obstacle import OUTSIDE_OF_WINDOW
from ..model.rendering import Entry, outcome
from ..model.write import writes_result
from ..moves.watch import STEP_SECONDS, until_interrupted

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..maintenance.drain import DrainSource
    from ..maintenance.in_service import InServiceStep
    from ..moves.run_plan import RunPlan
    from ..moves.state import StepResult
    from ..moves.watch import Listening

OF_STEP = (
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
"""Fields of the result of a step that the module returns."""


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options and every reason not to begin, PartialFailure
    with what was done before a failure, and ApiError where nothing was begun."""
    given: t.Mapping[str, t.Any] = module.params
    approved: RunPlan | None = None
    if given["plan"] is not None:
        from ..maintenance.registry import PLAN_READERS
        from ..moves.run_plan import options_with_plan

        defaults = {name: spec.get("default") for name, spec in module.argument_spec.items()}
        given, approved = options_with_plan(given, defaults, PLAN_READERS)
    options = parse_options(given, topology_of(given), approved)
    if options.assume_in_service and not module.check_mode:
        raise InvalidInput(
            [InputError("assume_in_service", "is for check mode only: leave it out")]
        )
    previous_step = module.params["step_state"]
    if previous_step.get("groups") and module.check_mode:
        return _check_in_turn(api, options, previous_step)
    step: DrainSource | InServiceStep
    started: t.Sequence[dict[str, t.Any]] = ()
    gone: tuple[str, ...] = ()
    with until_interrupted() as listening:
        if options.state == "in_service":
            step = _return(api, options, previous_step, listening)
            result = step.run(check=module.check_mode)
            started, gone = step.state.started, step.gone
        else:
            step, result = _drain(api, options, previous_step, listening, check=module.check_mode)
    nodes = [node_as_json(node, options.zone_key) for node in step.nodes]
    # The nodes that the window keeps from being begun have their own states.
    skipped = [x for x in result.entries_skipped() if x.code != OUTSIDE_OF_WINDOW]
    if options.nodes == () and not (result.changed or result.moves or result.failure):
        skipped.append(Entry("none_named", "no node is named, so nothing is done"))
    changes = writes_result(step.context.writes, diff=module._diff)
    body = result.as_json()
    returned = {
        **changes,
        **{name: body[name] for name in OF_STEP if name in body},
        "changed": bool(result.changed or step.context.writes),
        "findings": [finding.as_json() for finding in step.findings],
        **entries(options.state, nodes, started, step.findings, skipped, check=module.check_mode),
        "started": list(started),
        "gone": list(gone),
        "nodes": nodes,
    }
    if result.failure:
        raise PartialFailure(returned, [result.failure])
    return returned


def entries(
    state: str,
    nodes: t.Collection[dict[str, t.Any]],
    started: t.Collection[dict[str, t.Any]],
    findings: t.Iterable[Finding],
    skipped: t.Iterable[Entry],
    *,
    check: bool,
) -> dict[str, t.Any]:
    """What became of VMs beside their moves, and what that, or a drain that would begin now, needs."""
    ended = [
        vm
        for node in nodes
        if state == "in_service" and (check or node["since"] is None)
        for vm in node["stopped"]
    ]
    waiting = (vm for node in nodes for vm in node["starts_again"] if vm not in started)
    off = (f"{_name(vm)} (run strategy {vm['run_strategy']} before)" for vm in ended)
    done = (
        Entry(
            "started", f"{'would be ' if check else ''}started again", tuple(map(_name, started))
        ),
        Entry("stopped", "stopped until the node is in service", tuple(map(_name, waiting))),
        Entry("not_started", "stopped, and not started again", tuple(off)),
    )
    unknown = (x for x in findings if x.name == "place_unknown")
    following = (
        [Entry("place_unknown", f"before you launch it: {x.why} {x.advice}") for x in unknown]
        if check
        else [
            Entry("not_started", f"virtctl start {vm['name']} -n {vm['namespace']}") for vm in ended
        ]
    )
    return outcome((entry for entry in done if entry.objects), skipped, following)


def _name(vm: t.Mapping[str, str]) -> str:
    return f"{vm['namespace']}/{vm['name']}"


def _return(
    api: ApiClient, options: MaintenanceOptions, state: dict[str, t.Any], listening: Listening
) -> InServiceStep:
    """One step of putting nodes in service. Imported as `_drain` is."""
    from ..maintenance.in_service import InServiceStep
    from ..maintenance.undo_drain import ReturnState

    return InServiceStep(api, options, ReturnState.read(state), listening)


def _drain(
    api: ApiClient,
    options: MaintenanceOptions,
    state: dict[str, t.Any],
    listening: Listening,
    *,
    check: bool,
) -> tuple[DrainSource, StepResult]:
    """One step of a drain. Imported where nodes are drained: reading them, and putting them in service, start without
    what plans."""
    from ..maintenance.drain import DrainSource
    from ..maintenance.drain_state import DrainState
    from ..moves.step import run_step

    source = DrainSource(api, options, DrainState.read(state), listening)
    return source, run_step(source, check=check)


def _check_in_turn(
    api: ApiClient, options: MaintenanceOptions, state: dict[str, t.Any]
) -> dict[str, t.Any]:
    """One step of the role's check of its drains, which takes the `groups` of nodes one after the other, and each as if
    it were the only one. `refused` has the groups whose drains are refused, or could not be checked, with the message
    of each: an error about one of them hides nothing of the others."""
    groups, refused = list(state["groups"]), list(state.get("refused", ()))
    lines: list[str] = []
    began = uptime()
    with until_interrupted() as listening:
        while groups and listening() and uptime() - began < STEP_SECONDS:
            nodes = groups.pop(0)
            asked = replace(options, nodes=tuple(nodes))
            client = api.under(api.deadline.anew())
            pipe = {"pipe": state.get("pipe", "")}
            try:
                result = _drain(client, asked, pipe, listening, check=True)[1]
                lines += result.as_json()["progress"]
                failure = result.failure
            except (ApiError, ComputingTimeout, InvalidInput) as error:
                errors: t.Sequence[Exception | InputError] = (
                    error.errors if isinstance(error, InvalidInput) else (error,)
                )
                failure = listed([task_error(x).message for x in errors])
            refused += [(nodes, failure)] if failure else []
            gc.collect()  # what was read for this group: a job needs memory for one reading
    left = {"step_state": {**state, "groups": groups, "refused": refused}} if groups else {}
    return {"finished": not groups, "progress": lines, "_refused": refused, **left}
