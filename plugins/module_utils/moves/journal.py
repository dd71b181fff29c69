# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run must remember: written to the Lease before each disruption, read after a crash.

Pure. The text is JSON with a version. It has a digest of each instance's uid, seven characters long, so
that 10,000 recreations with their successors fit into an annotation (256 KiB).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.registry import INSTANCES
from ..model.json_pointer import JSON
from ..model.json_text import content_fault, cut, read_annotation
from ..model.objects import Ref, is_object_name
from ..model.obstacle import CODES, Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance
from .move import MoveRecord, Outcome, Phase

VERSION = 1

NOTE_LIMIT = 300
"""The most characters that JSON writes for a move's note, which says why the move waits."""


_ROOM = 200 * 1024
"""No move begins if the text is longer than this many characters: outcomes and notes of the moves in
flight are added later."""


class UnreadableJournal(ValueError):
    """The journal was damaged, or written by a newer release of the collection."""


_DIGEST = 10
"""Hexadecimal digits."""


def digest(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:_DIGEST]


@dataclass(frozen=True, slots=True)
class RunJournal:
    """One run. `request` is a digest of its options: an outcome counts only for the same options.

    `clock` is the run's clock when this was written, in seconds. `records` are the moves in flight.
    `tried` has the number of moves begun for each instance digest, so that each migration gets a new name;
    an instance that was moved at the first attempt is in `done` alone.
    `known` has the digests of a workload's instances before its first recreation in flight:
    any other instance that is not in `settled` is a successor.
    """

    run: str
    request: str
    clock: float = 0.0
    records: tuple[MoveRecord, ...] = ()
    tried: t.Mapping[str, int] = field(default_factory=dict)
    known: t.Mapping[Ref, frozenset[str]] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    """Digests of instances that were moved, and of their successors."""
    lost: frozenset[str] = frozenset()
    """Digests of instances whose move failed."""
    earlier: frozenset[str] = frozenset()
    """`done` of earlier tasks with the same run id: these instances may be moved again."""
    inherited: frozenset[str] = frozenset()
    """Digests of instances whose move an earlier task has begun: once it ended, they may be moved again, too."""
    moved: int = 0
    failed: int = 0
    gone: int = 0
    settled_at: float = 0.0
    """The clock when the last move ended."""
    barrier: float = 0.0
    """The clock before which no move begins (the soak after the canary)."""
    domain: str = ""
    """The topology domain of the nodes that moves leave at present; with a soak, other domains wait."""

    @property
    def ended(self) -> int:
        return self.moved + self.failed + self.gone

    @property
    def started(self) -> int:
        return self.ended + len(self.records)

    def attempts(self, uid: str) -> int:
        return self.tried.get(digest(uid), 1 if digest(uid) in self.settled else 0)

    @property
    def settled(self) -> frozenset[str]:
        """Digests of instances that cannot be the successor of a move in flight."""
        return self.done | self.earlier

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        """Why the run does not move an instance again, as an aspect. A move that it has only intended begins anew."""
        intended = {x.uid for x in self.records if x.phase is Phase.INTENDED}
        known = "" if instance.uid in intended else digest(instance.uid)
        if known in self.done:
            return Obstacle("moved_already", "this rollout moved it already")
        failed = Obstacle("move_failed", "its move failed in this rollout")
        return failed if known in self.lost else None

    def with_record(self, record: MoveRecord) -> RunJournal:
        """The journal with the record, which replaces one with the same uid."""
        other_records = tuple(kept for kept in self.records if kept.uid != record.uid)
        return replace(self, records=(*other_records, record))

    def forget(self, uid: str) -> RunJournal:
        """The journal without the move of this instance, and without the `known` instances of its workload
        if no other recreation of that workload is in flight."""
        records = tuple(record for record in self.records if record.uid != uid)
        recreating = {record.workload for record in records if record.method is not Method.MIGRATE}
        known = {ref: uids for ref, uids in self.known.items() if ref in recreating}
        return replace(self, records=records, known=known)

    def begin(self, record: MoveRecord, siblings: t.Collection[str]) -> RunJournal:
        """The journal with a new move; `siblings` are the uids of all instances of its workload."""
        tried = {**self.tried, digest(record.uid): self.attempts(record.uid) + 1}
        known = dict(self.known)
        if record.method is not Method.MIGRATE and record.workload not in known:
            known[record.workload] = frozenset(digest(uid) for uid in siblings)
        return replace(self.with_record(record), tried=tried, known=known)

    def end(
        self, record: MoveRecord, now: float, *, outcome: Outcome, successor: str = ""
    ) -> RunJournal:
        """The journal after the end of a move. `successor` is the uid of the instance that replaced the
        moved one: it counts as known and as moved. The failure of a move that an earlier task has given up, and told,
        does not count again: this task tries once more."""
        remaining = self.forget(record.uid)
        known = dict(remaining.known)
        moved = outcome is Outcome.MOVED
        settled = {digest(uid) for uid in (record.uid, successor) if uid} if moved else set()
        if record.workload in known:
            own = known[record.workload] | ({digest(successor)} if successor else set())
            known[record.workload] = own - settled
        tried = dict(self.tried)
        if moved and tried.get(digest(record.uid)) == 1:
            del tried[digest(record.uid)]
        is_inherited = digest(record.uid) in self.inherited
        told = is_inherited and record.phase is Phase.GIVEN_UP
        failed = outcome is Outcome.FAILED and not told
        return replace(
            remaining,
            tried=tried,
            known=known,
            done=self.done if is_inherited else self.done | settled,
            earlier=self.earlier | settled if is_inherited else self.earlier,
            inherited=self.inherited - {digest(record.uid)},
            lost=self.lost | {digest(record.uid)} if failed else self.lost,
            moved=self.moved + moved,
            failed=self.failed + failed,
            gone=self.gone + (outcome is Outcome.GONE),
            settled_at=now,
        )

    def taken_over(self, request: str, *, keep_done: bool) -> RunJournal:
        """The journal with which another task continues this run: its id and its moves in flight, and the
        numbers of attempts, since the names of migrations contain both.

        The outcomes of the previous task do not count, since the cluster may have changed since. Only
        with `keep_done` the instances that it moved count as moved.
        """
        return RunJournal(
            self.run,
            request,
            self.clock,
            self.records,
            tried=self.tried,
            known=self.known,
            done=self.done if keep_done else frozenset(),
            earlier=self.earlier if keep_done else self.earlier | self.done,
            inherited=self.inherited
            if keep_done
            else frozenset(digest(record.uid) for record in self.records),
            domain=self.domain if self.records else "",
        )


