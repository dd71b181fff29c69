# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to a cluster during maintenance, from watches and the audit log, and which invariants that violates.

Nothing here is imported from the collection: annotations and rules are written down a second time.

| invariant | what violates it |
|---|---|
| I1 no VM stops | a VMI is deleted or made anew, or leaves the phase Running |
| I2 only declared fields change | another field of a node or of a VM differs at the end |
| I3 own cordons are lifted, and no others | a cordon of another client goes, or one of ours stays |
| I4 one topology domain, max_nodes at a time | nodes with a mark in two zones, or too many of them |
| I4 VMs leave within the limits | more migrations at once than KubeVirt lets leave the nodes; two that are kept apart |
| I5 no migration twice | two unfinished migrations of a VMI, or two of one name |
| I5 the right object, once | a deletion or an eviction without the UID of its object, or a second one; a restart |
| I6 jobs report what happened | a migration that is reported and was not, or was and is not; a wrong `changed` |
| I7 nothing is left | a mark, a taint of ours, a mark of evacuation or an unfinished migration at the end |

I7 of the Lease, and I8, that another run writes nothing, are in the sweep itself. The simulator has no guest whose
boot id could show that a VM was started again: I1 is about its VMI.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import typing as t
from collections import Counter
from dataclasses import dataclass, field

import requests

from sandbox import Sandbox
from sandbox.audit import AuditEvent

Object = dict[str, t.Any]

MARK = "placement.virt/maintenance"
SERVICED = "placement.virt/serviced"
SERVICED_AT = "placement.virt/serviced-at"
MOVED_AWAY = "placement.virt/moved-away"
START_AGAIN = "placement.virt/start-again"
SERVICED_LATER = "placement.virt/serviced-later"
ZONE = "topology.kubernetes.io/zone"
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "VMI": "/apis/kubevirt.io/v1/virtualmachineinstances",
    "Migration": "/apis/kubevirt.io/v1/virtualmachineinstancemigrations",
}
OF_OTHERS = ("kubevirt.io/", "kwok", "volumes.kubernetes.io/", "node.alpha.kubernetes.io/")
"""Prefixes of labels and annotations that KubeVirt, KWOK and controllers write."""

DELETIONS = {
    ("create", "pods", "eviction"): "Pod",
    ("delete", "pods", ""): "Pod",
    ("delete", "virtualmachineinstances", ""): "VMI",
    ("delete", "virtualmachineinstancemigrations", ""): "Migration",
}
"""Requests that end an object: verb, resource and subresource, and the kind."""

OUTBOUND = 2
"""Migrations that KubeVirt lets leave a node at once, by default (parallelOutboundMigrationsPerNode)."""

