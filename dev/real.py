# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes in `make test`: python -m dev.real builds what they need, beside other steps.

Where real nodes cannot be set up, their tour is left out: its line in the summary says why, and it is no failure.
"""

from __future__ import annotations

import sys

from dev.commands import end_with_us
from dev.unit_matrix import REPORTS
from sandbox.binaries import BinariesError
from sandbox.real_nodes import files, ground

REASON = REPORTS / "real-left-out.txt"
"""Why the build failed, where it did."""


def main() -> int:
    end_with_us()
    if not (reason := left_out()):
        reason = _build()
        REASON.parent.mkdir(parents=True, exist_ok=True)
        REASON.write_text(reason)
    print(f"real nodes: {reason or 'all is built'}")
    return 0


def left_out() -> str:
    """Why the tour cannot run here, in one line; empty where it can."""
    if REASON.exists() and (reason := REASON.read_text()):
        return reason
    return "; ".join(ground.lacking(ground.survey()))


def _build() -> str:
    try:
        files.build(lambda line: print(line, flush=True))
    except BinariesError as error:
        return str(error).splitlines()[0]
    return ""


if __name__ == "__main__":
    sys.exit(main())
