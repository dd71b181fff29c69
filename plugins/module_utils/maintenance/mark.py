# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark on a node in maintenance: the run, the reason, the phase, and whether the cordon is ours.

Pure. Mark and cordon are written in one conditional patch, and removed in one. So a node has a cordon
of ours exactly as long as it has a mark that says so, whenever a run is killed.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType

from ..kubevirt.labels import DEVICE
from ..model.json_pointer import ANNOTATIONS, JSON, Pointer
from ..model.json_text import DamagedAnnotation, cut, read_annotation
from ..model.kinds import MAINTENANCE, MOVED_AWAY, SERVICED, SERVICED_AT, START_AGAIN
from ..model.manifests import node_from_manifest
from ..model.objects import Node, Ref, Taint
from ..model.rendering import TextEnum
from ..model.write import Operation, Write
from ..scheduler.node_state import UNSCHEDULABLE_TAINT
from .holders import HOLDING_ANNOTATIONS, held_by, lasting_taints

LONGEST_REASON = 256

DOWN_LIMIT = 32 * 1024
"""The most characters of `down` as JSON: all annotations of a node have 256 KiB."""

AWAY_LIMIT = 64 * 1024
"""The most characters of `away` as JSON. A node has at most a few hundred pods."""

_MARK = ANNOTATIONS / MAINTENANCE
_MOVED_AWAY = ANNOTATIONS / MOVED_AWAY
_UNSCHEDULABLE = Pointer(("spec", "unschedulable"))
TAINTS = Pointer(("spec", "taints"))


class MaintenancePhase(TextEnum):
    """cordoned: no pod is moved. draining: pods are moved, or were until the run ended. drained: the
    node was empty and its volumes were detached."""

    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Mark:
    """`run` is the id of the run that wrote it. `boot_id` is the node's when it was drained, until then when
    the maintenance began: only a reboot after that was made by the work.
    `cordoned`: this collection cordoned the node, so it may uncordon it. `since` is RFC 3339. `devices` are KubeVirt's
    devices that the node offered when the maintenance began. `down` says, by kind/namespace/name of the workload,
    why a restart or a recreation failed: later runs name it, too. `away` are the workloads, written likewise, that
    had an instance to move when the drain began: those of VMs that it stops with their run strategy, others with "".
    `taints` are those that the node had when the maintenance began (`holders.lasting_taints`), None in a mark of an
    earlier release. `returned` says, by workload, how often an instance came back to the node in this run. `starts`
    are the stopped ones of `away` that are started again at the end."""

    run: str
    reason: str
    phase: MaintenancePhase
    boot_id: str
    cordoned: bool
    since: str
    devices: tuple[str, ...] = ()
    down: t.Mapping[str, str] = field(default_factory=dict)
    away: t.Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] | None = None
    returned: t.Mapping[str, int] = field(default_factory=dict)
    starts: tuple[str, ...] = ()


