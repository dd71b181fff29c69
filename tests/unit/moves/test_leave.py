# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends early names what he leaves in flight, and says whether the Lease is free."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import HeldLease
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.takeover import leave
from tests.support.api_server import ApiServer
from tests.unit.moves.test_takeover import RECORD

JOURNAL_KEY = "placement.virt/journal"
JOURNAL = RunJournal("r1", "x", records=(RECORD,))
IN_FLIGHT = (
    "; the next rollout continues the moves in flight: VirtualMachineInstance shop/db (migrate)"
)


LEASE = {
    "metadata": {"resourceVersion": "7", "annotations": {JOURNAL_KEY: journals.write(JOURNAL)}},
    "spec": {"holderIdentity": "r1", "leaseTransitions": 1},
}


def server(*failing: str) -> ApiServer:
    """It has the Lease with a journal, and requests by these methods fail for ever."""
    made = ApiServer({lease.PATH: LEASE})
    made.retries = 0
    for method in failing:
        made.add_fault(method, "", 500)
    return made


def left(server: ApiServer, journal: RunJournal | None) -> str:
    return leave(server.client(), HeldLease("r1", 1), journal)


def test_the_lease_is_given_back_with_what_is_in_flight() -> None:
    has_lease = server()
    assert left(has_lease, JOURNAL) == IN_FLIGHT
    written = has_lease.objects[lease.PATH]
    assert written["spec"]["holderIdentity"] == ""
    assert written["metadata"]["annotations"][JOURNAL_KEY] == journals.write(JOURNAL)
    assert left(server(), RunJournal("r1", "x")) == ""


def test_a_run_that_ends_before_its_journal_is_read_reads_it_for_the_message() -> None:
    assert left(server(), None) == IN_FLIGHT
    message = left(server("GET"), None)
    assert "so the moves in flight are unknown" in message


def test_moves_in_flight_are_reported_if_the_lease_cannot_be_written() -> None:
    message = left(server("PATCH"), JOURNAL)
    assert message.startswith(IN_FLIGHT)
    assert f"{lease.NAME} could not be released and expires in {lease.DURATION} s" in message
