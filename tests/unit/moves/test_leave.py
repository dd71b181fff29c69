# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends early names what he leaves in flight, and says whether the Lease is free."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    ServerFault,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import HeldLease
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.takeover import leave
from tests.unit.moves.test_takeover import RECORD

JOURNAL = RunJournal("r1", "x", records=(RECORD,))
IN_FLIGHT = (
    "; the next rollout continues the moves in flight: VirtualMachineInstance shop/db (migrate)"
)


class Server:
    """Holds the Lease with a journal; writes, and reads, may fail for ever."""

    def __init__(self, *, writes: bool = True, reads: bool = True) -> None:
        self.writes, self.reads = writes, reads
        self.patched: list[t.Any] = []

    def under(self, deadline: t.Any) -> Server:
        return self

    def get(self, path: str) -> t.Any:
        if not self.reads:
            raise ServerFault(ApiRequest("GET", path), status=500)
        return {
            "metadata": {
                "resourceVersion": "7",
                "annotations": {"placement.virt/journal": journals.write(JOURNAL)},
            },
            "spec": {"holderIdentity": "r1", "leaseTransitions": 1},
        }

    def patch(self, path: str, body: t.Any) -> None:
        if not self.writes:
            raise ServerFault(ApiRequest("PATCH", path), status=500)
        self.patched.append(body)


def left(server: Server, journal: RunJournal | None) -> str:
    return leave(t.cast(t.Any, server), HeldLease("r1", 1), journal)


def test_the_lease_is_given_back_with_what_is_in_flight() -> None:
    server = Server()
    assert left(server, JOURNAL) == IN_FLIGHT
    (patch,) = server.patched
    written = {step["path"]: step["value"] for step in patch if step["op"] != "test"}
    assert written["/spec/holderIdentity"] == ""
    assert written["/metadata/annotations/placement.virt~1journal"] == journals.write(JOURNAL)
    assert left(server, RunJournal("r1", "x")) == ""


def test_a_run_that_ends_before_its_journal_is_read_reads_it_for_the_message() -> None:
    assert left(Server(), None) == IN_FLIGHT
    message = left(Server(reads=False), None)
    assert "so the moves in flight are unknown" in message


def test_moves_in_flight_are_reported_if_the_lease_cannot_be_written() -> None:
    message = left(Server(writes=False), JOURNAL)
    assert message.startswith(IN_FLIGHT)
    assert f"{lease.NAME} could not be released and expires in {lease.DURATION} s" in message
