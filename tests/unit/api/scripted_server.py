# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server that plays a script, so that the real connection pool meets real sockets."""

from __future__ import annotations

import contextlib
import email.message
import http.server
import json
import socket
import struct
import threading
import typing as t
from dataclasses import dataclass, field

JSON = t.Any


@dataclass(frozen=True)
class Reply:
    """One answer. `cut_off` announces more bytes than come, `reset` breaks the connection instead
    of answering, `silent` is how many seconds nothing comes, `chunked` sends no length."""

    status: int = 200
    body: bytes = b"{}"
    headers: t.Mapping[str, str] = field(default_factory=dict)
    cut_off: bool = False
    reset: bool = False
    silent: float = 0.0
    chunked: bool = False


def answer(value: JSON, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), headers)


def status(code: int, reason: str = "", message: str = "", **more: JSON) -> Reply:
    """A Status object as API servers send it."""
    headers = {"Retry-After": str(more.pop("retry_after"))} if "retry_after" in more else {}
    body = {"kind": "Status", "reason": reason, "message": message, "code": code, **more}
    return Reply(code, json.dumps(body).encode(), headers)


RESET = Reply(reset=True)


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: email.message.Message
    body: JSON


class ScriptedServer:
    """Gives the replies in order, and the last one for ever; `seen` are the requests."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._script: list[Reply] = [answer({})]
        self._over = threading.Event()
        self._connections: list[socket.socket] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[str]:
        return [f"{seen.method} {seen.path}" for seen in self.seen]

    def plays(self, *script: Reply) -> None:
        self._script = list(script)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                server._connections.append(self.connection)

            def _reply(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                server.seen.append(Seen(self.command, self.path, self.headers, body))
                reply = server._script[0]
                if len(server._script) > 1:
                    server._script.pop(0)
                if server._over.wait(reply.silent):
                    return
                if reply.reset:
                    server._break(self.connection)
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                announced = str(len(reply.body) + 9 * reply.cut_off)
                name = "Transfer-Encoding" if reply.chunked else "Content-Length"
                self.send_header(name, "chunked" if reply.chunked else announced)
                self.end_headers()
                chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(reply.body), reply.body)
                self.wfile.write(chunk if reply.chunked else reply.body)
                self.close_connection = reply.cut_off

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815

            def log_message(self, *_: object) -> None:
                return

        return Handler

    @staticmethod
    def _break(connection: socket.socket) -> None:
        """Ends the connection with a reset, not with a polite close."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
