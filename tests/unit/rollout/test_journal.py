# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run remembers, and that it reads it back as it wrote it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.rollout import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.rollout.journal import (
    RunJournal,
    UnreadableJournal,
    digest,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.move import (
    MoveRecord,
    Outcome,
    Phase,
)

SET = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")


def record(uid: str, method: Method = Method.RECREATE) -> MoveRecord:
    ref = Ref("VirtualMachineInstance", "shop", f"web-{uid}")
    return MoveRecord(
        ref, uid, SET, method, "w1", 1, 2.5, Phase.INTENDED, node_selector=(("zone", "a"),)
    )


def test_it_reads_back_what_it_wrote() -> None:
    journal = RunJournal("r1", "digest", 12.5, barrier=3.0, domain="zone1", gone=1)
    journal = journal.begin(record("a"), ["a", "b"]).begin(record("c", Method.MIGRATE), ["c"])
    journal = journal.end(record("c"), 13.0, outcome=Outcome.MOVED)
    assert journals.read(journals.write(journal)) == journal


def test_a_move_begun_and_ended() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"])
    assert journal.attempts("a") == 1
    assert journal.known == {SET: frozenset({digest("a"), digest("b")})}
    assert (journal.started, journal.ended) == (1, 0)

    ended = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert ended.records == ()
    assert ended.known == {}
    assert ended.done == {digest("a"), digest("n")}
    assert (ended.started, ended.moved, ended.failed) == (1, 1, 0)


def test_a_successor_is_known_while_other_moves_of_its_workload_are_in_flight() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"]).begin(record("b"), ["a", "b"])
    ended = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert digest("n") in ended.done


def test_a_failed_move_is_tried_and_lost_and_not_done() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a"])
    ended = journal.end(record("a"), 9.0, outcome=Outcome.FAILED)
    assert ended.attempts("a") == 1
    assert ended.done == frozenset()
    assert ended.lost == {digest("a")}, "the uid of the instance that did not move"
    assert digest("a") != digest("b")
    assert (ended.failed, ended.moved, ended.gone) == (1, 0, 0)
    assert journals.read(journals.write(ended)) == ended


def test_what_was_intended_and_is_not_needed_is_neither_done_nor_lost() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a"]).forget("a")
    assert (journal.records, journal.known, journal.started) == ((), {}, 0)
    assert journal.done == journal.lost == frozenset()
    assert journal.attempts("a") == 1, "the name of its migration may not come again"


def test_what_holds_a_move_up_is_remembered_in_short() -> None:
    journal = RunJournal("r1", "x").with_record(
        replace(record("a"), note="the budget " + "x" * 900)
    )
    (found,) = journals.read(journals.write(journal)).records
    assert found.note == ("the budget " + "x" * 900)[: journals.NOTE_LIMIT]


ENDED = (
    RunJournal("r1", "x", 30.0, barrier=90.0, domain="zone1")
    .begin(record("a"), ["a", "b"])
    .begin(record("b"), ["a", "b"])
    .begin(record("c", Method.MIGRATE), ["c"])
    .end(record("a"), 9.0, outcome=Outcome.MOVED)
    .end(record("c", Method.MIGRATE), 9.0, outcome=Outcome.FAILED)
)


def test_another_task_takes_over_what_is_in_flight_and_not_what_has_ended() -> None:
    taken = ENDED.taken_over("y", keep_done=False)
    assert (taken.run, taken.request, taken.clock) == ("r1", "y", 30.0)
    assert [found.uid for found in taken.records] == ["b"]
    assert taken.known == ENDED.known
    assert taken.domain == "zone1"
    assert taken.done == taken.lost == frozenset()
    assert (taken.started, taken.failed, taken.barrier) == (1, 0, 0.0)
    assert taken.attempts("c") == 1, "its next migration must have another name"


