# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one Lease of a cluster: held by whoever disrupts, and where its journal is kept.

A holder is a run id with a term, the Lease's `leaseTransitions` at the time it was taken. Every
write tests both, so that a process that was overtaken writes nothing any more, even where its
successor goes on with the same run. Whether a holder is alive is told by observed change: clocks of
two machines are never compared.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ..api.errors import ApiError, Conflict, NotFound, TestFailed
from ..api.requests import Api
from ..model import names
from ..model.pointer import JSON, Pointer

DURATION = 20
"""Seconds without a change of the Lease after which its holder counts as gone."""

COLLECTION = f"/apis/coordination.k8s.io/v1/namespaces/{names.LEASE_NAMESPACE}/leases"
PATH = f"{COLLECTION}/{names.LEASE}"
NAME = f"Lease {names.LEASE_NAMESPACE}/{names.LEASE}"

_HOLDER = Pointer(("spec", "holderIdentity"))
_TERM = Pointer(("spec", "leaseTransitions"))
_RENEWED = Pointer(("spec", "renewTime"))
_ANNOTATIONS = Pointer(("metadata", "annotations"))


@dataclass(frozen=True, slots=True)
class Reading:
    """The Lease as it was read. `holder` is empty where nobody holds it; `journal` is the text of
    an unfinished run, empty where there is none; `last` says who took it last, also when it was
    given back."""

    holder: str = ""
    term: int = 0
    renewed: str = ""
    journal: str = ""
    resource_version: str = ""
    last: str = ""
    annotated: bool = True
    """It has annotations, so that one can be added to them."""

    @property
    def exists(self) -> bool:
        return bool(self.resource_version)

    @property
    def mark(self) -> str:
        """What changes whenever the holder is alive."""
        return f"{self.holder}/{self.term}/{self.renewed}"


@dataclass(frozen=True, slots=True)
class Watched:
    """A foreign holder's last mark, and since when (on our own clock) it has not changed."""

    mark: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """`free`: the Lease may be taken. Otherwise `watched` is what to compare with next time, and
    `alive` says that the holder was seen renewing."""

    free: bool
    alive: bool
    watched: Watched


def judge(reading: Reading, watched: Watched, now: float, duration: float = DURATION) -> Judged:
    """Whether the Lease may be taken, from what was seen of it before. Pure."""
    if not reading.holder:
        return Judged(True, False, Watched())
    if watched.mark != reading.mark:
        return Judged(False, bool(watched.mark), Watched(reading.mark, now))
    return Judged(now - watched.since >= duration, False, watched)


@dataclass(frozen=True, slots=True)
class Held:
    """A Lease that is ours: the run and its term."""

    run: str
    term: int

    def __str__(self) -> str:
        return f"{self.run}.{self.term}"


class LeaseLost(Exception):
    """Another task holds the Lease now, or held it since: nothing more may be disrupted.

    The other task may have gone on with the very same run, so both terms are told.
    """

    def __init__(self, held: Held, seen: Reading) -> None:
        if seen.holder:
            who = f"is held by {seen.holder} now (term {seen.term})"
        elif seen.last:
            who = f"was taken over by {seen.last}, which has given it back since"
        else:
            who = "is held by nobody now"
        super().__init__(
            f"{NAME} {who}: this task, which held it as {held.run} (term {held.term}), was taken for"
            " dead and stops"
        )
        self.holder = seen.holder


def read(api: Api) -> Reading:
    try:
        return _reading(api.get(PATH))
    except NotFound:
        return Reading()


def take(api: Api, reading: Reading, run: str, journal: str) -> Held | None:
    """Take the Lease as it was read; None where somebody else was faster."""
    try:
        return _take(api, reading, run, journal)
    except (Conflict, TestFailed):
        return None
    except ApiError as error:
        if not error.outcome_unknown:
            raise
        now = read(api)
        mine = now.holder == run and now.term == reading.term + 1 and now.journal == journal
        return Held(run, now.term) if mine else None


def renew(api: Api, held: Held, journal: str) -> None:
    """Write the journal and show that we are alive, in one patch. Raises LeaseLost."""
    _write(api, held, _renewal(journal))


def release(api: Api, held: Held, journal: str = "") -> None:
    """Give the Lease back. A `journal` stays for whoever takes it next. Raises LeaseLost."""
    operations = [_operation("replace", _HOLDER, ""), *_renewal(journal)]
    _write(api, held, operations)


def _take(api: Api, reading: Reading, run: str, journal: str) -> Held:
    if not reading.exists:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": names.LEASE,
                "namespace": names.LEASE_NAMESPACE,
                "annotations": {names.JOURNAL: journal, names.RUN: str(Held(run, 1))},
            },
            "spec": {
                "holderIdentity": run,
                "leaseDurationSeconds": DURATION,
                "leaseTransitions": 1,
                "acquireTime": _timestamp(),
                "renewTime": _timestamp(),
            },
        }
        api.create(COLLECTION, body)
        return Held(run, 1)
    patch = [
        _operation("test", Pointer(("metadata", "resourceVersion")), reading.resource_version),
        _operation("add", _HOLDER, run),
        _operation("add", _TERM, reading.term + 1),
        _operation("add", Pointer(("spec", "leaseDurationSeconds")), DURATION),
        _operation("add", Pointer(("spec", "acquireTime")), _timestamp()),
        *([] if reading.annotated else [_operation("add", _ANNOTATIONS, {})]),
        _operation("add", _ANNOTATIONS / names.RUN, str(Held(run, reading.term + 1))),
        *_renewal(journal),
    ]
    api.patch(PATH, patch)
    return Held(run, reading.term + 1)


def _write(api: Api, held: Held, operations: list[JSON]) -> None:
    tests = [_operation("test", _HOLDER, held.run), _operation("test", _TERM, held.term)]
    try:
        api.patch(PATH, tests + operations)
    except (TestFailed, NotFound) as error:
        raise LeaseLost(held, read(api)) from error
    except ApiError as error:
        if not error.outcome_unknown:
            raise
        _write_again(api, held, tests + operations)


def _write_again(api: Api, held: Held, patch: list[JSON]) -> None:
    """The answer was lost. Whatever happened, the patch says the same when it is sent again: if
    we released the Lease and nobody has taken it since, it is as we want it."""
    now = read(api)
    if now.term == held.term and now.holder == held.run:
        try:
            api.patch(PATH, patch)
        except TestFailed as error:
            raise LeaseLost(held, read(api)) from error
    elif now.term != held.term or now.holder:
        raise LeaseLost(held, now)


def _renewal(journal: str) -> list[JSON]:
    return [
        _operation("add", _RENEWED, _timestamp()),
        _operation("add", _ANNOTATIONS / names.JOURNAL, journal),
    ]


def _operation(op: str, pointer: Pointer, value: JSON) -> dict[str, JSON]:
    return {"op": op, "path": str(pointer), "value": value}


def _reading(lease: t.Mapping[str, JSON]) -> Reading:
    spec, metadata = lease.get("spec") or {}, lease["metadata"]
    return Reading(
        holder=spec.get("holderIdentity") or "",
        term=spec.get("leaseTransitions") or 0,
        renewed=spec.get("renewTime") or "",
        journal=(metadata.get("annotations") or {}).get(names.JOURNAL, ""),
        resource_version=metadata["resourceVersion"],
        last=(metadata.get("annotations") or {}).get(names.RUN, ""),
        annotated=bool(metadata.get("annotations")),
    )


def _timestamp() -> str:
    """Now, as a Lease wants it (MicroTime). Only its change means anything."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
