# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of a run: what it has after each event, and as text on the Lease."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    NO_ANSWER,
    Obstacle,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import (
    RunJournal,
    UnreadableJournal,
    digest,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    MoveRecord,
    Outcome,
    Phase,
)

REPLICA_SET = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")


def record(uid: str, method: Method = Method.RECREATE) -> MoveRecord:
    ref = Ref("VirtualMachineInstance", "shop", f"web-{uid}")
    return MoveRecord(
        ref, uid, REPLICA_SET, method, "w1", 1, 2.5, Phase.INTENDED, node_selector=(("zone", "a"),)
    )


def test_journal_that_is_written_and_read_is_unchanged() -> None:
    journal = RunJournal("r1", "digest", 12.5, barrier=3.0, domain="zone1", gone=1)
    journal = journal.begin(record("a"), ["a", "b"]).begin(record("c", Method.MIGRATE), ["c"])
    journal = journal.end(record("c"), 13.0, outcome=Outcome.MOVED)
    assert journals.read(journals.write(journal)) == journal


def test_move_is_counted_when_it_begins_and_when_it_ends() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"])
    assert journal.attempts("a") == 1
    assert journal.known == {REPLICA_SET: frozenset({digest("a"), digest("b")})}
    assert (journal.started, journal.ended) == (1, 0)

    ended = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert ended.records == ()
    assert ended.known == {}
    assert ended.done == {digest("a"), digest("n")}
    assert (ended.started, ended.moved, ended.failed) == (1, 1, 0)


def test_successor_counts_as_moved_while_other_moves_of_its_workload_are_in_flight() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"]).begin(record("b"), ["a", "b"])
    ended = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert digest("n") in ended.done


def test_failed_move_is_in_tried_and_lost_and_not_in_done() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a"])
    ended = journal.end(record("a"), 9.0, outcome=Outcome.FAILED)
    assert ended.attempts("a") == 1
    assert ended.done == frozenset()
    assert ended.lost == {digest("a")}, "the uid of the instance that did not move"
    assert digest("a") != digest("b")
    assert (ended.failed, ended.moved, ended.gone) == (1, 0, 0)
    assert journals.read(journals.write(ended)) == ended


def test_intended_move_that_is_not_needed_any_more_is_neither_done_nor_lost() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a"]).forget("a")
    assert (journal.records, journal.known, journal.started) == ((), {}, 0)
    assert journal.done == journal.lost == frozenset()
    assert journal.attempts("a") == 1, "its next migration must have another name"


def test_code_and_refusal_of_a_waiting_move_are_kept_and_another_code_is_none() -> None:
    held = replace(record("a"), refusal=journals.digest("no room")).held_by(
        Obstacle(NO_ANSWER, "virt-controller does not answer")
    )
    text = journals.write(replace(RunJournal("r1", "digest"), records=(held,)))
    assert journals.read(text).records == (held,)
    other = text.replace('"code":"no_answer"', '"code":"mine"')
    assert journals.read(other).records == (replace(held, code=""),)


def test_note_of_a_waiting_move_is_cut() -> None:
    journal = RunJournal("r1", "x").with_record(
        replace(record("a"), note="the budget " + "x" * 900)
    )
    (read_record,) = journals.read(journals.write(journal)).records
    assert read_record.note == ("the budget " + "x" * 900)[: journals.NOTE_LIMIT - 3] + "..."
    again = journals.read(journals.write(RunJournal("r1", "x").with_record(read_record)))
    assert again.records == (read_record,)


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 297 + "..."),
        ("\u00e9" * 51, "\u00e9" * 49 + "..."),
    ],
)
def test_note_that_is_cut_has_a_mark(note: str, kept: str) -> None:
    """JSON writes 6 characters for one that is not ASCII."""
    text = journals.write(RunJournal("r1", "x").with_record(replace(record("a"), note=note)))
    assert [x.note for x in journals.read(text).records] == [kept]


ENDED = (
    RunJournal("r1", "x", 30.0, barrier=90.0, domain="zone1")
    .begin(record("a"), ["a", "b"])
    .begin(record("b"), ["a", "b"])
    .begin(record("c", Method.MIGRATE), ["c"])
    .end(record("a"), 9.0, outcome=Outcome.MOVED)
    .end(record("c", Method.MIGRATE), 9.0, outcome=Outcome.FAILED)
)


def test_another_task_takes_over_moves_in_flight_and_no_outcomes() -> None:
    taken = ENDED.taken_over("y", keep_done=False)
    assert (taken.run, taken.request, taken.clock) == ("r1", "y", 30.0)
    assert [moving.uid for moving in taken.records] == ["b"]
    assert taken.known == ENDED.known
    assert taken.domain == "zone1"
    assert taken.done == taken.lost == frozenset()
    assert (taken.started, taken.failed, taken.barrier) == (1, 0, 0.0)
    assert taken.attempts("c") == 1, "its next migration must have another name"