def write(journal: RunJournal) -> str:
    body = {
        "version": VERSION,
        "run": journal.run,
        "request": journal.request,
        "clock": round(journal.clock, 1),
        "moves": [
            {
                "instance": _text(record.instance),
                "uid": record.uid,
                "workload": _text(record.workload),
                "method": str(record.method),
                "source": record.source,
                "attempt": record.attempt,
                "begun": round(record.begun, 1),
                "phase": str(record.phase),
                "note": cut(record.note, NOTE_LIMIT),
                "code": record.code,
                "refusal": record.refusal,
                "node_selector": dict(record.node_selector),
            }
            for record in journal.records
        ],
        "tried": {
            str(count): _packed(uid for uid, times in journal.tried.items() if times == count)
            for count in sorted(set(journal.tried.values()))
        },
        "known": {_text(ref): _packed(uids) for ref, uids in sorted(journal.known.items())},
        "done": _packed(journal.done),
        "lost": _packed(journal.lost),
        "earlier": _packed(journal.earlier),
        "inherited": _packed(journal.inherited),
        "moved": journal.moved,
        "failed": journal.failed,
        "gone": journal.gone,
        "settled_at": round(journal.settled_at, 1),
        "barrier": round(journal.barrier, 1),
        "domain": journal.domain,
    }
    return json.dumps(body, separators=(",", ":"))


