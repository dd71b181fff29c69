# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in this process: objects by path, no network. Migrations succeed at once."""

from __future__ import annotations

import json
import typing as t
from urllib.parse import parse_qs, unquote, urlsplit

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

from .refusals import Refusal

Object = dict[str, t.Any]


class Server:
    """Objects by path. `writes` are the method and path of each write that was accepted."""

    def __init__(self, objects: t.Mapping[str, Object], refusals: t.Sequence[Refusal] = ()) -> None:
        self.objects = dict(objects)
        self.refusing = refusals
        self._left = [refusal.times for refusal in refusals]
        self.writes: list[tuple[str, str]] = []

    def client(self) -> ApiClient:
        # no clock on the wall, which runs as fast beside other work: `tasks.bounded` ends what computes without end
        deadline = Deadline(3600, sleep=lambda _seconds: None)
        return ApiClient(_InProcess(self), deadline, RetryPolicy(budget=50))

    def answer(
        self, method: str, path: str, body: t.Any, content_type: str, *, dry_run: bool = False
    ) -> tuple[int, Object]:
        if method == "GET":
            found = self._read(path)
            return (200, found) if found is not None else _status(404, "NotFound", path)
        if path.endswith("selfsubjectaccessreviews"):
            return 201, {**body, "status": {"allowed": True}}
        for n, refusal in enumerate(self.refusing):
            if self._left[n] != 0 and refusal.is_about(method, path, dry_run=dry_run):
                self._left[n] -= 1
                return refusal.answer
        if dry_run:
            return 201, body
        self.writes.append((method, path))
        if method == "POST":
            return self._create(path, body)
        stored = self.objects.get(path)
        if method == "PUT":  # a subresource
            return 202, {}
        if stored is None:
            return _status(404, "NotFound", path)
        if method == "DELETE":
            del self.objects[path]
            return 200, stored
        try:
            self.objects[path] = _patched(stored, body, content_type)
        except PatchTestFailed as error:
            return _status(422, "Invalid", str(error))
        return 200, self.objects[path]

    def _read(self, path: str) -> Object | None:
        if path == "/version":
            return {"major": "1", "minor": "36"}
        if path == "/apis":
            return {"groups": self._groups()}
        if path in self.objects:
            return self.objects[path]
        where, _slash, plural = path.rpartition("/")
        anywhere = "/namespaces/" not in where
        items = [
            item
            for at, item in self.objects.items()
            if (folder := at.rpartition("/")[0]).endswith(f"/{plural}")
            and (folder == path or (anywhere and folder.startswith(f"{where}/namespaces/")))
        ]
        if not items and plural not in _PLURALS:
            return None
        return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}

    def _groups(self) -> list[Object]:
        """Discovery: the groups of the objects, with their versions."""
        versions: dict[str, dict[str, None]] = {}
        for at in self.objects:
            if at.startswith("/apis/"):
                group, version = at.split("/")[2:4]
                versions.setdefault(group, {})[version] = None
        return [
            {"name": group, "versions": [{"version": version} for version in of_group]}
            for group, of_group in versions.items()
        ]

    def _create(self, path: str, body: Object) -> tuple[int, Object]:
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"created-{len(self.writes)}"
        if path.endswith("/eviction"):
            return 201, {}
        if f"{path}/{name}" in self.objects:
            return _status(409, "AlreadyExists", name)
        stored = {
            **body,
            "metadata": {**metadata, "name": name, "uid": name, "resourceVersion": "1"},
        }
        if body.get("kind") == "VirtualMachineInstanceMigration":
            stored["status"] = {"phase": "Succeeded"}
        self.objects[f"{path}/{name}"] = stored
        return 201, stored


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
    "virtualmachineinstancemigrations",
    "virtualmachineinstancereplicasets",
    "virtualmachineinstances",
    "virtualmachinepools",
    "virtualmachines",
    "volumeattachments",
}


def _patched(stored: Object, body: t.Any, content_type: str) -> Object:
    if content_type == MERGE_PATCH:
        return t.cast(Object, _merged(stored, body))
    operations = [Operation(x["op"], _pointer(x["path"]), x.get("value")) for x in body]
    return t.cast(Object, patched(stored, operations))


def _pointer(text: str) -> Pointer:
    parts = text.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))


def _merged(value: t.Any, change: t.Any) -> t.Any:
    """JSON Merge Patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    value = dict(value) if isinstance(value, dict) else {}
    for key, inner in change.items():
        value[key] = _merged(value.get(key), inner)
    return {key: inner for key, inner in value.items() if inner is not None}


def _status(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


class _InProcess(Transport):
    def __init__(self, server: Server) -> None:
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
        url = urlsplit(target)
        path = unquote(url.path)
        sent = json.loads(body) if body else None
        query = parse_qs(url.query)
        chosen = query.get("labelSelector")
        status, answer = self._server.answer(
            request.method,
            path,
            sent,
            headers.get("Content-Type", ""),
            dry_run="dryRun" in query,
        )
        if chosen and "items" in answer:
            answer = {**answer, "items": [x for x in answer["items"] if _has(x, chosen[0])]}
        content = json.dumps(answer).encode()
        return Response(status, {}, content, len(content))


def _has(item: Object, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    pairs = [part.partition("=") for part in selector.split(",")]
    return all(labels.get(key) == value for key, _equals, value in pairs)
