# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fault proxy can do to a request instead of passing it on.

====================  ===========================================================================
``status``            answer with this code at once; the API server never sees the request
``html``              answer as a proxy in between does: an error page that is no Status
``delay``             wait, then pass it on (or do what ``then`` says)
``reset``             reset the connection; the API server never sees the request
``lost_answer``       pass it on, wait until it is done, then reset the connection
``truncate``          pass it on and cut the answer's body
``hang``              never answer
``gone``              410: to a list at once, to a watch as an ERROR event in its stream
``sigkill``           kill the caller, before the request is passed on or after it was done
``Freeze``            stop the caller, until it is told to go on
``down``              reset every connection and refuse new ones for a while
====================  ===========================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import threading
import typing as t

from aiohttp import web
from multidict import CIMultiDict

from .socket_owners import owners_of_peer

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclasses.dataclass(frozen=True)
class Answer:
    """A whole answer, of the API server or made up."""

    status: int
    headers: t.Mapping[str, str]
    body: bytes


class Exchange(t.Protocol):
    """One request with the means to deal with it."""

    request: web.Request
    is_watch: bool

    async def forward(self) -> Answer:
        """Pass the request on and return the whole answer, even if the caller goes away."""

    async def reply(self, answer: Answer) -> web.StreamResponse:
        """Send an answer to the caller."""

    async def relay(self, events: int | None = None, then: bytes = b"") -> web.StreamResponse:
        """Pass the request on and the answer back as it comes.

        A watch ends after so many ``events`` (None: with its server), with the line ``then``.
        """

    def reset(self) -> web.StreamResponse:
        """Break the connection to the caller with a TCP reset."""

    async def go_down(self, seconds: float) -> None:
        """Reset all connections and accept none for a while."""


@dataclasses.dataclass(frozen=True)
class Action:
    """Something done to a request; ``name`` is what the proxy's record shows."""

    name: t.ClassVar[str]

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        """Deal with the request."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class _Reply(Action):
    name: t.ClassVar[str] = "status"
    answer: Answer

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        return await exchange.reply(self.answer)


def status(
    code: int,
    body: t.Mapping[str, t.Any] | None = None,
    *,
    message: str = "injected by the fault proxy",
    retry_after: int | None = None,
    headers: t.Mapping[str, str] | None = None,
) -> Action:
    """Answer with ``code`` and a Kubernetes Status, or with ``body``; ``retry_after`` in seconds."""
    content = dict(body) if body is not None else status_object(code, message)
    sent = {"Content-Type": "application/json", **(headers or {})}
    if retry_after is not None:
        sent["Retry-After"] = str(retry_after)
    return _Reply(Answer(code, sent, json.dumps(content).encode()))


def html(code: int = 502) -> Action:
    """Answer with the HTML error page of a proxy."""
    page = f"<html><body><h1>{code} Bad Gateway</h1></body></html>\n".encode()
    return _Reply(Answer(code, {"Content-Type": "text/html"}, page))


def status_object(code: int, message: str) -> dict[str, t.Any]:
    """A failure as the API server words it (meta/v1 Status)."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, ""),
        "code": code,
    }


@dataclasses.dataclass(frozen=True)
class delay(Action):  # noqa: N801
    """Wait for ``seconds``, then pass the request on or do ``then``."""

    name: t.ClassVar[str] = "delay"
    seconds: float
    then: Action | None = None

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        return await (self.then.run(exchange) if self.then else exchange.relay())


@dataclasses.dataclass(frozen=True)
class reset(Action):  # noqa: N801
    """Reset the connection before the request is passed on."""

    name: t.ClassVar[str] = "reset"

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        return exchange.reset()


@dataclasses.dataclass(frozen=True)
class lost_answer(Action):  # noqa: N801
    """The request is carried out, its answer never arrives."""

    name: t.ClassVar[str] = "lost_answer"

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        return exchange.reset()


@dataclasses.dataclass(frozen=True)
class truncate(Action):  # noqa: N801
    """Only the first part of the body arrives.

    With ``cut`` the connection ends there although Content-Length promises more; without it the
    answer looks complete to HTTP and is broken JSON.
    """

    name: t.ClassVar[str] = "truncate"
    keep: float = 0.5
    cut: bool = True

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        answer = await exchange.forward()
        part = answer.body[: int(len(answer.body) * self.keep)]
        if not self.cut:
            return await exchange.reply(dataclasses.replace(answer, body=part))
        headers = CIMultiDict(answer.headers)
        headers["Content-Length"] = str(len(answer.body))
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(exchange.request)
        await response.write(part)
        if exchange.request.transport is not None:
            exchange.request.transport.close()
        return response


@dataclasses.dataclass(frozen=True)
class hang(Action):  # noqa: N801
    """Take the request and never answer."""

    name: t.ClassVar[str] = "hang"

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@dataclasses.dataclass(frozen=True)
class gone(Action):  # noqa: N801
    """410 Expired: what a resourceVersion or a continue token refers to is compacted.

    A watch first gets ``events`` of its events, then an ERROR event, and ends.
    """

    name: t.ClassVar[str] = "gone"
    events: int = 0

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        expired = status_object(410, "too old resource version, injected by the fault proxy")
        if exchange.is_watch:
            event = {"type": "ERROR", "object": expired}
            return await exchange.relay(self.events, json.dumps(event).encode() + b"\n")
        json_type = {"Content-Type": "application/json"}
        return await exchange.reply(Answer(410, json_type, json.dumps(expired).encode()))


@dataclasses.dataclass(frozen=True)
class sigkill(Action):  # noqa: N801
    """Kill the caller with SIGKILL, before the request is passed on or, with ``after``, when it is done.

    ``target`` is a process id or a function that kills; None means the process at the other end of
    the connection, which must not be this one.
    """

    name: t.ClassVar[str] = "sigkill"
    target: int | t.Callable[[], object] | None = None
    after: bool = False

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        if self.after:
            await exchange.forward()
        if callable(self.target):
            self.target()
        else:
            for pid in [self.target] if self.target else owners_of_peer(exchange.request.transport):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return exchange.reset()


@dataclasses.dataclass(frozen=True)
class down(Action):  # noqa: N801
    """The API server goes away: every connection is reset, new ones are refused for ``seconds``."""

    name: t.ClassVar[str] = "down"
    seconds: float

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        await exchange.go_down(self.seconds)
        return exchange.reset()


@dataclasses.dataclass(frozen=True)
class Freeze(Action):
    """Stop the process that sends the request. The request is lost, or passed on once ``late`` is set."""

    name: t.ClassVar[str] = "freeze"
    late: threading.Event | None = None
    pids: list[int] = dataclasses.field(default_factory=list)
    frozen: threading.Event = dataclasses.field(default_factory=threading.Event)

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        for pid in owners_of_peer(exchange.request.transport):
            os.kill(pid, signal.SIGSTOP)
            self.pids.append(pid)
        self.frozen.set()
        if self.late is None:
            return exchange.reset()
        while not self.late.is_set():
            await asyncio.sleep(0.05)
        return await exchange.relay()

    def thaw(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
