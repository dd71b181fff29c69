# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a run continue one that did not end, and what does it leave when it ends itself?

The process of the run before may be frozen, not dead, and send a request when it wakes up. What limits such a
late request is in docs/architecture.md, "What happens after kill -9 of a rollout". A restart or a stop has no
precondition in KubeVirt (1.8, virt-api rest/lifecycle.go: only "already underway" is refused). One that may have
been sent is recognized by its effect (a request queued on the VM, a VMI that terminates or has another uid).
"""

from __future__ import annotations

import secrets
import typing as t

from ..api.client import ApiClient
from ..api.errors import MERGE_PATCH, ApiError, Conflict, NotFound, ServerText
from ..api.transport import Deadline, uptime
from ..cluster import lease
from ..cluster.lease import HeldLease, LeaseKeeper, LeaseLost, LeaseReading
from ..model import kinds as names
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import instance_path
from ..model.obstacle import Obstacle
from ..model.plan import Method
from . import journal as journals
from . import report
from .journal import RunJournal, UnreadableJournal
from .move import MoveRecord, Phase
from .run_options import RunOptions
from .state import RunState

READ_AGAIN = 2.0
"""Seconds between two readings of a Lease while it is unknown whether its holder is running."""

RELEASE_LIMIT = 5.0
"""Seconds that a release may take: the run may end because the server does not answer."""


def release(api: ApiClient, held: HeldLease, text: str) -> Obstacle | None:
    """Release the Lease with the journal `text`. Returns why it could not be released."""
    try:
        lease.release(api.under(Deadline(RELEASE_LIMIT)), held, text)
    except LeaseLost as lost:
        return Obstacle("other_run", str(lost))
    except ApiError as error:
        why = f"{lease.NAME} could not be released and expires in {lease.DURATION} s: {error}"
        return Obstacle("outcome_unknown", why, True)
    return None


def leave(
    api: ApiClient,
    held: HeldLease,
    journal: RunJournal | None,
    task: str = "rollout",
    *,
    known: t.Sequence[t.Mapping[str, JSON]] = (),
) -> str:
    """Release the Lease, so that another run can continue. Returns the end of a sentence that names the
    moves in flight, and says whether the Lease is free. `journal` None: the one on the Lease is kept. `known`: the
    moves that were in flight when it was read last."""
    if journal is not None:
        text = journals.write(journal)
    else:
        try:
            text = lease.read(api.under(Deadline(RELEASE_LIMIT))).journal
        except ApiError as error:
            moves = ", ".join(f"{x['namespace']}/{x['name']} ({x['method']})" for x in known)
            unknown = "" if moves else ", so the moves in flight are unknown,"
            goes_on = f"; the next {task} continues the moves in flight: {moves}"
            return (
                f"; {lease.NAME} could not be read{unknown} and expires in {lease.DURATION} s: {error}"
                f"{goes_on if moves else ''}"
            )
    kept = release(api, held, text)
    return report.in_flight(text, task) + (f"; {kept}" if kept else "")


def take(
    api: ApiClient,
    reading: LeaseReading,
    unfinished: RunJournal | None,
    options: RunOptions,
    state: RunState,
    elapsed: float,
) -> tuple[LeaseKeeper, RunJournal] | Obstacle:
    """Take the Lease to continue the run `unfinished` or to start one; or why the next step has to try again: it is
    unknown whether the holder is running, another run took the Lease first, or the outcome is unknown. Raises
    InvalidInput if another run holds it and is running."""
    lease_state = state.watch_lease(reading, elapsed)
    if lease_state.renewing:
        why = f"which is running (renewed {reading.renewed}): wait until it ends"
        raise InvalidInput([InputError(lease.NAME, f"is held by {reading.holder_words}, {why}")])
    if not lease_state.free:
        return Obstacle(
            "other_run",
            f"waiting up to {lease.DURATION} s to see whether {reading.holder_words} still renews"
            f" {lease.NAME} (last renewed {reading.renewed})",
            True,
        )
    journal = continue_or_start(unfinished, options)
    text = journals.write(journal)
    held = lease.take(api, reading, journal.run, text)
    if held is None:
        return Obstacle("other_run", f"{lease.NAME} could not be taken; trying again", True)
    state.run, state.transitions = held.run, held.transitions
    state.base = journal.clock - elapsed
    state.waiting = ""
    return LeaseKeeper(api, held, uptime(), text), journal


def read_journal(reading: LeaseReading) -> RunJournal | None:
    """The journal of an unfinished run, None if there is none. Raises InvalidInput if it is damaged."""
    if not reading.journal:
        return None
    try:
        return journals.read(reading.journal)
    except UnreadableJournal as error:
        raise InvalidInput(
            [InputError(f"{lease.NAME}, annotation {names.JOURNAL}", str(error))]
        ) from error


def journal_of(reading: LeaseReading, held: HeldLease) -> RunJournal:
    """The journal of a run that holds the Lease. Raises LeaseLost if another run holds it, or held it
    since."""
    journal = read_journal(reading)
    if reading.holder != held.run or reading.transitions != held.transitions or journal is None:
        raise LeaseLost(held, reading)
    return journal


def continue_or_start(unfinished: RunJournal | None, options: RunOptions) -> RunJournal:
    """The journal to begin with: that of the unfinished run if it has moves in flight, otherwise a new one.

    A run with the same request that `moves_once` is continued without moves in flight too, since only
    the journal has the instances that were moved."""
    request = options.request
    if unfinished is not None:
        same_request = options.moves_once and unfinished.request == request
        if same_request or unfinished.records:
            return unfinished.taken_over(request, keep_done=same_request)
    return RunJournal(new_run(), request)


def new_run() -> str:
    """The id of a run that begins."""
    return f"r{secrets.token_hex(4)}"


def takeover_lines(unfinished: RunJournal | None, journal: RunJournal) -> list[str]:
    """The progress line about a run that is taken over."""
    if unfinished is None or unfinished.run != journal.run:
        return []
    if unfinished.request == journal.request:
        return [f"continuing run {journal.run}, which did not end"]
    return [f"taking over the moves in flight of run {journal.run}"]


def outdate_pending_deletes(
    api: ApiClient, held: HeldLease, journal: RunJournal
) -> list[tuple[MoveRecord, str]]:
    """Annotate each instance for which a process of an earlier step may still send a delete or an eviction.
    That changes its resource version, so that the late request fails with 409.

    Returns the moves whose instance the server refuses to annotate, with its message: the request of
    such a move may still arrive. Any tenant can cause that, so it does not end the run."""
    refused = []
    for record in journal.records:
        if record.phase is Phase.INTENDED and record.method is Method.RECREATE:
            body = {"metadata": {"uid": record.uid, "annotations": {names.RUN: str(held)}}}
            try:
                api.patch(instance_path(record.instance), body, content_type=MERGE_PATCH)
            except (NotFound, Conflict):
                continue  # it is gone, or another object has its name: nothing to protect
            except ApiError as error:
                if not error.refuses_request and not error.has(ServerText.TOO_LARGE):
                    raise
                refused.append((record, error.message))
    return refused
