# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to a cluster during maintenance, from watches, and which promises that breaks.

Nothing here is imported from the collection: annotations and rules are written down a second time.

| promise | what breaks it |
|---|---|
| no VM stops | a VMI is deleted or made anew, or leaves the phase Running |
| only declared fields change | another field of a node or of a VM's spec differs at the end |
| own cordons are lifted, and no others | a cordon of another client goes, or one of ours stays |
| one topology domain, max_nodes at a time | nodes with a mark in two zones, or too many of them |
| no migration twice | two unfinished migrations of a VMI, or two of one name |
| nothing is left | a mark, a mark of evacuation or an unfinished migration at the end |
"""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from collections import Counter
from dataclasses import dataclass, field

import requests

from sandbox import Sandbox

Object = dict[str, t.Any]

MARK = "placement.virt/maintenance"
SERVICED = "placement.virt/serviced"
ZONE = "topology.kubernetes.io/zone"
PATHS = {
    "Node": "/api/v1/nodes",
    "VMI": "/apis/kubevirt.io/v1/virtualmachineinstances",
    "Migration": "/apis/kubevirt.io/v1/virtualmachineinstancemigrations",
}
OF_OTHERS = ("kubevirt.io/", "kwok", "volumes.kubernetes.io/", "node.alpha.kubernetes.io/")
"""Prefixes of labels and annotations of nodes that virt-handler, KWOK and controllers write."""


@dataclass(frozen=True)
class Change:
    """One event of a watch: ADDED, MODIFIED or DELETED. `version` orders the changes of all kinds."""

    version: int
    kind: str
    type: str
    object: Object


@dataclass
class History:
    """The changes since it began, and the nodes and VMs as they were then."""

    nodes: dict[str, Object]
    vms: dict[str, Object]
    vmis: dict[str, Object]
    changes: list[Change] = field(default_factory=list)

    def broken(self, *, max_nodes: int = 1) -> list[str]:
        """The promises that were broken on the way, in words."""
        return [*self._of_nodes(max_nodes), *self._of_vmis(), *self._of_migrations()]

    def broken_at_the_end(
        self, nodes: t.Mapping[str, Object], vms: t.Mapping[str, Object]
    ) -> list[str]:
        """What the maintenance left, or changed beside what it declares. The arguments are the nodes and
        VMs now."""
        texts = []
        for name, node in nodes.items():
            if MARK in _annotations(node):
                texts.append(f"node {name} still has the mark")
            if _comparable(node) != _comparable(self.nodes[name]):
                texts.append(f"node {name} differs in a field that no maintenance may change")
        texts += [
            f"the spec of VM {name} was changed"
            for name, vm in vms.items()
            if vm["spec"] != self.vms[name]["spec"]
        ]
        for name, vmi in _last(self.changes, "VMI", self.vmis).items():
            if vmi["status"].get("evacuationNodeName"):
                texts.append(f"VMI {name} still has a mark of evacuation")
        texts += [
            f"migration {name} has not ended"
            for name, migration in _last(self.changes, "Migration", {}).items()
            if not _ended(migration)
        ]
        return texts

    def _of_nodes(self, max_nodes: int) -> t.Iterator[str]:
        now = dict(self.nodes)
        for change in self._of("Node"):
            name = change.object["metadata"]["name"]
            before, now[name] = now.get(name, {}), change.object
            if _cordoned(before) and not _cordoned(change.object):
                mark = _annotations(before).get(MARK)
                if mark is None or json.loads(mark)["cordoned"] is not True:
                    yield f"the cordon of node {name}, which is not ours, was lifted"
            marked = [name for name, node in now.items() if MARK in _annotations(node)]
            zones = {now[name]["metadata"]["labels"].get(ZONE) for name in marked}
            if len(marked) > max_nodes:
                yield f"{len(marked)} nodes in maintenance at once: {sorted(marked)}"
            if len(zones) > 1:
                yield f"nodes of two zones in maintenance at once: {sorted(marked)}"

    def _of_vmis(self) -> t.Iterator[str]:
        uids = {name: vmi["metadata"]["uid"] for name, vmi in self.vmis.items()}
        for change in self._of("VMI"):
            name, vmi = _name(change.object), change.object
            if change.type == "DELETED":
                yield f"VMI {name} was deleted"
            elif vmi["metadata"]["uid"] != uids.get(name):
                yield f"VMI {name} was made anew"
            elif vmi["status"].get("phase") != "Running":
                yield f"VMI {name} is {vmi['status'].get('phase')}"

    def _of_migrations(self) -> t.Iterator[str]:
        unfinished: dict[str, str] = {}
        made = Counter(
            _name(change.object) for change in self._of("Migration") if change.type == "ADDED"
        )
        yield from (f"migration {name} was made {n} times" for name, n in made.items() if n > 1)
        for change in self._of("Migration"):
            name, vmi = _name(change.object), change.object["spec"]["vmiName"]
            if change.type == "DELETED" or _ended(change.object):
                if unfinished.get(vmi) == name:
                    del unfinished[vmi]
            elif unfinished.setdefault(vmi, name) != name:
                yield f"VMI {vmi} has two migrations at once: {name} and {unfinished[vmi]}"

    def _of(self, kind: str) -> t.Iterator[Change]:
        """In the order of their versions, each once."""
        seen = {change.version: change for change in self.changes if change.kind == kind}
        return (seen[version] for version in sorted(seen))


@contextlib.contextmanager
def watching(sandbox: Sandbox, namespace: str) -> t.Iterator[History]:
    """The history of all nodes, and of the VMs of a namespace, while the block runs. What a watch raises is
    raised at the end of the block."""
    api = sandbox.api
    lists = {kind: api.request("GET", path).json() for kind, path in PATHS.items()}
    vms = api.list(api.path("VirtualMachine", namespace))
    history = History(
        nodes=by_name(lists["Node"]["items"]),
        vms=by_name(vms),
        vmis={
            _name(vmi): vmi
            for vmi in lists["VMI"]["items"]
            if vmi["metadata"]["namespace"] == namespace
        },
    )
    ended = threading.Event()
    failures: list[BaseException] = []

    def follow(kind: str) -> None:
        version = lists[kind]["metadata"]["resourceVersion"]
        while not ended.is_set():
            try:
                version = _follow(sandbox, kind, namespace, version, history)
            except BaseException as error:  # a watch that fails sees nothing, which must not pass
                failures.append(error)
                return

    threads = [threading.Thread(target=follow, args=(kind,)) for kind in PATHS]
    for thread in threads:
        thread.start()
    try:
        yield history
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _follow(sandbox: Sandbox, kind: str, namespace: str, version: str, history: History) -> str:
    """One watch, of two seconds; returns the version to go on from."""
    query = {
        "watch": "1",
        "resourceVersion": version,
        "timeoutSeconds": "2",
        "allowWatchBookmarks": "true",
    }
    with requests.get(
        sandbox.url + PATHS[kind],
        params=query,
        headers={"Authorization": f"Bearer {sandbox.token('admin')}"},
        verify=str(sandbox.ca_file),
        stream=True,
        timeout=30,
    ) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise RuntimeError(f"watch of {kind}: {event['object'].get('message')}")
            metadata = event["object"]["metadata"]
            version = metadata["resourceVersion"]
            if event["type"] != "BOOKMARK" and metadata.get("namespace") in (None, namespace):
                change = Change(int(version), kind, event["type"], event["object"])
                history.changes.append(change)
    return version


def by_name(objects: t.Iterable[Object]) -> dict[str, Object]:
    return {_name(item): item for item in objects}


def _name(manifest: Object) -> str:
    return t.cast(str, manifest["metadata"]["name"])


def _last(
    changes: t.Iterable[Change], kind: str, first: t.Mapping[str, Object]
) -> dict[str, Object]:
    there = dict(first)
    for change in sorted(changes, key=lambda x: x.version):
        if change.kind == kind and change.type == "DELETED":
            there.pop(_name(change.object), None)
        elif change.kind == kind:
            there[_name(change.object)] = change.object
    return there


def _ended(migration: Object) -> bool:
    return (migration.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _annotations(node: Object) -> Object:
    return t.cast(Object, (node.get("metadata") or {}).get("annotations") or {})


def _comparable(node: Object) -> Object:
    """What of a node no maintenance changes. Taints follow the cordon and the node's readiness."""
    metadata = node["metadata"]
    kept = {
        kind: {
            key: value
            for key, value in (metadata.get(kind) or {}).items()
            if not key.startswith((*OF_OTHERS, MARK, SERVICED))
        }
        for kind in ("labels", "annotations")
    }
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    return {"uid": metadata["uid"], **kept, "spec": spec}
