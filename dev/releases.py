# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour on each pair of Kubernetes and KubeVirt: python -m dev.releases [--smoke] [RELEASE ...].

The tour is the tests with the mark `tour`: labels, rules, rollout, drain, return to service, forecasts and the article.
With --smoke it is only one rule, one rollout and one drain, on one control plane. `make test` runs that on the pairs
that VIRT_PLACEMENT_PAIRS names, and on none without it: the programs of a pair take minutes to build.
The summary has one line for each pair: the tests and the seconds, or why its programs cannot be built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from dev import binaries
from dev.commands import CHECKOUT, Command, end_with_us, environment, print_now, run
from dev.unit_matrix import REPORTS
from sandbox.releases import RELEASES, VARIABLE, Release, UnknownRelease, find

PYTHON = CHECKOUT / ".venv" / "bin" / "python"
SUITES = ("tests/modules", "tests/forecasts", "tests/integration", "tests/jobs")
AT_ONCE = 2
"""Tours that run at a time: each mostly waits for what its control planes do."""

SMOKE = (
    "tests/modules/test_rules.py::test_rule_is_written_once_to_each_vm",
    "tests/modules/test_rollout.py::test_three_vms_in_one_zone_are_spread_over_zones_by_migrations",
    "tests/modules/test_node_drain.py::test_vms_are_migrated_and_pods_evicted",
)
PAIRS = "VIRT_PLACEMENT_PAIRS"
"""The variable with the pairs of which `make test` runs SMOKE."""
CASES = {
    "PLACEMENT_SEED": "1",
    "PLACEMENT_RANDOM_CLUSTERS": "3",
    "PLACEMENT_RANDOM_VMS": "2",
}
"""Random cases are the same ones on each pair, and few."""


class Tour(t.NamedTuple):
    """What came of a pair; `words` are the counts, or why there are none."""

    release: Release
    passed: bool
    seconds: float
    words: str


def main(names: list[str]) -> int:
    smoke = "--smoke" in names
    asked = [name for name in names if name != "--smoke"]
    asked = asked or os.environ.get(VARIABLE, "").split() or list(RELEASES)
    try:
        releases = [find(name) for name in asked]
    except UnknownRelease as error:
        print(error, file=sys.stderr)
        return 2
    end_with_us()
    REPORTS.mkdir(parents=True, exist_ok=True)
    tours = tours_of(releases, SMOKE if smoke else SUITES)
    print("\n== summary")
    for each in tours:
        verdict = "ok" if each.passed else "FAILED"
        print(f"{each.release.name:12} {verdict:7} {each.seconds:5.0f} s  {each.words}")
    return 0 if all(each.passed for each in tours) else 1


def tours_of(releases: t.Sequence[Release], suites: t.Sequence[str]) -> list[Tour]:
    """The tour of each pair, AT_ONCE of them at a time. Meanwhile the programs of the next pair are built."""
    with ThreadPoolExecutor(1) as builders, ThreadPoolExecutor(AT_ONCE) as tourists:
        built = [(release, builders.submit(is_built, release)) for release in releases]
        running = [tourists.submit(tour, release, ready.result, suites) for release, ready in built]
        return [each.result() for each in running]


def is_built(release: Release) -> bool:
    """Build the programs of a pair, if they are not in the cache."""
    try:
        binaries.build(PYTHON, release.name)
    except SystemExit:
        return False
    return True


def tour(release: Release, ready: t.Callable[[], bool], suites: t.Sequence[str] = SUITES) -> Tour:
    """Run the tour of these suites on a pair when it is built; prints the output as it comes."""
    started = time.monotonic()
    if not ready():
        return Tour(release, False, time.monotonic() - started, why_not_built(release))
    print(f"\n== {release.name}: Kubernetes {release.kubernetes}, KubeVirt {release.kubevirt}")
    report = REPORTS / f"release-{release.name}.xml"
    report.unlink(missing_ok=True)
    arguments = ["-m", "pytest", "-q", "-m", "tour", f"--junitxml={report}"]
    cache = ["-o", f"cache_dir={REPORTS / 'cache' / release.name}"]
    env = environment(**{VARIABLE: release.name})
    for name, value in CASES.items():
        env.setdefault(name, value)
    started = time.monotonic()
    command = Command(release.name, [PYTHON, *arguments, *cache, *suites], env)
    outcome = run(command, lambda line: print_now(f"{release.name}: {line}"))
    counts = words(report.read_text()) if report.is_file() else "pytest made no report"
    return Tour(release, not outcome.status, time.monotonic() - started, counts)


def why_not_built(release: Release) -> str:
    """The first line of the build's error."""
    command: list[str | Path] = [PYTHON, binaries.PROGRAM, "build", release.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.splitlines() or ["its programs are built now: run again"])[0]


def words(report: str) -> str:
    """The counts of a report of pytest, and the names of the failed tests."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failed = [
        str(case.get("name"))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    text = f"{len(cases) - len(failed) - skipped} passed, {len(failed)} failed"
    text += f", {skipped} skipped" if skipped else ""
    return f"{text}: {', '.join(failed)}" if failed else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
