# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server of a few objects for `dev.trace`: it lists, watches, and accepts every write.

Three nodes in three zones. The VMs `db0` and `db1` run in zone a without a rule. `web0` and `web1`
run in zone a and keep apart over zones, so that one of them has to move; a migration moves its VMI
at once.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import typing as t
from urllib.parse import parse_qs, urlsplit

Object = dict[str, t.Any]

KUBEVIRT = "/apis/kubevirt.io/v1"
NAMESPACE = "shop"
ZONE = "topology.kubernetes.io/zone"
WATCH_SECONDS = 10.0

NODES = {"w1": "a", "w2": "b", "w3": "c"}
VMS = {"db0": False, "db1": False, "web0": True, "web1": True}
"""Names of VMs to whether they keep apart from their group."""

_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"group": "web"}}, "topologyKey": ZONE}
        ]
    }
}


class TraceServer:
    """Serves from a thread of its own: `with TraceServer() as server: server.url`."""

    def __init__(self) -> None:
        self.objects = {_path(item): item for item in _objects()}
        self.changed = threading.Condition()
        self.writes: list[tuple[str, str, t.Any]] = []
        """Method, path and body of each write, in their order."""
        owner = self

        class Handler(_Handler):
            server_state = owner

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> TraceServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def read(self, path: str) -> Object | None:
        """The object at this path, or the list; None for an object that does not exist."""
        if path in self.objects:
            return self.objects[path]
        if path == "/version":
            return {"major": "1", "minor": "34"}
        if not path.rsplit("/", 1)[1].endswith("s"):
            return None
        where, _slash, plural = path.rpartition("/")
        items = [item for at, item in self.objects.items() if _is_listed(at, where, plural)]
        return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}

    def create(self, path: str, body: Object) -> Object:
        if path.endswith("selfsubjectaccessreviews"):
            return {**body, "status": {"allowed": True}}
        name = body["metadata"]["name"]
        stored = {**body, "metadata": {**body["metadata"], "uid": name, "resourceVersion": "1"}}
        with self.changed:
            if body["kind"] == "VirtualMachineInstanceMigration":
                stored["status"] = {"phase": "Succeeded"}
                self._migrate(body["spec"]["vmiName"])
            self.objects[f"{path}/{name}"] = stored
            self.changed.notify_all()
        return stored

    def _migrate(self, name: str) -> None:
        instance = self.objects[f"{KUBEVIRT}/namespaces/{NAMESPACE}/virtualmachineinstances/{name}"]
        instance["status"]["nodeName"] = "w2"
        instance["status"]["activePods"] = {f"pod-{name}": "w2"}
        pod = self.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/virt-launcher-{name}"]
        pod["spec"]["nodeName"] = "w2"


class _Handler(http.server.BaseHTTPRequestHandler):
    server_state: TraceServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if "watch" in parse_qs(url.query):
            self._watch()
            return
        found = self.server_state.read(url.path)
        self._answer(found if found is not None else _not_found(), 404 if found is None else 200)

    def do_POST(self) -> None:
        path, body = self._write()
        self._answer(self.server_state.create(path, body), 201)

    def do_PATCH(self) -> None:
        path, _body = self._write()
        found = self.server_state.read(path)
        self._answer(found if found is not None else _not_found(), 404 if found is None else 200)

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the traces are what is printed."""

    def _watch(self) -> None:
        """One event after the next change, then the end."""
        with self.server_state.changed:
            self.server_state.changed.wait(WATCH_SECONDS)
        item = {"kind": "Pod", "metadata": {"name": "x", "uid": "x", "resourceVersion": "2"}}
        with contextlib.suppress(OSError):  # the watcher may be gone by then
            self._answer({"type": "MODIFIED", "object": item})

    def _write(self) -> tuple[str, t.Any]:
        """Path and body of a write, which is noted."""
        path = urlsplit(self.path).path
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server_state.writes.append((self.command, path, body))
        return path, body

    def _answer(self, value: Object, status: int = 200) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _not_found() -> Object:
    return {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}


def _is_listed(at: str, where: str, plural: str) -> bool:
    """Whether the object at `at` is of this plural, in this namespace or in any."""
    folder = at.rpartition("/")[0]
    return folder == f"{where}/{plural}" or (
        "/namespaces/" not in where
        and folder.startswith(f"{where}/namespaces/")
        and folder.endswith(f"/{plural}")
    )


def _path(item: Object) -> str:
    version, metadata = item["apiVersion"], item["metadata"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{inside}/{item['kind'].lower()}s/{metadata['name']}"


def _object(version: str, kind: str, name: str, namespace: str = "", **rest: t.Any) -> Object:
    metadata = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= rest.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _objects() -> t.Iterator[Object]:
    for namespace in ("kube-system", NAMESPACE):
        yield _object("v1", "Namespace", namespace)
    settings = {"status": {"observedKubeVirtVersion": "v1.8.0"}, "spec": {}}
    yield _object("kubevirt.io/v1", "KubeVirt", "kubevirt", "kubevirt", **settings)
    for name, zone in NODES.items():
        labels = {ZONE: zone, "kubernetes.io/hostname": name, "kubevirt.io/schedulable": "true"}
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "devices.kubevirt.io/kvm": "1k"}
        status = {
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        yield _object("v1", "Node", name, metadata={"labels": labels}, spec={}, status=status)
    for name, apart in VMS.items():
        yield from _virtual_machine(name, {"affinity": _APART} if apart else {})


def _virtual_machine(name: str, placement: Object) -> t.Iterator[Object]:
    """The VM, its VMI and its launcher pod, all on node w1."""
    labels = {"group": name[:-1], "vm.kubevirt.io/name": name}
    domain = {"resources": {"requests": {"cpu": "100m", "memory": "256Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"domain": domain, **placement}}
    spec = {"runStrategy": "Always", "template": template}
    yield _object("kubevirt.io/v1", "VirtualMachine", name, NAMESPACE, spec=spec, status={})
    yield _object(
        "kubevirt.io/v1",
        "VirtualMachineInstance",
        name,
        NAMESPACE,
        metadata={"labels": labels, **_owned_by("VirtualMachine", name)},
        spec=template["spec"],
        status={
            "phase": "Running",
            "nodeName": "w1",
            "activePods": {f"Pod-virt-launcher-{name}": "w1"},
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "LiveMigratable", "status": "True"},
            ],
        },
    )
    created_by = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": _uid(name)}
    yield _object(
        "v1",
        "Pod",
        f"virt-launcher-{name}",
        NAMESPACE,
        metadata={
            "labels": {**labels, **created_by},
            **_owned_by("VirtualMachineInstance", name),
        },
        spec={"nodeName": "w1", "containers": [{"name": "compute", **domain}], **placement},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    )


def _uid(name: str) -> str:
    return f"VirtualMachineInstance-{name}"


def _owned_by(kind: str, name: str) -> Object:
    reference = {
        "apiVersion": "kubevirt.io/v1",
        "kind": kind,
        "name": name,
        "uid": f"{kind}-{name}",
        "controller": True,
    }
    return {"ownerReferences": [reference]}
