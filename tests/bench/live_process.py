# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One module in a process of its own, or the floor: python -m tests.bench.live_process WHAT OPTIONS

The floor is what any client of the API server needs: each list in pages, in as many threads as a module
uses, and json.loads of each page, with the collector paused and nothing kept.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import io
import json
import pathlib
import re
import sys
import time
import typing as t
from unittest import mock

import urllib3
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import ListQuery
from ansible_collections.virt.placement.plugins.module_utils.model.gc import collector_paused

MODULES = "ansible_collections.virt.placement.plugins.modules"
FLOOR = "floor"
THREADS = 3
PAGE = "500"


class Measured(t.NamedTuple):
    """Seconds from the import of the module to its end; seconds on the processor of the whole process,
    and of it after the last list was read; megabytes at the peak; lengths and numbers of the result."""

    seconds: float
    cpu: float
    cpu_after_reading: float
    peak_mb: float
    result: dict[str, t.Any]


def measure_module(name: str, options: dict[str, t.Any]) -> Measured:
    """Raises RuntimeError where the module fails: a failure has no speed."""
    read_at = [0.0]
    read = ListQuery.read

    def noted(*arguments: t.Any) -> t.Any:
        listing = read(*arguments)
        read_at[0] = time.process_time()
        return listing

    begun = time.perf_counter()
    with (
        mock.patch.object(ListQuery, "read", noted),
        patch_module_args(options),
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.suppress(SystemExit),
    ):
        importlib.import_module(f"{MODULES}.{name}").main()
    seconds = time.perf_counter() - begun
    cpu, peak_mb = time.process_time(), _peak_mb()
    result = json.loads(output.getvalue())
    if result.get("failed"):
        raise RuntimeError(f"{name}: {result['msg']}")
    return Measured(seconds, cpu, cpu - read_at[0], peak_mb, _short(result))


def measure_floor(paths: t.Sequence[str], kubeconfig: str) -> Measured:
    """GET and json.loads of all pages of the lists at these paths."""
    content = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    pool = urllib3.PoolManager(
        maxsize=THREADS,
        ca_certs=cluster["certificate-authority"],
        headers={"Authorization": f"Bearer {user['token']}", "Accept": "application/json"},
    )

    def read(path: str) -> int:
        found, token = 0, ""
        while True:
            fields = {"limit": PAGE, **({"continue": token} if token else {})}
            answer = pool.request("GET", cluster["server"] + path, fields=fields)
            if answer.status != 200:
                raise RuntimeError(f"GET {path}: {answer.status} {answer.data[:300]!r}")
            page = json.loads(answer.data)
            found += len(page["items"])
            if not (token := page["metadata"].get("continue", "")):
                return found

    begun = time.perf_counter()
    with collector_paused(), concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        found = sum(threads.map(read, paths))
    seconds = time.perf_counter() - begun
    return Measured(seconds, time.process_time(), 0.0, _peak_mb(), {"objects": found})


def _short(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Of a list in the result, how long it is."""
    return {
        name: len(value) if isinstance(value, list) else value
        for name, value in result.items()
        if name in ("summary", "counts", "findings", "moves", "instances", "changed")
    }


def _peak_mb() -> float:
    """VmHWM is of this program alone; ru_maxrss may be of the process that it was forked from."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024 / 1e6


if __name__ == "__main__":
    what, given = sys.argv[1], json.loads(sys.argv[2])
    answer = measure_floor(**given) if what == FLOOR else measure_module(what, given)
    print(json.dumps(answer))
