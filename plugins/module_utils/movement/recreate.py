# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move an instance of a replica set by deleting its VMI; the controller makes another.

Pure. The delete carries the VMI's uid and resourceVersion as preconditions: a run that was
overtaken cannot delete what its successor has looked at and marked.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.kinds import instance_path
from .entry import Answer, Ended, Entry, Outcome, Phase, Reply, Request, Seen, Settings, Step, ready


def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    """What to do next with this instance."""
    if entry.phase is Phase.INTENDED and _still_there(seen):
        if now - entry.begun >= settings.move_timeout:
            return _too_long(entry, seen, settings)
        preconditions = {"uid": entry.uid, "resourceVersion": seen.resource_version}
        path = instance_path(entry.instance)
        return Step(entry, Request("delete", path, {"preconditions": preconditions}))
    return await_successor(entry, seen, now, settings)


def await_successor(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    """The old instance leaves; wait until the new one serves."""
    entry = replace(entry, phase=Phase.BEGUN)
    successor = seen.successor
    if successor is not None and ready(successor) and successor.node_name:
        return Step(entry, ended=Ended(Outcome.MOVED, node=successor.node_name))
    if successor is None and seen.instance is None and seen.surplus:
        reason = "its controller made no other: the workload was scaled in"
        return Step(entry, ended=Ended(Outcome.GONE, reason=reason))
    entry = replace(entry, note=_holding_up(seen))
    if now - entry.begun >= settings.move_timeout:
        return _too_long(entry, seen, settings)
    return Step(entry)


def answered(entry: Entry, answer: Answer) -> Step:
    """What the API server said to the delete."""
    if answer.reply in (Reply.ACCEPTED, Reply.GONE):
        return Step(replace(entry, phase=Phase.BEGUN, note=""))
    if answer.reply is Reply.REFUSED:
        return Step(entry, ended=Ended(Outcome.FAILED, reason=answer.reason))
    return Step(replace(entry, note=answer.reason))


def _still_there(seen: Seen) -> bool:
    if seen.instance is None:
        return False
    vmi, pod = seen.instance.vmi, seen.instance.pod
    return not (vmi.terminating if vmi is not None else pod is not None and pod.terminating)


def _holding_up(seen: Seen) -> str:
    if seen.successor is None:
        if seen.instance is not None:
            return f"{seen.instance.ref} has not ended yet"
        return "its controller has not made another yet"
    if seen.pending:
        return f"{seen.successor.ref} is Pending: {seen.pending}"
    return f"{seen.successor.ref} is not Ready yet"


def _too_long(entry: Entry, seen: Seen, settings: Settings) -> Step:
    reason = f"not done within {int(settings.move_timeout)} s: {entry.note or _holding_up(seen)}"
    return Step(entry, ended=Ended(Outcome.FAILED, reason=reason))