def has_room(journal: RunJournal) -> bool:
    """Whether the text has room for one more move, even if all moves in flight get notes of NOTE_LIMIT."""
    without_notes = replace(
        journal, records=tuple(replace(x, note="", code="", refusal="") for x in journal.records)
    )
    longest = NOTE_LIMIT + _DIGEST + max(map(len, CODES))
    return len(write(without_notes)) + longest * len(journal.records) < _ROOM


def read(text: str) -> RunJournal:
    """The journal that `write` wrote. Raises UnreadableJournal, which says what to do. Names become parts of
    request paths, so their form is checked: any identity that may write the Lease may write the journal."""
    try:
        body = read_annotation(text)
        version = body["version"]
        if version != VERSION:
            raise UnreadableJournal(
                f"the journal of an unfinished run has version {version}, this release reads"
                f" {VERSION}: finish that run with the release that began it"
            )
        return RunJournal(
            run=_name(body["run"]),
            request=str(body["request"]),
            clock=float(body["clock"]),
            records=tuple(_record(item) for item in body["moves"]),
            tried={
                uid: int(count) for count, uids in body["tried"].items() for uid in _unpacked(uids)
            },
            known={_ref(key): _unpacked(uids) for key, uids in body["known"].items()},
            done=_unpacked(body["done"]),
            lost=_unpacked(body["lost"]),
            earlier=_unpacked(body["earlier"]),
            inherited=_unpacked(body.get("inherited", "")),
            moved=int(body["moved"]),
            failed=int(body["failed"]),
            gone=int(body["gone"]),
            settled_at=float(body["settled_at"]),
            barrier=float(body["barrier"]),
            domain=str(body["domain"]),
        )
    except UnreadableJournal:
        raise
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableJournal(
            f"the journal of an unfinished run cannot be read ({content_fault(error)}):"
            " read it, then remove that annotation from the Lease"
        ) from error


def _packed(digests: t.Iterable[str]) -> str:
    return base64.b64encode(bytes.fromhex("".join(sorted(digests)))).decode()


def _unpacked(text: str) -> frozenset[str]:
    """Raises ValueError."""
    try:
        joined = base64.b64decode(text, validate=True).hex()
    except binascii.Error as error:
        raise ValueError(f"{text!r:.60} are no digests: {error}") from error
    if len(joined) % _DIGEST:
        raise ValueError(f"{text!r:.60} are no digests")
    return frozenset(joined[at : at + _DIGEST] for at in range(0, len(joined), _DIGEST))


def _record(item: t.Mapping[str, JSON]) -> MoveRecord:
    instance, workload = _ref(item["instance"]), _ref(item["workload"])
    if instance.kind not in INSTANCES or workload.namespace != instance.namespace:
        raise ValueError(f"{item['instance']} of {item['workload']} cannot be moved")
    return MoveRecord(
        instance=instance,
        uid=_uid(item["uid"]),
        workload=workload,
        method=Method(item["method"]),
        source=_name(item["source"]) if item["source"] != "" else "",
        attempt=int(item["attempt"]),
        begun=float(item["begun"]),
        phase=Phase(item["phase"]),
        note=cut(str(item["note"]), NOTE_LIMIT),
        code=str(item["code"]) if str(item["code"]) in CODES else "",
        refusal=cut(str(item["refusal"]), _DIGEST),
        node_selector=tuple(
            sorted((str(key), str(value)) for key, value in item["node_selector"].items())
        ),
    )


def _text(ref: Ref) -> str:
    return f"{ref.kind}/{ref.namespace}/{ref.name}"


def _ref(text: str) -> Ref:
    kind, namespace, name = text.split("/")
    _name(kind.lower())
    return Ref(kind, _name(namespace), _name(name))


def _name(text: str) -> str:
    """The text if it has the form of an object's name. Raises ValueError."""
    if not isinstance(text, str) or not is_object_name(text):
        raise ValueError(f"{text!r:.60} is no name of an object")
    return text


def _uid(text: str) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[-0-9A-Za-z]{1,64}", text):
        raise ValueError(f"{text!r:.60} is no uid")
    return text
