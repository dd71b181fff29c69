# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of the role placement_maintenance.

The role loops over lists of groups of nodes that the stages return, since a task that is skipped would be printed.
"""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import OUTSIDE_OF_WINDOW
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    Entry,
    outcome,
)
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import statistics
from ansible_collections.virt.placement.plugins.plugin_utils.closing import has_entry, reason_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    Job,
    JobFailed,
    lines_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.job_verify import verify_placement
from ansible_collections.virt.placement.plugins.plugin_utils.maintenance_plan import (
    MaintenancePlan,
    change_id,
    drained_states,
    end_states,
    maintenance_plan,
    topology_values,
    window_obstacle,
)
from ansible_collections.virt.placement.plugins.plugin_utils.registry import at

REFUSALS = frozenset({"input", "finding", "permission"})
"""Types of errors with which a drain is refused before it begins."""

SELECTION = (
    "Give placement_maintenance_nodes, a list of names, or placement_maintenance_topology, a map of one topology name"
    " to a value or a list of values, and not both."
)


def check(job: Job) -> Result:
    """Read the nodes and check everything before the first write. The record has what the job knows."""
    options = job.record.asked
    read = _reading(job, _selection(options))
    if options["window"]:
        read["window"] = options["window"]
    found = job.run("node_maintenance", read, check=True, may_fail=True, quiet=True)
    if job.added and found.get("failed"):  # the module names all that has changed
        job.run("node_maintenance", {**job.added, "state": "drained"}, check=True)
    if found.get("failed") and "nodes" not in found:
        raise JobFailed(lines_of(found))
    plan = maintenance_plan(found["nodes"], options, found.get("gone") or ())
    if found.get("failed") and (job.added or not _goes_on_without_some(job, found, plan)):
        raise JobFailed(lines_of(found))
    # an earlier job may have ended before it moved VMs home
    closed = None if plan.groups or not returns_home(job) else window_obstacle(options)
    states = dict.fromkeys((name for group in plan.groups for name in group), "not_begun")
    states |= {
        **{node["name"]: "skipped" for node in plan.done},
        # this job may end before it comes to them
        **{node["name"]: node["state"] for node in plan.begun if not job.check_mode},
    }
    job.record.maintenance = {
        "groups": [list(group) for group in plan.groups],
        "states": states,
        "ended": list(plan.done),
        "done": list(plan.done),
        "continued": [node["name"] for node in plan.begun],
        "marked": [node["name"] for node in plan.marked],
        "found": {},
        "begun": options["state"] == "in_service" if plan.groups else closed is None,
        "missing": lines_of(found) if set(options["nodes"]) - states.keys() else [],
        "added": job.added,
        "unchanged": _unchanged(job, found),
    }
    job.show(job.record.maintenance["missing"])
    at("nodes", job)
    for node in plan.done:
        job.show(
            [
                f"node {node['name']}: skipped, since its change_id is {node['change_id']} already: a maintenance with"
                f" this placement_maintenance_change_id ended {node.get('serviced_at') or 'at an unknown time'}. To"
                " service it again, use another one."
            ]
        )
    if closed is not None:
        text = f"no VM is moved home now: {closed.text}"
        job.show([text])
        if options["return_home"] == "namespaces" or any(x["moved_away"] for x in plan.done):
            job.record.note("return_home", outcome(skipped=[Entry(closed.code, text)]))
    # The earlier job may have ended after it uncordoned a node, and before the node took pods and had its VMs started.
    if plan.done and not job.check_mode:
        job.run("node_maintenance", _return_options(job, [node["name"] for node in plan.done]))
    _check_drains(job, plan)
    at("before drains", job)
    _check_rights_to_return(job, plan)
    return _published(
        job,
        groups=[list(group) for group in plan.groups],
        then=["gate"] * (options["state"] == "in_service" and _has_tasks(job, "gate_tasks")),
        gate_again=_gate_again(job, plan),
    )


def _gate_again(job: Job, plan: MaintenancePlan) -> list[list[str]]:
    """The nodes after which the gate is checked once more: the earlier job may have ended because it did not pass. With
    a node that is still in maintenance, it had passed before that node was begun."""
    is_left = job.record.asked["state"] == "serviced" and plan.done and not plan.begun
    names = [node["name"] for node in plan.done]
    return [names] if is_left and _has_tasks(job, "gate_tasks") else []


def _has_tasks(job: Job, option: str) -> bool:
    """Check mode includes no tasks of the user."""
    return bool(job.record.asked.get(option)) and not job.check_mode


def _unchanged(job: Job, found: Result) -> list[Result]:
    """The nodes, where check mode has nothing to do to put them in service: the module would say so for each group."""
    news = ("failed", "gone", "progress", "started", "warnings", "writes")
    has_news = any(map(found.get, news)) or any(node["since"] for node in found["nodes"])
    return found["nodes"] if job.check_mode and not has_news else []


def _goes_on_without_some(job: Job, found: Result, plan: MaintenancePlan) -> bool:
    """Whether the job takes the nodes that exist, and fails at its end for the others. A job that continues another one
    does: a node of it may have been deleted meanwhile. In a new job the name may be wrong."""
    state = job.record.asked["state"]
    continues = bool(plan.done or plan.marked or found.get("gone"))
    return state == "in_service" or (state == "serviced" and continues)


def _selection(options: t.Mapping[str, t.Any]) -> Result:
    """The options of node_maintenance that select the nodes of a job. A list without a value names no node."""
    topology = options["topology"]
    if bool(options["nodes"]) == bool(topology) or len(topology) > 1:
        raise JobFailed([SELECTION])
    if values := topology_values(options):
        return {"topology": {next(iter(topology)): values}}
    return {"nodes": options["nodes"]}


def _reading(job: Job, selected: Result) -> Result:
    """In check mode in_service reads the nodes and waits for nothing."""
    return {**selected, "state": "in_service", "topology_keys": job.record.asked["topology_keys"]}


def _drain_options(job: Job, group: t.Sequence[str]) -> Result:
    options = job.record.asked
    names = (
        "reason",
        "vm_policy",
        "reboot_expected",
        "max_nodes",
        "allow_findings",
        "delegated_budgets",
        "topology_keys",
    )
    window = {"window": options["window"]} if options["window"] else {}
    copied = {name: options[name] for name in names}
    added = job.record.maintenance["added"]
    return {"nodes": list(group), "state": "drained", **copied, **window, **added}


def _check_drains(job: Job, plan: MaintenancePlan) -> None:
    """Before the first node is cordoned. While a node is in maintenance, no other topology domain can be drained: a
    job that continues checks each drain when it begins. So does a job with one drain, and check mode."""
    is_later = job.record.asked["state"] != "serviced" or plan.begun or job.check_mode
    if is_later or not plan.groups:
        return
    asked = _drain_options(job, [name for group in plan.groups for name in group])
    asked |= {"assume_in_service": plan.uncordoned, "step_state": {"groups": plan.groups}}
    checked = job.run("node_maintenance", asked, check=True)
    if errors := [_of_group(group, {"msg": text}) for group, text in checked["_refused"]]:
        lines = [line for each in errors for line in each]
        raise JobFailed(lines, reasons=map(reason_of, errors))


def _of_group(group: t.Sequence[str], result: Result) -> list[str]:
    first, *rest = lines_of(result) or [""]
    return [f"{', '.join(group)}: {first}", *rest]


def returns_home(job: Job) -> bool:
    asked = job.record.asked
    return bool(asked["return_home"] != "none" and asked["state"] != "drained")


def _check_rights_to_return(job: Job, plan: MaintenancePlan) -> None:
    if not returns_home(job) or not plan.nodes or job.check_mode:
        return
    namespaces = _namespaces_with_rules(job)
    if namespaces:
        job.run("rollout", {**_returning(job, namespaces), "require_rights": True}, check=True)


def _namespaces_with_rules(job: Job) -> list[str]:
    read = job.run("rules_info", {"topology_keys": job.record.asked["topology_keys"]}, check=True)
    return list(dict.fromkeys(rule["namespace"] for rule in read["rules"] if rule["workloads"]))


def _returning(job: Job, namespaces: t.Sequence[str]) -> Result:
    """Instances that violate a rule or miss a preference."""
    options = job.record.asked
    return {
        "namespaces": list(namespaces),
        "scope": "preference_not_met",
        "allow": options["return_home_allow"],
        "topology_keys": options["topology_keys"],
    }


def drain(job: Job) -> Result:
    """Check mode goes on after a refused drain, to name all."""
    options, known = job.record.asked, job.record.maintenance
    group = list(job.arguments["nodes"])
    at("before drain", job)
    if not job.check_mode:
        known["states"] |= dict.fromkeys(group, "failed")
    asked = _drain_options(job, group)
    asked |= {name: options[name] for name in ("run_timeout", "move_timeout")}
    place = known["groups"].index(group)
    if job.check_mode:
        asked["assume_in_service"] = [name for names in known["groups"][:place] for name in names]
    if options["steer_restarts"]:
        later = known["groups"][place + 1 :]
        asked["serviced_later"] = [name for names in later for name in names]
    drained = job.run("node_maintenance", asked, may_fail=True)
    if drained.get("failed"):
        if not job.check_mode:
            if _is_refusal(drained):
                left = (name for name in group if name not in known["marked"])
                known["states"] |= dict.fromkeys(left, "not_begun")
                if gone := _deleted_meanwhile(job, group, drained):
                    return _drain_without(job, group, gone)
            raise JobFailed(lines_of(drained))
        known["found"] |= dict.fromkeys(group, "refused")
        job.complain(_of_group(group, drained), "Drain ")
        if options["state"] == "drained":
            raise JobFailed([])
        return _drained(job, [])
    begun = not drained["stop_reason"]
    known["begun"] = known["begun"] or begun
    known["states"] |= drained_states(drained["nodes"])
    known["found"] |= _found(drained, group, options["state"])
    return _drained(job, group if begun else [])


def _drained(job: Job, group: list[str]) -> Result:
    """`begun` has the nodes of the group, `work` each of them alone if there are tasks for it, `gate` those after which
    the gate is checked."""
    begun = [group] if group else []
    work = [[name] for name in group] if _has_tasks(job, "tasks") else []
    return _published(
        job, begun=begun, work=work, gate=begun if _has_tasks(job, "gate_tasks") else []
    )


def _deleted_meanwhile(job: Job, group: t.Sequence[str], drained: Result) -> list[str]:
    """The nodes of a drain that was refused which do not exist any more."""
    types = {error["type"] for error in drained["errors"]}
    if types != {"input"} or job.record.asked["state"] != "serviced":
        return []
    names = list(job.record.maintenance["states"])
    read = job.run(
        "node_maintenance", _reading(job, {"nodes": names}), check=True, may_fail=True, quiet=True
    )
    there = {node["name"] for node in read.get("nodes") or ()}
    return [name for name in group if name not in there] if there else []


def _drain_without(job: Job, group: list[str], gone: t.Sequence[str]) -> Result:
    """Drain the others, if any. The job fails at its end."""
    known = job.record.maintenance
    lines = [
        f"Node {name} does not exist any more: another client deleted it before its turn. It was not drained. Launch"
        " this job again once it is back."
        for name in gone
    ]
    job.show(lines)
    known["missing"] += lines
    place = known["groups"].index(group)
    known["groups"][place] = [name for name in group if name not in gone]
    if not known["groups"][place]:
        return _drained(job, [])
    job.arguments["nodes"] = known["groups"][place]
    return drain(job)


def _is_refusal(drained: Result) -> bool:
    """Whether a drain has failed before its first write: not if a write was tried, since it may have been made."""
    types = {error["type"] for error in drained.get("errors") or ()}
    return bool(types) and types <= REFUSALS and not (drained.get("changed") or "nodes" in drained)


def _found(drained: Result, group: t.Sequence[str], state: str) -> dict[str, str]:
    """What the drain has found of each node: `state`, which it gets, or that its window is closed."""
    begun = {node["name"] for node in drained["nodes"] if node["since"]}
    closed = bool(drained["stop_reason"])
    return {name: "closed" if closed and name not in begun else state for name in group}


def begin_work(job: Job) -> Result:
    """Whether the node may be worked on, in the words of the role."""
    (name,) = job.arguments["nodes"]
    job.record.open = f"tasks for node {name}"
    read = job.run("node_maintenance", _reading(job, {"nodes": [name]}), check=True, quiet=True)
    node = read["nodes"][0]
    if node["state"] != "drained" or not node["cordoned"]:
        raise JobFailed(job.arguments["failures"])
    job.show(job.arguments["lines"])
    return {}


def in_service(job: Job) -> Result:
    options, known = job.record.asked, job.record.maintenance
    group = list(job.arguments["nodes"])
    unchanged = [node for node in known.get("unchanged", ()) if node["name"] in group]
    asked = _return_options(job, group)
    try:
        ended = {"nodes": unchanged} if unchanged else job.run("node_maintenance", asked)
    except JobFailed:
        refused = _is_refusal(job.record.last("node_maintenance"))
        if not (job.check_mode or refused):
            known["states"] |= dict.fromkeys(group, "failed")
        raise
    known["ended"] += ended["nodes"]
    if options["state"] == "in_service":
        marked = set(known["marked"])
        known["found"] |= {x: "in_service" if x in marked else "nothing" for x in group}
    if not job.check_mode:
        known["states"] |= end_states(ended["nodes"], options["state"])
        job.show(_not_recorded(job, ended["nodes"]))
    if _has_tasks(job, "gate_tasks"):
        job.record.open = f"gate after {', '.join(group)}"
    return _published(job)


def _return_options(job: Job, nodes: t.Sequence[str]) -> Result:
    options = job.record.asked
    names = ("reboot_expected", "run_timeout", "topology_keys")
    copied = {name: options[name] for name in names}
    return {"nodes": list(nodes), "state": "in_service", "change_id": change_id(options), **copied}


def _not_recorded(job: Job, nodes: t.Iterable[Result]) -> list[str]:
    """Of nodes whose Node objects were deleted, and the Lease had no room for their marks."""
    change = change_id(job.record.asked)
    if not change or job.record.asked["state"] != "serviced":
        return []
    return [
        f"node {node['name']}: serviced, and its Node object does not have the change_id {change}: another client"
        " has removed the mark of its maintenance. A job with the same nodes services it again."
        for node in nodes
        if node["change_id"] != change
    ]


def finish(job: Job) -> Result:
    """Return home and verify, where the window has not kept all nodes from being serviced."""
    known, options = job.record.maintenance, job.record.asked
    if not known:  # Ansible has left the check out, or a role that the user's tasks include has a record of its own
        raise JobFailed(
            ["Nothing is moved home or verified, since this job has not read the nodes."]
        )
    away = _unique(entry for node in _of_this_job(job) for entry in node["moved_away"])
    if job.check_mode:
        away = _unique([*away, *_moved(job)])
    stays = has_entry(job.record.last("return_home"), "skipped", OUTSIDE_OF_WINDOW)
    shown = job.check_mode and options["return_home"] == "moved" and not stays
    if returns_home(job) and shown and away:
        names = ", ".join(f"{entry['namespace']}/{entry['name']}" for entry in away)
        job.show([f"These would be moved if they violate a rule or miss a preference: {names}"])
    if returns_home(job) and known["begun"] and not job.check_mode:
        _note_staying(job, _return_home(job, away), "no rule asks for another node")
    elif options["return_home"] == "none" and options["state"] != "drained":
        _note_staying(job, away, "placement_maintenance_return_home is none")
    moved = _moved(job)
    if options["verify"] and moved and not job.check_mode:
        selected = {"namespaces": _namespaces_of(moved)}
        verify_placement(job, selected, fail_on=options["fail_on"], only=moved)
    job.complain(known["missing"])
    if job.record.failures:  # of a task before
        job.record.open = ""
        raise JobFailed([], job.record.failed_task)
    return {}


def _namespaces_of(entries: t.Iterable[Result]) -> list[str]:
    return list(dict.fromkeys(entry["namespace"] for entry in entries))


def _moved(job: Job) -> list[Result]:
    """The workloads that this job has moved so far or, in check mode, would move."""
    return _unique(
        {name: move[name] for name in ("kind", "namespace", "name")} for move in job.record.moves
    )


def _of_this_job(job: Job) -> list[Result]:
    """The nodes whose maintenance has ended. In check mode none has begun, so that those without a mark have what an
    older maintenance has moved away, unless that was one of this change."""
    known = job.record.maintenance
    ended: list[Result] = known["ended"]
    if not job.check_mode:
        return ended
    return [node for node in ended if node["since"] or node in known["done"]]


def _return_home(job: Job, away: list[Result]) -> list[Result]:
    """The workloads that no rollout has moved or skipped."""
    options = job.record.asked
    with_rules = _namespaces_with_rules(job)
    everywhere = options["return_home"] == "namespaces"
    limits = {name: options[name] for name in ("run_timeout", "move_timeout")}
    result: Result = {}
    if everywhere and with_rules:
        result = job.run("rollout", {**_returning(job, with_rules), **limits})
    elif away and not everywhere:
        asked = {**_returning(job, _namespaces_of(away)), **limits, "only": away}
        result = job.run("rollout", asked)
    # They have nothing to do with this maintenance: their lines are printed if there is something to move.
    if not everywhere and with_rules:
        others = job.run("rollout", _returning(job, with_rules), check=True, quiet=True)
        if others["moves"] or others.get("skipped_instances"):
            job.show(map(str, others.get("progress") or ()))
    concerned = [*(result.get("moves") or ()), *(result.get("skipped_instances") or ())]
    names = {(entry["namespace"], entry["name"]) for entry in concerned}
    return [entry for entry in away if (entry["namespace"], entry["name"]) not in names]


def _note_staying(job: Job, away: t.Collection[Result], reason: str) -> None:
    if away:
        stay = "stays where it is" if len(away) == 1 else "stay where they are"
        names = tuple(f"{entry['namespace']}/{entry['name']}" for entry in away)
        text = f"{len(away)} {stay}, since {reason}"
        job.record.note("return_home", outcome([Entry("stays", text, names)]))


def _unique(entries: t.Iterable[Result]) -> list[Result]:
    found = list(entries)
    return [entry for place, entry in enumerate(found) if entry not in found[:place]]


def _published(job: Job, **returned: t.Any) -> Result:
    """Statistics are published at once, so that a job that ends early has those of what was done."""
    states = job.record.maintenance["states"]
    data = {"placement_maintenance": {job.host: states}} if states else {}
    return {**returned, **statistics(data)}
