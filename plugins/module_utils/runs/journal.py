# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run must not forget: written to the Lease before each disruptive step, read after a crash.

Pure. The text is JSON with a version. Instances are remembered by a digest of their uid, so that
thousands of moves fit into an annotation (256 KiB).
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field, replace

from ..model.objects import Ref
from ..model.plan import Method
from ..model.pointer import JSON
from ..movement.entry import Entry, Outcome, Phase

VERSION = 1

NOTE_LIMIT = 300
"""Characters that are kept of what holds a move up."""


class UnreadableJournal(ValueError):
    """The journal was damaged, or written by a newer release of the collection."""


def digest(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True)
class Journal:
    """One run. `request` says what it was asked for: only the same request is continued.

    `clock` is the run's clock when this was written, in seconds. `entries` are the moves in flight.
    `tried` counts the moves begun per instance digest, so that no name of a migration comes twice.
    `known` holds the digests of a workload's instances from before its first recreation in flight:
    any other instance is a successor.
    """

    run: str
    request: str
    clock: float = 0.0
    entries: tuple[Entry, ...] = ()
    tried: t.Mapping[str, int] = field(default_factory=dict)
    known: t.Mapping[Ref, frozenset[str]] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    """Digests of instances that were moved, and of those that came in their place."""
    lost: frozenset[str] = frozenset()
    """Digests of instances whose move failed."""
    moved: int = 0
    failed: int = 0
    gone: int = 0
    settled_at: float = 0.0
    """The clock when the last move ended."""
    barrier: float = 0.0
    """The clock before which no move begins (the soak after the canary)."""
    domain: str = ""
    """The domain that moves are made away from."""

    @property
    def ended(self) -> int:
        return self.moved + self.failed + self.gone

    @property
    def started(self) -> int:
        return self.ended + len(self.entries)

    def attempts(self, uid: str) -> int:
        return self.tried.get(digest(uid), 0)

    def with_entry(self, entry: Entry) -> Journal:
        """The entry added, or put in the place of the one with its uid."""
        others = tuple(found for found in self.entries if found.uid != entry.uid)
        return replace(self, entries=(*others, entry))

    def forget(self, uid: str) -> Journal:
        """Without a move that has ended or that was intended and is not needed any more, and
        without what was known of its workload for its sake."""
        entries = tuple(found for found in self.entries if found.uid != uid)
        busy = {found.workload for found in entries if found.method is not Method.MIGRATE}
        known = {ref: uids for ref, uids in self.known.items() if ref in busy}
        return replace(self, entries=entries, known=known)

    def begin(self, entry: Entry, siblings: t.Collection[str]) -> Journal:
        """A new move; `siblings` are the uids of all instances of its workload."""
        tried = {**self.tried, digest(entry.uid): self.attempts(entry.uid) + 1}
        known = dict(self.known)
        if entry.method is not Method.MIGRATE and entry.workload not in known:
            known[entry.workload] = frozenset(digest(uid) for uid in siblings)
        return replace(self.with_entry(entry), tried=tried, known=known)

    def end(self, entry: Entry, now: float, *, outcome: Outcome, successor: str = "") -> Journal:
        """A move ended, well or not. `successor` is the uid of what came in the instance's place:
        it counts as known and as moved. What was known of a workload goes when nothing of it is
        in flight any more."""
        left = self.forget(entry.uid)
        known = dict(left.known)
        if successor and entry.workload in known:
            known[entry.workload] |= {digest(successor)}
        moved = outcome is Outcome.MOVED
        settled = {digest(uid) for uid in (entry.uid, successor) if uid} if moved else set()
        failed = outcome is Outcome.FAILED
        return replace(
            left,
            known=known,
            done=self.done | settled,
            lost=self.lost | {digest(entry.uid)} if failed else self.lost,
            moved=self.moved + moved,
            failed=self.failed + failed,
            gone=self.gone + (outcome is Outcome.GONE),
            settled_at=now,
        )

    def taken_over(self, request: str, *, keep_done: bool) -> Journal:
        """What another task goes on with: what is in flight, which goes by the run's id, and the
        numbers of attempts, which are part of names that may not come again.

        What ended well or badly was the business of the task before, and the cluster may be another
        one since. Only with `keep_done` what it had moved stays so.
        """
        return Journal(
            self.run,
            request,
            self.clock,
            self.entries,
            tried=self.tried,
            known=self.known,
            done=self.done if keep_done else frozenset(),
            domain=self.domain if self.entries else "",
        )


def write(journal: Journal) -> str:
    body = {
        "version": VERSION,
        "run": journal.run,
        "request": journal.request,
        "clock": round(journal.clock, 1),
        "entries": [_entry_json(entry) for entry in journal.entries],
        "tried": dict(sorted(journal.tried.items())),
        "known": {_text(ref): sorted(uids) for ref, uids in sorted(journal.known.items())},
        "done": sorted(journal.done),
        "lost": sorted(journal.lost),
        "moved": journal.moved,
        "failed": journal.failed,
        "gone": journal.gone,
        "settled_at": round(journal.settled_at, 1),
        "barrier": round(journal.barrier, 1),
        "domain": journal.domain,
    }
    return json.dumps(body, separators=(",", ":"))


def read(text: str) -> Journal:
    """Raises UnreadableJournal, which says what to do."""
    try:
        body = json.loads(text)
        version = body["version"]
        if version != VERSION:
            raise UnreadableJournal(
                f"the journal of an unfinished run has version {version}, this release reads"
                f" {VERSION}: finish that run with the release that began it"
            )
        return Journal(
            run=body["run"],
            request=body["request"],
            clock=float(body["clock"]),
            entries=tuple(_entry(item) for item in body["entries"]),
            tried={str(key): int(count) for key, count in body["tried"].items()},
            known={_ref(key): frozenset(uids) for key, uids in body["known"].items()},
            done=frozenset(body["done"]),
            lost=frozenset(body["lost"]),
            moved=int(body["moved"]),
            failed=int(body["failed"]),
            gone=int(body["gone"]),
            settled_at=float(body["settled_at"]),
            barrier=float(body["barrier"]),
            domain=str(body["domain"]),
        )
    except UnreadableJournal:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableJournal(
            f"the journal of an unfinished run cannot be read ({type(error).__name__}: {error}):"
            " look at what it says, then remove that annotation from the Lease"
        ) from error


def _entry_json(entry: Entry) -> dict[str, JSON]:
    return {
        "instance": _text(entry.instance),
        "uid": entry.uid,
        "workload": _text(entry.workload),
        "method": str(entry.method),
        "source": entry.source,
        "attempt": entry.attempt,
        "begun": round(entry.begun, 1),
        "phase": str(entry.phase),
        "note": entry.note[:NOTE_LIMIT],
        "pin": dict(entry.pin),
    }


def _entry(item: t.Mapping[str, JSON]) -> Entry:
    return Entry(
        instance=_ref(item["instance"]),
        uid=item["uid"],
        workload=_ref(item["workload"]),
        method=Method(item["method"]),
        source=item["source"],
        attempt=int(item["attempt"]),
        begun=float(item["begun"]),
        phase=Phase(item["phase"]),
        note=str(item["note"]),
        pin=tuple(sorted(item["pin"].items())),
    )


def _text(ref: Ref) -> str:
    return f"{ref.kind}/{ref.namespace}/{ref.name}"


def _ref(text: str) -> Ref:
    kind, namespace, name = text.split("/", 2)
    return Ref(kind, namespace, name)
