# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m demos [SYSTEM]`: rebuild a published system with our playbooks and assert each step."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import time
import typing as t

from demos import board
from demos.effort import PLAYED, Effort, begun, effort
from demos.stage import Stage, check, is_beyond, named, opened
from sandbox import binaries, cluster_file
from sandbox.real_nodes import files, ground

DEFAULT = "kubevirt"
REPORTS = pathlib.Path(__file__).resolve().parents[1] / "build" / "demos"


def systems() -> list[str]:
    return sorted(p.parent.name for p in pathlib.Path(__file__).parent.glob("*/steps.py"))


def title(name: str, number: int, of: int) -> str:
    text = f"[{number}/{of}] {name}"
    return f"\n{text}\n{'=' * len(text)}"


def report(stage: Stage, system: str, keys: t.Collection[str]) -> pathlib.Path:
    """Write the page that shows where the VMs run, and what fails with each zone and node."""
    page = REPORTS / f"{system}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    wanted = {
        "placement_report_html": str(page),
        "placement_report_cluster_name": system,
        "placement_report_domains_of": ["zone", "node"] if board.ZONE in keys else ["node"],
    }
    page.unlink(missing_ok=True)
    result = stage.play("report", wanted, identity="reader", quiet=True)
    check(result.rc == 0, f"the playbook report ended with rc {result.rc}:\n{result.stdout}")
    check(page.is_file(), f"{page} is missing")
    return page


def prepare(system: str) -> str:
    """Build what real nodes need, where the system has them. Returns what the machine lacks, or why it failed."""
    wanted = cluster_file.load(importlib.import_module(f"demos.{system}.steps").CLUSTER)
    if not wanted.real:
        return ""
    try:
        ground.check(len(wanted.nodes))
        files.build(lambda line: print(line, flush=True))
    except (ground.GroundError, binaries.BinariesError) as error:
        return str(error)
    return ""


def run(system: str) -> int:
    """Run every step; 1 names the first one whose proof failed."""
    play = importlib.import_module(f"demos.{system}.steps")
    started = time.monotonic()
    print(f"Starting a control plane for '{system}' ...", flush=True)
    with opened(play) as stage:
        print(f"  up in {time.monotonic() - started:.0f} s", flush=True)
        taken = Effort(0, 0, 0, PLAYED)

        def draw() -> str:
            return board.draw(stage.sandbox, stage.namespace, play.COLUMNS)

        for number, step in enumerate(play.STEPS, 1):
            print(title(named(step), number, len(play.STEPS)))
            print(f"{step.__doc__}\n", flush=True)
            since = begun(stage)
            try:
                step(stage)
            except AssertionError as failure:
                print(draw())
                print(f"\nFAILED in step {number} ({named(step)}): {failure}")
                return 1
            print("\n" + draw(), flush=True)
            if not is_beyond(step):
                taken += effort(stage, since)
        if published := getattr(play, "PUBLISHED", None):
            print(f"\nThe published text needs {published}.")
        print(f"Here it took {taken}.")
        if more := [named(step) for step in play.STEPS if is_beyond(step)]:
            print(f"Not counted, since the text has no such step: {'; '.join(more)}.")
        try:
            page = report(stage, system, play.COLUMNS.values())
        except AssertionError as failure:
            print(f"\nFAILED to write the report: {failure}")
            return 1
        print(f"\nThe report of this cluster is a page for your browser: {page}")
    print(f"\nAll {len(play.STEPS)} steps hold ({time.monotonic() - started:.0f} s).")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demos", description=__doc__)
    parser.add_argument("system", nargs="?", default=DEFAULT, choices=systems())
    system = parser.parse_args().system
    if problem := prepare(system):
        print(problem, file=sys.stderr)
        return 1
    return run(system)


if __name__ == "__main__":
    sys.exit(main())
