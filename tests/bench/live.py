# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on a live API server with 10,000 VMs on 500 nodes: memory, time and what they read.

    python -m tests.bench.live --nodes 1250 --vms 25000    another size
    python -m tests.bench.live --dir DIRECTORY all lint    some tasks, on a control plane that stays

etcd and the API server alone are running, and nobody else asks them: the API server itself counts the
bytes of its answers (apiserver_response_sizes, apiserver_watch_events_sizes) and its audit log the
requests. Each module runs in a process of its own, several times in turns with the floor (see
live_process), and the shortest times count. Limits of time are ratios to the floor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import sys
import time
import typing as t
from dataclasses import dataclass, replace

from sandbox import Sandbox, processes

from . import live_cluster, playbooks
from .live_process import FLOOR, Measured
from .processes import run_python
from .row import Promise, Row, table

CLUSTER = pathlib.Path(__file__).with_name("live.yml")
FULL = (500, 10_000)
SMALL = (25, 500)
"""Nodes and VMs."""

LISTS = (
    "/api/v1/pods",
    "/apis/kubevirt.io/v1/virtualmachines",
    "/apis/kubevirt.io/v1/virtualmachineinstances",
    "/apis/kubevirt.io/v1/virtualmachineinstancemigrations",
    "/api/v1/persistentvolumes",
    "/api/v1/nodes",
    "/api/v1/namespaces",
)
"""What the floor reads: everything that a module could need."""

SIZES = re.compile(
    r"^(?:apiserver_response_sizes|apiserver_watch_events_sizes)_sum\{[^\n]*\} (\S+)$", re.MULTILINE
)

CACHED = "apiserver_watch_cache_resource_version"
CACHE_TIMEOUT = 300
MIGRATIONS = "virtualmachineinstancemigrations"
Options = dict[str, t.Any]


class Run(t.NamedTuple):
    """What one process used, and what the API server sent meanwhile."""

    measured: Measured
    megabytes: float
    requests: int


class Bench:
    """A control plane with the cluster in its etcd."""

    def __init__(self, sandbox: Sandbox, nodes: int, vms: int) -> None:
        self.sandbox = sandbox
        self.nodes = nodes
        self.vms = vms
        self.restored = [*live_cluster.team(nodes), *live_cluster.stray(nodes)]

    def fill(self) -> None:
        """Returns when the API server shows everything from its memory."""
        etcd = self.sandbox.etcd.url
        run_python("tests.bench.live_cluster", etcd, str(self.nodes), str(self.vms))
        for path in LISTS:
            self._wait_cached(path)

    def restore(self) -> None:
        """Take back what modules wrote."""
        self.sandbox.etcd.put_all(self.restored)

    def module(self, task: Task) -> Run:
        """A task in a process of its own."""
        kubeconfig = str(self.sandbox.kubeconfig(task.identity))
        return self._run(task.identity, task.module, {**task.options, "kubeconfig": kubeconfig})

    def floor(self) -> Run:
        """The floor in a process of its own."""
        kubeconfig = str(self.sandbox.kubeconfig("reader"))
        return self._run("reader", FLOOR, {"paths": LISTS, "kubeconfig": kubeconfig})

    def _run(self, identity: str, name: str, options: Options) -> Run:
        with Traffic(self.sandbox, identity) as traffic:
            answer = run_python("tests.bench.live_process", name, json.dumps(options))
        return Run(Measured(*json.loads(answer)), traffic.megabytes, traffic.requests)

    def _wait_cached(self, path: str) -> None:
        """Wait until the API server answers this list from memory. Before that it decodes each object for
        each answer, which takes ten times as long for custom resources."""
        page = self.sandbox.api.request("GET", path, query={"limit": "1"}).json()
        wanted = int(page["metadata"]["resourceVersion"])
        cached = re.compile(
            rf'^{CACHED}{{[^\n]*resource="{path.rsplit("/", 1)[1]}"}} (\S+)$', re.MULTILINE
        )
        deadline = time.monotonic() + CACHE_TIMEOUT
        while True:
            found = cached.search(self.sandbox.api.request("GET", "/metrics").text)
            if found and float(found[1]) >= wanted:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the API server has not cached {path} in {CACHE_TIMEOUT} s")
            time.sleep(1)


