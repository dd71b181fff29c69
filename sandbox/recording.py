# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster shows of a VM that starts and migrates, and of one whose migration is aborted: to compare simulated
nodes with real ones, field by field.

A recording is JSON without names, times and addresses::

    fields: {role: {path: types}}     # each field that was seen in any state, such as status.migrationState.mode
    values: {role: {path: [values]}}  # of the fields in VALUES, each value that was seen
    order:  {role: [[...], ...]}      # what came first, then next; what came together stands in one list
    events: [reason of kind, ...]

Roles are ``vmi``, ``migration``, its launcher pods ``source`` and ``target``, the same of the VM ``busy``, whose
migration is aborted, and ``node``.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import functools
import json
import re
import sys
import threading
import typing as t
from pathlib import Path

from .admin_api import AdminApi, WaitTimeout
from .namespaces import delete_namespace
from .objects import migration
from .real_nodes.guests import guest
from .virt_handler.api import Api, Reflector

Object = t.Mapping[str, t.Any]

_PATIENCE = 300.0
JOB = "kubevirt.io/migrationJobUID"
_OF_VMI: t.Final = (
    "status.machine.type",
    "status.migrationMethod",
    "status.migrationTransport",
    "status.migrationState.mode",
    "status.migrationState.failed",
    "status.migrationState.completed",
    "status.migrationState.abortStatus",
    "status.migrationState.failureReason",
    "status.migrationState.targetNodeDomainDetected",
    "status.migrationState.targetDirectMigrationNodePorts{}",
)
VALUES: t.Final = {
    "vmi": _OF_VMI,
    "busy vmi": _OF_VMI,
    "node": ("status.conditions[].type", "status.conditions[].status", "status.addresses[].type"),
}
"""Fields whose values are compared, too: they are not names or times of one cluster."""

_MAPS = ("labels", "annotations", "nodeSelector", "matchLabels", "capacity", "allocatable")
_KEYED = (*_MAPS, "requests", "limits", "targetDirectMigrationNodePorts", "activePods")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LABELLER = re.compile(r"^([a-z-]+\.node\.kubevirt\.io)/.+")


