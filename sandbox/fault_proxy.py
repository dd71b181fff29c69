# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reverse proxy before the API server that misbehaves by rule.

::

    with sandbox.fault_proxy([Rule("PATCH", "/virtualmachines/", status(409), nth=2)]) as proxy:
        run(proxy.kubeconfig("mover"))
        assert [seen.action for seen in proxy.requests if seen.action] == ["status"]

Everything else passes unchanged: credentials, bodies, errors, watches as they stream. HTTP/1.1 only;
no protocol upgrades (exec, console).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import socket
import ssl
import struct
import tempfile
import threading
import typing as t
from pathlib import Path

import aiohttp
import yaml
import yarl
from aiohttp import web
from multidict import CIMultiDict

from .audit import REVIEWS
from .fault_actions import (
    Action,
    Answer,
    delay,
    down,
    gone,
    hang,
    html,
    lost_answer,
    reset,
    sigkill,
    status,
    truncate,
)
from .socket_owners import NoOwnerError

__all__ = [
    "ANY",
    "WRITE",
    "FaultProxy",
    "Rule",
    "SeenRequest",
    "delay",
    "down",
    "gone",
    "hang",
    "html",
    "lost_answer",
    "reset",
    "sigkill",
    "status",
    "truncate",
]

#: method of a rule that matches what the audit calls a write: no dry run, no access review
WRITE = "WRITE"
ANY = "ANY"

_HOST = "127.0.0.1"
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


@dataclasses.dataclass(frozen=True)
class Rule:
    """Do ``action`` to requests that match.

    ``method``: an HTTP method, several as ``GET|POST``, or WRITE or ANY. ``path``: a regular
    expression searched in path and query. ``nth``: which matches, counted from 1 in the order of
    arrival: a number, or anything that contains numbers (``range(1, 4)``); None means every match.
    """

    method: str
    path: str
    action: Action
    nth: int | t.Container[int] | None = None

    def matches(self, seen: SeenRequest) -> bool:
        """Whether the rule is about this request, whatever its count."""
        if self.method == WRITE:
            right_method = seen.is_write
        else:
            right_method = self.method == ANY or seen.method in self.method.split("|")
        return right_method and re.search(self.path, seen.path) is not None

    def is_due(self, count: int) -> bool:
        """Whether the match with this number is one to act on."""
        if self.nth is None or isinstance(self.nth, int):
            return self.nth in (None, count)
        return count in self.nth


@dataclasses.dataclass(frozen=True)
class SeenRequest:
    """A request that arrived. ``path`` has the query.

    ``status`` is what the caller was answered, 0 when nothing (yet); ``action`` what was done to it,
    empty when it was passed on.
    """

    method: str
    path: str
    is_write: bool
    status: int = 0
    action: str = ""


