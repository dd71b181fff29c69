# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server of tests: what it answers is data. `client` reaches it in this process, and a `with` over a socket.

A request gets the next reply of a script (`plays`); without one, what the first fault that is about it says; else what
the objects say. Migrations succeed at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import email.message
import http.server
import json
import socket
import struct
import threading
import typing as t
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
    RetryPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.api.errors import MERGE_PATCH
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Response,
    Session,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.write import (
    Operation,
    PatchTestFailed,
    patched,
)

JSON = t.Any
Object = dict[str, t.Any]


@dataclass(frozen=True)
class Request:
    """`target` is the path with its query, as it was sent."""

    method: str
    target: str
    headers: t.Any
    body: JSON = None

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))

    @property
    def dry_run(self) -> bool:
        return "dryRun=" in self.target


@dataclass(frozen=True)
class Reply:
    """One answer. Over a socket: `cut_off` announces more bytes than come, `reset` breaks the connection instead
    of answering, `silent` is how many seconds nothing comes, `chunked` sends no length."""

    status: int = 200
    body: bytes = b"{}"
    headers: t.Mapping[str, str] = field(default_factory=dict)
    cut_off: bool = False
    reset: bool = False
    silent: float = 0.0
    chunked: bool = False

    @property
    def value(self) -> JSON:
        return json.loads(self.body)


RESET = Reply(reset=True)


def answer(value: JSON, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), headers)


def status(code: int, reason: str = "", message: str = "", **more: JSON) -> Reply:
    """A Status object as API servers send it."""
    headers = {"Retry-After": str(more.pop("retry_after"))} if "retry_after" in more else {}
    body = {"kind": "Status", "reason": reason, "message": message, "code": code, **more}
    return Reply(code, json.dumps(body).encode(), headers)


@dataclass
class Fault:
    """Requests by `method` (empty: any) get `reply`, so many `times` (-1: always). `path`: all of it, or parts that
    follow each other, such as `nodes/w1` (empty: any). `reply`: a code, an answer, or a call that may return an answer;
    without one the server does as ever. `late`: only when the server has done as asked. `dry_runs`: dry runs, too.
    `having`: only with this text in the body."""

    method: str
    path: str
    reply: Reply | int | t.Callable[[Request], Reply | None]
    times: int = -1
    dry_runs: bool = False
    late: bool = False
    having: str = ""

    def is_about(self, request: Request) -> bool:
        if not self.times or self.method not in ("", request.method):
            return False
        if (request.dry_run and not self.dry_runs) or self.having not in str(request.body):
            return False
        if self.path[:1] in ("", "/"):
            return self.path in ("", request.path)
        return f"/{self.path}/" in f"{request.path}/"

    def answer(self, request: Request) -> Reply | None:
        self.times -= self.times > 0
        if isinstance(self.reply, int):
            return status(self.reply, message="refused")
        return self.reply if isinstance(self.reply, Reply) else self.reply(request)


