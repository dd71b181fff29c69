# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task goes on with after another one, what it must be allowed, and its last look."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import ApiError
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import HeldLease
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves import send as sending
from ansible_collections.virt.placement.plugins.module_utils.moves import takeover
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    MoveRecord,
    Outcome,
    Phase,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.rights import needed_rights
from ansible_collections.virt.placement.plugins.module_utils.moves.run_options import (
    after_end,
    why_defer,
)
from tests.support.api_server import ApiServer, Reply, answer, status
from tests.unit.moves.test_gates import NOON, parameters

VMI = Ref("VirtualMachineInstance", "shop", "db")
POD = Ref("Pod", "shop", "web-1")
DB = Ref("VirtualMachine", "shop", "db")
RECORD = MoveRecord(VMI, "u1", DB, Method.MIGRATE, "w1", 1, 0.0)
DONE = frozenset({"d"})


def test_a_run_that_left_nothing_in_flight_is_over() -> None:
    asked = parameters()
    unfinished = RunJournal("r1", asked.request, done=DONE, failed=2)
    journal = takeover.continue_or_start(unfinished, asked)
    assert journal.run != "r1"
    assert (journal.request, journal.done, journal.failed) == (asked.request, frozenset(), 0)
    assert takeover.takeover_lines(unfinished, journal) == []


@pytest.mark.parametrize("same", [True, False])
def test_moves_in_flight_continue_under_their_run(same: bool) -> None:
    asked = parameters()
    request = asked.request if same else "another"
    unfinished = RunJournal("r1", request, records=(RECORD,), done=DONE, failed=2)
    journal = takeover.continue_or_start(unfinished, asked)
    assert (journal.run, journal.records) == ("r1", (RECORD,))
    assert (journal.done, journal.failed) == (frozenset(), 0)
    word = "continuing run r1" if same else "taking over the moves in flight of run r1"
    assert takeover.takeover_lines(unfinished, replace(journal, request=request if same else "x"))[
        0
    ].startswith(word)


def test_run_with_scope_all_continues_where_it_stopped() -> None:
    asked = parameters(scope="all")
    again = takeover.continue_or_start(RunJournal("r1", asked.request, done=DONE), asked)
    assert (again.run, again.done) == ("r1", DONE)
    assert (
        takeover.continue_or_start(RunJournal("r1", "another", done=DONE), asked).done
        == frozenset()
    )


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (sending.CurrentInstance("7", "w1", terminating=False), ""),
        (sending.CurrentInstance("7", "", terminating=False), ""),
        (sending.CurrentInstance("7", "w2", terminating=False), "it runs on w2 now"),
        (sending.CurrentInstance("7", "w1", terminating=True), "it is being deleted"),
    ],
)
def test_a_last_look_finds_what_has_changed(seen: sending.CurrentInstance, why: str) -> None:
    assert str(seen.change(RECORD) or "") == why


def test_one_that_had_no_node_and_has_one_now_has_changed() -> None:
    waiting = replace(RECORD, source="")
    changed = sending.CurrentInstance("7", "w2", terminating=False).change(waiting)
    assert str(changed) == "it runs on w2 now"


@pytest.mark.parametrize(
    ("move", "asked"),
    [
        (
            (Method.MIGRATE, VMI),
            {
                "get virtualmachineinstances.kubevirt.io in namespace shop",
                *(
                    f"{verb} virtualmachineinstancemigrations.kubevirt.io in namespace shop"
                    for verb in ("create", "delete", "get")
                ),
            },
        ),
        (
            (Method.RESTART, VMI),
            {
                "get virtualmachineinstances.kubevirt.io in namespace shop",
                "update virtualmachines/restart.subresources.kubevirt.io in namespace shop",
                "get controllerrevisions.apps in namespace shop",
            },
        ),
        (
            (Method.RECREATE, VMI),
            {
                f"{verb} virtualmachineinstances.kubevirt.io in namespace shop"
                for verb in ("get", "patch", "delete")
            },
        ),
        (
            (Method.RECREATE, POD),
            {
                "get pods in namespace shop",
                "patch pods in namespace shop",
                "create pods/eviction in namespace shop",
            },
        ),
    ],
)
def test_rights_of_a_move(move: t.Any, asked: set[str]) -> None:
    lease = "leases.coordination.k8s.io virt-placement in namespace kube-system"
    found = {str(right) for right in needed_rights([move, move])}
    assert found == {*asked, f"get {lease}", f"patch {lease}"}


