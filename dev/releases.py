# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour on each pair of Kubernetes and KubeVirt: python -m dev.releases [--smoke | --build] [RELEASE ...].

The tour is the tests with the mark `tour`: labels, rules, rollout, drain, return to service, forecasts and the article.
With --smoke it is only one rule, one rollout and one drain, on one control plane; `make test` runs that on OLDEST, or
on the pairs that VIRT_PLACEMENT_PAIRS names. With --build the programs of the pairs are built, and nothing runs.
The summary has one line for each pair: the tests and the seconds, or why its programs cannot be built.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import binaries
from dev.commands import end_with_us
from dev.steps import PYTHON, Result, print_line, pytest_step, retry, run_step
from dev.unit_matrix import REPORTS
from sandbox.releases import RELEASES, VARIABLE, Release, UnknownRelease, find

SUITES = ("tests/modules", "tests/forecasts", "tests/integration", "tests/jobs")
AT_ONCE = 2
"""Tours that run at a time: each mostly waits for what its control planes do."""

SMOKE = (
    "tests/modules/test_rules.py::test_rule_is_written_once_to_each_vm",
    "tests/modules/test_rollout.py::test_three_vms_in_one_zone_are_spread_over_zones_by_migrations",
    "tests/modules/test_node_drain.py::test_vms_are_migrated_and_pods_evicted",
)
PAIRS = "VIRT_PLACEMENT_PAIRS"
"""The variable with the pairs of which `make test` runs SMOKE; none if it is empty."""

OLDEST = "1.31+1.4"
"""The pair of which `make test` runs SMOKE beside all tests on the default one."""

CASES = {
    "PLACEMENT_SEED": "1",
    "PLACEMENT_RANDOM_CLUSTERS": "3",
    "PLACEMENT_RANDOM_VMS": "2",
}
"""Random cases are the same ones on each pair, and few."""


class Tour(t.NamedTuple):
    """The outcome of a pair. `not_built`: why its programs cannot be built; empty where they were."""

    result: Result
    not_built: str = ""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    names = options.release or os.environ.get(VARIABLE, "").split() or list(RELEASES)
    try:
        releases = [find(name) for name in names]
    except UnknownRelease as error:
        print(error, file=sys.stderr)
        return 2
    end_with_us()
    if options.build:
        built = [is_built(release) for release in releases]
        return 0 if all(built) else 1
    REPORTS.mkdir(parents=True, exist_ok=True)
    tours = tours_of(releases, SMOKE if options.smoke else SUITES)
    print("\n== summary")
    for pair in tours:
        print_line(pair.result, pair.not_built)
    return 1 if any(pair.result.status for pair in tours) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", nargs="*", help="pairs of sandbox/releases.py; all without one")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--smoke", action="store_true", help="a rule, a rollout and a drain only")
    modes.add_argument("--build", action="store_true", help="build the programs, and run nothing")
    return parser.parse_args(arguments)


def tours_of(releases: t.Sequence[Release], suites: t.Sequence[str]) -> list[Tour]:
    """The tour of each pair, AT_ONCE of them at a time. Meanwhile the programs of the next pair are built."""
    with ThreadPoolExecutor(1) as build_pool, ThreadPoolExecutor(AT_ONCE) as tour_pool:
        builds = [build_pool.submit(is_built, release) for release in releases]
        running = [
            tour_pool.submit(tour, release, build.result, suites)
            for release, build in zip(releases, builds, strict=True)
        ]
        done = [future.result() for future in running]
    return [pair._replace(result=retry(pair.result)) for pair in done]


def is_built(release: Release) -> bool:
    """Builds the programs of a pair that are not in the cache; whether it has all of them."""
    try:
        binaries.build(PYTHON, release.name)
    except SystemExit:
        return False
    return True


def tour(release: Release, built: t.Callable[[], bool], suites: t.Sequence[str] = SUITES) -> Tour:
    """Runs the tour of these suites on a pair and prints its output. `built` waits for the programs of the pair."""
    title = f"Kubernetes {release.kubernetes}, KubeVirt {release.kubevirt}"
    cases = {name: os.environ.get(name, value) for name, value in CASES.items()}
    step = pytest_step(
        release.name, title, "-m", "tour", *suites, variables={**cases, VARIABLE: release.name}
    )
    if not built():
        return Tour(Result(step, 1, 0.0), why_not_built(release))
    return Tour(run_step(step, labelled=True))


def why_not_built(release: Release) -> str:
    """The first line of the build's error."""
    command: list[str | Path] = [PYTHON, binaries.PROGRAM, "build", release.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.splitlines() or ["its programs are built now: run again"])[0]


if __name__ == "__main__":
    sys.exit(main())
