# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""placement_info's judge: what users run to verify, without the way to the API server.

VirtualMachines, VirtualMachineInstances and pods are turned into values as they are read, and every
machine is judged with what its VirtualMachine declares. The floor is json.loads of the same objects,
with the collector paused. One thread computes, so its own time on the processor is what counts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.gc import collector_paused
from ansible_collections.virt.placement.plugins.module_utils.planning.moves_needed import (
    moves_needed,
)

from .generator import JSON
from .machines import machine
from .processes import run_python
from .reading import Reading
from .row import Row


class Measured(t.NamedTuple):
    """Seconds; how many machines were judged, and how many of them break a rule."""

    loads: float
    model: float
    judge: float
    machines: int
    violated: int
    peak_mb: float

    @property
    def seconds(self) -> float:
        return self.model + self.judge


def rows(file: str, name: str, *, times: int) -> list[Row]:
    """The rows of the cluster in `file` (see engine.write), of which the quickest of some counts."""
    answers = [json.loads(run_python("tests.bench.judging", file)) for _time in range(times)]
    best = min((Measured(*answer) for answer in answers), key=lambda each: each.seconds)
    ratio = best.seconds / best.loads
    return [
        Row(
            f"placement_info's judge, {ratio:.1f} x json.loads: {name}",
            "s",
            best.seconds,
            floor=best.loads,
            peak_rss_mb=best.peak_mb,
        ),
        Row(f"placement_info's judge, each VM: {name}", "us", best.seconds / best.machines * 1e6),
    ]


def measure(file: str) -> Measured:
    """Read a cluster with its machines, and judge them."""
    loads = model = 0.0
    with open(file, encoding="utf-8") as lines, collector_paused():
        reading = Reading(lines)
        for line in lines:
            texts = (line, *_machines(line))
            started = time.process_time()
            page, vms, vmis = map(json.loads, texts)
            loaded = time.process_time()
            reading.pods(page)
            reading.machines(vms, vmis)
            loads += loaded - started
            model += time.process_time() - loaded
    started = time.process_time()
    verdicts = judge(reading.snapshot(), count_moves=moves_needed)
    judged = time.process_time() - started
    return Measured(
        loads,
        model,
        judged,
        len(verdicts.instances),
        sum(str(each.verdict) == "violated" for each in verdicts.instances),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def _machines(line: str) -> tuple[str, str]:
    """The machines of a page of pods as the API server would list them."""
    vms: list[JSON] = []
    vmis: list[JSON] = []
    for vm, vmi in map(machine, json.loads(line)):
        vms.append(vm)
        vmis.append(vmi)
    return json.dumps(vms), json.dumps(vmis)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
