# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and drills of a large cluster, as rollout and forecast_info make them, beside its verification.

Each is measured in a process of its own, in which the same cluster is read and verified first. Its
VirtualMachines and VirtualMachineInstances are read beforehand, like its pods. All of it is one
thread that computes, so its own time on the processor is what counts.

The plan is made as rollout makes it: a View lists the instances, compares each template with its pod
and verifies once, and plans from that. All of it but verifying is in the plan's time. Verifying (the
index, and each of the listed instances) is the other side of the ratio: there it is done for the
whole cluster, with the model. The row of the look and the plan has both.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
import typing as t
from dataclasses import replace
from unittest import mock

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.model.gc import collector_paused
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    VerifiedIndex,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout import judged_snapshot as views
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import (
    MAY_BE_ZERO,
    POSITIVE,
    RolloutOptions,
    parse_options,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import pod_key
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

from .generator import HOSTNAME, JSON
from .machines import displaced, machine
from .processes import resident_mb, run_python
from .reading import PAGE, Reading
from .row import Promise, Row

TIMES = 3
"""The quickest of so many counts, of verifying and of planning."""

SOME, ALL = 10, 1
"""One group in so many has a machine out of place, as far as its rule can be broken at all."""


class Measured(t.NamedTuple):
    """Seconds; megabytes above the snapshot; what was planned and drilled."""

    verify: float
    plan: float
    turn: float
    groups: int
    moves: int
    left: int
    drill: float
    drilled: int
    unknown: int
    above_mb: float
    peak_mb: float


def rows(file: str, name: str, *, promised: bool) -> list[Row]:
    """The rows of the cluster in `file` (see engine.write)."""
    usual, worst = (_measure(file, each) for each in (SOME, ALL))
    plan = (Promise("plan against model and verify", usual.plan / usual.verify, 0.25),)
    drills = (
        Promise("every node against model and verify", usual.drill / usual.verify, 10),
        Promise("gigabytes above the snapshot", usual.above_mb / 1000, 1),
    )
    return [
        Row(
            f"plan: {usual.groups:,} groups, {usual.moves:,} moves: {name}",
            "s",
            usual.plan,
            floor=usual.verify,
            promises=plan if promised else (),
        ),
        Row(f"a roll-out's look and plan: {name}", "s", usual.turn, floor=usual.verify),
        Row(
            f"plan: {worst.groups:,} groups, {worst.moves:,} moves: {name}",
            "s",
            worst.plan,
            floor=worst.verify,
        ),
        Row(
            f"drill of every node: {name}",
            "s",
            usual.drill,
            floor=usual.verify,
            peak_rss_mb=usual.peak_mb,
            promises=drills if promised else (),
        ),
    ]


def _measure(file: str, every: int) -> Measured:
    """Raises RuntimeError where an answer was quick because it is none."""
    found = Measured(*json.loads(run_python("tests.bench.planning", file, str(every))))
    if found.moves < found.groups / every / 2 or found.unknown:
        raise RuntimeError(f"this is no plan, or no drill: {found}")
    return found


def measure(file: str, every: int) -> Measured:
    """Read and verify a cluster, plan for half of its groups, and drill every node if only some
    groups are out of place."""
    snapshot, model = _read(file, every)
    before = resident_mb()
    verify = model + min(_verified(snapshot) for _time in range(TIMES))

    names = sorted(each.name for each in snapshot.namespaces)
    wanted = InstanceSelection(namespaces=frozenset(names[: (len(names) + 1) // 2]))
    planned = (
        _planned(_as_read_for(snapshot, wanted.namespaces), wanted) for _time in range(TIMES)
    )
    plan, turn, verifying = min(planned, key=lambda each: each[1] - each[2])
    groups = {pod.labels["group"] for pod in snapshot.pods if pod.namespace in wanted.namespaces}

    started = time.process_time()
    drills = drill(snapshot, [HOSTNAME], event="drain").drills if every == SOME else ()
    drilled = time.process_time() - started
    return Measured(
        verify,
        turn - verifying,
        turn,
        len(groups),
        len(plan.moves),
        len(plan.skipped),
        drilled,
        len(drills),
        sum(str(each.answer) == "unknown" for each in drills),
        resident_mb() - before,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def _verified(snapshot: Snapshot) -> float:
    """The seconds that verifying takes from the snapshot on."""
    started = time.process_time()
    index = Index(snapshot.nodes, snapshot.pods, snapshot.namespaces)
    for pod in index.pods:
        index.failures_in_place(pod_key(pod))
    return time.process_time() - started


def _planned(snapshot: Snapshot, wanted: InstanceSelection) -> tuple[Plan, float, float]:
    """The plan as check mode of rollout makes it by default, the seconds that it takes from the
    snapshot on, and those of them that go to verifying."""
    parameters = _parameters(wanted)
    verifying = _Verifying()
    with mock.patch.object(views, "VerifiedIndex", verifying):
        started = time.process_time()
        plan = views.JudgedSnapshot.of(snapshot, wanted, parameters).plan()
        return plan, time.process_time() - started, verifying.seconds


class _Verifying:
    """VerifiedIndex as a View uses it, with a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def of(self, snapshot: Snapshot, candidates: t.Iterable[DeclaredInstance]) -> VerifiedIndex:
        started = time.process_time()
        verified = VerifiedIndex.of(snapshot, candidates)
        self.seconds += time.process_time() - started
        return verified


def _parameters(wanted: InstanceSelection) -> RolloutOptions:
    given = dict.fromkeys(MAY_BE_ZERO, 0) | dict.fromkeys(POSITIVE, 1)
    options = {
        "namespaces": sorted(wanted.namespaces),
        "workloads": None,
        "only": None,
        "places": None,
        "scope": "violated",
        "allow": ["migrate"],
        "window": None,
        "pin_target_zone": False,
        "apply_pending_changes": False,
        "fail_on_skipped": False,
        "require_rights": False,
    }
    return parse_options(given | options, Topology.of())


def _as_read_for(snapshot: Snapshot, namespaces: t.Container[str]) -> Snapshot:
    """What a roll-out in these namespaces reads: their machines, and the pods of all."""
    return replace(
        snapshot,
        workloads=tuple(x for x in snapshot.workloads if x.ref.namespace in namespaces),
        vmis=tuple(x for x in snapshot.vmis if x.ref.namespace in namespaces),
    )


def _read(file: str, every: int) -> tuple[Snapshot, float]:
    """The snapshot of a cluster, and the seconds that it took to turn its pods into values."""
    seconds = 0.0
    with open(file, encoding="utf-8") as lines, collector_paused():
        reading = Reading(lines)
        pods = (pod for line in lines for pod in json.loads(line))
        stream = displaced(pods, reading.nodes, every)
        while page := list(itertools.islice(stream, PAGE)):
            started = time.process_time()
            reading.pods(page)
            seconds += time.process_time() - started
            for vm, vmi in map(machine, page):
                reading.machines([_own(vm)], [_own(vmi)])
        return reading.snapshot(), seconds


def _own(manifest: JSON) -> JSON:
    """A copy that shares nothing with the pod, as if the API server had sent it."""
    return t.cast("JSON", json.loads(json.dumps(manifest)))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