class FaultProxy:
    """The proxy; a context manager that serves on a free port while it is open.

    ``kubeconfig_of`` gives the sandbox's kubeconfig of an identity; ``certificate`` and ``key`` must
    be valid for 127.0.0.1 under the authority ``ca_file``, as those of the API server are.
    """

    def __init__(
        self,
        rules: t.Iterable[Rule],
        *,
        upstream: str,
        ca_file: Path,
        certificate: Path,
        key: Path,
        kubeconfig_of: t.Callable[[str], Path],
    ) -> None:
        self._rules = [(rule, 0) for rule in rules]
        self._seen: list[SeenRequest] = []
        self._upstream = upstream.rstrip("/")
        self._upstream_tls = ssl.create_default_context(cafile=str(ca_file))
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate, key)
        self._kubeconfig_of = kubeconfig_of
        self._lock = threading.Lock()
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> FaultProxy:
        self._directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory()))
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        thread.start()
        self._cleanup.callback(self._loop.close)
        self._cleanup.callback(thread.join, 10)
        self._cleanup.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        try:
            self._call(self._start())
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._cleanup:
            self._call(self._stop())

    @property
    def url(self) -> str:
        """Where the proxy answers."""
        return f"https://{_HOST}:{self._port}"

    def kubeconfig(self, identity: str) -> Path:
        """A kubeconfig of this identity that goes through the proxy."""
        content = yaml.safe_load(self._kubeconfig_of(identity).read_text())
        for cluster in content["clusters"]:
            cluster["cluster"]["server"] = self.url
        path = self._directory / f"{identity}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    @property
    def requests(self) -> list[SeenRequest]:
        """What arrived until now, in this order."""
        with self._lock:
            return list(self._seen)

    @property
    def rules(self) -> list[Rule]:
        """The rules; setting them starts their counts anew. The first rule that is due acts."""
        with self._lock:
            return [rule for rule, _count in self._rules]

    @rules.setter
    def rules(self, rules: t.Iterable[Rule]) -> None:
        with self._lock:
            self._rules = [(rule, 0) for rule in rules]

    def down(self, seconds: float) -> None:
        """Reset every connection now and refuse new ones for a while."""
        self._call(self.go_down(seconds))

    def _call(self, work: t.Coroutine[t.Any, t.Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._upstream_tls, limit=0)
        self.session = aiohttp.ClientSession(
            connector=connector,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        self._port = 0
        self._return: asyncio.Task[None] | None = None
        await self._listen()

    async def _stop(self) -> None:
        if self._return is not None:
            self._return.cancel()
        self._reset_all()
        await self._runner.cleanup()
        await self.session.close()

    async def _listen(self) -> None:
        self._site = web.TCPSite(
            self._runner, _HOST, self._port, ssl_context=self._tls, reuse_address=True
        )
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    async def go_down(self, seconds: float) -> None:
        """Stop listening, reset all connections, and come back on the same port."""

        async def come_back() -> None:
            await asyncio.sleep(seconds)
            await self._listen()

        if self._return is not None and not self._return.done():
            self._return.cancel()
        else:
            await self._site.stop()
        self._return = asyncio.create_task(come_back())
        self._reset_all()

    def _reset_all(self) -> None:
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            reset_connection(connection.transport)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._return is not None and not self._return.done():
            # It was being set up while the others were reset.
            reset_connection(request.transport)
            return web.Response()
        body = await request.read()
        index, action = self._record(request, body)
        exchange = ProxyExchange(self, request, body)
        try:
            answer = await (action.run(exchange) if action else exchange.relay())
        except (aiohttp.ClientError, ConnectionError, NoOwnerError) as error:
            self._update(index, action=f"{action.name if action else 'pass on'} failed: {error}")
            return exchange.reset()
        if not exchange.was_reset:
            self._update(index, status=answer.status)
        return answer

    def _record(self, request: web.Request, body: bytes) -> tuple[int, Action | None]:
        """Write the request down, count it in all rules that match, and find what is due."""
        seen = SeenRequest(request.method, request.raw_path, is_write(request, body))
        due = None
        with self._lock:
            for index, (rule, count) in enumerate(self._rules):
                if rule.matches(seen):
                    self._rules[index] = (rule, count + 1)
                    if due is None and rule.is_due(count + 1):
                        due = rule.action
            self._seen.append(dataclasses.replace(seen, action=due.name if due else ""))
            return len(self._seen) - 1, due

    def _update(self, index: int, **changes: t.Any) -> None:
        with self._lock:
            self._seen[index] = dataclasses.replace(self._seen[index], **changes)

    def upstream_request(
        self, request: web.Request, body: bytes
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The same request to the API server."""
        url = yarl.URL(self._upstream + request.raw_path, encoded=True)
        headers = passed_on(request.headers)
        headers.popall("Accept-Encoding", None)  # a body that is cut stays readable up to there
        return self.session.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        )


class ProxyExchange:
    """One request on its way (see :class:`sandbox.fault_actions.Exchange`)."""

    def __init__(self, proxy: FaultProxy, request: web.Request, body: bytes) -> None:
        self.request = request
        self.is_watch = request.query.get("watch") in ("1", "true")
        self.was_reset = False
        self._proxy, self._body = proxy, body

    async def forward(self) -> Answer:
        async def whole() -> Answer:
            async with self._proxy.upstream_request(self.request, self._body) as answer:
                return Answer(answer.status, passed_on(answer.headers), await answer.read())

        # A caller that goes away does not undo what it asked for.
        return await asyncio.shield(asyncio.create_task(whole()))

    async def reply(self, answer: Answer) -> web.StreamResponse:
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def relay(self, events: int | None = None, then: bytes = b"") -> web.StreamResponse:
        if not self.is_watch:
            return await self.reply(await self.forward())
        async with self._proxy.upstream_request(self.request, self._body) as answer:
            response = web.StreamResponse(status=answer.status, headers=passed_on(answer.headers))
            await response.prepare(self.request)
            if events is None:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            else:
                for _event in range(events):
                    await response.write(await answer.content.readuntil(b"\n"))
            if then:
                await response.write(then)
            await response.write_eof()
            return response

    def reset(self) -> web.StreamResponse:
        self.was_reset = True
        reset_connection(self.request.transport)
        return web.Response()

    async def go_down(self, seconds: float) -> None:
        await self._proxy.go_down(seconds)


def is_write(request: web.Request, body: bytes) -> bool:
    """Whether a request is what :mod:`sandbox.audit` calls a write."""
    if request.method not in ("POST", "PUT", "PATCH", "DELETE") or request.query.get("dryRun"):
        return False
    if request.path.rstrip("/").rsplit("/", 1)[-1] in REVIEWS:
        return False
    try:
        content = json.loads(body or b"{}")
    except ValueError:
        return True
    if not isinstance(content, dict) or request.method == "PATCH":
        return True
    return not (content.get("dryRun") or (content.get("deleteOptions") or {}).get("dryRun"))


def passed_on(headers: t.Mapping[str, str]) -> CIMultiDict[str]:
    """Headers without those that belong to one connection."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP
    )


def reset_connection(transport: asyncio.BaseTransport | None) -> None:
    """Close with a TCP reset, so that the other end sees no orderly end."""
    if not isinstance(transport, asyncio.Transport):
        return
    linger_not = struct.pack("ii", 1, 0)
    connection = transport.get_extra_info("socket")
    if connection is not None:  # else it is closed already
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
    transport.abort()
