# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go on after a run that did not end: with what it left in flight, and safe from what it may yet do.

Whoever had the Lease before may not be dead but frozen, with a request in hand that it is going to
send when it wakes up. What keeps such a request from doing harm:

- It is sent at most some seconds after a renewal of the Lease (see Turns), which fails by then.
- A delete or an eviction names the resource version of what was looked at; `fence` changes that.
- A migration's name follows from run, instance and attempt: the successor's is the same object.
- A restart has no precondition in KubeVirt (1.8, virt-api rest/lifecycle.go: only "already
  underway" is refused). One that may have been sent is told by what is seen (a request queued on
  the VM, a VMI that leaves or has another uid) and not sent again before the duration of a Lease is
  over. What is left is a process that freezes between its last look at the clock and the first byte.
"""

from __future__ import annotations

import secrets

from ..api.errors import MERGE_PATCH, Conflict, NotFound
from ..api.requests import Api
from ..cluster import lease
from ..cluster.lease import Held, Reading
from ..model import names
from ..model.finding import Fault, Refused
from ..model.kinds import instance_path
from ..model.plan import Method
from ..movement.entry import Phase
from . import journal as journals
from .journal import Journal, UnreadableJournal
from .parameters import Parameters


def journal_of(reading: Reading) -> Journal | None:
    """Raises Refused where there is one that nobody can read."""
    if not reading.journal:
        return None
    try:
        return journals.read(reading.journal)
    except UnreadableJournal as error:
        raise Refused([Fault(f"{lease.NAME}, annotation {names.JOURNAL}", str(error))]) from error


def continued(unfinished: Journal | None, parameters: Parameters) -> Journal:
    """The journal to begin with: what is in flight goes on, else this is a new run. A run of all
    instances that was asked for again also goes on where it stopped: what it had moved cannot be
    told from what it had not."""
    request = parameters.request
    if unfinished is not None:
        again = parameters.scope == "all" and unfinished.request == request
        if again or unfinished.entries:
            return unfinished.taken_over(request, keep_done=again)
    return Journal(f"r{secrets.token_hex(4)}", request)


def told(unfinished: Journal | None, journal: Journal) -> list[str]:
    """The line about it, if there is anything to tell."""
    if unfinished is None or unfinished.run != journal.run:
        return []
    if unfinished.request == journal.request:
        return [f"continuing run {journal.run}, which did not end"]
    return [f"taking over the moves in flight of run {journal.run}"]


def fence(api: Api, held: Held, journal: Journal) -> None:
    """Mark each instance that whoever was before us may be about to take away. That changes its
    resource version, which a delete or eviction that is under way names."""
    for entry in journal.entries:
        if entry.phase is Phase.INTENDED and entry.method is Method.RECREATE:
            body = {"metadata": {"uid": entry.uid, "annotations": {names.RUN: str(held)}}}
            try:
                api.patch(instance_path(entry.instance), body, content_type=MERGE_PATCH)
            except (NotFound, Conflict):
                continue  # it is gone, or another one has its name: nothing to protect