class Clock:
    """Time that passes by waiting only; `waits` are the pauses that were made."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


class ApiServer:
    """`objects` are objects by path; `seen` all requests; `writes` method and path of each write that was accepted,
    `patches` path and body of each patch, also of those that a fault accepts.
    `served` are the versions of API groups where the objects do not show them: another one is not found.
    `retries`: of a client in this process, at most."""

    def __init__(
        self, objects: t.Mapping[str, Object] | None = None, faults: t.Iterable[Fault] = ()
    ) -> None:
        self.objects = dict(objects or {})
        self.faults = [dataclasses.replace(fault) for fault in faults]
        self.served: dict[str, t.Sequence[str]] = {}
        self.retries = 50
        self.seen: list[Request] = []
        self.writes: list[tuple[str, str]] = []
        self.patches: list[tuple[str, JSON]] = []
        self._script: list[Reply] = []
        self._socket: _Socket | None = None

    @property
    def requests(self) -> list[str]:
        return [f"{seen.method} {seen.target}" for seen in self.seen]

    def plays(self, *script: Reply) -> None:
        """Give these replies in order, and the last one for ever."""
        self._script = list(script)

    def add_fault(
        self, method: str, path: str, reply: t.Any, times: int = -1, **options: t.Any
    ) -> None:
        """Add a fault."""
        self.faults.append(Fault(method, path, reply, times, **options))

    def store(self, folder: str, *items: Object) -> None:
        """Add objects to the list of a kind in all namespaces, such as /api/v1/pods."""
        root, _slash, plural = folder.rpartition("/")
        for item in items:
            metadata = item["metadata"]
            namespace = metadata.get("namespace")
            where = f"{root}/namespaces/{namespace}" if namespace else root
            self.objects[f"{where}/{plural}/{metadata['name']}"] = item

    def client(self) -> ApiClient:
        """A client in this process, whose pauses take no time."""
        # no clock on the wall, which runs as fast beside other work: `modules.bounded` ends what computes without end
        deadline = Deadline(3600, sleep=lambda _seconds: None)
        return ApiClient(_InProcess(self), deadline, RetryPolicy(budget=self.retries))

    def answer(self, request: Request) -> Reply:
        self.seen.append(request)
        reply = self._reply(request)
        if request.method == "PATCH" and reply.status < 300 and not request.dry_run:
            self.patches.append((request.path, request.body))
        return reply

    def _reply(self, request: Request) -> Reply:
        if self._script:
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]
        faults = [fault for fault in self.faults if fault.is_about(request)]
        for fault in faults:
            if not fault.late and (reply := fault.answer(request)) is not None:
                return reply
        reply = self.serve(request)
        for fault in faults:
            reply = (fault.answer(request) if fault.late else None) or reply
        return reply

    def serve(self, request: Request) -> Reply:
        """What the objects answer."""
        path = request.path
        if request.method == "GET":
            found = self._read(request)
            return answer(found) if found is not None else status(404, "NotFound", path)
        if path.endswith("selfsubjectaccessreviews"):
            return answer({**request.body, "status": {"allowed": True}}, 201)
        if request.dry_run:
            return answer(self.objects.get(path, {}) if request.method == "PATCH" else request.body)
        self.writes.append((request.method, path))
        if request.method == "POST":
            return self._create(path, request.body)
        stored = self.objects.get(path)
        if request.method == "PUT":  # a subresource
            return answer({}, 202)
        if stored is None:
            return status(404, "NotFound", path)
        if request.method == "DELETE":
            del self.objects[path]
            return answer(stored)
        try:
            self.objects[path] = _patched(stored, request)
        except PatchTestFailed as error:
            return status(422, "Invalid", str(error))
        return answer(self.objects[path])

    def items(self, path: str) -> list[Object]:
        """The objects of a list, of a namespace or of all."""
        where, _slash, plural = path.rpartition("/")
        anywhere = "/namespaces/" not in where
        return [
            item
            for at, item in self.objects.items()
            if (folder := at.rpartition("/")[0]).endswith(f"/{plural}")
            and (folder == path or (anywhere and folder.startswith(f"{where}/namespaces/")))
        ]

    def _read(self, request: Request) -> Object | None:
        path = request.path
        if path in self.objects:
            return self.objects[path]
        if path == "/version":
            return {"major": "1", "minor": "36"}
        if path == "/apis":
            return {"groups": self._groups()}
        _root, api, group, version = f"{path}//".split("/")[:4]
        if api == "apis" and version not in self.served.get(group, (version,)):
            return None
        items = self.items(path)
        if not items and path.rpartition("/")[2] not in _PLURALS:
            return None
        items = [item for item in items if _is_selected(item, request.query)]
        if "PartialObject" in request.headers.get("Accept", ""):
            items = [{"metadata": item["metadata"]} for item in items]
        return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}

    def _groups(self) -> list[Object]:
        """Discovery: the groups, with their versions."""
        versions: dict[str, dict[str, None]] = {}
        for at in self.objects:
            if at.startswith("/apis/"):
                group, version = at.split("/")[2:4]
                versions.setdefault(group, {})[version] = None
        versions |= {group: dict.fromkeys(served) for group, served in self.served.items()}
        return [
            {"name": group, "versions": [{"version": version} for version in of_group]}
            for group, of_group in versions.items()
            if of_group
        ]

    def _create(self, path: str, body: Object) -> Reply:
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"created-{len(self.writes)}"
        if path.endswith("/eviction"):
            return answer({}, 201)
        if f"{path}/{name}" in self.objects:
            return status(409, "AlreadyExists", name)
        stored = {
            **body,
            "metadata": {**metadata, "name": name, "uid": name, "resourceVersion": "1"},
        }
        if body.get("kind") == "VirtualMachineInstanceMigration":
            stored["status"] = {"phase": "Succeeded"}
        self.objects[f"{path}/{name}"] = stored
        return answer(stored, 201)

    @property
    def address(self) -> str:
        """Host and port, inside of `with`."""
        assert self._socket is not None
        return f"127.0.0.1:{self._socket.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> ApiServer:
        self._socket = _Socket(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._socket is not None
        self._socket.end()


class _InProcess(Transport):
    def __init__(self, server: ApiServer) -> None:
        super().__init__(lambda: Session(None, "https://cluster.example", list))
        self._server = server

    def send(
        self,
        request: t.Any,
        target: str,
        deadline: Deadline,
        *,
        headers: t.Mapping[str, str],
        body: bytes | None = None,
    ) -> Response:
        sent = Request(request.method, target, headers, json.loads(body) if body else None)
        reply = self._server.answer(sent)
        return Response(reply.status, reply.headers, reply.body, len(reply.body))


class _Socket(http.server.ThreadingHTTPServer):
    """Over sockets, so that the real connection pool meets real ones."""

    daemon_threads = True

    def __init__(self, server: ApiServer) -> None:
        self.api = server
        self.over = threading.Event()
        self.connections: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def end(self) -> None:
        self.over.set()
        self.shutdown()
        self._thread.join()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Socket
    headers: email.message.Message

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def _reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        reply = self.server.api.answer(Request(self.command, self.path, self.headers, body))
        if self.server.over.wait(reply.silent):
            return
        if reply.reset:  # not with a polite close
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
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

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = _reply  # noqa: N815

    def log_message(self, *_: object) -> None:
        return


_PLURALS = {
    "configmaps",
    "controllerrevisions",
    "csinodes",
    "daemonsets",
    "deployments",
    "events",
    "kubevirts",
    "leases",
    "limitranges",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "replicasets",
    "resourcequotas",
    "statefulsets",
    "storageclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "virtualmachineinstancemigrations",
    "virtualmachineinstancereplicasets",
    "virtualmachineinstances",
    "virtualmachinepools",
    "virtualmachines",
    "volumeattachments",
}


def _patched(stored: Object, request: Request) -> Object:
    if request.headers.get("Content-Type") == MERGE_PATCH:
        return t.cast(Object, _merged(stored, request.body))
    operations = [Operation(x["op"], _pointer(x["path"]), x.get("value")) for x in request.body]
    return t.cast(Object, patched(stored, operations))


def _pointer(text: str) -> Pointer:
    parts = text.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))


def _merged(value: JSON, change: JSON) -> JSON:
    """JSON Merge Patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    value = dict(value) if isinstance(value, dict) else {}
    for key, inner in change.items():
        value[key] = _merged(value.get(key), inner)
    return {key: inner for key, inner in value.items() if inner is not None}


def _is_selected(item: Object, query: t.Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    pairs = [part.partition("=") for part in query.get("labelSelector", "").split(",") if part]
    fields = [part.partition("=") for part in query.get("fieldSelector", "").split(",") if part]
    has = (labels.get(x) == value if equals else x in labels for x, equals, value in pairs)
    return all(has) and all(
        (_field(item, path.rstrip("!")) == value) != path.endswith("!")
        for path, _equals, value in fields
    )


def _field(item: JSON, path: str) -> JSON:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item