MIGRATED = re.compile(r" done: VirtualMachine (?:\S+/)?(\S+) migrated: ")
CHANGED = re.compile(r"\bchanged=(\d+)")


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
    pods: dict[str, Object] = field(default_factory=dict)

    def violated_invariants(self, *, max_nodes: int = 1) -> list[str]:
        """Messages about the invariants that were violated during the maintenance."""
        return [
            *self._of_nodes(max_nodes),
            *self._of_vmis(),
            *self._of_migrations(OUTBOUND * max_nodes),
        ]

    def violated_invariants_at_the_end(
        self, nodes: t.Mapping[str, Object], vms: t.Mapping[str, Object]
    ) -> list[str]:
        """What the maintenance left, or changed beside what it declares. The arguments are the nodes and
        VMs now."""
        texts = []
        for name, node in nodes.items():
            if MARK in _annotations(node):
                texts.append(f"node {name} still has the mark")
            if any(taint["key"] == SERVICED_LATER for taint in node["spec"].get("taints") or ()):
                texts.append(f"node {name} still has the taint {SERVICED_LATER}")
            if _comparable(node) != _comparable(self.nodes[name]):
                texts.append(f"node {name} differs in a field that no maintenance may change")
        texts += [
            f"the spec of VM {name} was changed"
            for name, vm in vms.items()
            if vm["spec"] != self.vms[name]["spec"]
        ]
        texts += [
            f"VM {name} has other labels, annotations or owners of fields"
            for name, vm in vms.items()
            if _described(vm) | _owners(vm) != _described(self.vms[name]) | _owners(self.vms[name])
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

    def wrong_requests(self, requests: t.Iterable[AuditEvent]) -> list[str]:
        """Of requests that were accepted: what ended an object without its UID, or twice, and restarts."""
        texts = []
        ended: set[tuple[str, str]] = set()
        for request in requests:
            kind = DELETIONS.get((request.verb, request.resource, request.subresource))
            name = f"{request.resource} {request.name}"
            if request.dry_run or request.code >= 300:
                continue
            if request.subresource in ("restart", "stop"):
                texts.append(f"{name}: {request.subresource}")
            elif kind is not None and not request.uid:
                texts.append(f"{name} was ended without its UID")
            elif kind is not None and request.uid not in self._uids(kind, request.name):
                texts.append(f"{name} was ended by the UID of another object")
            elif kind is not None and (kind, request.uid) in ended:
                texts.append(f"{name} was ended twice")
            elif kind is not None:
                ended.add((kind, request.uid))
        return texts

    def untrue(
        self, outputs: t.Sequence[str], version: int, writes: t.Collection[AuditEvent]
    ) -> list[str]:
        """What jobs reported and is not so. `version` is that of the cluster when the last of them began, which
        ended well, and `writes` are its own."""
        reported = [Counter(MIGRATED.findall(output)) for output in outputs]
        succeeded: dict[str, set[str]] = {}
        made_last: Counter[str] = Counter()
        for change in self._of("Migration"):
            vm = change.object["spec"]["vmiName"]
            if change.type == "ADDED" and change.version > version:
                made_last[vm] += 1
            if (change.object.get("status") or {}).get("phase") == "Succeeded":
                succeeded.setdefault(vm, set()).add(_name(change.object))
        texts = [
            f"{vm} is reported as migrated {n} times, and was {len(succeeded.get(vm, ()))} times"
            for vm, n in sum(reported, Counter()).items()
            if n > len(succeeded.get(vm, ()))
        ]
        texts += [
            f"the migration of {vm} is not reported"
            for vm, n in made_last.items()
            if reported[-1][vm] < n
        ]
        changed = any(map(int, CHANGED.findall(outputs[-1])))
        if changed is not any(write.resource != "leases" for write in writes):
            texts.append(f"the last job reports changed={changed}, and made {len(writes)} writes")
        return texts

    def _uids(self, kind: str, name: str) -> set[str]:
        """The UIDs of all objects of this name that were there."""
        first = {"Pod": self.pods, "VMI": self.vmis}.get(kind, {})
        seen = [first[name]] if name in first else []
        seen += [change.object for change in self._of(kind) if _name(change.object) == name]
        return {item["metadata"]["uid"] for item in seen}

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

    def _of_migrations(self, at_once: int) -> t.Iterator[str]:
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
                continue
            if unfinished.setdefault(vmi, name) != name:
                yield f"VMI {vmi} has two migrations at once: {name} and {unfinished[vmi]}"
            if change.type == "ADDED" and len(unfinished) > at_once:
                yield f"{len(unfinished)} migrations at once: {sorted(unfinished)}"
            for other in unfinished:
                if change.type == "ADDED" and self._kept_apart(vmi, other):
                    yield f"VMIs {vmi} and {other} are kept apart, and are migrated at once"

    def _kept_apart(self, one: str, other: str) -> bool:
        """Whether a required anti-affinity of one of two VMIs selects the other."""
        pair = [self.vmis.get(one, {}), self.vmis.get(other, {})]
        return one != other and (_avoids(pair[0], pair[1]) or _avoids(pair[1], pair[0]))

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
        vmis=_in_namespace(lists["VMI"]["items"], namespace),
        pods=_in_namespace(lists["Pod"]["items"], namespace),
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


def _in_namespace(items: t.Iterable[Object], namespace: str) -> dict[str, Object]:
    return by_name(item for item in items if item["metadata"]["namespace"] == namespace)


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


def _avoids(vmi: Object, other: Object) -> bool:
    affinity = (vmi.get("spec") or {}).get("affinity") or {}
    terms = (affinity.get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not terms or not other:
        return False
    labels = {**(other["metadata"].get("labels") or {}), "vmi.kubevirt.io/id": _name(other)}
    return any(_selects(term.get("labelSelector") or {}, labels) for term in terms)


def _selects(selector: Object, labels: t.Mapping[str, str]) -> bool:
    """Of selectors with equalities and the operator In."""
    wanted = {key: [value] for key, value in (selector.get("matchLabels") or {}).items()}
    wanted |= {x["key"]: x["values"] for x in selector.get("matchExpressions") or ()}
    return all(labels.get(key) in values for key, values in wanted.items())


def _cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _annotations(node: Object) -> Object:
    return t.cast(Object, (node.get("metadata") or {}).get("annotations") or {})


def _described(item: Object) -> Object:
    """Labels and annotations that no maintenance changes."""
    return {
        kind: {
            key: value
            for key, value in (item["metadata"].get(kind) or {}).items()
            if not key.startswith(
                (*OF_OTHERS, MARK, SERVICED, SERVICED_AT, MOVED_AWAY, START_AGAIN)
            )
        }
        for kind in ("labels", "annotations")
    }


def _owners(vm: Object) -> Object:
    """The fields that clients own, without those of KubeVirt."""
    entries = vm["metadata"].get("managedFields") or ()
    return {x["manager"]: x["fieldsV1"] for x in entries if not x["manager"].startswith("virt-")}


def _comparable(node: Object) -> Object:
    """What of a node no maintenance changes. Taints follow the cordon and the node's readiness."""
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    return {"uid": node["metadata"]["uid"], **_described(node), "spec": spec}


def fewest_available(history: History) -> int:
    """The fewest pods that were Ready and not terminating at one time."""
    there = dict(history.pods)
    fewest = [sum(map(_available, there.values()))]
    for change in sorted(history.changes, key=lambda x: x.version):
        if change.kind != "Pod":
            continue
        name = change.object["metadata"]["name"]
        there[name] = change.object
        if change.type == "DELETED":
            del there[name]
        fewest.append(sum(map(_available, there.values())))
    return min(fewest)


def _available(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any((x["type"], x["status"]) == ("Ready", "True") for x in conditions)