class DamagedMark(ValueError):
    """The annotation does not hold a mark of this release."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"annotation {MAINTENANCE} is damaged ({why}): check whether the node is in maintenance,"
            " then remove the annotation, and the cordon if no other tool needs it"
        )


_TEXTS = ("run", "reason", "phase", "boot_id", "since")


def encode(mark: Mark) -> str:
    body = {**asdict(mark), "phase": str(mark.phase), "down": _with_limit(mark.down)}
    for name in ("devices", "down", "away", "returned", "starts"):
        if not body[name]:
            del body[name]
    if mark.taints is None:
        del body["taints"]
    return _json(body)


def _json(body: JSON) -> str:
    return json.dumps(body, separators=(",", ":"))


def _with_limit(down: t.Mapping[str, str]) -> dict[str, str]:
    """With shorter reasons if DOWN_LIMIT needs it. If even the names do not fit: the first names, each with
    the number of all."""
    room = DOWN_LIMIT - len(_json(dict.fromkeys(down, "")))
    if room >= 0:
        return {name: cut(why, room // len(down)) for name, why in down.items()}
    one = f"one of {len(down)} that do not run"
    ends = accumulate(len(_json({name: one})) for name in down)
    return {name: one for name, end in zip(down, ends, strict=True) if end <= DOWN_LIMIT}


def _is_by_workload(value: JSON) -> bool:
    """Whether it is a map of kind/namespace/name to texts."""
    return isinstance(value, dict) and all(
        len(workload.split("/")) == 3 and isinstance(text, str) for workload, text in value.items()
    )


def decode(text: str) -> Mark:
    """Raises DamagedMark for anything but what `encode` writes."""
    try:
        body = read_annotation(text)
    except DamagedAnnotation as error:
        raise DamagedMark(str(error)) from error
    down, away = body.pop("down", {}), body.pop("away", {})
    devices, taints = body.pop("devices", []), body.pop("taints", None)
    returned, starts = body.pop("returned", {}), body.pop("starts", [])
    if set(body) != {*_TEXTS, "cordoned"}:
        raise DamagedMark(f"it is not a map of {', '.join(_TEXTS)} and cordoned")
    wrong = [name for name in _TEXTS if not isinstance(body[name], str)]
    if wrong or not isinstance(body["cordoned"], bool):
        raise DamagedMark(f"{wrong[0] if wrong else 'cordoned'} has the wrong type")
    if body["phase"] not in list(MaintenancePhase):
        raise DamagedMark(f"phase is {body['phase'][:40]!r}")
    for name, value in (("down", down), ("away", away)):
        if not _is_by_workload(value):
            raise DamagedMark(f"{name} is no map of workloads to texts")
    lists = (("devices", devices), ("taints", [] if taints is None else taints), ("starts", starts))
    for name, value in lists:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise DamagedMark(f"{name} is no list of texts")
    if not isinstance(returned, dict) or not all(isinstance(x, int) for x in returned.values()):
        raise DamagedMark("returned is no map of workloads to numbers")
    phase = MaintenancePhase(body.pop("phase"))
    known = {"devices": tuple(devices), "down": down, "away": away, "returned": returned}
    known["starts"] = tuple(starts)
    known["taints"] = tuple(taints) if taints is not None else None
    return Mark(**body, phase=phase, **known)


def mark_of(node: Node) -> Mark | None:
    """The mark of a node; None if it has none. Raises DamagedMark."""
    text = node.annotations.get(MAINTENANCE)
    return decode(text) if text is not None else None


def moved_away(node: Node) -> t.Mapping[str, str]:
    """`away` of the maintenance of the node, or of its last one. A damaged record is none: it only names what may
    return. Raises DamagedMark."""
    mark = mark_of(node)
    if mark is not None:
        return mark.away
    try:
        away = read_annotation(node.annotations.get(MOVED_AWAY, "{}"))
    except DamagedAnnotation:
        return {}
    return away if _is_by_workload(away) else {}


def waiting_to_start(node: Node, mark: Mark | None = None) -> dict[str, str]:
    """The VMs that are to be started again once the node is in service, with their run strategies before: those of its
    mark, or of `mark`, and those that an earlier maintenance left. Raises DamagedMark."""
    try:
        left = read_annotation(node.annotations.get(START_AGAIN, "{}"))
    except DamagedAnnotation:
        left = {}
    mark = mark or mark_of(node)
    starts = {name: mark.away[name] for name in mark.starts if name in mark.away} if mark else {}
    return {**(left if _is_by_workload(left) else {}), **starts}


def is_marked(node: Node) -> bool:
    """Whether the node is in a maintenance of this collection, also where its mark is damaged."""
    return MAINTENANCE in node.annotations


def has_begun(node: Node) -> bool:
    """Whether a maintenance of the node has begun and goes on: with its cordon it was ended."""
    return node.unschedulable and is_marked(node)


def begun(
    node: Node,
    mark: Mark | None,
    *,
    run: str,
    phase: MaintenancePhase,
    reason: str,
    now: str,
    away: t.Mapping[str, str] = MappingProxyType({}),
    starts: t.Collection[str] = (),
) -> Mark:
    """The mark of a node when a run begins with it. What an earlier run wrote about the beginning of
    the maintenance stays while the node is cordoned: with the cordon the maintenance was ended."""
    if mark is None or not node.unschedulable:
        devices = sorted(key for key in node.allocatable if key.startswith(DEVICE))
        offered = tuple(key for key in devices if node.allocatable[key])
        ours = not node.unschedulable
        return Mark(
            run,
            reason,
            phase,
            node.boot_id,
            ours,
            now,
            offered,
            away=_within_limit(away),
            taints=lasting_taints(node),
            starts=tuple(sorted(starts)),
        )
    if phase is MaintenancePhase.CORDONED:
        return mark
    boot_id = node.boot_id if phase is MaintenancePhase.DRAINED else mark.boot_id
    known = _within_limit({**away, **mark.away})
    all_starts = tuple(sorted({*mark.starts, *starts} & known.keys()))
    return replace(mark, run=run, phase=phase, boot_id=boot_id, away=known, starts=all_starts)


def _within_limit(away: t.Mapping[str, str]) -> dict[str, str]:
    """The first workloads by name that AWAY_LIMIT has room for."""
    items = sorted(away.items())
    ends = accumulate(len(_json({name: text})) for name, text in items)
    return dict(item for item, end in zip(items, ends, strict=True) if end <= AWAY_LIMIT)


def mark_write(node: Node, mark: Mark) -> Write | None:
    """The write after which the node is unschedulable and has this mark; None if it is and has."""
    operations = [] if node.unschedulable else [Operation("add", _UNSCHEDULABLE, True)]
    text = encode(mark)
    if not node.annotations:
        operations.append(Operation("add", ANNOTATIONS, {MAINTENANCE: text}))
    elif node.annotations.get(MAINTENANCE) != text:
        operations.append(Operation("add", _MARK, text))
    return _write(node, operations, {"cordoned": True, "maintenance": str(mark.phase)})


def unmark_write(node: Node, mark: Mark, change_id: str = "", now: str = "") -> Write | None:
    """The write that removes the mark, and the cordon if it is ours and no other system holds the node. It records
    the change, and that it was done `now`, unless the node was never empty: the change was not done then."""
    kept = _kept(node, mark, change_id, now)
    operations = [Operation("remove", _MARK)]
    operations += [Operation("add", ANNOTATIONS / key, text) for key, text in kept.items()]
    if MOVED_AWAY in node.annotations and MOVED_AWAY not in kept:
        operations.append(Operation("remove", _MOVED_AWAY))
    stays = node.unschedulable and _keeps_cordon(node, mark)
    tests: tuple[Operation, ...] = ()
    if node.unschedulable and not stays:
        operations.append(Operation("remove", _UNSCHEDULABLE))
        tests = (
            *(
                Operation("test", ANNOTATIONS / key, node.annotations.get(key))
                for key in HOLDING_ANNOTATIONS
            ),
            taints_test(node),
        )
    return _write(node, operations, {"cordoned": stays, "maintenance": None}, tests)


def takeover_write(node: Node, mark: Mark, change_id: str = "", now: str = "") -> Write | None:
    """The write after which a new Node object has what `unmark_write` leaves on the one that it replaces, which had
    `mark`. It has no cordon of ours."""
    kept = {MOVED_AWAY: "{}", **_kept(node, mark, change_id, now)}
    if node.annotations:
        operations = [Operation("add", ANNOTATIONS / key, text) for key, text in kept.items()]
    else:
        operations = [Operation("add", ANNOTATIONS, kept)]
    after = {"cordoned": node.unschedulable, "maintenance": None, "taken_over": mark.run}
    return _write(node, operations, after)


def _kept(node: Node, mark: Mark, change_id: str, now: str) -> dict[str, str]:
    """The annotations of a node whose maintenance has ended."""
    kept: dict[str, str] = {}
    if change_id and mark.phase is not MaintenancePhase.DRAINING:
        kept |= {SERVICED: change_id, SERVICED_AT: now}
    if starts := waiting_to_start(node, mark):
        kept[START_AGAIN] = _json(starts)
    if mark.away:
        away = {name: "" if name in starts else text for name, text in mark.away.items()}
        kept[MOVED_AWAY] = _json(away)
    return kept


def taints_test(node: Node) -> Operation:
    """Whether the node has the taints with which it was read."""
    return Operation("test", TAINTS, [_as_json(taint) for taint in node.taints] or None)


def _as_json(taint: Taint) -> dict[str, str]:
    """The taint as the API server has it: empty fields are left out."""
    fields = {
        "key": taint.key,
        "value": taint.value,
        "effect": taint.effect,
        "timeAdded": taint.added,
    }
    return {name: text for name, text in fields.items() if text}


def _keeps_cordon(node: Node, mark: Mark) -> bool:
    """Whether the cordon is not ours, or another system holds the node."""
    return not mark.cordoned or held_by(node, mark.taints) is not None


def unmarked(node: Node) -> Node:
    """The node as it is after `unmark_write`. Raises DamagedMark."""
    mark = mark_of(node)
    if mark is None:
        return node
    annotations = {key: value for key, value in node.annotations.items() if key != MAINTENANCE}
    if _keeps_cordon(node, mark):
        return replace(node, annotations=annotations)
    taints = tuple(taint for taint in node.taints if taint != UNSCHEDULABLE_TAINT)
    return replace(node, annotations=annotations, taints=taints, unschedulable=False)


def _write(
    node: Node, operations: list[Operation], after: JSON, tests: tuple[Operation, ...] = ()
) -> Write | None:
    if not operations:
        return None
    return Write(
        target=node.ref,
        path=f"/api/v1/nodes/{node.name}",
        uid=node.uid,
        tests=(
            Operation("test", _UNSCHEDULABLE, True if node.unschedulable else None),
            Operation("test", _MARK, node.annotations.get(MAINTENANCE))
            if node.annotations
            else Operation("test", ANNOTATIONS, None),
            *tests,
        ),
        operations=tuple(operations),
        before={"cordoned": node.unschedulable, "maintenance": _phase(node)},
        after=after,
    )


def _phase(node: Node) -> str | None:
    try:
        mark = mark_of(node)
    except DamagedMark:
        return "damaged"
    return str(mark.phase) if mark is not None else None


def again(
    plan: t.Callable[[Node], Write | None],
) -> t.Callable[[Write, JSON], Write | None]:
    """The `recompute` of cluster.patching.apply: the write for a node that was read again."""
    return lambda _write, manifest: plan(node_from_manifest(manifest))


def node_as_json(node: Node, zone_key: str) -> dict[str, JSON]:
    """A node of the task, as modules return it."""
    mark, state = mark_of(node), "cordoned" if node.unschedulable else "in_service"
    away = [
        (Ref(*workload.split("/")), text) for workload, text in sorted(moved_away(node).items())
    ]
    starts = {
        Ref(*workload.split("/")): text for workload, text in sorted(waiting_to_start(node).items())
    }
    return {
        "name": node.name,
        "zone": node.labels.get(zone_key),
        "state": str(mark.phase) if mark is not None else state,
        "cordoned": node.unschedulable,
        "ours": mark.cordoned if mark is not None else False,
        "held_by": held_by(node, mark.taints if mark is not None else None),
        "reason": mark.reason if mark is not None else None,
        "since": mark.since if mark is not None else None,
        "boot_id": node.boot_id or None,
        "change_id": node.annotations.get(SERVICED),
        "serviced_at": node.annotations.get(SERVICED_AT) or None,
        "moved_away": [ref._asdict() for ref, strategy in away if not strategy],
        "stopped": [
            {**ref._asdict(), "run_strategy": strategy}
            for ref, strategy in away
            if strategy and ref not in starts
        ],
        "starts_again": [
            {**ref._asdict(), "run_strategy": strategy} for ref, strategy in starts.items()
        ],
    }
