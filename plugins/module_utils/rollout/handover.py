# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a run take over from one that did not end, and what remains when it ends itself?

The run that held the Lease before may not be dead but frozen, with a request that it is going to
send when it wakes up. What keeps such a request from doing harm:

- It is sent at most some seconds after a renewal of the Lease (`lease.LeaseKeeper`), which fails.
- A delete or an eviction names the resource version that was read; `outdate_pending_deletes` changes that.
  Where the server refuses the annotation, as on an object that is full, the uid in the request is what
  is left: it ends that very instance, once. The move is named, and kept for the duration of a Lease since
  it began. Then it is sent again or deferred like others. Other moves do not wait.
- A migration's name follows from run, instance and attempt: the successor's is the same object.
- A restart or a stop has no precondition in KubeVirt (1.8, virt-api rest/lifecycle.go: only "already
  underway" is refused). One that may have been sent is recognized by what is seen (a request queued
  on the VM, a VMI that terminates or has another uid). Before the duration of a Lease is over it is
  neither sent again nor forgotten, and the VM is not moved otherwise. What is left is a process that
  freezes between its last look at the clock and the first byte.

A run that ends well removes the undo record of each workload whose instances all run as declared.
"""

from __future__ import annotations

import secrets
import typing as t

from ..api.client import ApiClient
from ..api.errors import MERGE_PATCH, TOO_LARGE, ApiError, Conflict, NotFound
from ..api.transport import Deadline, uptime
from ..cluster import lease
from ..cluster.lease import HeldLease, LeaseKeeper, LeaseLost, LeaseReading
from ..model import kinds as names
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON, Pointer
from ..model.kinds import KINDS, RULES, UNDO, instance_path
from ..model.objects import Ref
from ..model.plan import Method
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from ..planning.movable_instances import MovableInstance
from ..rules.term_slots import FIELDS
from . import journal as journals
from . import report
from .journal import RunJournal, UnreadableJournal
from .move import MoveRecord, Phase
from .options import RolloutOptions
from .state import RolloutState

LOOK_AGAIN = 2.0
"""Seconds between two looks at a Lease of which it is not known whether its holder is running."""

LIMIT = 5.0
"""Seconds that a release may take: a server that does not answer may be why the run ends."""


def release(api: ApiClient, held: HeldLease, text: str) -> str:
    """Release the Lease with this journal. Returns nothing, or the end of a sentence that says why
    it could not be released."""
    try:
        lease.release(api.under(Deadline(LIMIT)), held, text)
    except LeaseLost as lost:
        return f"; {lost}"
    except ApiError as error:
        return f"; {lease.NAME} could not be released and expires in {lease.DURATION} s: {error}"
    return ""


def leave(api: ApiClient, held: HeldLease, journal: RunJournal | None) -> str:
    """Release the Lease for whoever goes on. Returns the end of a sentence that names what is in
    flight, and says whether the Lease is free. `journal` None: the one that stands on the Lease."""
    if journal is not None:
        text = journals.write(journal)
    else:
        try:
            text = lease.read(api.under(Deadline(LIMIT))).journal
        except ApiError as error:
            return (
                f"; {lease.NAME} could not be read, so the moves in flight are unknown, and expires"
                f" in {lease.DURATION} s: {error}"
            )
    return report.in_flight(text) + release(api, held, text)


def why_wait(reading: LeaseReading, state: RolloutState, elapsed: float) -> str:
    """What a run without the Lease waits for; empty where it may take it. Raises InvalidInput where another
    run holds it and is running."""
    judged = lease.lease_state(reading, state.watched, elapsed)
    state.renewal, state.renewal_since = judged.watched.renewal, judged.watched.since
    if judged.free:
        return ""
    if judged.renewing:
        why = f"which is running (renewed {reading.renewed}): wait until it ends"
        raise InvalidInput([InputError(lease.NAME, f"is held by run {reading.holder}, {why}")])
    return (
        f"waiting up to {lease.DURATION} s to see whether run {reading.holder} still renews"
        f" {lease.NAME} (last renewed {reading.renewed})"
    )


def take(
    api: ApiClient,
    reading: LeaseReading,
    unfinished: RunJournal | None,
    options: RolloutOptions,
    state: RolloutState,
    elapsed: float,
) -> tuple[LeaseKeeper, RunJournal] | None:
    """Take the Lease, which is free, to continue a run or to start one. None where another run was faster."""
    journal = continue_or_start(unfinished, options)
    text = journals.write(journal)
    held = lease.take(api, reading, journal.run, text)
    if held is None:
        return None
    state.run, state.transitions = held.run, held.transitions
    state.base = journal.clock - elapsed
    state.waiting = ""
    return LeaseKeeper(api, held, uptime(), text), journal


def read_journal(reading: LeaseReading) -> RunJournal | None:
    """The journal of an unfinished run, if there is one. Raises InvalidInput where it is damaged."""
    if not reading.journal:
        return None
    try:
        return journals.read(reading.journal)
    except UnreadableJournal as error:
        raise InvalidInput(
            [InputError(f"{lease.NAME}, annotation {names.JOURNAL}", str(error))]
        ) from error


def journal_of(reading: LeaseReading, held: HeldLease) -> RunJournal:
    """The journal of a run that holds the Lease. Raises LeaseLost where another run does, or did since."""
    journal = read_journal(reading)
    if reading.holder != held.run or reading.transitions != held.transitions or journal is None:
        raise LeaseLost(held, reading)
    return journal


def continue_or_start(unfinished: RunJournal | None, options: RolloutOptions) -> RunJournal:
    """The journal to begin with: moves in flight go on, else this is a new run.

    A run with `scope: all` that is requested again goes on where it stopped too: the cluster does
    not show which instances it has moved."""
    request = options.request
    if unfinished is not None:
        again = options.scope == "all" and unfinished.request == request
        if again or unfinished.records:
            return unfinished.taken_over(request, keep_done=again)
    return RunJournal(f"r{secrets.token_hex(4)}", request)


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
    """Annotate each instance that the previous holder may be about to end. That changes its resource
    version, so that a delete or eviction that is under way fails with 409.

    Returns the moves whose instance the server refuses to annotate, with its message: the request of
    such a move may still arrive. Every tenant can cause that, so it does not end the run."""
    refused = []
    for record in journal.records:
        if record.phase is Phase.INTENDED and record.method is Method.RECREATE:
            body = {"metadata": {"uid": record.uid, "annotations": {names.RUN: str(held)}}}
            try:
                api.patch(instance_path(record.instance), body, content_type=MERGE_PATCH)
            except (NotFound, Conflict):
                continue  # it is gone, or another one has its name: nothing to protect
            except ApiError as error:
                if not error.refuses_request and TOO_LARGE not in error.message:
                    raise
                refused.append((record, error.message))
    return refused


_ANNOTATIONS = Pointer(("metadata", "annotations"))


def remove_undo_notes(candidates: t.Iterable[MovableInstance]) -> tuple[Write, ...]:
    """The writes that remove the undo record of each workload whose instances all run as declared and
    which has all constraints of its rules."""
    settled: dict[t.Any, tuple[Workload, bool]] = {}
    for movable in candidates:
        if movable.workload is None or UNDO not in movable.workload.annotations:
            continue
        ref = movable.workload.ref
        _workload, all_enforced = settled.get(ref, (movable.workload, True))
        settled[ref] = (
            movable.workload,
            all_enforced
            and bool(movable.node)
            and movable.drift is None
            and not (movable.declared and any(rule.removed for rule in movable.declared.rules)),
        )
    return tuple(_write(workload) for workload, enforced in settled.values() if enforced)


def with_undo_note(candidates: t.Iterable[MovableInstance]) -> frozenset[Ref]:
    """The workloads that carry an undo record."""
    return frozenset(
        movable.workload.ref
        for movable in candidates
        if movable.workload is not None and UNDO in movable.workload.annotations
    )


def recompute_removal(write: Write, manifest: t.Mapping[str, JSON]) -> Write | None:
    """For a workload that was read again: the record goes only if it, the rules and the terms are
    those that were read. New terms leave the record as it is, and need it."""
    same = all(test.pointer.read(manifest, None) == test.value for test in write.tests)
    return write if same else None


def _write(workload: Workload) -> Write:
    spec = workload.kind.template / "spec"
    pointers = (_ANNOTATIONS / UNDO, _ANNOTATIONS / RULES, *(spec / name for name in FIELDS))
    return Write(
        target=workload.ref,
        path=KINDS[workload.ref.kind].path(workload.ref.namespace, workload.ref.name),
        uid=workload.uid,
        tests=tuple(Operation("test", at, at.read(workload.manifest, None)) for at in pointers),
        operations=(Operation("remove", _ANNOTATIONS / UNDO),),
        before={"undo record": "kept"},
        after={"undo record": "removed"},
    )
