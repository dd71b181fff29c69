# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.bench [--small] [ROW ...]`: run the rows, print a table, write build/bench.json."""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys

from .row import LeftOut, Row, table

ROWS = ("node_labels", "rules", "new_members", "drain", "starts", "real", "live", "engine")
RESULT = pathlib.Path("build/bench.json")


def main() -> int:
    """Exit code 1 where a ratio that we hold is broken; `--small` holds none."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", default=ROWS, help=f"any of {', '.join(ROWS)}")
    parser.add_argument("--small", action="store_true", help="only show that each row runs")
    arguments = parser.parse_args()
    results: list[Row | LeftOut] = []
    for name in arguments.rows:
        print(f"bench: {name} ...", flush=True)
        row = importlib.import_module(f"tests.bench.{name}")
        results += row.rows(small=arguments.small)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([row.as_json() for row in results], indent=1) + "\n")
    print(table(results))
    return 0 if all(promise.kept for row in results for promise in row.promises) else 1


if __name__ == "__main__":
    sys.exit(main())
