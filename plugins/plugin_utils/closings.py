# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a job noted to its closing block: one function for each role, and what they share."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    OF_ADMISSION,
    advice_on_admission,
)
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, plural
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import unreadable_texts
from ansible_collections.virt.placement.plugins.plugin_utils.approval.plan_files import (
    after_failure,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing import (
    AGAIN,
    LAUNCH,
    NONE_WRITTEN,
    RELAUNCH,
    Closing,
    has_entry,
    joined,
    reason_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing_maintenance import (
    maintenance_parts,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing_rollout import rollout_parts
from ansible_collections.virt.placement.plugins.plugin_utils.closing_unread import (
    after_unread,
    again,
    unread,
    unread_texts,
)
from ansible_collections.virt.placement.plugins.plugin_utils.registry import DONE, NEXT_STEPS
from ansible_collections.virt.placement.plugins.plugin_utils.undo.own_change import (
    UNDO,
    before_undo,
    none_written,
    undo_parts,
)
from ansible_collections.virt.placement.plugins.plugin_utils.verification import (
    named_lists,
    no_move_repairs,
    unread_lists,
)

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]
TO_MOVE = "to move what violates a rule: playbook rollout"


_TITLES = {"drs_import": "DRS import"}
"""Of playbooks whose name is no word."""


def closing_of(record: JobRecord, seconds: float) -> Closing:
    name = record.role.removeprefix("placement_")
    if record.open and not record.failures:
        cause = record.cut_by or "the job ended during this task, see the error above"
        record.fail(record.open, [f"{record.open}: {cause}"], lead="")
    parts: Parts = {"asked": (), "done": (), "skipped": (), "next_steps": ()}
    if record.asked:
        parts |= CLOSINGS[name](record)
    failed = list(record.failures)
    outcome = "failed" if failed else "checked" if record.check_mode else "done"
    reasons = _reasons(record, failed, parts.pop("and_then", "")) if failed else ()
    gaps = unread(record)
    notes = before_undo(record).notes
    forecasts = [x["forecast"] for x in notes if x["module"] == "forecast_info" and "forecast" in x]
    done = [*(f"forecast: {answer}" for answer in forecasts[-1:]), *joined(notes, "done")]
    following = joined(notes, "next")
    if name == "maintenance":  # it says of its nodes and VMs what was done, and which job is next
        done, following = [], []
    steps = (*after_unread(gaps), *parts["next_steps"], *(() if record.undo else following))
    steps = steps or tuple(again(record) if failed else ())
    parts["next_steps"] = tuple(dict.fromkeys(steps))
    return Closing(
        playbook=_TITLES.get(name) or name.replace("_", " ").capitalize(),
        outcome=outcome,
        seconds=seconds,
        moves=tuple(record.moves),
        failed=tuple(reasons),
        errors=tuple(failed),
        unread=tuple(unread_texts(gaps)),
        gaps=tuple(unreadable_texts(gaps)),
        **{
            **parts,
            "done": (*done, *parts["done"]),
            "skipped": (*parts["skipped"], *joined(notes, "skipped")),
        },
    )


def _reasons(record: JobRecord, failed: t.Sequence[str], and_then: str) -> list[str]:
    """What failed, each in short: the first one with its task, the last one with what the job did then."""
    first, *others = dict.fromkeys(record.reasons) or [reason_of(failed)]
    task, around = record.failed_task, record.open
    if task and around not in ("", task) and not record.undo:
        task = f"{task} ({around})"  # such as the gate after a group
    lead = record.lead
    if lead is None:
        lead = f"{task or around}: " if record.failures and (task or around) else ""
    texts = [f"{lead}{first}", *others]
    return [*texts[:-1], f"{texts[-1]}{and_then}"]


def _verify(record: JobRecord) -> Parts:
    options = record.asked
    selected = listed(options["namespaces"] or ["all namespaces"])
    asked = f"namespaces {selected}" if options["namespaces"] else selected
    if options["workloads"]:
        asked += f", {plural(len(options['workloads']), 'workload')}"
    words = "would write: " if record.check_mode else "report: "
    files = [file["path"] for file in record.last("report").get("files") or ()]
    return {
        "asked": (asked,),
        "done": (
            *_verdicts(record),
            *_resting(record),
            *_room(record),
            *(f"{words}{x}" for x in files),
        ),
        "next_steps": tuple(_after_verification(record)),
    }


def _report(record: JobRecord) -> Parts:
    return {**_verify(record), "asked": (f"report of {_verify(record)['asked'][0]}",)}


def _verdicts(record: JobRecord) -> t.Iterator[str]:
    result = record.last("placement_info")
    summary = result.get("summary")
    if summary:
        lists = unread_lists(result)
        summary = {**summary, "unknown": summary.get("unknown", 0) - len(lists)}
        counts = [
            f"{summary[name]} {name}"
            for name in (
                "satisfied",
                "violated",
                "pending",
                "unknown",
                "preference_not_met",
                "not_enforced",
                "constraint_removed",
                "down",
            )
            if summary.get(name)
        ]
        if lists:
            counts.append(
                f"whether there are more is unknown: {named_lists(lists)} could not be read"
            )
        yield f"{plural(summary['instances'], 'instance')}: {', '.join(counts) or 'none with a rule'}"
        if rules := [rule["rule"] for rule in summary.get("violated_rules", ())]:
            yield f"violated rules: {listed(rules)}"
        if off := summary.get("not_running"):
            yield f"{plural(off, 'VM')} not running, so not verified"
        if fixed := summary.get("not_migratable"):
            yield f"{plural(fixed, 'running VM')} cannot be live-migrated"


def _resting(record: JobRecord) -> t.Iterator[str]:
    rules = [x["rule"] for x in record.last("placement_info").get("resting_rules") or ()]
    if rules:
        yield f"not enabled, so not verified: {plural(len(rules), 'rule')}: {listed(rules, 8)}"


def _after_verification(record: JobRecord) -> t.Iterator[str]:
    result = record.last("placement_info")
    summary = result.get("summary") or {}
    if members := result.get("new_members"):
        yield f"write the rules again with the playbook apply: they are not on {listed(members, 4)}"
    if summary.get("violated") and not no_move_repairs(summary):
        yield TO_MOVE
    elif summary.get("violated"):
        yield "change the violated rules, or add nodes or labels: no move repairs them"
    if summary.get("constraint_removed"):
        yield "constraints of rules were removed: write the rules again with the playbook apply"
    if summary.get("down"):
        yield (
            "for what is down: bring its node back, or fence it once it is surely off; KubeVirt then starts VMs"
            " elsewhere"
        )
    if record.failures and not summary:
        yield from again(record)
    elif record.failures and not summary.get("violated"):
        yield from _after_room(record, f"{record.role}_keep_room_for")


def _apply(record: JobRecord) -> Parts:
    options = record.asked
    names = [str(rule.get("name")) for rule in options["rules"] if isinstance(rule, dict)]
    asked = (
        f"rules {listed(names, 8)} of rule set {options['rule_set']} in namespace {options['namespace']},"
        f" state {options['state']}"
    )
    on_failure = "if its rollout or verification fails: undo what it has written"
    undo = undo_parts(record)
    return {
        "asked": (asked, on_failure) if options.get("on_failure") == UNDO else (asked,),
        "next_steps": tuple(_after_apply(record)),
        **undo,
        "done": (
            *_room(record),
            *(line for lines in DONE.values() for line in lines(record)),
            *undo.get("done", ()),
            *_verdicts(record),
            *_resting(record),
        ),
    }


def _room(record: JobRecord) -> t.Iterator[str]:
    """Of a role that asks for room beside its own work."""
    room = record.last("capacity_info").get("capacity")
    if room:
        yield f"capacity if any one of these fails ({listed(record.asked['keep_room_for'])}): {room}"


def _undo(record: JobRecord) -> Parts:
    options = record.asked
    asked = f"undo the last change of rule set {options['rule_set']} in namespace {options['namespace']}"
    return {
        "asked": (asked,),
        "done": (*(line for lines in DONE.values() for line in lines(record)), *_verdicts(record)),
        "next_steps": tuple(_after_apply(record)),
    }


def _after_apply(record: JobRecord) -> t.Iterator[str]:
    if record.failures and record.failed_task == "Show forecast":
        yield "nothing was written: correct the cause, then launch this job, or its workflow for an approval, again"
    elif none_written(record.last("rules")):
        yield f"{NONE_WRITTEN}{AGAIN}"
    elif record.failures and not record.of("rules"):
        step = RELAUNCH if record.begun else f"{NONE_WRITTEN}{AGAIN}"
        yield from _after_room(record, f"{record.role}_keep_room_for") or [step]
    elif record.failures:
        is_red = record.last("placement_info").get("summary")
        if not (is_red and has_entry(record.last("rollout"), "next", "skipped")):
            steps = _after_verification(record) if is_red else ()
            yield from [*steps] or after_failure(record)
    elif record.check_mode:
        yield LAUNCH
    else:
        if not record.asked["rollout"]:
            yield TO_MOVE
        yield from (step for steps in NEXT_STEPS.values() for step in steps(record))


def _topology(record: JobRecord) -> Parts:
    return {
        "asked": ("labels of nodes",),
        "next_steps": tuple(after_failure(record)) if record.failures else (),
    }


_OF_QUOTAS = frozenset({"quota", "quota_unknown"})


def _codes(domains: t.Iterable[Parts]) -> set[str]:
    return {code for domain in domains for code in domain.get("codes") or ()}


def _after_refusal(domains: t.Iterable[Parts]) -> tuple[str, ...]:
    """The next step where pods may not be created, which more nodes would not change; empty elsewhere."""
    if OF_ADMISSION.isdisjoint(codes := _codes(domains)):
        return ()
    return (
        "for the pods that the lines above say may be refused:"
        f" {advice_on_admission(codes)} Then launch the same job again",
    )


def _after_room(record: JobRecord, asks: str) -> tuple[str, ...]:
    """The next step of a job that has failed since failures have no room. `asks`: the option that asks for it."""
    domains = record.last("capacity_info").get("domains") if record.failures else ()
    if not domains:
        return ()
    if (codes := _codes(domains)) and codes <= _OF_QUOTAS:  # another node would not help
        return (
            "raise the ResourceQuotas that the lines above name, or stop pods of their namespaces; then launch the same"
            " job again",
        )
    return _after_refusal(domains) or (
        "for the VMs that the lines above name: let them run on more nodes, add nodes, or shrink or stop VMs; or ask"
        f" for less ({asks}); then launch the same job again",
    )


def _drill(record: JobRecord) -> Parts:
    options = record.asked
    result = record.last("drill_info")
    done = []
    if "forecast" in result:
        done = [result.get("n_plus_1") or f"worst forecast: {result['forecast']}"]
        if result["domains"]:
            done += _failures(result["domains"])
        elif result["forecast"] == "unknown":
            done.append("which have an impact is unknown, since not everything could be read")
        else:
            after = "failure has an impact after fencing"
            done.append(f"no {after if options['event'] == 'failure' else 'drain has an impact'}")
    return {
        "asked": (f"{options['event']} of each {', '.join(options['domains_of'])}, one at a time",),
        "done": (*done, *_room(record)),
        "next_steps": (
            _after_refusal(result["domains"])
            or (
                "for what the lines above name, add nodes or room, or change the rules; then launch the same job again",
            )
            if record.failures and result.get("domains")
            else _after_room(record, "placement_drill_keep_room_for")
        ),
    }


def _failures(domains: t.Sequence[Parts]) -> t.Iterator[str]:
    """The domains of a drill by what is known of their loss: where it is `possible`, only the guarantee lacks."""
    words: dict[str, list[str]] = {"with an impact": [], "not guaranteed": [], "unknown": []}
    for domain in domains:
        certain = domain["forecast"] == "impossible" or any(
            domain.get(x) for x in ("not_recreated", "not_migratable")
        )
        less = "unknown" if domain["forecast"] == "unknown" else "not guaranteed"
        words["with an impact" if certain else less].append(
            f"{domain['domain']} ({domain['forecast']})"
        )
    for text, names in words.items():
        if names:
            yield f"{text}: {listed(names, 8)}"


def _room_for(room: Parts, capacity: str) -> str:
    size = (
        f"of {room['instance_type']}"
        if room["instance_type"]
        else f"with {plural(room['cores'], 'core')}"
    )
    if capacity != "green":
        return f"no room for more VMs {size} while the capacity is {capacity}"
    if room["doubt"]:
        return f"room for more VMs: unknown: {room['doubt']}"
    if not room["at_least"]:
        return f"room for no more VM {size} that is proven"
    return f"room for at least {room['at_least']} more VMs {size}"


def _capacity(record: JobRecord) -> Parts:
    options = record.asked
    result = record.last("capacity_info")
    done = []
    if "capacity" in result:
        done = [f"capacity: {result['capacity']}"]
        done += _failures(result["domains"])
        if result["room_for"]:
            done.append(_room_for(result["room_for"], result["capacity"]))
    return {
        "asked": (f"any one of these may fail: {', '.join(options['tolerate'])}",),
        "done": tuple(done),
        "next_steps": _after_room(record, "placement_capacity_tolerate"),
    }


def _cpu(record: JobRecord) -> Parts:
    namespaces = record.asked["namespaces"]
    counts = record.last("cpu_info").get("counts") or {}
    bound = {
        "node": "bound to one node",
        "zone": "bound to one zone",
        "none": "without a node to start on",
        "unknown": "unknown",
        "unproven": "perhaps bound: libvirt may refuse the other nodes",
    }
    done = [plural(counts["vms"], "VM")] if counts else []
    done += [f"{counts[name]} {text}" for name, text in bound.items() if counts.get(name)]
    asked = f"CPU models of VMs of {listed(namespaces) if namespaces else 'all namespaces'}"
    return {"asked": (asked,), "done": tuple(done), "next_steps": ()}


def _rules(record: JobRecord) -> Parts:
    namespaces = record.asked["namespaces"]
    result = record.last("rules_info")
    rules = result.get("rules")
    bad = [x["name"] for x in rules or () if x["violated"]]
    more = ", and whether there are more is unknown" if result.get("permission_gaps") else ""
    done = [] if rules is None else [f"{plural(len(rules), 'rule')}{more}"]
    done += [f"violated: {listed(bad, 8)}"] if bad else []
    return {
        "asked": (f"rules of {listed(namespaces) if namespaces else 'all namespaces'}",),
        "done": tuple(done),
        "next_steps": (TO_MOVE,) if bad else (),
    }


def _drs_import(record: JobRecord) -> Parts:
    options = record.asked
    asked = {"asked": (f"import {listed(options['files'])}",)}
    folder = options["folder"]
    if record.failures or record.open:
        return asked
    if not folder:
        step = (
            "read the lines above; then the playbooks topology and apply with what the artifact has"
        )
        return {**asked, "done": ("published, and written to no folder",), "next_steps": (step,)}
    if record.check_mode:
        return {**asked, "next_steps": (LAUNCH,)}
    return {
        **asked,
        "done": (f"written to {folder}: report.txt and variables of playbooks",),
        "next_steps": (
            "read report.txt; then the playbooks topology and apply with these variables",
        ),
    }


CLOSINGS: dict[str, t.Callable[[JobRecord], Parts]] = {
    "apply": _apply,
    "capacity": _capacity,
    "cpu": _cpu,
    "drill": _drill,
    "drs_import": _drs_import,
    "maintenance": maintenance_parts,
    "report": _report,
    "rollout": rollout_parts,
    "rules": _rules,
    "topology": _topology,
    "undo": _undo,
    "verify": _verify,
}
