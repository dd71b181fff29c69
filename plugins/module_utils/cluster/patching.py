# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send writes: some at a time, each only if its object is still as it was read.

The outcome of a write is never guessed. After a conflict, a lost answer or a server error the object
is read again and its write is computed again.
"""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..api.client import METADATA, PLAIN, ApiClient
from ..api.errors import (
    ApiError,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    Invalid,
    NoConfiguration,
    ServerText,
    Unauthorized,
    Unreachable,
    is_of_admission,
)
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.objects import Ref
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
    """Not sent, because the write of another object failed in a way that concerns all."""

    def __init__(self, target: Ref, because: Exception) -> None:
        super().__init__(f"{target} was not written: {because}")


@dataclass(frozen=True)
class Failed:
    write: Write
    error: Exception


@dataclass(frozen=True)
class Applied:
    """`done` are the writes that were made (in check mode: would be), as they were sent last;
    `unchanged` are objects that were as wanted when they were read again. `changed_back` are objects that the server
    has changed again by admission, as it answered to the write."""

    done: tuple[Write, ...] = ()
    unchanged: tuple[Ref, ...] = ()
    failed: tuple[Failed, ...] = ()
    changed_back: t.Mapping[Ref, JSON] = field(default_factory=dict)

    @property
    def errors(self) -> list[InputError]:
        """Of the objects that could not be written."""
        errors: list[InputError] = []
        for failed in self.failed:
            if isinstance(failed.error, InvalidInput):
                errors += failed.error.errors
            else:
                errors.append(InputError(str(failed.write.target), str(failed.error), "api"))
        return errors


def apply(
    api: ApiClient,
    writes: t.Sequence[Write],
    *,
    recompute: Recompute,
    threads: int = THREADS,
    check: bool = False,
    metadata_only: bool = False,
    compare: bool = False,
) -> Applied:
    """Makes `writes`, up to `threads` at once. The failure of one does not stop the others.

    `recompute(write, manifest)` returns the write for an object that was read again, or None if
    nothing is left to do; it may raise InvalidInput, which fails the
    object. With `metadata_only` the writes change only `metadata`, and `recompute` gets only that. With `compare` the
    answers are read. With `check` nothing is sent.
    """
    if check or not writes:
        return Applied(done=tuple(writes))
    sender = _Sender(api, recompute, metadata_only, compare)
    with ThreadPoolExecutor(min(threads, len(writes)), "apply") as pool:
        results = list(pool.map(sender.send, writes))
    return Applied(
        tuple(result for result in results if isinstance(result, Write)),
        tuple(result for result in results if isinstance(result, Ref)),
        tuple(result for result in results if isinstance(result, Failed)),
        sender.changed_back,
    )


def still_differs(recompute: Recompute, write: Write, answer: JSON) -> bool:
    """Whether something is left to do for an object that the server returns as the answer to a write."""
    try:
        return recompute(write, answer) is not None
    except ValueError:  # what is there now conflicts with what is wanted
        return True


def try_writes(api: ApiClient, writes: t.Sequence[Write]) -> dict[Ref, JSON | ApiError]:
    """What the server answers to each write, or why it refuses it; nothing is stored (dryRun=All)."""
    if not writes:
        return {}

    def answer(write: Write) -> JSON | ApiError:
        try:
            return api.patch(write.path, write.patch(), dry_run=True)
        except ApiError as error:
            return error

    with ThreadPoolExecutor(min(THREADS, len(writes)), "try") as pool:
        return dict(zip((w.target for w in writes), pool.map(answer, writes), strict=True))


def refusals(answers: t.Mapping[Ref, JSON | ApiError]) -> dict[Ref, ApiError]:
    """The answers of `try_writes` that refuse the write itself: an admission policy or webhook, a right, a field. A
    webhook may refuse dry runs alone, and a test of the patch may fail since the object has changed (apiserver
    admission/plugin/webhook/errors)."""
    return {
        ref: answer
        for ref, answer in answers.items()
        if isinstance(answer, ApiError)
        and not answer.has(ServerText.NO_DRY_RUN)
        and (isinstance(answer, (Forbidden, Invalid)) or is_of_admission(answer.message))
    }


class _Sender:
    def __init__(
        self, api: ApiClient, recompute: Recompute, metadata_only: bool, compare: bool
    ) -> None:
        self._api = api
        self._recompute = recompute
        self._compare = compare
        self.changed_back: dict[Ref, JSON] = {}
        self._accept = METADATA if metadata_only else PLAIN
        # Maps of labels and annotations have no unknown fields, and the search for them costs the server
        # a third more time for each node.
        self._params = {"fieldValidation": "Ignore"} if metadata_only else {}
        self._stopped: Exception | None = None
        """Why no object can be written any more: no server, no credentials, no time."""

    def send(self, write: Write) -> Write | Ref | Failed:
        """The write as it was made, the object if nothing was left to do, or the failure."""
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
                answer = self._api.patch(
                    write.path,
                    write.patch(),
                    accept=self._accept if self._compare else METADATA,  # else it is not read
                    params=self._params,
                )
                if self._compare and still_differs(self._recompute, write, answer):
                    self.changed_back[write.target] = answer
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
            fresh = self._api.get(write.path, accept=self._accept)
            uid = fresh["metadata"]["uid"]
            if uid != write.uid:
                raise Replaced(write.target, write.uid, uid)
            again = self._recompute(write, fresh)
            if again is None:
                return may_be_made or write.target
            write = again
        raise AssertionError("unreachable")