def test_a_task_of_all_instances_goes_on_where_it_stopped() -> None:
    taken = ENDED.taken_over("x", keep_done=True)
    assert taken.done == {digest("a")}
    assert taken.lost == frozenset()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (json.dumps({"version": 1}), "cannot be read (KeyError: 'run')"),
        (json.dumps({"version": 2, "run": "r"}), "has version 2, this release reads 1"),
        (journals.write(ENDED).replace('"moved":1', '"moved":1e999'), "cannot be read (Overflow"),
        (journals.write(ENDED).replace('"lost":"', '"lost":"/..'), "cannot be read (ValueError"),
    ],
)
def test_a_damaged_journal_is_not_taken_for_an_empty_one(text: str, told: str) -> None:
    with pytest.raises(UnreadableJournal) as raised:
        journals.read(text)
    assert told in str(raised.value)


ANNOTATIONS = 256 * 1024
"""Characters that all annotations of an object may have (apimachinery, TotalAnnotationSizeLimitB)."""


@pytest.mark.parametrize("method", [Method.MIGRATE, Method.RECREATE])
def test_ten_thousand_moves_fit_into_an_annotation(method: Method) -> None:
    """With hundred of them in flight, the longest names and the longest notes."""
    uids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(10_000)]
    workload = Ref("Deployment", "n" * 63, "d" * 63)
    long = [
        replace(
            record(uid, method),
            instance=Ref("Pod", "n" * 63, f"{'p' * 58}{number:05d}"),
            workload=workload,
            note="x" * 300,
        )
        for number, uid in enumerate(uids)
    ]
    journal = RunJournal("r0123abcd", "x")
    for moving in long[:100]:
        journal = journal.begin(moving, uids)
    sizes = [len(journals.write(journal))]
    others = frozenset(map(digest, uids[100:]))
    half = replace(journal, done=frozenset(map(digest, uids[100:5000])))
    sizes.append(len(journals.write(half)))
    successors = frozenset(map(digest, (f"s-{uid}" for uid in uids[100:])))
    recreated = successors if method is Method.RECREATE else frozenset()
    journal = replace(journal, done=others | recreated)
    known = {ref: digests - journal.done for ref, digests in journal.known.items()}
    sizes.append(len(journals.write(replace(journal, known=known))))
    taken = replace(journal, known=known).taken_over("y", keep_done=False)
    sizes.append(len(journals.write(taken)))
    assert max(sizes) < ANNOTATIONS, sizes


def test_an_instance_that_was_moved_at_once_is_journaled_once() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"]).begin(record("b"), ["a", "b"])
    journal = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert (dict(journal.tried), journal.attempts("a")) == ({digest("b"): 1}, 1)
    assert journal.known == {SET: frozenset({digest("b")})}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instance", "VirtualMachineInstance/shop/web-a/../../secrets/x"),
        ("instance", "VirtualMachineInstance/../web-a"),
        ("instance", "VirtualMachineInstance/shop/.."),
        ("instance", "Secret/shop/web-a"),
        ("instance", "VirtualMachineInstance/shop/web-a/evacuate"),
        ("workload", "VirtualMachineInstanceReplicaSet/other/web"),
        ("uid", "a/b"),
        ("uid", ["a"]),
        ("source", "w1/../w2"),
    ],
)
def test_a_journal_that_leads_to_another_object_is_refused(field: str, value: object) -> None:
    body = json.loads(journals.write(RunJournal("r1", "x").begin(record("a"), ["a"])))
    body["moves"][0][field] = value
    with pytest.raises(UnreadableJournal, match="cannot be read"):
        journals.read(json.dumps(body))


def test_the_move_of_a_pending_instance_has_no_source() -> None:
    journal = RunJournal("r1", "x").begin(replace(record("a"), source=""), ["a"])
    assert journals.read(journals.write(journal)) == journal


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version":' + "[" * 50 + "]" * 50 + "}"])
def test_a_journal_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJournal, match="nested too deeply"):
        journals.read(text)


def test_moves_wait_while_the_journal_is_full() -> None:
    """An annotation has at most 256 KiB, and a pod of a tenant a name of 253 characters."""
    journal = RunJournal("r1", "x")
    while journals.has_room(journal):
        name = f"{len(journal.records):0253}"
        pod = Ref("Pod", "shop" * 15, name)
        one = replace(record(name[-60:], Method.EVICT), instance=pod, workload=pod)
        journal = journal.begin(one, [one.uid])
    noted = replace(journal, records=tuple(replace(x, note="n" * 300) for x in journal.records))
    assert len(noted.records) > 100
    assert len(journals.write(noted)) < 256 * 1024