class Traffic:
    """What the API server sent, and who asked what, while the block runs."""

    def __init__(self, sandbox: Sandbox, identity: str) -> None:
        self._sandbox = sandbox
        self._user = sandbox.username(identity)
        self.megabytes = 0.0
        self.requests = 0
        self.created_migrations = 0

    def __enter__(self) -> Traffic:
        self._mark = self._sandbox.audit.mark()
        self._sent = self._bytes()
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = (self._bytes() - self._sent) / 1e6
        events = self._sandbox.audit.requests(self._mark, self._user)
        self.requests = len(events)
        self.created_migrations = sum(
            event.verb == "create" and event.resource == MIGRATIONS for event in events
        )

    def _bytes(self) -> float:
        metrics = self._sandbox.api.request("GET", "/metrics").text
        return sum(map(float, SIZES.findall(metrics)))


@dataclass(frozen=True)
class Task:
    """A task that is measured; `row` makes its row from its best run and that of the floor."""

    module: str
    options: Options
    row: t.Callable[[Run, Run], Row]
    identity: str = "reader"


def _everything(run: Run, floor: Run) -> Row:
    ratio = run.measured.cpu / floor.measured.cpu
    return _row(
        "placement_info of all, processor",
        run,
        run.measured.cpu,
        floor.measured.cpu,
        Promise("MB at the peak", run.measured.peak_mb, 260),
        Promise("times the floor on the processor", ratio, 2),
    )


def _team(run: Run, floor: Run) -> Row:
    return _row(
        "placement_info of a namespace with 10 VMs",
        run,
        run.measured.seconds,
        floor.measured.seconds,
        Promise("MB at the peak", run.measured.peak_mb, 150),
        Promise("share of the floor's time", _share(run, floor), 1.5 / FLOOR_SECONDS),
    )


def _rules(run: Run, floor: Run) -> Row:
    return _row(
        "rules on 3 VMs, which are written",
        run,
        run.measured.seconds,
        floor.measured.seconds,
        Promise("MB read", run.megabytes, 20),
        Promise("MB at the peak", run.measured.peak_mb, 110),
        Promise("share of the floor's time", _share(run, floor), 0.8 / FLOOR_SECONDS),
    )


def _forecast(run: Run, floor: Run) -> Row:
    """A forecast is about all pods: no limit is held."""
    return _row("forecast of rules on 3 VMs", run, run.measured.seconds, floor.measured.seconds)


def _lint(run: Run, floor: Run) -> Row:
    after = run.measured.cpu_after_reading
    share = after / floor.measured.cpu
    return _row(
        "lint_info online, processor after reading",
        run,
        after,
        floor.measured.cpu,
        Promise("share of the floor's time", share, 1.2 / FLOOR_SECONDS),
    )


FLOOR_SECONDS = 3.6
"""What the floor took on the machine on which limits in seconds were set, at 10,000 VMs."""


def _share(run: Run, floor: Run) -> float:
    return run.measured.seconds / floor.measured.seconds


def _row(name: str, run: Run, ours: float, floor: float, *promises: Promise) -> Row:
    return Row(
        name,
        "s",
        ours,
        floor=floor,
        peak_rss_mb=run.measured.peak_mb,
        promises=promises,
        also={
            "s": run.measured.seconds,
            "s on the processor": run.measured.cpu,
            "MB at the peak": run.measured.peak_mb,
            "MB read": run.megabytes,
            "requests": run.requests,
        },
    )


APART = {
    "namespace": live_cluster.STRAY,
    "rules": [
        {
            "name": "racks",
            "workloads": [{"names": list(live_cluster.STRAY_VMS)}],
            "keep_apart": {"topology_key": live_cluster.RACK},
        }
    ],
}

TASKS: t.Mapping[str, Task] = {
    "all": Task("placement_info", {}, _everything),
    "team": Task("placement_info", {"namespaces": [live_cluster.TEAM]}, _team),
    "rules": Task("rules", APART, _rules, "mover"),
    "forecast": Task("forecast_info", APART, _forecast),
    "lint": Task("lint_info", {**APART, "online": True}, _lint),
}
ROLLOUT = "rollout"


def rows(*, small: bool = False) -> list[Row]:
    """The rows of the live cluster. `small` only shows that it runs."""
    nodes, vms = SMALL if small else FULL
    found = measure(nodes, vms, turns=1 if small else 3, run_timeout=8 if small else 40)
    return [replace(row, promises=()) for row in found] if small else found


