# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes in `make test`: python -m dev.real builds what they need, beside other steps.

Where this machine lacks something for real nodes, the build and their tour are left out, and say why. A build that
fails where nothing is lacking is a failure.
"""

from __future__ import annotations

import sys

from dev.commands import end_with_us
from sandbox.binaries import BinariesError
from sandbox.real_nodes import files, ground


def main() -> int:
    end_with_us()
    if reason := left_out():
        print(f"real nodes: left out: {reason}")
        return 0
    try:
        files.build(lambda line: print(line, flush=True))
    except BinariesError as error:
        print(f"real nodes: {error}", file=sys.stderr)
        return 1
    print("real nodes: all is built")
    return 0


def left_out() -> str:
    """What this machine lacks for the tour, in one line; empty where it can run."""
    return "; ".join(ground.lacking(ground.survey()))


if __name__ == "__main__":
    sys.exit(main())
