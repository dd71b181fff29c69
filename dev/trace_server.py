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
import time
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
        self.events: list[tuple[str, str, Object]] = []
        """Type of each change, path and object. Its place in this list, from 2 on, is its version."""
        self.reads: list[str] = []
        """Path and query of each read."""
        self.refusals: dict[str, int] = {}
        """What a watch of a path is answered: an HTTP status."""
        self.lag = 0.0
        """Seconds by which watches are late."""
        self.over = False
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
        with self.changed:
            self.over = True
            self.changed.notify_all()
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
        with self.changed:
            items = [x for at, x in sorted(self.objects.items()) if _is_listed(at, where, plural)]
            version = str(self.version)
        return {"kind": "List", "metadata": {"resourceVersion": version}, "items": items}

    @property
    def version(self) -> int:
        """The resource version of the last change."""
        return len(self.events) + 1

    def change(self, event: str, path: str, item: Object) -> Object:
        """Make a change that watches report."""
        with self.changed:
            metadata = {**item["metadata"], "resourceVersion": str(self.version + 1)}
            stored = {**item, "metadata": metadata}
            self.events.append((event, path, stored))
            if event == "DELETED":
                del self.objects[path]
            else:
                self.objects[path] = stored
            self.changed.notify_all()
        return stored

    def create(self, path: str, body: Object) -> Object:
        if path.endswith("selfsubjectaccessreviews"):
            return {**body, "status": {"allowed": True}}
        if path.endswith("selfsubjectreviews"):
            return {**body, "status": {"userInfo": {"username": "tracer"}}}
        name = body["metadata"]["name"]
        stored = {**body, "metadata": {**body["metadata"], "uid": name}}
        if body["kind"] == "VirtualMachineInstanceMigration":
            stored.setdefault("status", {"phase": "Succeeded"})
            self._migrate(body["spec"]["vmiName"])
        return self.change("ADDED", f"{path}/{name}", stored)

    def _migrate(self, name: str) -> None:
        path = f"{KUBEVIRT}/namespaces/{NAMESPACE}/virtualmachineinstances/{name}"
        instance = self.objects[path]
        active_pods = {f"Pod-virt-launcher-{name}": "w2"}
        status = {**instance["status"], "nodeName": "w2", "activePods": active_pods}
        self.change("MODIFIED", path, {**instance, "status": status})
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/virt-launcher-{name}"
        pod = self.objects[path]
        self.change("MODIFIED", path, {**pod, "spec": {**pod["spec"], "nodeName": "w2"}})


class _Handler(http.server.BaseHTTPRequestHandler):
    server_state: TraceServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server_state.reads.append(self.path)
        query = parse_qs(url.query)
        if "watch" in query:
            seconds = min(WATCH_SECONDS, float(query["timeoutSeconds"][0]))
            self._watch(url.path, int(query["resourceVersion"][0]), seconds)
            return
        found = self.server_state.read(url.path)
        self._answer(found if found is not None else _not_found(), 404 if found is None else 200)

    def do_POST(self) -> None:
        path, body, dry = self._write()
        if dry and path.endswith("migrations"):
            self._answer(body, 201)
            return
        self._answer(self.server_state.create(path, body), 201)

    def do_PATCH(self) -> None:
        path, body, dry = self._write()
        item = self.server_state.objects.get(path)
        if item is None:
            self._answer(_not_found(), 404)
        elif (changed := _patched(item, body)) is None:
            self._answer({**_not_found(), "code": 422, "reason": "Invalid"}, 422)
        else:
            self._answer(changed if dry else self.server_state.change("MODIFIED", path, changed))

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the traces are what is printed."""

    def _watch(self, path: str, version: int, seconds: float) -> None:
        """The events of a list after `version`, for so many seconds."""
        server = self.server_state
        if refusal := server.refusals.get(path):
            self._answer({**_not_found(), "code": refusal, "reason": ""}, refusal)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        where, _slash, plural = path.rpartition("/")
        ends = time.monotonic() + seconds
        with contextlib.suppress(OSError):  # the watcher may be gone by then
            while True:
                with server.changed:
                    while server.version <= version and not server.over:
                        if not server.changed.wait(max(0.0, ends - time.monotonic())):
                            break
                    events, version = server.events[max(0, version - 1) :], server.version
                time.sleep(server.lag)
                for event, at, item in events:
                    if _is_listed(at, where, plural):
                        self._chunk(json.dumps({"type": event, "object": item}).encode() + b"\n")
                if server.over or time.monotonic() >= ends:
                    self._chunk(b"")
                    return

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _write(self) -> tuple[str, t.Any, bool]:
        """Path and body of a write, and whether it is a dry run. Another one is noted."""
        url = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        dry = "dryRun" in parse_qs(url.query)
        if not dry:
            self.server_state.writes.append((self.command, url.path, body))
        return url.path, body, dry

    def _answer(self, value: Object, status: int = 200) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _not_found() -> Object:
    return {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}


def _patched(item: Object, body: t.Any) -> Object | None:
    """The object with a JSON patch, None where a test of it fails. Merge patches change nothing here."""
    changed: Object = json.loads(json.dumps(item))
    for operation in body if isinstance(body, list) else ():
        *parents, last = operation["path"][1:].split("/")
        inside = changed
        for part in parents:
            inside = inside[_unescaped(part)]
        name = _unescaped(last)
        if operation["op"] == "test":
            if inside.get(name) != operation["value"]:
                return None
        elif operation["op"] == "remove":
            del inside[name]
        else:
            inside[name] = operation["value"]
    return changed


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


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
    yield _object("coordination.k8s.io/v1", "Lease", "virt-placement", "kube-system", spec={})
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