def measure(
    nodes: int,
    vms: int,
    *,
    turns: int,
    run_timeout: int,
    only: t.Container[str] = (*TASKS, ROLLOUT),
    directory: pathlib.Path | None = None,
) -> list[Row]:
    """The rows of a cluster of this size. With a `directory`, its control plane stays there and is used
    again: `python -m sandbox down --dir` ends it."""
    with contextlib.ExitStack() as stack:
        running = directory is not None and bool(processes.running(directory))
        if directory is not None and running:
            sandbox = Sandbox.attach(directory)
        else:
            sandbox = Sandbox.start(CLUSTER, directory, detached=directory is not None)
            stack.callback(sandbox.stop)
        bench = Bench(sandbox, nodes, vms)
        if not running:
            bench.fill()
        if directory is not None:
            stack.pop_all()
            sandbox.release()
        found = _measured(bench, turns, run_timeout, only)
    return [replace(row, name=f"{row.name}: {nodes} nodes, {vms} VMs") for row in found]


def _measured(bench: Bench, turns: int, run_timeout: int, only: t.Container[str]) -> list[Row]:
    tasks = {name: task for name, task in TASKS.items() if name in only}
    bench.floor()  # the API server's first answers take longer
    floors: list[Run] = []
    runs: dict[str, list[Run]] = {name: [] for name in tasks}
    for _turn in range(turns):
        floors.append(bench.floor())
        for name, task in tasks.items():
            runs[name].append(bench.module(task))
            bench.restore()
    floor = _best(floors)
    found = [task.row(_best(runs[name]), floor) for name, task in tasks.items()]
    print(f"bench: live: floor: {floor}", flush=True)
    if ROLLOUT in only:
        found.append(_rollout(bench, run_timeout))
        bench.restore()
    return found


def _best(runs: t.Sequence[Run]) -> Run:
    """The shortest times of some runs, and the highest peak."""
    measured = [run.measured for run in runs]
    best = measured[0]._replace(
        seconds=min(each.seconds for each in measured),
        cpu=min(each.cpu for each in measured),
        cpu_after_reading=min(each.cpu_after_reading for each in measured),
        peak_mb=max(each.peak_mb for each in measured),
    )
    return runs[0]._replace(measured=best)


def _rollout(bench: Bench, run_timeout: int) -> Row:
    """A rollout whose one migration hangs, since no virt-controller runs. Beside it the bytes of one
    step that only plans, for each process that the rollout started. Beyond `run_timeout` it has the time
    that reading takes."""
    where = {"namespaces": [live_cluster.STRAY]}
    plan = bench.module(Task("rollout", {**where, "_ansible_check_mode": True}, _rules, "mover"))
    if plan.measured.result["moves"] != 1:
        raise RuntimeError(f"the rollout plans {plan.measured.result['moves']} moves, not one")
    run_timeout += round(3 * plan.measured.seconds)
    task = {"virt.placement.rollout": {**where, "run_timeout": run_timeout}, "ignore_errors": True}
    with Traffic(bench.sandbox, "mover") as traffic:
        timing = playbooks.run([task], bench.sandbox.kubeconfig("mover"), count_modules=True)
    if not traffic.created_migrations:
        raise RuntimeError("the rollout started no migration")
    full = plan.megabytes * timing.modules
    return Row(
        f"rollout, a migration that hangs for {run_timeout} s",
        "MB",
        traffic.megabytes,
        floor=full,
        peak_rss_mb=timing.peak_rss_mb,
        promises=(Promise("MB beyond one full read a process", traffic.megabytes - full, 1),),
        also={
            "processes": timing.modules,
            "requests": traffic.requests,
            "MB at the peak": timing.peak_rss_mb,
        },
    )


def main() -> int:
    """Exit code 1 where a limit of the memory or of bytes is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=__doc__)
    parser.add_argument("--nodes", type=int, default=FULL[0])
    parser.add_argument("--vms", type=int, default=FULL[1])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--run-timeout", type=int, default=40, help="of the rollout")
    parser.add_argument(
        "--dir", type=pathlib.Path, help="keep the control plane here for the next time"
    )
    parser.add_argument("only", nargs="*", help=f"any of {', '.join((*TASKS, ROLLOUT))}")
    arguments = parser.parse_args()
    found = measure(
        arguments.nodes,
        arguments.vms,
        turns=arguments.turns,
        run_timeout=arguments.run_timeout,
        only=arguments.only or (*TASKS, ROLLOUT),
        directory=arguments.dir,
    )
    print(table(found))
    return 0 if all(promise.kept for row in found for promise in row.promises) else 1


if __name__ == "__main__":
    sys.exit(main())
