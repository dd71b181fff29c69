# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends writes: some at a time, each only if its object is still as it was read.

What a write came to is never guessed. A conflict is read again and computed again. So is a write
whose answer was lost or that ended in a server error: it may have been made.
"""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..api.errors import (
    ApiError,
    Conflict,
    DeadlineExceeded,
    NoConfiguration,
    Unauthorized,
    Unreachable,
)
from ..api.requests import METADATA, PLAIN, Api, Params
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.write import Write

THREADS = 8

_ATTEMPTS = 8
"""How often one object is read again and computed again before it is given up."""

Recompute = t.Callable[[Write, JSON], "Write | None"]


class Replaced(Exception):
    """There is another object of this name now. It was not touched."""

    def __init__(self, target: Ref, uid: str, seen: str) -> None:
        super().__init__(
            f"{target} was replaced meanwhile: its uid was {uid} and is {seen} now; run again"
        )


class NotSent(Exception):
    """Left out because of what happened to another object."""

    def __init__(self, target: Ref, because: Exception) -> None:
        super().__init__(f"{target} was not written: {because}")


@dataclass(frozen=True)
class Failed:
    write: Write
    error: Exception


@dataclass(frozen=True)
class Applied:
    """`done` are the writes that were made (in check mode: would be), as they were sent last;
    `unchanged` are objects that had come to be as wanted without us."""

    done: tuple[Write, ...] = ()
    unchanged: tuple[Ref, ...] = ()
    failed: tuple[Failed, ...] = ()


def apply(
    api: Api,
    writes: t.Sequence[Write],
    *,
    recompute: Recompute,
    threads: int = THREADS,
    check: bool = False,
    metadata_only: bool = False,
) -> Applied:
    """Makes `writes`, up to `threads` at once. The failure of one does not stop the others.

    `recompute(write, manifest)` says what is to be written to an object that was read again:
    another Write, or None where nothing is left to do; it may raise Refused, which fails the
    object. With `metadata_only` writes touch and recompute sees nothing but `metadata`. With
    `check` nothing is sent.
    """
    if check or not writes:
        return Applied(done=tuple(writes))
    sender = _Sender(api, recompute, _METADATA_ONLY if metadata_only else _WHOLE)
    with ThreadPoolExecutor(min(threads, len(writes)), "apply") as pool:
        results = list(pool.map(sender.send, writes))
    return Applied(
        tuple(result for result in results if isinstance(result, Write)),
        tuple(result for result in results if isinstance(result, Ref)),
        tuple(result for result in results if isinstance(result, Failed)),
    )


@dataclass(frozen=True)
class _Form:
    """How an object is read again, and what is asked with a patch."""

    accept: str
    params: Params


_WHOLE = _Form(PLAIN, {})
_METADATA_ONLY = _Form(METADATA, {"fieldValidation": "Ignore"})
"""Maps of labels and annotations have no unknown fields, and to look for some costs the server
a third more of its time for each node."""


class _Sender:
    def __init__(self, api: Api, recompute: Recompute, form: _Form) -> None:
        self._api = api
        self._recompute = recompute
        self._form = form
        self._stopped: Exception | None = None
        """Why no object can be written any more: no server, no credentials, no time."""

    def send(self, write: Write) -> Write | Ref | Failed:
        """The write as it was made, the object where there was nothing to do, or the failure."""
        if self._stopped is not None:
            return Failed(write, NotSent(write.target, self._stopped))
        try:
            return self._settle(write)
        except (Unauthorized, Unreachable, DeadlineExceeded, NoConfiguration) as error:
            self._stopped = error
            return Failed(write, error)
        except (ApiError, Replaced, ValueError) as error:
            return Failed(write, error)

    def _settle(self, write: Write) -> Write | Ref:
        may_be_made: Write | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._api.patch(
                    write.path,
                    write.patch(),
                    accept=METADATA,  # nobody reads the answer
                    params=self._form.params,
                )
                return write
            except ApiError as error:
                if not (isinstance(error, Conflict) or error.outcome_unknown):
                    raise
                if attempt == _ATTEMPTS or self._api.deadline.expired:
                    raise
                if error.outcome_unknown:
                    may_be_made = write
            if attempt > 1 or may_be_made is write:
                self._api.pause(attempt)
            fresh = self._api.get(write.path, accept=self._form.accept)
            seen = fresh["metadata"]["uid"]
            if seen != write.uid:
                raise Replaced(write.target, write.uid, seen)
            again = self._recompute(write, fresh)
            if again is None:
                return may_be_made or write.target
            write = again
        raise AssertionError("unreachable")