@dataclasses.dataclass(frozen=True)
class Recording:
    """See above."""

    fields: t.Mapping[str, t.Mapping[str, str]]
    values: t.Mapping[str, t.Mapping[str, t.Sequence[t.Any]]]
    order: t.Mapping[str, t.Sequence[t.Sequence[str]]]
    events: t.Sequence[str]

    @classmethod
    def read(cls, file: Path) -> Recording:
        """A recording from its file."""
        return cls(**json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """Keep the recording in a file, with one line for each field, so that changes can be read."""
        file.write_text(json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n")


def record(api: AdminApi, kubeconfig: Path, namespace: str) -> Recording:
    """Play the story in a namespace that is there. The guests are those of real nodes on both kinds."""
    seen = _Seen(Api(kubeconfig), namespace)
    seen.start()
    try:
        _start(api, guest("guest", namespace), guest("busy", namespace, "fill=70", "dirty=0"))
        moved = _migrate(api, namespace, "guest", "Succeeded")
        source = moved["status"]["migrationState"]["sourcePod"]
        api.wait(_ended, api.path("Pod", namespace, source), _PATIENCE)
        aborted = _migrate(api, namespace, "busy", "Running")
        path = api.path("VirtualMachineInstanceMigration", namespace, "busy")
        api.delete(path)
        api.wait_gone(path, _PATIENCE)
        job = f"{JOB}={aborted['metadata']['uid']}"
        for pod in api.list(api.path("Pod", namespace), labelSelector=job):
            api.wait(_ended, api.path("Pod", namespace, pod["metadata"]["name"]), _PATIENCE)
        seen.catch_up(api)
    finally:
        seen.stop()
    return seen.recording()


def _start(api: AdminApi, *vms: dict[str, t.Any]) -> None:
    for vm in vms:
        metadata = vm["spec"]["template"]["metadata"]
        if vm["metadata"]["name"] == "busy":
            metadata["annotations"] = {"sandbox.virt/migration-seconds": "60"}
        api.create(api.collection_of(vm), vm)
    for vm in vms:
        name, namespace = vm["metadata"]["name"], vm["metadata"]["namespace"]
        api.wait(_is_ready, api.path("VirtualMachineInstance", namespace, name), _PATIENCE)


def _migrate(api: AdminApi, namespace: str, instance: str, phase: str) -> Object:
    kind = "VirtualMachineInstanceMigration"
    api.create(api.path(kind, namespace), migration(instance, namespace, name=instance))
    wanted: Object = api.wait(
        lambda found: (
            found["status"]["phase"] == phase
            and (phase != "Succeeded" or found["status"].get("migrationState"))
        ),
        api.path(kind, namespace, instance),
        _PATIENCE,
    )
    return wanted


class _Seen:
    """Each state of each object, as watches show them."""

    def __init__(self, api: Api, namespace: str) -> None:
        kubevirt = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstance"
        paths = {
            "vmi": f"{kubevirt}s",
            "migration": f"{kubevirt}migrations",
            "pod": f"/api/v1/namespaces/{namespace}/pods",
            "node": "/api/v1/nodes",
            "event": f"/api/v1/namespaces/{namespace}/events",
        }
        self._states: dict[str, list[Object]] = collections.defaultdict(list)
        self._lock = threading.Lock()
        self._watches = {
            path: Reflector(api, path, {}, self._taker(kind), lambda line: None)
            for kind, path in paths.items()
        }

    def _taker(self, kind: str) -> t.Callable[[Object, Object | None], None]:
        def take(item: Object, old: Object | None) -> None:
            with self._lock:
                self._states[kind].append(item)

        return take

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()
        for path, watch in self._watches.items():
            if not watch.synced.wait(_PATIENCE):
                raise WaitTimeout(f"{path} was not listed within {_PATIENCE:g} s")

    def catch_up(self, api: AdminApi) -> None:
        """Wait until each watch has shown what a list has."""
        for path, watch in self._watches.items():
            api.wait_list(path, functools.partial(_has_shown, watch), _PATIENCE)

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def recording(self) -> Recording:
        with self._lock:
            roles: dict[str, list[Object]] = collections.defaultdict(list)
            for kind in ("vmi", "migration"):
                for each in self._states[kind]:
                    busy = each["metadata"]["name"] == "busy"
                    roles[f"busy {kind}" if busy else kind].append(each)
            for pod in self._states["pod"]:
                roles[_role_of_pod(pod)].append(pod)
            for node in self._states["node"]:
                if "kubevirt.io/schedulable" in node["metadata"]["labels"]:
                    roles["node"].append(node)
            seen = ((e["reason"], e["involvedObject"]["kind"]) for e in self._states["event"])
            events = {f"{reason} of {kind}" for reason, kind in seen}
        return Recording(
            {role: _fields(states) for role, states in roles.items()},
            {role: _values(roles[role], paths) for role, paths in VALUES.items()},
            {role: _order(role, states) for role, states in roles.items() if role != "node"},
            sorted(events),
        )


def _has_shown(watch: Reflector, listed: t.Iterable[Object]) -> bool:
    shown = {uid: item["metadata"]["resourceVersion"] for uid, item in dict(watch.objects).items()}
    return shown == {x["metadata"]["uid"]: x["metadata"]["resourceVersion"] for x in listed}


def _role_of_pod(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    role = "target" if JOB in labels else "source"
    return f"busy {role}" if labels.get("vmi.kubevirt.io/id") == "busy" else role


def _fields(states: t.Iterable[Object]) -> dict[str, str]:
    found: dict[str, set[str]] = collections.defaultdict(set)
    for state in states:
        for path, value in _walk(state, ""):
            found[path].add(type(value).__name__)
    return {path: "|".join(sorted(types)) for path, types in found.items()}


def _values(states: t.Iterable[Object], paths: t.Collection[str]) -> dict[str, list[t.Any]]:
    found: dict[str, set[t.Any]] = {path: set() for path in paths}
    for state in states:
        for path, value in _walk(state, ""):
            plain = path.partition("{")[0] + (
                "{}" if "targetDirect" in path and "{" in path else ""
            )
            if plain in found and not isinstance(value, (dict, list)):
                found[plain].add(value)
    return {path: sorted(values, key=str) for path, values in found.items()}


def _walk(value: t.Any, path: str) -> t.Iterator[tuple[str, t.Any]]:
    """Each path below a value, with what is there. Elements of a list have one path; so have keys that are names."""
    if path:
        yield path, value
    if isinstance(value, dict):
        keyed = path.rpartition(".")[2] in _KEYED
        for key, inner in value.items():
            if (path == "metadata" and key == "managedFields") or key.startswith("sandbox.virt/"):
                continue
            name = f"{path}{{{_key(key)}}}" if keyed else f"{path}.{key}" if path else key
            yield from _walk(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, f"{path}[]")


def _key(key: str) -> str:
    """A key without what is a port, a pod or the CPU of one machine."""
    return "*" if key.isdigit() or _UID.fullmatch(key) else _LABELLER.sub(r"\1/*", key)


def _order(role: str, states: t.Sequence[Object]) -> list[list[str]]:
    """The steps in which things were first seen."""
    marks = {"vmi": _vmi_marks, "migration": _phase}.get(role.rpartition(" ")[2], _pod_marks)
    seen: set[str] = set()
    steps = []
    for state in states:
        if new := [mark for mark in marks(state) if mark not in seen]:
            steps.append(new)
            seen.update(new)
    return steps


def _phase(state: Object) -> list[str]:
    transitions = state.get("status", {}).get("phaseTransitionTimestamps") or ()
    return [entry["phase"] for entry in transitions]


def _vmi_marks(state: Object) -> list[str]:
    status = state.get("status", {})
    migrating = status.get("migrationState") or {}
    return [status.get("phase", ""), *(key for key, value in migrating.items() if value)]


def _pod_marks(state: Object) -> list[str]:
    """How far a launcher is, from its first time of readiness on: how many containers are ready."""
    status = state.get("status", {})
    containers = [
        *(status.get("containerStatuses") or ()),
        *(
            each
            for each in status.get("initContainerStatuses") or ()
            if "running" in each.get("state", {}) or not each.get("ready", True)
        ),
    ]
    ready = sum(bool(each.get("ready")) for each in containers)
    phase = status.get("phase", "")
    if phase == "Pending" or (phase == "Running" and not _is_ready(state) and ready == 0):
        return []
    return [f"{phase}, {ready} ready, {'Ready' if _is_ready(state) else 'not Ready'}"]


def _is_ready(state: Object) -> bool:
    conditions = state.get("status", {}).get("conditions") or ()
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def _ended(pod: Object) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference: in which part of the recordings, of which role, where, and what was seen."""

    part: str
    role: str
    path: str
    real: t.Any
    simulated: t.Any

    def __str__(self) -> str:
        return f"{self.part} {self.role} {self.path}: real {self.real}, simulated {self.simulated}"


def compare(real: Recording, simulated: Recording) -> list[Difference]:
    """All differences of fields, values, order and events. A field below one that is missing is not one more."""
    found = []
    for part in ("fields", "values", "order"):
        mine, other = getattr(real, part), getattr(simulated, part)
        for role in sorted({*mine, *other}):
            if part == "order":
                found += _inversions(role, mine.get(role, ()), other.get(role, ()))
                continue
            a, b = mine.get(role, {}), other.get(role, {})
            paths = sorted(path for path in {*a, *b} if a.get(path) != b.get(path))
            for path in paths:
                if not any(
                    _is_below(path, above) for above in paths if above not in a or above not in b
                ):
                    found.append(Difference(part, role, path, a.get(path), b.get(path)))
    for event in sorted({*real.events} ^ {*simulated.events}):
        found.append(
            Difference("events", "", event, event in real.events, event in simulated.events)
        )
    return found


def _is_below(path: str, above: str) -> bool:
    return path.startswith((f"{above}.", f"{above}[", f"{above}{{"))


def _inversions(
    role: str, real: t.Sequence[t.Sequence[str]], simulated: t.Sequence[t.Sequence[str]]
) -> list[Difference]:
    """Marks that only one of them has, and pairs that come in the other order."""
    a, b = (
        {mark: step for step, marks in enumerate(x) for mark in marks} for x in (real, simulated)
    )
    found = [Difference("order", role, mark, mark in a, mark in b) for mark in sorted({*a} ^ {*b})]
    shared = [mark for mark in a if mark in b]
    for index, first in enumerate(shared):
        for second in shared[index + 1 :]:
            if (a[first] - a[second]) * (b[first] - b[second]) < 0:
                text = f"{first} before {second}"
                found.append(
                    Difference("order", role, text, a[first] < a[second], b[first] < b[second])
                )
    return found


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why differences are accepted: those of one part, whose role and path match these patterns (fnmatch)."""

    part: str
    role: str
    path: str
    why: str
    sometimes: bool = False
    """Whether it depends on times, so that it is not there each time."""

    def explains(self, difference: Difference) -> bool:
        return (
            difference.part == self.part
            and fnmatch.fnmatchcase(difference.role, self.role)
            and fnmatch.fnmatchcase(difference.path, _literal(self.path))
        )


def _literal(pattern: str) -> str:
    """Brackets of a path are no class of characters."""
    return pattern.replace("[", "[[]")


def unexplained(
    differences: t.Iterable[Difference], explanations: t.Iterable[Explanation]
) -> list[Difference]:
    """The differences that no explanation matches."""
    known = list(explanations)
    return [x for x in differences if not any(each.explains(x) for each in known)]


def main() -> None:
    """Record a running sandbox: ``python -m sandbox.recording DIRECTORY FILE``."""
    from .sandbox import Sandbox

    parser = argparse.ArgumentParser(prog="python -m sandbox.recording", description=main.__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    sandbox = Sandbox.attach(arguments.directory)
    namespace = "recording"
    sandbox.api.create(sandbox.api.path("Namespace"), {"metadata": {"name": namespace}})
    try:
        record(sandbox.api, sandbox.kubeconfig("admin"), namespace).write(arguments.file)
    finally:
        delete_namespace(sandbox.api, namespace)
    print(arguments.file, file=sys.stderr)


if __name__ == "__main__":
    main()
