# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How is the own rollout of a Deployment paused, resumed within limits, and how does it get its strategy back?

A Deployment has no strategy that replaces nothing. With `workload_rollout: hold` the write of the rules pauses it
(`spec.paused`), and the annotation `placement.virt/hold` says so. A rollout resumes it with a strategy within its
limits in one patch, and gives the strategy back once all pods are of the present template:

    {"phase": "held", "template": "<digest>"}
    {"phase": "released", "strategy": <as it was>, "limited": <as the rollout has set it>}

`template` is that of all its pods, where they are of one: a write that brings it back resumes the Deployment, too, and
no pod ends. A Deployment that is held again before its strategy was given back keeps both strategies in the annotation.
One that another client has paused before is not held: it stays as it is.

Sources: kubernetes pkg/controller/deployment/sync.go (sync, of a paused Deployment), util/deployment_util.go
(DeploymentComplete, ResolveFenceposts).
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field, replace

from ..model.json_pointer import JSON, MISSING, Pointer
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import HOLD, RolloutRoom, is_strategy, rollout_room
from ..model.objects import Ref
from ..model.snapshot import Workload
from ..model.write import Operation, Write, patched
from .ownership import digest
from .write import ANNOTATIONS

PAUSED = Pointer(("spec", "paused"))
STRATEGY = Pointer(("spec", "strategy"))
HELD, RELEASED = "held", "released"

_GENERATION = Pointer(("metadata", "generation"))
_ANNOTATION = ANNOTATIONS / HOLD


@dataclass(frozen=True, slots=True)
class PausedHold:
    """A Deployment whose own rollout is held, or was released within the limits of a run. `record` is the content of
    the annotation; None where it is damaged."""

    workload: Workload
    record: t.Mapping[str, JSON] | None = field(hash=False)

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    @property
    def is_held(self) -> bool:
        """Whether the Deployment is paused by rules."""
        return (self.record or {}).get("phase") == HELD and self.workload.paused

    @property
    def strategy_is_limited(self) -> bool:
        """Whether it has the strategy that a run has set."""
        record = self.record or {}
        return (
            "limited" in record and STRATEGY.read(self.workload.manifest, None) == record["limited"]
        )

    @property
    def declared(self) -> JSON:
        """The strategy without the limits of a run."""
        record = self.record or {}
        if self.strategy_is_limited:
            return record.get("strategy")
        return STRATEGY.read(self.workload.manifest, None)

    @property
    def template(self) -> str:
        """A digest of its present template."""
        return _template_digest(self.workload.manifest, self.workload)

    @property
    def room(self) -> RolloutRoom:
        """How the declared strategy replaces pods."""
        return rollout_room(
            self.workload.kind, {"strategy": self.declared}, self.workload.replicas or 0
        )

    @property
    def seen(self) -> bool:
        return self.workload.seen

    @property
    def behind(self) -> int:
        """How many pods are not of the present template, or lack, as the controller counts them."""
        updated = self._count("updatedReplicas")
        return max(0, (self.workload.replicas or 0) - updated, self._count("replicas") - updated)

    @property
    def replaced(self) -> bool:
        """Whether all pods are of the present template, and as many as wanted are available."""
        wanted = self.workload.replicas or 0
        return self.seen and not self.behind and self._count("availableReplicas") >= wanted

    def _count(self, name: str) -> int:
        return int((self.workload.manifest.get("status") or {}).get(name) or 0)


def paused_hold_of(workload: Workload) -> PausedHold | None:
    """The hold of a Deployment, None where it has none."""
    text = workload.annotations.get(HOLD)
    if text is None or not workload.kind.pauses:
        return None
    try:
        record = read_annotation(text)
    except DamagedAnnotation:
        return PausedHold(workload, None)
    known = record.get("phase") in (HELD, RELEASED)
    known = known and all(map(is_strategy, (record.get(x, {}) for x in ("strategy", "limited"))))
    known = known and ("limited" in record) == ("strategy" in record)
    return PausedHold(workload, record if known else None)


def is_paused_by_rules(workload: Workload) -> bool:
    """Whether the write of rules has paused the Deployment."""
    hold = paused_hold_of(workload)
    return hold is not None and hold.is_held


def why_not_paused(workload: Workload) -> str:
    """Why a hold would be of no use; empty where it is not."""
    room = rollout_room(workload.kind, workload.manifest.get("spec") or {}, workload.replicas or 0)
    if room.stops_first and room.unavailable > 1:
        return "its strategy is Recreate, by which all of its pods end before a new one starts"
    return ""


