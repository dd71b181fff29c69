# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.conformance [DIR]: one line a file, then what disagrees; 1 if anything does."""

from __future__ import annotations

import sys
from pathlib import Path

from .runner import case_files, run_file

KEPT_HERE = Path(__file__).parent / "cases"


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        print("usage: python -m tests.conformance [DIR]", file=sys.stderr)
        return 2
    directory = Path(arguments[0]) if arguments else KEPT_HERE
    files = case_files(directory) if directory.is_dir() else []
    if not files:
        print(f"{directory}: no files of cases (*.json) there", file=sys.stderr)
        return 2
    results = []
    for path in files:
        results.append(run_file(path))
        print(results[-1].summary, flush=True)
    for result in results:
        for identity, differences in result.disagreements:
            for difference in differences:
                print(f"  {identity}: {difference}")
    return int(any(result.disagreements for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
