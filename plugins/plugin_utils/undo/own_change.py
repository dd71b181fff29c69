# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may a job undo after its failure (placement_apply_on_failure), and what does its closing block say of that?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    AGAIN,
    UNFINISHED,
    listed,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing import (
    Closing,
    has_entry,
    joined,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import Capability, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import (
    JobRecord,
    Result,
)

UNDONE, PARTLY_UNDONE, NOT_UNDONE = "undone", "partly_undone", "not_undone"
"""What came of the undo, as in the artifact."""


@dataclass(frozen=True)
class OwnChange:
    """The change that this job alone has made of its rule set. `id` is empty where there is none, or where an undo
    would undo more than that. `kept`: why rules that are or may be written are not undone. `only_policy`: no workload
    was written."""

    id: str = ""
    kept: str = ""
    only_policy: bool = False


def own_change(record: JobRecord) -> OwnChange:
    """Given a record without the notes of an undo."""
    note = record.last("rules")
    change = note.get("change")
    if change and change["continues"]:
        return OwnChange(
            kept="an earlier job has begun this change of the rules, and an undo would undo all of it"
        )
    if change:
        return OwnChange(str(change["id"]))
    if note.get("crashed"):
        return OwnChange(kept="the task ended without a result, so what it has written is unknown")
    if any(has_entry(note, "done", code) for code in ("policy_written", "policy_removed")):
        reason = "this job has written the policy for new members and no workload, and an undo restores workloads"
        return OwnChange(kept=reason, only_policy=True)
    return OwnChange()


def begin_undo(job: Job) -> Result:
    """The role placement_apply with on_failure undo. Returns the change of this job. Fails where an undo would undo
    what this job has not written."""
    record = job.record
    own = own_change(record)
    record.undo = {"notes": len(record.notes), "failures": len(record.failures)}
    if not own.id:
        reason = own.kept or "this job has written no rule"
        raise JobFailed([f"Nothing is undone, since {reason}."])
    options = record.asked
    job.show(
        [
            f"{record.failed_task} has failed, so the change of rule set {options['rule_set']} in namespace"
            f" {options['namespace']} is undone."
        ]
    )
    return {"change": own.id}


def of_undo(record: JobRecord) -> JobRecord:
    """The part of the record that the undo has made."""
    begun = record.undo or {"notes": len(record.notes), "failures": len(record.failures)}
    return replace(
        record, notes=record.notes[begun["notes"] :], failures=record.failures[begun["failures"] :]
    )


def undo_parts(record: JobRecord) -> Result:
    """Of a job that failed and was to undo its change: texts of `done`, `skipped` and `next_steps`, the outcome `undo`,
    and what follows the failure, `and_then`."""
    if record.asked.get("on_failure") != "undo":
        return {}
    parts: Result = {"asked": ("if its rollout or verification fails: undo what it has written",)}
    made = record.before_undo()
    own = own_change(made)
    if record.check_mode or not record.failures or not (own.id or own.kept):
        return parts
    undone = of_undo(record)
    result = undone.last("rules")
    restored = result.get("reverted") or []
    left = joined(undone.of("rules"), "skipped")
    # Other rules of the namespace may have been violated before, so what the rollout has skipped, and a red
    # verification, are named, and no more.
    others = joined((note for note in undone.notes if note["module"] != "rules"), "skipped")
    unfinished = undone.failures and not undone.of("placement_info")
    whole = bool(restored) and not left and not unfinished
    outcome = UNDONE if whole else PARTLY_UNDONE if restored else NOT_UNDONE
    return {
        **parts,
        "done": tuple(f"undo: {text}" for text in _done(made, undone)),
        "skipped": (
            *(f"not undone: {text}" for text in left),
            *(f"undo: {text}" for text in others),
        ),
        "next_steps": (_next_step(record, own, result, outcome),),
        "undo": outcome,
        "and_then": _and_then(record, own, outcome),
    }


def _done(made: JobRecord, undone: JobRecord) -> t.Iterator[str]:
    # What was read for the undo, such as its forecast, would keep its moves from the few lines of the block.
    yield from joined((x for x in undone.notes if not x["module"].endswith("_info")), "done")
    yield from Closing("", "done", moves=tuple(undone.moves)).move_texts()
    moved_back = {_vm(move) for move in undone.moves if move["state"] == "moved"}
    stay = {
        _vm(move): str(move["to_node"])
        for move in made.moves
        if move["state"] == "moved" and move.get("to_node") and _vm(move) not in moved_back
    }
    if stay and undone.last("rules").get("reverted"):
        names = listed([f"{vm} on {node}" for vm, node in stay.items()], 4)
        yield f"left where this job has moved them: {names}"


def _vm(move: Result) -> str:
    return f"{move['namespace']}/{move['name']}"


def _and_then(record: JobRecord, own: OwnChange, outcome: str) -> str:
    words = {UNDONE: "undone", PARTLY_UNDONE: "undone in part", NOT_UNDONE: "NOT undone"}[outcome]
    failed = f"{record.open} of the undo has failed, too" if of_undo(record).failures else ""
    because = own.kept or failed or ("" if outcome == UNDONE else "what was left is named above")
    return f"; its change was {words}{f': {because}' if because else ''}"


def _next_step(record: JobRecord, own: OwnChange, result: Result, outcome: str) -> str:
    options = record.asked
    undo = (
        f"the playbook undo with placement_undo_namespace: {options['namespace']} and placement_undo_rule_set:"
        f" {options['rule_set']}"
    )
    if outcome == UNDONE and not of_undo(record).failures:
        return f"{AGAIN}: it writes the rules again"
    if own.only_policy:
        return f"{AGAIN}; to give new members the rules of before: a job with these rules"
    if own.kept:
        return f"{UNFINISHED.text}; or launch {undo}"
    refused = {error["type"] for error in result.get("errors") or ()}
    if refused and refused <= {"input", "finding"}:  # the same undo would fail again
        return "look at the rules with the playbook rules, and write those of this rule set as they should be"
    if result and not result["failed"]:
        return "the rules are as before this job; to move what violates one: playbook rollout"
    return f"correct the cause, then launch {undo}: it continues; or the same job, to go on with the rules"


CAPABILITY = Capability(stages={"begin_undo": begin_undo}, parts={"placement_apply": undo_parts})