def paused(workload: Workload, write: Write) -> Write:
    """A write to the template that pauses the Deployment, too. It needs the generation that was read: its pods are of
    that template."""
    hold = paused_hold_of(workload)
    record: dict[str, JSON] = {"phase": HELD}
    if hold is not None and hold.strategy_is_limited and hold.record is not None:
        record |= {name: hold.record[name] for name in ("strategy", "limited")}
    elif _all_pods_are_of(workload):
        record["template"] = _template_digest(workload.manifest, workload)
    before = PAUSED.read(workload.manifest)
    return replace(
        write,
        tests=(*write.tests, _test(_GENERATION, workload), _test(PAUSED, workload)),
        operations=(
            *write.operations,
            Operation("add", PAUSED, True),
            Operation("add", _ANNOTATION, _text(record)),
        ),
        before={**write.before, "paused": None if before is MISSING else before},
        after={**write.after, "paused": True},
    )


def with_same_pause(workload: Workload, write: Write) -> Write:
    """A write to the template that is made only while the Deployment is paused, or has no replicas, as it was read: a
    rollout may resume it meanwhile. One that brings the template of its pods back resumes it."""
    hold = paused_hold_of(workload)
    if hold is not None and hold.is_held and _brings_back(hold, write):
        return _resumed(workload, write)
    return replace(write, tests=(*write.tests, _test(PAUSED, workload)))


def resumes(write: Write) -> bool:
    """Whether a write to the template resumes its Deployment."""
    return any(op.op == "remove" and op.pointer == PAUSED for op in write.operations)


def limited_strategy(hold: PausedHold, most: int, *, surges: bool) -> JSON:
    """The strategy under which no more than `most` pods are unavailable at a time; None where there is none. `surges`:
    whether a new pod finds a node beside all old ones. Numbers, since a percentage grows with the replicas."""
    room = hold.room
    if room.stops_first:
        return hold.declared if room.unavailable <= most else None
    surge = room.surge if surges else 0
    unavailable = min(room.unavailable, most)
    if not surge:
        unavailable = max(1, unavailable)
    if unavailable > most:
        return None
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def release_of(hold: PausedHold, strategy: JSON) -> Write:
    """The write that resumes the Deployment, with this strategy."""
    record = {"phase": RELEASED, "strategy": hold.declared or {}, "limited": strategy}
    operations = (
        _strategy(hold, strategy),
        Operation("remove", PAUSED),
        Operation("replace", _ANNOTATION, _text(record)),
    )
    return _write(hold, operations, {"paused": True}, {"strategy": strategy})


def end_of(hold: PausedHold) -> Write:
    """The write that ends the hold: it gives the strategy back, unless something else has set one meanwhile, and
    resumes a Deployment that rules have paused."""
    operations = [Operation("remove", _ANNOTATION)]
    if hold.is_held:
        operations.insert(0, Operation("remove", PAUSED))
    if hold.strategy_is_limited:
        operations.insert(0, _strategy(hold, hold.declared))
    return _write(hold, tuple(operations), {}, {"strategy": hold.declared})


def _write(hold: PausedHold, operations: tuple[Operation, ...], before: JSON, after: JSON) -> Write:
    """It needs the generation that was read: rules that are written at the same time rely on the pause, and what is
    to be replaced is known of this template alone."""
    workload = hold.workload
    return Write(
        target=workload.ref,
        path=workload.path,
        uid=workload.uid,
        tests=(
            _test(_GENERATION, workload),
            _test(PAUSED, workload),
            _test(STRATEGY, workload),
            Operation("test", _ANNOTATION, workload.annotations[HOLD]),
        ),
        operations=operations,
        before=before,
        after=after,
    )


def _strategy(hold: PausedHold, strategy: JSON) -> Operation:
    there = STRATEGY.read(hold.workload.manifest) is not MISSING
    if not strategy:
        return Operation("remove", STRATEGY)
    return Operation("replace" if there else "add", STRATEGY, strategy)


def _resumed(workload: Workload, write: Write) -> Write:
    operations = [*write.operations, Operation("remove", PAUSED), Operation("remove", _ANNOTATION)]
    annotation = Operation("test", _ANNOTATION, workload.annotations[HOLD])
    return replace(
        write,
        tests=(*write.tests, _test(_GENERATION, workload), _test(PAUSED, workload), annotation),
        operations=tuple(operations),
        before={**write.before, "paused": True},
        after={**write.after, "paused": None},
    )


def _brings_back(hold: PausedHold, write: Write) -> bool:
    """Whether the template is that of all pods again."""
    known = (hold.record or {}).get("template")
    after = patched(hold.workload.manifest, write.operations)
    return bool(known) and known == _template_digest(after, hold.workload)


def _all_pods_are_of(workload: Workload) -> bool:
    """Whether all its pods are of the present template, as far as its controller has counted."""
    status = workload.manifest.get("status") or {}
    updated = int(status.get("updatedReplicas") or 0)
    return workload.seen and updated == int(status.get("replicas") or 0) == (workload.replicas or 0)


def _template_digest(manifest: JSON, workload: Workload) -> str:
    return digest(workload.kind.template.read(manifest, None), 16)


def _test(pointer: Pointer, workload: Workload) -> Operation:
    return Operation("test", pointer, pointer.read(workload.manifest, None))


def _text(record: JSON) -> str:
    return json.dumps(record, sort_keys=True)