def test_move_that_an_earlier_task_has_begun_does_not_keep_its_instance_from_another_one() -> None:
    """The rules may be others by now, as in an undo after a rollout that ran out of time."""
    taken = ENDED.taken_over("y", keep_done=False).begin(record("d"), ["d"])
    assert journals.read(journals.write(taken)) == taken
    ended = taken.end(record("b"), 9.0, outcome=Outcome.MOVED, successor="n")
    ended = ended.end(record("d"), 9.0, outcome=Outcome.MOVED)
    assert ended.done == {digest("d")}
    assert {digest("b"), digest("n")} <= ended.settled
    assert ended.attempts("b") == 1, "its next migration must have another name"
    again = ended.begin(record("b"), ["b"]).end(record("b"), 9.0, outcome=Outcome.MOVED)
    assert digest("b") in again.done, "no instance is moved for ever"
    older = journals.write(taken).replace(',"inherited":', ',"unknown":')
    assert journals.read(older).inherited == frozenset()


def test_failure_that_an_earlier_task_has_told_is_tried_again_and_does_not_count() -> None:
    given_up = replace(record("a", Method.MIGRATE), phase=Phase.GIVEN_UP)
    told = RunJournal("r1", "x").begin(given_up, [])
    assert told.end(given_up, 9.0, outcome=Outcome.FAILED).failed == 1
    taken = told.taken_over("x", keep_done=False).end(given_up, 9.0, outcome=Outcome.FAILED)
    assert (taken.failed, taken.lost, taken.attempts("a")) == (0, frozenset(), 1)
    moved = told.taken_over("x", keep_done=False).end(given_up, 9.0, outcome=Outcome.MOVED)
    assert moved.moved == 1


def test_same_request_with_scope_all_keeps_the_moved_instances() -> None:
    taken = ENDED.taken_over("x", keep_done=True)
    assert taken.done == {digest("a")}
    assert taken.lost == frozenset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (json.dumps({"version": 1}), "cannot be read (its field 'run' is missing)"),
        (json.dumps({"version": 2, "run": "r"}), "has version 2, this release reads 1"),
        (
            journals.write(ENDED).replace('"moved":1', '"moved":1e999'),
            "cannot be read (a number is not finite)",
        ),
        (journals.write(ENDED).replace('"lost":"', '"lost":"/..'), "are no digests: "),
    ],
)
def test_damaged_journal_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnreadableJournal) as raised:
        journals.read(text)
    assert message in str(raised.value)


ANNOTATIONS = 256 * 1024
"""Characters that all annotations of an object may have (apimachinery, TotalAnnotationSizeLimitB)."""


@pytest.mark.parametrize("method", [Method.MIGRATE, Method.RECREATE])
def test_ten_thousand_moves_fit_into_an_annotation(method: Method) -> None:
    """100 of them are in flight, with the longest names and the longest notes."""
    uids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(10_000)]
    workload = Ref("Deployment", "n" * 63, "d" * 63)
    moves = [
        replace(
            record(uid, method),
            instance=Ref("Pod", "n" * 63, f"{'p' * 58}{number:05d}"),
            workload=workload,
            note="x" * 300,
        )
        for number, uid in enumerate(uids)
    ]
    journal = RunJournal("r0123abcd", "x")
    for moving in moves[:100]:
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


def test_instance_that_was_moved_at_the_first_attempt_is_in_done_alone() -> None:
    journal = RunJournal("r1", "x").begin(record("a"), ["a", "b"]).begin(record("b"), ["a", "b"])
    journal = journal.end(record("a"), 9.0, outcome=Outcome.MOVED, successor="n")
    assert (dict(journal.tried), journal.attempts("a")) == ({digest("b"): 1}, 1)
    assert journal.known == {REPLICA_SET: frozenset({digest("b")})}


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
def test_journal_with_a_name_that_leads_to_another_path_is_refused(
    field: str, value: object
) -> None:
    body = json.loads(journals.write(RunJournal("r1", "x").begin(record("a"), ["a"])))
    body["moves"][0][field] = value
    with pytest.raises(UnreadableJournal, match="cannot be read"):
        journals.read(json.dumps(body))


def test_move_of_a_pending_instance_has_no_source() -> None:
    journal = RunJournal("r1", "x").begin(replace(record("a"), source=""), ["a"])
    assert journals.read(journals.write(journal)) == journal


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version":' + "[" * 50 + "]" * 50 + "}"])
def test_journal_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJournal, match="nested too deeply"):
        journals.read(text)


@pytest.mark.parametrize("character", ["n", '"', "\\", "\n", "\u00e9", "\u6c34", "\U0001f600"])
def test_no_move_begins_while_the_journal_is_full(character: str) -> None:
    """JSON writes some characters of the notes as several. An annotation has at most 256 KiB, and the name
    of a pod at most 253 characters."""
    journal = RunJournal("r1", "x")
    while journals.has_room(journal):
        name = f"{len(journal.records):0253}"
        pod = Ref("Pod", "shop" * 15, name)
        moving = replace(record(name[-60:], Method.EVICT), instance=pod, workload=pod)
        journal = journal.begin(moving, [moving.uid])
    with_notes = replace(
        journal, records=tuple(replace(x, note=character * 300) for x in journal.records)
    )
    assert len(with_notes.records) > 100
    text = journals.write(with_notes)
    assert len(text) < 256 * 1024
    notes = {record.note.removesuffix("...") for record in journals.read(text).records}
    assert all(note in character * 300 for note in notes)
