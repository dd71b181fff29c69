# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine at scale: verdicts of every machine, plans, and the drill of every node.

The floor is json.loads of the same objects in the same process, with the collector paused: the
fastest there is.
"""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import tempfile
import time
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.gc import collector_paused
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import pod_key
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

from . import judging, planning
from .generator import generate
from .processes import resident_mb, run_python
from .reading import PAGE
from .row import Promise, Row

FULL = ((50, 1_000, 400), (500, 10_000, 4_000), (5_000, 100_000, 40_000))
SMALL = ((50, 1_000, 400),)
"""Nodes, machines, groups."""

TIMES = 4


class Measured(t.NamedTuple):
    """Seconds, and megabytes above the parsed objects."""

    loads: float
    model: float
    build: float
    verify: float
    drill: float
    machines: int
    violations: int
    without_place: int
    above_mb: float
    peak_mb: float

    @property
    def judged(self) -> float:
        return self.model + self.build + self.verify


def rows(*, small: bool = False) -> list[Row]:
    """Promises are held at full size only: a small cluster is too quick to time."""
    measured, judged, plans = [], [], []
    sizes = SMALL if small else FULL
    for size in sizes:
        with tempfile.TemporaryDirectory() as directory:
            file = str(pathlib.Path(directory) / "cluster.json")
            run_python("tests.bench.engine", "write", file, *map(str, size))
            measured.append(_in_processes(file, size))
            judged += judging.rows(file, _name(size), times=_times(size))
            if size == sizes[-1]:
                plans = planning.rows(file, _name(size), promised=not small)
    found = []
    for size, each in zip(sizes, measured, strict=True):
        name = _name(size)
        largest = size == FULL[-1]
        found.append(
            Row(
                f"verdicts: {name}",
                "s",
                each.judged,
                floor=each.loads,
                peak_rss_mb=each.peak_mb,
                promises=_verdict_promises(each, measured[0]) if largest else (),
            )
        )
        found.append(
            Row(
                f"the first open node for each loss: {name}",
                "s",
                each.drill,
                floor=each.judged,
                peak_rss_mb=each.peak_mb,
            )
        )
        found.append(Row(f"verdicts, each VM: {name}", "us", each.judged / each.machines * 1e6))
    return [*found, *judged, *plans]


def _name(size: tuple[int, int, int]) -> str:
    return f"{size[0]} nodes, {size[1]} VMs"


def _verdict_promises(large: Measured, small: Measured) -> tuple[Promise, ...]:
    growth = (large.judged / large.machines) / (small.judged / small.machines)
    return (
        Promise("model and verify against json.loads", large.judged / large.loads, 2),
        Promise("gigabytes above the parsed objects", large.above_mb / 1000, 1),
        Promise("time a VM, against a cluster of 1,000", growth, 1.25),
    )


def _in_processes(file: str, size: tuple[int, int, int]) -> Measured:
    """Not in the process that wrote the cluster: what that used must not be there to be used again.
    Each is measured several times, and the quickest counts: the same for all that are compared."""
    answers = [
        json.loads(run_python("tests.bench.engine", "measure", file)) for _time in range(TIMES)
    ]
    best = min((Measured(*answer) for answer in answers), key=lambda each: each.judged)
    if not 0 < best.violations < best.machines / 10:
        raise RuntimeError(
            f"this is no verdict: {best.violations} of {best.machines} violate rules"
        )
    return best


def _times(size: tuple[int, int, int]) -> int:
    return 1 if size == FULL[-1] else 5


def write(file: str, nodes: int, machines: int, groups: int) -> None:
    """A cluster as lines of JSON: nodes, namespaces, then pages of pods."""
    cluster = generate(nodes, machines, groups)
    pages = (cluster.pods[n : n + PAGE] for n in range(0, machines, PAGE))
    with open(file, "w", encoding="utf-8") as lines:
        for each in (cluster.nodes, cluster.namespaces, *pages):
            lines.write(json.dumps(each) + "\n")


def measure(file: str) -> Measured:
    """Read a cluster, judge it, and drill it."""
    manifests: list[t.Any] = []
    loads = 0.0
    with open(file, encoding="utf-8") as lines, collector_paused():
        nodes, namespaces = json.loads(next(lines)), json.loads(next(lines))
        for line in lines:
            started = time.perf_counter()
            manifests += json.loads(line)
            loads += time.perf_counter() - started
    parsed = resident_mb()

    started = time.perf_counter()
    with collector_paused():
        pods = tuple(map(pod_from_manifest, manifests))
    model = time.perf_counter() - started
    started = time.perf_counter()
    index = Index(map(node_from_manifest, nodes), pods, map(namespace_from_manifest, namespaces))
    build = time.perf_counter() - started
    started = time.perf_counter()
    violations = sum(bool(index.failures_in_place(pod_key(pod))) for pod in index.pods)
    verify = time.perf_counter() - started
    above = resident_mb() - parsed

    started = time.perf_counter()
    with collector_paused():
        without_place = sum(_drill(index, name) for name in index.table.names)
    drill = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    machines = len(manifests)
    return Measured(
        loads, model, build, verify, drill, machines, violations, without_place, above, peak
    )


def _drill(index: Index, node_name: str) -> int:
    """One node is lost: its pods are placed on the others one after the other, where the first
    open node is, and put back. How many find no place."""
    lost = [index.remove(pod.uid) for pod in index.pods_on(node_name)]
    gone = ~(1 << index.table.numbers[node_name])
    placed = []
    for pod in lost:
        open_ = index.feasible_set(pod) & gone
        if open_:
            index.place(pod, index.table.names[(open_ & -open_).bit_length() - 1])
            placed.append(pod)
    for pod in placed:
        index.remove(pod.uid)
    for pod in lost:
        index.place(pod, node_name)
    return len(lost) - len(placed)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        print(json.dumps(measure(sys.argv[2])))
