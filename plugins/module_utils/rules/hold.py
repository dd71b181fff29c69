# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How is the rollout that a StatefulSet makes by itself set aside, and how does it get its strategy back?

With `workload_rollout: hold` the write of the rules also sets the update strategy OnDelete, and the annotation
`placement.virt/hold` keeps the strategy that the workload had. No pod ends by that. A rollout then evicts replica after
replica within its limits, and each comes back from the present template (kubernetes pkg/controller/statefulset,
newVersionedStatefulSetPod). Once all are of the present template, the strategy is given back: then it replaces nothing.

A partition would not do: a replica below it comes back from the previous template.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, replace

from ..model.json_pointer import JSON, MISSING, Pointer
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.kinds import HOLD, STATEFUL_SET, partition_of
from ..model.objects import Ref
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from .write import ANNOTATIONS

STRATEGY = Pointer(("spec", "updateStrategy"))
_ON_DELETE: t.Final[JSON] = {"type": "OnDelete"}
_HELD: t.Final = "RollingUpdate"
"""The type of a strategy that is set aside; the other one needs no hold."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A StatefulSet whose own rollout is set aside. `strategy` is the one that it had; None where that is not known,
    since the annotation is damaged."""

    workload: Workload
    strategy: JSON

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    @property
    def seen(self) -> bool:
        """Whether the controller has counted the pods of the present template."""
        metadata, status = self.workload.manifest["metadata"], self._status
        return int(status.get("observedGeneration", 0)) >= int(metadata.get("generation", 0))

    @property
    def behind(self) -> int:
        """How many replicas are not of the present template."""
        return max(0, (self.workload.replicas or 0) - int(self._status.get("updatedReplicas", 0)))

    @property
    def is_over(self) -> bool:
        """Whether another client has set another strategy meanwhile, so that nothing is set aside any more."""
        return not self.workload.waits_for_deletion

    @property
    def ends(self) -> bool:
        """Whether the hold can end, and nothing restarts by that, as far as the controller has counted. It counts
        replicas that a scale-in is about to delete, too (kubernetes stateful_set_control.go, updateStatus), so that
        the pods are to be looked at as well."""
        return self.is_over or (self.strategy is not None and self.seen and not self.behind)

    @property
    def _status(self) -> dict[str, JSON]:
        return self.workload.manifest.get("status") or {}


def hold_of(workload: Workload) -> Hold | None:
    """The hold of a workload, None where it has none."""
    text = workload.annotations.get(HOLD)
    if text is None or workload.ref.kind != STATEFUL_SET.name:
        return None
    try:
        strategy = read_annotation(text).get("updateStrategy")
    except DamagedAnnotation:
        strategy = None
    known = isinstance(strategy, dict) and strategy.get("type", _HELD) == _HELD
    return Hold(workload, strategy if known else None)


def why_not_held(workload: Workload) -> str:
    """Why the rollout of its own cannot be set aside; empty where it can."""
    if workload.ref.kind != STATEFUL_SET.name:
        return f"only the rollout of a {STATEFUL_SET.name} can be held"
    if partition := partition_of(workload.manifest.get("spec") or {}):
        return (
            f"it has a partition ({partition}), and while its rollout is held, replicas below the partition would come"
            " back from the new template, too"
        )
    return ""


def is_holding(write: Write) -> bool:
    """Whether a write sets the rollout of its workload aside."""
    return any(op.pointer == ANNOTATIONS / HOLD for op in write.operations)


def with_same_strategy(workload: Workload, write: Write) -> Write:
    """A write to the template that is made only while the update strategy is the one that was read, with which it
    replaces no pod: a rollout may give another one back meanwhile."""
    strategy = STRATEGY.read(workload.manifest, None)
    return replace(write, tests=(*write.tests, Operation("test", STRATEGY, strategy)))


def held(workload: Workload, write: Write) -> Write:
    """A write to the template that sets the rollout aside, too."""
    strategy = STRATEGY.read(workload.manifest)
    there = strategy is not MISSING
    text = json.dumps({"updateStrategy": strategy if there else {}}, sort_keys=True)
    set_aside = Operation("replace" if there else "add", STRATEGY, _ON_DELETE)
    return replace(
        with_same_strategy(workload, write),
        operations=(*write.operations, set_aside, Operation("add", ANNOTATIONS / HOLD, text)),
        before={**write.before, "updateStrategy": strategy if there else None},
        after={**write.after, "updateStrategy": _ON_DELETE},
    )


def release_of(hold: Hold) -> Write:
    """The write that gives the strategy back, unless something else has set one meanwhile. It needs the generation
    that was read: rules that are written at the same time rely on the strategy OnDelete."""
    workload = hold.workload
    generation = Pointer(("metadata", "generation"))
    strategy = STRATEGY.read(workload.manifest)
    annotation = ANNOTATIONS / HOLD
    tests = [
        Operation("test", generation, generation.read(workload.manifest, None)),
        Operation("test", annotation, workload.annotations[HOLD]),
        Operation("test", STRATEGY, None if strategy is MISSING else strategy),
    ]
    operations = [Operation("remove", annotation)]
    if not hold.is_over:
        given_back = Operation("replace", STRATEGY, hold.strategy)
        operations.insert(0, given_back if hold.strategy else Operation("remove", STRATEGY))
    return Write(
        target=workload.ref,
        path=workload.kind.path(workload.ref.namespace, workload.ref.name),
        uid=workload.uid,
        tests=tuple(tests),
        operations=tuple(operations),
        before={"updateStrategy": strategy},
        after={"updateStrategy": hold.strategy},
    )