def test_takeover_in_the_middle_of_a_soak() -> None:
    """The soak after a move that is still in flight counts; that of moves that ended does not."""
    asked = parameters(soak=30)
    ended = RunJournal("r1", "other", 50.0, domain="a", settled_at=45.0, barrier=80.0, moved=1)
    assert not why_defer(asked, takeover.continue_or_start(ended, asked), "b", 50.0, NOON)

    flying = replace(ended, records=(RECORD,))
    taken = takeover.continue_or_start(flying, asked)
    assert taken.clock == 50.0
    assert not why_defer(asked, taken, "a", 50.0, NOON)
    assert str(why_defer(asked, taken, "b", 50.0, NOON)) == "moves away from a are still in flight"
    settled = taken.end(RECORD, 60.0, outcome=Outcome.MOVED)
    assert why_defer(asked, settled, "b", 70.0, NOON) == Obstacle(
        "soaking", "soaking after a", True, "20 s left"
    )
    assert not why_defer(asked, settled, "b", 90.0, NOON)


def test_takeover_counts_its_own_canary() -> None:
    asked = parameters(canary=1, soak=30)
    unfinished = RunJournal("r1", "other", records=(RECORD,), moved=5, barrier=80.0)
    taken = takeover.continue_or_start(unfinished, asked)
    assert (taken.started, taken.ended, taken.barrier) == (1, 0, 0.0)
    assert str(why_defer(asked, taken, "a", 70.0, NOON)) == "the canary has not ended yet"
    settled = after_end(asked, taken.end(RECORD, 60.0, outcome=Outcome.MOVED), 60.0)
    assert settled.barrier == 90.0


FULL = "metadata.annotations: Too long: may not be more than 262144 bytes"
ETCD = "etcdserver: request is too large"
QUOTA = "pods is forbidden: exceeded quota: q"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (status(422, "Invalid", FULL), FULL),
        (status(413, "RequestEntityTooLarge", "limit is 3145728"), "limit is 3145728"),
        (status(403, "Forbidden", QUOTA), QUOTA),
        (status(500, "", ETCD), ETCD),
    ],
)
def test_takeover_continues_if_an_annotation_is_refused(
    server: ApiServer, api: ApiClient, reply: Reply, message: str
) -> None:
    full = replace(RECORD, method=Method.RECREATE)
    other = replace(full, uid="u2")
    server.plays(reply, answer({}))
    refused = takeover.outdate_pending_deletes(
        api, HeldLease("r1", 4), RunJournal("r1", "x", records=(full, other))
    )
    assert refused == [(full, message)]
    assert [sent.body["metadata"]["uid"] for sent in server.seen] == ["u1", "u2"]


@pytest.mark.parametrize("code", [401, 403, 500])
def test_takeover_ends_where_no_annotation_is_possible(
    server: ApiServer, api: ApiClient, code: int
) -> None:
    journal = RunJournal("r1", "x", records=(replace(RECORD, method=Method.RECREATE),))
    server.plays(status(code, ""))
    with pytest.raises(ApiError):
        takeover.outdate_pending_deletes(api, HeldLease("r1", 4), journal)


def test_takeover_annotates_instances_that_previous_run_may_end(
    server: ApiServer, api: ApiClient
) -> None:
    intended = replace(RECORD, method=Method.RECREATE)
    begun = replace(intended, uid="u2", phase=Phase.BEGUN)
    migrating = replace(RECORD, uid="u3")
    journal = RunJournal("r1", "x", records=(intended, begun, migrating))
    server.plays(status(409, "Conflict"))
    takeover.outdate_pending_deletes(api, HeldLease("r1", 4), journal)
    (sent,) = server.seen
    assert sent.method == "PATCH"
    assert sent.path.startswith("/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db")
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert sent.body == {"metadata": {"uid": "u1", "annotations": {"placement.virt/run": "r1.4"}}}
